//! Creates nodes, with casts around operators for which the runtime has no kernel.

use std::convert::Infallible;
use std::panic::Location;
use std::sync::Arc;

use provenance::{EmitterId, Origin, OriginId, Site};
use smallvec::{SmallVec, smallvec};

use super::{Builder, Problem, SourceContext};
use crate::attr::Attr;
use crate::dtype::DType;
use crate::expr::Expr;
use crate::infer::{Call, NotInferred, Types, agree};
use crate::kernels::{Kernel, Lookup, behavior};
use crate::model::Node;
use crate::operator::properties::{CASTS, CONTROL_FLOW, JOINS, NEVER_GROWS, SELECTIONS};
use crate::operator::{OpType, Operator};
use crate::value::{Dim, Type, Value, ValueId};

/// The attributes of a node, by name.
pub type Attrs<'a> = Vec<(&'a str, Attr)>;

/// The sizes of each result, if they are stated: they are equal to the inferred ones, but may be spelled
/// differently.
type Shapes<'a> = &'a [Option<&'a [Dim]>];

impl Builder {
    /// Adds a node with one result.
    #[track_caller]
    pub fn node<'g>(&'g self, op: OpType, inputs: &[Expr<'g>], attrs: Attrs<'_>) -> Expr<'g> {
        self.emit(op, &operands(inputs), attrs, &[None]).swap_remove(0)
    }

    /// Adds a node with one result of the stated sizes. JAX may spell them differently from what the operands
    /// imply: `B - 1` stands for `max(B - 1, 0)`.
    #[track_caller]
    pub fn sized_node<'g>(
        &'g self,
        op: OpType,
        inputs: &[Expr<'g>],
        attrs: Attrs<'_>,
        shape: &[Dim],
    ) -> Expr<'g> {
        self.emit(op, &operands(inputs), attrs, &[Some(shape)]).swap_remove(0)
    }

    /// Adds a node with optional operands and any number of results. Without results, it adds no node.
    #[track_caller]
    pub fn nodes<'g>(
        &'g self,
        op: OpType,
        inputs: &[Option<Expr<'g>>],
        attrs: Attrs<'_>,
        results: usize,
    ) -> Vec<Expr<'g>> {
        self.emit(op, inputs, attrs, &vec![None; results])
    }

    /// Adds a node whose results have the stated sizes; see [`Builder::sized_node`].
    #[track_caller]
    pub fn sized_nodes<'g>(
        &'g self,
        op: OpType,
        inputs: &[Option<Expr<'g>>],
        attrs: Attrs<'_>,
        shapes: &[&[Dim]],
    ) -> Vec<Expr<'g>> {
        let shapes: Vec<Option<&[Dim]>> = shapes.iter().copied().map(Some).collect();
        self.emit(op, inputs, attrs, &shapes)
    }

    /// Adds a node, with casts if the runtime has no kernel for its operands.
    #[track_caller]
    fn emit<'g>(
        &'g self,
        op: OpType,
        inputs: &[Option<Expr<'g>>],
        attrs: Attrs<'_>,
        shapes: Shapes<'_>,
    ) -> Vec<Expr<'g>> {
        if shapes.is_empty() {
            return Vec::new();
        }
        let line = Location::caller();
        let kernel = match self.target().kernel(op, self.opset()) {
            // The passes write it in another way.
            Lookup::Kernel(kernel) if kernel.is_empty() => {
                return self.push(line, op, inputs, attrs, shapes);
            }
            Lookup::Kernel(kernel) => kernel,
            Lookup::Later(needed) => {
                self.note(Problem::NeedsOpset { op: op.to_string(), needed });
                return self.push(line, op, inputs, attrs, shapes);
            }
            Lookup::Unlisted => return self.push(line, op, inputs, attrs, shapes),
        };
        let types = self.compute_types(op, &kernel, inputs);
        if types.iter().all(|(_, from, to)| from == to) {
            let outputs = self.push(line, op, inputs, attrs, shapes);
            self.note_missing_types(op, &kernel, inputs, &outputs);
            return outputs;
        }
        let compute = |variable: Option<usize>| {
            let known = types.iter().find(|(known, ..)| Some(*known) == variable);
            known.map(|&(_, from, to)| (from, to))
        };
        let cast_input = |(index, input): (usize, &Option<Expr<'g>>)| {
            let input = (*input)?;
            match compute(kernel.variable_of_input(index)) {
                Some((_, to)) => Some(self.cast_at(line, input, to, Numbers::Any)),
                None => Some(input),
            }
        };
        let cast_inputs: Vec<Option<Expr<'g>>> =
            inputs.iter().enumerate().map(cast_input).collect();
        let numbers = numbers_of(op, &attrs);
        let outputs = self.push(line, op, &cast_inputs, attrs, shapes).into_iter().enumerate();
        let cast_back =
            |(index, output): (usize, Expr<'g>)| match compute(kernel.variable_of_output(index)) {
                Some((from, to)) if output.dtype() == to => {
                    self.cast_at(line, output, from, numbers)
                }
                _ => output,
            };
        outputs.map(cast_back).collect()
    }

    /// Returns for each type variable of the operator the type of its operands and the type to compute in.
    fn compute_types(
        &self,
        op: OpType,
        kernel: &Kernel,
        inputs: &[Option<Expr<'_>>],
    ) -> SmallVec<[(usize, DType, DType); 3]> {
        let mut types: SmallVec<[(usize, DType, DType); 3]> = SmallVec::new();
        if is_not_cast_around(op) {
            return types;
        }
        for (index, input) in inputs.iter().enumerate() {
            let (Some(input), Some(variable)) = (input, kernel.variable_of_input(index)) else {
                continue;
            };
            let dtype = input.dtype();
            if types.iter().any(|(known, ..)| *known == variable) {
                continue;
            }
            // The passes write a comparison of flags without casts.
            let is_of_flags = op == OpType::Equal && dtype == DType::Bool;
            match kernel.compute_type(variable, dtype).filter(|&it| !is_of_flags || it == dtype) {
                Some(compute) => types.push((variable, dtype, compute)),
                None if self.target().is_default() => {
                    self.note(Problem::NoKernel { op: op.to_string(), dtype });
                }
                None => types.push((variable, dtype, dtype)),
            }
        }
        types
    }

    /// Notes types without a kernel, for operators around which no cast can be added.
    fn note_missing_types(
        &self,
        op: OpType,
        kernel: &Kernel,
        inputs: &[Option<Expr<'_>>],
        results: &[Expr<'_>],
    ) {
        if !is_not_cast_around(op) || !self.target().is_default() {
            return;
        }
        let operands = inputs.iter().enumerate().filter_map(|(index, input)| {
            Some((kernel.variable_of_input(index)?, (*input)?.dtype()))
        });
        let results = results.iter().enumerate().filter_map(|(index, result)| {
            Some((kernel.variable_of_output(index)?, result.dtype()))
        });
        for (variable, dtype) in operands.chain(results) {
            if !kernel.takes(variable, dtype) {
                self.note(Problem::NoKernel { op: op.to_string(), dtype });
            }
        }
    }

    /// Casts as JAX does. If a number is too large for a float of 8 bits, it becomes infinite, or NaN if the type has
    /// no infinity.
    pub(crate) fn cast_at<'g>(
        &'g self,
        line: &'static Location<'static>,
        value: Expr<'g>,
        dtype: DType,
        numbers: Numbers,
    ) -> Expr<'g> {
        if value.dtype() == dtype {
            return value;
        }
        if let Some(between) = behavior::cast_through(value.dtype(), dtype) {
            let value = self.cast_at(line, value, between, Numbers::Any);
            return self.cast_at(line, value, dtype, numbers);
        }
        if !is_narrow_float(dtype) {
            return self.plain_cast_at(line, value, dtype, Vec::new());
        }
        let value = match behavior::overflow(dtype) {
            Some(limit) if numbers == Numbers::Any => self.infinite_from(line, value, limit),
            _ => value,
        };
        self.plain_cast_at(line, value, dtype, vec![("saturate", Attr::Int(0))])
    }

    /// Returns the number, or infinity with its sign if its magnitude is at least `limit`.
    ///
    /// The result is a product, which keeps NaN and the sign of a zero.
    fn infinite_from<'g>(
        &'g self,
        line: &'static Location<'static>,
        value: Expr<'g>,
        limit: f64,
    ) -> Expr<'g> {
        let wide = match value.dtype() {
            DType::F64 => value,
            _ => self.cast_at(line, value, DType::F32, Numbers::Any),
        };
        let node = |op: OpType, inputs: &[Expr<'g>]| {
            self.push(line, op, &operands(inputs), Attrs::new(), &[None]).swap_remove(0)
        };
        let size = node(OpType::Abs, &[wide]);
        let is_past = node(OpType::GreaterOrEqual, &[size, wide.constant(limit)]);
        let infinity = wide.constant(f64::INFINITY);
        let factor = node(OpType::Where, &[is_past, infinity, wide.constant(1.0)]);
        node(OpType::Mul, &[wide, factor])
    }

    fn plain_cast_at<'g>(
        &'g self,
        line: &'static Location<'static>,
        value: Expr<'g>,
        dtype: DType,
        mut attrs: Attrs<'_>,
    ) -> Expr<'g> {
        attrs.insert(0, ("to", Attr::Int(dtype.code().into())));
        let outputs = self.push(line, OpType::Cast, &[Some(value)], attrs, &[None]);
        if let Lookup::Kernel(kernel) = self.target().kernel(OpType::Cast, self.opset()) {
            self.note_missing_types(OpType::Cast, &kernel, &[Some(value)], &outputs);
        }
        outputs[0]
    }

    /// Adds a node whose types follow from its operands.
    fn push<'g>(
        &'g self,
        line: &'static Location<'static>,
        op: OpType,
        inputs: &[Option<Expr<'g>>],
        attrs: Attrs<'_>,
        shapes: Shapes<'_>,
    ) -> Vec<Expr<'g>> {
        let op = op.into();
        let types = self.infer(&op, inputs, &attrs, shapes).into_iter().map(Some).collect();
        self.push_at(line, op, inputs, attrs, types)
    }

    /// Adds a node on a line of the lowering.
    pub(super) fn push_at<'g>(
        &'g self,
        line: &'static Location<'static>,
        op: Operator,
        inputs: &[Option<Expr<'g>>],
        attrs: Attrs<'_>,
        types: Types,
    ) -> Vec<Expr<'g>> {
        let origin = self.state.borrow_mut().origin_at(line);
        self.push_as(origin, op, inputs, attrs, types)
    }

    /// Infers the types of results. Notes a problem if the operator does not take the operands.
    fn infer(
        &self,
        op: &Operator,
        inputs: &[Option<Expr<'_>>],
        attrs: &Attrs<'_>,
        shapes: Shapes<'_>,
    ) -> SmallVec<[Type; 1]> {
        let state = self.state.borrow();
        let (ids, results) = (ids_of(inputs), shapes.len());
        let (values, opset) = (&state.values, self.opset);
        let call = Call { op, inputs: &ids, results, values, opset, attrs };
        let (inferred, mut mistake) = match call.types() {
            Ok(types) => (types, None),
            Err(NotInferred::Unknown) => (smallvec![None; results], None),
            Err(why) => (smallvec![None; results], Some(why)),
        };
        // If an operator has stated sizes and no rule, its results have the element type of its first operand.
        let first = (0..ids.len()).find_map(|operand| call.ty(operand).ok().cloned());
        let first = first.unwrap_or_else(|| Type::new(DType::F32, []));
        let typed = |(ty, shape): (Option<Type>, Option<&[Dim]>)| {
            let Some(shape) = shape else {
                return ty.unwrap_or_else(|| {
                    let unknown = || call.invalid(format_args!("has results of unknown types"));
                    mistake.get_or_insert_with(unknown);
                    first.clone()
                });
            };
            let stated = Type::new(ty.as_ref().unwrap_or(&first).dtype, shape);
            if let Some(ty) = ty.filter(|ty| cfg!(debug_assertions) && !agree(ty, &stated)) {
                let wrong = || call.invalid(format_args!("is {ty} and not {stated}"));
                mistake.get_or_insert_with(wrong);
            }
            stated
        };
        let types = inferred.into_iter().zip(shapes.iter().copied()).map(typed).collect();
        drop(state);
        if let Some(mistake) = mistake {
            self.note(Problem::Internal(mistake.to_string()));
        }
        types
    }

    /// Adds the nodes of `formula` as one node called `name`, until the passes that look for it have run. Only
    /// those passes read `attrs`.
    #[track_caller]
    pub fn composite<'g, const N: usize>(
        &'g self,
        name: &str,
        inputs: [Expr<'g>; N],
        attrs: Attrs<'_>,
        formula: impl FnOnce([Expr<'g>; N]) -> Expr<'g>,
    ) -> Expr<'g> {
        let types = inputs.map(Expr::ty);
        let body = self.body::<Infallible>(name, &types, |formal| {
            // There is one formal input for each type.
            let formal = <[Expr<'g>; N]>::try_from(formal).unwrap_or(inputs);
            Ok(vec![formula(formal)])
        });
        let Ok(body) = body;
        let result = body.outputs.first().map(|&id| self.type_of(id));
        let attrs = attrs.into_iter().chain([("body", body.into())]).collect();
        let (line, op) = (Location::caller(), Operator::Composite(name.into()));
        self.push_at(line, op, &operands(&inputs), attrs, smallvec![result]).swap_remove(0)
    }

    /// Adds a node for Python on the line of `emitter`: any operator of any domain. It infers no types and adds no
    /// casts.
    pub fn foreign_node<'g>(
        &'g self,
        emitter: Option<EmitterId>,
        (domain, version): (&Arc<str>, i64),
        op: &str,
        inputs: &[Option<Expr<'g>>],
        attrs: Attrs<'_>,
        results: usize,
    ) -> Vec<Expr<'g>> {
        let origin = {
            let mut state = self.state.borrow_mut();
            if !domain.is_empty() {
                let known = state.domains.entry(domain.clone()).or_insert(version);
                *known = version.max(*known);
            }
            let SourceContext { stack, scope } = state.place;
            let site = state.table.site(Site { stack, scope, emitter });
            state.table.origin(Origin::of(site))
        };
        let results = std::iter::repeat_n(None, results).collect();
        self.push_as(origin, Operator::new(domain, op), inputs, attrs, results)
    }

    fn push_as<'g>(
        &'g self,
        origin: OriginId,
        op: Operator,
        inputs: &[Option<Expr<'g>>],
        attrs: Attrs<'_>,
        results: Types,
    ) -> Vec<Expr<'g>> {
        let inputs = ids_of(inputs);
        let mut state = self.state.borrow_mut();
        let sizes = match &results[..] {
            [Some(result)] => {
                let (values, opset) = (&state.values, self.opset);
                let call =
                    Call { op: &op, inputs: &inputs, results: 1, values, opset, attrs: &attrs };
                call.sizes(result).map(Arc::from)
            }
            _ => None,
        };
        let outputs: SmallVec<[ValueId; 1]> = results
            .into_iter()
            .map(|ty| state.values.add(Value { ty, sizes: sizes.clone(), ..Value::default() }))
            .collect();
        let node = Node {
            name: None,
            op,
            inputs,
            outputs: outputs.clone(),
            attrs: attrs.into_iter().map(|(name, attr)| (Arc::from(name), attr)).collect(),
            origin,
            is_fused: false,
            iteration: None,
            metadata: Vec::new(),
        };
        if let Some(nodes) = state.open.last_mut() {
            nodes.push(node);
        }
        outputs.into_iter().map(|id| Expr { builder: self, id }).collect()
    }
}

