//! Patterns of nodes, written as formulas.
//!
//! `&x * (erf(&x / SQRT_2) + 1.0)` is a pattern. `x` is a hole: every occurrence matches the same value. Numbers match
//! constants, up to the precision of the type. The operands of sums and products match in either order.

mod matching;

use onnx::operator::properties::{BROADCAST_OPS, CASTS, EXPANDS, LAYOUT_OPS, Properties, VIEW_OPS};
use onnx::{Edit, OpType, Operator, ValueId};
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::Arc;

use rustc_hash::FxHashSet;

pub use matching::{Bindings, find};

/// A pattern of nodes.
#[derive(Clone)]
pub struct Pattern(Arc<PatternKind>);

enum PatternKind {
    /// Any value. Every occurrence of the name matches the same value.
    Hole(&'static str),
    /// Any constant. Every occurrence of the name matches the same constant.
    Constant(&'static str),
    /// A constant whose elements are all this number.
    Number(f64),
    /// A constant whose elements are all equal. Every occurrence of the name matches the same number.
    AnyNumber(&'static str),
    /// A node. It may have more operands than the pattern.
    Node { op: Operator, operands: Vec<Pattern>, commutes: bool },
    /// A product of these factors and of numbers, in any order and association. The product of the numbers is
    /// `number`. A division by a number counts as a factor.
    Product { factors: Vec<Pattern>, number: f64 },
    /// The inner pattern, followed by a few nodes with these operators.
    Through(Properties, Pattern),
    /// The first pattern that matches.
    Either(Vec<Pattern>),
    /// The inner pattern, if a condition on the value holds.
    SuchThat(Pattern, Condition),
    /// The inner pattern, with a name by which the replacement finds the value.
    Named(&'static str, Pattern),
}

/// A condition on a value.
pub type Condition = fn(&Edit<'_>, ValueId) -> bool;

impl Pattern {
    fn new(kind: PatternKind) -> Pattern {
        Pattern(Arc::new(kind))
    }

    /// Gives the value a name.
    pub fn named(&self, name: &'static str) -> Pattern {
        Pattern::new(PatternKind::Named(name, self.clone()))
    }

    /// Matches only values for which a condition holds.
    pub fn such_that(&self, condition: Condition) -> Pattern {
        Pattern::new(PatternKind::SuchThat(self.clone(), condition))
    }

    /// Returns the operators that the last node of a match may have.
    pub fn roots(&self) -> Vec<Operator> {
        match &*self.0 {
            PatternKind::Node { op, .. } => vec![op.clone()],
            PatternKind::Product { .. } => vec![OpType::Mul.into(), OpType::Div.into()],
            PatternKind::Either(patterns) => patterns.iter().flat_map(Pattern::roots).collect(),
            PatternKind::Named(_, inner)
            | PatternKind::Through(_, inner)
            | PatternKind::SuchThat(inner, _) => inner.roots(),
            PatternKind::Hole(_)
            | PatternKind::Constant(_)
            | PatternKind::Number(_)
            | PatternKind::AnyNumber(_) => Vec::new(),
        }
    }

    /// True if a graph with these operators may contain the pattern.
    pub(crate) fn is_possible(&self, ops: &FxHashSet<Operator>) -> bool {
        match &*self.0 {
            PatternKind::Node { op, operands, .. } => {
                ops.contains(op) && operands.iter().all(|operand| operand.is_possible(ops))
            }
            PatternKind::Product { factors, .. } => {
                factors.iter().all(|factor| factor.is_possible(ops))
            }
            PatternKind::Either(patterns) => {
                patterns.iter().any(|pattern| pattern.is_possible(ops))
            }
            PatternKind::Named(_, inner)
            | PatternKind::Through(_, inner)
            | PatternKind::SuchThat(inner, _) => inner.is_possible(ops),
            PatternKind::Hole(_)
            | PatternKind::Constant(_)
            | PatternKind::Number(_)
            | PatternKind::AnyNumber(_) => true,
        }
    }
}

pub fn hole(name: &'static str) -> Pattern {
    Pattern::new(PatternKind::Hole(name))
}

/// A constant.
pub fn constant(name: &'static str) -> Pattern {
    Pattern::new(PatternKind::Constant(name))
}

/// A constant whose elements are all equal.
pub fn number(name: &'static str) -> Pattern {
    Pattern::new(PatternKind::AnyNumber(name))
}

/// A node with these first operands.
pub fn node(op: impl Into<Operator>, operands: &[&Pattern]) -> Pattern {
    let op = op.into();
    let operands = operands.iter().map(|&operand| operand.clone()).collect();
    Pattern::new(PatternKind::Node { op, operands, commutes: false })
}

/// A node with two operands in either order.
pub fn either_order(op: OpType, a: &Pattern, b: &Pattern) -> Pattern {
    Pattern::new(PatternKind::Node {
        op: op.into(),
        operands: vec![a.clone(), b.clone()],
        commutes: true,
    })
}

/// A product of factors and a number, in any order and association.
pub fn product(factors: &[&Pattern], number: f64) -> Pattern {
    let factors = factors.iter().map(|&factor| factor.clone()).collect();
    Pattern::new(PatternKind::Product { factors, number })
}

/// A value, possibly after broadcasts: added unit axes, and their expansion.
pub fn spread(inner: &Pattern) -> Pattern {
    Pattern::new(PatternKind::Through(BROADCAST_OPS, inner.clone()))
}

/// A value, possibly after expansions and casts.
pub fn repeated(inner: &Pattern) -> Pattern {
    Pattern::new(PatternKind::Through(CASTS.or(EXPANDS), inner.clone()))
}

/// A value, possibly after layout ops.
pub fn moved(inner: &Pattern) -> Pattern {
    Pattern::new(PatternKind::Through(LAYOUT_OPS, inner.clone()))
}

/// A value, possibly after layout ops and broadcasts. [`Match::map`](crate::rewrite::Match::map) returns their map.
pub fn view(inner: &Pattern) -> Pattern {
    Pattern::new(PatternKind::Through(VIEW_OPS, inner.clone()))
}

/// The first of these that fits.
pub fn either(patterns: &[&Pattern]) -> Pattern {
    Pattern::new(PatternKind::Either(patterns.iter().map(|&pattern| pattern.clone()).collect()))
}

/// A node of a family of operators, with this first operand.
pub fn one_of(family: Properties, x: &Pattern) -> Pattern {
    let nodes = OpType::ALL.iter().filter(|op| op.is(family)).map(|&op| node(op, &[x])).collect();
    Pattern::new(PatternKind::Either(nodes))
}

/// An operator that stands for several nodes of a lowering.
pub fn composite(name: &str) -> Operator {
    Operator::Composite(name.into())
}

/// Functions of one operand, by their names in formulas.
macro_rules! functions {
    ($($name:ident = $op:expr),* $(,)?) => {
        $(pub fn $name(x: &Pattern) -> Pattern {
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

pub fn maximum(a: &Pattern, b: &Pattern) -> Pattern {
    either_order(OpType::Max, a, b)
}

pub fn minimum(a: &Pattern, b: &Pattern) -> Pattern {
    either_order(OpType::Min, a, b)
}

/// `a > b`, from either side.
pub fn greater(a: &Pattern, b: &Pattern) -> Pattern {
    either(&[&node(OpType::Greater, &[a, b]), &node(OpType::Less, &[b, a])])
}

/// `a ≥ b`, from either side.
pub fn greater_or_equal(a: &Pattern, b: &Pattern) -> Pattern {
    either(&[&node(OpType::GreaterOrEqual, &[a, b]), &node(OpType::LessOrEqual, &[b, a])])
}

/// `1 / x`, as `Reciprocal` or `Div`.
pub fn reciprocal(x: &Pattern) -> Pattern {
    either(&[&node(OpType::Reciprocal, &[x]), &(1.0 / x)])
}

/// `xʸ` for a number `y`.
pub fn power(x: &Pattern, y: f64) -> Pattern {
    node(OpType::Pow, &[x, &y.into()])
}

/// `x²`, as `Mul` or `Pow`.
pub fn square(x: &Pattern) -> Pattern {
    either(&[&(x * x), &power(x, 2.0)])
}

/// `max(x, 0)`, as `Relu` or `Max`.
pub fn relu(x: &Pattern) -> Pattern {
    either(&[&node(OpType::Relu, &[x]), &maximum(x, &0.0.into())])
}

impl From<f64> for Pattern {
    fn from(number: f64) -> Pattern {
        Pattern::new(PatternKind::Number(number))
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
                Pattern::new(PatternKind::Node { op: OpType::$op.into(), operands, commutes: $commutes })
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
