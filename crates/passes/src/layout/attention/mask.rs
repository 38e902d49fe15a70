//! Converts the masks of an attention to the form that the kernel takes.
//!
//! Several masks become one array: it starts with the added masks, and choices replace its numbers.

use algebra::axis_map::{AxisMap, Step, emit, plan};
use algebra::rewrite::{Declined, Result, ensure, require};
use algebra::sizes::adds_leading_axes;
use onnx::expr::broadcast_shapes;
use onnx::kernels::{Limit, VERY_LOW, is_above_in_each_row};
use onnx::operator::properties::{CASTS, LAYOUT_OPS, RESHAPES};
use onnx::{DType, Dim, Edit, Facts, Op, OpType, Patch, Tensor, ValueId, Weights};

use super::choice::View;
use super::{Attention, LOWEST, Mask, spread};

/// The number that the kernel adds to a masked score: far below any score, but above the lowest number.
const MASKED: f64 = -2.381_976_325_057_654e38;

/// The same for kernels that return zeros if all numbers of a row are very low.
const MILD: f64 = -1e20;

/// Numbers up to this one are below every score: scores that are nearly as low overflow.
const BELOW_ALL: f64 = -1e38;

/// If a number is this far below another, its exponential vanishes beside that of the other, however both are
/// rounded.
const APART: f64 = 128.0;

/// The mask as the kernel takes it.
pub(super) enum Prepared {
    None,
    Causal,
    /// True for scores that are kept.
    Flags(Tensor, ValueId),
    Added(AddedMask),
}

/// An array that is added to the scores.
pub(super) struct AddedMask {
    terms: Vec<Term>,
    /// The steps that broadcast the sum to all rows and columns.
    steps: Vec<Step>,
}

/// The contribution of one mask. For a choice, `mask` has the number that the kernel adds.
struct Term {
    mask: Mask,
    source: ValueId,
    /// The source without its repeats, if it is a constant.
    once: Option<Tensor>,
    /// The steps that give it the axes of the scores.
    steps: Vec<Step>,
}

impl Prepared {
    pub(super) fn of(edit: &Edit<'_>, found: &Attention, view: &View) -> Result<Prepared> {
        let masks: Vec<(&Mask, &AxisMap)> = effective(edit, found)
            .zip(&view.to_masks)
            .filter_map(|(mask, to_mask)| Some((mask?, to_mask)))
            .collect();
        if masks.is_empty() {
            return Ok(Prepared::None);
        }
        let mut terms = Vec::with_capacity(masks.len());
        let mut whole = Vec::new();
        for &(mask, to_mask) in &masks {
            let mut mask = *mask;
            let source = match &mut mask {
                Mask::Added { bias, .. } => *bias,
                &mut Mask::Chosen { flags, keeps, ref mut otherwise, .. } => {
                    let is_causal = || keeps && is_triangle(edit, flags, view, to_mask);
                    let known = known_flags(edit, flags, keeps, view, to_mask)
                        .or_else(|| is_causal().then_some(Prepared::Causal));
                    match known {
                        Some(known) if masks.len() == 1 => return Ok(known),
                        None if *otherwise == f64::NEG_INFINITY && !found.is_zeroed => {
                            return Err(
                                "a whole row may be masked, and −∞ makes its softmax NaN".into()
                            );
                        }
                        _ if found.is_zeroed => *otherwise = f64::NEG_INFINITY,
                        _ if takes_low(edit) => *otherwise = MASKED,
                        _ => *otherwise = MILD,
                    }
                    flags
                }
            };
            let mut shape = edit.ty(source).ok_or("the type of a value is unknown")?.shape.to_vec();
            let once = edit.tensor(source).map(without_repeats);
            if let Some(once) = &once {
                shape = shape_of(once);
            }
            let (steps, of_heads) = for_scores(&shape, to_mask)?;
            whole = broadcast_shapes(&whole, &of_heads).ok_or("the masks do not broadcast")?;
            terms.push(Term { mask, source, once, steps });
        }
        Ok(Prepared::Added(AddedMask { terms, steps: expansion(&whole, view)? }))
    }
}

