//! Rewrites loops and recurrences.
//!
//! [`Counted`] describes a loop whose number of iterations is known.

mod batches;
mod biases;
pub mod bound_counters;
pub mod buffers;
pub mod choices;
pub mod counters;
pub mod drop_carries;
pub mod entries;
pub mod iterations;
pub mod known;
pub mod layers;
pub mod layouts;
pub mod linear;
pub mod recurrent;
pub mod results;
pub mod scanned;
pub mod settle;
pub mod steps;
pub mod unroll;

use std::sync::Arc;

use algebra::rewrite::require;
use onnx::edit::{for_each_read, rename};
use onnx::{Attr, Dim, Edit, Graph, Node, Op, OpType, Patch, Replacement, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

/// A loop that runs a known number of times: a `Scan`, or a `Loop` that only counts.
#[derive(Clone)]
pub struct Counted {
    name: Arc<str>,
    pub nodes: Vec<Node>,
    pub carries: Vec<Carry>,
    pub arrays: Vec<Array>,
    stacks: Vec<Stack>,
    pub iterations: Dim,
    /// True if it runs over its arrays from the last entry to the first.
    pub is_reverse: bool,
    /// The counter and condition of a `Loop`. A `Scan` has none.
    pub counter: Option<LoopCounter>,
}

/// A value that each iteration passes to the next one.
#[derive(Clone, Copy)]
pub struct Carry {
    pub initial: ValueId,
    /// The value in the body at the start and at the end of an iteration.
    pub before: ValueId,
    pub after: ValueId,
    /// The value after the loop.
    pub result: ValueId,
}

/// An array that the loop runs over.
#[derive(Clone, Copy)]
pub struct Array {
    pub whole: ValueId,
    /// The entry of the current iteration, in the body.
    pub element: ValueId,
}

/// A result that stacks a value of each iteration.
#[derive(Clone, Copy)]
struct Stack {
    element: ValueId,
    result: ValueId,
    /// True if the first iteration is the last entry.
    is_reverse: bool,
}

/// The counter and condition of a `Loop`.
#[derive(Clone, Copy)]
pub struct LoopCounter {
    pub iterations: ValueId,
    pub condition: Option<ValueId>,
    /// In the body, the number of the iteration, and the flag that it runs.
    pub number: ValueId,
    pub flag: ValueId,
    pub next_flag: ValueId,
}

impl Counted {
    /// Reads the loop at an index. `None` if the loop has a condition, if a `Loop` has an unknown number of
    /// iterations, or if a `Scan` runs over another axis than the first or in several directions.
    pub fn at(edit: &Edit<'_>, index: usize) -> Option<Counted> {
        match edit.op(index)? {
            OpType::Loop => Counted::of_loop(edit, index),
            OpType::Scan => Counted::of_scan(edit, index),
            _ => None,
        }
    }

    fn of_scan(edit: &Edit<'_>, index: usize) -> Option<Counted> {
        let node = edit.node(index);
        require(node.attr("scan_input_axes").is_none() && node.attr("scan_output_axes").is_none())?;
        let is_reverse = match node.attr("scan_input_directions") {
            None => false,
            Some(Attr::Ints(ways)) if ways.iter().all(|&way| way == ways[0]) => ways[0] == 1,
            Some(_) => return None,
        };
        let Some(&Attr::Int(arrays)) = node.attr("num_scan_inputs") else { return None };
        let body = node.bodies().next()?;
        let operands: Vec<ValueId> = edit.inputs(index).into_iter().collect::<Option<_>>()?;
        let carries = operands.len().checked_sub(usize::try_from(arrays).ok()?)?;
        let arrays = operands[carries..].iter().zip(&body.inputs[carries..]);
        let arrays: Vec<Array> =
            arrays.map(|(&whole, &element)| Array { whole, element }).collect();
        let iterations = edit.shape(arrays.first()?.whole)?.first()?.clone();
        Some(Counted {
            name: body.name.clone(),
            nodes: body.nodes.clone(),
            carries: carries_of(&operands[..carries], &body.inputs, &body.outputs, &node.outputs),
            arrays,
            stacks: stacks_of(
                &body.outputs[carries..],
                &node.outputs[carries..],
                node.attr("scan_output_directions"),
            ),
            iterations,
            is_reverse,
            counter: None,
        })
    }

    fn of_loop(edit: &Edit<'_>, index: usize) -> Option<Counted> {
        let node = edit.node(index);
        let body = node.bodies().next()?;
        let (&[number, flag, ref inputs @ ..], &[next_flag, ref outputs @ ..]) =
            (&body.inputs[..], &body.outputs[..])
        else {
            return None;
        };
        let is_true = |id: ValueId| edit.tensor(id)?.ints().map(|flags| flags == [1]);
        let makes_flag = |node: &&Node| node.outputs.first() == Some(&next_flag);
        let again = body.nodes.iter().find(makes_flag)?;
        let source = again.inputs.first().copied().flatten()?;
        let is_kept = again.op == OpType::Identity && (source == flag || is_true(source)?);
        let condition = edit.input(index, 1);
        let may_stop = condition.is_some_and(|condition| is_true(condition) != Some(true));
        require(is_kept && !may_stop)?;
        let iterations = edit.input(index, 0)?;
        let &[known] = &edit.tensor(iterations)?.ints()?[..] else { return None };
        let initial = edit.inputs(index).into_iter().skip(2);
        let initial: Vec<ValueId> = initial.collect::<Option<_>>()?;
        let carries = initial.len();
        Some(Counted {
            name: body.name.clone(),
            nodes: body.nodes.clone(),
            carries: carries_of(&initial, inputs, outputs, &node.outputs),
            arrays: Vec::new(),
            stacks: stacks_of(&outputs[carries..], &node.outputs[carries..], None),
            iterations: Dim::Known(known),
            is_reverse: false,
            counter: Some(LoopCounter { iterations, condition, number, flag, next_flag }),
        })
    }

    /// Returns the outputs of the body, in the order of the loop's results.
    pub fn outputs(&self) -> impl Iterator<Item = ValueId> + '_ {
        let carries = self.carries.iter().map(|carry| carry.after);
        carries.chain(self.stacks.iter().map(|stack| stack.element))
    }

    /// True if an iteration reads a value or returns it.
    pub fn reads(&self, value: ValueId) -> bool {
        self.outputs().any(|output| output == value)
            || self.nodes.iter().any(|node| node_reads(node, value))
    }

    /// Returns the values that some values of the body depend on, and these values.
    pub fn sources(&self, values: &[ValueId]) -> FxHashSet<ValueId> {
        let mut found: FxHashSet<ValueId> = values.iter().copied().collect();
        for node in self.nodes.iter().rev() {
            if node.outputs.iter().any(|output| found.contains(output)) {
                for_each_read(node, &mut |id| _ = found.insert(id));
            }
        }
        found
    }

    /// Returns the values of the body that depend on some values, and these values.
    pub fn dependents(&self, mut values: FxHashSet<ValueId>) -> FxHashSet<ValueId> {
        for node in &self.nodes {
            let mut depends = false;
            for_each_read(node, &mut |id| depends |= values.contains(&id));
            if depends {
                values.extend(&node.outputs);
            }
        }
        values
    }

    /// Returns the stacked values that a node of the body reads.
    pub fn read_stacks(&self) -> Vec<ValueId> {
        let is_read = |value: &ValueId| self.nodes.iter().any(|node| node_reads(node, *value));
        self.stacks.iter().map(|stack| stack.element).filter(is_read).collect()
    }

    /// Stacks another value of the body instead.
    pub fn stack_instead(&mut self, value: ValueId, other: ValueId) {
        for stack in &mut self.stacks {
            if stack.element == value {
                stack.element = other;
            }
        }
    }

    /// Returns the replacement of the root, from which the loop was read. It is a `Scan` if it runs over an array.
    /// `others` are the results that the loop no longer computes, with the values that replace them.
    pub fn replacement(
        self,
        edit: &mut Patch<'_, '_>,
        others: &[(ValueId, ValueId)],
    ) -> Replacement {
        let (op, results) = self.into_op(edit);
        if results[..] == edit.node(edit.root()).outputs[..] {
            return op.into();
        }
        // If the loop computes nothing anymore, it disappears.
        let made = match &results[..] {
            [] => Vec::new(),
            _ => edit.insert_instead(op, &replacing(&results)),
        };
        results_in_place(edit, results.into_iter().zip(made).chain(others.iter().copied())).into()
    }

    /// Makes a `Scan` stack all results in the order of the iterations. Returns the results that were stacked in reverse.
    pub fn take_reversed_stacks(&mut self) -> Vec<ValueId> {
        let reversed = self.stacks.iter_mut().filter(|stack| stack.is_reverse);
        reversed.map(|stack| (stack.is_reverse = false, stack.result).1).collect()
    }

    /// True if the entries of all stacks are in the order of the entries of the arrays.
    fn keeps_order(&self) -> bool {
        self.stacks.iter().all(|stack| stack.is_reverse == self.is_reverse)
    }

    /// Stacks a value of the body in the order of the entries of the arrays.
    fn stack(&mut self, element: ValueId, result: ValueId) {
        self.stacks.push(Stack { element, result, is_reverse: self.is_reverse });
    }

    /// Returns the operator of the loop, and the values that its results replace.
    pub fn into_op(mut self, edit: &mut Patch<'_, '_>) -> (Op, Vec<ValueId>) {
        for node in self.prune() {
            edit.take_lines(&node);
        }
        let carries = |f: fn(&Carry) -> ValueId| self.carries.iter().map(f).collect::<Vec<_>>();
        let (initial, before) = (carries(|carry| carry.initial), carries(|carry| carry.before));
        let outputs: Vec<ValueId> = self.outputs().collect();
        let graph = |inputs: Vec<ValueId>, outputs: Vec<ValueId>| Graph {
            name: self.name.clone(),
            inputs,
            outputs,
            nodes: self.nodes.clone(),
        };
        let op = if let Some(counter) = self.counter.filter(|_| self.arrays.is_empty()) {
            let LoopCounter { iterations, condition, number, flag, next_flag } = counter;
            let inputs = [&[number, flag], &before[..]].concat();
            let body = graph(inputs, [&[next_flag], &outputs[..]].concat());
            let head = [Some(iterations), condition].into_iter();
            let inputs = head.chain(initial.into_iter().map(Some)).collect();
            Op { op: OpType::Loop.into(), inputs, attrs: Vec::new() }.attr("body", body)
        } else {
            let count = self.arrays.len();
            let elements = self.arrays.iter().map(|array| array.element);
            let arrays = self.arrays.iter().map(|array| array.whole);
            let body = graph(before.into_iter().chain(elements).collect(), outputs);
            let operands: Vec<ValueId> = initial.into_iter().chain(arrays).collect();
            let mut op = Op::new(OpType::Scan, &operands).attr("body", body);
            op = op.attr("num_scan_inputs", count as i64);
            if self.is_reverse {
                op = op.attr("scan_input_directions", &vec![1; count][..]);
            }
            let ways: Vec<i64> =
                self.stacks.iter().map(|stack| i64::from(stack.is_reverse)).collect();
            match ways.contains(&1) {
                true => op.attr("scan_output_directions", &ways[..]),
                false => op,
            }
        };
        let stacks = self.stacks.iter().map(|stack| stack.result);
        let results: Vec<ValueId> =
            self.carries.iter().map(|carry| carry.result).chain(stacks).collect();
        (op, results)
    }

    /// Drops nodes that no result needs, and arrays that no iteration reads. Keeps at least one array. Returns the
    /// dropped nodes.
    fn prune(&mut self) -> Vec<Node> {
        let mut needed: FxHashSet<ValueId> = self.outputs().collect();
        if self.arrays.is_empty() {
            needed.extend(self.counter.map(|counter| counter.next_flag));
        }
        let nodes = std::mem::take(&mut self.nodes).into_iter().rev();
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for node in nodes {
            if node.outputs.iter().any(|output| needed.contains(output)) {
                for_each_read(&node, &mut |id| _ = needed.insert(id));
                kept.push(node);
            } else {
                dropped.push(node);
            }
        }
        kept.reverse();
        self.nodes = kept;
        let first = self.arrays.first().copied();
        self.arrays.retain(|array| needed.contains(&array.element));
        if self.arrays.is_empty() {
            self.arrays.extend(first);
        }
        dropped
    }
}

