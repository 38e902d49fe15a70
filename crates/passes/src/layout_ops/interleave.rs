//! `interleave-halves`: writes two arrays whose entries alternate along an axis as one `Concat`.
//!
//! `jax.lax.associative_scan` computes the entries at even and at odd places apart. It writes zeros between the entries
//! of both arrays and adds them, once for each power of two below the length.

use algebra::axis_map::{Step, emit_after};
use algebra::rewrite::{Result, require};
use onnx::{Dim, Edit, Model, Op, OpType, Outcome, Patch, ValueId, declined};

use crate::guard::keep_zero_signs;

pub(crate) fn run(model: &mut Model) {
    let observed = keep_zero_signs::observed(model);
    model.edit(&mut |edit| {
        for index in edit.nodes() {
            if edit.is_live(index) && matches!(edit.op(index), Some(OpType::Add | OpType::Or)) {
                // The sum of `−0` and `0` is `0`. ONNX Runtime drops the addition of `0`.
                let has_sign = observed.contains(&edit.result(index));
                edit.patch(index, |patch| interleave(patch, has_sign));
            }
        }
        edit.drop_unread();
    });
}

/// An array whose entries are at every second place of an axis, beside zeros.
struct Spread {
    array: ValueId,
    axis: usize,
    /// The place of the first entry.
    first: i64,
    /// The number of entries.
    count: i64,
    nodes: Vec<usize>,
}

/// The zeros that a `Pad` adds on both sides of one axis.
struct Zeros {
    axis: usize,
    before: i64,
    after: i64,
}

impl Spread {
    fn of(edit: &Edit<'_>, value: ValueId) -> Option<Spread> {
        let mut nodes = Vec::new();
        let (mut spread, mut sides) = (value, None);
        if let Some(pad) = edit.made_by(value, OpType::Pad) {
            sides = Some(zeros(edit, pad)?);
            spread = edit.input(pad, 0)?;
            nodes.push(pad);
        }
        let known = |id: ValueId, axis: usize| edit.shape(id)?.get(axis)?.known();
        let Some(slice) = edit.made_by(spread, OpType::Slice) else {
            let Zeros { axis, before, .. } = sides?;
            require(known(spread, axis)? == 1)?;
            return Some(Spread { array: spread, axis, first: before, count: 1, nodes });
        };
        let reshape = edit.made_by(edit.input(slice, 0)?, OpType::Reshape)?;
        let pad = edit.made_by(edit.input(reshape, 0)?, OpType::Pad)?;
        let unsqueeze = edit.made_by(edit.input(pad, 0)?, OpType::Unsqueeze)?;
        let array = edit.input(unsqueeze, 0)?;
        let between = zeros(edit, pad)?;
        let axis = between.axis.checked_sub(1)?;
        let count = known(array, axis)?;
        let ints = |operand: usize| edit.ints(slice, operand);
        let is_first = edit.node(slice).inputs.len() == 4
            && [ints(1)?, ints(2)?, ints(3)?] == [[0], [2 * count - 1], [axis as i64]];
        let mut doubled = edit.shape(array)?.to_vec();
        doubled[axis] = Dim::Known(2 * count);
        let is_apart = edit.axes(unsqueeze)? == [axis + 1]
            && (between.before, between.after) == (0, 1)
            && edit.result_ty(reshape)?.shape[..] == doubled[..];
        let is_same_axis = sides.as_ref().is_none_or(|sides| sides.axis == axis);
        require(is_first && is_apart && is_same_axis)?;
        let first = sides.map_or(0, |sides| sides.before);
        nodes.extend([slice, reshape, pad, unsqueeze]);
        Some(Spread { array, axis, first, count, nodes })
    }
}

