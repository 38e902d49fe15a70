//! Patterns of nodes, written as formulas.
//!
//! `&x * (erf(&x / SQRT_2) + 1.0)` is a pattern: `x` is a hole, the same value wherever it stands;
//! numbers are constants, within what the type can tell apart; sums and products are looked for in
//! either order.

mod matching;

use onnx::operator::properties::{
    BROADCAST_OPS, CASTS, EXPANDS, LAYOUT_OPS, Properties, TRANSPOSES, VIEW_OPS,
};
use onnx::{Edit, OpType, Operator, ValueId};
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::Arc;

use rustc_hash::FxHashSet;

pub(crate) use matching::{Bindings, find, uniform};

/// A shape of nodes.
#[derive(Clone)]
pub(crate) struct Pattern(Arc<Kind>);

enum Kind {
    /// Any value; the same one wherever the name stands.
    Hole(&'static str),
    /// Any constant; the same one wherever the name stands.
    Constant(&'static str),
    /// A constant whose elements are all this number.
    Number(f64),
    /// A constant whose elements are all one number, whichever; the same one wherever the name stands.
    AnyNumber(&'static str),
    /// A node. Operands that the pattern does not mention may be there.
    Node { op: Operator, operands: Vec<Pattern>, commutes: bool },
    /// A product of these factors and of numbers that make `number` together, in any order and
    /// association; dividing by a number counts.
    Product { factors: Vec<Pattern>, number: f64 },
    /// What is inside, or what a few of these operators make of it.
    Through(Properties, Pattern),
    /// The first of these that fits.
    Either(Vec<Pattern>),
    /// What is inside, if a condition on the value holds.
    SuchThat(Pattern, Condition),
    /// What is inside, under a name by which the replacement finds the value.
    Named(&'static str, Pattern),
}

/// A condition on a value.
pub(crate) type Condition = fn(&Edit<'_>, ValueId) -> bool;

impl Pattern {
    fn new(kind: Kind) -> Pattern {
        Pattern(Arc::new(kind))
    }

    /// Gives the value a name.
    pub(crate) fn named(&self, name: &'static str) -> Pattern {
        Pattern::new(Kind::Named(name, self.clone()))
    }

    /// Matches only values for which a condition holds. Operands of sums and products are told apart by it.
    pub(crate) fn such_that(&self, condition: Condition) -> Pattern {
        Pattern::new(Kind::SuchThat(self.clone(), condition))
    }

    /// The operators that a node may have for the pattern to begin there.
    pub(crate) fn roots(&self) -> Vec<Operator> {
        match &*self.0 {
            Kind::Node { op, .. } => vec![op.clone()],
            Kind::Product { .. } => vec![OpType::Mul.into(), OpType::Div.into()],
            Kind::Either(patterns) => patterns.iter().flat_map(Pattern::roots).collect(),
            Kind::Named(_, inner) | Kind::Through(_, inner) | Kind::SuchThat(inner, _) => {
                inner.roots()
            }
            Kind::Hole(_) | Kind::Constant(_) | Kind::Number(_) | Kind::AnyNumber(_) => Vec::new(),
        }
    }

    /// Whether a graph with these operators may have it.
    pub(crate) fn is_possible(&self, ops: &FxHashSet<Operator>) -> bool {
        match &*self.0 {
            Kind::Node { op, operands, .. } => {
                ops.contains(op) && operands.iter().all(|operand| operand.is_possible(ops))
            }
            Kind::Product { factors, .. } => factors.iter().all(|factor| factor.is_possible(ops)),
            Kind::Either(patterns) => patterns.iter().any(|pattern| pattern.is_possible(ops)),
            Kind::Named(_, inner) | Kind::Through(_, inner) | Kind::SuchThat(inner, _) => {
                inner.is_possible(ops)
            }
            Kind::Hole(_) | Kind::Constant(_) | Kind::Number(_) | Kind::AnyNumber(_) => true,
        }
    }
}

pub(crate) fn hole(name: &'static str) -> Pattern {
    Pattern::new(Kind::Hole(name))
}

/// An array that is known.
pub(crate) fn constant(name: &'static str) -> Pattern {
    Pattern::new(Kind::Constant(name))
}

/// One number, whichever.
pub(crate) fn number(name: &'static str) -> Pattern {
    Pattern::new(Kind::AnyNumber(name))
}

/// A node with these first operands.
pub(crate) fn node(op: impl Into<Operator>, operands: &[&Pattern]) -> Pattern {
    let op = op.into();
    let operands = operands.iter().map(|&operand| operand.clone()).collect();
    Pattern::new(Kind::Node { op, operands, commutes: false })
}

/// A node whose two operands may stand in either order.
pub(crate) fn either_order(op: OpType, a: &Pattern, b: &Pattern) -> Pattern {
    Pattern::new(Kind::Node { op: op.into(), operands: vec![a.clone(), b.clone()], commutes: true })
}

/// These factors, times a number.
pub(crate) fn product(factors: &[&Pattern], number: f64) -> Pattern {
    let factors = factors.iter().map(|&factor| factor.clone()).collect();
    Pattern::new(Kind::Product { factors, number })
}

/// The value, or what broadcasts it: axes of size one, and their expansion.
pub(crate) fn spread(inner: &Pattern) -> Pattern {
    Pattern::new(Kind::Through(BROADCAST_OPS, inner.clone()))
}

/// The value, or what repeats it or makes it another type.
pub(crate) fn repeated(inner: &Pattern) -> Pattern {
    Pattern::new(Kind::Through(CASTS.or(EXPANDS), inner.clone()))
}

/// The value, or its elements in another order or shape.
pub(crate) fn moved(inner: &Pattern) -> Pattern {
    Pattern::new(Kind::Through(LAYOUT_OPS, inner.clone()))
}

/// The value, or a view of it; [`Found::map`](crate::rewrite::Found::map) says which one.
pub(crate) fn view(inner: &Pattern) -> Pattern {
    Pattern::new(Kind::Through(VIEW_OPS, inner.clone()))
}

/// The value, or what transposes make of it.
pub(crate) fn transposed(inner: &Pattern) -> Pattern {
    Pattern::new(Kind::Through(TRANSPOSES, inner.clone()))
}

/// The first of these that fits.
pub(crate) fn either(patterns: &[&Pattern]) -> Pattern {
    Pattern::new(Kind::Either(patterns.iter().map(|&pattern| pattern.clone()).collect()))
}

/// A node of a family of operators, with this first operand.
pub(crate) fn one_of(family: Properties, x: &Pattern) -> Pattern {
    let nodes = OpType::ALL.iter().filter(|op| op.is(family)).map(|&op| node(op, &[x])).collect();
    Pattern::new(Kind::Either(nodes))
}

/// An operator that a lowering makes of several nodes.
pub(crate) fn composite(name: &str) -> Operator {
    Operator::Composite(name.into())
}

/// Functions of one operand, by their names in formulas.
macro_rules! functions {
    ($($name:ident = $op:expr),* $(,)?) => {
        $(pub(crate) fn $name(x: &Pattern) -> Pattern {
            node($op, &[x])
        })*
    };
}

functions! {
    abs = OpType::Abs,
    erf = OpType::Erf,
    erfc = composite("erfc"),
    exp = OpType::Exp,
    expm1 = composite("expm1"),
    log = OpType::Log,
    log1p = composite("log1p"),
    reduce_max = composite("reduce_max"),
    reduce_mean = OpType::ReduceMean,
    reduce_sum = OpType::ReduceSum,
    sqrt = OpType::Sqrt,
    tanh = OpType::Tanh,
}

pub(crate) fn maximum(a: &Pattern, b: &Pattern) -> Pattern {
    either_order(OpType::Max, a, b)
}

pub(crate) fn minimum(a: &Pattern, b: &Pattern) -> Pattern {
    either_order(OpType::Min, a, b)
}

/// `a > b`, from either side.
pub(crate) fn greater(a: &Pattern, b: &Pattern) -> Pattern {
    either(&[&node(OpType::Greater, &[a, b]), &node(OpType::Less, &[b, a])])
}

/// `a ≥ b`, from either side.
pub(crate) fn greater_or_equal(a: &Pattern, b: &Pattern) -> Pattern {
    either(&[&node(OpType::GreaterOrEqual, &[a, b]), &node(OpType::LessOrEqual, &[b, a])])
}

/// `1 / x`, as one operator or the other.
pub(crate) fn reciprocal(x: &Pattern) -> Pattern {
    either(&[&node(OpType::Reciprocal, &[x]), &(1.0 / x)])
}

/// `xʸ` for a number `y`
pub(crate) fn power(x: &Pattern, y: f64) -> Pattern {
    node(OpType::Pow, &[x, &y.into()])
}

/// `x²`, as one operator or the other.
pub(crate) fn square(x: &Pattern) -> Pattern {
    either(&[&(x * x), &power(x, 2.0)])
}

/// `max(x, 0)`, as one operator or the other.
pub(crate) fn relu(x: &Pattern) -> Pattern {
    either(&[&node(OpType::Relu, &[x]), &maximum(x, &0.0.into())])
}

impl From<f64> for Pattern {
    fn from(number: f64) -> Pattern {
        Pattern::new(Kind::Number(number))
    }
}

/// `a + b` and the like, for patterns, references to them, and numbers.
macro_rules! operators {
    ($($trait:ident $method:ident $op:ident $commutes:literal),* $(,)?) => {
        $(
            operators!(@ $trait $method $op $commutes; Pattern, Pattern);
            operators!(@ $trait $method $op $commutes; Pattern, &Pattern);
            operators!(@ $trait $method $op $commutes; &Pattern, Pattern);
            operators!(@ $trait $method $op $commutes; &Pattern, &Pattern);
            operators!(@ $trait $method $op $commutes; Pattern, f64);
            operators!(@ $trait $method $op $commutes; &Pattern, f64);
            operators!(@ $trait $method $op $commutes; f64, Pattern);
            operators!(@ $trait $method $op $commutes; f64, &Pattern);
        )*
    };
    (@ $trait:ident $method:ident $op:ident $commutes:literal; $left:ty, $right:ty) => {
        impl $trait<$right> for $left {
            type Output = Pattern;

            fn $method(self, other: $right) -> Pattern {
                let operands = vec![Pattern::from(self), Pattern::from(other)];
                Pattern::new(Kind::Node { op: OpType::$op.into(), operands, commutes: $commutes })
            }
        }
    };
}

impl From<&Pattern> for Pattern {
    fn from(pattern: &Pattern) -> Pattern {
        pattern.clone()
    }
}

operators! {
    Add add Add true,
    Mul mul Mul true,
    Sub sub Sub false,
    Div div Div false,
}

impl Neg for &Pattern {
    type Output = Pattern;

    fn neg(self) -> Pattern {
        node(OpType::Neg, &[self])
    }
}

impl Neg for Pattern {
    type Output = Pattern;

    fn neg(self) -> Pattern {
        -&self
    }
}