fn operands<'g>(inputs: &[Expr<'g>]) -> SmallVec<[Option<Expr<'g>>; 4]> {
    inputs.iter().copied().map(Some).collect()
}

fn ids_of(inputs: &[Option<Expr<'_>>]) -> SmallVec<[Option<ValueId>; 3]> {
    inputs.iter().map(|input| input.map(|expr| expr.id)).collect()
}

/// The numbers that a cast must handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    Any,
    /// No number is larger than the largest number of the result's type.
    InRange,
}

/// Returns which numbers the results of an operator may contain if its operands were cast from a narrower type.
fn numbers_of(op: OpType, attrs: &Attrs<'_>) -> Numbers {
    let scatters = matches!(op, OpType::ScatterElements | OpType::ScatterND)
        && !attrs.iter().any(|(name, _)| *name == "reduction");
    match scatters || op.is(SELECTIONS | JOINS | NEVER_GROWS) {
        true => Numbers::InRange,
        false => Numbers::Any,
    }
}

/// True for floats of 8 bits: by default, `Cast` saturates to their largest number.
fn is_narrow_float(dtype: DType) -> bool {
    dtype.is_float() && dtype.bits() == 8
}

/// True if jax2onnx cannot add casts around the operator for a type without a kernel. Casts themselves are what it
/// would add, and bodies of control flow have one type variable for operands of several types.
fn is_not_cast_around(op: OpType) -> bool {
    op.is(CASTS | CONTROL_FLOW)
}

