//! Canonicalizes a graph: applies local rules that simplify it until none applies.
//!
//! A rule looks at one node and its neighbors. The worklist contains the nodes whose neighbors changed,
//! so the cost of a change does not depend on the size of the graph. Each rule reduces one of these numbers
//! without increasing an earlier one: nodes, moved or repeated elements, computed sizes. So canonicalization
//! ends.

mod booleans;
mod bounded;
mod branches;
mod broadcasts;
mod chains;
mod choices;
mod folding;
mod identities;
mod lookups;
mod sharing;

use std::collections::VecDeque;

use onnx::operator::properties::VIEW_OPS;
use onnx::{Edit, Label, Replacement, ValueId};

use crate::layout_ops;
use algebra::rewrite::{APPLIED, RewriteNode};

pub(crate) use booleans::number_behind;
pub(crate) use branches::{hide_conditions, take_deep_branches};
pub(crate) use broadcasts::broadcast_shape;
pub(crate) use chains::joined_cast;
pub(crate) use folding::{is_dequantized, replace_by_constant};

/// A local change that always improves the graph.
pub struct Rule {
    pub name: &'static str,
    /// A description for the catalog.
    pub does: &'static str,
    pub(crate) apply: RewriteNode,
}

/// The rules in groups. A group is tried when no earlier group applies anywhere. For example, constants are folded only
/// when all unnecessary broadcasts are gone, because a folded broadcast is larger.
pub const RULES: &[&[Rule]] = &[
    &[
        identities::RULE,
        lookups::RULE,
        bounded::RULE,
        broadcasts::RULE,
        broadcasts::SINK_RULE,
        broadcasts::DELAY_RULE,
        booleans::RULE,
        choices::RULE,
        branches::RULE,
        chains::RULE,
        layout_ops::merge::RULE,
    ],
    &[folding::RULE, sharing::RULE, sharing::CAST_RULE],
];

/// The replacement of a node, and the nodes whose origins it inherits.
pub(crate) type Change = (Replacement, Vec<usize>);

/// Applies the rules to the whole graph.
pub fn everything(edit: &mut Edit<'_>) {
    let nodes = edit.nodes();
    edit.take_touched();
    Worklist::of(nodes).run(edit);
}

/// Applies the rules to the parts of the graph that changed since it was last canonical.
pub fn changed(edit: &mut Edit<'_>) {
    let mut worklist = Worklist::of(Vec::new());
    worklist.add_touched(edit);
    worklist.run(edit);
}

/// The nodes to try, for each group of rules.
struct Worklist {
    waiting: Vec<VecDeque<usize>>,
    /// For each node, a bit per group in which it waits.
    is_waiting: Vec<u8>,
}

impl Worklist {
    fn of(nodes: Vec<usize>) -> Worklist {
        let waiting = RULES.iter().map(|_| VecDeque::new()).collect();
        let mut worklist = Worklist { waiting, is_waiting: Vec::new() };
        for node in nodes {
            worklist.add(node);
        }
        worklist
    }

    fn add(&mut self, node: usize) {
        if self.is_waiting.len() <= node {
            self.is_waiting.resize(node + 1, 0);
        }
        for (group, waiting) in self.waiting.iter_mut().enumerate() {
            let bit = 1 << group;
            if self.is_waiting[node] & bit == 0 {
                self.is_waiting[node] |= bit;
                waiting.push_back(node);
            }
        }
    }

    /// Adds the nodes that compute or read a changed value, and the nodes whose operands changed.
    fn add_touched(&mut self, edit: &mut Edit<'_>) {
        let touched = edit.take_touched();
        for value in touched.values {
            if let Some(producer) = edit.producer(value) {
                self.add(producer);
            }
            self.add_readers(edit, value, MAX_LINKS);
        }
        for node in touched.nodes {
            self.add_reader(edit, node, MAX_LINKS);
        }
    }

    /// Adds the nodes that read a value. Rules look through chains of layout ops and broadcasts, so this also adds the
    /// readers at the end of such a chain.
    fn add_readers(&mut self, edit: &Edit<'_>, value: ValueId, links: usize) {
        if edit.reads(value) > MAX_READERS {
            return;
        }
        for node in edit.readers(value) {
            self.add_reader(edit, node, links);
        }
    }

    fn add_reader(&mut self, edit: &Edit<'_>, node: usize, links: usize) {
        self.add(node);
        if links > 0 && edit.node(node).op.is(VIEW_OPS) {
            self.add_readers(edit, edit.result(node), links - 1);
        }
    }

