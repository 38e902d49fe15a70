//! `store-once`: stores an array once, even if some readers need its axes in another order.
//!
//! If a constant has the elements of another one, in another order or as a part, nodes compute it from the other one. If
//! several constants have the elements of an array of the program, but none is the array itself, the model stores the
//! array, and nodes compute the constants from it. ONNX Runtime folds these nodes when it loads the model.

use algebra::axis_map::transpose;
use algebra::stored::large_constants;
use onnx::edit::for_each_read;
use onnx::tensor::{Memory, Step};
use onnx::{Edit, Model, Op, OpType, Outcome, Patch, Tensor, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) fn run(model: &mut Model) {
    let ids: Vec<ValueId> = model.values.ids().collect();
    let mut is_first = true;
    model.edit(&mut |edit| {
        // The main graph comes first. Only it and its bodies read large constants, and bodies can read its values.
        if std::mem::take(&mut is_first)
            && let Some(&(_, reader)) = large_constants(edit).first()
        {
            edit.patch(reader, |patch| store_once(patch, &ids));
        }
    });
}

/// Makes the nodes of the graph and of its bodies read computed values instead of constants.
fn store_once(patch: &mut Patch<'_, '_>, all: &[ValueId]) -> Outcome {
    let derived = derive_all(patch, all);
    for index in patch.nodes() {
        let mut is_derived = false;
        for_each_read(patch.node(index), &mut |id| is_derived |= derived.contains_key(&id));
        if is_derived {
            patch.read_instead(index, &derived);
        }
    }
    patch.finish()
}

/// Inserts the nodes that compute constants from others. Returns the computed value for each constant.
fn derive_all(edit: &mut Patch<'_, '_>, all: &[ValueId]) -> FxHashMap<ValueId, ValueId> {
    let read = large_constants(edit);
    let mut stored: Stored = FxHashMap::default();
    let memory_of = |id: ValueId| edit.tensor(id).filter(|it| it.is_contiguous())?.memory();
    for &(id, _) in &read {
        if let Some(memory) = memory_of(id) {
            stored.entry(memory).or_insert(id);
        }
    }
    let repeated = repeated(edit, &read);
    if repeated.iter().any(|memory| !stored.contains_key(memory)) {
        for &id in all {
            if let Some(memory) = memory_of(id).filter(|memory| repeated.contains(memory)) {
                stored.entry(memory).or_insert(id);
            }
        }
    }
    let mut derived = FxHashMap::default();
    for (id, reader) in read {
        let Some(tensor) = edit.tensor(id).cloned() else { continue };
        let is_stored = |memory| stored.get(&memory) == Some(&id);
        if !tensor.memory().is_some_and(is_stored)
            && let Some(recipe) = Recipe::of(edit, &stored, &tensor)
        {
            edit.move_to(reader);
            derived.extend(recipe.emit(edit).map(|value| (id, value)));
        }
    }
    derived
}

/// The constant that stores an array, by the memory of the array.
type Stored = FxHashMap<Memory, ValueId>;

/// Returns the arrays that constants store more than once, by bytes.
fn repeated(edit: &Edit<'_>, read: &[(ValueId, usize)]) -> FxHashSet<Memory> {
    let mut stored: FxHashMap<Memory, usize> = FxHashMap::default();
    for tensor in read.iter().filter_map(|&(id, _)| edit.tensor(id)) {
        let parts = tensor.parts().map_or(std::slice::from_ref(tensor), |(parts, ..)| parts);
        for part in parts {
            if let Some(memory) = part.memory() {
                *stored.entry(memory).or_default() += part.byte_len();
            }
        }
    }
    stored.retain(|&(_, length), bytes| *bytes > length);
    stored.into_keys().collect()
}

/// The way to compute a constant: from another constant, or from parts of others that are concatenated.
struct Recipe {
    sources: Vec<(ValueId, Vec<Step>)>,
    /// The axis along which the parts are concatenated.
    joined: Option<usize>,
    steps: Vec<Step>,
}

