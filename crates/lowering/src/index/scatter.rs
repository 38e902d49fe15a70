//! Writes windows at computed indices.

use std::sync::Arc;

use jaxpr::{Atom, Jaxpr};
use onnx::{DType, Dim, Expr, Range};

use super::joined::scatter_joined;
use super::numbers::{Axis, Mode, Windows, scatter_mode};
use super::places::{Starts, gather_nd, linear, wide_axes};
use super::reduction::Reduction;
use super::write::{rearrange, write_elements, write_nd};
use crate::complex;
use crate::ctx::{Ctx, Eqn};
use crate::error::{Refused, Result};

/// `x[start(b…) + w…] = updates[b…, w…]`; a window that does not fit is moved into bounds, or
/// dropped
///
/// If windows overlap, the last one wins.
pub(crate) fn scatter<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let body: Option<Arc<Jaxpr>> = eqn.param("update_jaxpr")?;
    match body.filter(|body| !is_second_argument(body)) {
        None => scatter_by(eqn, Reduction::Overwrite, |updates| updates),
        Some(body) => {
            scatter_joined(eqn, |current, update| on_each(ctx, eqn, &body, current, update))
        }
    }
}

/// `x[start(b…) + w…] = f(x[start(b…) + w…], updates[b…, w…])` with the user's function
fn on_each<'g>(
    ctx: &Ctx<'g>,
    eqn: &Eqn<'g, '_>,
    body: &Jaxpr,
    current: Expr<'g>,
    update: Expr<'g>,
) -> Result<Expr<'g>> {
    let constants: Option<Vec<jaxpr::Param>> = eqn.optional("update_consts")?;
    if !ctx.is_elementwise(body) || constants.is_some_and(|constants| !constants.is_empty()) {
        let what = "scatter with a function that is not elementwise".into();
        return Err(Refused::NoCounterpart { what }.into());
    }
    let shape = current.shape();
    let elements: Arc<[Dim]> = shape[..shape.len() - eqn.part_axes()].into();
    let arguments = [current, update.expand(&shape)];
    let results = ctx.inline_on_each(eqn.primitive, body, &arguments, &elements)?;
    let result = results.first().ok_or_else(|| eqn.broken("no result"))?;
    Ok(result.expand(&shape))
}

/// `x[start(b…) + w…] += updates[b…, w…]`
pub(crate) fn scatter_add<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    scatter_by(eqn, Reduction::Add, |updates| updates)
}

/// `x[start(b…) + w…] -= updates[b…, w…]`
pub(crate) fn scatter_sub<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    scatter_by(eqn, Reduction::Add, |updates| {
        if updates.dtype().is_float() { -updates } else { updates.constant(0.0) - updates }
    })
}

/// `x[start(b…) + w…] *= updates[b…, w…]`
pub(crate) fn scatter_mul<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    scatter_by(eqn, Reduction::Multiply, |updates| updates)
}

/// `x[start(b…) + w…] *= updates[b…, w…]` for complex numbers, for which ONNX has no reduction
pub(crate) fn complex_scatter_mul<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["update_jaxpr", "update_consts"]);
    scatter_joined(eqn, |current, update| Ok(complex::product(current, update)))
}

/// `x[start(b…) + w…] = min(x[start(b…) + w…], updates[b…, w…])`
pub(crate) fn scatter_min<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    scatter_by(eqn, Reduction::Min, |updates| updates)
}

/// `x[start(b…) + w…] = max(x[start(b…) + w…], updates[b…, w…])`
pub(crate) fn scatter_max<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    scatter_by(eqn, Reduction::Max, |updates| updates)
}

/// True if a function returns its second argument.
fn is_second_argument(body: &Jaxpr) -> bool {
    match (&body.inputs[..], &body.outputs[..]) {
        ([_, second], [Atom::Var(result)]) => second == result,
        _ => false,
    }
}