/// Gives the values of a body new ids, so that the model can contain both the body and the original.
fn renew(edit: &mut Patch<'_, '_>, body: &mut Graph, renamed: &mut FxHashMap<ValueId, ValueId>) {
    let mut define = |value: &mut ValueId, renamed: &mut FxHashMap<ValueId, ValueId>| {
        if let Some(ty) = edit.ty(*value).cloned() {
            let new = edit.body_input(ty);
            renamed.insert(std::mem::replace(value, new), new);
        }
    };
    body.inputs.iter_mut().for_each(|input| define(input, renamed));
    for node in &mut body.nodes {
        node.outputs.iter_mut().for_each(|output| define(output, renamed));
    }
    for node in &mut body.nodes {
        node.bodies_mut().for_each(|body| renew(edit, body, renamed));
        rename(node, renamed);
    }
    for output in &mut body.outputs {
        *output = renamed.get(output).copied().unwrap_or(*output);
    }
}

fn carries_of(
    initial: &[ValueId],
    before: &[ValueId],
    after: &[ValueId],
    results: &[ValueId],
) -> Vec<Carry> {
    let inside = before.iter().zip(after).zip(results);
    let carry = |(&initial, ((&before, &after), &result))| Carry { initial, before, after, result };
    initial.iter().zip(inside).map(carry).collect()
}

