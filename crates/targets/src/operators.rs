//! `adapt-operators`: writes an operator that a runtime lacks, or computes wrongly, as a formula of others.

use onnx::expr::broadcast_shapes;
use onnx::infer::axis_from_front;
use onnx::kernels::{Fault, Limit};
use onnx::{Attr, DType, Declined, Expr, OpType, Outcome, Patch, Replacement, Tensor, ValueId};

use super::integers;

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let op = edit.node(index).op.onnx()?;
    let first = edit.input(index, 0)?;
    let dtype = edit.ty(first)?.dtype;
    if op == OpType::Equal && edit.input(index, 1) == Some(first) && dtype.is_float() {
        return same_number(edit, first);
    }
    if op == OpType::Cast {
        return cast_to_unsigned(edit, first, dtype);
    }
    if op == OpType::Neg && dtype.is_int() && !edit.target().keeps_digits(op, dtype) {
        return integers::negative(edit, first);
    }
    if edit.has_limit(index, Limit::GeluTanh) || edit.has_limit(index, Limit::PowComputed) {
        let formula = instead(edit, op, first)?;
        return edit.settle(formula);
    }
    let formula = match edit.target().fault(op, edit.opset(), dtype)? {
        Fault::OfNan if !edit.exact_nan() || !edit.fact(first).floats().nan => return None,
        Fault::OfNan => with_nan(edit, op, first)?,
        Fault::Missing | Fault::Wrong => instead(edit, op, first)?,
    };
    edit.settle(formula)
}

/// Writes `x = x`, which is true unless `x` is NaN, without this comparison: some compilers take it for granted.
fn same_number(edit: &mut Patch<'_, '_>, x: ValueId) -> Outcome {
    if edit.target().is_default() || !edit.exact_nan() {
        return None;
    }
    let has_operator = edit.target().has(OpType::IsNaN, edit.opset());
    let number = edit.formula([x], |[x]| match has_operator {
        true => x.is_nan().logical_not(),
        false => x.constant(f64::INFINITY).greater_equal(x),
    });
    edit.settle(number)
}

/// The most elements that are cast bit by bit.
const MAX_CAST: i64 = 1 << 16;

/// Adds the numbers of the bits of an integer, for runtimes that have `uint32` but no cast to it.
fn cast_to_unsigned(edit: &mut Patch<'_, '_>, x: ValueId, dtype: DType) -> Outcome {
    let (to, target, opset) = (DType::U32, edit.target(), edit.opset());
    let result = edit.ty(edit.node(edit.root()).outputs[0])?;
    let is_missing =
        |to: DType| target.missing_type(OpType::Cast, opset, &[Some(dtype)], &[Some(to)]).is_some();
    let size = result.shape.iter().map(onnx::Dim::known).product::<Option<i64>>();
    if result.dtype != to || dtype == DType::U64 || !is_missing(to) || is_missing(DType::I64) {
        return None;
    }
    let needed = [OpType::Where, OpType::ReduceSum].map(|op| target.is_ordinary(op, to));
    if needed.contains(&false) || !target.has(OpType::BitwiseAnd, opset) {
        return None;
    }
    if size.is_none_or(|size| size > MAX_CAST) {
        return onnx::declined("the array is large, or its size is not known");
    }
    let rank = result.rank();
    let bits: Vec<i64> = (0..32).map(|bit| 1 << bit).collect();
    let of = |dtype: DType, edit: &mut Patch<'_, '_>| {
        Some(edit.constant(Tensor::of_ints(dtype, vec![32], &bits)?, &[]))
    };
    let (masks, numbers) = (of(DType::I64, edit)?, of(to, edit)?);
    let sum = edit.formula([x, masks, numbers], |[x, masks, numbers]| {
        let bits = x.cast(DType::I64).unsqueeze(&[rank]).bitwise_and(masks);
        let is_set = bits.equal(0.0).logical_not();
        is_set.select(numbers, numbers.constant(0.0)).reduce_sum(&[rank], false)
    });
    edit.settle(sum)
}

type Pair = for<'g> fn(Expr<'g>, Expr<'g>) -> Expr<'g>;

pub(super) type Formula = Option<Result<Replacement, Declined>>;

