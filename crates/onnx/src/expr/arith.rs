//! Elementwise operators.

use std::ops::{Add, Div, Mul, Neg, Sub};
use std::panic::Location;

use super::{Expr, Operand};
use crate::attr::Attr;
use crate::build::{Attrs, Numbers};
use crate::dtype::DType;
use crate::kernels::Support;
use crate::operator::OpType;

/// Defines methods that add one node each.
macro_rules! operators {
    ($($form:ident { $($(#[$doc:meta])* $method:ident = $op:ident),* $(,)? })*) => {
        impl<'g> Expr<'g> {$($(operators!(@$form $(#[$doc])* $method $op);)*)*}
    };
    (@unary $(#[$doc:meta])* $method:ident $op:ident) => {
        $(#[$doc])*
        #[track_caller]
        pub fn $method(self) -> Expr<'g> {
            self.unary(OpType::$op)
        }
    };
    (@binary $(#[$doc:meta])* $method:ident $op:ident) => {
        $(#[$doc])*
        #[track_caller]
        pub fn $method(self, other: impl Operand<'g>) -> Expr<'g> {
            self.binary(OpType::$op, other)
        }
    };
}

operators! {
    unary {
        abs = Abs,
        acos = Acos,
        acosh = Acosh,
        asin = Asin,
        asinh = Asinh,
        atan = Atan,
        atanh = Atanh,
        bitwise_not = BitwiseNot,
        ceil = Ceil,
        cosh = Cosh,
        erf = Erf,
        exp = Exp,
        floor = Floor,
        identity = Identity,
        is_inf = IsInf,
        is_nan = IsNaN,
        log = Log,
        logical_not = Not,
        recip = Reciprocal,
        relu = Relu,
        /// Rounds halves to the even neighbor.
        round = Round,
        sigmoid = Sigmoid,
        sin = Sin,
        sinh = Sinh,
        sqrt = Sqrt,
        tan = Tan,
        tanh = Tanh,
    }
    binary {
        and = And,
        bitwise_and = BitwiseAnd,
        bitwise_or = BitwiseOr,
        bitwise_xor = BitwiseXor,
        equal = Equal,
        greater = Greater,
        greater_equal = GreaterOrEqual,
        less = Less,
        less_equal = LessOrEqual,
        or = Or,
        pow = Pow,
        xor = Xor,
    }
}

/// Implements the operators of Rust with operators of ONNX.
macro_rules! rust_operators {
    ($($trait:ident $method:ident $op:ident),*) => {$(
        impl<'g, T: Operand<'g>> $trait<T> for Expr<'g> {
            type Output = Expr<'g>;

            #[track_caller]
            fn $method(self, other: T) -> Expr<'g> {
                self.binary(OpType::$op, other)
            }
        }

        impl<'g> $trait<Expr<'g>> for f64 {
            type Output = Expr<'g>;

            #[track_caller]
            fn $method(self, other: Expr<'g>) -> Expr<'g> {
                self.operand(other).binary(OpType::$op, other)
            }
        }
    )*};
}

rust_operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div);

impl<'g> Neg for Expr<'g> {
    type Output = Expr<'g>;

    #[track_caller]
    fn neg(self) -> Expr<'g> {
        self.unary(OpType::Neg)
    }
}

impl<'g> Expr<'g> {
    /// Converts the values to another type, as JAX does: integers wrap, and floats round. A number that is too
    /// large for a float becomes infinite, or NaN if the type has no infinity. A number that is too large for an
    /// integer is undefined.
    #[track_caller]
    pub fn cast(self, dtype: DType) -> Expr<'g> {
        self.builder.cast_at(Location::caller(), self, dtype, Numbers::Any)
    }

    /// Converts values that the other type represents exactly.
    #[track_caller]
    pub fn cast_exactly(self, dtype: DType) -> Expr<'g> {
        self.builder.cast_at(Location::caller(), self, dtype, Numbers::InRange)
    }

    /// `self ? on_true : on_false`, element by element. Numbers take the type of the other branch.
    #[track_caller]
    pub fn select(self, on_true: Expr<'g>, on_false: impl Operand<'g>) -> Expr<'g> {
        let on_false = on_false.operand(on_true);
        self.builder.node(OpType::Where, &[self, on_true, on_false], Attrs::new())
    }

    #[track_caller]
    pub fn not_equal(self, other: impl Operand<'g>) -> Expr<'g> {
        self.equal(other).logical_not()
    }

    /// Returns `cos(x)`.
    ///
    /// Without a kernel it is `1 − 2·sin²(x / 2)`, which is as close as the kernel of newer runtimes.
    #[track_caller]
    pub fn cos(self) -> Expr<'g> {
        let has_kernel =
            self.builder.target().runs(OpType::Cos, self.builder.opset(), self.dtype());
        if self.dtype() != DType::F64 || has_kernel == Support::Yes {
            return self.unary(OpType::Cos);
        }
        let half = (self * 0.5).sin();
        1.0 - half * half * 2.0
    }

    /// Returns `-1`, `0` or `1`.
    #[track_caller]
    pub fn sign(self) -> Expr<'g> {
        if self.builder.target().is_right(OpType::Sign, self.dtype()) {
            return self.unary(OpType::Sign);
        }
        self.max(-1.0).min(1.0)
    }

    /// Returns the larger value; NaN if either is NaN.
    #[track_caller]
    pub fn max(self, other: impl Operand<'g>) -> Expr<'g> {
        let other = other.operand(self);
        if self.builder.target().is_right(OpType::Max, self.dtype()) {
            return self.binary(OpType::Max, other);
        }
        self.greater(other).select(self, other)
    }

    /// Returns the smaller value; NaN if either is NaN.
    #[track_caller]
    pub fn min(self, other: impl Operand<'g>) -> Expr<'g> {
        let other = other.operand(self);
        if self.builder.target().is_right(OpType::Min, self.dtype()) {
            return self.binary(OpType::Min, other);
        }
        self.less(other).select(self, other)
    }

    /// Returns the remainder of integers with the sign of the divisor.
    #[track_caller]
    pub fn modulo(self, other: impl Operand<'g>) -> Expr<'g> {
        self.binary(OpType::Mod, other)
    }

    /// Returns the remainder with the sign of the dividend, like C's `fmod`.
    #[track_caller]
    pub fn fmod(self, other: impl Operand<'g>) -> Expr<'g> {
        let inputs = [self, other.operand(self)];
        self.builder.node(OpType::Mod, &inputs, vec![("fmod", Attr::Int(1))])
    }

    /// Shifts the bits of an unsigned integer up.
    #[track_caller]
    pub fn shift_left(self, by: impl Operand<'g>) -> Expr<'g> {
        self.shift("LEFT", by)
    }

    /// Shifts the bits of an unsigned integer down.
    #[track_caller]
    pub fn shift_right(self, by: impl Operand<'g>) -> Expr<'g> {
        self.shift("RIGHT", by)
    }

    #[track_caller]
    fn shift(self, direction: &str, by: impl Operand<'g>) -> Expr<'g> {
        let inputs = [self, by.operand(self)];
        self.builder.node(OpType::BitShift, &inputs, vec![("direction", direction.into())])
    }
}
