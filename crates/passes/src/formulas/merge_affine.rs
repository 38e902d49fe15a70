//! `merge-affine`: merges a chain of sums and products with constants into one product and one sum.
//!
//! `((x − mean) · (scale · rsqrt)) + bias`, as in a trained normalization, becomes `x · a + b`. The
//! constants are computed in double precision and rounded once. Results differ from the chain's by a
//! few units in the last place of the largest of `x · a`, `b` and the result; chains whose constants
//! are so large that more than that could get lost are left as they are.

use onnx::expr::broadcast_shapes;
use onnx::{DType, Dim, Edit, Op, OpType, Outcome, Patch, Tensor, ValueId, declined};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::algebra::access::Access;
use crate::algebra::eval::arithmetic;
use crate::rewrite::require;

/// Larger constants are not computed, see `fold-constants`.
const MOST_ELEMENTS: usize = 1 << 18;

/// Larger summands may be there to round, as in `(x + 2²³) − 2²³`.
const LARGEST_ON_THE_WAY: f64 = 1e4;

/// The largest summand in the end, which bounds what is lost of a result around zero.
const LARGEST_IN_THE_END: f64 = 100.0;

/// `base · scale + shift`, with constants in double precision.
#[derive(Clone)]
struct Affine {
    base: ValueId,
    scale: Option<Tensor>,
    shift: Option<Tensor>,
    /// The chain, the last node at the end.
    nodes: Vec<usize>,
    constants: Vec<ValueId>,
}

pub(crate) fn run(edit: &mut Edit<'_>) {
    let mut chains: FxHashMap<ValueId, Affine> = FxHashMap::default();
    let mut order = Vec::new();
    for (index, operand, step) in neighbors(edit) {
        let Some(constant) = doubles(edit, step.id) else { continue };
        let grown = chains
            .get(&operand)
            .filter(|_| edit.reads(operand) == 1)
            .and_then(|chain| chain.extended(index, step, &constant));
        let chain = match grown {
            Some(chain) => {
                chains.remove(&operand);
                Some(chain)
            }
            None => Affine::of(operand).extended(index, step, &constant),
        };
        if let Some(chain) = chain {
            let result = edit.result(index);
            chains.insert(result, chain);
            order.push(result);
        }
    }
    for result in order {
        if let Some(chain) = chains.remove(&result) {
            edit.patch(chain.nodes[chain.nodes.len() - 1], |patch| chain.write(patch));
        }
    }
}

/// Returns the steps that follow another one or that another one follows, in order, with their nodes and operands. The
/// constants of all others need not be read.
fn neighbors(edit: &Edit<'_>) -> Vec<(usize, ValueId, Step)> {
    let all = (0..edit.len()).filter_map(|index| {
        let (operand, step) = step(edit, index)?;
        Some((index, operand, step))
    });
    let mut steps: Vec<(usize, ValueId, Step)> = all.collect();
    let result = |index: usize| edit.result(index);
    let results: FxHashSet<ValueId> = steps.iter().map(|&(index, ..)| result(index)).collect();
    let operands: FxHashSet<ValueId> = steps.iter().map(|&(_, operand, _)| operand).collect();
    let is_read_once = |value: ValueId| edit.reads(value) == 1;
    steps.retain(|&(index, operand, _)| {
        (results.contains(&operand) && is_read_once(operand))
            || (operands.contains(&result(index)) && is_read_once(result(index)))
    });
    steps
}

/// What a node does to the operand that is no constant.
#[derive(Clone, Copy)]
struct Step {
    op: StepOp,
    id: ValueId,
}

/// Returns a constant in double precision.
fn doubles(edit: &Edit<'_>, id: ValueId) -> Option<Tensor> {
    let tensor = edit.tensor(id)?;
    Tensor::of_floats(DType::F64, tensor.shape.clone(), &tensor.floats()?)
}

#[derive(Clone, Copy, PartialEq)]
enum StepOp {
    Add,
    Subtract,
    SubtractFrom,
    Multiply,
    Divide,
}

