//! Resolves the records of variables to values of the finished model.

use std::sync::Arc;

use provenance::{Site, SiteId, Table};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Call, Change, Definition, Held, Pairs, Round, Rounds, Variable, View};
use crate::attr::Attr;
use crate::model::{Graph, Model, Node};
use crate::operator::Operator;
use crate::operator::properties::LOOPS;
use crate::value::{ValueId, Values, known_shape};

/// A variable, and its holder.
#[derive(Clone, Debug)]
pub struct Pair<'m> {
    pub variable: &'m Variable,
    pub holder: Holder,
}

/// A value that holds a variable in a finished model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A value with the variable's contents, apart from rounding. If the view is empty, its shape and its order of
    /// elements are the same too. If it is ambiguous, its contents may be another correct result, such as an
    /// eigenvector with another sign.
    Value {
        name: Arc<str>,
        graph: Vec<Hop>,
        rounds: Rounds,
        is_ambiguous: bool,
        /// The steps from the value to the variable.
        view: View,
        /// The shape of the value, if it is known.
        shape: Option<Vec<i64>>,
    },
    /// Nodes that compute more than the variable, and constants that were computed from it.
    Covered { nodes: Vec<Arc<str>>, constants: Vec<Arc<str>> },
    /// Nothing holds it, because no output needs it.
    Unused,
}

/// A step from a graph into a body of one of its nodes, or into the function that the node calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    pub node: Arc<str>,
    /// The attribute with the body; `None` for a call.
    pub body: Option<Arc<str>>,
}

impl Holder {
    /// The nodes are not known.
    const NONE: Holder = Holder::Covered { nodes: Vec::new(), constants: Vec::new() };
}

impl Model {
    /// Returns the holders of each variable, if pairs were recorded. The model must have its final names.
    ///
    /// Several values may hold a variable, such as one for each iteration of an unrolled loop.
    pub fn pairs(&self) -> Vec<Pair<'_>> {
        let Some(pairs) = self.pairs.as_deref() else {
            return Vec::new();
        };
        let paths = GraphPaths::of(self, pairs);
        let ambiguous = pairs.ambiguous(self);
        let mut holders: Vec<Vec<Holder>> = vec![Vec::new(); pairs.variables.len()];
        for (value, states) in pairs.states(&self.values) {
            for state in states {
                let is_ambiguous = [value, state.value].iter().any(|id| ambiguous.contains(id));
                let found = paths.holder(self, value, &state, is_ambiguous);
                holders[state.variable].extend(found);
            }
        }
        let covering = Covering::of(self);
        let sites = pairs.sites();
        let all = pairs.variables.iter().enumerate().zip(holders);
        all.flat_map(|((index, variable), mut found)| {
            found.dedup();
            drop_longer_views(&mut found);
            if found.is_empty() {
                let is_computed = matches!(variable.definition, Definition::Equation(_));
                let covered = covering.holder(&self.provenance, sites[index]);
                found.push(if is_computed { covered } else { Holder::NONE });
            }
            found.into_iter().map(move |holder| Pair { variable, holder })
        })
        .collect()
    }
}

impl Pairs {
    /// Follows all changes, and returns the variables that each value holds, in the order of values.
    fn states(&self, values: &Values) -> Vec<(ValueId, Vec<Held>)> {
        let mut states: FxHashMap<ValueId, Vec<Held>> = FxHashMap::default();
        for held in &self.held {
            states.entry(held.value).or_default().push(held.clone());
        }
        for change in &self.changes {
            let (&from, &to) = match change {
                Change::Same { from, to }
                | Change::Unrolled { from, to, .. }
                | Change::View { from, to, .. } => (from, to),
            };
            let Some(held) = states.get(&from) else {
                continue;
            };
            let changed: Vec<Held> =
                held.iter().filter_map(|held| change.applied(held, values)).collect();
            let known = states.entry(to).or_default();
            for held in changed {
                let is_known = |other: &Held| {
                    other.variable == held.variable
                        && other.rounds == held.rounds
                        && other.calls == held.calls
                        && other.view == held.view
                };
                if !known.iter().any(is_known) {
                    known.push(held);
                }
            }
        }
        let mut states: Vec<_> = states.into_iter().collect();
        states.sort_unstable_by_key(|(value, _)| *value);
        states
    }

    /// Returns the values with ambiguous contents: the first values of ambiguous variables, and all results of the
    /// nodes of their equations.
    fn ambiguous(&self, model: &Model) -> FxHashSet<ValueId> {
        let is_ambiguous = |held: &&Held| self.variables[held.variable].is_ambiguous;
        let mut values: FxHashSet<ValueId> =
            self.held.iter().filter(is_ambiguous).map(|held| held.value).collect();
        if values.is_empty() {
            return values;
        }
        let table = &model.provenance;
        let variables = self.variables.iter().filter(|variable| variable.is_ambiguous);
        let equations: FxHashSet<Equation<'_>> =
            variables.filter_map(|variable| Some(equation(table, variable.site?))).collect();
        for node in model.graphs().into_iter().flat_map(|graph| &graph.nodes) {
            let mut sites = table.get_origin(node.origin).sites();
            if sites.any(|site| equations.contains(&equation(table, site))) {
                values.extend(&node.outputs);
            }
        }
        values
    }

