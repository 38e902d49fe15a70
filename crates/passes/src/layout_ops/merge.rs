//! `merge-layout-ops`: rewrites a chain of layout ops with the fewest nodes.

use algebra::axis_map::{AxisMap, Step, emit_last, plan, transposes};
use algebra::rewrite::require;
use onnx::operator::properties::{LAYOUT_OPS, RESHAPES};
use onnx::{Edit, Op, OpType, Outcome, Patch, ValueId};

use super::is_layout_op;
use crate::canonicalize::{MAX_LINKS, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "merge-layout-ops",
    does: "writes a chain of layout ops in the fewest nodes",
    apply: shorten,
};

/// Replaces the longest possible chain that ends at the root by fewer or cheaper nodes.
fn shorten(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    require(is_layout_op(edit, index))?;
    let chain = links(edit, edit.result(index));
    let read_once = |&&link: &&usize| edit.reads(edit.result(link)) == 1;
    let removed = 1 + chain[1..].iter().take_while(read_once).count();
    for length in (1..=chain.len()).rev() {
        let links = &chain[..length];
        let Some((source, steps)) = shortest(edit, links) else { continue };
        let replaced = &links[..removed.min(length)];
        let is_better = steps.len() < replaced.len()
            || (steps.len() == replaced.len()
                && transposes(&steps) < count_transposes(edit, replaced));
        if is_better && let Some(Ok(done)) = replace(edit, links, source, &steps) {
            return Some(Ok(done));
        }
    }
    write_shape_as_constant(edit)
}

/// Replaces a computed shape by a constant, if possible.
fn write_shape_as_constant(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let is_computed = edit.tensor(edit.input(index, 1)?).is_none();
    require(is_computed && edit.node(index).op == OpType::Reshape)?;
    let steps = [Step::Reshape(edit.result_ty(index)?.shape.to_vec())];
    replace(edit, &[index], edit.input(index, 0)?, &steps)
}

fn count_transposes(edit: &Edit<'_>, links: &[usize]) -> usize {
    links.iter().filter(|&&link| edit.node(link).op == OpType::Transpose).count()
}

/// Returns the chain of layout ops that computes a value, the last one first.
pub(super) fn links(edit: &Edit<'_>, value: ValueId) -> Vec<usize> {
    edit.walk(value, LAYOUT_OPS).map(|(link, _)| link).take(MAX_LINKS).collect()
}

/// Returns the source of a chain, and the fewest steps from it to the result.
fn shortest(edit: &Edit<'_>, links: &[usize]) -> Option<(ValueId, Vec<Step>)> {
    let source = edit.input(*links.last()?, 0)?;
    if links.iter().all(|&link| edit.node(link).op.is(RESHAPES)) {
        // A chain of reshapes is one reshape.
        let result = edit.result(*links.first()?);
        let (before, after) = (edit.shape(source)?, edit.shape(result)?);
        return Some((source, Step::reshape(before, after).into_iter().collect()));
    }
    Some((source, AxisMap::of_chain(edit, source, links)?.steps()?))
}

fn replace(patch: &mut Patch<'_, '_>, links: &[usize], source: ValueId, steps: &[Step]) -> Outcome {
    let steps = plan(patch.shape(source)?, steps)?;
    let fused = &links[1..];
    if steps.is_empty() {
        if let Some(Ok(done)) = patch.done(fused, source) {
            return Some(Ok(done));
        }
        return patch.done(fused, Op::new(OpType::Identity, &[source]));
    }
    if patch.tensor(source).is_some() && steps.iter().any(Step::is_transpose) {
        // Another rewrite folds a transposed constant, or leaves it to ONNX Runtime, as one node.
        return None;
    }
    let op = emit_last(patch, fused, source, &steps).ok()?;
    patch.done(fused, op)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, each};

    #[test]
    fn a_unit_axis_is_not_transposed() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[B,5,12]) -> (y)
%0:f32[B,5,3,4] = Reshape(x, [-1, 5, 3, 4]:i64)
%1:f32[B,5,3,1,4] = Reshape(%0, [-1, 5, 3, 1, 4]:i64)
%2:f32[B,3,5,1,4] = Transpose(%1) {perm=[0, 2, 1, 3, 4]}
%3:f32[B,3,5,4] = Reshape(%2, [-1, 3, 5, 4]:i64)
y:f32[B,3,5,4] = Tanh(%3)",
            expect![[r#"
                graph g(x:f32[B,5,12]) -> (y)
                %0 = Reshape(x, [-1, 5, 3, 4]:i64)  # 2
                %1 = Reshape(x, [0, 5, 3, 1, 4]:i64)  # 3 2
                %2 = Transpose(%1) {perm=[0, 2, 1, 3, 4]}  # 4
                %3 = Reshape(x, [0, 5, 3, 4]:i64)  # 5 2 3 4
                %4 = Transpose(%3) {perm=[0, 2, 1, 3]}  # 4 2 3 5
                y:f32[B,3,5,4] = Tanh(%4)  # 6
            "#]],
        );
    }

    #[test]
    fn a_chain_that_others_read_stays() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[5,12]) -> (y, z)
