//! Converts the mask of an attention to the form that the kernel takes.

use onnx::{DType, Dim, Edit, Op, OpType, Patch, Tensor, Type, ValueId};

use super::choice::View;
use super::{Attention, LOWEST, Mask, spread};
use crate::access::Access;
use crate::axis_map::{Planned, Step, emit, plan};
use crate::operators::LAYOUT_OPS;
use crate::pattern::uniform;
use crate::rewrite::Declined;

/// What takes a score out: far below any, and not the lowest.
const MASKED: f64 = -2.381_976_325_057_654e38;

/// Numbers up to this one mask a score. At this magnitude, scores can no longer be distinguished, so a
/// kept score cannot be as low.
const ABSORBING: f64 = -1e8;

/// The mask as the kernel takes it.
pub(super) enum Prepared {
    None,
    Causal,
    /// True where a score is kept.
    Flags(Tensor, ValueId),
    Added(AddedMask),
}

/// What is added to the scores.
pub(super) struct AddedMask {
    source: ValueId,
    /// What the source is, where it is a constant with repeats.
    once: Option<Tensor>,
    /// What to add where the source is true, and where it is not.
    choice: Option<[f64; 2]>,
    shape: Vec<Dim>,
    /// How it gets the axes of the scores, and all rows and columns.
    planned: Vec<Planned>,
}

impl Prepared {
    pub(super) fn of(
        edit: &Edit<'_>,
        found: &Attention,
        view: &View,
    ) -> Result<Prepared, Declined> {
        let (source, choice) = match found.mask {
            None => return Ok(Prepared::None),
            Some(Mask::Added(bias)) => (bias, None),
            Some(Mask::Chosen { flags, keeps, .. }) if keeps_all(edit, flags, keeps) => {
                return Ok(Prepared::None);
            }
            Some(Mask::Chosen { flags, keeps, otherwise, .. }) => {
                if let Some(known) = known_flags(edit, flags, keeps, view) {
                    return Ok(known);
                }
                if keeps && is_triangle(edit, flags, view) {
                    return Ok(Prepared::Causal);
                }
                if otherwise == f64::NEG_INFINITY {
                    return Err("a whole row may be masked, and −∞ makes its softmax NaN".into());
                }
                (flags, Some(if keeps { [0.0, MASKED] } else { [MASKED, 0.0] }))
            }
        };
        let mut shape = edit.ty(source).ok_or("the type of a value is unknown")?.shape.to_vec();
        let once = edit.tensor(source).map(without_repeats);
        if let Some(once) = &once {
            shape = shape_of(once);
        }
        let (mut planned, of_heads) = for_scores(&shape, view)?;
        planned.extend(expansion(&of_heads, view)?);
        Ok(Prepared::Added(AddedMask { source, once, choice, shape, planned }))
    }
}

/// Declines a mask that the kernel applies differently, however the operands are laid out.
pub(super) fn expect_same(edit: &Edit<'_>, found: &Attention) -> Result<(), Declined> {
    match found.mask {
        Some(Mask::Added(bias)) if !leaves_something(edit, bias) => {
            Err("an added mask may hide a whole row".into())
        }
        Some(Mask::Chosen { otherwise, .. }) if otherwise.is_nan() || otherwise > ABSORBING => {
            Err("the number that replaces a masked score is not negative enough".into())
        }
        Some(Mask::Chosen { flags, keeps, is_bias: false, .. })
            if edit.exact_nan()
                && !keeps_all(edit, flags, keeps)
                && !spread::reaches_result(edit, found) =>
        {
            Err("a masked score may be NaN or infinite, and the kernel would add it".into())
        }
        _ => Ok(()),
    }
}

/// True if it is known that no score is masked.
fn keeps_all(edit: &Edit<'_>, flags: ValueId, keeps: bool) -> bool {
    edit.tensor(flags).and_then(uniform) == Some(f64::from(u8::from(keeps)))
}

fn shape_of(tensor: &Tensor) -> Vec<Dim> {
    tensor.shape.iter().map(|&size| Dim::Known(size)).collect()
}

/// Returns how a mask of this shape gets the axes batch, head, row and column, and its shape then.
fn for_scores(shape: &[Dim], view: &View) -> Result<(Vec<Planned>, Vec<Dim>), Declined> {
    let map = view
        .to_mask
        .clone()
        .inverse()
        .on_operand(shape)
        .ok_or("the mask differs within an axis")?;
    let unknown = || Declined::from("too many sizes are unknown");
    let of_heads = map.shape_after().ok_or_else(unknown)?;
    // The kernel takes rows and columns as they are.
    if of_heads[2..] == *shape {
        return Ok((Vec::new(), of_heads));
    }
    let steps = map.steps().ok_or_else(unknown)?;
    Ok((plan(shape, &steps).ok_or_else(unknown)?, of_heads))
}

