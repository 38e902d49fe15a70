//! Functions under construction.

use std::panic::Location;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::{Attrs, Builder, Emitting, SourceContext};
use crate::edit::{for_each_read, rename};
use crate::expr::Expr;
use crate::model::{Function, Graph, Node};
use crate::operator::Operator;
use crate::value::{Dim, Value, ValueId};

/// The main graph or a function: a scope that sees only its own values.
#[derive(Default)]
pub(super) struct Region {
    /// The index of its nodes in the list of open node lists.
    nodes: usize,
    /// The inputs of a function that are known before its body.
    pub(super) inputs: Vec<ValueId>,
    /// The symbolic sizes that were computed in it.
    pub(super) sizes: FxHashMap<Dim, ValueId>,
    /// The place of the call.
    place: SourceContext,
    emitting: Emitting,
}

/// The results of the body of a function.
pub struct Results<'g> {
    /// Its outputs, each produced by a node of the body.
    pub outputs: Vec<Expr<'g>>,
    /// Values of the body that are also read after the call.
    pub escaped: Vec<Expr<'g>>,
}

impl Builder {
    /// Runs `f` as the body of a function, on inputs that represent the arguments, and calls the function.
    ///
    /// Values that the body reads from outside become further inputs; constants do not. Returns the results of the
    /// call, and for each escaped value the value that represents it outside.
    #[track_caller]
    pub fn function<'g, E>(
        &'g self,
        domain: &Arc<str>,
        title: &Arc<str>,
        arguments: &[Expr<'g>],
        f: impl FnOnce(&[Expr<'g>]) -> Result<Results<'g>, E>,
    ) -> Result<Results<'g>, E> {
        let line = Location::caller();
        let is_constant = |argument: &Expr<'g>| argument.tensor().is_some();
        let formals: Vec<Expr<'g>> = arguments
            .iter()
            .map(|argument| {
                if is_constant(argument) {
                    return *argument;
                }
                self.value(Value { ty: Some(argument.ty()), ..Value::default() })
            })
            .collect();
        let pairs = arguments.iter().zip(&formals).filter(|(argument, _)| !is_constant(argument));
        let (mut outer, mut inner): (Vec<ValueId>, Vec<ValueId>) =
            pairs.map(|(argument, formal)| (argument.id, formal.id)).unzip();
        self.open_region(&inner);
        let results = f(&formals);
        let mut nodes = self.close_region();
        let Results { mut outputs, escaped } = results?;

        self.capture(&mut nodes, &mut outer, &mut inner);
        let made: FxHashSet<ValueId> =
            nodes.iter().flat_map(|node| node.outputs.iter().copied()).collect();
        let results = outputs.len();
        for value in escaped.iter().filter(|value| made.contains(&value.id)) {
            if !outputs.iter().any(|output| output.id == value.id) {
                outputs.push(*value);
            }
        }
        let types = outputs.iter().map(|output| Some(output.ty())).collect();
        let body = Graph {
            name: title.clone(),
            outputs: outputs.iter().map(|output| output.id).collect(),
            inputs: inner.clone(),
            nodes,
        };
        let operator = self.add_function(domain, title, body);
        let operands: SmallVec<[Option<Expr<'g>>; 4]> =
            outer.iter().map(|&id| Some(Expr { builder: self, id })).collect();
        let mut called = self.push_at(line, operator, &operands, Attrs::new(), types);

        let outside: FxHashMap<ValueId, ValueId> = inner.into_iter().zip(outer).collect();
        let escaped = escaped.into_iter().map(|value| {
            match outputs.iter().position(|output| output.id == value.id) {
                Some(position) => called[position],
                None => Expr { id: *outside.get(&value.id).unwrap_or(&value.id), ..value },
            }
        });
        let escaped = escaped.collect();
        called.truncate(results);
        Ok(Results { outputs: called, escaped })
    }

    fn open_region(&self, inputs: &[ValueId]) {
        let mut state = self.state.borrow_mut();
        let region = Region {
            nodes: state.open.len(),
            inputs: inputs.to_vec(),
            sizes: FxHashMap::default(),
            place: state.place,
            emitting: state.emitting,
        };
        state.regions.push(region);
        state.open.push(Vec::new());
        // The contents do not depend on who calls the function.
        state.emitting.parent = None;
    }

    fn close_region(&self) -> Vec<Node> {
        let mut state = self.state.borrow_mut();
        if let Some(region) = state.regions.pop() {
            state.place = region.place;
            state.emitting = region.emitting;
        }
        state.open.pop().unwrap_or_default()
    }

    /// Turns every value that the nodes read from outside into an input.
    fn capture(&self, nodes: &mut [Node], outer: &mut Vec<ValueId>, inner: &mut Vec<ValueId>) {
        let mut state = self.state.borrow_mut();
        let mut own: FxHashSet<ValueId> = inner.iter().copied().collect();
        for node in nodes.iter() {
            define(node, &mut own);
        }
        let mut renamed: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        for (&outer, &inner) in outer.iter().zip(inner.iter()) {
            renamed.entry(outer).or_insert(inner);
        }
        let mut captured = Vec::new();
        for node in nodes.iter() {
            for_each_read(node, &mut |id| {
                let is_outside = !own.contains(&id) && state.values[id].tensor.is_none();
                if is_outside && !renamed.contains_key(&id) {
                    renamed.insert(id, id);
                    captured.push(id);
                }
            });
        }
        for id in captured {
            let formal = Value { ty: state.values[id].ty.clone(), ..Value::default() };
            let formal = state.values.add(formal);
            renamed.insert(id, formal);
            outer.push(id);
            inner.push(formal);
        }
        for node in nodes {
            rename(node, &renamed);
        }
    }

    fn add_function(&self, domain: &Arc<str>, title: &Arc<str>, body: Graph) -> Operator {
        let mut state = self.state.borrow_mut();
        let name = state.function_names.claim(domain, title);
        let function = Function { domain: domain.clone(), name, title: title.clone(), body };
        let operator = function.operator();
        state.functions.push(function);
        operator
    }

    pub(super) fn innermost_region(&self) -> usize {
        self.state.borrow().regions.len() - 1
    }

    /// Runs `f` with its nodes in the region, with the source context of that region.
    pub(super) fn in_region<T>(&self, region: usize, f: impl FnOnce() -> T) -> T {
        let (open, regions, place, emitting) = {
            let mut state = self.state.borrow_mut();
            let first = state.regions[region].nodes + 1;
            let open = state.open.split_off(first);
            let regions = state.regions.split_off(region + 1);
            let before = (state.place, state.emitting);
            if let Some(called) = regions.first() {
                (state.place, state.emitting) = (called.place, called.emitting);
            }
            (open, regions, before.0, before.1)
        };
        let result = f();
        let mut state = self.state.borrow_mut();
        state.open.extend(open);
        state.regions.extend(regions);
        (state.place, state.emitting) = (place, emitting);
        result
    }
}

/// Collects every value that a node and its bodies define.
fn define(node: &Node, own: &mut FxHashSet<ValueId>) {
    own.extend(node.outputs.iter().copied());
    for body in node.bodies() {
        own.extend(body.inputs.iter().copied());
        for node in &body.nodes {
            define(node, own);
        }
    }
}