/// Reads a `Pad` that adds zeros on the sides of one axis.
fn zeros(edit: &Edit<'_>, pad: usize) -> Option<Zeros> {
    let is_zero = edit.input(pad, 2).is_none_or(|value| edit.number(value) == Some(0.0));
    require(is_zero && edit.node(pad).attr("mode").is_none() && edit.input(pad, 3).is_none())?;
    let amounts = edit.ints(pad, 1)?;
    let (before, after) = amounts.split_at_checked(amounts.len() / 2)?;
    let mut axes = (0..before.len()).filter(|&axis| before[axis] != 0 || after[axis] != 0);
    let axis = axes.next()?;
    require(axes.next().is_none() && before[axis] >= 0 && after[axis] >= 0)?;
    Some(Zeros { axis, before: before[axis], after: after[axis] })
}

fn interleave(patch: &mut Patch<'_, '_>, has_sign: bool) -> Outcome {
    let (x, y) = patch.pair(patch.root())?;
    let (x, y) = (Spread::of(patch, x)?, Spread::of(patch, y)?);
    let (even, odd) = if x.first == 0 { (x, y) } else { (y, x) };
    let result = patch.result_ty(patch.root())?.clone();
    let axis = even.axis;
    let size = result.shape.get(axis)?.known()?;
    let alternates = (even.first, odd.first, odd.axis) == (0, 1, axis);
    let is_full = even.count + odd.count == size && [0, 1].contains(&(even.count - odd.count));
    require(alternates && is_full)?;
    if has_sign && result.dtype.is_float() {
        return declined("a reader depends on the sign of zero");
    }
    patch.take(&[even.nodes, odd.nodes].concat());
    let joined = joined(patch, &result.shape, axis, [even.array, odd.array], odd.count);
    patch.settle(joined)
}

/// Returns the operator that joins the entries at even places and those at odd places.
fn joined(
    edit: &mut Patch<'_, '_>,
    shape: &[Dim],
    axis: usize,
    [even, odd]: [ValueId; 2],
    pairs: i64,
) -> Result<Op> {
    let is_even = shape[axis].is(2 * pairs);
    let along = |parts: &[ValueId]| Op::new(OpType::Concat, parts).attr("axis", axis as i64);
    if is_even && pairs == 1 {
        return Ok(along(&[even, odd]));
    }
    if is_even {
        return paired(edit, shape, axis, [even, odd]);
    }
    // The first entry is a part of its own in `associative_scan`, so that no entry is copied twice.
    let head = part(edit, even, axis, 0, 1)?;
    let tail = part(edit, even, axis, 1, pairs + 1)?;
    if pairs == 1 {
        return Ok(along(&[head, odd, tail]));
    }
    let mut rest = shape.to_vec();
    rest[axis] = Dim::Known(2 * pairs);
    let rest = paired(edit, &rest, axis, [odd, tail])?;
    let rest = edit.insert(rest);
    Ok(along(&[head, rest]))
}

/// Returns the operator that joins pairs of entries of two arrays of the same shape.
fn paired(edit: &mut Patch<'_, '_>, shape: &[Dim], axis: usize, parts: [ValueId; 2]) -> Result<Op> {
    let next = axis + 1;
    let mut apart = Vec::with_capacity(2);
    for part in parts {
        let is_last = next == shape.len();
        let part = if is_last { edit.unsqueeze(part, &[next as i64]) } else { Some(part) };
        apart.push(part.ok_or("no axis")?);
    }
    let concat = Op::new(OpType::Concat, &apart).attr("axis", next as i64);
    emit_after(edit, concat, &[Step::Reshape(shape.to_vec())])
}

