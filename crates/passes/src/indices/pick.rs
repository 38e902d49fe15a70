//! One entry of an axis: `x[…, i, …]`.

use onnx::{DType, Dim, Op, OpType, Tensor};

use crate::algebra::access::{Access, known};
use crate::algebra::pattern::{Pattern, hole, node};
use crate::rewrite::{Declined, Formulas, Found, Rewrite};

pub(crate) static REWRITES: Formulas =
    Formulas::new(&[&[Rewrite { name: "fuse-pick", pattern: pick, replacement: to_gather }]]);

/// A part of size one of an axis, and then the axis dropped.
pub(super) fn pick() -> Pattern {
    let starts = hole("starts");
    let part = node(OpType::Slice, &[&hole("x"), &starts, &hole("ends"), &hole("axes")]);
    node(OpType::Squeeze, &[&part.named("part"), &hole("dropped")])
}

/// A part of size one of a `Split`, and then the axis dropped.
pub(super) fn split_pick() -> Pattern {
    let part = hole("part").such_that(|edit, part| {
        edit.producer(part).is_some_and(|node| edit.node(node).op == OpType::Split)
    });
    node(OpType::Squeeze, &[&part]).named("entry")
}

pub(super) fn to_entry_of_split(found: &mut Found<'_, '_, '_>) -> Result<Op, Declined> {
    let part = found.value("part")?;
    let index = found.edit.producer(part).ok_or("no split")?;
    let axis = found.edit.axis(index).ok_or("the axis is unknown")?;
    let split = found.edit.node(index);
    let x = found.edit.input(index, 0).ok_or("no operand")?;
    let before = split.outputs.iter().take_while(|&&other| other != part);
    let sizes: Option<Vec<i64>> =
        before.map(|&other| found.edit.ty(other)?.shape.get(axis)?.known()).collect();
    let start = sizes.ok_or("a size is unknown")?.iter().sum();
    let is_one = found.ty(part)?.shape.get(axis).is_some_and(|dim| dim.is(1));
    if !is_one || found.axes("entry")? != [axis] {
        return Err("the squeeze drops other axes".into());
    }
    found.expect_kernel(OpType::Gather, x)?;
    found.take_up(&[index]);
    let place = Tensor::of_ints(DType::I64, Vec::new(), &[start]).ok_or("no index")?;
    let place = found.constant(place);
    Ok(Op::new(OpType::Gather, &[x, place]).attr("axis", axis as i64))
}

fn to_gather(found: &mut Found<'_, '_, '_>) -> Result<Op, Declined> {
    let (axes, starts) = (ints(found, "axes")?, ints(found, "starts")?);
    if axes.len() == 1 {
        return to_entry_of_one_axis(found);
    }
    let dropped = ints(found, "dropped")?;
    of_several_axes(found, &axes, &starts, &dropped)
}

fn ints(found: &Found<'_, '_, '_>, name: &str) -> Result<Vec<i64>, Declined> {
    let tensor = found.edit.tensor(found.value(name)?);
    tensor.and_then(Tensor::ints).ok_or_else(|| Declined(format!("the {name} are unknown")))
}

pub(super) fn to_entry_of_one_axis(found: &mut Found<'_, '_, '_>) -> Result<Op, Declined> {
    let axes = ints(found, "axes")?;
    let (&[axis], &[start]) = (&axes[..], &ints(found, "starts")?[..]) else {
        return Err("several axes are sliced".into());
    };
    let part = found.ty(found.value("part")?)?;
    let is_one =
        usize::try_from(axis).is_ok_and(|axis| part.shape.get(axis).is_some_and(|dim| dim.is(1)));
    if !is_one || ints(found, "dropped")? != axes || start < 0 {
        return Err("the squeeze drops other axes".into());
    }
    let x = found.value("x")?;
    found.expect_kernel(OpType::Gather, x)?;
    let place = Tensor::of_ints(DType::I64, Vec::new(), &[start]).ok_or("no index")?;
    let place = found.constant(place);
    Ok(Op::new(OpType::Gather, &[x, place]).attr("axis", axis))
}