    fn next(&mut self) -> Option<(usize, usize)> {
        let (group, waiting) =
            self.waiting.iter_mut().enumerate().find(|(_, waiting)| !waiting.is_empty())?;
        let node = waiting.pop_front()?;
        self.is_waiting[node] &= !(1 << group);
        Some((group, node))
    }

    fn run(mut self, edit: &mut Edit<'_>) {
        // There are too many changes to note each one.
        edit.note_as(None);
        let trial = edit.trial();
        let apply = |edit: &mut Edit<'_>, rule: &Rule, node: usize| {
            if let Some(trial) = trial {
                edit.note_as(Some(Label { name: rule.name, done: APPLIED }));
                if trial.without == Some(rule.name) {
                    return false;
                }
            }
            edit.patch(node, rule.apply)
        };
        let mut changes = 0;
        while let Some((group, node)) = self.next() {
            if !edit.is_live(node) || !edit.node(node).op.is_onnx() {
                continue;
            }
            if RULES[group].iter().any(|rule| apply(edit, rule, node)) {
                self.add_touched(edit);
                self.add(node);
                changes += 1;
            }
            if changes >= MAX_CHANGES * (edit.len() + 1) {
                debug_assert!(false, "the rules do not end");
                break;
            }
        }
        if changes > 0 {
            edit.drop_unread();
        }
    }
}

/// The maximum length of a chain that rules look through.
pub(crate) const MAX_LINKS: usize = 8;

/// The maximum number of changes per node. No graph needs so many, but an export must end even if two rules undo each
/// other.
const MAX_CHANGES: usize = 64;

/// If a value has more readers, they are not added. Such a value is an input or a shape.
const MAX_READERS: usize = 256;

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use onnx::{Op, OpType};

    use super::{changed, everything};
    use testing::check;

    const GRAPH: &str = "graph g(x:f32[2,3], c:bool[2,3]) -> (y, z)
%0:f32[3] = Expand(1.0, [3]:i64)
%1:f32[2,3] = Mul(x, %0)
%2:f32[3,2] = Transpose(%1) {perm=[1, 0]}
%3:f32[2,3] = Transpose(%2) {perm=[1, 0]}
%4:bool[2,3] = Not(c)
%5:f32[2,3] = Where(%4, %3, x)
%6:bool[2,3] = Equal(c, true)
y:f32[2,3] = Where(%6, %5, 0.0)
%7:f32[] = Add(1.0, 2.0)
%8:f32[2,3] = Add(x, %7)
%9:f32[2,3] = Add(%3, 3.0)
z:f32[2,3] = Sub(%8, %9)";

    #[test]
    fn rules_apply_to_the_results_of_other_rules() {
        check(
            everything,
            GRAPH,
            expect![[r#"
                graph g(x:f32[2,3], c:bool[2,3]) -> (y, z)
                y:f32[2,3] = Where(c, x, 0.0)  # 9 2 3 4 5 6 7 8
                %0 = Add(x, 3.0)  # 11 2 3 4 5 12
                z:f32[2,3] = Sub(%0, %0)  # 13
            "#]],
        );
    }

    #[test]
    fn a_canonical_graph_stays_as_it_is() {
        let mut model = onnx::text::parse_graph(GRAPH).expect("the graph can be parsed");
        assert!(model.edit(&mut everything));
        assert!(!model.edit(&mut everything));
    }

    #[test]
    fn unchanged_nodes_are_not_visited() {
        let mut model = onnx::text::parse_graph(GRAPH).expect("the graph can be parsed");
        assert!(!model.edit(&mut changed));
    }

    #[test]
    fn the_end_of_a_chain_is_looked_at_when_its_beginning_changes() {
        const CHAIN: &str = "graph g(x:f32[6,4]) -> (y)
%0:f32[6,4] = Tanh(x)
%1:f32[6,4] = Identity(%0)
%2:f32[2,3,4] = Reshape(%1, [2, 3, 4]:i64)
%3:f32[4,2,3] = Transpose(%2) {perm=[2, 0, 1]}
y:f32[4,6] = Reshape(%3, [4, 6]:i64)";
        check(
            |edit| {
                let abs = Op::new(OpType::Abs, &[edit.input(1, 0).unwrap()]);
                assert!(edit.patch(1, |patch| patch.done(&[], abs)));
                changed(edit);
            },
            CHAIN,
            expect![[r#"
                graph g(x:f32[6,4]) -> (y)
                %0 = Tanh(x)  # 2
                %1 = Abs(%0)  # 3
                y:f32[4,6] = Transpose(%1) {perm=[1, 0]}  # 5 4 6
            "#]],
        );
    }
}
