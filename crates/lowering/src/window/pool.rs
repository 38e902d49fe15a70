//! Reduces windows with pooling operators, if they compute the same.

use onnx::{Attr, DType, Dim, Expr, OpType};

use super::slide::Slide;
use crate::element::guards_nan;
use crate::reduce::Monoid;

/// The maximum number of ones that a sum stores.
const MAX_ONES: i64 = 4096;

/// The layout of an array for pooling: two axes, followed by the axes with windows.
struct Layout {
    /// Axis `i` of the pooled array is axis `order[i]` of the original array.
    order: Vec<usize>,
    /// The sizes of the axes without windows.
    others: Vec<Dim>,
}

/// Reduces the windows along `axes` with one pooling operator. Returns `None` if no operator
/// supports the type, the padding or the dilation.
pub(super) fn pool<'g>(
    x: Expr<'g>,
    axes: &[usize],
    slides: &[Slide],
    monoid: Monoid,
    shape: &[Dim],
) -> Option<Expr<'g>> {
    let is_empty = |dims: &[Dim]| dims.iter().any(|dim| dim.is(0));
    if axes.is_empty() || axes.len() > 3 || is_empty(shape) || is_empty(&x.shape()) {
        return None;
    }
    let slides: Vec<&Slide> = axes.iter().map(|&axis| &slides[axis]).collect();
    if slides.iter().any(|slide| slide.base_dilation != 1) {
        return None;
    }
    let pads: Vec<(i64, i64)> =
        slides.iter().map(|slide| slide.known_padding()).collect::<Option<_>>()?;
    if pads.iter().any(|&(low, high)| low < 0 || high < 0) {
        return None;
    }
    let counts: Vec<Dim> = axes.iter().map(|&axis| shape[axis].clone()).collect();
    let layout = Layout::new(x, axes);
    let pooling = Pooling { slides, pads, counts };
    let result = match monoid {
        Monoid::Add if x.dtype() == DType::F32 && pooling.has_sum() => {
            let x = layout.enter(x);
            // A pass turns this sum, divided by the size of the window, into a mean.
            x.builder.composite("window_sum", [x], pooling.attrs(), |[x]| pooling.sum(x))
        }
        Monoid::Max if pooling.has_max(x.dtype()) => pooling.max(layout.enter(x)),
        Monoid::Min if pooling.has_max(x.dtype()) && x.dtype().is_float() => {
            -pooling.max(-layout.enter(x))
        }
        _ => return None,
    };
    Some(layout.leave(result))
}

struct Pooling<'a> {
    slides: Vec<&'a Slide>,
    pads: Vec<(i64, i64)>,
    /// The number of windows along each axis.
    counts: Vec<Dim>,
}