/// The operand of a sum or product with a constant, which has the type of the result.
fn step(edit: &Edit<'_>, index: usize) -> Option<(ValueId, Step)> {
    let node = edit.node(index);
    require(node.inputs.len() == 2)?;
    let (a, b) = (edit.input(index, 0)?, edit.input(index, 1)?);
    let (operand, id, is_first) = match (edit.tensor(a), edit.tensor(b)) {
        (None, Some(_)) => (a, b, false),
        (Some(_), None) => (b, a, true),
        _ => return None,
    };
    let op = match (node.op.onnx(), is_first) {
        (Some(OpType::Add), _) => StepOp::Add,
        (Some(OpType::Sub), false) => StepOp::Subtract,
        (Some(OpType::Sub), true) => StepOp::SubtractFrom,
        (Some(OpType::Mul), _) => StepOp::Multiply,
        (Some(OpType::Div), false) => StepOp::Divide,
        _ => return None,
    };
    let ty = edit.ty(operand)?;
    let tensor = edit.tensor(id)?;
    let is_plain = matches!(ty.dtype, DType::F32 | DType::F64) && tensor.len() <= MOST_ELEMENTS;
    require(is_plain && Some(ty) == edit.ty(node.outputs[0]))?;
    Some((operand, Step { op, id }))
}

impl Affine {
    fn of(base: ValueId) -> Affine {
        Affine { base, scale: None, shift: None, nodes: Vec::new(), constants: Vec::new() }
    }

    /// The chain with one more node, where nothing gets lost by that.
    fn extended(&self, index: usize, step: Step, constant: &Tensor) -> Option<Affine> {
        let mut next = self.clone();
        match step.op {
            StepOp::Add => next.shift = Some(joined(OpType::Add, self.shift.as_ref(), constant)?),
            StepOp::Subtract => {
                let negative = joined(OpType::Mul, Some(constant), &number(-1.0)?)?;
                next.shift = Some(joined(OpType::Add, self.shift.as_ref(), &negative)?);
            }
            StepOp::SubtractFrom => {
                next = next.scaled(&number(-1.0)?)?;
                next.shift = Some(joined(OpType::Add, next.shift.as_ref(), constant)?);
            }
            StepOp::Multiply => next = next.scaled(constant)?,
            StepOp::Divide => next = next.scaled(&reciprocal(constant)?)?,
        }
        let on_the_way = next.shift.as_ref().is_none_or(|shift| within(shift, LARGEST_ON_THE_WAY));
        let keeps_range = next.scale.as_ref().is_none_or(is_moderate);
        next.nodes.push(index);
        next.constants.push(step.id);
        (on_the_way && keeps_range).then_some(next)
    }

    fn scaled(mut self, factor: &Tensor) -> Option<Affine> {
        self.scale = Some(joined(OpType::Mul, self.scale.as_ref(), factor)?);
        if let Some(shift) = &self.shift {
            self.shift = Some(joined(OpType::Mul, Some(shift), factor)?);
        }
        Some(self)
    }

    /// Puts one product and one sum in the place of the last node, where the chain has more.
    fn write(&self, patch: &mut Patch<'_, '_>) -> Outcome {
        let needed = usize::from(self.scale.is_some()) + usize::from(self.shift.is_some());
        let in_the_end = |shift: &Tensor| within(shift, LARGEST_IN_THE_END);
        let is_precise = self.shift.as_ref().is_none_or(in_the_end);
        let dtype = patch.ty(self.base)?.dtype;
        require(self.nodes.len() > needed)?;
        if !is_precise {
            return declined("the merged constant would be too large to be precise");
        }
        let parts: Vec<(OpType, &Tensor)> = self
            .scale
            .iter()
            .map(|scale| (OpType::Mul, scale))
            .chain(self.shift.iter().map(|shift| (OpType::Add, shift)))
            .collect();
        patch.take(&self.nodes);
        let mut value = self.base;
        let mut last = None;
        for (op, tensor) in parts {
            if let Some(op) = last.take() {
                value = patch.insert(op);
            }
            let rounded = Tensor::of_floats(dtype, tensor.shape.clone(), &tensor.floats()?)?;
            let operand = patch.constant(rounded, &self.constants);
            last = Some(Op::new(op, &[value, operand]));
        }
        patch.done(&[], last?)
    }
}

fn number(value: f64) -> Option<Tensor> {
    Tensor::of_floats(DType::F64, Vec::new(), &[value])
}

fn reciprocal(tensor: &Tensor) -> Option<Tensor> {
    let values: Vec<f64> = tensor.floats()?.iter().map(|value| 1.0 / value).collect();
    Tensor::of_floats(DType::F64, tensor.shape.clone(), &values)
}

