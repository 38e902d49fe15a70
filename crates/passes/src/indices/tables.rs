//! `fold-tables`: replaces nodes that only constants determine by the table that they compute.
//!
//! `jax.image.resize` computes its weights, and a positional encoding its sines, with tens of nodes. `fold-constants`
//! replaces one node at a time, and therefore only nodes with a small result. This rewrite looks at the end of such nodes:
//! it stores the table that other nodes read, although the arrays on the way to it are larger. A larger table is stored
//! only if the file becomes smaller. Otherwise, the runtime computes it when it loads the model.

use algebra::eval::eval;
use algebra::rewrite::require;
use algebra::stored::Stored;
use onnx::edit::for_each_read;
use onnx::{Edit, OpType, Tensor, ValueId, known_shape};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::canonicalize::is_dequantized;

/// A table is stored up to this size, although it is larger than what it replaces.
const MAX_BYTES: usize = 1 << 14;

/// The maximum number of bytes that all tables of a graph add to the file.
const MAX_GROWTH: usize = 1 << 16;

/// No larger array is computed on the way to a table.
const MAX_ELEMENTS: usize = 1 << 17;

/// The maximum number of elements that all tables of a graph need on the way.
const MAX_WORK: usize = 1 << 21;

/// The bytes that a node adds to the file, at least: its name, its operator, and the names of its values.
const BYTES_OF_NODE: usize = 64;

pub(crate) fn run(edit: &mut Edit<'_>) {
    let folded = Tables::of(edit).folded();
    for (index, tensor) in folded {
        edit.patch(index, |patch| patch.done(&[], tensor));
    }
}

/// The nodes of a graph whose operands are constants or results of such nodes.
struct Tables<'e, 'm> {
    edit: &'e Edit<'m>,
    stored: Stored,
    is_constant: FxHashSet<usize>,
    /// The results that were computed, and `None` for those that cannot be.
    computed: FxHashMap<usize, Option<Tensor>>,
    work: usize,
    growth: usize,
}

impl<'e, 'm> Tables<'e, 'm> {
    fn of(edit: &'e Edit<'m>) -> Tables<'e, 'm> {
        let mut is_constant: FxHashSet<usize> = FxHashSet::default();
        for index in edit.nodes() {
            let node = edit.node(index);
            let is_known = |operand: usize| {
                let Some(value) = edit.input(index, operand) else { return false };
                let producer = edit.producer(value);
                edit.tensor(value).is_some() || producer.is_some_and(|it| is_constant.contains(&it))
            };
            let is_table =
                node.op.is_onnx() && node.bodies().next().is_none() && !is_dequantized(edit, index);
            let has_operands = !node.inputs.is_empty() && (0..node.inputs.len()).all(is_known);
            if is_table && has_operands && node.outputs.len() == 1 {
                is_constant.insert(index);
            }
        }
        Tables {
            edit,
            stored: Stored::of(edit),
            is_constant,
            computed: FxHashMap::default(),
            work: 0,
            growth: 0,
        }
    }

    /// Returns the tables to store, by the node that computes them: the last ones that are small enough.
    fn folded(mut self) -> Vec<(usize, Tensor)> {
        if self.is_constant.is_empty() {
            return Vec::new();
        }
        let edit = self.edit;
        let mut is_needed: FxHashSet<ValueId> =
            edit.outputs().iter().map(|&id| edit.current(id)).collect();
        let is_output = is_needed.clone();
        // The values that nodes read that are not constant themselves.
        let mut is_end: FxHashSet<ValueId> = FxHashSet::default();
        let mut folded = Vec::new();
        for index in edit.nodes().into_iter().rev() {
            let is_constant = self.is_constant.contains(&index);
            if is_constant {
                let result = edit.result(index);
                if !is_needed.contains(&result) {
                    continue;
                }
                if !is_output.contains(&result)
                    && let Some(growth) = self.growth(index, is_end.contains(&result))
                    && let Some(table) = self.compute(index)
                {
                    self.growth += growth;
                    folded.push((index, table));
                    continue;
                }
            }
            for_each_read(edit.node(index), &mut |id| {
                is_needed.insert(edit.current(id));
                if !is_constant {
                    is_end.insert(edit.current(id));
                }
            });
        }
        folded
    }

    /// Returns the bytes that a table adds to the file. `None` if they are too many: a table that only other constant
    /// nodes read must not add any.
    fn growth(&self, index: usize, is_end: bool) -> Option<usize> {
        let ty = self.edit.result_ty(index)?;
        let shape: Vec<i64> = known_shape(&ty.shape)?;
        let bytes = shape.iter().product::<i64>() as usize * ty.dtype.bits() / 8;
        let growth = bytes.saturating_sub(bytes_for(self.edit, &self.stored, index));
        // A weight in half precision stays one: its `Cast` costs less than its digits.
        let is_widened = self.edit.node(index).op == OpType::Cast
            && self.edit.input(index, 0).is_some_and(|x| self.edit.tensor(x).is_some());
        let is_small = bytes <= MAX_BYTES && self.growth + growth <= MAX_GROWTH;
        (growth == 0 || is_end && is_small && !is_widened).then_some(growth)
    }

