//! Forms of operators that some runtimes do not take.

use rustc_hash::FxHashSet;

use super::probed::Ability;
use super::runtime::Runtime;

use crate::attr::Attr;
use crate::model::{Graph, Node};
use crate::operator::OpType;
use crate::operator::properties::COMPARISONS;
use crate::value::{ValueId, Values};

/// A form of an operator that a runtime rejects or computes wrongly, although it has the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The body of a `Scan` reads a computed value from outside.
    ScanCaptures,
    /// A `Scan` runs from the last element to the first.
    ScanReversed,
    /// The body of a `Scan` does not read all of its inputs.
    ScanUnread,
    /// A `Scan` has a body that the runtime fuses in a wrong way.
    ScanFuses,
    /// A `Loop` stacks results.
    LoopStacks,
    /// A `Loop` ends by a condition.
    LoopEnds,
    /// Both operands of a comparison are repeated.
    BroadcastComparison,
    /// A `TopK` returns the positions of elements that may be equal.
    TopKTies,
    /// A `ScatterElements` or `ScatterND` combines numbers.
    ScatterCombines,
    /// A `DFT` computes one half of the spectrum.
    OneSidedDft,
    /// A `Slice` starts at a computed position.
    DynamicSlice,
}

impl Limit {
    pub(super) const ALL: [Limit; 11] = [
        Limit::ScanCaptures,
        Limit::ScanReversed,
        Limit::ScanUnread,
        Limit::ScanFuses,
        Limit::LoopStacks,
        Limit::LoopEnds,
        Limit::BroadcastComparison,
        Limit::TopKTies,
        Limit::ScatterCombines,
        Limit::OneSidedDft,
        Limit::DynamicSlice,
    ];

    /// Says what happens.
    pub fn describe(self) -> &'static str {
        match self {
            Limit::ScanCaptures => "the body of a `Scan` cannot read a value from outside",
            Limit::ScanReversed => "a `Scan` ignores its directions",
            Limit::ScanUnread => "a `Scan` must read all inputs of its body",
            Limit::ScanFuses => "some bodies of `Scan` are computed wrongly",
            Limit::LoopStacks => "a `Loop` cannot stack results",
            Limit::LoopEnds => "a `Loop` ignores its condition",
            Limit::BroadcastComparison => "a comparison cannot repeat both operands",
            Limit::TopKTies => "`TopK` returns equal elements in any order",
            Limit::ScatterCombines => "a scatter does not combine numbers",
            Limit::OneSidedDft => "`DFT` has no one-sided form",
            Limit::DynamicSlice => "a `Slice` cannot start at a computed position",
        }
    }

    /// True if a runtime has the limit.
    pub(super) fn holds_in(self, runtime: &Runtime) -> bool {
        match self {
            // Only a wrong result shows it.
            Limit::ScanFuses => runtime.miscomputes(self.ability()),
            _ => runtime.lacks(self.ability()),
        }
    }

    /// Returns the probed form.
    pub(super) fn ability(self) -> Ability {
        match self {
            Limit::ScanCaptures => Ability::ScanCaptures,
            Limit::ScanReversed => Ability::ScanReverse,
            Limit::ScanUnread => Ability::ScanUnreadInput,
            Limit::ScanFuses => Ability::ScanAddsThenTanh,
            Limit::LoopStacks => Ability::LoopScanOutput,
            Limit::LoopEnds => Ability::LoopWhile,
            Limit::BroadcastComparison => Ability::BroadcastComparison,
            Limit::TopKTies => Ability::TopKManyTies,
            Limit::ScatterCombines => Ability::ScatterNdAddDuplicates,
            Limit::OneSidedDft => Ability::DftOneSided,
            Limit::DynamicSlice => Ability::DynamicSlice,
        }
    }

    /// True if a node has the form.
    pub fn concerns(self, node: &Node, values: &Values, is_read: &dyn Fn(ValueId) -> bool) -> bool {
        let is = |op: OpType| node.op == op;
        let flags = |name: &str| match node.attr(name) {
            Some(Attr::Ints(flags)) => flags.iter().any(|&flag| flag != 0),
            _ => false,
        };
        match self {
            Limit::ScanCaptures => {
                is(OpType::Scan) && node.bodies().any(|body| captures(body, values))
            }
            Limit::ScanReversed => {
                is(OpType::Scan)
                    && (flags("scan_input_directions") || flags("scan_output_directions"))
            }
            Limit::ScanUnread => is(OpType::Scan) && node.bodies().any(has_unread_input),
            Limit::ScanFuses => is(OpType::Scan),
            Limit::LoopStacks => {
                let carried = node.inputs.len().saturating_sub(2);
                is(OpType::Loop) && node.outputs.len() > carried
            }
            Limit::LoopEnds => is(OpType::Loop) && node.bodies().any(|body| ends(body, values)),
            Limit::BroadcastComparison => {
                let result = node.outputs.first().and_then(|&id| values[id].ty.as_ref());
                let differs = |id: &ValueId| {
                    let (ty, result) = (values[*id].ty.as_ref(), result);
                    ty.zip(result).is_some_and(|(ty, result)| ty.shape != result.shape)
                };
                let operands = node.inputs.iter().flatten();
                node.op.is(COMPARISONS) && operands.filter(|id| differs(id)).count() > 1
            }
            Limit::TopKTies => {
                is(OpType::TopK) && node.outputs.get(1).is_some_and(|&indices| is_read(indices))
            }
            Limit::ScatterCombines => {
                let combines = |attr: &Attr| matches!(attr, Attr::Str(word) if &**word != "none");
                (is(OpType::ScatterElements) || is(OpType::ScatterND))
                    && node.attr("reduction").is_some_and(combines)
            }
            Limit::OneSidedDft => {
                is(OpType::DFT) && matches!(node.attr("onesided"), Some(Attr::Int(1)))
            }
            Limit::DynamicSlice => {
                let is_computed = |start: ValueId| values[start].tensor.is_none();
                is(OpType::Slice) && node.inputs.get(1).copied().flatten().is_some_and(is_computed)
            }
        }
    }
}