/// Returns a mask that is known, the same for all heads, and leaves something in each row.
fn known_flags(edit: &Edit<'_>, flags: ValueId, keeps: bool, view: &View) -> Option<Prepared> {
    let once = without_repeats(edit.tensor(flags)?);
    let (rows, columns) = (view.rows.known()?, view.columns.known()?);
    let (steps, _) = for_scores(&shape_of(&once), view).ok()?;
    let once = steps.iter().try_fold(once, |tensor, step| step.on_constant(&tensor))?;
    let kept: Vec<bool> = once.ints()?.into_iter().map(|flag| (flag != 0) == keeps).collect();
    let (&[1, 1, own_rows, own_columns] | &[own_rows, own_columns]) = &once.shape[..] else {
        return None;
    };
    let is_kept = |row: i64, column: i64| {
        let (row, column) = (row.min(own_rows - 1), column.min(own_columns - 1));
        kept.get((row * own_columns + column) as usize) == Some(&true)
    };
    if !(0..rows).all(|row| (0..columns).any(|column| is_kept(row, column))) {
        return None;
    }
    let all = || (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    if rows == columns && all().all(|(row, column)| is_kept(row, column) == (column <= row)) {
        return Some(Prepared::Causal);
    }
    let kept: Vec<i64> = all().map(|(row, column)| i64::from(is_kept(row, column))).collect();
    Some(Prepared::Flags(Tensor::of_ints(DType::Bool, vec![rows, columns], &kept)?, flags))
}

/// True if flags are computed to be set where the row is not before the column, as many as there are.
fn is_triangle(edit: &Edit<'_>, flags: ValueId, view: &View) -> bool {
    let found = || {
        let node = edit.producer(flags)?;
        let (row, column) = match edit.node(node).op.onnx() {
            Some(OpType::GreaterOrEqual) => (edit.input(node, 0)?, edit.input(node, 1)?),
            Some(OpType::LessOrEqual) => (edit.input(node, 1)?, edit.input(node, 0)?),
            _ => return None,
        };
        let shape = |value: ValueId| Some(&edit.ty(value)?.shape[..]);
        let of_rows = [view.rows.clone(), Dim::Known(1)];
        let of_columns = shape(column)?.strip_suffix(std::slice::from_ref(&view.columns))?;
        let is_square = view.rows == view.columns
            && *shape(flags)? == [view.rows.clone(), view.columns.clone()]
            && *shape(row)? == of_rows
            && of_columns.iter().all(|dim| dim.is(1));
        Some(is_square && counts_up(edit, row) && counts_up(edit, column))
    };
    found() == Some(true) && for_scores(&[view.rows.clone(), view.columns.clone()], view).is_ok()
}

/// True if a value is `0, 1, 2, …`, up to layout ops.
fn counts_up(edit: &Edit<'_>, value: ValueId) -> bool {
    let (value, _) = edit.through(value, &[LAYOUT_OPS, &[OpType::Cast]].concat());
    let number = |node, operand| edit.tensor(edit.input(node, operand)?).and_then(uniform);
    let range = edit.producer(value).filter(|&node| edit.node(node).op == OpType::Range);
    range.is_some_and(|node| number(node, 0) == Some(0.0) && number(node, 2) == Some(1.0))
}

/// Returns the same mask with one of those that stand side by side along an axis, where they are all equal.
fn without_repeats(tensor: &Tensor) -> Tensor {
    let mut once = tensor.clone();
    for axis in 0..tensor.shape.len() {
        let inner: i64 = once.shape[axis + 1..].iter().product();
        let part = inner as usize * once.dtype.bits() / 8;
        let whole = part * once.shape[axis] as usize;
        if part == 0 || once.shape[axis] < 2 {
            continue;
        }
        let is_repeated = |whole: &[u8]| whole.chunks(part).all(|other| *other == whole[..part]);
        let bytes = once.bytes();
        if !bytes.chunks(whole).all(is_repeated) {
            continue;
        }
        let data: Vec<u8> = bytes.chunks(whole).flat_map(|whole| &whole[..part]).copied().collect();
        let mut shape = once.shape.clone();
        shape[axis] = 1;
        once = Tensor::new(once.dtype, shape, data);
    }
    once
}

/// Returns the broadcast of a mask to all rows and columns.
fn expansion(shape: &[Dim], view: &View) -> Result<Vec<Planned>, Declined> {
    let [batch, heads, rows, columns] = shape else {
        return Err("the axes of the mask differ from those of the scores".into());
    };
    if *rows == view.rows && *columns == view.columns {
        return Ok(Vec::new());
    }
    let whole = vec![batch.clone(), heads.clone(), view.rows.clone(), view.columns.clone()];
    let planned = plan(shape, &[Step::Broadcast(whole)]);
    planned.ok_or_else(|| "the mask does not have all rows, and their number is unknown".into())
}

impl AddedMask {
    pub(super) fn emit(
        self,
        patch: &mut Patch<'_, '_>,
        fused: &[usize],
    ) -> Result<ValueId, Declined> {
        let mut value = self.source;
        if let Some(once) = self.once.filter(|once| patch.tensor(value) != Some(once)) {
            value = patch.constant_for(fused, once, &[value]);
        }
        if let Some(numbers) = self.choice {
            let mut number = |number: f64| {
                let tensor = Tensor::of_floats(DType::F32, Vec::new(), &[number]);
                Ok::<_, Declined>(patch.constant_for(fused, tensor.ok_or("no number")?, &[]))
            };
            let op = Op::new(OpType::Where, &[value, number(numbers[0])?, number(numbers[1])?]);
            value = patch.insert_for(fused, op, Type::new(DType::F32, self.shape));
        }
        emit(patch, fused, value, &self.planned)
    }
}

/// True if a bias leaves something in each row that is not the lowest number.
fn leaves_something(edit: &Edit<'_>, bias: ValueId) -> bool {
    if let Some(tensor) = edit.tensor(bias) {
        let width = tensor.shape.last().map_or(1, |&size| size.max(1)) as usize;
        let (mut place, mut is_left) = (0, false);
        return tensor.all_floats(|number| {
            is_left = number > LOWEST || (is_left && place % width > 0);
            place += 1;
            is_left || place % width > 0
        });
    }
    let (bias, _) = edit.through(bias, LAYOUT_OPS);
    let node = edit.producer(bias).filter(|&node| edit.node(node).op == OpType::Where);
    let above = |operand| {
        let number = edit.tensor(edit.input(node?, operand)?).and_then(uniform)?;
        Some(number > LOWEST)
    };
    above(1) == Some(true) && above(2) == Some(true)
}