impl Pooling<'_> {
    fn window(&self) -> Vec<i64> {
        self.slides.iter().map(|slide| slide.size).collect()
    }

    /// True if the padding is smaller than the window, as pooling operators require.
    fn has_little_padding(&self) -> bool {
        let sides = self.pads.iter().zip(&self.slides);
        sides.clone().all(|(&(low, high), slide)| low < slide.size && high < slide.size)
    }

    fn has_dilation(&self) -> bool {
        self.slides.iter().any(|slide| slide.window_dilation != 1)
    }

    /// True if `MaxPool` computes the same. With dilation, a window may be entirely in the padding.
    fn has_max(&self, dtype: DType) -> bool {
        let is_padded = self.pads.iter().any(|&pads| pads != (0, 0));
        let has_kernel = dtype.is_float() || matches!(dtype, DType::I8 | DType::U8 | DType::Bool);
        has_kernel && self.has_little_padding() && !(is_padded && self.has_dilation())
    }

    /// Returns the padding at the starts of the axes, then that at their ends.
    fn flat_pads(&self) -> Vec<i64> {
        let starts = self.pads.iter().map(|pads| pads.0);
        starts.chain(self.pads.iter().map(|pads| pads.1)).collect()
    }

    /// Returns the attributes that all pooling operators share, without those at their defaults.
    fn attrs(&self) -> Vec<(&'static str, Attr)> {
        let strides: Vec<i64> = self.slides.iter().map(|slide| slide.stride).collect();
        let dilations: Vec<i64> = self.slides.iter().map(|slide| slide.window_dilation).collect();
        let pads = self.flat_pads();
        let mut attrs = vec![("kernel_shape", self.window()[..].into())];
        let mut add = |name, values: &[i64], default: i64| {
            if values.iter().any(|&value| value != default) {
                attrs.push((name, values.into()));
            }
        };
        add("strides", &strides, 1);
        add("pads", &pads, 0);
        add("dilations", &dilations, 1);
        attrs
    }

    #[track_caller]
    fn node<'g>(
        &self,
        op: OpType,
        inputs: &[Expr<'g>],
        attrs: Vec<(&'static str, Attr)>,
    ) -> Expr<'g> {
        let x = inputs[0];
        let shape = [&x.shape()[..2], &self.counts].concat();
        let attrs = [self.attrs(), attrs].concat();
        x.builder.sized_node(op, inputs, attrs, &shape)
    }

    /// True if a device has no `MaxPool`. Then the passes write it as maxima, which keep NaN and infinities.
    fn is_for_device(&self, x: Expr<'_>) -> bool {
        let builder = x.builder;
        let is_known = |dims: &[Dim]| dims.iter().all(|dim| dim.known().is_some());
        !builder.target().is_on_device(OpType::MaxPool, builder.opset(), x.dtype())
            && matches!(x.dtype(), DType::F16 | DType::F32 | DType::F64)
            && is_known(&x.shape()[2..])
            && is_known(&self.counts)
    }

    /// <https://onnx.ai/onnx/operators/onnx__MaxPool.html>. ONNX Runtime may lose NaN, so the
    /// formula restores it.
    ///
    /// If all elements of a window are `-inf`, ONNX Runtime returns the smallest finite number.
    /// Therefore the formula pools halves: no finite half is that small, and doubling the number
    /// returns `-inf`.
    fn max<'g>(&self, x: Expr<'g>) -> Expr<'g> {
        let pooled = |x: Expr<'g>| self.node(OpType::MaxPool, &[x], Vec::new());
        if self.is_for_device(x) {
            return pooled(x);
        }
        let in_single = x.dtype() == DType::F32 || x.dtype() == DType::Bf16;
        let largest = if in_single && !x.builder.target().is_right(OpType::MaxPool, DType::F32) {
            pooled(x * 0.5) * 2.0
        } else {
            pooled(x)
        };
        if !guards_nan(x) {
            return largest;
        }
        let any_nan = if x.dtype() == DType::F32 && !self.has_dilation() {
            // Without negative numbers, infinities do not cancel each other, so the mean is NaN
            // only if there is a NaN.
            self.node(OpType::AveragePool, &[x.max(0.0)], Vec::new()).is_nan()
        } else {
            self.node(OpType::MaxPool, &[x.is_nan()], Vec::new())
        };
        any_nan.select(x.constant(f64::NAN), largest)
    }

    /// True if a window is small enough for a convolution with stored ones.
    fn has_sum(&self) -> bool {
        self.window().iter().product::<i64>() <= MAX_ONES
    }

    /// `Σ x = n · mean(x)` if `n` is a power of two, so that the product is exact; otherwise the
    /// convolution of each channel with ones.
    fn sum<'g>(&self, x: Expr<'g>) -> Expr<'g> {
        let window = self.window();
        let places: i64 = window.iter().product();
        let is_power_of_two = places.count_ones() == 1;
        let counts_padding = onnx::kernels::counts_padding(&self.flat_pads());
        if is_power_of_two && self.has_little_padding() && !self.has_dilation() && counts_padding {
            let mut attrs = Vec::new();
            if self.pads.iter().any(|&pads| pads != (0, 0)) {
                attrs.push(("count_include_pad", Attr::Int(1)));
            }
            return self.node(OpType::AveragePool, &[x], attrs) * places as f64;
        }
        let shape = x.shape();
        let channels = shape[1].known().filter(|channels| channels * places <= MAX_ONES);
        let ones = |channels: i64| {
            let shape = [&[channels, 1], &window[..]].concat();
            let count = usize::try_from(channels * places).unwrap_or(0);
            x.builder.constant(DType::F32, &shape, &vec![1.0; count])
        };
        if let Some(channels) = channels {
            let mut attrs = Vec::new();
            if channels != 1 {
                attrs.push(("group", Attr::Int(channels)));
            }
            return self.node(OpType::Conv, &[x, ones(channels)], attrs);
        }
        // With many channels, each channel becomes an entry of the batch.
        let apart = [&[x.builder.product(&shape[..2]), Dim::Known(1)], &shape[2..]].concat();
        let sums = self.node(OpType::Conv, &[x.reshape(&apart), ones(1)], Vec::new());
        sums.reshape(&[&shape[..2], &self.counts].concat())
    }
}

impl Layout {
    fn new(x: Expr<'_>, axes: &[usize]) -> Layout {
        let shape = x.shape();
        let others: Vec<usize> = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
        let sizes = others.iter().map(|&axis| shape[axis].clone()).collect();
        Layout { order: [&others[..], axes].concat(), others: sizes }
    }

    /// Returns the array with exactly two axes before those with windows.
    fn enter<'g>(&self, x: Expr<'g>) -> Expr<'g> {
        let x = x.transpose(&self.order);
        let shape = x.shape();
        let (_, windows) = shape.split_at(self.others.len());
        let lead = match &self.others[..] {
            [] => vec![Dim::Known(1), Dim::Known(1)],
            [one] => vec![Dim::Known(1), one.clone()],
            [joined @ .., last] => vec![x.builder.product(joined), last.clone()],
        };
        x.reshape(&[&lead[..], windows].concat())
    }

    /// Restores the axes before those with windows.
    fn leave<'g>(&self, x: Expr<'g>) -> Expr<'g> {
        let shape = [&self.others[..], &x.shape()[2..]].concat();
        let mut back = vec![0; self.order.len()];
        for (i, &axis) in self.order.iter().enumerate() {
            back[axis] = i;
        }
        x.reshape(&shape).transpose(&back)
    }
}
