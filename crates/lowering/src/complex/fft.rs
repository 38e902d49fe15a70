//! Fourier transforms.

use onnx::{Attr, Builder, DType, Dim, Expr, OpType, Range, Type};

use crate::ctx::{Ctx, Eqn};
use crate::error::{Refused, Result};
use crate::parts::Complex;

/// The direction of a transform.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Inverse,
}

/// Computes the discrete Fourier transform over the last axes, one axis after the other.
///
/// The transform of real numbers is only half of the spectrum. The inverse completes such a half:
/// `X[n − k]` is the conjugate of `X[k]`.
pub(crate) fn fft<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let kind: jaxpr::Param = eqn.param("fft_type")?;
    let lengths: Vec<Dim> = eqn.param("fft_lengths")?;
    let [x] = eqn.operands()?;
    let name = match &kind {
        jaxpr::Param::Enum(_, name) => name.trim_start_matches("CUFFT_").to_owned(),
        jaxpr::Param::Int(code @ 0..=3) => ["FFT", "IFFT", "RFFT", "IRFFT"][*code as usize].into(),
        other => other.to_string(),
    };
    let rank = x.rank() - usize::from(eqn.is_complex_operand(0));
    let axes: Vec<usize> = (rank - lengths.len()..rank).collect();
    let Some((&last, others)) = axes.split_last() else {
        return Ok(x);
    };
    if lengths.iter().any(|length| matches!(length, Dim::Known(0))) {
        let Type { dtype, shape } = eqn.output()?.clone();
        return Ok(x.builder.scalar(dtype, 0.0).expand(&shape));
    }
    Ok(match name.as_str() {
        "FFT" => transform_axes(x, &axes, Direction::Forward),
        "IFFT" => transform_axes(x, &axes, Direction::Inverse),
        "RFFT" => {
            let size = eqn.output()?.shape[last].clone();
            transform_axes(half_spectrum(x, last, &size), others, Direction::Forward)
        }
        "IRFFT" => {
            let Some(length) = eqn.output()?.shape[last].known() else {
                let what = "irfft to an axis of unknown size".into();
                return Err(Refused::NoCounterpart { what }.into());
            };
            let whole = whole_spectrum(transform_axes(x, others, Direction::Inverse), last, length);
            Complex::of(transform_axes(whole, &[last], Direction::Inverse)).re
        }
        other => {
            let what = format!("fft_type={other}");
            return Err(Refused::NoCounterpart { what }.into());
        }
    })
}

fn transform_axes<'g>(pairs: Expr<'g>, axes: &[usize], direction: Direction) -> Expr<'g> {
    let axes: Vec<usize> = axes.iter().copied().filter(|&axis| !is_single(pairs, axis)).collect();
    let rounds_inverse = |axis: usize| rounds_inverse(pairs, axis);
    with_all_digits(pairs, &axes, |pairs| {
        axes.iter().fold(pairs, |x, &axis| match direction {
            Direction::Forward => dft(x, axis, vec![]),
            Direction::Inverse if rounds_inverse(axis) => inverse_by_forward(x, axis),
            Direction::Inverse => dft(x, axis, vec![("inverse", Attr::Int(1))]),
        })
    })
}

/// The largest length, other than powers of two, whose transform of float32 has an error of a few last digits.
const MAX_EXACT_LENGTH: i64 = 16;

/// Transforms float32 as float64 if the error of ONNX Runtime would exceed rounding: it grows with the length unless that
/// is a power of two. Other runtimes are given float32.
fn with_all_digits<'g>(
    x: Expr<'g>,
    axes: &[usize],
    transform: impl FnOnce(Expr<'g>) -> Expr<'g>,
) -> Expr<'g> {
    let is_exact = |length: i64| is_power_of_two(length) || length <= MAX_EXACT_LENGTH;
    let loses_digits = |&axis: &usize| !x.shape()[axis].known().is_some_and(is_exact);
    let is_for_it = x.builder.target().includes_onnxruntime();
    if is_for_it && x.dtype() == DType::F32 && axes.iter().any(loses_digits) {
        return transform(x.cast(DType::F64)).cast(DType::F32);
    }
    transform(x)
}

fn is_power_of_two(length: i64) -> bool {
    length.unsigned_abs().is_power_of_two()
}

