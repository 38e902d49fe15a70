//! Lowers the derivatives of pooling, in which each window selects an element.

use std::sync::Arc;

use onnx::{Attr, Builder, Dim, Expr, OpType, Range};

use super::slide::Slide;
use super::slides;
use crate::ctx::{Ctx, Eqn};
use crate::element::guards_nan;
use crate::error::{Refused, Result};
use crate::index::Reduction;
use crate::reduce::Monoid;

/// Returns the tangent of the element that each window selects: the first of the largest elements
/// (`ge`) or of the smallest elements (`le`).
pub(crate) fn select_and_gather_add<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let monoid = selection(eqn)?;
    let slides = slides(ctx, eqn)?;
    let [tangents, operand] = eqn.operands()?;
    let shape = eqn.output()?.shape.clone();
    let windows = Windows::new(operand, &slides, &shape);
    let chosen = windows.chosen(operand, monoid);
    let tangents = windows.of(tangents, tangents.constant(0.0));
    Ok(windows.leave(tangents.gather_elements(chosen, 2).squeeze(&[2]), &windows.counts))
}

/// Adds each element of the source at the element that its window selects: the first of the largest
/// elements (`ge`) or of the smallest elements (`le`).
pub(crate) fn select_and_scatter_add<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let monoid = selection(eqn)?;
    let slides = slides(ctx, eqn)?;
    let [source, operand] = eqn.operands()?;
    let (builder, dtype) = (ctx.builder, source.dtype());
    let source = source.cast(Reduction::Add.compute_type(dtype));
    let windows = Windows::new(operand, &slides, &source.shape());
    let chosen = windows.chosen(operand, monoid).squeeze(&[2]);

    // The positions of all windows are one list; those of a window are consecutive.
    let count = builder.product(&windows.counts);
    let total = builder.product(&windows.sizes);
    let places = windows.places();
    let starts = match count.known() {
        Some(count) => builder.ints(&(0..count).map(|i| i * places).collect::<Vec<i64>>()),
        None => Expr::range(builder, &count) * places as f64,
    };
    let at = windows.positions(builder, &total).gather(chosen + starts, 0);

    // One additional position is for windows that select the padding.
    let rows = builder.product(&windows.others);
    let longer = builder.sum(&total, &Dim::Known(1));
    let zeros = source.constant(0.0).expand(&[rows.clone(), longer]);
    let source = source.transpose(&windows.order).reshape(&[rows.clone(), count]);
    let attrs = vec![("axis", Attr::Int(1)), ("reduction", "add".into())];
    let added = builder.node(OpType::ScatterElements, &[zeros, at, source], attrs);
    let end = total.known().unwrap_or(-1).into();
    let ranges = [Range::whole(), Range { end, ..Range::whole() }];
    Ok(windows.leave(added.slice(&ranges, &[rows, total]), &windows.sizes).cast(dtype))
}

fn selection(eqn: &Eqn<'_, '_>) -> Result<Monoid> {
    let primitive: Arc<str> = eqn.param("select_prim")?;
    match &*primitive {
        "ge" => Ok(Monoid::Max),
        "le" => Ok(Monoid::Min),
        other => Err(Refused::NoCounterpart { what: format!("select_prim={other}") }.into()),
    }
}

/// The windows of an array, with the axes that have windows after the others.
struct Windows<'a> {
    slides: Vec<&'a Slide>,
    /// Axis `i` of the transposed array is axis `order[i]` of the original array.
    order: Vec<usize>,
    others: Vec<Dim>,
    /// The sizes of the axes with windows, and the number of windows along each.
    sizes: Vec<Dim>,
    counts: Vec<Dim>,
}

