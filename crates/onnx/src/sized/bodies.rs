//! Loops, branches and calls of functions.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::build::{Attrs, Operand, Sizer};
use super::counters::{End, First};
use super::names::SymbolOf;
use super::{Inner, InnerKind, Instance};
use crate::attr::Attr;
use crate::cost::Cost;
use crate::dtype::DType;
use crate::infer::{Types, axis_from_front};
use crate::model::Graph;
use crate::operator::{OpType, Operator};
use crate::scan::Node;
use crate::value::{Dim, Type, ValueId};

/// The instances that a node runs, and what is known about its results.
type Run = (SmallVec<[Inner; 1]>, Option<Vec<Operand>>);

/// A number of operations and a number of bytes, to compare branches.
pub(super) type Estimate = (f64, f64);

impl Sizer<'_, '_> {
    /// Infers the sizes of what a node runs; `None` if it runs nothing that is known.
    pub(super) fn run(
        &mut self,
        number: usize,
        node: &Node<'_>,
        op: &Operator,
        inputs: &[Option<ValueId>],
        attrs: &Attrs,
    ) -> Option<Run> {
        if let Some(function) = self.function_of(node) {
            let operands = self.all_known(inputs);
            let instance = self.called(function, operands, attrs)?;
            let outputs = self.instances[instance].outputs.clone();
            let results = outputs.into_iter().map(|id| self.known(id)).collect();
            let inner = Inner { instance, times: Dim::Known(1), kind: InnerKind::Call };
            return Some((smallvec![inner], Some(results)));
        }
        let bodies = self.bodies_of(number);
        let body =
            |name: &str| bodies.iter().find(|(key, _)| **key == *name).map(|(_, graph)| *graph);
        match op.onnx()? {
            OpType::If => {
                let (yes, no) = (body("then_branch")?, body("else_branch")?);
                self.branches(inputs, yes, no)
            }
            OpType::Loop => self.repeat(number, inputs, attrs, body("body")?),
            OpType::Scan => self.scanned(inputs, attrs, body("body")?),
            _ => None,
        }
    }

    fn all_known(&self, inputs: &[Option<ValueId>]) -> Vec<Operand> {
        inputs.iter().map(|id| id.map(|id| self.known(id)).unwrap_or_default()).collect()
    }

    /// Infers the sizes of a body.
    fn body(&mut self, graph: usize, operands: &[Operand]) -> Option<usize> {
        self.graph(graph, Some(operands))
    }

    fn outputs(&self, instance: usize) -> Vec<Operand> {
        self.instances[instance].outputs.iter().map(|&id| self.known(id)).collect()
    }

    fn branches(&mut self, inputs: &[Option<ValueId>], yes: usize, no: usize) -> Option<Run> {
        let (yes, no) = (self.body(yes, &[])?, self.body(no, &[])?);
        let condition = inputs.first().copied().flatten().and_then(|id| self.flag(id));
        let takes_yes = condition.unwrap_or_else(|| {
            let estimate = |branch: usize| self.estimates.as_ref()?.get(branch).copied();
            estimate(yes) >= estimate(no)
        });
        let inner = |instance: usize, is_taken: bool| Inner {
            instance,
            times: Dim::Known(i64::from(is_taken)),
            kind: if is_taken { InnerKind::Taken } else { InnerKind::Alternative },
        };
        let taken = self.outputs(if takes_yes { yes } else { no });
        let other = self.outputs(if takes_yes { no } else { yes });
        let results = taken.into_iter().zip(other).map(|(taken, other)| {
            let sizes = taken
                .sizes
                .filter(|sizes| condition.is_some() || other.sizes.as_ref() == Some(sizes));
            Operand { ty: taken.ty.or(other.ty), sizes }
        });
        let results = results.collect();
        Some((smallvec![inner(yes, takes_yes), inner(no, !takes_yes)], Some(results)))
    }

    /// Returns the number of a boolean that is known.
    fn flag(&self, id: ValueId) -> Option<bool> {
        match self.values[id].sizes.as_deref() {
            Some([flag]) => flag.known().map(|flag| flag != 0),
            _ => None,
        }
    }

