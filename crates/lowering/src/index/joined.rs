//! Writes windows whose new contents depend on the old contents.

use onnx::{Attr, DType, Dim, Expr, OpType, Type};

use super::numbers::{Axis, Mode, Windows, scatter_mode};
use super::places::{Starts, gather_nd, movable, wide_axes};
use super::reduction::Reduction;
use super::write::{rearrange, write_nd};
use crate::bodies::own_results;
use crate::ctx::Eqn;
use crate::error::Result;

/// `x[start(b…) + w…] = join(x[start(b…) + w…], updates[b…, w…])`; windows that do not fit are
/// moved into bounds, or dropped
///
/// Windows that may overlap are written one after the other by a `Loop`, so that each reads the
/// results of the previous one.
pub(super) fn scatter_joined<'g>(
    eqn: &Eqn<'g, '_>,
    join: impl Fn(Expr<'g>, Expr<'g>) -> Result<Expr<'g>>,
) -> Result<Expr<'g>> {
    let [x, indices, updates] = eqn.operands()?;
    let mut windows = Windows::of_scatter(eqn, x.rank(), &updates.shape())?;
    let mode = scatter_mode(eqn)?;
    let are_unique: Option<bool> = eqn.optional("unique_indices")?;
    eqn.ignore(&["indices_are_sorted"]);
    let is_empty = |value: Expr<'g>| value.shape().iter().any(|dim| dim.is(0));
    if is_empty(x) || is_empty(updates) {
        return Ok(x);
    }
    let is_single = x.rank() == 0;
    if is_single {
        windows.collapsed.push(0);
        windows.sizes.push(Dim::Known(1));
    }
    let array = if is_single { x.unsqueeze(&[0]) } else { x };
    let batch = &indices.shape()[..indices.rank() - 1];
    let starts = Starts::new(indices, &windows, &array.shape(), mode == Mode::Fill);
    let indexed = windows.indexed(&array.shape()).into_iter();
    let last = indexed.chain(windows.batching.iter().map(|&(own, _)| own)).max();
    let axes: Vec<usize> = (0..=last.unwrap_or(0)).collect();
    let wide = wide_axes(&windows, &axes).into_iter();
    let entries = wide.chain(axes.len()..array.rank()).map(Axis::Window);
    let want: Vec<Axis> = (0..batch.len()).map(Axis::Index).chain(entries).collect();
    let own = x.dtype();
    let step = Step {
        places: starts.places(&windows, &axes, batch),
        updates: rearrange(updates, &windows.result_axes(updates.rank()), &want),
        inside: starts.were_in_bounds,
    };
    let array = array.cast(movable(own));
    let join = |current: Expr<'g>, update: Expr<'g>| -> Result<Expr<'g>> {
        Ok(join(current.cast_exactly(own), update)?.cast(movable(own)))
    };
    let written = if are_unique == Some(true) || windows.never_overlap(&indices.shape()) {
        step.write(array, batch.len(), &join)?
    } else {
        step.flattened(batch).in_turn(array, &join)?
    };
    let written = written.cast_exactly(own);
    Ok(if is_single { written.squeeze(&[0]) } else { written })
}

/// The updates and their places. The first axes of all three arrays are the axes of the indices.
#[derive(Clone, Copy)]
struct Step<'g> {
    places: Expr<'g>,
    updates: Expr<'g>,
    /// For each window, whether it is written. `None` if all are.
    inside: Option<Expr<'g>>,
}

impl<'g> Step<'g> {
    /// Writes all windows at once.
    fn write(
        &self,
        x: Expr<'g>,
        batch: usize,
        join: &impl Fn(Expr<'g>, Expr<'g>) -> Result<Expr<'g>>,
    ) -> Result<Expr<'g>> {
        let current = gather_nd(x, self.places, 0);
        let mut joined = join(current, self.updates)?;
        if let Some(inside) = self.inside {
            let trailing: Vec<usize> = (batch..joined.rank()).collect();
            joined = inside.unsqueeze(&trailing).select(joined, current);
        }
        Ok(write_nd(x, self.places, joined, Reduction::Overwrite))
    }

    /// Merges the axes of the indices into one axis.
    fn flattened(self, batch: &[Dim]) -> Step<'g> {
        let flat = |value: Expr<'g>| {
            let count = value.builder.product(batch);
            let shape = [&[count], &value.shape()[batch.len()..]].concat();
            value.reshape(&shape)
        };
        Step {
            places: flat(self.places),
            updates: flat(self.updates),
            inside: self.inside.map(flat),
        }
    }

    /// Writes one window after the other.
    fn in_turn(
        self,
        x: Expr<'g>,
        join: &impl Fn(Expr<'g>, Expr<'g>) -> Result<Expr<'g>>,
    ) -> Result<Expr<'g>> {
        let builder = x.builder;
        let inputs = [Type::new(DType::I64, []), Type::new(DType::Bool, []), x.ty()];
        let body = builder.body("scatter", &inputs, |inputs| -> Result<_> {
            let one = |value: Expr<'g>| value.gather(inputs[0], 0);
            let step = Step {
                places: one(self.places),
                updates: one(self.updates),
                inside: self.inside.map(one),
            };
            let written = step.write(inputs[2], 0, join)?;
            Ok(own_results(builder, vec![inputs[1], written]))
        })?;
        let count = builder.size(&self.places.shape()[0]);
        let goes_on = builder.constant_ints(DType::Bool, &[], &[1]);
        let operands = [Some(count), Some(goes_on), Some(x)];
        let attrs = vec![("body", Attr::from(body))];
        let results = builder.nodes(OpType::Loop, &operands, attrs, 1);
        Ok(results[0])
    }
}