    /// Returns the site of the innermost equation that computes the first value of each variable, because a call
    /// itself has no nodes.
    fn sites(&self) -> Vec<Option<SiteId>> {
        let mut made: FxHashMap<ValueId, SiteId> = FxHashMap::default();
        let mut sites: Vec<Option<SiteId>> =
            self.variables.iter().map(|variable| variable.site).collect();
        for held in &self.held {
            let Variable { definition, site, .. } = &self.variables[held.variable];
            if let (Definition::Equation(_), &Some(site)) = (definition, site) {
                sites[held.variable] = Some(*made.entry(held.value).or_insert(site));
            }
        }
        sites
    }
}

impl Change {
    /// Returns what the new value holds, given what the old one holds.
    fn applied(&self, held: &Held, values: &Values) -> Option<Held> {
        let mut held = held.clone();
        if let Change::View { to, step, .. } = self {
            held.view = held.view.after(step, values[*to].ty.as_ref())?;
        }
        if let &Change::Unrolled { round, place, .. } = self {
            let outside = match held.calls.last() {
                Some(call) if place.is_in_function => call.loops,
                _ => 0,
            };
            let open = |round: &&mut Round| matches!(round, Round::Each | Round::Next);
            let inside = held.rounds.iter_mut().skip(outside);
            let entry = inside.filter(open).nth(place.depth)?;
            *entry = Round::At(round + usize::from(*entry == Round::Next));
        }
        Some(held)
    }
}

/// Keeps, for each iteration, the values that are equal to the variable, or else the one that is the fewest steps
/// away.
fn drop_longer_views(found: &mut Vec<Holder>) {
    let key = |holder: &Holder| match holder {
        Holder::Value { rounds, view, .. } => (rounds.clone(), view.0.len()),
        Holder::Covered { .. } | Holder::Unused => (Rounds::new(), 0),
    };
    let mut kept: Vec<Holder> = Vec::new();
    let mut sorted = std::mem::take(found);
    sorted.sort_by_key(|holder| key(holder).1);
    for holder in sorted {
        let (rounds, steps) = key(&holder);
        if steps == 0 || kept.iter().all(|other| key(other).0 != rounds) {
            kept.push(holder);
        }
    }
    *found = kept;
}

/// A graph of the model.
struct GraphPath {
    /// The function that contains it.
    function: Option<Operator>,
    /// The steps from the main graph or from the graph of the function.
    hops: Vec<Hop>,
    /// The number of loops around it.
    loops: usize,
}

/// The graph that defines each value.
struct GraphPaths {
    all: Vec<GraphPath>,
    /// The index of the graph. `None` for a value of several graphs.
    of: FxHashMap<ValueId, Option<usize>>,
    /// The calls of functions, by their first results.
    calls: FxHashMap<ValueId, (Operator, Arc<str>)>,
    /// The replacement of each removed value.
    replaced: FxHashMap<ValueId, ValueId>,
}

impl GraphPaths {
    fn of(model: &Model, pairs: &Pairs) -> GraphPaths {
        let replaced = pairs.changes.iter().filter_map(|change| match *change {
            Change::Same { from, to } => Some((from, to)),
            Change::Unrolled { .. } | Change::View { .. } => None,
        });
        let mut paths = GraphPaths {
            all: Vec::new(),
            of: FxHashMap::default(),
            calls: FxHashMap::default(),
            replaced: replaced.collect(),
        };
        paths.add(model, &model.graph, GraphPath { function: None, hops: Vec::new(), loops: 0 });
        for function in &model.functions {
            let of_function =
                GraphPath { function: Some(function.operator()), hops: Vec::new(), loops: 0 };
            paths.add(model, &function.body, of_function);
        }
        paths
    }

    fn add(&mut self, model: &Model, graph: &Graph, path: GraphPath) {
        let here = self.all.len();
        graph.inputs.iter().for_each(|&id| self.define(id, here));
        let (hops, loops) = (path.hops.clone(), path.loops);
        let function = path.function.clone();
        self.all.push(path);
        for node in &graph.nodes {
            node.outputs.iter().for_each(|&id| self.define(id, here));
            let name = node.name.clone().unwrap_or_default();
            if let (false, Some(&result)) = (node.op.is_onnx(), node.outputs.first()) {
                self.calls.insert(result, (node.op.clone(), name.clone()));
            }
            // Initializers belong to the main graph, whichever body reads them.
            let is_initializer =
                |id: &ValueId| function.is_none() && model.values[*id].tensor.is_some();
            for id in node.inputs.iter().flatten().copied().filter(is_initializer) {
                self.of.insert(id, Some(0));
            }
            for (attribute, attr) in &node.attrs {
                let Attr::Graph(body) = attr else { continue };
                let hop = Hop { node: name.clone(), body: Some(attribute.clone()) };
                let inner = GraphPath {
                    function: function.clone(),
                    hops: hops.iter().cloned().chain([hop]).collect(),
                    loops: loops + usize::from(is_loop(node)),
                };
                self.add(model, body, inner);
            }
        }
    }