/// Calls `read` with every value that the nodes and outputs of a body and of the bodies inside read.
fn visit_reads(body: &Graph, read: &mut dyn FnMut(ValueId)) {
    for node in &body.nodes {
        node.inputs.iter().flatten().for_each(|&value| read(value));
        node.bodies().for_each(|inner| visit_reads(inner, read));
    }
    body.outputs.iter().for_each(|&value| read(value));
}

fn visit_definitions(body: &Graph, define: &mut dyn FnMut(ValueId)) {
    body.inputs.iter().for_each(|&value| define(value));
    for node in &body.nodes {
        node.outputs.iter().for_each(|&value| define(value));
        node.bodies().for_each(|inner| visit_definitions(inner, define));
    }
}

/// Returns the values from outside that a body reads, except constants, in the order of the reads.
pub fn captured(body: &Graph, values: &Values) -> Vec<ValueId> {
    let mut known = FxHashSet::default();
    visit_definitions(body, &mut |value| {
        known.insert(value);
    });
    let mut captured = Vec::new();
    visit_reads(body, &mut |value| {
        if values[value].tensor.is_none() && known.insert(value) {
            captured.push(value);
        }
    });
    captured
}

fn captures(body: &Graph, values: &Values) -> bool {
    !captured(body, values).is_empty()
}

/// True if the body of a `Loop` computes whether it goes on.
fn ends(body: &Graph, values: &Values) -> bool {
    let (Some(&flag), Some(&next)) = (body.inputs.get(1), body.outputs.first()) else {
        return false;
    };
    let is_kept = |value: ValueId| value == flag || values[value].tensor.is_some();
    let source = body.nodes.iter().find(|node| node.outputs.contains(&next));
    let copies = source.is_some_and(|node| {
        node.op == OpType::Identity && node.inputs.iter().flatten().all(|&value| is_kept(value))
    });
    !is_kept(next) && !copies
}

fn has_unread_input(body: &Graph) -> bool {
    let mut unread: FxHashSet<ValueId> = body.inputs.iter().copied().collect();
    visit_reads(body, &mut |value| {
        unread.remove(&value);
    });
    !unread.is_empty()
}