/// Returns a formula without the operator that is the same for all numbers.
pub(super) fn instead(edit: &mut Patch<'_, '_>, op: OpType, first: ValueId) -> Formula {
    let alpha = |default| float(edit, "alpha", default);
    let beta = |default| float(edit, "beta", default);
    let unary: &dyn Fn(Expr<'_>) -> Expr<'_> = match op {
        OpType::Mish => &|x| x * softplus(x).tanh(),
        OpType::Softplus => &softplus,
        OpType::Softsign => &|x| x / (x.abs() + 1.0),
        OpType::Selu => {
            let (alpha, gamma) = (alpha(1.673_263_2), float(edit, "gamma", 1.050_701));
            &move |x| elu(x, alpha, 1.0) * gamma
        }
        OpType::Elu => {
            let alpha = alpha(1.0);
            &move |x| elu(x, alpha, 1.0)
        }
        OpType::Celu => {
            let alpha = alpha(1.0);
            &move |x| elu(x, alpha, alpha)
        }
        OpType::ThresholdedRelu => {
            let alpha = alpha(1.0);
            &move |x| less(x.constant(alpha), x).select(x, 0.0)
        }
        OpType::LeakyRelu => {
            let alpha = alpha(0.01);
            &move |x| less(x, x.constant(0.0)).select(x * alpha, x)
        }
        OpType::Relu => &|x| less(x, x.constant(0.0)).select(x.constant(0.0), x),
        OpType::HardSigmoid => {
            let (alpha, beta) = (alpha(0.2), beta(0.5));
            &move |x| (x * alpha + beta).max(0.0).min(1.0)
        }
        OpType::HardSwish => &|x| x * (x * (1.0 / 6.0) + 0.5).max(0.0).min(1.0),
        OpType::Swish => {
            let alpha = alpha(1.0);
            &move |x| x * (x * alpha).sigmoid()
        }
        OpType::Gelu if text(edit, "approximate") == Some("tanh") => {
            &|x| x * 0.5 * (((x * x * x * 0.044_715 + x) * 0.797_884_56).tanh() + 1.0)
        }
        OpType::Gelu => &|x| x * 0.5 * ((x * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0),
        OpType::Sigmoid => &|x| ((-x).exp() + 1.0).recip(),
        OpType::Reciprocal => &|x| 1.0 / x,
        OpType::Neg => &|x| x.constant(0.0) - x,
        OpType::IsNaN => &is_nan,
        OpType::IsInf => &|x| x.abs().equal(f64::INFINITY),
        OpType::Sign => &|x| {
            let negative = less(x, x.constant(0.0)).select(x.constant(-1.0), x);
            less(x.constant(0.0), x).select(x.constant(1.0), negative)
        },
        OpType::Round => &|x| {
            let up = (x + 0.5).floor();
            let half = up * 0.5;
            let is_odd = half.floor().equal(half).logical_not();
            let is_tie = up.equal(x + 0.5).and(is_odd);
            is_tie.select(up - 1.0, up)
        },
        OpType::Tan => &|x| x.sin() / x.cos(),
        OpType::Acosh => &|x| {
            let positive = (x + (x * x - 1.0).sqrt()).log();
            less(x, x.constant(1.0)).select(x.constant(f64::NAN), positive)
        },
        OpType::Asinh => &|x| {
            let (size, square) = (x.abs(), x * x);
            let large = (size + (square + 1.0).sqrt()).log();
            let large = less(x, x.constant(0.0)).select(-large, large);
            // The first terms of the series.
            let small = ((square * (-15.0 / 336.0) + 3.0 / 40.0) * square - 1.0 / 6.0) * square;
            less(size, x.constant(0.1)).select(x + x * small, large)
        },
        _ => return several(edit, op),
    };
    Some(edit.formula([first], |[x]| unary(x)))
}

/// Returns a formula for an operator with several operands, or with axes.
fn several(edit: &mut Patch<'_, '_>, op: OpType) -> Formula {
    let index = edit.root();
    let second = edit.input(index, 1);
    let first = edit.input(index, 0)?;
    let pair =
        |edit: &mut Patch<'_, '_>, f: Pair| Some(edit.formula([first, second?], |[a, b]| f(a, b)));
    match op {
        OpType::Max | OpType::Min => extreme(edit, op, first),
        OpType::Pow => power(edit, first, second?),
        OpType::Mod if edit.ty(first)?.dtype.is_float() => pair(edit, remainder),
        OpType::Less | OpType::LessOrEqual | OpType::Greater | OpType::GreaterOrEqual
            if edit.ty(first)?.dtype == DType::U32 =>
        {
            pair(
                edit,
                match op {
                    OpType::Less => |a, b| below(a, b),
                    OpType::LessOrEqual => |a, b| below(b, a).logical_not(),
                    OpType::Greater => |a, b| below(b, a),
                    _ => |a, b| below(a, b).logical_not(),
                },
            )
        }
        OpType::Equal if edit.ty(first)?.dtype == DType::U32 => {
            pair(edit, |a, b| a.bitwise_xor(b).cast(DType::I32).equal(0.0))
        }
        OpType::Div => integers::quotient(edit, first, second?),
        OpType::Xor => pair(edit, |a, b| a.equal(b).logical_not()),
        OpType::Equal if edit.ty(first)?.dtype == DType::Bool => match known_flag(edit, second?) {
            Some(false) => Some(edit.formula([first], |[flag]| flag.logical_not())),
            Some(true) => Some(Ok(first.into())),
            None => pair(edit, |a, b| a.xor(b).logical_not()),
        },
        OpType::ArgMax | OpType::ArgMin => position(edit, op, first),
        OpType::MatMul => integer_product(edit, first, second?),
        OpType::Less => pair(edit, |a, b| b.greater(a)),
        OpType::LessOrEqual => pair(edit, |a, b| b.greater_equal(a)),
        OpType::BitShift => integers::shift(edit, first, second?),
        OpType::PRelu => pair(edit, |x, slope| less(x, x.constant(0.0)).select(x * slope, x)),
        OpType::ReduceL1
        | OpType::ReduceL2
        | OpType::ReduceLogSum
        | OpType::ReduceLogSumExp
        | OpType::ReduceSumSquare
        | OpType::ReduceMean => reduction(edit, op, first),
        _ => None,
    }
}

/// Writes a power of floats with exponentials and logarithms.
fn power(edit: &mut Patch<'_, '_>, base: ValueId, exponent: ValueId) -> Formula {
    let is_above_zero = |tensor: &Tensor| {
        tensor.floats().is_some_and(|floats| floats.iter().all(|&float| float > 0.0))
    };
    let is_positive = edit.tensor(base).is_some_and(is_above_zero);
    let kinds = [edit.ty(base)?.dtype, edit.ty(exponent)?.dtype];
    (kinds[0].is_float() && kinds[0] == kinds[1]).then(|| {
        edit.formula([base, exponent], |[x, by]| {
            if is_positive {
                return (x.log() * by).exp();
            }
            let size = (x.abs().log() * by).exp();
            let half = by * 0.5;
            let is_odd = half.floor().equal(half).logical_not();
            let signed = is_odd.select(-size, size);
            let of_negative = by.floor().equal(by).select(signed, f64::NAN);
            let any = less(x, x.constant(0.0)).select(of_negative, size);
            by.equal(0.0).select(any.constant(1.0), any)
        })
    })
}

/// Returns the flag that all elements of a constant are.
fn known_flag(edit: &Patch<'_, '_>, flags: ValueId) -> Option<bool> {
    let tensor = edit.tensor(flags)?;
    match tensor.ints()?[..] {
        [flag] if tensor.shape.is_empty() => Some(flag != 0),
        _ => None,
    }
}

/// Returns the position of the first extreme: the smallest index of an element that is equal to it.
fn position(edit: &mut Patch<'_, '_>, op: OpType, first: ValueId) -> Formula {
    let node = edit.node(edit.root());
    let last = matches!(node.attr("select_last_index"), Some(Attr::Int(1)));
    let axis = match node.attr("axis") {
        Some(&Attr::Int(axis)) => axis,
        _ => 0,
    };
    let keeps = keeps_axes(edit);
    let ty = edit.ty(first)?.clone();
    let axis = axis_from_front(axis, ty.rank())?;
    let size = ty.shape.get(axis)?.known().filter(|_| !last)?;
    let numbers = Tensor::of_ints(DType::I64, vec![size], &(0..size).collect::<Vec<_>>())?;
    let numbers = edit.constant(numbers, &[]);
    let extreme = if op == OpType::ArgMax { OpType::ReduceMax } else { OpType::ReduceMin };
    let trailing: Vec<usize> = (1..ty.rank() - axis).collect();
    Some(edit.formula([first, numbers], |[x, numbers]| {
        let is_extreme = x.equal(x.reduce(extreme, &[axis], true));
        let numbers = numbers.unsqueeze(&trailing);
        let found = is_extreme.select(numbers, numbers.constant(size as f64));
        found.reduce(OpType::ReduceMin, &[axis], keeps)
    }))
}

/// Writes a product of integer matrices as a sum of products.
pub(super) fn integer_product(
    edit: &mut Patch<'_, '_>,
    first: ValueId,
    second: ValueId,
) -> Formula {
    let (left, right) = (edit.ty(first)?.clone(), edit.ty(second)?.clone());
    let fits = left.rank() >= 2 && right.rank() >= 2 && left.dtype.is_int();
    let inner = left.rank().max(right.rank()) - 1;
    fits.then(|| {
        edit.formula([first, second], |[a, b]| {
            let a = a.unsqueeze(&[left.rank()]);
            let b = b.unsqueeze(&[right.rank() - 2]);
            (a * b).reduce_sum(&[inner], false)
        })
    })
}

/// Returns the axes of a reduction; every axis if it lists none.
pub(super) fn reduced_axes(edit: &Patch<'_, '_>, first: ValueId) -> Option<Vec<usize>> {
    let index = edit.root();
    let has_axes = edit.input(index, 1).is_some() || edit.node(index).attr("axes").is_some();
    match has_axes {
        true => edit.axes(index),
        false => Some((0..edit.ty(first)?.rank()).collect()),
    }
}

fn reduction(edit: &mut Patch<'_, '_>, op: OpType, first: ValueId) -> Formula {
    let axes = reduced_axes(edit, first)?;
    let keeps = keeps_axes(edit);
    let shape = edit.ty(first)?.shape.clone();
    let count = axes.iter().map(|&axis| shape[axis].known()).product::<Option<i64>>();
    Some(edit.formula([first], |[x]| match op {
        OpType::ReduceL1 => x.abs().reduce_sum(&axes, keeps),
        OpType::ReduceL2 => (x * x).reduce_sum(&axes, keeps).sqrt(),
        OpType::ReduceLogSum => x.reduce_sum(&axes, keeps).log(),
        OpType::ReduceLogSumExp => {
            let largest = x.reduce(OpType::ReduceMax, &axes, true);
            let sum = (x - largest).exp().reduce_sum(&axes, keeps).log();
            let largest = if keeps { largest } else { largest.squeeze(&axes) };
            sum + largest
        }
        OpType::ReduceMean => match count {
            Some(count) => x.reduce_sum(&axes, keeps) / count as f64,
            None => x.reduce(op, &axes, keeps),
        },
        _ => (x * x).reduce_sum(&axes, keeps),
    }))
}

/// Returns a formula that is NaN for a NaN, for operators that ONNX Runtime computes so.
pub(super) fn with_nan(edit: &mut Patch<'_, '_>, op: OpType, first: ValueId) -> Formula {
    match op {
        OpType::Relu => instead(edit, op, first),
        OpType::Max | OpType::Min => extreme(edit, op, first),
        OpType::Clip => {
            let index = edit.root();
            match (edit.input(index, 1), edit.input(index, 2)) {
                (Some(low), Some(high)) => {
                    Some(edit.formula([first, low, high], |[x, low, high]| {
                        let raised = less(x, low).select(low, x);
                        less(high, raised).select(high, raised)
                    }))
                }
                (Some(low), None) => {
                    Some(edit.formula([first, low], |[x, low]| less(x, low).select(low, x)))
                }
                (None, Some(high)) => {
                    Some(edit.formula([first, high], |[x, high]| less(high, x).select(high, x)))
                }
                (None, None) => None,
            }
        }
        OpType::Greater | OpType::GreaterOrEqual => {
            let second = edit.input(edit.root(), 1)?;
            Some(edit.formula([second, first], |[b, a]| match op {
                OpType::Greater => b.less(a),
                _ => b.less_equal(a),
            }))
        }
        OpType::Abs
        | OpType::Celu
        | OpType::Exp
        | OpType::HardSigmoid
        | OpType::Sigmoid
        | OpType::Sign
        | OpType::Tanh => {
            let op = edit.node(edit.root()).op.onnx()?;
            let attrs = edit.node(edit.root()).attrs.clone();
            Some(edit.formula([first], |[x]| {
                let attrs = attrs.iter().map(|(name, attr)| (&**name, attr.clone())).collect();
                is_nan(x).select(x, x.builder.node(op, &[x], attrs))
            }))
        }
        _ => None,
    }
}

/// Writes a maximum or a minimum as a comparison and a choice. A comparison with NaN is false, so the second operand is
/// the one that may be NaN.
fn extreme(edit: &mut Patch<'_, '_>, op: OpType, first: ValueId) -> Formula {
    let operands: Vec<ValueId> = edit.inputs(edit.root()).into_iter().flatten().collect();
    let &[_, second] = &operands[..] else { return None };
    let is_ordinary = |edit: &Patch<'_, '_>, value| !edit.fact(value).floats().nan;
    let is_max = op == OpType::Max;
    let (a, b) = match (is_ordinary(edit, first), is_ordinary(edit, second)) {
        (true, _) => (first, second),
        (false, true) => (second, first),
        (false, false) => {
            return Some(edit.formula([first, second], |[a, b]| {
                let is_first = if is_max { less(b, a) } else { less(a, b) };
                is_first.or(is_nan(a)).select(a, b)
            }));
        }
    };
    Some(edit.formula([a, b], |[a, b]| {
        let is_first = if is_max { less(b, a) } else { less(a, b) };
        is_first.select(a, b)
    }))
}

/// `a < b` for `uint32`. The runtime may compare in float32, in which only the signs of large integers are sure.
fn below<'g>(a: Expr<'g>, b: Expr<'g>) -> Expr<'g> {
    let (a, b) = (a.cast(DType::I32), b.cast(DType::I32));
    let (is_high, other_is_high) = (a.less(0.0), b.less(0.0));
    let is_below = (a - b).less(0.0);
    let is_one_high = is_high.xor(other_is_high);
    is_one_high.and(other_is_high).or(is_one_high.logical_not().and(is_below))
}

/// The remainder of a division that is rounded to zero.
///
/// If the quotient was rounded to the next integer, the remainder has the wrong sign.
fn remainder<'g>(x: Expr<'g>, by: Expr<'g>) -> Expr<'g> {
    let quotient = x / by;
    let is_below = less(quotient, quotient.constant(0.0));
    let rest = x - is_below.select(quotient.ceil(), quotient.floor()) * by;
    let size = by.abs();
    let turned = less(rest, rest.constant(0.0)).select(rest + size, rest - size);
    let is_turned = less(rest * x, rest.constant(0.0));
    is_turned.select(turned, rest)
}

/// `a < b`
fn less<'g>(a: Expr<'g>, b: Expr<'g>) -> Expr<'g> {
    let shape = broadcast_shapes(&a.shape(), &b.shape());
    let repeats = |x: Expr<'g>| shape.as_ref().is_some_and(|shape| **shape != *x.shape());
    let a = match &shape {
        Some(shape) if repeats(a) && repeats(b) && has_limit(a) => a.expand(shape),
        _ => a,
    };
    match a.builder.target().is_ordinary(OpType::Less, a.dtype()) {
        true => a.less(b),
        false => b.greater(a),
    }
}

/// True if a comparison cannot repeat both operands.
fn has_limit(x: Expr<'_>) -> bool {
    x.builder.target().has_limit(Limit::BroadcastComparison)
}

/// True for NaN, which is not below infinity. Some runtimes take `x = x` for granted.
fn is_nan(x: Expr<'_>) -> Expr<'_> {
    x.constant(f64::INFINITY).greater_equal(x).logical_not()
}

/// `log(1 + eˣ)`, without an overflow
fn softplus(x: Expr<'_>) -> Expr<'_> {
    x.max(0.0) + ((-x.abs()).exp() + 1.0).log()
}

/// `x` above zero, otherwise `α·(e^(x / β) − 1)`
fn elu(x: Expr<'_>, alpha: f64, beta: f64) -> Expr<'_> {
    let scaled = if beta == 1.0 { x } else { x / beta };
    less(x.constant(0.0), x).select(x, (scaled.exp() - 1.0) * alpha)
}

pub(super) fn keeps_axes(edit: &Patch<'_, '_>) -> bool {
    edit.node(edit.root()).attr("keepdims").is_none_or(|keeps| *keeps == Attr::Int(1))
}

fn float(edit: &Patch<'_, '_>, name: &str, default: f64) -> f64 {
    match edit.node(edit.root()).attr(name) {
        Some(&Attr::Float(value)) => value.into(),
        _ => default,
    }
}

pub(super) fn text<'e>(edit: &'e Patch<'_, '_>, name: &str) -> Option<&'e str> {
    match edit.node(edit.root()).attr(name) {
        Some(Attr::Str(value)) => Some(value),
        _ => None,
    }
}