/// The sum or product of constants, where it is no larger than the larger of them.
fn joined(op: OpType, a: Option<&Tensor>, b: &Tensor) -> Option<Tensor> {
    let Some(a) = a else {
        return Some(b.clone());
    };
    let dims = |tensor: &Tensor| tensor.shape.iter().map(|&size| Dim::Known(size)).collect();
    let (of_a, of_b): (Vec<Dim>, Vec<Dim>) = (dims(a), dims(b));
    let shape: Vec<i64> =
        broadcast_shapes(&of_a, &of_b)?.iter().map(Dim::known).collect::<Option<_>>()?;
    let count = shape.iter().product::<i64>() as usize;
    (count <= a.len().max(b.len())).then(|| arithmetic(op, a, b, DType::F64, shape))?
}

fn within(tensor: &Tensor, bound: f64) -> bool {
    tensor.all_floats(|value| value.abs() <= bound)
}

/// Whether products with these numbers neither vanish nor overflow where those with its parts do not.
fn is_moderate(tensor: &Tensor) -> bool {
    tensor.all_floats(|value| value == 0.0 || (1e-9..=1e9).contains(&value.abs()))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_trained_normalization_is_a_product_and_a_sum() {
        check(
            super::run,
            "graph g(x:f32[B,2]) -> (y)
%0:f32[B,2] = Sub(x, [1.0, 2.0])
%1:f32[B,2] = Mul(%0, [[2.0, 4.0]])
%2:f32[B,2] = Div(%1, 0.5)
y:f32[B,2] = Add([10.0, 20.0], %2)",
            expect![[r#"
                graph g(x:f32[B,2]) -> (y)
                %0 = Sub(x, [1.0, 2.0])  # 2
                %1 = Mul(%0, [[2.0, 4.0]])  # 3
                %2 = Div(%1, 0.5)  # 4
                %3 = Mul(x, [[4.0, 8.0]])  # 3 2 4 5
                y:f32[B,2] = Add(%3, [[6.0, 4.0]])  # 5 2 3 4
            "#]],
        );
    }

    #[test]
    fn products_are_one() {
        check(
            super::run,
            "graph g(x:f32[B,2]) -> (y)
%0:f32[B,2] = Mul(x, 3.0)
%1:f32[B,2] = Mul([2.0, 4.0], %0)
y:f32[B,2] = Exp(%1)",
            expect![[r#"
                graph g(x:f32[B,2]) -> (y)
                %0 = Mul(x, 3.0)  # 2
                %1 = Mul(x, [6.0, 12.0])  # 3 2
                y:f32[B,2] = Exp(%1)  # 4
            "#]],
        );
    }

    #[test]
    fn an_intermediate_value_with_readers_is_still_computed() {
        check(
            super::run,
            "graph g(x:f32[B,2]) -> (y, z)
%0:f32[B,2] = Mul(x, 3.0)
y:f32[B,2] = Mul(%0, 2.0)
z:f32[B,2] = Exp(%0)",
            expect![[r#"
                graph g(x:f32[B,2]) -> (y, z)
                %0 = Mul(x, 3.0)  # 2
                y:f32[B,2] = Mul(%0, 2.0)  # 3
                z:f32[B,2] = Exp(%0)  # 4
            "#]],
        );
    }

    #[test]
    fn shifts_that_round_or_would_cancel_stay() {
        check(
            super::run,
            "graph g(x:f32[B,2]) -> (y, z)
%0:f32[B,2] = Add(x, 8388608.0)
y:f32[B,2] = Sub(%0, 8388608.0)
%1:f32[B,2] = Sub(x, 5000.0)
%2:f32[B,2] = Mul(%1, 2.0)
z:f32[B,2] = Mul(%2, 2.0)",
            expect![[r#"
                graph g(x:f32[B,2]) -> (y, z)
                %0 = Add(x, 8388608.0)  # 2
                y:f32[B,2] = Sub(%0, 8388608.0)  # 3
                %1 = Sub(x, 5000.0)  # 4
                %2 = Mul(%1, 2.0)  # 5
                z:f32[B,2] = Mul(%2, 2.0)  # 6
            "#]],
        );
    }

    #[test]
    fn a_product_and_a_sum_are_enough() {
        check(
            super::run,
            "graph g(x:f32[B,2], n:i32[B]) -> (y, m)
%0:f32[B,2] = Mul(x, 3.0)
y:f32[B,2] = Add(%0, 2.0)
%1:i32[B] = Mul(n, 3:i32)
m:i32[B] = Mul(%1, 2:i32)",
            expect![[r#"
                graph g(x:f32[B,2], n:i32[B]) -> (y, m)
                %0 = Mul(x, 3.0)  # 2
                y:f32[B,2] = Add(%0, 2.0)  # 3
                %1 = Mul(n, 3:i32)  # 4
                m:i32[B] = Mul(%1, 2:i32)  # 5
            "#]],
        );
    }
}
