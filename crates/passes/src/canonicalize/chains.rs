//! `merge-chains`: merges two casts or two slices, and a stack with the reshape of its new axis. Drops empty parts of a
//! `Concat`.

use algebra::rewrite::require;
use onnx::{Attr, DType, Edit, Fact, Op, OpType, Outcome, Patch, ValueId};

use super::{Change, Rule};
use crate::layout_ops::stacks::Stack;

pub(crate) const RULE: Rule = Rule {
    name: "merge-chains",
    does: "merges two casts or two slices, a stack with the reshape of its new axis, and drops empty parts of a `Concat`",
    apply: merge_chains,
};

fn merge_chains(patch: &mut Patch<'_, '_>) -> Outcome {
    merge_slices(patch).or_else(|| drop_empty_parts(patch)).or_else(|| {
        let (by, fused) = merged(patch, patch.root())?;
        patch.done(&fused, by)
    })
}

fn merged(edit: &Edit<'_>, index: usize) -> Option<Change> {
    let first = edit.producer(edit.input(index, 0)?)?;
    match (edit.op(index)?, edit.op(first)?) {
        (OpType::Cast, OpType::Cast) => joined_cast(edit, index, first),
        (OpType::Slice, OpType::Concat) => part_of_concat(edit, index, first),
        (OpType::Reshape, OpType::Concat) => joined_stack(edit, index, first),
        _ => None,
    }
}

/// Merges two casts, if the first one keeps every value. Casts from a float to an integer and back are kept, because the
/// result for numbers that are out of range depends on the first cast.
pub(crate) fn joined_cast(edit: &Edit<'_>, index: usize, first: usize) -> Option<Change> {
    let x = edit.input(first, 0)?;
    let from = edit.dtype(x)?;
    let between = edit.result_ty(first)?.dtype;
    let to = edit.result_ty(index)?.dtype;
    let stays_whole = between.is_int() && (to.is_int() || to == DType::Bool);
    let fits = || {
        let (low, high) = edit.fact(x).ints().filter(|_| from.is_int() && between.is_int())?;
        let (least, most) = Fact::of_type(between).ints()?;
        Some(least <= low && high <= most)
    };
    if !(holds(between, from) || fits() == Some(true))
        || !(stays_whole || to.is_float() || from == to)
    {
        return None;
    }
    let overflows = matches!(edit.node(index).attr("saturate"), Some(Attr::Int(0)));
    if from == to && (overflows || !is_narrow_float(to)) {
        return Some((x.into(), vec![first]));
    }
    // The attribute of this cast determines the result for numbers that are too large.
    require(!is_narrow_float(to))?;
    Some((Op::new(OpType::Cast, &[x]).attr("to", i64::from(to.code())).into(), vec![first]))
}

/// True if the wide type represents every value of the narrow type.
fn holds(wide: DType, narrow: DType) -> bool {
    use DType::{Bf16, Bool, F16, F32, F64};
    let whole_bits = |dtype: DType| match dtype {
        F64 => 53,
        F32 => 24,
        F16 => 11,
        Bf16 => 8,
        _ if dtype.is_signed_int() => dtype.bits() - 1,
        _ if dtype.is_unsigned_int() => dtype.bits(),
        _ => 0,
    };
    let is_common = |dtype: DType| matches!(dtype, F64 | F32 | F16 | Bf16);
    match narrow {
        Bool => wide.is_int() || is_common(wide),
        F16 | Bf16 => matches!(wide, F32 | F64),
        _ if is_narrow_float(narrow) => matches!(wide, F32 | F64),
        F32 => wide == F64,
        _ if narrow.is_int() => {
            let keeps_sign = !narrow.is_signed_int() || !wide.is_unsigned_int();
            // For float16, the largest exact integer is not the largest number.
            let may = wide.is_int() || matches!(wide, F32 | F64);
            may && keeps_sign && whole_bits(narrow) <= whole_bits(wide)
        }
        _ => false,
    }
}

/// True for 8-bit floats. The attribute `saturate` of a cast determines their overflow.
fn is_narrow_float(dtype: DType) -> bool {
    dtype.is_float() && dtype.bits() == 8
}

/// Merges a stack with a reshape that merges the new axis with the next axis.
fn joined_stack(edit: &Edit<'_>, index: usize, first: usize) -> Option<Change> {
    let stack = Stack::at(edit, first)?;
    let result = &edit.result_ty(index)?.shape;
    let is_only = edit.reads(edit.result(first)) == 1;
    let is_joined = is_only && stack.joined_shape(edit)?[..] == result[..];
    let fused = || [stack.distinct_unsqueezes(), vec![first]].concat();
    is_joined.then(|| (stack.joined().into(), fused()))
}

