//! Creates nodes, with casts around operators for which the runtime has no kernel.

use std::convert::Infallible;
use std::panic::Location;
use std::sync::Arc;

use provenance::{EmitterId, Origin, OriginId, Site};
use smallvec::SmallVec;

use super::{Builder, Place, Problem};
use crate::attr::Attr;
use crate::dtype::DType;
use crate::expr::Expr;
use crate::infer::Call;
use crate::kernels::{self, Kernel, Lookup, behavior};
use crate::model::Node;
use crate::operator::properties::{CASTS, CONTROL_FLOW, JOINS, NEVER_GROWS, SELECTIONS};
use crate::operator::{OpType, Operator};
use crate::value::{Type, Value, ValueId};

/// The attributes of a node, by name.
pub type Attrs<'a> = Vec<(&'a str, Attr)>;

impl Builder {
    /// Adds a node with one result.
    #[track_caller]
    pub fn node<'g>(
        &'g self,
        op: OpType,
        inputs: &[Expr<'g>],
        attrs: Attrs<'_>,
        result: Type,
    ) -> Expr<'g> {
        let inputs: SmallVec<[Option<Expr<'g>>; 4]> = inputs.iter().copied().map(Some).collect();
        let outputs = self.nodes(op, &inputs, attrs, std::slice::from_ref(&result));
        outputs
            .into_iter()
            .next()
            .unwrap_or_else(|| self.broken(format!("`{op}` without a result"), result))
    }

