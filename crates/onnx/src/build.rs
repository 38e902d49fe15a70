//! Builds a graph. A [`Builder`] contains the graph, and an [`crate::Expr`] is one of its values.
//!
//! Every node gets the origin of the equation that is being lowered, and the line of Rust that
//! created it, by `#[track_caller]`. Plugins mention neither.

mod emit;
mod function;
mod size;

pub use emit::Attrs;
pub(crate) use emit::Numbers;
use function::Region;
pub use function::Results;
pub use size::SymbolSource;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Arc;

use indexmap::IndexSet;
use provenance::{
    Emitter, EmitterId, EmitterKind, Origin, OriginId, ScopeId, Site, SiteId, StackId, Table,
};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use sizes::Symbol;
use smallvec::smallvec;

use crate::check::type_of;
use crate::dtype::DType;
use crate::expr::Expr;
use crate::functions::FunctionNames;
use crate::kernels::{Target, behavior};
use crate::model::{Function, Graph, Node};
use crate::operator::OpType;
use crate::tensor::Tensor;
use crate::value::{Dim, Type, Value, ValueId, Values};

/// A graph under construction.
pub struct Builder {
    opset: i64,
    exact_nan: bool,
    target: Target,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    table: Table,
    values: Values,
    /// The nodes of the main graph, then those of each open body and function.
    open: Vec<Vec<Node>>,
    /// The main graph, then each open function.
    regions: Vec<Region>,
    functions: Vec<Function>,
    function_names: FunctionNames,
    place: SourceContext,
    emitting: Emitting,
    /// The names of plugins and helpers. [`Emitting`] refers to them by index.
    names: IndexSet<Arc<str>, FxBuildHasher>,
    origins: FxHashMap<(SourceContext, Emitting, usize), OriginId>,
    constants: FxHashMap<Tensor, ValueId>,
    /// Arrays of the program, by the address of their contents.
    weights: FxHashMap<(usize, Type), ValueId>,
    symbols: FxHashMap<Symbol, SymbolSource>,
    /// The factors of products that were expanded to sums: computing the factors takes fewer nodes.
    products: FxHashMap<Dim, Vec<Dim>>,
    /// The real and imaginary parts that were joined to an array of pairs.
    parts: FxHashMap<ValueId, [ValueId; 2]>,
    /// The domains of nodes besides ONNX's own, with the version that the model needs.
    domains: BTreeMap<Arc<str>, i64>,
    problem: Option<Problem>,
}

/// The user's code that is being lowered: its call path and its name scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceContext {
    pub stack: Option<StackId>,
    pub scope: Option<ScopeId>,
}

/// The function of the lowering that is running.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Emitting {
    /// Its kind, and the index of its name; `None` before the first plugin.
    function: Option<(EmitterKind, usize)>,
    parent: Option<EmitterId>,
}

/// The reason why a node cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The runtime has no kernel for the type, nor for a wider one.
    NoKernel {
        op: String,
        dtype: DType,
    },
    NeedsOpset {
        op: String,
        needed: i64,
    },
    /// The plugin made a mistake.
    Internal(String),
}

impl Builder {
    /// Starts a graph for models of this opset and for these runtimes. Call paths and name scopes refer to `table`. With
    /// `exact_nan`, the model spends nodes to match JAX for NaN inputs.
    pub fn new(opset: i64, table: Table, exact_nan: bool, target: Target) -> Builder {
        let (open, regions) = (vec![Vec::new()], vec![Region::default()]);
        let state = State { table, open, regions, ..State::default() };
        Builder { opset, exact_nan, target, state: RefCell::new(state) }
    }

    /// Continues with the values of a finished graph. No equation is being lowered, so the origins of its nodes are
    /// placeholders.
    pub(crate) fn over(opset: i64, exact_nan: bool, target: Target, values: Values) -> Builder {
        let builder = Builder::new(opset, Table::default(), exact_nan, target);
        builder.state.borrow_mut().values = values;
        builder
    }

    pub fn opset(&self) -> i64 {
        self.opset
    }

    /// Returns the runtimes that the model is for.
    pub fn target(&self) -> Target {
        self.target
    }

