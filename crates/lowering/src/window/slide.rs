//! Describes how windows slide along an axis, and builds the array of all windows.

use onnx::{Builder, DType, Dim, Expr, OpType};

/// The largest table of indices that is written rather than computed.
const MAX_TABLE: i64 = 4096;

/// Windows along one axis, each `stride` behind the one before.
#[derive(Clone, Debug)]
pub(crate) struct Slide {
    /// The number of elements in a window.
    pub size: i64,
    pub stride: i64,
    /// Elements put before the first and behind the last; taken away where negative.
    pub padding: (Dim, Dim),
    /// The distance of neighbors of the array once it is spread out.
    pub base_dilation: i64,
    /// The distance of neighbors in a window.
    pub window_dilation: i64,
}

impl Slide {
    /// True if every element is a window of its own.
    pub(crate) fn is_trivial(&self) -> bool {
        self.size == 1 && self.stride == 1 && self.base_dilation == 1 && !self.is_padded()
    }

    pub(crate) fn is_padded(&self) -> bool {
        !(self.padding.0.is(0) && self.padding.1.is(0))
    }

    /// True if the one window is the whole axis.
    pub(crate) fn is_whole(&self, size: &Dim) -> bool {
        let is_spread = self.base_dilation != 1 || self.window_dilation != 1;
        size.is(self.size) && !self.is_padded() && !is_spread
    }

    /// Returns the padding, where both sides are known numbers.
    pub(crate) fn known_padding(&self) -> Option<(i64, i64)> {
        Some((self.padding.0.known()?, self.padding.1.known()?))
    }

    /// Returns the windows along `axis`, of which there are `count`: the axis becomes two, the
    /// window and the place in it. Places without an element hold `fill`.
    #[track_caller]
    pub(crate) fn windows<'g>(
        &self,
        x: Expr<'g>,
        axis: usize,
        count: &Dim,
        fill: Expr<'g>,
    ) -> Expr<'g> {
        x.builder.helper("windows", || {
            let (indices, has_holes) = self.indices(x.builder, &x.shape()[axis], count);
            let x = if has_holes { with_one_more(x, axis, fill) } else { x };
            x.gather(indices, axis)
        })
    }

    /// Returns the index of each place of each window along an axis of the given size, and whether
    /// some have no element: those have the index after the last.
    ///
    /// Place `k` of window `i` is at `i·stride + k·window_dilation − low` of the array spread out,
    /// which holds an element at every multiple of `base_dilation`.
    pub(super) fn indices<'g>(
        &self,
        builder: &'g Builder,
        size: &Dim,
        count: &Dim,
    ) -> (Expr<'g>, bool) {
        if let Some((table, count, size)) = self.table(size, count) {
            let has_holes = table.contains(&size);
            return (builder.constant_ints(DType::I64, &[count, self.size], &table), has_holes);
        }
        let mut starts = Expr::range(builder, count);
        if self.stride != 1 {
            starts = starts * self.stride as f64;
        }
        if !self.padding.0.is(0) {
            starts = starts - builder.size(&self.padding.0);
        }
        let places: Vec<i64> = (0..self.size).map(|k| k * self.window_dilation).collect();
        let at = starts.unsqueeze(&[1]) + builder.ints(&places);
        let adds = |side: &Dim| !side.is_at_most(0);
        let has_holes = self.base_dilation > 1 || adds(&self.padding.0) || adds(&self.padding.1);
        if !has_holes {
            return (at, false);
        }
        let size = builder.size(size);
        let dilation = self.base_dilation as f64;
        let mut is_element = at.greater_equal(0.0);
        let mut index = at;
        let mut end = size;
        if self.base_dilation > 1 {
            is_element = is_element.and(at.modulo(dilation).equal(0.0));
            index = at / dilation;
            end = size * dilation;
        }
        (is_element.and(at.less(end)).select(index, size), true)
    }

    /// Returns the indices as a list, where all sizes are known and it is not too long.
    pub(crate) fn table(&self, size: &Dim, count: &Dim) -> Option<(Vec<i64>, i64, i64)> {
        let (size, count, low) = (size.known()?, count.known()?, self.padding.0.known()?);
        if count.saturating_mul(self.size) > MAX_TABLE {
            return None;
        }
        let index = |window: i64, place: i64| {
            let at = window * self.stride + place * self.window_dilation - low;
            let is_element =
                at >= 0 && at % self.base_dilation == 0 && at / self.base_dilation < size;
            if is_element { at / self.base_dilation } else { size }
        };
        let windows = 0..count;
        let table =
            windows.flat_map(|window| (0..self.size).map(move |place| index(window, place)));
        Some((table.collect(), count, size))
    }
}

/// Adds one element at the end of an axis.
fn with_one_more<'g>(x: Expr<'g>, axis: usize, fill: Expr<'g>) -> Expr<'g> {
    let mut amounts = vec![0; 2 * x.rank()];
    amounts[x.rank() + axis] = 1;
    let amounts = x.builder.ints(&amounts);
    x.builder.node(OpType::Pad, &[x, amounts, fill], Vec::new())
}
