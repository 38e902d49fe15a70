//! `MaxPool` without its kernel.

use onnx::{Attr, Dim, Expr, OpType, Patch, Range, ValueId};

use super::Formula;

/// A window along one axis.
struct Window {
    axis: usize,
    size: i64,
    stride: i64,
    dilation: i64,
    pads: (i64, i64),
    /// The number of windows.
    count: i64,
    /// The number of elements.
    whole: i64,
}

/// Writes a `MaxPool` as the maximum of the elements of each window.
///
/// If windows do not overlap, their elements get axes of their own. Otherwise the maximum of strided slices is taken
/// along one axis after the other.
pub(super) fn max(edit: &mut Patch<'_, '_>, x: ValueId) -> Formula {
    let index = edit.root();
    let node = edit.node(index);
    let has_plain_sizes = edit.ty(x)?.dtype.is_float()
        && node.outputs.len() == 1
        && node.attr("auto_pad").is_none()
        && node.attr("ceil_mode").is_none_or(|mode| *mode == Attr::Int(0));
    has_plain_sizes.then_some(())?;
    let windows = windows(edit, x)?;
    let is_apart = |window: &Window| {
        window.stride == window.size
            && window.dilation == 1
            && window.pads == (0, 0)
            && window.count * window.size == window.whole
    };
    if windows.iter().all(is_apart) {
        let mut shape = edit.ty(x)?.shape[..2].to_vec();
        for window in &windows {
            shape.extend([Dim::Known(window.count), Dim::Known(window.size)]);
        }
        let axes: Vec<usize> = (0..windows.len()).map(|at| 3 + 2 * at).collect();
        return Some(
            edit.formula([x], |[x]| x.reshape(&shape).reduce(OpType::ReduceMax, &axes, false)),
        );
    }
    Some(edit.formula([x], |[x]| windows.iter().fold(padded(x, &windows), largest)))
}

fn windows(edit: &Patch<'_, '_>, x: ValueId) -> Option<Vec<Window>> {
    let node = edit.node(edit.root());
    let ints = |name: &str| match node.attr(name) {
        Some(Attr::Ints(ints)) => Some(ints.to_vec()),
        _ => None,
    };
    let sizes = ints("kernel_shape")?;
    let rank = sizes.len();
    let strides = ints("strides").unwrap_or_else(|| vec![1; rank]);
    let dilations = ints("dilations").unwrap_or_else(|| vec![1; rank]);
    let pads = ints("pads").unwrap_or_else(|| vec![0; 2 * rank]);
    let (before, after) = (edit.ty(x)?, edit.ty(node.outputs[0])?);
    (0..rank)
        .map(|at| {
            Some(Window {
                axis: at + 2,
                size: *sizes.get(at)?,
                stride: *strides.get(at)?,
                dilation: *dilations.get(at)?,
                pads: (*pads.get(at)?, *pads.get(at + rank)?),
                count: after.shape.get(at + 2)?.known()?,
                whole: before.shape.get(at + 2)?.known()?,
            })
        })
        .collect()
}

/// Pads an array with numbers that are below all others.
fn padded<'g>(x: Expr<'g>, windows: &[Window]) -> Expr<'g> {
    if windows.iter().all(|window| window.pads == (0, 0)) {
        return x;
    }
    let rank = x.rank();
    let mut pads = vec![0; 2 * rank];
    let mut shape = x.shape().to_vec();
    for window in windows {
        (pads[window.axis], pads[rank + window.axis]) = window.pads;
        shape[window.axis] = Dim::Known(window.whole + window.pads.0 + window.pads.1);
    }
    let pads = x.builder.ints(&pads);
    let lowest = x.constant(f64::NEG_INFINITY);
    x.builder.sized_node(OpType::Pad, &[x, pads, lowest], Vec::new(), &shape)
}

/// The most slices of which the maximum is taken at once.
const MAX_SLICES: i64 = 4;

/// Returns the largest element of each window along one axis. The maximum of a long window is that of two shorter ones.
fn largest<'g>(x: Expr<'g>, window: &Window) -> Expr<'g> {
    let whole = window.whole + window.pads.0 + window.pads.1;
    let (mut x, mut covered) = (x, 1);
    while window.size > MAX_SLICES && 2 * covered <= window.size {
        let offset = covered * window.dilation;
        covered *= 2;
        let count = whole - (covered - 1) * window.dilation;
        let (near, far) =
            (slice(x, window.axis, 0, count, 1), slice(x, window.axis, offset, count, 1));
        x = near.max(far);
    }
    let starts: Vec<i64> = match covered {
        1 => (0..window.size).collect(),
        _ if covered == window.size => vec![0],
        _ => vec![0, window.size - covered],
    };
    let slices: Vec<Expr<'g>> = starts
        .into_iter()
        .map(|at| slice(x, window.axis, at * window.dilation, window.count, window.stride))
        .collect();
    match slices[..] {
        [only] => only,
        _ => x.builder.node(OpType::Max, &slices, Vec::new()),
    }
}

/// Returns every `step`th element of an axis.
fn slice(x: Expr<'_>, axis: usize, start: i64, count: i64, step: i64) -> Expr<'_> {
    let mut shape = x.shape().to_vec();
    shape[axis] = Dim::Known(count);
    let mut ranges = vec![Range::whole(); shape.len()];
    let end = start + (count - 1) * step + 1;
    ranges[axis] = Range { start: start.into(), end: end.into(), step };
    x.slice(&ranges, &shape)
}
