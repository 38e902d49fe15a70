//! Changes the functions of a model: renames them, adds inputs, and merges equal ones.

use std::sync::Arc;

use provenance::{OriginId, Table};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

use crate::attr::Attr;
use crate::check::constants_of;
use crate::edit::{for_each_read, rename};
use crate::model::{Graph, Model, Node};
use crate::operator::properties::RESERVES_NAME;
use crate::operator::{OpType, Operator};
use crate::pairs::Pairs;
use crate::value::{Value, ValueId};

/// The domain and the name of a function, by which calls refer to it.
type Name = (Arc<str>, Arc<str>);

/// The names of functions, unique within each domain.
#[derive(Debug, Default)]
pub(crate) struct FunctionNames {
    taken: FxHashSet<Name>,
    /// The next number to try for a title that is taken, so that many equal titles stay cheap.
    next: FxHashMap<Name, usize>,
}

impl FunctionNames {
    /// Takes a name, unless it is taken or ONNX Runtime would confuse it with an operator.
    fn take(&mut self, domain: &Arc<str>, name: &Arc<str>) -> bool {
        !OpType::from_name(name).is_some_and(|op| op.is(RESERVES_NAME))
            && self.taken.insert((domain.clone(), name.clone()))
    }

    /// Returns `title`, or the first of `title_2`, `title_3` … that is free.
    pub(crate) fn claim(&mut self, domain: &Arc<str>, title: &Arc<str>) -> Arc<str> {
        if self.take(domain, title) {
            return title.clone();
        }
        let next = self.next.entry((domain.clone(), title.clone())).or_insert(2);
        loop {
            let numbered: Arc<str> = format!("{title}_{next}").into();
            *next += 1;
            if self.taken.insert((domain.clone(), numbered.clone())) {
                return numbered;
            }
        }
    }
}

impl Model {
    /// Turns the constants of functions that `is_lifted` accepts into inputs, and adds them to every call. A
    /// function comes after those that it calls, so the constants that it passes on are lifted from it too.
    pub fn lift_constants(&mut self, is_lifted: impl Fn(&Value) -> bool) {
        let mut passed: FxHashMap<Operator, Vec<ValueId>> = FxHashMap::default();
        for index in 0..self.functions.len() {
            pass_on(&mut self.functions[index].body, &passed);
            let mut lifted = constants_of(self, &self.functions[index].body);
            lifted.retain(|&id| is_lifted(&self.values[id]));
            let formals: Vec<ValueId> = lifted
                .iter()
                .map(|&id| {
                    let ty = self.values[id].ty.clone();
                    self.values.add(Value { ty, ..Value::default() })
                })
                .collect();
            let function = &mut self.functions[index];
            let renamed = lifted.iter().copied().zip(formals.iter().copied()).collect();
            function.body.nodes.iter_mut().for_each(|node| rename(node, &renamed));
            function.body.inputs.extend(formals);
            passed.insert(function.operator(), lifted);
        }
        pass_on(&mut self.graph, &passed);
    }

    /// Drops inputs of functions that their bodies do not read and that `is_dropped` accepts, and the operands of
    /// calls for them. Returns true if there was such an input.
    pub fn drop_unread_inputs(&mut self, is_dropped: impl Fn(&Value) -> bool) -> bool {
        let mut dropped: FxHashMap<Operator, Vec<usize>> = FxHashMap::default();
        for function in &mut self.functions {
            let mut read: FxHashSet<ValueId> = function.body.outputs.iter().copied().collect();
            for node in &function.body.nodes {
                for_each_read(node, &mut |id| {
                    read.insert(id);
                });
            }
            let is_gone = |id: &ValueId| !read.contains(id) && is_dropped(&self.values[*id]);
            let inputs = &function.body.inputs;
            let places: Vec<usize> = (0..inputs.len()).filter(|&at| is_gone(&inputs[at])).collect();
            if !places.is_empty() {
                function.body.inputs.retain(|id| !is_gone(id));
                dropped.insert(function.operator(), places);
            }
        }
        let bodies = self.functions.iter_mut().map(|function| &mut function.body);
        for graph in std::iter::once(&mut self.graph).chain(bodies) {
            visit_nodes_mut(graph, &mut |node| {
                if !node.op.is_onnx()
                    && let Some(places) = dropped.get(&node.op)
                {
                    let mut place = 0..;
                    node.inputs.retain(|_| place.next().is_none_or(|at| !places.contains(&at)));
                }
            });
        }
        !dropped.is_empty()
    }

    /// Merges equal functions. Each pair contains the index of a function to keep and of one to drop. Calls of the
    /// dropped function call the kept one instead, and each kept node inherits the origin of the dropped node at
    /// the same position.
    pub fn share_functions(&mut self, pairs: &[(usize, usize)]) {
        let mut calls: FxHashMap<Operator, Operator> = FxHashMap::default();
        for &(kept, dropped) in pairs {
            let gone = std::mem::take(&mut self.functions[dropped].body);
            let pairs = &mut self.pairs.as_deref_mut();
            absorb_nodes(&mut self.functions[kept].body, &gone, &mut self.provenance, pairs);
            let (kept, dropped) = (&self.functions[kept], &self.functions[dropped]);
            calls.insert(dropped.operator(), kept.operator());
        }
        let gone: FxHashSet<usize> = pairs.iter().map(|&(_, dropped)| dropped).collect();
        let mut index = 0;
        self.functions.retain(|_| {
            index += 1;
            !gone.contains(&(index - 1))
        });
        self.rename_calls(&calls);
    }