/// Replaces a slice of a `Concat` with an operand of the `Concat`.
fn part_of_concat(edit: &Edit<'_>, index: usize, first: usize) -> Option<Change> {
    let Bounds { starts, ends, axes } = bounds_of(edit, index)?;
    let (&[start], &[end], &[axis]) = (&starts[..], &ends[..], &axes[..]) else { return None };
    let concat = edit.node(first);
    let axis = edit.axis(first).filter(|&own| own as i64 == axis)?;
    let mut offset = 0;
    for part in 0..concat.inputs.len() {
        let value = edit.input(first, part)?;
        let size = edit.shape(value)?.get(axis)?.known()?;
        if offset == start && offset + size == end {
            return Some((value.into(), vec![first]));
        }
        offset += size;
    }
    None
}

/// Drops the parts of a `Concat` that have no entries.
fn drop_empty_parts(patch: &mut Patch<'_, '_>) -> Outcome {
    let index = patch.root();
    require(patch.op(index)? == OpType::Concat)?;
    let axis = patch.axis(index)?;
    let parts: Vec<ValueId> = patch.inputs(index).into_iter().collect::<Option<_>>()?;
    let has_entries = |part: &ValueId| {
        patch.shape(*part).and_then(|shape| shape.get(axis)).is_none_or(|dim| !dim.is(0))
    };
    let mut kept = parts.clone();
    kept.retain(has_entries);
    require(!kept.is_empty() && kept.len() < parts.len())?;
    match kept[..] {
        [only] => patch.done(&[], only),
        _ => patch.done(&[], Op::of(patch.node(index), kept.into_iter().map(Some).collect())),
    }
}

/// The bounds of a slice, which all count from the front.
struct Bounds {
    starts: Vec<i64>,
    ends: Vec<i64>,
    axes: Vec<i64>,
}

/// Returns the bounds of a slice without steps, if they are constants that count from the front.
fn bounds_of(edit: &Edit<'_>, index: usize) -> Option<Bounds> {
    let node = edit.node(index);
    require(node.op == OpType::Slice && node.inputs.len() == 4)?;
    let ints = |operand: usize| edit.ints(index, operand);
    let bounds = Bounds { starts: ints(1)?, ends: ints(2)?, axes: ints(3)? };
    let all = [&bounds.starts[..], &bounds.ends, &bounds.axes].concat();
    all.iter().all(|&number| number >= 0).then_some(bounds)
}

fn merge_slices(patch: &mut Patch<'_, '_>) -> Outcome {
    let second = bounds_of(patch, patch.root())?;
    let first = patch.producer(patch.input(patch.root(), 0)?)?;
    let mut joined = bounds_of(patch, first)?;
    for ((&axis, &start), &end) in second.axes.iter().zip(&second.starts).zip(&second.ends) {
        if let Some(known) = joined.axes.iter().position(|&known| known == axis) {
            let offset = joined.starts[known];
            joined.starts[known] = offset.checked_add(start)?;
            joined.ends[known] = joined.ends[known].min(offset.saturating_add(end));
        } else {
            joined.axes.push(axis);
            joined.starts.push(start);
            joined.ends.push(end);
        }
    }
    let x = patch.input(first, 0)?;
    patch.take(&[first]);
    let Bounds { starts, ends, axes } = joined;
    let [starts, ends, axes] = [starts, ends, axes].map(|list| patch.integers(&list));
    patch.done(&[], Op::new(OpType::Slice, &[x, starts?, ends?, axes?]))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check_lean, each};

    #[test]
    fn two_casts_are_merged_if_the_first_one_keeps_every_value() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:f16[3], n:i8[3], b:bool[3]) -> (y, z, w, v)
%0:f32[3] = Cast(x) {to=1}
%1:f16[3] = Cast(%0) {to=10}
y:f16[3] = Neg(%1)
%2:i32[3] = Cast(n) {to=6}
z:i64[3] = Cast(%2) {to=7}
%3:i32[3] = Cast(b) {to=6}
w:f32[3] = Cast(%3) {to=1}
%4:i64[3] = Cast(n) {to=7}
v:u8[3] = Cast(%4) {to=2}",
            expect![[r#"
                graph g(x:f16[3], n:i8[3], b:bool[3]) -> (y, z, w, v)
                y:f16[3] = Neg(x)  # 4 2 3
                z:i64[3] = Cast(n) {to=7}  # 6 5
                w:f32[3] = Cast(b) {to=1}  # 8 7
                v:u8[3] = Cast(n) {to=2}  # 10 9
            "#]],
        );
    }

    #[test]
    fn a_cast_that_rounds_or_wraps_is_kept() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:f32[3], n:i32[3]) -> (y, z, w)
%0:f16[3] = Cast(x) {to=10}
y:f32[3] = Cast(%0) {to=1}
%1:f32[3] = Cast(n) {to=1}
z:i32[3] = Cast(%1) {to=6}
%2:u32[3] = Cast(n) {to=12}
w:i64[3] = Cast(%2) {to=7}",
            expect![[r#"
                graph g(x:f32[3], n:i32[3]) -> (y, z, w)
                %0 = Cast(x) {to=10}  # 2
                y:f32[3] = Cast(%0) {to=1}  # 3
                %1 = Cast(n) {to=1}  # 4
                z:i32[3] = Cast(%1) {to=6}  # 5
                %2 = Cast(n) {to=12}  # 6
                w:i64[3] = Cast(%2) {to=7}  # 7
            "#]],
        );
    }

    #[test]
    fn two_slices_are_merged() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:f32[9,9]) -> (y, z)