    fn repeat(
        &mut self,
        number: usize,
        inputs: &[Option<ValueId>],
        attrs: &Attrs,
        graph: usize,
    ) -> Option<Run> {
        let most = inputs.first().copied().flatten();
        let most = most.map(|id| self.known(id).sizes.and_then(|sizes| sizes.first().cloned()));
        let first = inputs.get(1).copied().flatten().map(|id| self.flag(id));
        let starts = matches!(first, None | Some(Some(true)));
        let scalar = |dtype: DType| Some(Type::new(dtype, []));
        let flag = starts.then(|| Arc::from([Dim::Known(1)]));
        let mut operands = vec![
            Operand { ty: scalar(DType::I64), sizes: None },
            Operand { ty: scalar(DType::Bool), sizes: flag },
        ];
        for id in inputs.iter().skip(2) {
            // The contents may differ in each iteration.
            let ty = id.and_then(|id| self.values[id].ty.clone());
            operands.push(Operand { ty, sizes: None });
        }
        let instance = self.stable(number, graph, &mut operands, 2, 1)?;
        let outputs = self.outputs(instance);
        let goes_on = outputs.first().and_then(|operand| operand.sizes.as_deref());
        let goes_on = starts && goes_on == Some(&[Dim::Known(1)]);
        let has_limit = most.as_ref().is_some_and(|most| *most != Some(Dim::Known(i64::MAX)));
        let most = most.flatten().filter(|_| has_limit);
        let most = most.and_then(|most| most.checked_max(&Dim::Known(0)));
        let runs = match inputs.get(1).copied().flatten() {
            _ if starts => Some(First::Runs),
            id => id.and_then(|id| self.tests.get(&id)).map(First::IfPositive),
        };
        let (exact, bound) = match self.end(instance, inputs.get(2..).unwrap_or_default()) {
            Some(End::Exact(end)) => (runs.and_then(|first| end.iterations(first)), None),
            Some(End::AtMost(end)) => (None, end.iterations(First::Runs)),
            None => (None, None),
        };
        let both = |a: Option<Dim>, b: Option<Dim>| match (a, b) {
            (Some(a), Some(b)) => a.checked_min(&b),
            (a, b) => a.or(b),
        };
        let times = match (first, most, exact) {
            (Some(Some(false)), ..) => Dim::Known(0),
            (_, Some(most), _) if goes_on => most,
            (_, None, Some(exact)) if !has_limit => exact,
            (_, Some(most), Some(exact)) => most.checked_min(&exact)?,
            (_, most, exact) => self.steps(number, both(most, both(exact, bound))),
        };
        let types = self.results(OpType::Loop, inputs, attrs, instance);
        let results = types.into_iter().zip(outputs.into_iter().skip(1)).enumerate();
        let carried = inputs.len().saturating_sub(2);
        let results = results.map(|(place, (ty, output))| {
            let stacked =
                |ty: Type| Type::new(ty.dtype, [&[times.clone()][..], &ty.shape].concat());
            let ty =
                ty.or_else(|| if place < carried { output.ty } else { output.ty.map(stacked) });
            Operand { ty, sizes: None }
        });
        let results = results.collect();
        let inner = Inner { instance, times, kind: InnerKind::Iteration };
        Some((smallvec![inner], Some(results)))
    }

