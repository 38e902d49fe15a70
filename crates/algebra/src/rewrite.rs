//! Defines rewrites of a pattern to a replacement.

use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

pub use onnx::Declined;
use onnx::expr::reduced_shape;
use onnx::kernels::Support;
use onnx::operator::properties::VIEW_OPS;
use onnx::{
    DType, Dim, Edit, Expr, Label, Node, Op, OpType, Operator, Outcome, Patch, Replacement, Tensor,
    Type, ValueId,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::axis_map::AxisMap;
use crate::pattern::{Bindings, Pattern, find};
use crate::sizes::adds_leading_axes;

/// Since this opset, the axes of reductions other than `ReduceSum` are an operand. Before, they are an attribute.
pub const AXES_ARE_AN_OPERAND_SINCE: i64 = 18;

/// The result of an attempt, or the reason why it was declined.
pub type Result<T> = std::result::Result<T, Declined>;

/// A rewrite of one node, the root of the patch.
pub type RewriteNode = fn(&mut Patch<'_, '_>) -> Outcome;

/// Applies a rewrite to each node, in order.
pub fn run_each(edit: &mut Edit<'_>, rewrite: RewriteNode) {
    for index in 0..edit.len() {
        if edit.is_live(index) {
            edit.patch(index, rewrite);
        }
    }
}

/// A pattern and its replacement.
pub struct Rewrite {
    pub name: &'static str,
    pub pattern: fn() -> Pattern,
    pub replacement: fn(&mut Match<'_, '_, '_>) -> Result<Op>,
}

pub const fn rewrite(
    name: &'static str,
    pattern: fn() -> Pattern,
    replacement: fn(&mut Match<'_, '_, '_>) -> Result<Op>,
) -> Rewrite {
    Rewrite { name, pattern, replacement }
}

/// Rewrites in stages. Each stage matches the result of the previous stage.
pub struct Formulas {
    stages: &'static [&'static [Rewrite]],
    /// The patterns of each stage. Building them takes longer than matching a small body, so they are built once.
    patterns: OnceLock<Vec<Patterns>>,
}

impl Formulas {
    pub const fn new(stages: &'static [&'static [Rewrite]]) -> Formulas {
        Formulas { stages, patterns: OnceLock::new() }
    }

    pub fn rewrites(&self) -> impl Iterator<Item = &'static Rewrite> {
        self.stages.iter().copied().flatten()
    }

    /// Runs each stage.
    pub fn run(&self, edit: &mut Edit<'_>) {
        let patterns = self
            .patterns
            .get_or_init(|| self.stages.iter().map(|rewrites| Patterns::of(rewrites)).collect());
        for (rewrites, patterns) in self.stages.iter().zip(patterns) {
            patterns.run(edit, rewrites);
            if edit.is_changed() {
                edit.drop_unread();
            }
        }
    }
}

/// The patterns of the rewrites of a stage.
struct Patterns {
    all: Vec<Pattern>,
    /// The indices of the patterns that may begin at an operator.
    by_root: FxHashMap<Operator, Vec<usize>>,
}

impl Patterns {
    fn of(rewrites: &[Rewrite]) -> Patterns {
        let all: Vec<Pattern> = rewrites.iter().map(|rewrite| (rewrite.pattern)()).collect();
        let mut by_root: FxHashMap<Operator, Vec<usize>> = FxHashMap::default();
        for (number, pattern) in all.iter().enumerate() {
            for root in pattern.roots() {
                by_root.entry(root).or_default().push(number);
            }
        }
        Patterns { all, by_root }
    }

    /// Tries every rewrite once at every node, in the order of the nodes.
    fn run(&self, edit: &mut Edit<'_>, rewrites: &[Rewrite]) {
        let mut ops: FxHashSet<Operator> = FxHashSet::default();
        for index in 0..edit.len() {
            let op = &edit.node(index).op;
            if !ops.contains(op) {
                ops.insert(op.clone());
            }
        }
        let without = edit.trial().and_then(|trial| trial.without);
        let mut is_possible = self.are_possible(&ops);
        for index in 0..edit.len() {
            let candidates = self.by_root.get(&edit.node(index).op);
            for &number in candidates.into_iter().flatten().filter(|&&number| is_possible[number]) {
                if without != Some(rewrites[number].name)
                    && let Some(bindings) = find(edit, &self.all[number], index)
                    && rewrites[number].apply(edit, index, bindings)
                {
                    // The new node may be a part of another pattern.
                    if ops.insert(edit.node(index).op.clone()) {
                        is_possible = self.are_possible(&ops);
                    }
                    break;
                }
            }
        }
    }

    /// Returns, for each pattern, whether a graph with these operators may contain it.
    fn are_possible(&self, ops: &FxHashSet<Operator>) -> Vec<bool> {
        self.all.iter().map(|pattern| pattern.is_possible(ops)).collect()
    }
}

impl Rewrite {
    fn apply(&self, edit: &mut Edit<'_>, root: usize, bindings: Bindings) -> bool {
        edit.note_as(Some(Label { name: self.name, done: FUSED }));
        edit.patch(root, |patch| {
            patch.take(&bindings.nodes);
            let made = (self.replacement)(&mut Match { edit: patch, bindings });
            patch.settle(made)
        })
    }
}

/// Returns `None` unless a condition holds.
pub fn require(condition: bool) -> Option<()> {
    condition.then_some(())
}

/// Declines unless a condition holds.
pub fn ensure(condition: bool, otherwise: &str) -> Result<()> {
    if condition { Ok(()) } else { Err(otherwise.into()) }
}