/// Declines masks that the kernel applies differently, however the operands are laid out.
pub(super) fn expect_same(edit: &Edit<'_>, found: &Attention) -> Result<()> {
    let masks: Vec<&Mask> = effective(edit, found).flatten().collect();
    let mut added = Vec::new();
    let mut number: Option<f64> = None;
    for &mask in &masks {
        match *mask {
            Mask::Added { .. } if number.is_some_and(|number| number > LOWEST) => {
                return Err("something is added to masked scores".into());
            }
            Mask::Added { bias, is_subtracted } => added.push((bias, is_subtracted)),
            Mask::Chosen { otherwise, .. } if otherwise.is_nan() => {
                return Err("the number that replaces a masked score is NaN".into());
            }
            Mask::Chosen { otherwise, .. }
                if number.is_some_and(|number| number != otherwise || number.is_infinite()) =>
            {
                return Err("masks replace scores by different numbers".into());
            }
            Mask::Chosen { otherwise, .. } => number = Some(otherwise),
        }
    }
    added.retain(|&(bias, _)| !is_limited(edit, bias));
    let leaves_something = match &added[..] {
        [] => true,
        &[(bias, false)] => number.is_none() && leaves_something(edit, bias),
        _ => false,
    };
    ensure(leaves_something, "an added mask may hide a whole row")?;
    let is_choice = |mask: &&Mask| match mask {
        // The program replaces NaN by zero in a row that is masked completely.
        Mask::Chosen { is_bias, .. } => !is_bias || found.is_zeroed,
        Mask::Added { .. } => false,
    };
    let has_exact_nan = edit.exact_nan() && masks.iter().any(is_choice);
    let limit = |facts: Facts| match has_exact_nan {
        true => spread::limit(edit, found, facts),
        false => spread::limit_without_nan(edit, found, facts),
    };
    ensure(
        !has_exact_nan || limit(Facts::with(Weights::Assumed)).is_some(),
        "a masked score may be NaN or infinite, and the kernel would add it",
    )?;
    let Some(number) = number.filter(|&number| number > BELOW_ALL) else { return Ok(()) };
    // Reads the weights only if the assumptions about them are not enough.
    let absorbs = |weights: Weights| {
        let limit = found.cap.or_else(|| limit(Facts::with(weights)))?;
        let biases = masks.iter().map(|mask| match **mask {
            Mask::Added { bias, .. } => magnitude(edit, bias, Facts::with(weights)),
            Mask::Chosen { .. } => Some(0.0),
        });
        let limit = biases.sum::<Option<f64>>()? + limit;
        Some(limit * (1.0 + ROUNDING) + APART <= -number)
    };
    let is_far = |weights| absorbs(weights) == Some(true);
    if is_far(Weights::Assumed) || is_far(Weights::Read) {
        return Ok(());
    }
    Err("a kept score may be as low as the number that replaces masked scores".into())
}

/// The relative rounding error of a sum of products.
const ROUNDING: f64 = 1e-3;

/// Returns the largest magnitude of a bias.
fn magnitude(edit: &Edit<'_>, bias: ValueId, mut facts: Facts) -> Option<f64> {
    let found = spread::limited(facts.of(edit, bias))?;
    facts.assume(edit);
    Some(found)
}

/// Returns the masks, with `None` for masks that keep all scores.
fn effective<'f>(edit: &Edit<'_>, found: &'f Attention) -> impl Iterator<Item = Option<&'f Mask>> {
    found.masks.iter().map(|(mask, _)| match *mask {
        Mask::Chosen { flags, keeps, .. } if keeps_all(edit, flags, keeps) => None,
        _ => Some(mask),
    })
}

/// True if a mask keeps all scores.
fn keeps_all(edit: &Edit<'_>, flags: ValueId, keeps: bool) -> bool {
    edit.number(flags) == Some(f64::from(u8::from(keeps)))
}

fn shape_of(tensor: &Tensor) -> Vec<Dim> {
    tensor.shape.iter().map(|&size| Dim::Known(size)).collect()
}