fn stacks_of(elements: &[ValueId], results: &[ValueId], directions: Option<&Attr>) -> Vec<Stack> {
    let is_reverse = |place: usize| match directions {
        Some(Attr::Ints(ways)) => ways.get(place) == Some(&1),
        _ => false,
    };
    let pairs = elements.iter().zip(results).enumerate();
    pairs
        .map(|(place, (&element, &result))| Stack {
            element,
            result,
            is_reverse: is_reverse(place),
        })
        .collect()
}

/// True if a node or its bodies read a value.
fn node_reads(node: &Node, value: ValueId) -> bool {
    let mut is_read = false;
    for_each_read(node, &mut |id| is_read |= id == value);
    is_read
}

/// Returns the node of a body that computes a value.
fn maker(nodes: &[Node], value: ValueId) -> Option<&Node> {
    nodes.iter().find(|node| node.outputs.contains(&value))
}

/// Returns the positions of the nodes that compute values.
fn makers(nodes: &[Node]) -> FxHashMap<ValueId, usize> {
    let outputs = |(place, node): (usize, &'_ Node)| {
        node.outputs.iter().map(move |&output| (output, place)).collect::<Vec<_>>()
    };
    nodes.iter().enumerate().flat_map(outputs).collect()
}

/// Returns the value that `Identity` nodes copy to `value`.
fn original<'n>(maker: impl Fn(ValueId) -> Option<&'n Node>, mut value: ValueId) -> ValueId {
    while let Some(node) = maker(value)
        && node.op == OpType::Identity
        && let Some(&Some(source)) = node.inputs.first()
    {
        value = source;
    }
    value
}