    /// Adds a node with optional operands and any number of results; without results, it adds no
    /// node.
    #[track_caller]
    pub fn nodes<'g>(
        &'g self,
        op: OpType,
        inputs: &[Option<Expr<'g>>],
        attrs: Attrs<'_>,
        results: &[Type],
    ) -> Vec<Expr<'g>> {
        if results.is_empty() {
            return Vec::new();
        }
        let line = Location::caller();
        let kernel = match kernels::lookup(op, self.opset()) {
            Lookup::Kernel(kernel) => kernel,
            Lookup::Later(needed) => {
                self.note(Problem::NeedsOpset { op: op.to_string(), needed });
                return self.push(line, op.into(), inputs, attrs, results);
            }
            Lookup::Unlisted => return self.push(line, op.into(), inputs, attrs, results),
        };
        let types = self.compute_types(op, kernel, inputs);
        self.note_missing_types(op, kernel, inputs, results);
        if types.iter().all(|(_, from, to)| from == to) {
            return self.push(line, op.into(), inputs, attrs, results);
        }
        let compute = |variable: Option<usize>| {
            types
                .iter()
                .find(|(known, ..)| Some(*known) == variable)
                .map(|&(_, from, to)| (from, to))
        };
        let cast_inputs: Vec<Option<Expr<'g>>> = inputs
            .iter()
            .enumerate()
            .map(|(index, input)| {
                let input = (*input)?;
                match compute(kernel.variable_of_input(index)) {
                    Some((_, to)) => Some(self.cast_at(line, input, to, Numbers::Any)),
                    None => Some(input),
                }
            })
            .collect();
        let computed: Vec<Type> = results
            .iter()
            .enumerate()
            .map(|(index, result)| match compute(kernel.variable_of_output(index)) {
                Some((from, to)) if from == result.dtype => Type::new(to, result.shape.clone()),
                _ => result.clone(),
            })
            .collect();
        let numbers = numbers_of(op, &attrs);
        let outputs = self.push(line, op.into(), &cast_inputs, attrs, &computed);
        let wanted = results.iter().map(|result| result.dtype);
        outputs
            .into_iter()
            .zip(wanted)
            .map(|(output, dtype)| self.cast_at(line, output, dtype, numbers))
            .collect()
    }

    /// Returns for each type variable of the operator the type of its operands, and the type to
    /// compute in.
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
            match kernel.compute_type(variable, dtype) {
                Some(compute) => types.push((variable, dtype, compute)),
                None => self.note(Problem::NoKernel { op: op.to_string(), dtype }),
            }
        }
        types
    }

    /// Notes the types of operands and results that are not cast around and that the kernel does not take.
    fn note_missing_types(
        &self,
        op: OpType,
        kernel: &Kernel,
        inputs: &[Option<Expr<'_>>],
        results: &[Type],
    ) {
        if !is_not_cast_around(op) {
            return;
        }
        let operands = inputs.iter().enumerate().filter_map(|(index, input)| {
            Some((kernel.variable_of_input(index)?, (*input)?.dtype()))
        });
        let results = results
            .iter()
            .enumerate()
            .filter_map(|(index, result)| Some((kernel.variable_of_output(index)?, result.dtype)));
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

    /// Returns the number, or infinity with its sign if its size is at least `limit`.
    ///
    /// By a product, which keeps NaN and the sign of a zero.
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
        let like = |dtype| Type::new(dtype, wide.shape());
        let node = |op: OpType, inputs: &[Expr<'g>], dtype| {
            let inputs: SmallVec<[Option<Expr<'g>>; 4]> =
                inputs.iter().copied().map(Some).collect();
            let results = self.push(line, op.into(), &inputs, Attrs::new(), &[like(dtype)]);
            results.into_iter().next().unwrap_or(wide)
        };
        let size = node(OpType::Abs, &[wide], wide.dtype());
        let is_past = node(OpType::GreaterOrEqual, &[size, wide.constant(limit)], DType::Bool);
        let infinity = wide.constant(f64::INFINITY);
        let factor = node(OpType::Where, &[is_past, infinity, wide.constant(1.0)], wide.dtype());
        node(OpType::Mul, &[wide, factor], wide.dtype())
    }

    fn plain_cast_at<'g>(
        &'g self,
        line: &'static Location<'static>,
        value: Expr<'g>,
        dtype: DType,
        mut attrs: Attrs<'_>,
    ) -> Expr<'g> {
        attrs.insert(0, ("to", Attr::Int(dtype.code().into())));
        let result = Type::new(dtype, value.shape());
        if let Lookup::Kernel(kernel) = kernels::lookup(OpType::Cast, self.opset()) {
            self.note_missing_types(
                OpType::Cast,
                kernel,
                &[Some(value)],
                std::slice::from_ref(&result),
            );
        }
        let outputs = self.push(line, OpType::Cast.into(), &[Some(value)], attrs, &[result]);
        outputs.into_iter().next().unwrap_or(value)
    }

    pub(super) fn push<'g>(
        &'g self,
        line: &'static Location<'static>,
        op: Operator,
        inputs: &[Option<Expr<'g>>],
        attrs: Attrs<'_>,
        results: &[Type],
    ) -> Vec<Expr<'g>> {
        let results: SmallVec<[Option<Type>; 1]> = results.iter().cloned().map(Some).collect();
        let origin = self.state.borrow_mut().origin_at(line);
        self.push_as(origin, op, inputs, attrs, results)
    }

    /// Adds the nodes of `formula` as one node called `name`, until the passes that look for it have run.
    /// `attrs` is for those passes alone.
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
            // There are as many as there are types.
            let formal = <[Expr<'g>; N]>::try_from(formal).unwrap_or(inputs);
            Ok(vec![formula(formal)])
        });
        let Ok(body) = body;
        let result = body.outputs.first().map(|&id| self.type_of(id));
        let origin = self.state.borrow_mut().origin_at(Location::caller());
        let attrs = attrs.into_iter().chain([("body", body.into())]).collect();
        let inputs: SmallVec<[Option<Expr<'g>>; 4]> = inputs.iter().copied().map(Some).collect();
        let mut made =
            self.push_as(origin, Operator::Composite(name.into()), &inputs, attrs, [result].into());
        made.swap_remove(0)
    }

    /// Adds a node that Python asked for, on the line of `emitter`: any operator of any domain. It
    /// infers no types and adds no casts.
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
            let Place { stack, scope } = state.place;
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
        results: SmallVec<[Option<Type>; 1]>,
    ) -> Vec<Expr<'g>> {
        let inputs: SmallVec<[Option<ValueId>; 3]> =
            inputs.iter().map(|input| input.map(|expr| expr.id)).collect();
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

/// The numbers that a cast may meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    Any,
    /// None is larger than the largest number of the result's type.
    InRange,
}

/// Returns the numbers that an operator computes of numbers of a narrower type.
fn numbers_of(op: OpType, attrs: &Attrs<'_>) -> Numbers {
    let scatters = matches!(op, OpType::ScatterElements | OpType::ScatterND)
        && !attrs.iter().any(|(name, _)| *name == "reduction");
    match scatters || op.is(SELECTIONS | JOINS | NEVER_GROWS) {
        true => Numbers::InRange,
        false => Numbers::Any,
    }
}

/// True for the floats of which `Cast` returns the largest number unless it is told otherwise.
fn is_narrow_float(dtype: DType) -> bool {
    dtype.is_float() && dtype.bits() == 8
}

/// True if operands of a type without a kernel cannot be cast to another one for the operator: a cast is what makes up
/// for missing kernels, and bodies of control flow have one type variable for operands of several types.
fn is_not_cast_around(op: OpType) -> bool {
    op.is(CASTS | CONTROL_FLOW)
}
