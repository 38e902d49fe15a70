//! `merge-affine`: merges a chain of sums and products with constants into one product and one sum.
//!
//! `((x − mean) · (scale · rsqrt)) + bias`, as in a trained normalization, becomes `x · a + b`. The
//! constants are computed in double precision and rounded once. Results differ from the results of the chain
//! by a few units in the last place of `x · a`, `b` or the result, whichever is largest. Chains with larger
//! constants are kept, because more digits could get lost.

use algebra::eval::arithmetic;
use algebra::rewrite::require;
use onnx::expr::broadcast_shapes;
use onnx::operator::properties::ARITHMETIC;
use onnx::{DType, Dim, Edit, Op, OpType, Outcome, Patch, Tensor, ValueId, declined, known_shape};
use rustc_hash::{FxHashMap, FxHashSet};

/// Larger constants are not computed, as in `fold-constants`.
const MAX_ELEMENTS: usize = 1 << 18;

/// The largest intermediate summand. Programs round with larger ones, as in `(x + 2²³) − 2²³`.
const MAX_INTERMEDIATE_SHIFT: f64 = 1e4;

/// The largest final summand. It bounds the error of results near zero.
const MAX_SHIFT: f64 = 100.0;

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
    for step in neighbors(edit) {
        let Some(terms) = step.terms(edit) else { continue };
        let longer = chains
            .get(&step.operand)
            .filter(|_| edit.reads(step.operand) == 1)
            .and_then(|chain| chain.extended(&step, &terms));
        if longer.is_some() {
            chains.remove(&step.operand);
        }
        if let Some(chain) = longer.or_else(|| Affine::of(step.operand).extended(&step, &terms)) {
            let result = edit.result(step.index);
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

/// Returns the steps with an adjacent step, in order. The constants of all other steps need not be read.
fn neighbors(edit: &Edit<'_>) -> Vec<Step> {
    let mut steps: Vec<Step> = (0..edit.len()).filter_map(|index| Step::at(edit, index)).collect();
    let result = |step: &Step| edit.result(step.index);
    let results: FxHashSet<ValueId> = steps.iter().map(result).collect();
    let operands: FxHashSet<ValueId> = steps.iter().map(|step| step.operand).collect();
    let is_read_once = |value: ValueId| edit.reads(value) == 1;
    steps.retain(|step| {
        (results.contains(&step.operand) && is_read_once(step.operand))
            || (operands.contains(&result(step)) && is_read_once(result(step)))
    });
    steps
}

/// A sum or product with a constant.
struct Step {
    index: usize,
    operand: ValueId,
    constant: ValueId,
    is_constant_first: bool,
}

impl Step {
    fn at(edit: &Edit<'_>, index: usize) -> Option<Step> {
        let node = edit.node(index);
        require(node.inputs.len() == 2)?;
        let (operand, constant, is_constant_first) = edit.beside_constant(index)?;
        let is_division = node.op == OpType::Div;
        require(node.op.is(ARITHMETIC) && !(is_division && is_constant_first))?;
        let ty = edit.ty(operand)?;
        let is_small = edit.tensor(constant)?.len() <= MAX_ELEMENTS;
        let is_float = matches!(ty.dtype, DType::F32 | DType::F64);
        require(is_small && is_float && Some(ty) == edit.result_ty(index))?;
        Some(Step { index, operand, constant, is_constant_first })
    }

    /// Returns the factor and the summand of the step, in double precision.
    fn terms(&self, edit: &Edit<'_>) -> Option<(Option<Tensor>, Option<Tensor>)> {
        let tensor = edit.tensor(self.constant)?;
        let constant = |f: fn(f64) -> f64| {
            let numbers: Vec<f64> = tensor.floats()?.into_iter().map(f).collect();
            Tensor::of_floats(DType::F64, tensor.shape.clone(), &numbers)
        };
        let minus_one = Tensor::of_floats(DType::F64, Vec::new(), &[-1.0])?;
        Some(match edit.op(self.index)? {
            OpType::Add => (None, Some(constant(|x| x)?)),
            OpType::Sub if self.is_constant_first => (Some(minus_one), Some(constant(|x| x)?)),
            OpType::Sub => (None, Some(constant(|x| -x)?)),
            OpType::Mul => (Some(constant(|x| x)?), None),
            _ => (Some(constant(f64::recip)?), None),
        })
    }
}

impl Affine {
    fn of(base: ValueId) -> Affine {
        Affine { base, scale: None, shift: None, nodes: Vec::new(), constants: Vec::new() }
    }

    /// Returns the chain with one more node. `None` if digits or the range of numbers could get lost.
    fn extended(&self, step: &Step, terms: &(Option<Tensor>, Option<Tensor>)) -> Option<Affine> {
        let mut next = self.clone();
        if let Some(factor) = &terms.0 {
            next.scale = Some(combined(OpType::Mul, self.scale.as_ref(), factor)?);
            if let Some(shift) = &self.shift {
                next.shift = Some(combined(OpType::Mul, Some(shift), factor)?);
            }
        }
        if let Some(summand) = &terms.1 {
            next.shift = Some(combined(OpType::Add, next.shift.as_ref(), summand)?);
        }
        let is_precise = next.has_shift_within(MAX_INTERMEDIATE_SHIFT);
        let keeps_range = next.scale.as_ref().is_none_or(is_moderate);
        next.nodes.push(step.index);
        next.constants.push(step.constant);
        (is_precise && keeps_range).then_some(next)
    }

    fn has_shift_within(&self, bound: f64) -> bool {
        let is_within = |shift: &Tensor| shift.all_floats(|value| value.abs() <= bound);
        self.shift.as_ref().is_none_or(is_within)
    }

    /// Replaces the last node with one product and one sum, if the chain has more nodes.
    fn write(&self, patch: &mut Patch<'_, '_>) -> Outcome {
        let dtype = patch.dtype(self.base)?;
        let scale = self.scale.iter().map(|scale| (OpType::Mul, scale));
        let parts: Vec<(OpType, &Tensor)> =
            scale.chain(self.shift.iter().map(|shift| (OpType::Add, shift))).collect();
        require(self.nodes.len() > parts.len())?;
        if !self.has_shift_within(MAX_SHIFT) {
            return declined("the merged constant would be too large to be precise");
        }
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

/// Returns the sum or product of constants. `None` if it is larger than both of them.
fn combined(op: OpType, a: Option<&Tensor>, b: &Tensor) -> Option<Tensor> {
    let Some(a) = a else { return Some(b.clone()) };
    let dims =
        |tensor: &Tensor| -> Vec<Dim> { tensor.shape.iter().copied().map(Dim::Known).collect() };
    let shape = known_shape(&broadcast_shapes(&dims(a), &dims(b))?)?;
    let count = shape.iter().product::<i64>() as usize;
    (count <= a.len().max(b.len())).then(|| arithmetic(op, a, b, DType::F64, shape))?
}

/// True if products with these numbers do not underflow or overflow more often than the products of the chain.
fn is_moderate(tensor: &Tensor) -> bool {
    tensor.all_floats(|value| value == 0.0 || (1e-9..=1e9).contains(&value.abs()))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check;

    #[test]
    fn a_trained_normalization_becomes_a_product_and_a_sum() {
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
    fn several_products_are_merged() {
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
    fn an_intermediate_value_with_other_readers_is_still_computed() {
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
    fn shifts_that_round_or_would_cancel_out_are_kept() {
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
    fn a_chain_of_one_product_and_one_sum_is_kept() {
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