    /// Returns the result of a node on constants.
    fn compute(&mut self, index: usize) -> Option<Tensor> {
        if let Some(known) = self.computed.get(&index) {
            return known.clone();
        }
        let result = self.evaluate(index);
        self.computed.insert(index, result.clone());
        result
    }

    fn evaluate(&mut self, index: usize) -> Option<Tensor> {
        let node = self.edit.node(index);
        let ty = self.edit.result_ty(index)?;
        let shape: Vec<i64> = known_shape(&ty.shape)?;
        let count = shape.iter().product::<i64>() as usize;
        require(count <= MAX_ELEMENTS && self.work + count <= MAX_WORK)?;
        let mut operands = Vec::with_capacity(node.inputs.len());
        for operand in 0..node.inputs.len() {
            let value = self.edit.input(index, operand)?;
            let tensor = match self.edit.tensor(value) {
                Some(tensor) => tensor.clone(),
                None => self.compute(self.edit.producer(value)?)?,
            };
            require(tensor.len() <= MAX_ELEMENTS)?;
            operands.push(tensor);
        }
        self.work += count;
        eval(node, &operands.iter().collect::<Vec<_>>(), ty.dtype, shape)
    }
}

/// Returns the nodes that compute only the table of a node, without the node itself.
fn cone(edit: &Edit<'_>, index: usize) -> Vec<usize> {
    let mut nodes = vec![index];
    let mut reads: FxHashMap<ValueId, usize> = FxHashMap::default();
    let mut at = 0;
    while let Some(&node) = nodes.get(at) {
        for value in edit.operands(node) {
            let count = reads.entry(value).or_default();
            *count += 1;
            if *count == edit.reads(value)
                && let Some(producer) = edit.producer(value)
            {
                nodes.push(producer);
            }
        }
        at += 1;
    }
    nodes.split_off(1)
}

/// Returns the bytes of the nodes and constants that only the table of a node needs.
fn bytes_for(edit: &Edit<'_>, stored: &Stored, index: usize) -> usize {
    let mut nodes = cone(edit, index);
    nodes.push(index);
    let mut reads: FxHashMap<ValueId, usize> = FxHashMap::default();
    for value in nodes.iter().flat_map(|&node| edit.operands(node)) {
        *reads.entry(value).or_default() += 1;
    }
    let is_own = |(&value, &count): (&ValueId, &usize)| {
        let is_read_outside = edit.constants_outside().contains(&value);
        require(!is_read_outside && edit.reads(value) == count)?;
        edit.tensor(value).filter(|tensor| stored.is_only_one(tensor)).map(Tensor::byte_len)
    };
    reads.iter().filter_map(is_own).sum::<usize>() + nodes.len() * BYTES_OF_NODE
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_lean;

    #[test]
    fn the_table_that_other_nodes_read_is_stored_instead_of_larger_arrays() {
        check_lean(
            super::run,
            "graph g(x:f32[64]) -> (y)
%0:i64[64] = Range(0:i64, 64:i64, 1:i64)
%1:i64[64,1] = Unsqueeze(%0, [1]:i64)
%2:i64[64,64] = Sub(%0, %1)
%3:i64[64] = ReduceMax(%2, [1]:i64) {keepdims=0}
%4:f32[64] = Cast(%3) {to=1}
%5:f32[64] = Cos(%4)
y:f32[64] = Mul(x, %5)",
            expect![[r#"
                graph g(x:f32[64]) -> (y)
                y:f32[64] = Mul(x, const f32[64])  # 8
            "#]],
        );
    }

    #[test]
    fn a_large_mask_is_computed_and_its_small_operands_are_stored() {
        check_lean(
            super::run,
            "graph g(x:f32[4096,4096]) -> (y)
%0:i64[4096] = Range(0:i64, 4096:i64, 1:i64)
%1:i64[4096,1] = Unsqueeze(%0, [1]:i64)
%2:f32[] = Exp(1.0)
%3:bool[4096,4096] = GreaterOrEqual(%1, %0)
%4:f32[] = Sin(%2)
y:f32[4096,4096] = Where(%3, x, %4)",
            expect![[r#"
                graph g(x:f32[4096,4096]) -> (y)
                %0 = Range(0:i64, 4096:i64, 1:i64)  # 2
                %1 = Unsqueeze(%0, [1]:i64)  # 3
                %2 = GreaterOrEqual(%1, %0)  # 5
                y:f32[4096,4096] = Where(%2, x, 0.41078135)  # 7
            "#]],
        );
    }

    #[test]
    fn a_table_that_is_an_output_or_whose_rounding_is_open_is_not_stored() {
        check_lean(
            super::run,
            "graph g(x:f64[2]) -> (y, z)
%0:f64[2] = Exp([1.0, 2.0]:f64)
y:f64[2] = Mul(x, %0)
z:f32[2] = Exp([1.0, 2.0])",
            expect![[r#"
                graph g(x:f64[2]) -> (y, z)
                %0 = Exp([1.0, 2.0]:f64)  # 2
                y:f64[2] = Mul(x, %0)  # 3
                z:f32[2] = Exp([1.0, 2.0])  # 4
            "#]],
        );
    }
}