#[cfg(test)]
mod tests {
    use provenance::Table;

    use super::*;
    use crate::kernels::Target;

    fn builder() -> Builder {
        let builder = Builder::new(23, Table::default(), true, Target::default());
        let size = Type::new(DType::F32, [Dim::symbol("B")]);
        let input = builder.input("b", size).id;
        let source = super::super::SymbolSource { input, axis: 0, factor: 1, rest: 0.into() };
        if let Some(symbol) = Dim::symbol("B").as_symbol() {
            builder.bind_symbol(symbol, source);
        }
        builder
    }

    fn array(builder: &Builder, dtype: DType, size: impl Into<Dim>) -> Expr<'_> {
        builder.input("x", Type::new(dtype, [size.into()]))
    }

    fn problem(builder: &Builder) -> String {
        match builder.take_problem() {
            Some(Problem::Internal(what)) => what,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn operands_that_an_operator_does_not_take_are_reported_with_their_types() {
        let builder = builder();
        let [x, y] = [2, 3].map(|size| array(&builder, DType::F32, size));
        let _ = x + y;
        let expected = "Add of f32[2], f32[3] do not broadcast";
        assert_eq!(problem(&builder), expected);
        let _ = x * array(&builder, DType::F16, 2);
        assert!(problem(&builder).contains("have different types"));
    }

    #[test]
    fn sizes_keep_the_spelling_of_jax() {
        let builder = builder();
        let less = builder.difference(&Dim::symbol("B"), &1.into());
        let expanded = array(&builder, DType::F32, 1).expand(std::slice::from_ref(&less));
        assert_eq!(expanded.shape()[0], less);
        assert_eq!(builder.take_problem(), None);
    }

    #[test]
    #[cfg_attr(not(debug_assertions), ignore = "only debug builds compare the sizes")]
    fn a_stated_size_that_is_wrong_is_reported() {
        let builder = builder();
        let _ = array(&builder, DType::F32, 6).slice_axis(0, 4, 9);
        let expected = "Slice of f32[6], i64[1], i64[1], i64[1] is f32[2] and not f32[5]";
        assert_eq!(problem(&builder), expected);
    }

    #[test]
    fn results_of_cast_operands_are_cast_back() {
        let builder = builder();
        let x = array(&builder, DType::Bf16, 6);
        assert_eq!(x.sin().ty(), x.ty());
        assert_eq!(x.less(x).dtype(), DType::Bool);
        let operands = [Some(x), Some(builder.ints(&[2]))];
        let found = builder.nodes(OpType::TopK, &operands, Attrs::new(), 2);
        let types: Vec<String> = found.iter().map(|result| result.ty().to_string()).collect();
        assert_eq!(types, ["bf16[2]", "i64[2]"]);
        assert_eq!(builder.take_problem(), None);
    }
}
