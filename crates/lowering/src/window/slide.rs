//! Describes sliding windows along an axis, and builds the array of all windows.

use onnx::{Builder, DType, Dim, Expr, OpType};

/// The maximum number of stored indices. The model computes more indices at run time.
const MAX_TABLE: i64 = 4096;

/// The sliding windows along one axis.
#[derive(Clone, Debug)]
pub(crate) struct Slide {
    /// The number of elements in a window.
    pub size: i64,
    pub stride: i64,
    /// The number of elements to add before the first and after the last element; a negative number
    /// removes elements.
    pub padding: (Dim, Dim),
    /// The distance between neighbors of the array after its dilation.
    pub base_dilation: i64,
    /// The distance between neighbors in a window.
    pub window_dilation: i64,
}

impl Slide {
    /// True if each window is one element of the array.
    pub(crate) fn is_trivial(&self) -> bool {
        self.size == 1 && self.stride == 1 && self.base_dilation == 1 && !self.is_padded()
    }

    pub(crate) fn is_padded(&self) -> bool {
        !(self.padding.0.is(0) && self.padding.1.is(0))
    }

    /// True if there is one window, the whole axis.
    pub(crate) fn is_whole(&self, size: &Dim) -> bool {
        let is_spread = self.base_dilation != 1 || self.window_dilation != 1;
        size.is(self.size) && !self.is_padded() && !is_spread
    }

    /// Returns the padding, if both sides are known.
    pub(crate) fn known_padding(&self) -> Option<(i64, i64)> {
        Some((self.padding.0.known()?, self.padding.1.known()?))
    }

    /// Returns the `count` windows along `axis`, which becomes two axes: the window, and the
    /// element in the window. Elements in the padding are `fill`.
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

    /// Returns the index of each element of each window along an axis of the given size, and
    /// whether some of them are in the padding. The index of those is `size`.
    ///
    /// Element `k` of window `i` is at `i·stride + k·window_dilation − low` of the dilated array,
    /// which has an element at every multiple of `base_dilation`.
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

    /// Returns the indices, the number of windows and the size of the axis, if all sizes are known
    /// and there are not too many indices.
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
