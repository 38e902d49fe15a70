//! Fuses reads at computed indices.
//!
//! JAX counts a negative index from the end, and then clamps it or fills. ONNX itself counts a negative index from
//! the end, so the index only needs to be clamped on both sides.

use algebra::pattern::{Pattern, either, greater, hole, node, number};
use algebra::rewrite::{Formulas, Match, Result, ensure, rewrite};
use onnx::{DType, Op, OpType, ValueId};

use super::pick::{pick, to_entry_of_one_axis};

pub(crate) static REWRITES: Formulas = Formulas::new(&[&[
    rewrite("fuse-gather", || gather(OpType::Gather), to_gather),
    rewrite("fuse-gather", || gather(OpType::GatherElements), to_gather),
    rewrite("fuse-bounds", was_in_bounds, to_was_in_bounds),
]]);

/// Runs after the other rewrites of indices.
pub(crate) static ENTRIES: Formulas = Formulas::new(&[&[
    rewrite("fuse-entry", entry, to_entry),
    rewrite("fuse-entry", pick, to_entry_of_one_axis),
]]);

/// `i < 0 ? i + n : i`
fn wrapped() -> Pattern {
    let i = hole("i");
    let zero = Pattern::from(0.0);
    let is_negative = greater(&zero, &i);
    node(OpType::Where, &[&is_negative, &(&i + number("size")), &i])
}

/// `min(max(i, 0), n − 1)`, in which a negative `i` counts from the end; or the same as a vector of one element
fn in_bounds() -> Pattern {
    let clipped = |i: &Pattern| node(OpType::Clip, &[i, &0.0.into(), &number("last")]);
    let vector = node(OpType::Unsqueeze, &[&wrapped()]).named("vector");
    either(&[&clipped(&wrapped()), &clipped(&vector)])
}

/// `x[min(max(i, 0), n − 1)]`
fn gather(op: OpType) -> Pattern {
    node(op, &[&hole("x"), &in_bounds().named("place")]).named("entries")
}

/// Clamps `i` to `−n … n − 1`. ONNX counts a negative index from the end, as JAX does.
fn to_gather(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let x = found.value("x")?;
    let axis = found.axis("entries")?;
    let op =
        if found.root().op == OpType::Gather { OpType::Gather } else { OpType::GatherElements };
    let size = found.number("size")?;
    ensure(
        found.ty(x)?.shape[axis].known() == Some(size as i64),
        "the index does not count from the end of the axis",
    )?;
    let place = clipped_both_ways(found)?;
    Ok(Op::new(op, &[x, place]).attr("axis", axis as i64))
}

/// `min(max(i, 0), n − 1) = i`, which tells whether the index was in bounds
fn was_in_bounds() -> Pattern {
    node(OpType::Equal, &[&in_bounds().named("place"), &either(&[&wrapped(), &hole("vector")])])
}

fn to_was_in_bounds(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    ensure(found.maybe("vector").is_none(), "the indices are vectors")?;
    let place = clipped_both_ways(found)?;
    Ok(Op::new(OpType::Equal, &[place, found.value("i")?]))
}

/// `min(max(i, −n), n − 1)`
fn clipped_both_ways(found: &mut Match<'_, '_, '_>) -> Result<ValueId> {
    let (mut i, size) = (found.value("i")?, found.number("size")?);
    if found.number("last")? != size - 1.0 || size < 1.0 {
        return Err("the index is not clamped to the axis that it refers to".into());
    }
    let dtype = found.ty(i)?.dtype;
    // For integers of 64 bits, ONNX Runtime's `Clip` compares the halves.
    ensure(dtype == DType::I32, "ONNX Runtime's Clip is wrong for some values of this type")?;
    if found.maybe("vector").is_some() {
        let axes = found.node("vector")?.inputs[1].ok_or("no axes")?;
        i = found.insert(Op::new(OpType::Unsqueeze, &[i, axes]));
    }
    let low = found.scalar(dtype, -size)?;
    let high = found.scalar(dtype, size - 1.0)?;
    Ok(found.insert(Op::new(OpType::Clip, &[i, low, high])))
}

/// One entry along an axis, read by an index that was reshaped to a vector of one element
fn entry() -> Pattern {
    let place = node(OpType::Unsqueeze, &[&hole("i")]);
    let place = either(&[&node(OpType::Clip, &[&place, &hole("low"), &hole("high")]), &place]);
    node(
        OpType::Squeeze,
        &[&node(OpType::Gather, &[&hole("x"), &place.named("place")]).named("entries")],
    )
    .named("entry")
}