/// `x[…, i, j, …]`: the entry of one axis in place of several. That is shorter where there is more than one
/// entry, for they have the axis in common.
fn of_several_axes(
    found: &mut Found<'_, '_, '_>,
    axes: &[i64],
    starts: &[i64],
    dropped: &[i64],
) -> Result<Op, Declined> {
    let x = found.value("x")?;
    let shape = found.ty(x)?.shape;
    let part = found.ty(found.value("part")?)?.shape;
    let first = axes.first().and_then(|&axis| usize::try_from(axis).ok());
    let first = first.ok_or("no axis is sliced")?;
    let behind = first + axes.len();
    let are_together = axes.iter().zip(first..behind).all(|(&axis, wanted)| axis == wanted as i64);
    let picked = part.get(first..behind).ok_or("other axes are sliced")?;
    if !are_together || dropped != axes || !picked.iter().all(|dim| dim.is(1)) {
        return Err("the squeeze drops other axes".into());
    }
    if found.edit.reads(x) < 2 {
        return Err("several axes are reduced to one entry".into());
    }
    let sizes = known(&shape[first..behind]);
    let sizes = sizes.ok_or("a size is unknown")?;
    let in_bounds = |(start, size): (&i64, &i64)| (0..*size).contains(start);
    if starts.len() != sizes.len() || !starts.iter().zip(&sizes).all(in_bounds) {
        return Err("the index is out of bounds".into());
    }
    let place = starts.iter().zip(&sizes).fold(0, |place, (start, size)| place * size + start);
    let joined =
        [&shape[..first], &[sizes.iter().product::<i64>().into()], &shape[behind..]].concat();
    // Zero stands for the size that the operand has there.
    let target = joined.iter().enumerate().map(|(axis, dim)| match dim {
        Dim::Known(size) => (*size > 0).then_some(*size),
        Dim::Symbolic(_) => (axis < first).then_some(0),
    });
    let target: Vec<i64> =
        target.collect::<Option<_>>().ok_or("the size of a later axis is unknown")?;
    found.expect_kernel(OpType::Gather, x)?;
    let target = found.ints(&target)?;
    let joined = found.emit(Op::new(OpType::Reshape, &[x, target]));
    let place = Tensor::of_ints(DType::I64, Vec::new(), &[place]).ok_or("no index")?;
    let place = found.constant(place);
    Ok(Op::new(OpType::Gather, &[joined, place]).attr("axis", first as i64))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{check, formulas};

    #[test]
    fn one_entry_is_gathered() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[B,5,3]) -> (y)
%0:f32[B,1,3] = Slice(x, [4]:i64, [5]:i64, [1]:i64)
y:f32[B,3] = Squeeze(%0, [1]:i64)",
            expect![[r#"
                graph g(x:f32[B,5,3]) -> (y)
                y:f32[B,3] = Gather(x, 4:i64) {axis=1}  # 3 2
            "#]],
        );
    }

    #[test]
    fn entries_of_several_axes_have_one_in_common() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[B,2,3]) -> (y, z)
%0:f32[B,1,1] = Slice(x, [1, 2]:i64, [2, 3]:i64, [1, 2]:i64)
y:f32[B] = Squeeze(%0, [1, 2]:i64)
%1:f32[1,1,3] = Slice(x, [0, 0]:i64, [1, 1]:i64, [0, 1]:i64)
z:f32[3] = Squeeze(%1, [0, 1]:i64)",
            expect![[r#"
                graph g(x:f32[B,2,3]) -> (y, z)
                %0 = Reshape(x, [0, 6]:i64)  # 3 2
                y:f32[B] = Gather(%0, 5:i64) {axis=1}  # 3 2
                %1 = Slice(x, [0, 0]:i64, [1, 1]:i64, [0, 1]:i64)  # 4
                z:f32[3] = Squeeze(%1, [0, 1]:i64)  # 5
            "#]],
        );
    }

    #[test]
    fn an_entry_of_two_axes_is_not() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[4,5,3]) -> (y)
%0:f32[1,1,3] = Slice(x, [1, 4]:i64, [2, 5]:i64, [0, 1]:i64)
y:f32[1,3] = Squeeze(%0, [1]:i64)",
            expect![[r#"
                graph g(x:f32[4,5,3]) -> (y)
                %0 = Slice(x, [1, 4]:i64, [2, 5]:i64, [0, 1]:i64)  # 2
                y:f32[1,3] = Squeeze(%0, [1]:i64)  # 3
            "#]],
        );
    }
}