%0:f32[6,9] = Slice(x, [1]:i64, [7]:i64, [0]:i64)
y:f32[3,2] = Slice(%0, [2, 0]:i64, [5, 2]:i64, [0, 1]:i64)
%1:f32[5,9] = Slice(x, [0]:i64, [9]:i64, [0]:i64, [2]:i64)
z:f32[1,9] = Slice(%1, [1]:i64, [2]:i64, [0]:i64)",
            expect![[r#"
                graph g(x:f32[9,9]) -> (y, z)
                y:f32[3,2] = Slice(x, [3, 0]:i64, [6, 2]:i64, [0, 1]:i64)  # 3 2
                %0 = Slice(x, [0]:i64, [9]:i64, [0]:i64, [2]:i64)  # 4
                z:f32[1,9] = Slice(%0, [1]:i64, [2]:i64, [0]:i64)  # 5
            "#]],
        );
    }

    #[test]
    fn a_slice_of_a_concat_is_an_operand_of_the_concat() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:f32[2,3], z:f32[2,4]) -> (y, w)
%0:f32[2,7] = Concat(x, z) {axis=1}
%1:f32[2,4] = Slice(%0, [3]:i64, [7]:i64, [1]:i64)
y:f32[2,4] = Exp(%1)
%2:f32[2,4] = Slice(%0, [2]:i64, [6]:i64, [1]:i64)
w:f32[2,4] = Exp(%2)",
            expect![[r#"
                graph g(x:f32[2,3], z:f32[2,4]) -> (y, w)
                %0 = Concat(x, z) {axis=1}  # 2
                y:f32[2,4] = Exp(z)  # 4 2 3
                %1 = Slice(%0, [2]:i64, [6]:i64, [1]:i64)  # 5
                w:f32[2,4] = Exp(%1)  # 6
            "#]],
        );
    }

    #[test]
    fn a_stack_whose_axis_is_merged_with_the_next_is_joined() {
        check_lean(
            each(super::RULE.apply),
            "graph g(a:f32[B,2,3], b:f32[B,2,3]) -> (x, y)
%0:f32[B,1,2,3] = Unsqueeze(a, [1]:i64)
%1:f32[B,1,2,3] = Unsqueeze(b, [1]:i64)
%2:f32[B,2,2,3] = Concat(%0, %1) {axis=1}
x:f32[B,4,3] = Reshape(%2, [0, 4, 3]:i64)
%3:f32[B,2,2,3] = Concat(%1, %0) {axis=1}
y:f32[B,2,6] = Reshape(%3, [0, 2, 6]:i64)",
            expect![[r#"
                graph g(a:f32[B,2,3], b:f32[B,2,3]) -> (x, y)
                %0 = Unsqueeze(a, [1]:i64)  # 2
                %1 = Unsqueeze(b, [1]:i64)  # 3
                x:f32[B,4,3] = Concat(a, b) {axis=1}  # 4 2 3 5
                %2 = Concat(%1, %0) {axis=1}  # 6
                y:f32[B,2,6] = Reshape(%2, [0, 2, 6]:i64)  # 7
            "#]],
        );
    }

    #[test]
    fn a_cast_to_8_bits_and_back_is_left_out_only_if_it_keeps_infinity() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:f8_e5m2[3], z:f32[3]) -> (y, w, v)
%0:f32[3] = Cast(x) {to=1}
%1:f8_e5m2[3] = Cast(%0) {to=19, saturate=0}
y:f8_e5m2[3] = Identity(%1)
%2:f32[3] = Cast(x) {to=1}
w:f8_e5m2[3] = Cast(%2) {to=19}
%3:f8_e5m2[3] = Cast(z) {to=19, saturate=0}
v:f32[3] = Cast(%3) {to=1}",
            expect![[r#"
                graph g(x:f8_e5m2[3], z:f32[3]) -> (y, w, v)
                y:f8_e5m2[3] = Identity(x)  # 4 2 3
                %0 = Cast(x) {to=1}  # 5
                w:f8_e5m2[3] = Cast(%0) {to=19}  # 6
                %1 = Cast(z) {saturate=0, to=19}  # 7
                v:f32[3] = Cast(%1) {to=1}  # 8
            "#]],
        );
    }

    #[test]
    fn parts_without_entries_are_dropped() {
        check_lean(
            each(super::RULE.apply),
            "graph g(x:f32[2,3], e:f32[2,0], n:f32[2,N]) -> (y, z)
%0:f32[2,3] = Concat(e, x) {axis=1}
y:f32[2,3] = Exp(%0)
z:f32[2,N + 3] = Concat(n, e, x) {axis=1}",
            expect![[r#"
                graph g(x:f32[2,3], e:f32[2,0], n:f32[2,N]) -> (y, z)
                y:f32[2,3] = Exp(x)  # 3 2
                z:f32[2,N + 3] = Concat(n, x) {axis=1}  # 4
            "#]],
        );
    }
}