/// Returns a node that copies a value to another, with the origin of a node.
pub fn copy_of(value: ValueId, to: ValueId, node: &Node) -> Node {
    let mut copy = node.clone();
    copy.op = OpType::Identity.into();
    copy.inputs = [Some(value)].into_iter().collect();
    copy.outputs = [to].into_iter().collect();
    copy.attrs.clear();
    copy
}

/// Returns the integer of a constant that has one element.
pub fn number(edit: &Edit<'_>, constant: ValueId) -> Option<i64> {
    match edit.tensor(constant)?.ints()?[..] {
        [number] => Some(number),
        _ => None,
    }
}

/// Reads a node as the sum of a value and a constant integer.
fn plus_constant(edit: &Edit<'_>, node: &Node) -> Option<(ValueId, i64)> {
    let &[Some(a), Some(b)] = &node.inputs[..] else { return None };
    require(node.op == OpType::Add)?;
    number(edit, b).map(|number| (a, number)).or_else(|| Some((b, number(edit, a)?)))
}

/// Returns the positions of the results of the root that are replaced, with the values that replace them.
pub fn results_in_place(
    edit: &Patch<'_, '_>,
    replaced: impl IntoIterator<Item = (ValueId, ValueId)>,
) -> Vec<(usize, ValueId)> {
    let outputs = &edit.node(edit.root()).outputs;
    let position = |result: ValueId| outputs.iter().position(|&output| output == result);
    replaced.into_iter().filter_map(|(result, by)| Some((position(result)?, by))).collect()
}

/// Returns the values that the results of a node replace.
pub fn replacing(results: &[ValueId]) -> Vec<Option<ValueId>> {
    results.iter().copied().map(Some).collect()
}
