//! Determines which signs the elements of a value can have.
//!
//! NaN has no sign here, because it stays NaN in any case. Integers have the signs that their [`bounds`] leave: they
//! wrap, so that what holds for floats does not hold for them.

use onnx::operator::properties::VIEW_OPS;
use onnx::{Edit, OpType, Tensor, ValueId};

use crate::bounds::bounds;

/// How many nodes are followed from a value to what it is made of.
const DEPTH: usize = 4;

/// A constant with more elements is not looked at, because that takes longer than the rest of an export.
const MAX_CONSTANT: usize = 1 << 16;

/// The elements below zero that a value may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signs {
    /// An element may be less than zero.
    pub negative: bool,
    /// An element may be `−0`.
    pub negative_zero: bool,
}

impl Signs {
    const ANY: Signs = Signs { negative: true, negative_zero: true };
    pub(crate) const POSITIVE: Signs = Signs { negative: false, negative_zero: false };

    /// Returns the signs of what is one or the other.
    fn or(self, other: Signs) -> Signs {
        Signs {
            negative: self.negative || other.negative,
            negative_zero: self.negative_zero || other.negative_zero,
        }
    }

    /// Returns the signs after a rounding that makes small numbers zero.
    fn rounded(self) -> Signs {
        Signs { negative_zero: self.negative_zero || self.negative, ..self }
    }
}

/// Returns the signs that the elements of a value may have.
pub(crate) fn signs(edit: &Edit<'_>, value: ValueId) -> Signs {
    follow(edit, value, DEPTH).unwrap_or(Signs::ANY)
}

fn of_integers(edit: &Edit<'_>, value: ValueId) -> Signs {
    let may_be_negative = edit.ty(value).is_none_or(|ty| ty.dtype.is_signed_int())
        && bounds(edit, value).is_none_or(|(low, _)| low < 0);
    Signs { negative: may_be_negative, negative_zero: false }
}

fn follow(edit: &Edit<'_>, value: ValueId, depth: usize) -> Option<Signs> {
    if !edit.ty(value)?.dtype.is_float() {
        return Some(of_integers(edit, value));
    }
    if let Some(tensor) = edit.tensor(value) {
        return Some(of_constant(tensor));
    }
    let index = edit.producer(value)?;
    let depth = depth.checked_sub(1)?;
    let node = edit.node(index);
    let of = |operand: usize| {
        let found = edit.input(index, operand).and_then(|id| follow(edit, id, depth));
        found.unwrap_or(Signs::ANY)
    };
    let both = || (of(0), of(1));
    let if_positive = |is_positive: bool| if is_positive { Signs::POSITIVE } else { Signs::ANY };
    let found = match node.op.onnx()? {
        OpType::Abs
        | OpType::Cosh
        | OpType::Exp
        | OpType::ReduceL1
        | OpType::ReduceL2
        | OpType::ReduceSumSquare
        | OpType::Sigmoid
        | OpType::Softmax
        | OpType::Softplus => Signs::POSITIVE,
        // The root of a number below zero is NaN, and that of `−0` is `−0`.
        OpType::Sqrt => Signs { negative: false, ..of(0) },
        OpType::Relu => Signs { negative: false, ..of(0).rounded() },
        OpType::Mul if edit.input(index, 0) == edit.input(index, 1) => Signs::POSITIVE,
        OpType::Mul | OpType::Div => {
            if_positive(of(0) == Signs::POSITIVE && of(1) == Signs::POSITIVE)
        }
        // A sum is `−0` only if both terms are, and a difference only if its first operand is.
        OpType::Add => {
            let (a, b) = both();
            let negative_zero = a.negative_zero && b.negative_zero;
            Signs { negative: a.negative || b.negative, negative_zero }
        }
        OpType::Sub => Signs { negative: true, negative_zero: of(0).negative_zero },
        OpType::ReduceSum | OpType::Gather | OpType::Slice | OpType::Identity => of(0),
        OpType::ReduceMean => of(0).rounded(),
        OpType::Max | OpType::Min if node.inputs.len() == 2 => {
            let (a, b) = both();
            let is_max = node.op == OpType::Max;
            let negative = if is_max { a.negative && b.negative } else { a.negative || b.negative };
            Signs { negative, ..a.or(b) }
        }
        OpType::Where => of(1).or(of(2)),
        OpType::Cast => {
            let source = edit.input(index, 0)?;
            if edit.ty(source)?.dtype.is_float() {
                of(0).rounded()
            } else {
                of_integers(edit, source)
            }
        }
        op if op.is(VIEW_OPS) => of(0),
        _ => return None,
    };
    Some(found)
}