/// Returns the entries of an array from a place to another.
fn part(
    edit: &mut Patch<'_, '_>,
    array: ValueId,
    axis: usize,
    start: i64,
    end: i64,
) -> Result<ValueId> {
    let operands = [start, end, axis as i64].map(|int| edit.integers(&[int]));
    let [Some(start), Some(end), Some(axis)] = operands else { return Err("no axes".into()) };
    Ok(edit.insert(Op::new(OpType::Slice, &[array, start, end, axis])))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_model;

    #[test]
    fn entries_at_even_and_odd_places_are_joined() {
        check_model(
            super::run,
            "graph g(a:f32[3,B,2], b:f32[3,B,2]) -> (y)
%0:f32[3,1,B,2] = Unsqueeze(a, [1]:i64)
%1:f32[3,2,B,2] = Pad(%0, [0, 0, 0, 0, 0, 1, 0, 0]:i64, 0.0)
%2:f32[6,B,2] = Reshape(%1, [6, -1, 2]:i64)
%3:f32[5,B,2] = Slice(%2, [0]:i64, [5]:i64, [0]:i64)
%4:f32[6,B,2] = Pad(%3, [0, 0, 0, 1, 0, 0]:i64, 0.0)
%5:f32[3,1,B,2] = Unsqueeze(b, [1]:i64)
%6:f32[3,2,B,2] = Pad(%5, [0, 0, 0, 0, 0, 1, 0, 0]:i64, 0.0)
%7:f32[6,B,2] = Reshape(%6, [6, -1, 2]:i64)
%8:f32[5,B,2] = Slice(%7, [0]:i64, [5]:i64, [0]:i64)
%9:f32[6,B,2] = Pad(%8, [1, 0, 0, 0, 0, 0]:i64, 0.0)
y:f32[6,B,2] = Add(%4, %9)",
            expect![[r#"
                graph g(a:f32[3,B,2], b:f32[3,B,2]) -> (y)
                %0 = Concat(a, b) {axis=1}  # 12 2 3 4 5 6 7 8 9 10 11
                y:f32[6,B,2] = Reshape(%0, [6, -1, 2]:i64)  # 9 2 3 4 5 6 7 8 10 11 12
            "#]],
        );
    }

    #[test]
    fn an_odd_number_of_entries_begins_and_ends_at_even_places() {
        check_model(
            super::run,
            "graph g(a:i32[3], b:i32[2], c:i32[2], d:i32[1]) -> (y, z)
%0:i32[3,1] = Unsqueeze(a, [1]:i64)
%1:i32[3,2] = Pad(%0, [0, 0, 0, 1]:i64, 0:i32)
%2:i32[6] = Reshape(%1, [6]:i64)
%3:i32[5] = Slice(%2, [0]:i64, [5]:i64, [0]:i64)
%4:i32[2,1] = Unsqueeze(b, [1]:i64)
%5:i32[2,2] = Pad(%4, [0, 0, 0, 1]:i64, 0:i32)
%6:i32[4] = Reshape(%5, [4]:i64)
%7:i32[3] = Slice(%6, [0]:i64, [3]:i64, [0]:i64)
%8:i32[5] = Pad(%7, [1, 1]:i64, 0:i32)
y:i32[5] = Add(%8, %3)
%9:i32[2,1] = Unsqueeze(c, [1]:i64)
%10:i32[2,2] = Pad(%9, [0, 0, 0, 1]:i64, 0:i32)
%11:i32[4] = Reshape(%10, [4]:i64)
%12:i32[3] = Slice(%11, [0]:i64, [3]:i64, [0]:i64)
%13:i32[3] = Pad(d, [1, 1]:i64, 0:i32)
z:i32[3] = Add(%12, %13)",
            expect![[r#"
                graph g(a:i32[3], b:i32[2], c:i32[2], d:i32[1]) -> (y, z)
                %0 = Slice(a, [0]:i64, [1]:i64, [0]:i64)  # 9 2 3 4 5 6 7 8 10 11
                %1 = Slice(a, [1]:i64, [3]:i64, [0]:i64)  # 9 2 3 4 5 6 7 8 10 11
                %2 = Unsqueeze(b, [1]:i64)  # 6 2 3 4 5 7 8 9 10 11
                %3 = Unsqueeze(%1, [1]:i64)  # 6 2 3 4 5 7 8 9 10 11
                %4 = Concat(%2, %3) {axis=1}  # 11 2 3 4 5 6 7 8 9 10
                %5 = Reshape(%4, [4]:i64)  # 8 2 3 4 5 6 7 9 10 11
                y:i32[5] = Concat(%0, %5) {axis=0}  # 11 2 3 4 5 6 7 8 9 10
                %6 = Slice(c, [0]:i64, [1]:i64, [0]:i64)  # 15 12 13 14 16 17
                %7 = Slice(c, [1]:i64, [2]:i64, [0]:i64)  # 15 12 13 14 16 17
                z:i32[3] = Concat(%6, d, %7) {axis=0}  # 17 12 13 14 15 16
            "#]],
        );
    }

    #[test]
    fn flags_alternate_too() {
        check_model(
            super::run,
            "graph g(a:bool[1,4], b:bool[1,4]) -> (y)
%0:bool[2,4] = Pad(a, [0, 0, 1, 0]:i64, false)
%1:bool[2,4] = Pad(b, [1, 0, 0, 0]:i64, false)
y:bool[2,4] = Or(%0, %1)",
            expect![[r#"
                graph g(a:bool[1,4], b:bool[1,4]) -> (y)
                y:bool[2,4] = Concat(a, b) {axis=0}  # 4 2 3
            "#]],
        );
    }

    #[test]
    fn zeros_are_added_if_a_reader_depends_on_the_sign_of_zero() {
        check_model(
            super::run,
            "graph g(a:f32[1], b:f32[1]) -> (y)
%0:f32[2] = Pad(a, [0, 1]:i64)
%1:f32[2] = Pad(b, [1, 0]:i64)
%2:f32[2] = Add(%0, %1)
y:f32[2] = Reciprocal(%2)",
            expect![[r#"
                graph g(a:f32[1], b:f32[1]) -> (y)
                %0 = Pad(a, [0, 1]:i64)  # 2
                %1 = Pad(b, [1, 0]:i64)  # 3
                %2 = Add(%0, %1)  # 4
                y:f32[2] = Reciprocal(%2)  # 5
            "#]],
        );
    }

    #[test]
    fn arrays_that_overlap_or_leave_gaps_are_added() {
        check_model(
            super::run,
            "graph g(a:f32[1], b:f32[1], c:f32[2]) -> (x, y, z)
%0:f32[2] = Pad(a, [1, 0]:i64)
%1:f32[2] = Pad(b, [1, 0]:i64)
x:f32[2] = Add(%0, %1)
%2:f32[3] = Pad(a, [0, 2]:i64)
%3:f32[3] = Pad(b, [1, 1]:i64)
y:f32[3] = Add(%2, %3)
%4:f32[2,1] = Unsqueeze(c, [1]:i64)
%5:f32[2,2] = Pad(%4, [0, 0, 0, 1]:i64, 1.0)
%6:f32[4] = Reshape(%5, [4]:i64)
%7:f32[3] = Slice(%6, [0]:i64, [3]:i64, [0]:i64)
%8:f32[3] = Pad(a, [1, 1]:i64)
z:f32[3] = Add(%7, %8)",
            expect![[r#"
                graph g(a:f32[1], b:f32[1], c:f32[2]) -> (x, y, z)
                %0 = Pad(a, [1, 0]:i64)  # 2
                %1 = Pad(b, [1, 0]:i64)  # 3
                x:f32[2] = Add(%0, %1)  # 4
                %2 = Pad(a, [0, 2]:i64)  # 5
                %3 = Pad(b, [1, 1]:i64)  # 6
                y:f32[3] = Add(%2, %3)  # 7
                %4 = Unsqueeze(c, [1]:i64)  # 8
                %5 = Pad(%4, [0, 0, 0, 1]:i64, 1.0)  # 9
                %6 = Reshape(%5, [4]:i64)  # 10
                %7 = Slice(%6, [0]:i64, [3]:i64, [0]:i64)  # 11
                %8 = Pad(a, [1, 1]:i64)  # 12
                z:f32[3] = Add(%7, %8)  # 13
            "#]],
        );
    }
}