/// True if ONNX Runtime loses digits of an inverse transform of float64: it rounds the factor `1 / n` to float32.
fn rounds_inverse(x: Expr<'_>, axis: usize) -> bool {
    x.dtype() == DType::F64 && !x.shape()[axis].known().is_some_and(is_power_of_two)
}

/// Returns the inverse transform by a forward one, which reads and returns pairs in reverse order.
fn inverse_by_forward(x: Expr<'_>, axis: usize) -> Expr<'_> {
    let parts = x.rank() - 1;
    let length = x.builder.size(&x.shape()[axis]).cast(DType::F64);
    reversed(dft(reversed(x, parts), axis, vec![]), parts) / length
}

/// Reverses the order of the elements along an axis.
fn reversed(x: Expr<'_>, axis: usize) -> Expr<'_> {
    let mut ranges = vec![Range::whole(); x.rank()];
    ranges[axis] = Range::backwards();
    x.slice(&ranges, &x.shape())
}

/// True if the axis has one element. Its transform is the element itself.
fn is_single(x: Expr<'_>, axis: usize) -> bool {
    x.shape()[axis] == Dim::Known(1)
}

/// Returns the transform of real numbers along an axis, without the half that follows from
/// symmetry.
fn half_spectrum<'g>(x: Expr<'g>, axis: usize, size: &Dim) -> Expr<'g> {
    if is_single(x, axis) {
        return Complex::of_real(x).pairs();
    }
    let single = x.unsqueeze(&[x.rank()]);
    let half = with_all_digits(single, &[axis], |x| dft(x, axis, vec![("onesided", Attr::Int(1))]));
    is_real(x.builder, &x.shape()[axis], size).select(half.constant(0.0), half)
}

/// Returns a mask of the imaginary parts of a half spectrum that are zero: those of the first
/// entry, and of the last entry if the length is even, because both are sums and differences of
/// real numbers.
fn is_real<'g>(builder: &'g Builder, length: &Dim, size: &Dim) -> Expr<'g> {
    let flags = |shape: &[i64], flags: &[i64]| builder.constant_ints(DType::Bool, shape, flags);
    if let (Some(length), Some(size)) = (length.known(), size.known()) {
        let parts = (0..size).flat_map(|k| [0, i64::from(2 * k % length == 0)]);
        return flags(&[size, 2], &parts.collect::<Vec<i64>>());
    }
    let twice = Expr::range(builder, size) * 2.0;
    let is_end = twice.equal(0.0).or(twice.equal(builder.size(length)));
    is_end.unsqueeze(&[1]).and(flags(&[2], &[0, 1]))
}

/// Completes the first `⌊length / 2⌋ + 1` entries of a spectrum to `length` entries. Ignores the imaginary parts of
/// entries that must be real.
fn whole_spectrum(half: Expr<'_>, axis: usize, length: i64) -> Expr<'_> {
    let known = length / 2 + 1;
    let half = half.slice_axis(axis, 0, known);
    if length == 1 {
        return half;
    }
    let is_real = is_real(half.builder, &Dim::Known(length), &Dim::Known(known));
    let half = is_real.select(half.constant(0.0), half);
    if length == 2 {
        return half;
    }
    let mirrored = Complex::of(reversed(half.slice_axis(axis, 1, length - known + 1), axis));
    let conjugate = Complex { re: mirrored.re, im: -mirrored.im }.pairs();
    Expr::concat(&[half, conjugate], axis)
}

/// Adds a `DFT`. Since opset 20, the axis is an operand, not an attribute. A single signal gets an axis for a batch, as
/// ONNX requires: without it, ONNX Runtime before 1.27 adds an axis to the result.
#[track_caller]
fn dft<'g>(x: Expr<'g>, axis: usize, mut attrs: Vec<(&str, Attr)>) -> Expr<'g> {
    let builder = x.builder;
    if x.rank() == 2 {
        return dft(x.unsqueeze(&[0]), axis + 1, attrs).squeeze(&[0]);
    }
    let inputs = if builder.opset() >= 20 {
        let axis = builder.constant_ints(DType::I64, &[], &[axis as i64]);
        vec![Some(x), None, Some(axis)]
    } else {
        attrs.push(("axis", Attr::Int(axis as i64)));
        vec![Some(x)]
    };
    builder.nodes(OpType::DFT, &inputs, attrs, 1).swap_remove(0)
}