/// Returns the layout ops that give a mask of this shape the axes batch, head, row and column, and its shape after
/// them.
fn for_scores(shape: &[Dim], to_mask: &AxisMap) -> Result<(Vec<Step>, Vec<Dim>)> {
    let unknown = || Declined::from("too many sizes are unknown");
    let from_mask = to_mask.clone().inverse();
    let map = from_mask.on_operand(shape).ok_or("the mask differs within an axis")?;
    let of_heads = map.shape_after().ok_or_else(unknown)?;
    // The kernel accepts a mask with rows and columns only.
    if of_heads[2..] == *shape {
        return Ok((Vec::new(), of_heads));
    }
    let steps = map.steps().ok_or_else(unknown)?;
    Ok((plan(shape, steps).ok_or_else(unknown)?, of_heads))
}

/// Returns a constant mask, if it is the same for all heads and keeps a score in each row.
fn known_flags(
    edit: &Edit<'_>,
    flags: ValueId,
    keeps: bool,
    view: &View,
    to_mask: &AxisMap,
) -> Option<Prepared> {
    let once = without_repeats(edit.tensor(flags)?);
    let (rows, columns) = (view.rows.known()?, view.columns.known()?);
    let (steps, _) = for_scores(&shape_of(&once), to_mask).ok()?;
    let once = steps.iter().try_fold(once, |tensor, step| step.on_constant(&tensor))?;
    let kept: Vec<bool> = once.ints()?.into_iter().map(|flag| (flag != 0) == keeps).collect();
    let (&[1, 1, own_rows, own_columns] | &[own_rows, own_columns]) = &once.shape[..] else {
        return None;
    };
    let is_kept = |row: i64, column: i64| {
        let (row, column) = (row.min(own_rows - 1), column.min(own_columns - 1));
        kept.get((row * own_columns + column) as usize) == Some(&true)
    };
    require((0..rows).all(|row| (0..columns).any(|column| is_kept(row, column))))?;
    let all = || (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    if rows == columns && all().all(|(row, column)| is_kept(row, column) == (column <= row)) {
        return Some(Prepared::Causal);
    }
    let kept: Vec<i64> = all().map(|(row, column)| i64::from(is_kept(row, column))).collect();
    Some(Prepared::Flags(Tensor::of_ints(DType::Bool, vec![rows, columns], &kept)?, flags))
}

/// True if the flags are computed as `row >= column`, for a square matrix.
fn is_triangle(edit: &Edit<'_>, flags: ValueId, view: &View, to_mask: &AxisMap) -> bool {
    let found = || {
        let (compared, _) = edit.through(flags, RESHAPES);
        let node = edit.producer(compared)?;
        let (row, column) = match edit.op(node) {
            Some(OpType::GreaterOrEqual) => edit.pair(node)?,
            Some(OpType::LessOrEqual) => (edit.input(node, 1)?, edit.input(node, 0)?),
            _ => return None,
        };
        let has_shape = |value: ValueId, own: &[Dim]| {
            edit.shape(value).is_some_and(|shape| adds_leading_axes(own, shape))
        };
        let square = [view.rows.clone(), view.columns.clone()];
        let is_square = view.rows == view.columns
            && [flags, compared].iter().all(|&value| has_shape(value, &square))
            && has_shape(row, &[view.rows.clone(), Dim::Known(1)])
            && has_shape(column, &square[1..]);
        Some(is_square && counts_up(edit, row) && counts_up(edit, column))
    };
    found() == Some(true) && for_scores(&[view.rows.clone(), view.columns.clone()], to_mask).is_ok()
}

/// True if a value is `0, 1, 2, …`, apart from layout ops and casts.
fn counts_up(edit: &Edit<'_>, value: ValueId) -> bool {
    let (value, _) = edit.through(value, LAYOUT_OPS | CASTS);
    let number = |node, operand| edit.number(edit.input(node, operand)?);
    let range = edit.made_by(value, OpType::Range);
    range.is_some_and(|node| number(node, 0) == Some(0.0) && number(node, 2) == Some(1.0))
}

/// Drops repeats: if all slices along an axis are equal, keeps one of them.
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
fn expansion(shape: &[Dim], view: &View) -> Result<Vec<Step>> {
    let [batch, heads, rows, columns] = shape else {
        return Err("the axes of the mask differ from those of the scores".into());
    };
    if *rows == view.rows && *columns == view.columns {
        return Ok(Vec::new());
    }
    let whole = vec![batch.clone(), heads.clone(), view.rows.clone(), view.columns.clone()];
    Ok(vec![Step::Broadcast(whole)])
}

impl AddedMask {
    pub(super) fn emit(self, patch: &mut Patch<'_, '_>, fused: &[usize]) -> Result<ValueId> {
        let mut sum = None;
        // The kernel accepts flags instead of −∞.
        let is_by_flags = match &self.terms[..] {
            [Term { mask: Mask::Chosen { keeps, otherwise, .. }, .. }] => {
                *keeps && *otherwise == f64::NEG_INFINITY
            }
            _ => false,
        };
        for Term { mask, source, once, steps } in self.terms {
            let value = match once.filter(|once| patch.tensor(source) != Some(once)) {
                Some(once) => patch.constant_for(fused, once, &[source]),
                None => source,
            };
            let value = emit(patch, fused, value, &steps)?;
            sum = Some(if is_by_flags { value } else { masked(patch, fused, sum, mask, value)? });
        }
        emit(patch, fused, sum.ok_or("there is no mask")?, &self.steps)
    }
}

/// Combines a mask, whose `value` has the axes of the scores, with the array of the masks before it.
fn masked(
    patch: &mut Patch<'_, '_>,
    fused: &[usize],
    before: Option<ValueId>,
    mask: Mask,
    value: ValueId,
) -> Result<ValueId> {
    let number = |patch: &mut Patch<'_, '_>, number: f64| {
        let tensor = Tensor::of_floats(DType::F32, Vec::new(), &[number]);
        Ok::<_, Declined>(patch.constant_for(fused, tensor.ok_or("no number")?, &[]))
    };
    let before = match (before, mask) {
        (None, Mask::Added { is_subtracted: false, .. }) => return Ok(value),
        (None, _) => number(patch, 0.0)?,
        (Some(before), _) => before,
    };
    let op = match mask {
        Mask::Added { is_subtracted: false, .. } => Op::new(OpType::Add, &[before, value]),
        Mask::Added { .. } => Op::new(OpType::Sub, &[before, value]),
        Mask::Chosen { keeps, otherwise, .. } => {
            let otherwise = number(patch, otherwise)?;
            let [a, b] = if keeps { [before, otherwise] } else { [otherwise, before] };
            Op::new(OpType::Where, &[value, a, b])
        }
    };
    Ok(patch.insert_for(fused, op))
}

/// True if the numbers of a bias are far above the lowest number, or NaN, which reaches the weights in JAX too.
fn is_limited(edit: &Edit<'_>, bias: ValueId) -> bool {
    let limit = if takes_low(edit) { spread::LARGEST } else { -MILD };
    if let Some(tensor) = edit.tensor(bias) {
        return tensor.max_magnitude() <= limit;
    }
    let most = magnitude(edit, bias, Facts::with(Weights::Assumed));
    most.is_some_and(|most| most <= limit)
}

/// True if the kernel adds very low numbers as it adds others.
fn takes_low(edit: &Edit<'_>) -> bool {
    !edit.target().has_limit(Limit::LowMask)
}

/// True if each row of a bias has a number above those that hide a row.
fn leaves_something(edit: &Edit<'_>, bias: ValueId) -> bool {
    let lowest = if takes_low(edit) { LOWEST } else { VERY_LOW };
    if let Some(tensor) = edit.tensor(bias) {
        return is_above_in_each_row(tensor, lowest);
    }
    let (bias, _) = edit.through(bias, LAYOUT_OPS);
    let node = edit.made_by(bias, OpType::Where);
    let above = |operand| {
        let number = edit.number(edit.input(node?, operand)?)?;
        Some(number > lowest)
    };
    above(1) == Some(true) && above(2) == Some(true)
}