fn of_constant(tensor: &Tensor) -> Signs {
    if tensor.len() > MAX_CONSTANT {
        return Signs::ANY;
    }
    let is_negative_zero = |number: f64| number == 0.0 && number.is_sign_negative();
    Signs {
        negative: !tensor.all_floats(|number| number >= 0.0 || number.is_nan()),
        negative_zero: !tensor.all_floats(|number| !is_negative_zero(number)),
    }
}

#[cfg(test)]
mod tests {
    use onnx::{DType, Tensor};

    use super::{MAX_CONSTANT, Signs, of_constant, signs};

    /// Asserts the signs of `y`, which the nodes make of `x` and of the integers `n` and `k`.
    #[track_caller]
    fn check(nodes: &str, negative: bool, negative_zero: bool) {
        let graph = format!("graph g(x:f32[3], n:u32[3], k:i32[3]) -> (y)\n{nodes}");
        let mut model = onnx::text::parse_graph(&graph).unwrap();
        model.edit(&mut |edit| {
            let result = edit.node(edit.len() - 1).outputs[0];
            assert_eq!(signs(edit, result), Signs { negative, negative_zero }, "{nodes}");
        });
    }

    #[test]
    fn a_large_constant_is_not_looked_at() {
        let ones = |count: usize| {
            Tensor::of_floats(DType::F32, vec![count as i64], &vec![1.0; count]).unwrap()
        };
        assert_eq!(of_constant(&ones(MAX_CONSTANT)), Signs::POSITIVE);
        assert_eq!(of_constant(&ones(MAX_CONSTANT + 1)), Signs::ANY);
    }

    #[test]
    fn a_square_and_a_size_are_positive() {
        check("y:f32[3] = Mul(x, x)", false, false);
        check("y:f32[3] = Mul(x, 2.0)", true, true);
        check("%0:f32[3] = Abs(x)\ny:f32[3] = Mul(%0, 2.0)", false, false);
        check("%0:f32[3] = Abs(x)\ny:f32[3] = Mul(%0, -2.0)", true, true);
        check("%0:f32[3] = Abs(x)\n%1:f32[3] = Exp(x)\ny:f32[3] = Div(%0, %1)", false, false);
    }

    #[test]
    fn a_sum_is_a_negative_zero_only_if_both_terms_are() {
        check("y:f32[3] = Add(x, x)", true, true);
        check("y:f32[3] = Add(x, 0.0)", true, false);
        check("y:f32[3] = Add(x, -0.0)", true, true);
        check("y:f32[3] = Sub(0.0, x)", true, false);
        check("y:f32[3] = Sub(x, 0.0)", true, true);
    }

    #[test]
    fn rounding_and_a_maximum_leave_a_negative_zero() {
        check("y:f32[3] = Relu(x)", false, true);
        check("y:f32[3] = Max(x, 1.0)", false, true);
        check("%0:f32[3] = Add(x, 0.0)\ny:f32[3] = Max(%0, 1.0)", false, false);
        check("%0:f32[3] = Sub(1.0, x)\ny:f16[3] = Cast(%0) {to=10}", true, true);
        check("%0:f32[3] = Abs(x)\ny:f32[3] = Sqrt(%0)", false, false);
        check("y:f32[3] = Sqrt(x)", false, true);
    }

    #[test]
    fn integers_have_one_zero() {
        check("y:f32[3] = Cast(n) {to=1}", false, false);
        check("y:f32[3] = Cast(k) {to=1}", true, false);
    }

    #[test]
    fn integers_that_wrap_are_negative() {
        check("y:i32[3] = Mul(k, k)", true, false);
        check("y:i32[3] = Abs(k)", true, false);
        check("y:i32[3] = Cast(n) {to=6}", true, false);
        check("y:i32[3] = BitCast(n) {to=6}", true, false);
        check("%0:i32[3] = Abs(k)\ny:i32[3] = Add(%0, 1:i32)", true, false);
        check("y:i32[3] = ReduceSumSquare(k)", true, false);
        check("y:i32[3] = Cast(x) {to=6}", true, false);
    }

    #[test]
    fn integers_that_do_not_wrap_have_the_signs_of_their_bounds() {
        check("y:i64[3] = Cast(n) {to=7}", false, false);
        check("y:u32[3] = Add(n, n)", false, false);
        check("%0:i32[3] = Clip(k, -9:i32, 9:i32)\ny:i32[3] = Mul(%0, %0)", false, false);
        check("%0:i32[3] = Max(k, -9:i32)\ny:i32[3] = Abs(%0)", false, false);
        check(
            "%0:i64[3] = Cast(k) {to=7}\n%1:i64[3] = Abs(%0)\ny:f32[3] = Cast(%1) {to=1}",
            false,
            false,
        );
    }
}