    /// True if the model must match JAX for NaN inputs too.
    pub fn exact_nan(&self) -> bool {
        self.exact_nan
    }

    /// Runs `f` on the provenance table.
    pub fn table<T>(&self, f: impl FnOnce(&mut Table) -> T) -> T {
        f(&mut self.state.borrow_mut().table)
    }

    /// Adds an input to the graph.
    pub fn input(&self, name: &str, ty: Type) -> Expr<'_> {
        self.value(Value { name: Some(name.into()), ty: Some(ty), ..Value::default() })
    }

    /// Adds an initializer. Small unnamed tensors with equal contents share one value.
    pub fn tensor(&self, tensor: Tensor, name: Option<Arc<str>>) -> Expr<'_> {
        let mut state = self.state.borrow_mut();
        let is_small = tensor.byte_len() <= 256 && name.is_none();
        if is_small && let Some(&id) = state.constants.get(&tensor) {
            return Expr { builder: self, id };
        }
        let id = state.values.add(Value {
            paths: name.iter().cloned().collect(),
            name,
            ty: Some(type_of(&tensor)),
            tensor: Some(Arc::new(tensor.clone())),
            ..Value::default()
        });
        if is_small {
            state.constants.insert(tensor, id);
        }
        Expr { builder: self, id }
    }

    /// Adds an array of the program as an initializer. If it was added before, returns the same value.
    pub fn weight(&self, tensor: Tensor, name: Option<Arc<str>>) -> Expr<'_> {
        let mut state = self.state.borrow_mut();
        let ty = type_of(&tensor);
        let key = (tensor.bytes().as_ptr().addr(), ty.clone());
        if let Some(&id) = state.weights.get(&key) {
            return Expr { builder: self, id };
        }
        let id = state.values.add(Value {
            paths: name.iter().cloned().collect(),
            name,
            ty: Some(ty),
            tensor: Some(Arc::new(tensor)),
            is_weight: true,
            ..Value::default()
        });
        state.weights.insert(key, id);
        Expr { builder: self, id }
    }

    /// Returns a constant of the given type.
    #[track_caller]
    pub fn constant(&self, dtype: DType, shape: &[i64], values: &[f64]) -> Expr<'_> {
        match Tensor::of_floats(dtype, shape.to_vec(), values) {
            Some(tensor) => self.tensor(tensor, None),
            None if dtype.is_float() => {
                let wide = self.constant(DType::F32, shape, values);
                let is_past = |limit| values.iter().any(|value| value.abs() >= limit);
                match behavior::overflow(dtype).is_some_and(is_past) {
                    true => wide.cast(dtype),
                    false => wide.cast_exactly(dtype),
                }
            }
            None => self.narrow_constant(
                dtype,
                shape,
                &values.iter().map(|&v| v as i64).collect::<Vec<_>>(),
            ),
        }
    }

    /// Returns a constant of integers that are smaller than a byte.
    #[track_caller]
    fn narrow_constant(&self, dtype: DType, shape: &[i64], values: &[i64]) -> Expr<'_> {
        match Tensor::of_ints(DType::I8, shape.to_vec(), values) {
            Some(tensor) if dtype.is_int() => self.tensor(tensor, None).cast(dtype),
            _ => self.broken(format!("a constant of `{dtype}`"), Type::new(dtype, [])),
        }
    }

    /// Returns a constant of integers, which wrap to the type.
    #[track_caller]
    pub fn constant_ints(&self, dtype: DType, shape: &[i64], values: &[i64]) -> Expr<'_> {
        match Tensor::of_ints(dtype, shape.to_vec(), values) {
            Some(tensor) => self.tensor(tensor, None),
            None if dtype.is_float() => {
                let values: Vec<f64> = values.iter().map(|&value| value as f64).collect();
                self.constant(dtype, shape, &values)
            }
            None => self.narrow_constant(dtype, shape, values),
        }
    }

    #[track_caller]
    pub fn scalar(&self, dtype: DType, value: f64) -> Expr<'_> {
        self.constant(dtype, &[], &[value])
    }

    /// Returns a constant list of 64-bit integers, for axes and shapes.
    pub fn ints(&self, values: &[i64]) -> Expr<'_> {
        self.constant_ints(DType::I64, &[values.len() as i64], values)
    }

    /// Runs `f` as a body: its nodes and results become a separate graph.
    pub fn body<'g, E>(
        &'g self,
        name: &str,
        inputs: &[Type],
        f: impl FnOnce(&[Expr<'g>]) -> Result<Vec<Expr<'g>>, E>,
    ) -> Result<Graph, E> {
        self.state.borrow_mut().open.push(Vec::new());
        let inputs: Vec<Expr<'g>> = inputs
            .iter()
            .map(|ty| self.value(Value { ty: Some(ty.clone()), ..Value::default() }))
            .collect();
        let outputs = f(&inputs);
        let nodes = self.state.borrow_mut().open.pop().unwrap_or_default();
        Ok(Graph {
            name: name.into(),
            inputs: inputs.iter().map(|input| input.id).collect(),
            outputs: outputs?.iter().map(|output| output.id).collect(),
            nodes,
        })
    }

    /// Starts an equation at `place`, which the plugin for `primitive` lowers. Returns the previous state, for
    /// [`Builder::leave`].
    pub fn enter_plugin(&self, place: SourceContext, primitive: &Arc<str>) -> Entered {
        let mut state = self.state.borrow_mut();
        let emitting = Emitting {
            function: Some((EmitterKind::Plugin, state.name(primitive))),
            parent: state.emitting.parent,
        };
        Entered {
            place: std::mem::replace(&mut state.place, place),
            emitting: std::mem::replace(&mut state.emitting, emitting),
        }
    }

    /// Starts a call of the current plugin on the line of the caller.
    #[track_caller]
    pub fn enter_call(&self) -> Entered {
        let caller = Location::caller();
        let mut state = self.state.borrow_mut();
        let parent = state.emitter_at(caller);
        let emitting = Emitting { parent, ..state.emitting };
        Entered { place: state.place, emitting: std::mem::replace(&mut state.emitting, emitting) }
    }

    /// Returns the frame of the lowering that called the running function.
    pub fn calling(&self) -> Option<EmitterId> {
        self.state.borrow().emitting.parent
    }

    /// Starts a call of Python on the line of `emitter`.
    pub fn enter_foreign_call(&self, emitter: Option<EmitterId>) -> Entered {
        let mut state = self.state.borrow_mut();
        let emitting = Emitting { parent: emitter, ..state.emitting };
        Entered { place: state.place, emitting: std::mem::replace(&mut state.emitting, emitting) }
    }

    #[expect(clippy::needless_pass_by_value, reason = "each call is left only once")]
    pub fn leave(&self, entered: Entered) {
        let mut state = self.state.borrow_mut();
        state.place = entered.place;
        state.emitting = entered.emitting;
    }

    /// Runs a function that several plugins share, so that its nodes show its lines and the line
    /// of the plugin that called it.
    #[track_caller]
    pub fn helper<T>(&self, name: &str, f: impl FnOnce() -> T) -> T {
        let entered = self.enter_call();
        {
            let mut state = self.state.borrow_mut();
            state.emitting.function = Some((EmitterKind::Helper, state.name(&name.into())));
        }
        let result = f();
        self.leave(entered);
        result
    }

    /// Returns the place of the equation that is being lowered.
    pub fn place(&self) -> SourceContext {
        self.state.borrow().place
    }

    /// Returns the site of the equation that is being lowered, with the caller's line in the lowering.
    #[track_caller]
    pub fn site(&self) -> SiteId {
        let caller = Location::caller();
        let mut state = self.state.borrow_mut();
        let emitter = state.emitter_at(caller);
        let SourceContext { stack, scope } = state.place;
        state.table.site(Site { stack, scope, emitter })
    }

    /// Returns the first problem since the last call.
    pub fn take_problem(&self) -> Option<Problem> {
        self.state.borrow_mut().problem.take()
    }

    /// Records that the plugin made a mistake, and returns a value of the expected type, so that building can
    /// continue until the problem is reported.
    pub fn broken(&self, what: String, ty: Type) -> Expr<'_> {
        self.note(Problem::Internal(what));
        self.value(Value { ty: Some(ty), ..Value::default() })
    }

    /// Finishes the model: returns the main graph with the functions, all values and the table.
    pub fn finish(self, name: &str, inputs: Vec<ValueId>, outputs: Vec<ValueId>) -> Built {
        let mut state = self.state.into_inner();
        let graph = Graph {
            name: name.into(),
            inputs,
            outputs,
            nodes: state.open.pop().unwrap_or_default(),
        };
        let State { functions, values, table, .. } = state;
        Built { graph, functions, values, table }
    }

    pub(crate) fn type_of(&self, id: ValueId) -> Type {
        let state = self.state.borrow();
        state.values[id].ty.clone().unwrap_or_else(|| Type::new(DType::F32, []))
    }

    /// Returns the contents of a value, if it is a constant.
    pub fn tensor_of(&self, id: ValueId) -> Option<Arc<Tensor>> {
        self.state.borrow().values[id].tensor.clone()
    }

    /// True if a node of the innermost open body produces the value.
    pub fn makes(&self, id: ValueId) -> bool {
        let state = self.state.borrow();
        // Recent results are searched first.
        let mut nodes = state.open.last().into_iter().flatten().rev();
        nodes.any(|node| node.outputs.contains(&id))
    }

    /// True if a value is computed from constants only.
    pub fn is_computed_from_constants(&self, id: ValueId) -> bool {
        let state = self.state.borrow();
        let mut sources = FxHashSet::from_iter([id]);
        sources.retain(|&id| state.values[id].tensor.is_none());
        for node in state.open.iter().rev().flat_map(|nodes| nodes.iter().rev()) {
            if node.outputs.iter().any(|id| sources.contains(id)) {
                if node.bodies().next().is_some() {
                    return false;
                }
                sources.retain(|id| !node.outputs.contains(id));
                let operands = node.inputs.iter().flatten().copied();
                sources.extend(operands.filter(|&id| state.values[id].tensor.is_none()));
            }
        }
        sources.is_empty()
    }

    /// Returns the operand of the negation that produces the value, if a node of the innermost open body negates. Casts
    /// to a wider type and back may be around the negation, because narrow types have no kernel for it.
    pub fn negated<'g>(&'g self, value: Expr<'g>) -> Option<Expr<'g>> {
        let state = self.state.borrow();
        let operand = |id: ValueId, op: OpType| {
            let mut nodes = state.open.last().into_iter().flatten().rev();
            let node = nodes.find(|node| node.outputs.contains(&id))?;
            let [operand] = node.inputs[..] else { return None };
            operand.filter(|_| node.op == op)
        };
        let dtype = |id: ValueId| state.values[id].ty.as_ref().map(|ty| ty.dtype);
        let id = operand(value.id, OpType::Neg).or_else(|| {
            let wide = operand(operand(value.id, OpType::Cast)?, OpType::Neg)?;
            operand(wide, OpType::Cast).filter(|&id| dtype(id) == dtype(value.id))
        })?;
        Some(Expr { builder: self, id })
    }

    /// Returns a constant of which a value has the same elements, each any number of times: the value itself, or what
    /// nodes of the innermost open body reshape and expand.
    pub fn repeated(&self, id: ValueId) -> Option<Arc<Tensor>> {
        let state = self.state.borrow();
        let mut source = id;
        for node in state.open.last().into_iter().flatten().rev() {
            if state.values[source].tensor.is_some() {
                break;
            }
            if node.outputs.contains(&source) {
                let is_view =
                    node.op.is_one_of(&[OpType::Expand, OpType::Reshape, OpType::Unsqueeze]);
                source = is_view.then(|| node.inputs.first().copied().flatten())??;
            }
        }
        state.values[source].tensor.clone()
    }

    /// Notes of which real and imaginary parts an array of pairs consists.
    pub fn note_parts(&self, pairs: Expr<'_>, [re, im]: [Expr<'_>; 2]) {
        self.state.borrow_mut().parts.insert(pairs.id, [re.id, im.id]);
    }

    /// Returns the parts of which an array of pairs consists, if they were noted.
    pub fn parts_of<'g>(&'g self, pairs: Expr<'g>) -> Option<[Expr<'g>; 2]> {
        let parts = self.state.borrow().parts.get(&pairs.id).copied()?;
        Some(parts.map(|id| Expr { builder: self, id }))
    }

    /// Returns the type of a value, if it has one.
    pub fn known_type(&self, id: ValueId) -> Option<Type> {
        self.state.borrow().values[id].ty.clone()
    }

    /// Sets the type of a value.
    pub fn set_type(&self, id: ValueId, ty: Type) {
        self.state.borrow_mut().values[id].ty = Some(ty);
    }

    /// Returns the opsets of the model: ONNX's own, then those of the other domains of nodes.
    pub fn opsets(&self) -> Vec<(Arc<str>, i64)> {
        let domains = &self.state.borrow().domains;
        let own = std::iter::once(("".into(), self.opset));
        own.chain(domains.iter().map(|(domain, &version)| (domain.clone(), version))).collect()
    }

    /// Sets the name of a value: outputs of the graph have names.
    pub fn set_name(&self, id: ValueId, name: &str) {
        self.state.borrow_mut().values[id].name = Some(name.into());
    }

    /// Sets the path of a value in the arguments or in the result.
    pub fn set_path(&self, id: ValueId, path: &str) {
        self.state.borrow_mut().values[id].paths = smallvec![path.into()];
    }

    /// Sets the line of an input.
    pub fn set_line(&self, id: ValueId, stack: StackId) {
        let mut state = self.state.borrow_mut();
        let site = state.table.site(Site { stack: Some(stack), scope: None, emitter: None });
        let origin = state.table.origin(Origin::of(site));
        state.values[id].origin = Some(origin);
    }

    /// If an equation returns a constant, copies the constant, so that the copy has the line of the equation.
    /// Returns other values unchanged.
    pub fn made_constant<'g>(&'g self, result: Expr<'g>, site: SiteId) -> Expr<'g> {
        let mut state = self.state.borrow_mut();
        let value = &state.values[result.id];
        if value.tensor.is_none() || value.origin.is_some() || value.is_captured() {
            return result;
        }
        let value = value.clone();
        let origin = state.table.origin(Origin::of(site));
        let id = state.values.add(Value { origin: Some(origin), ..value });
        Expr { builder: self, id }
    }

    fn value(&self, value: Value) -> Expr<'_> {
        let id = self.state.borrow_mut().values.add(value);
        Expr { builder: self, id }
    }

    fn note(&self, problem: Problem) {
        self.state.borrow_mut().problem.get_or_insert(problem);
    }
}