impl Recipe {
    fn of(edit: &Edit<'_>, stored: &Stored, tensor: &Tensor) -> Option<Recipe> {
        let source = |part: &Tensor| {
            let id = *stored.get(&part.memory()?)?;
            Some((id, part.steps_from(edit.tensor(id)?)?))
        };
        let Some((parts, axis, shape)) = tensor.parts() else {
            return Some(Recipe { sources: vec![source(tensor)?], joined: None, steps: vec![] });
        };
        let mut sources: Vec<(ValueId, Vec<Step>)> =
            parts.iter().map(source).collect::<Option<_>>()?;
        let mut joined = axis;
        let mut steps = Vec::new();
        // Transposes all parts together instead of each part.
        if let Some(Step::Transpose(perm)) = sources[0].1.last().cloned()
            && sources.iter().all(|(_, steps)| steps.last() == Some(&Step::Transpose(perm.clone())))
        {
            for (_, steps) in &mut sources {
                steps.pop();
            }
            joined = perm[axis];
            steps.push(Step::Transpose(perm));
        }
        if shape != tensor.shape {
            steps.push(Step::Reshape(tensor.shape.clone()));
        }
        Some(Recipe { sources, joined: Some(joined), steps })
    }

    fn emit(&self, edit: &mut Patch<'_, '_>) -> Option<ValueId> {
        let parts = self.sources.iter().map(|(id, steps)| apply(edit, *id, steps));
        let parts: Vec<ValueId> = parts.collect::<Option<_>>()?;
        let whole = match &self.joined {
            Some(axis) => {
                let op = Op::new(OpType::Concat, &parts).attr("axis", *axis as i64);
                edit.insert(op)
            }
            None => *parts.first()?,
        };
        apply(edit, whole, &self.steps)
    }
}