fn to_entry(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let x = found.value("x")?;
    let axis = found.axis("entries")?;
    let mut i = found.value("i")?;
    let ty = found.ty(i)?;
    ensure(
        ty.rank() == 0 && found.axes("entry")? == [axis],
        "the squeeze drops an axis that the gather did not create",
    )?;
    if let (Some(low), Some(high)) = (found.maybe("low"), found.maybe("high")) {
        i = found.insert(Op::new(OpType::Clip, &[i, low, high]));
    }
    Ok(Op::new(OpType::Gather, &[x, i]).attr("axis", axis as i64))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use onnx::Edit;

    use testing::check;

    fn run(edit: &mut Edit<'_>) {
        super::REWRITES.run(edit);
        edit.drop_unread();
    }

    fn entries(edit: &mut Edit<'_>) {
        super::ENTRIES.run(edit);
        edit.drop_unread();
    }

    const WRAPPED: &str = "%0:bool[3] = Greater(0:i32, i)
%1:i32[3] = Add(i, 10:i32)
%2:i32[3] = Where(%0, %1, i)
%3:i32[3] = Clip(%2, 0:i32, 9:i32)
";

    #[test]
    fn onnx_counts_from_the_end_itself() {
        check(
            run,
            &format!(
                "graph g(x:f32[10,4], i:i32[3]) -> (y)\n{WRAPPED}y:f32[3,4] = Gather(x, %3) {{axis=0}}"
            ),
            expect![[r#"
                graph g(x:f32[10,4], i:i32[3]) -> (y)
                %0 = Clip(i, -10:i32, 9:i32)  # 5 2 3 4 6
                y:f32[3,4] = Gather(x, %0) {axis=0}  # 6 2 3 4 5
            "#]],
        );
    }

    #[test]
    fn out_of_bounds_reads_are_filled() {
        check(
            run,
            &format!(
                "graph g(x:f32[10,4], i:i32[3]) -> (y)\n{WRAPPED}%4:bool[3] = Equal(%3, %2)
%5:f32[3,4] = Gather(x, %3) {{axis=0}}
%6:bool[3,1] = Unsqueeze(%4, [1]:i64)
y:f32[3,4] = Where(%6, %5, nan)"
            ),
            expect![[r#"
                graph g(x:f32[10,4], i:i32[3]) -> (y)
                %0 = Clip(i, -10:i32, 9:i32)  # 5 2 3 4 6
                %1 = Equal(%0, i)  # 6 2 3 4 5
                %2 = Clip(i, -10:i32, 9:i32)  # 5 2 3 4 7
                %3 = Gather(x, %2) {axis=0}  # 7 2 3 4 5
                %4 = Unsqueeze(%1, [1]:i64)  # 8
                y:f32[3,4] = Where(%4, %3, nan)  # 9
            "#]],
        );
    }

    #[test]
    fn along_an_axis_of_another_size_it_does_not() {
        check(
            run,
            &format!(
                "graph g(x:f32[12,4], i:i32[3]) -> (y)\n{WRAPPED}y:f32[3,4] = Gather(x, %3) {{axis=0}}"
            ),
            expect![[r#"
                graph g(x:f32[12,4], i:i32[3]) -> (y)
                %0 = Greater(0:i32, i)  # 2
                %1 = Add(i, 10:i32)  # 3
                %2 = Where(%0, %1, i)  # 4
                %3 = Clip(%2, 0:i32, 9:i32)  # 5
                y:f32[3,4] = Gather(x, %3) {axis=0}  # 6
            "#]],
        );
    }

    #[test]
    fn an_array_of_one_index_counts_from_the_end_too() {
        check(
            run,
            "graph g(x:f32[10,4], i:i32[]) -> (y)
%0:bool[] = Greater(0:i32, i)
%1:i32[] = Add(i, 10:i32)
%2:i32[] = Where(%0, %1, i)
%3:i32[1] = Unsqueeze(%2, [0]:i64)
%4:i32[1] = Clip(%3, 0:i32, 9:i32)
y:f32[1,4] = Gather(x, %4) {axis=0}",
            expect![[r#"
                graph g(x:f32[10,4], i:i32[]) -> (y)
                %0 = Unsqueeze(i, [0]:i64)  # 5 2 3 4 6 7
                %1 = Clip(%0, -10:i32, 9:i32)  # 6 2 3 4 5 7
                y:f32[1,4] = Gather(x, %1) {axis=0}  # 7 2 3 4 5 6
            "#]],
        );
    }

    #[test]
    fn one_entry_needs_no_array_of_indices() {
        check(
            entries,
            "graph g(x:f32[10,4], i:i32[]) -> (y)
%3:i32[1] = Unsqueeze(i, [0]:i64)
%4:i32[1] = Clip(%3, -10:i32, 9:i32)
%5:f32[1,4] = Gather(x, %4) {axis=0}
y:f32[4] = Squeeze(%5, [0]:i64)",
            expect![[r#"
                graph g(x:f32[10,4], i:i32[]) -> (y)
                %0 = Clip(i, -10:i32, 9:i32)  # 3 2 4 5
                y:f32[4] = Gather(x, %0) {axis=0}  # 4 2 3 5
            "#]],
        );
    }

    #[test]
    fn a_slice_of_one_without_its_axis_is_an_entry() {
        check(
            entries,
            "graph g(x:f32[B,4,1]) -> (y, z)
%0:f32[B,1,1] = Slice(x, [2]:i64, [3]:i64, [1]:i64)
y:f32[B,1] = Squeeze(%0, [1]:i64)
%1:f32[B,1,1] = Slice(x, [1]:i64, [2]:i64, [1]:i64)
z:f32[B,1] = Squeeze(%1, [2]:i64)",
            expect![[r#"
                graph g(x:f32[B,4,1]) -> (y, z)
                y:f32[B,1] = Gather(x, 2:i64) {axis=1}  # 3 2
                %0 = Slice(x, [1]:i64, [2]:i64, [1]:i64)  # 4
                z:f32[B,1] = Squeeze(%0, [2]:i64)  # 5
            "#]],
        );
    }
}