    fn scanned(&mut self, inputs: &[Option<ValueId>], attrs: &Attrs, graph: usize) -> Option<Run> {
        let attr = |name: &str| attrs.iter().find(|(key, _)| **key == *name).map(|(_, attr)| attr);
        let Some(&Attr::Int(scanned)) = attr("num_scan_inputs") else { return None };
        let state = inputs.len().checked_sub(usize::try_from(scanned).ok()?)?;
        let axes = match attr("scan_input_axes") {
            Some(Attr::Ints(axes)) => axes.to_vec(),
            _ => Vec::new(),
        };
        let mut times = None;
        let mut operands = Vec::with_capacity(inputs.len());
        for (place, id) in inputs.iter().enumerate() {
            let mut ty = id.and_then(|id| self.values[id].ty.clone());
            if let (Some(scan), Some(whole)) = (place.checked_sub(state), &ty) {
                let axis = axes.get(scan).copied().unwrap_or(0);
                let axis = axis_from_front(axis, whole.rank())?;
                let mut shape = whole.shape.to_vec();
                let size = shape.remove(axis);
                // A size that is better known wins.
                times = times.filter(|known: &Dim| known.known().is_some()).or(Some(size));
                ty = Some(Type::new(whole.dtype, shape));
            }
            operands.push(Operand { ty, sizes: None });
        }
        let times = times?;
        let instance = self.stable(usize::MAX, graph, &mut operands[..], 0, 0)?;
        let types = self.results(OpType::Scan, inputs, attrs, instance);
        let results = types.into_iter().map(|ty| Operand { ty, sizes: None }).collect();
        let inner = Inner { instance, times, kind: InnerKind::Iteration };
        Some((smallvec![inner], Some(results)))
    }

    /// Infers the sizes of the body of a loop. If the shape of a carried value changes in an iteration, its size is a
    /// new symbol. The carried values are inputs from `inputs` on, and outputs from `outputs` on.
    fn stable(
        &mut self,
        number: usize,
        graph: usize,
        operands: &mut [Operand],
        inputs: usize,
        outputs: usize,
    ) -> Option<usize> {
        let instance = self.body(graph, operands)?;
        let after = self.outputs(instance);
        let mut is_stable = true;
        for (before, after) in operands.iter_mut().skip(inputs).zip(after.iter().skip(outputs)) {
            let (Some(ty), Some(next)) = (&before.ty, &after.ty) else { continue };
            if number == usize::MAX || ty == next || crate::infer::agree(ty, next) {
                continue;
            }
            is_stable = false;
            before.ty = (ty.dtype == next.dtype && ty.rank() == next.rank()).then(|| {
                let axes = ty.shape.iter().zip(&*next.shape).enumerate();
                let shape = axes.map(|(axis, (size, next))| {
                    if size == next {
                        return size.clone();
                    }
                    let of = SymbolOf::Value { node: number, axis };
                    self.names.add(&format!("size_{number}_{axis}"), of)
                });
                Type::new(ty.dtype, shape.collect::<Vec<Dim>>())
            });
        }
        if is_stable { Some(instance) } else { self.body(graph, operands) }
    }

    /// Returns the types of the results of a loop.
    fn results(
        &mut self,
        op: OpType,
        inputs: &[Option<ValueId>],
        attrs: &Attrs,
        instance: usize,
    ) -> Types {
        let outputs = self.instances[instance].outputs.clone();
        let results = outputs.len().saturating_sub(usize::from(op == OpType::Loop));
        let body = Graph { outputs, ..Graph::default() };
        let mut attrs = attrs.clone();
        attrs.push(("body".into(), body.into()));
        let types = self.call(&op.into(), inputs, results, &attrs).types();
        types.unwrap_or_else(|_| smallvec![None; results])
    }
}

/// Returns roughly what an instance costs for large sizes. `known` has the estimates of those that it runs.
pub(super) fn estimate(instance: &Instance, known: &[Estimate]) -> Estimate {
    instance.steps.iter().fold((0.0, 0.0), |sum: Estimate, step| {
        let own = step.cost.as_ref().map_or((0.0, 0.0), of_cost);
        step.inner.iter().fold((sum.0 + own.0, sum.1 + own.1), |sum, inner| {
            let times = inner.times.at_large_sizes();
            let each = known.get(inner.instance).copied().unwrap_or_default();
            (sum.0 + times * each.0, sum.1 + times * each.1)
        })
    })
}

fn of_cost(cost: &Cost) -> Estimate {
    let Cost { flops, transcendentals, operations, bytes_read, bytes_written } = cost;
    let sum = |dims: &[&Dim]| dims.iter().map(|dim| dim.at_large_sizes()).sum();
    (sum(&[flops, transcendentals, operations]), sum(&[bytes_read, bytes_written]))
}