/// Applies steps to a value.
fn apply(edit: &mut Patch<'_, '_>, value: ValueId, steps: &[Step]) -> Option<ValueId> {
    steps.iter().try_fold(value, |value, step| {
        let mut ints = |ints: &[i64]| edit.integers(ints);
        let op = match step {
            Step::Slice { starts, shape } => {
                let ends: Vec<i64> = starts.iter().zip(shape).map(|(a, b)| a + b).collect();
                let axes: Vec<i64> = (0..shape.len() as i64).collect();
                let operands = [value, ints(starts)?, ints(&ends)?, ints(&axes)?];
                Op::new(OpType::Slice, &operands)
            }
            Step::Reshape(shape) => Op::new(OpType::Reshape, &[value, ints(shape)?]),
            Step::Transpose(perm) => transpose(value, perm),
        };
        Some(edit.insert(op))
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check_model, each};

    fn fold_and_store(model: &mut onnx::Model) {
        model.edit(&mut each(crate::layout::fold_layout_ops::run));
        super::run(model);
    }

    #[test]
    fn a_weight_that_is_read_in_two_orders_is_stored_in_one_order() {
        check_model(
            fold_and_store,
            "graph g(i:i64[2], x:f32[2,64]) -> (y, z)
w = const f32[70,64]
y:f32[2,64] = Gather(w, i) {axis=0}
%0:f32[64,70] = Transpose(w) {perm=[1, 0]}
z:f32[2,70] = MatMul(x, %0)",
            expect![[r#"
                graph g(i:i64[2], x:f32[2,64]) -> (y, z)
                w = const f32[70,64]
                y:f32[2,64] = Gather(w, i) {axis=0}  # 3
                %0 = Transpose(w) {perm=[1, 0]}  # 5 4
                z:f32[2,70] = MatMul(x, %0)  # 5 4
            "#]],
        );
    }

    #[test]
    fn a_weight_that_is_read_in_one_order_is_stored_in_that_order() {
        check_model(
            fold_and_store,
            "graph g(x:f32[2,64]) -> (z)
w = const f32[70,64]
%0:f32[64,70] = Transpose(w) {perm=[1, 0]}
z:f32[2,70] = MatMul(x, %0)",
            expect![[r#"
                graph g(x:f32[2,64]) -> (z)
                w/Transpose = const f32[64,70]
                z:f32[2,70] = MatMul(x, w/Transpose)  # 4
            "#]],
        );
    }

    #[test]
    fn a_small_weight_is_stored_in_both() {
        check_model(
            fold_and_store,
            "graph g(i:i64[2], x:f32[2,4]) -> (y, z)
w = const f32[7,4]
y:f32[2,4] = Gather(w, i) {axis=0}
%0:f32[4,7] = Transpose(w) {perm=[1, 0]}
z:f32[2,7] = MatMul(x, %0)",
            expect![[r#"
                graph g(i:i64[2], x:f32[2,4]) -> (y, z)
                w = const f32[7,4]
                w/Transpose = const f32[4,7]
                y:f32[2,4] = Gather(w, i) {axis=0}  # 3
                z:f32[2,7] = MatMul(x, w/Transpose)  # 5
            "#]],
        );
    }

    #[test]
    fn arrays_that_are_concatenated_in_two_orders_are_stored_once() {
        check_model(
            |model| {
                model.edit(&mut crate::canonicalize::everything);
                fold_and_store(model);
            },
            "graph g(x:f32[2,64]) -> (y, z)
v = const f32[64,70]
w = const f32[64,70]
%0:f32[64,140] = Concat(v, w) {axis=1}
y:f32[2,140] = MatMul(x, %0)
%1:f32[140,64] = Transpose(%0) {perm=[1, 0]}
z:f32[2,64] = MatMul(y, %1)",
            expect![[r#"
                graph g(x:f32[2,64]) -> (y, z)
                v = const f32[64,70]
                w = const f32[64,70]
                %0 = Concat(v, w) {axis=1}  # 5 4
                y:f32[2,140] = MatMul(x, %0)  # 5 4
                %1 = Concat(v, w) {axis=1}  # 7 4 6
                %2 = Transpose(%1) {perm=[1, 0]}  # 7 4 6
                z:f32[2,64] = MatMul(y, %2)  # 7 4 6
            "#]],
        );
    }

    #[test]
    fn a_body_reads_a_constant_that_the_main_graph_computes() {
        check_model(
            fold_and_store,
            "graph g(c:bool[], x:f32[2,64]) -> (y, z)
w = const f32[64,64]
y:f32[2,64] = MatMul(x, w)
z:f32[2,64] = If(c) {else_branch={
  graph no() -> (n)
  n:f32[2,64] = Neg(x)
}, then_branch={
  graph yes() -> (m)
  %0:f32[32,64] = Slice(w, [32]:i64, [64]:i64, [0]:i64)
  %1:f32[64,32] = Transpose(%0) {perm=[1, 0]}
  %2:f32[2,32] = MatMul(x, %1)
  m:f32[2,64] = Concat(%2, %2) {axis=1}
}}",
            expect![[r#"
                graph g(c:bool[], x:f32[2,64]) -> (y, z)
                w = const f32[64,64]
                y:f32[2,64] = MatMul(x, w)  # 3
                %0 = Slice(w, [32, 0]:i64, [64, 64]:i64, [0, 1]:i64)  # 4
                %1 = Transpose(%0) {perm=[1, 0]}  # 4
                z:f32[2,64] = If(c) {else_branch={  # 4
                  graph no() -> (n)
                  n:f32[2,64] = Neg(x)  # 6
                }, then_branch={
                  graph yes() -> (m)
                  %2 = MatMul(x, %1)  # 11 9 10
                  m:f32[2,64] = Concat(%2, %2) {axis=1}  # 12
                }}
            "#]],
        );
    }
}