/// Declines if the runtime has no kernel of the operator for a type.
pub fn expect_kernel(edit: &Edit<'_>, op: OpType, dtype: DType) -> Result<()> {
    match edit.runs(op, dtype) {
        Support::Yes => Ok(()),
        Support::From(since) => Err(Declined(format!("{op} needs opset {since}"))),
        Support::No => Err(Declined(format!("ONNX Runtime has no {op} for {dtype}"))),
    }
}

/// The words for the effect of a fusion on nodes, and for the effect of other rewrites.
pub const FUSED: &str = "fused";
pub const APPLIED: &str = "applied";

/// A match of a pattern, and the patch that replaces it.
pub struct Match<'f, 'p, 'e> {
    pub edit: &'f mut Patch<'p, 'e>,
    bindings: Bindings,
}

impl<'p, 'e> Deref for Match<'_, 'p, 'e> {
    type Target = Patch<'p, 'e>;

    fn deref(&self) -> &Patch<'p, 'e> {
        self.edit
    }
}

impl<'p, 'e> DerefMut for Match<'_, 'p, 'e> {
    fn deref_mut(&mut self) -> &mut Patch<'p, 'e> {
        self.edit
    }
}

impl Match<'_, '_, '_> {
    /// Returns the value of a name in the pattern.
    pub fn value(&self, name: &str) -> Result<ValueId> {
        self.bindings.value(name).ok_or_else(|| Declined(format!("`{name}` has no value")))
    }

    /// Returns the value of a name, if the matched alternative of the pattern has that name.
    pub fn maybe(&self, name: &str) -> Option<ValueId> {
        self.bindings.value(name)
    }

    /// Returns the last node of the match.
    pub fn root(&self) -> &Node {
        self.edit.node(self.edit.root())
    }

    /// Returns the result of the last node of the match.
    pub fn result(&self) -> ValueId {
        self.edit.result(self.edit.root())
    }

    pub fn ty(&self, value: ValueId) -> Result<Type> {
        self.edit.ty(value).cloned().ok_or_else(|| "the type of a value is unknown".into())
    }

    /// Returns the index of the node that computes the value of a name.
    pub fn index(&self, name: &str) -> Result<usize> {
        let index = self.edit.producer(self.value(name)?);
        index.ok_or_else(|| Declined(format!("`{name}` is not a node")))
    }

    /// Returns the node that computes the value of a name.
    pub fn node(&self, name: &str) -> Result<&Node> {
        Ok(self.edit.node(self.index(name)?))
    }

    /// Returns the number that all elements of a constant are equal to.
    pub fn number(&self, name: &str) -> Result<f64> {
        let number = self.edit.number(self.value(name)?);
        number.ok_or_else(|| Declined(format!("`{name}` is not a number")))
    }

    /// Returns the axes of a node, sorted.
    pub fn axes(&self, name: &str) -> Result<Vec<usize>> {
        self.edit.axes(self.index(name)?).ok_or_else(|| "the axes are unknown".into())
    }

    /// Returns the axis that a node works along.
    pub fn axis(&self, name: &str) -> Result<usize> {
        self.edit.axis(self.index(name)?).ok_or_else(|| "the axis is unknown".into())
    }

    /// Returns the map of the layout ops and broadcasts between two values of the pattern.
    pub fn map(&self, from: &str, to: &str) -> Result<AxisMap> {
        let source = self.value(from)?;
        let chain = self.edit.chain_to(self.value(to)?, source, VIEW_OPS);
        let map = chain.and_then(|chain| AxisMap::of_chain(self.edit, source, &chain));
        map.ok_or_else(|| Declined(format!("the axes of `{from}` are split in `{to}`")))
    }

    /// Declines unless `value` has the shape of `x` with these axes of size one. Leading unit axes may be missing.
    pub fn expect_reduced(&self, value: ValueId, x: ValueId, axes: &[usize]) -> Result<()> {
        let (found, whole) = (self.ty(value)?.shape, self.ty(x)?.shape);
        let kept: Vec<Dim> = reduced_shape(&whole, axes, true);
        let why = "the reduced array is broadcast along other axes";
        ensure(adds_leading_axes(&found, &kept), why)
    }

    /// Declines if the runtime has no kernel of the operator for the type of a value.
    pub fn expect_kernel(&self, op: OpType, value: ValueId) -> Result<()> {
        expect_kernel(self.edit, op, self.ty(value)?.dtype)
    }

    /// Declines if the axes of reductions other than `ReduceSum` are an attribute in this opset.
    pub fn expect_axes_as_operand(&self) -> Result<()> {
        ensure(
            self.edit.opset() >= AXES_ARE_AN_OPERAND_SINCE,
            "since opset 18, the axes are an operand",
        )
    }

    /// Inserts the nodes of a formula before the replacement, and returns the last one.
    pub fn formula<const N: usize>(
        &mut self,
        operands: [ValueId; N],
        formula: impl for<'g> FnOnce([Expr<'g>; N]) -> Expr<'g>,
    ) -> Result<Op> {
        match self.edit.formula(operands, formula)? {
            Replacement::Op(op) => Ok(op),
            _ => Err("the formula has no nodes".into()),
        }
    }

    /// Adds a scalar constant.
    pub fn scalar(&mut self, dtype: DType, number: f64) -> Result<ValueId> {
        let tensor = Tensor::of_floats(dtype, Vec::new(), &[number]);
        let tensor =
            tensor.ok_or_else(|| Declined(format!("{dtype} cannot represent the number")))?;
        Ok(self.constant(tensor, &[]))
    }

    /// Adds a list of integers, such as a shape or axes.
    pub fn ints(&mut self, ints: &[i64]) -> Result<ValueId> {
        self.edit.integers(ints).ok_or_else(|| "no integers".into())
    }
}
