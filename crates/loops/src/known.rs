//! `store-states`: stores the states of all steps of a loop if only constants determine them.
//!
//! Examples are the covariances of a Kalman filter with constant matrices, and the corrections of an optimizer. The loop runs
//! over the states instead of carrying them, so that what they determine is computed for all steps at once.

use algebra::eval::eval;
use algebra::rewrite::require;
use onnx::{Edit, OpType, Outcome, Patch, Tensor, Type, ValueId, declined, known_shape};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Array, Carry, Counted};

/// The maximum number of nodes that are evaluated.
const MAX_NODES: usize = 1 << 17;

/// The maximum number of elements of the states of all steps.
const MAX_ELEMENTS: usize = 1 << 16;

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    require(edit.op(edit.root()) == Some(OpType::Scan) && !edit.is_fallback())?;
    let mut scan = Counted::at(edit, edit.root())?;
    let steps = usize::try_from(scan.iterations.known()?).ok()?;
    let known = known(edit, &scan)?;
    let Some(stored) = stored(edit, &scan, &known, steps) else {
        return declined(
            "the states that constants determine are large, or runtimes may round them differently",
        );
    };
    let is_known = |carry: &Carry| known.iter().any(|one| one.before == carry.before);
    scan.carries.retain(|carry| !is_known(carry));
    let mut results = Vec::new();
    for (carry, (whole, last)) in known.iter().zip(stored) {
        let whole = edit.constant(whole, &[carry.initial]);
        scan.arrays.push(Array { whole, element: carry.before });
        results.push((carry.result, edit.constant(last, &[carry.initial])));
    }
    let replacement = scan.replacement(edit, &results);
    edit.done(&[], replacement)
}

/// Returns the states that depend only on constants and on each other. `None` if there are none.
fn known(edit: &Edit<'_>, scan: &Counted) -> Option<Vec<Carry>> {
    let is_constant = |carry: &&Carry| edit.tensor(carry.initial).is_some();
    let mut found: Vec<Carry> = scan.carries.iter().filter(is_constant).copied().collect();
    let made: FxHashSet<ValueId> =
        scan.nodes.iter().flat_map(|node| node.outputs.iter().copied()).collect();
    loop {
        let is_known = |id: &ValueId| {
            made.contains(id)
                || edit.tensor(*id).is_some()
                || found.iter().any(|carry| carry.before == *id)
        };
        let depends = |carry: &&Carry| scan.sources(&[carry.after]).iter().all(is_known);
        let kept: Vec<Carry> = found.iter().filter(depends).copied().collect();
        if kept.len() == found.len() {
            break;
        }
        found = kept;
    }
    // A state that never changes is not a sequence.
    found.retain(|carry| carry.after != carry.before);
    require(!found.is_empty())?;
    Some(found)
}

/// Returns the states before all steps, and those after the last one.
fn stored(
    edit: &Edit<'_>,
    scan: &Counted,
    known: &[Carry],
    steps: usize,
) -> Option<Vec<(Tensor, Tensor)>> {
    let after: Vec<ValueId> = known.iter().map(|carry| carry.after).collect();
    let needed = scan.sources(&after);
    let is_needed = |id: &ValueId| needed.contains(id);
    let nodes: Vec<_> =
        scan.nodes.iter().filter(|node| node.outputs.iter().any(is_needed)).collect();
    require(steps > 0 && steps.checked_mul(nodes.len())? <= MAX_NODES)?;
    let mut states: Vec<Tensor> =
        known.iter().map(|carry| edit.tensor(carry.initial).cloned()).collect::<Option<_>>()?;
    let elements: usize = states.iter().map(Tensor::len).sum();
    require(steps.checked_mul(elements)? <= MAX_ELEMENTS)?;
    let mut all: Vec<Vec<Tensor>> = vec![Vec::new(); known.len()];
    for _ in 0..steps {
        let mut of: FxHashMap<ValueId, Tensor> = FxHashMap::default();
        for ((carry, state), all) in known.iter().zip(&states).zip(&mut all) {
            of.insert(carry.before, state.clone());
            let row = [&[1], &state.shape[..]].concat();
            all.push(state.with_shape(row));
        }
        for node in &nodes {
            let &[output] = &node.outputs[..] else { return None };
            let operand =
                |id: &Option<ValueId>| of.get(id.as_ref()?).or_else(|| edit.tensor((*id)?));
            let operands: Vec<&Tensor> = node.inputs.iter().map(operand).collect::<Option<_>>()?;
            let Type { dtype, shape, .. } = edit.ty(output)?;
            let made = eval(node, &operands, *dtype, known_shape(shape)?)?;
            of.insert(output, made);
        }
        states = after
            .iter()
            .map(|id| of.get(id).or_else(|| edit.tensor(*id)).cloned())
            .collect::<Option<_>>()?;
    }
    let joined = |(mut rows, last): (Vec<Tensor>, Tensor)| {
        if scan.is_reverse {
            rows.reverse();
        }
        let shape = [&[steps as i64], &last.shape[..]].concat();
        Some((Tensor::joined(&rows.iter().collect::<Vec<_>>(), 0, shape)?, last))
    };
    all.into_iter().zip(states).map(joined).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, each};

    #[test]
    fn a_state_that_only_constants_determine_is_an_array() {
        check(
            each(super::run),
            "graph g(x:f32[], zs:f32[3]) -> (y, p)
y:f32[], p:f32[] = Scan(x, 1.0, zs) {body={
  graph b(v:f32[], q:f32[], z:f32[]) -> (w, r)
  %0:f32[] = Mul(v, q)
  w:f32[] = Max(%0, z)
  r:f32[] = Mul(q, 0.5)
}, num_scan_inputs=1, scan_input_directions=[1]}",
            expect![[r#"
                graph g(x:f32[], zs:f32[3]) -> (y, p)
                y:f32[] = Scan(x, zs, [0.25, 0.5, 1.0]) {body={  # 2 6
                  graph b(v:f32[], z:f32[], q:f32[]) -> (w)
                  %0 = Mul(v, q)  # 4
                  w:f32[] = Max(%0, z)  # 5
                }, num_scan_inputs=2, scan_input_directions=[1, 1]}
                p:f32[] = Identity(0.125)  # 2 6
            "#]],
        );
    }

    #[test]
    fn a_loop_over_constants_alone_disappears() {
        check(
            each(super::run),
            "graph g(zs:f32[3]) -> (p)
p:f32[] = Scan(1.0, zs) {body={
  graph b(q:f32[], z:f32[]) -> (r)
  r:f32[] = Mul(q, 0.5)
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(zs:f32[3]) -> (p)
                p:f32[] = Identity(0.125)  # 2 4
            "#]],
        );
    }

    #[test]
    fn a_state_that_another_state_or_an_argument_determines_stays() {
        check(
            each(super::run),
            "graph g(x:f32[], zs:f32[3]) -> (y, p)
y:f32[], p:f32[] = Scan(1.0, 1.0, zs) {body={
  graph b(v:f32[], q:f32[], z:f32[]) -> (w, r)
  w:f32[] = Max(v, q)
  r:f32[] = Mul(q, x)
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(x:f32[], zs:f32[3]) -> (y, p)
                y:f32[], p:f32[] = Scan(1.0, 1.0, zs) {body={  # 2
                  graph b(v:f32[], q:f32[], z:f32[]) -> (w, r)
                  w:f32[] = Max(v, q)  # 4
                  r:f32[] = Mul(q, x)  # 5
                }, num_scan_inputs=1}
            "#]],
        );
    }
}