fn scatter_by<'g>(
    eqn: &Eqn<'g, '_>,
    reduction: Reduction,
    prepare: fn(Expr<'g>) -> Expr<'g>,
) -> Result<Expr<'g>> {
    let [x, indices, updates] = eqn.operands()?;
    let mut windows = Windows::of_scatter(eqn, x.rank(), &updates.shape())?;
    let mode = scatter_mode(eqn)?;
    // The name of the primitive already determines the body.
    eqn.ignore(&["update_jaxpr", "update_consts", "indices_are_sorted", "unique_indices"]);
    let opset = x.builder.opset();
    if reduction.opset() > opset {
        let op = "ScatterElements with min or max".into();
        return Err(Refused::NeedsOpset { op, needed: reduction.opset(), opset }.into());
    }

    let builder = x.builder;
    let is_empty = |value: Expr<'g>| value.shape().iter().any(|dim| dim.is(0));
    if is_empty(x) || is_empty(updates) {
        return Ok(x);
    }
    Ok(builder.helper("scatter", || {
        // A scalar becomes an array of one entry.
        let array = if x.rank() == 0 {
            windows.collapsed.push(0);
            windows.sizes.push(Dim::Known(1));
            x.unsqueeze(&[0])
        } else {
            x
        };
        let dtype = reduction.compute_type(x.dtype());
        // An empty axis has no element for an update that is the identity.
        let may_be_empty = !array.shape().iter().all(Dim::is_positive);
        let written = Scatter {
            drops: mode == Mode::Fill && (reduction == Reduction::Overwrite || may_be_empty),
            reduction: if x.dtype() == DType::Bool { reduction.of_flags() } else { reduction },
            starts: Starts::new(indices, &windows, &array.shape(), mode == Mode::Fill),
            windows: &windows,
            batch: &indices.shape()[..indices.rank() - 1],
        };
        let (array, updates) = (array.cast(dtype), prepare(updates).cast(dtype));
        let result = if windows.never_overlap(&indices.shape()) {
            written.at_once(array, updates)
        } else {
            written.in_turn(array, updates)
        };
        let result = match reduction {
            Reduction::Overwrite => result.cast_exactly(x.dtype()),
            _ => result.cast(x.dtype()),
        };
        if x.rank() == 0 { result.squeeze(&[0]) } else { result }
    }))
}

/// The updates of a scatter and their places.
struct Scatter<'g, 'a> {
    reduction: Reduction,
    starts: Starts<'g>,
    windows: &'a Windows,
    batch: &'a [Dim],
    /// True if updates out of bounds are written after the end and cut off; false if they are
    /// replaced by the identity of the reduction.
    drops: bool,
}