    fn define(&mut self, id: ValueId, graph: usize) {
        let defined = self.of.entry(id).or_insert(Some(graph));
        if *defined != Some(graph) {
            *defined = None;
        }
    }

    /// Returns the value that holds a variable, if it is a value of the finished model.
    fn holder(
        &self,
        model: &Model,
        value: ValueId,
        held: &Held,
        is_ambiguous: bool,
    ) -> Option<Holder> {
        let name = model.values[value].name.clone()?;
        if !held.calls.iter().all(|call| self.call(*call).is_some()) {
            return None;
        }
        let (graph, loops) = self.path(value, &held.calls)?;
        let mut rounds = held.rounds.clone();
        let is_open = |round: &Round| matches!(round, Round::Each | Round::Next);
        let open = rounds.iter().filter(|round| is_open(round)).count();
        let left = open.checked_sub(loops)?;
        for round in rounds.iter_mut().rev().filter(|round| is_open(round)).take(left) {
            *round = Round::All;
        }
        let view = held.view.clone();
        let shape = model.values[value].ty.as_ref().and_then(|ty| known_shape(&ty.shape));
        Some(Holder::Value { name, graph, rounds, is_ambiguous, view, shape })
    }

    /// Returns the path to the graph of a value inside these calls, and the number of loops on it.
    fn path(&self, value: ValueId, calls: &[Call]) -> Option<(Vec<Hop>, usize)> {
        let GraphPath { function, hops, loops } = &self.all[(*self.of.get(&value)?)?];
        let Some(function) = function else {
            return Some((hops.clone(), *loops));
        };
        // A value from outside a function is in the function of an outer call.
        let (&call, outer) = calls.split_last()?;
        let (result, operator, node) = self.call(call)?;
        if operator != function {
            return self.path(value, outer);
        }
        let (mut path, outer_loops) = self.path(result, outer)?;
        path.push(Hop { node: node.clone(), body: None });
        path.extend(hops.iter().cloned());
        Some((path, outer_loops + loops))
    }

    /// Returns the first result of a remaining call, its function and its name.
    fn call(&self, call: Call) -> Option<(ValueId, &Operator, &Arc<str>)> {
        let now = |value: &ValueId| self.replaced.get(value).copied();
        let result = std::iter::successors(Some(call.result), now).take(self.replaced.len() + 1);
        let result = result.last()?;
        let (operator, node) = self.calls.get(&result)?;
        Some((result, operator, node))
    }
}

fn is_loop(node: &Node) -> bool {
    node.op.is(LOOPS)
}

/// The nodes and constants that have the origin of each equation.
#[derive(Default)]
struct Covering<'m> {
    nodes: FxHashMap<Equation<'m>, Vec<Arc<str>>>,
    constants: FxHashMap<Equation<'m>, Vec<Arc<str>>>,
}

/// The properties that distinguish equations: the site, and the name of the plugin.
type Equation<'m> = (Site, Option<&'m str>);

impl<'m> Covering<'m> {
    fn of(model: &'m Model) -> Covering<'m> {
        let table = &model.provenance;
        let mut covering = Covering::default();
        let mut read: FxHashSet<ValueId> = FxHashSet::default();
        for node in model.graphs().into_iter().flat_map(|graph| &graph.nodes) {
            let name = node.name.clone().unwrap_or_default();
            for site in table.get_origin(node.origin).sites() {
                let nodes = covering.nodes.entry(equation(table, site)).or_default();
                if nodes.last() != Some(&name) {
                    nodes.push(name.clone());
                }
            }
            for &id in node.inputs.iter().flatten() {
                let value = &model.values[id];
                let (Some(origin), Some(name), Some(_)) =
                    (value.origin, &value.name, &value.tensor)
                else {
                    continue;
                };
                if !value.is_captured() && read.insert(id) {
                    for site in table.get_origin(origin).sites() {
                        let equation = equation(table, site);
                        covering.constants.entry(equation).or_default().push(name.clone());
                    }
                }
            }
        }
        covering
    }

    fn holder(&self, table: &'m Table, site: Option<SiteId>) -> Holder {
        let Some(equation) = site.map(|site| equation(table, site)) else {
            return Holder::Unused;
        };
        let nodes = self.nodes.get(&equation).cloned().unwrap_or_default();
        let constants = self.constants.get(&equation).cloned().unwrap_or_default();
        match (&nodes[..], &constants[..]) {
            ([], []) => Holder::Unused,
            _ => Holder::Covered { nodes, constants },
        }
    }
}

fn equation(table: &Table, site: SiteId) -> Equation<'_> {
    let Site { stack, scope, emitter } = table.get_site(site);
    let plugin = emitter.and_then(|emitter| table.plugin_of(emitter));
    let name = plugin.map(|plugin| &*table.get_emitter(plugin).name);
    (Site { stack, scope, emitter: None }, name)
}