impl<'a> Windows<'a> {
    fn new(x: Expr<'_>, slides: &'a [Slide], counts: &[Dim]) -> Windows<'a> {
        let (axes, others): (Vec<usize>, Vec<usize>) =
            (0..x.rank()).partition(|&axis| !slides[axis].is_trivial());
        let shape = x.shape();
        let dims = |axes: &[usize], of: &[Dim]| axes.iter().map(|&axis| of[axis].clone()).collect();
        Windows {
            slides: axes.iter().map(|&axis| &slides[axis]).collect(),
            order: [&others[..], &axes].concat(),
            others: dims(&others, &shape),
            sizes: dims(&axes, &shape),
            counts: dims(&axes, counts),
        }
    }

    /// Returns the number of elements in a window.
    fn places(&self) -> i64 {
        self.slides.iter().map(|slide| slide.size).product()
    }

    /// Returns all windows with three axes: the axes without windows, the windows, and the elements
    /// of a window.
    fn of<'g>(&self, x: Expr<'g>, fill: Expr<'g>) -> Expr<'g> {
        let mut windows = x.transpose(&self.order);
        let first = self.others.len();
        for (i, slide) in self.slides.iter().enumerate() {
            windows = slide.windows(windows, first + 2 * i, &self.counts[i], fill);
        }
        let pairs = self.slides.len();
        let others = 0..first;
        let counts = (0..pairs).map(|i| first + 2 * i);
        let places = (0..pairs).map(|i| first + 2 * i + 1);
        let order: Vec<usize> = others.chain(counts).chain(places).collect();
        let builder = x.builder;
        let shape = [
            builder.product(&self.others),
            builder.product(&self.counts),
            Dim::Known(self.places()),
        ];
        windows.transpose(&order).reshape(&shape)
    }

    /// Returns the index in the window of the element that each window selects.
    ///
    /// JAX compares one element after the other with the selected one, and comparisons with NaN are
    /// false. Therefore a NaN replaces the elements before it, and the next element replaces the
    /// NaN.
    fn chosen<'g>(&self, x: Expr<'g>, monoid: Monoid) -> Expr<'g> {
        let windows = self.of(x, monoid.identity(x));
        let (builder, last) = (x.builder, self.places() - 1);
        if !guards_nan(x) || last == 0 {
            return place_of(windows, monoid);
        }
        // If there are NaNs, only the elements after the last NaN count.
        let after: Vec<i64> = (1..=last).chain([last]).collect();
        let start = windows.is_nan().select(builder.ints(&after), 0.0).reduce(
            OpType::ReduceMax,
            &[2],
            true,
        );
        let counts = start.less_equal(builder.ints(&(0..=last).collect::<Vec<i64>>()));
        place_of(counts.select(windows, monoid.identity(x)), monoid).max(start)
    }

    /// Returns the position of each element of each window in the merged axes with windows, as one
    /// list. An element in the padding is after the last one, at `total`.
    fn positions<'g>(&self, builder: &'g Builder, total: &Dim) -> Expr<'g> {
        match self.known_positions() {
            Some(positions) => builder.ints(&positions),
            None => self.computed_positions(builder, total),
        }
    }

    /// Returns the positions, if all sizes are known and the list is not too long.
    fn known_positions(&self) -> Option<Vec<i64>> {
        // For each window over the axes so far, the position of each element, or `None` in the
        // padding.
        let mut so_far = vec![vec![Some(0)]];
        for (i, slide) in self.slides.iter().enumerate() {
            let (table, _, size) = slide.table(&self.sizes[i], &self.counts[i])?;
            let width = usize::try_from(slide.size.max(1)).unwrap_or(1);
            let mut next = Vec::new();
            for window in &so_far {
                for places in table.chunks(width) {
                    let join = |before: &Option<i64>, place: i64| {
                        before.filter(|_| place < size).map(|before| before * size + place)
                    };
                    let joined = window
                        .iter()
                        .flat_map(|at| places.iter().map(move |&place| join(at, place)));
                    next.push(joined.collect());
                }
            }
            so_far = next;
        }
        let total: i64 = self.sizes.iter().filter_map(Dim::known).product();
        Some(so_far.into_iter().flatten().map(|at| at.unwrap_or(total)).collect())
    }

    fn computed_positions<'g>(&self, builder: &'g Builder, total: &Dim) -> Expr<'g> {
        let count = self.slides.len();
        let mut joined: Option<Expr<'g>> = None;
        let mut is_padding: Option<Expr<'g>> = None;
        for (i, slide) in self.slides.iter().enumerate() {
            let (own, has_holes) = slide.indices(builder, &self.sizes[i], &self.counts[i]);
            let others: Vec<usize> =
                (0..2 * count).filter(|&axis| axis != i && axis != count + i).collect();
            let own = own.unsqueeze(&others);
            let size = builder.size(&self.sizes[i]);
            if has_holes {
                let hole = own.equal(size);
                is_padding = Some(is_padding.map_or(hole, |before| before.or(hole)));
            }
            joined = Some(joined.map_or(own, |before| before * size + own));
        }
        let positions = joined.unwrap_or_else(|| builder.ints(&[0]));
        let positions = match is_padding {
            Some(is_padding) => is_padding.select(builder.size(total), positions),
            None => positions,
        };
        positions.reshape(&[builder.product(&positions.shape())])
    }

    /// Restores the original axes. Those with windows have the given sizes.
    fn leave<'g>(&self, x: Expr<'g>, sizes: &[Dim]) -> Expr<'g> {
        let mut back = vec![0; self.order.len()];
        for (i, &axis) in self.order.iter().enumerate() {
            back[axis] = i;
        }
        x.reshape(&[&self.others[..], sizes].concat()).transpose(&back)
    }
}

/// Returns the index of the first largest or smallest element of each window.
fn place_of(windows: Expr<'_>, monoid: Monoid) -> Expr<'_> {
    let op = if monoid == Monoid::Max { OpType::ArgMax } else { OpType::ArgMin };
    let attrs = vec![("axis", Attr::Int(2)), ("keepdims", Attr::Int(1))];
    windows.builder.node(op, &[windows], attrs)
}