impl<'g> Scatter<'g, '_> {
    /// Writes windows that never overlap with `ScatterND`, which may write in any order and in
    /// parallel.
    fn at_once(&self, x: Expr<'g>, updates: Expr<'g>) -> Expr<'g> {
        let windows = self.windows;
        let indexed = windows.indexed(&x.shape()).into_iter();
        let last = indexed.chain(windows.batching.iter().map(|&(own, _)| own)).max();
        // No transpose is needed if all axes up to the last indexed one count as indexed.
        let axes: Vec<usize> = (0..=last.unwrap_or(0)).collect();
        let places = self.starts.places(windows, &axes, self.batch);
        let wide = wide_axes(windows, &axes).into_iter();
        let indices = (0..self.batch.len()).map(Axis::Index);
        let entries = wide.chain(axes.len()..x.rank()).map(Axis::Window);
        let want: Vec<Axis> = indices.chain(entries).collect();
        let mut updates = rearrange(updates, &windows.result_axes(updates.rank()), &want);

        let current = || gather_nd(x, places, 0);
        let reduction = match self.reduction {
            Reduction::Min => {
                updates = current().min(updates);
                Reduction::Overwrite
            }
            Reduction::Max => {
                updates = current().max(updates);
                Reduction::Overwrite
            }
            other => other,
        };
        if let Some(inside) = self.starts.were_in_bounds {
            // A dropped update writes the old contents, or the identity of the reduction.
            let instead = match reduction {
                Reduction::Overwrite => current(),
                other => other.identity(updates),
            };
            let trailing: Vec<usize> = (self.batch.len()..updates.rank()).collect();
            updates = inside.unsqueeze(&trailing).select(updates, instead);
        }
        write_nd(x, places, updates, reduction)
    }

    /// Writes windows that may overlap with `ScatterElements`: the `ScatterND` of ONNX Runtime
    /// writes from several threads, and loses updates.
    fn in_turn(&self, x: Expr<'g>, updates: Expr<'g>) -> Expr<'g> {
        let windows = self.windows;
        let rank = x.rank();
        let indexed = windows.indexed(&x.shape());
        let have = windows.result_axes(updates.rank());
        let updates = match self.starts.were_in_bounds.filter(|_| !self.drops) {
            None => updates,
            Some(inside) => {
                let identity = self.reduction.identity(updates);
                inside.unsqueeze(&windows.offsets).select(updates, identity)
            }
        };
        if let [axis] = indexed[..] {
            let side_by_side = (0..rank).filter(|&own| own != axis).map(|own| (own, own));
            if self.batch.len() == rank
                && wide_axes(windows, &[axis]).is_empty()
                && windows.batching.iter().copied().eq(side_by_side)
            {
                let want: Vec<Axis> = (0..rank).map(Axis::Index).collect();
                let places = self.one_number_each(&[axis], &x.shape());
                return self.write(x, places, rearrange(updates, &have, &want), axis);
            }
            if windows.batching.is_empty() {
                return self.along(x, updates, &have, axis);
            }
        }
        self.anywhere(x, updates, &have, &indexed)
    }

    /// Writes along the only indexed axis.
    fn along(&self, x: Expr<'g>, updates: Expr<'g>, have: &[Axis], axis: usize) -> Expr<'g> {
        let places = self.one_number_each(&[axis], &x.shape());
        let count = x.builder.product(&places.shape());
        let at = (0..self.batch.len()).map(Axis::Index);
        let wide = wide_axes(self.windows, &[axis]).into_iter().map(Axis::Window);
        let trailing = (axis + 1..x.rank()).map(Axis::Window);
        let want: Vec<Axis> =
            (0..axis).map(Axis::Window).chain(at).chain(wide).chain(trailing).collect();
        let mut shape = x.shape().to_vec();
        shape[axis] = count.clone();
        let updates = rearrange(updates, have, &want).reshape(&shape);
        let mut line = vec![Dim::Known(1); x.rank()];
        line[axis] = count;
        self.write(x, places.reshape(&line), updates, axis)
    }

    /// Writes along any axes: merges the indexed and batching axes into one, and the other axes
    /// into another.
    fn anywhere(
        &self,
        x: Expr<'g>,
        updates: Expr<'g>,
        have: &[Axis],
        indexed: &[usize],
    ) -> Expr<'g> {
        let (builder, windows, rank) = (x.builder, self.windows, x.rank());
        let is_placed = |axis: &usize| indexed.contains(axis) || windows.is_batching(*axis);
        let mut axes: Vec<usize> = (0..rank).filter(is_placed).collect();
        if axes.is_empty() {
            axes.push(0);
        }
        let whole: Vec<usize> = (0..rank).filter(|axis| !axes.contains(axis)).collect();
        let order = [&axes[..], &whole].concat();
        let moved = x.transpose(&order);
        let shape = moved.shape();
        let (placed, rest) = shape.split_at(axes.len());
        let row = builder.product(rest);

        let places = self.one_number_each(&axes, &x.shape());
        let count = builder.product(&places.shape());
        let indices = (0..self.batch.len()).map(Axis::Index);
        let entries = wide_axes(windows, &axes).into_iter().chain(whole).map(Axis::Window);
        let want: Vec<Axis> = indices.chain(entries).collect();
        let updates = rearrange(updates, have, &want).reshape(&[count.clone(), row.clone()]);
        let written = self.write(
            moved.reshape(&[builder.product(placed), row]),
            places.reshape(&[count, Dim::Known(1)]),
            updates,
            0,
        );
        let mut back = vec![0; rank];
        for (place, &axis) in order.iter().enumerate() {
            back[axis] = place;
        }
        written.reshape(&shape).transpose(&back)
    }

    /// Returns the place of each entry as a row-major index over `axes` of an array of this shape.
    /// The index of a dropped update is after the last one.
    fn one_number_each(&self, axes: &[usize], shape: &[Dim]) -> Expr<'g> {
        let sizes: Vec<Dim> = axes.iter().map(|&axis| shape[axis].clone()).collect();
        let places = linear(self.starts.places(self.windows, axes, self.batch), &sizes);
        match self.starts.were_in_bounds.filter(|_| self.drops) {
            None => places,
            Some(inside) => {
                let trailing: Vec<usize> = (self.batch.len()..places.rank()).collect();
                let builder = places.builder;
                inside.unsqueeze(&trailing).select(places, builder.size(&builder.product(&sizes)))
            }
        }
    }

    /// Writes one update after the other along an axis. Dropped updates go to an additional entry
    /// after the last one, which is then removed.
    fn write(&self, x: Expr<'g>, places: Expr<'g>, updates: Expr<'g>, axis: usize) -> Expr<'g> {
        let places = places.expand(&updates.shape());
        if !self.drops {
            return write_elements(x, places, updates, axis, self.reduction);
        }
        let mut one = x.shape().to_vec();
        one[axis] = Dim::Known(1);
        let spare = x.constant(0.0).expand(&one);
        let longer = Expr::concat(&[x, spare], axis);
        let written = write_elements(longer, places, updates, axis, self.reduction);
        let mut ranges = vec![Range::whole(); x.rank()];
        ranges[axis].end = Dim::Known(-1);
        written.slice(&ranges, &x.shape())
    }
}