/// A finished graph.
pub struct Built {
    pub graph: Graph,
    pub functions: Vec<Function>,
    pub values: Values,
    pub table: Table,
}

/// The previous equation, for [`Builder::leave`].
#[must_use]
pub struct Entered {
    place: SourceContext,
    emitting: Emitting,
}

impl State {
    fn name(&mut self, name: &Arc<str>) -> usize {
        match self.names.get_index_of(name) {
            Some(known) => known,
            None => self.names.insert_full(name.clone()).0,
        }
    }

    /// Returns the frame of the running function on this line.
    fn emitter_at(&mut self, line: &'static Location<'static>) -> Option<EmitterId> {
        let (kind, name) = self.emitting.function?;
        Some(self.table.emitter(Emitter {
            kind,
            name: (&*self.names[name]).into(),
            file: line.file().into(),
            line: line.line(),
            parent: self.emitting.parent,
        }))
    }

    /// Returns the origin of a node that the running function creates on this line.
    ///
    /// Every node needs one, so the result is cached by the address of the line.
    fn origin_at(&mut self, line: &'static Location<'static>) -> OriginId {
        let address = std::ptr::from_ref(line).addr();
        let key = (self.place, self.emitting, address);
        if let Some(&known) = self.origins.get(&key) {
            return known;
        }
        let emitter = self.emitter_at(line);
        let SourceContext { stack, scope } = self.place;
        let site = self.table.site(Site { stack, scope, emitter });
        let origin = self.table.origin(Origin::of(site));
        self.origins.insert(key, origin);
        origin
    }
}