    /// Drops the functions that nothing calls, and renumbers functions with the same title.
    pub fn tidy_functions(&mut self) {
        let mut called: FxHashSet<Operator> = FxHashSet::default();
        visit_nodes(&self.graph, &mut |node| {
            called.insert(node.op.clone());
        });
        for function in self.functions.iter().rev() {
            if called.contains(&function.operator()) {
                visit_nodes(&function.body, &mut |node| {
                    called.insert(node.op.clone());
                });
            }
        }
        self.functions.retain(|function| called.contains(&function.operator()));
        self.number_functions();
    }

    /// Names functions after their titles, and numbers those with the same title.
    fn number_functions(&mut self) {
        let mut names = FunctionNames::default();
        let first: Vec<bool> = self
            .functions
            .iter()
            .map(|function| names.take(&function.domain, &function.title))
            .collect();
        let mut calls: FxHashMap<Operator, Operator> = FxHashMap::default();
        for (function, is_first) in self.functions.iter_mut().zip(first) {
            let name = match is_first {
                true => function.title.clone(),
                false => names.claim(&function.domain, &function.title),
            };
            let before = function.operator();
            function.name = name;
            calls.insert(before, function.operator());
        }
        self.rename_calls(&calls);
    }

    fn rename_calls(&mut self, calls: &FxHashMap<Operator, Operator>) {
        let functions = self.functions.iter_mut().map(|function| &mut function.body);
        for graph in std::iter::once(&mut self.graph).chain(functions) {
            visit_nodes_mut(graph, &mut |node| {
                if !node.op.is_onnx()
                    && let Some(operator) = calls.get(&node.op)
                {
                    node.op = operator.clone();
                }
            });
        }
    }

    /// Turns the constants of functions into nodes, because functions have no initializers in a file.
    ///
    /// Such a node has the origin of the equations that were folded into the constant, or else that of its first
    /// reader.
    pub fn constants_to_nodes(&mut self) {
        for index in 0..self.functions.len() {
            let constants = constants_of(self, &self.functions[index].body);
            let body = &mut self.functions[index].body;
            let readers = first_readers(body);
            let mut renamed = FxHashMap::default();
            let mut nodes = Vec::with_capacity(constants.len() + body.nodes.len());
            for id in constants {
                let value = self.values[id].clone();
                let (Some(tensor), Some(&reader)) = (value.tensor, readers.get(&id)) else {
                    continue;
                };
                let own = self.values.add(Value { ty: value.ty, ..Value::default() });
                renamed.insert(id, own);
                if let Some(pairs) = &mut self.pairs {
                    pairs.note_same(id, own);
                }
                nodes.push(Node {
                    name: None,
                    op: OpType::Constant.into(),
                    inputs: smallvec![],
                    outputs: smallvec![own],
                    attrs: vec![("value".into(), Attr::Tensor(tensor))],
                    origin: value.origin.unwrap_or(reader),
                    is_fused: false,
                    iteration: None,
                    metadata: Vec::new(),
                });
            }
            body.nodes.iter_mut().for_each(|node| rename(node, &renamed));
            nodes.append(&mut body.nodes);
            body.nodes = nodes;
        }
    }
}

/// Adds the new operands to the calls of functions.
fn pass_on(graph: &mut Graph, passed: &FxHashMap<Operator, Vec<ValueId>>) {
    visit_nodes_mut(graph, &mut |node| {
        if !node.op.is_onnx()
            && let Some(lifted) = passed.get(&node.op)
        {
            node.inputs.extend(lifted.iter().copied().map(Some));
        }
    });
}

/// Moves the origins and the variables of each node to the node at the same position of an equal graph.
fn absorb_nodes(kept: &mut Graph, gone: &Graph, table: &mut Table, pairs: &mut Option<&mut Pairs>) {
    let mut note_same = |kept: &[ValueId], gone: &[ValueId]| {
        if let Some(pairs) = pairs {
            kept.iter().zip(gone).for_each(|(&kept, &gone)| pairs.note_same(gone, kept));
        }
    };
    note_same(&kept.inputs, &gone.inputs);
    for (kept, gone) in kept.nodes.iter().zip(&gone.nodes) {
        note_same(&kept.outputs, &gone.outputs);
    }
    for (kept, gone) in kept.nodes.iter_mut().zip(&gone.nodes) {
        kept.origin = table.absorb(kept.origin, gone.origin);
        for (kept, gone) in kept.bodies_mut().zip(gone.bodies()) {
            absorb_nodes(kept, gone, table, pairs);
        }
    }
}

/// Returns the origin of the first node of the graph that reads a value, itself or in its bodies.
fn first_readers(graph: &Graph) -> FxHashMap<ValueId, OriginId> {
    let mut readers = FxHashMap::default();
    for node in &graph.nodes {
        for_each_read(node, &mut |id| {
            readers.entry(id).or_insert(node.origin);
        });
    }
    readers
}

fn visit_nodes(graph: &Graph, visit: &mut dyn FnMut(&Node)) {
    for node in &graph.nodes {
        visit(node);
        node.bodies().for_each(|body| visit_nodes(body, visit));
    }
}

fn visit_nodes_mut(graph: &mut Graph, visit: &mut dyn FnMut(&mut Node)) {
    for node in &mut graph.nodes {
        visit(node);
        node.bodies_mut().for_each(|body| visit_nodes_mut(body, visit));
    }
}