%0:f32[5,3,4] = Reshape(x, [5, 3, 4]:i64)
z:f32[3,5,4] = Transpose(%0) {perm=[1, 0, 2]}
y:f32[3,20] = Reshape(z, [3, 20]:i64)",
            expect![[r#"
                graph g(x:f32[5,12]) -> (y, z)
                %0 = Reshape(x, [5, 3, 4]:i64)  # 2
                z:f32[3,5,4] = Transpose(%0) {perm=[1, 0, 2]}  # 3
                y:f32[3,20] = Reshape(z, [3, 20]:i64)  # 4
            "#]],
        );
    }

    #[test]
    fn two_transposes_are_merged_or_cancel_out() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[2,3,4]) -> (y, z)
%0:f32[2,3,4] = Tanh(x)
%1:f32[3,4,2] = Transpose(%0) {perm=[1, 2, 0]}
%2:f32[4,3,2] = Transpose(%1) {perm=[1, 0, 2]}
y:f32[4,3,2] = Tanh(%2)
%3:f32[4,3,2] = Transpose(x) {perm=[2, 1, 0]}
%4:f32[2,3,4] = Transpose(%3) {perm=[2, 1, 0]}
z:f32[2,3,4] = Cos(%4)",
            expect![[r#"
                graph g(x:f32[2,3,4]) -> (y, z)
                %0 = Tanh(x)  # 2
                %1 = Transpose(%0) {perm=[1, 2, 0]}  # 3
                %2 = Transpose(%0) {perm=[2, 1, 0]}  # 4 3
                y:f32[4,3,2] = Tanh(%2)  # 5
                %3 = Transpose(x) {perm=[2, 1, 0]}  # 6
                z:f32[2,3,4] = Cos(x)  # 8 6 7
            "#]],
        );
    }

    #[test]
    fn two_reshapes_are_the_last_one() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[B,6], z:f32[B,C]) -> (y, w)
%0:f32[B,2,3] = Reshape(x, [-1, 2, 3]:i64)
%1:f32[B,1,2,3] = Unsqueeze(%0, [1]:i64)
y:f32[B,2,3,1] = Reshape(%1, [-1, 2, 3, 1]:i64)
%2:f32[B,1,C] = Unsqueeze(z, [1]:i64)
w:f32[B,1,C,1] = Unsqueeze(%2, [3]:i64)",
            expect![[r#"
                graph g(x:f32[B,6], z:f32[B,C]) -> (y, w)
                %0 = Reshape(x, [-1, 2, 3]:i64)  # 2
                %1 = Reshape(x, [0, 1, 2, 3]:i64)  # 2 3
                y:f32[B,2,3,1] = Reshape(x, [0, 2, 3, 1]:i64)  # 4 2 3
                %2 = Unsqueeze(z, [1]:i64)  # 5
                w:f32[B,1,C,1] = Unsqueeze(z, [1, 3]:i64)  # 6 5
            "#]],
        );
    }

    #[test]
    fn reshapes_to_a_number_are_one_reshape() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[1,1]) -> (y)
%0:f32[1] = Reshape(x, [1]:i64)
y:f32[] = Reshape(%0, []:i64)",
            expect![[r#"
                graph g(x:f32[1,1]) -> (y)
                %0 = Reshape(x, [1]:i64)  # 2
                y:f32[] = Reshape(x, []:i64)  # 3 2
            "#]],
        );
    }

    #[test]
    fn reshapes_that_cut_through_parts_are_one_reshape() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[4,6]) -> (y)
%0:f32[3,8] = Reshape(x, [3, 8]:i64)
y:f32[6,4] = Reshape(%0, [6, 4]:i64)",
            expect![[r#"
                graph g(x:f32[4,6]) -> (y)
                %0 = Reshape(x, [3, 8]:i64)  # 2
                y:f32[6,4] = Reshape(x, [6, 4]:i64)  # 3 2
            "#]],
        );
    }

    #[test]
    fn a_size_that_stays_in_its_place_is_not_computed() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[B,T,6], s:i64[4]) -> (y, z)
y:f32[B,T,2,3] = Reshape(x, s) {allowzero=1}
z:f32[B,2,T,3] = Reshape(x, s) {allowzero=1}",
            expect![[r#"
                graph g(x:f32[B,T,6], s:i64[4]) -> (y, z)
                y:f32[B,T,2,3] = Reshape(x, [0, 0, 2, 3]:i64)  # 2
                z:f32[B,2,T,3] = Reshape(x, s) {allowzero=1}  # 3
            "#]],
        );
    }

    #[test]
    fn an_input_that_is_an_output_keeps_a_node() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[2,3]) -> (y)
%0:f32[3,2] = Transpose(x)
y:f32[2,3] = Transpose(%0) {perm=[1, 0]}",
            expect![[r#"
                graph g(x:f32[2,3]) -> (y)
                %0 = Transpose(x)  # 2
                y:f32[2,3] = Identity(x)  # 3 2
            "#]],
        );
    }
}
