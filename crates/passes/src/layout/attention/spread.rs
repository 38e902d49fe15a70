//! Proves that a masked score is finite, or that it makes no difference.
//!
//! In self-attention, `q`, `k` and `v` are projections of the same rows `x`, which are the result of a norm. A norm
//! limits its numbers, so no score overflows, and a score is NaN only if a number in one of its two rows of `x` is.
//! Then the whole row of `v` is NaN, and so is everything that is computed from `v`: zero times NaN is NaN.

use algebra::axis_map::AxisMap;
use algebra::rewrite::require;
use onnx::facts::floats::Floats;
use onnx::operator::properties::{ARITHMETIC, LAYOUT_OPS, VIEW_OPS};
use onnx::{Dim, Edit, Fact, Facts, OpType, ValueId};

use super::Attention;
use crate::layout_ops::products::Side;

/// The maximum number of nodes between the operands and their common rows.
const MOST_NODES: usize = 100;

/// Returns the largest magnitude of the scores if all of them are finite. Ignores NaN that makes the result NaN in
/// JAX too.
pub(super) fn limit(edit: &Edit<'_>, found: &Attention, mut facts: Facts) -> Option<f64> {
    let mut source = Source::of(edit, found.v.source)?;
    let [q, k, v] = [&found.q, &found.k, &found.v].map(|side| source.rows_of_side(edit, side));
    let (q, k, v) = (q?, k?, v?);
    let column = found.shape.len() - 1;
    let is_spread = v.is_mixed && v.map.is_repeated_along(column);
    // NaN spreads along the axis that the second product sums over. Along other axes, it stays in place.
    let stays = |axis: usize| {
        let place = v.map.axis_after(axis);
        let is_alike = [&q, &k].iter().all(|rows| rows.map.axis_after(axis) == place);
        place.is_some_and(|place| place + 1 == column || is_alike)
    };
    let is_unit = |axis: &usize| v.map.size_before(*axis).is_some_and(|size| size.is(1));
    let mut axes = (0..v.map.rank_before()).filter(|axis| !is_unit(axis));
    require(is_spread && axes.all(stays))?;

    let rows = facts.of(edit, source.x);
    limited(rows)?;
    for &other in &source.others {
        facts.of(edit, other).floats().finite().filter(|&most| most <= LARGEST)?;
    }
    facts.suppose(source.x, Fact::Floats(Floats { nan: false, ..rows.floats() }));
    let mut most =
        |side: &Side| facts.of(edit, side.source).floats().finite().filter(|&most| most <= LARGEST);
    let products = most(&found.q)? * most(&found.k)? * depth(found)?;
    (products * found.scale.max(1.0) <= LARGEST).then(|| facts.assume(edit))?;
    Some(products * found.scale)
}

/// Returns the largest magnitude of the scores that are not NaN.
pub(super) fn limit_without_nan(
    edit: &Edit<'_>,
    found: &Attention,
    mut facts: Facts,
) -> Option<f64> {
    let mut most = |side: &Side| limited(facts.of(edit, side.source));
    let products = most(&found.q)? * most(&found.k)? * depth(found)?;
    facts.assume(edit);
    Some(products * found.scale)
}

/// Sums of a few numbers up to this one do not overflow.
pub(super) const LARGEST: f64 = 1e37;

/// Returns the largest magnitude of the numbers that are not NaN, if it is far from overflow.
pub(super) fn limited(fact: Fact) -> Option<f64> {
    Some(fact.floats().most()).filter(|&most| most <= LARGEST)
}

/// Returns the number of products in the sum of a score.
fn depth(found: &Attention) -> Option<f64> {
    Some(found.q.map.shape_after()?.last()?.known()? as f64)
}

/// The array that `v` is a projection of.
struct Source {
    x: ValueId,
    /// The axis that the projection sums over.
    axis: usize,
    /// The other operands of sums and products on the way to the source.
    others: Vec<ValueId>,
    /// The number of nodes that may still be followed.
    left: usize,
}

/// The row of the source that each element of a value depends on.
struct Rows {
    /// The map from the rows to the elements: each row is repeated for all elements that depend on it.
    map: AxisMap,
    /// True if NaN in one element of a row makes all elements that depend on it NaN.
    is_mixed: bool,
}

impl Source {
    /// Returns the operand of the nearest product before a value.
    fn of(edit: &Edit<'_>, mut value: ValueId) -> Option<Source> {
        for left in (0..MOST_NODES).rev() {
            let index = edit.producer(value)?;
            let operand = usize::from(edit.tensor(edit.input(index, 0)?).is_some());
            value = edit.input(index, operand)?;
            if edit.node(index).op == OpType::MatMul {
                let (x, chain) = edit.through(value, LAYOUT_OPS);
                let axis = summed_axis(edit, value, operand)?;
                let axis = AxisMap::of_chain(edit, x, &chain)?.axis_before(axis)?;
                return Some(Source { x, axis, others: Vec::new(), left });
            }
        }
        None
    }

    fn rows_of_side(&mut self, edit: &Edit<'_>, side: &Side) -> Option<Rows> {
        let Rows { map, is_mixed } = self.rows(edit, side.source)?;
        Some(Rows { map: map.then(&side.map)?, is_mixed })
    }

    /// Follows a value to the source, through nodes that propagate NaN.
    fn rows(&mut self, edit: &Edit<'_>, value: ValueId) -> Option<Rows> {
        let shape = edit.shape(value)?;
        if value == self.x {
            let mut of_rows = shape.to_vec();
            of_rows[self.axis] = Dim::Known(1);
            let map = AxisMap::identity(&of_rows).broadcast(shape)?;
            return Some(Rows { map, is_mixed: false });
        }
        let index = edit.producer(value)?;
        self.left = self.left.checked_sub(1)?;
        let node = edit.node(index);
        let mut of = |operand| self.rows(edit, edit.input(index, operand)?);
        match node.op.onnx()? {
            OpType::MatMul => {
                let operand = usize::from(edit.tensor(edit.input(index, 0)?).is_some());
                let is_matrix = edit.tensor(edit.input(index, 1 - operand)?)?.shape.len() == 2;
                let axis = summed_axis(edit, edit.input(index, operand)?, operand)?;
                let rows = of(operand).filter(|_| is_matrix)?;
                let is_mixed = rows.is_mixed || rows.map.repeats_only_along(axis);
                Some(Rows { is_mixed, ..rows.within(&[axis], shape)? })
            }
            op if op.is(ARITHMETIC) => {
                let [a, b] = [0, 1].map(|operand| of(operand)?.broadcast(shape));
                if let (Some(a), Some(b)) = (&a, &b) {
                    return a.and(b);
                }
                self.others.push(edit.input(index, usize::from(a.is_some()))?);
                a.or(b)
            }
            OpType::Concat => {
                let mut part = |operand| of(operand)?.within(&[edit.axis(index)?], shape);
                (1..node.inputs.len()).try_fold(part(0)?, |rows, other| rows.and(&part(other)?))
            }
            OpType::Neg => of(0),
            OpType::LayerNormalization | OpType::RMSNormalization => {
                let axes: Vec<usize> = (edit.axis(index)?..shape.len()).collect();
                of(0)?.within(&axes, shape)
            }
            OpType::RotaryEmbedding => of(0)?.within(&[shape.len() - 1], shape),
            OpType::Split => of(0)?.within(&[edit.axis(index)?], shape),
            OpType::Slice => of(0)?.within(&edit.axes(index)?, shape),
            OpType::Gather if edit.rank(edit.input(index, 1)?)? == 0 => {
                let axis = edit.axis(index)?;
                let mut with_axis = shape.to_vec();
                with_axis.insert(axis, Dim::Known(1));
                let rows = of(0)?.within(&[axis], &with_axis)?;
                Some(Rows { map: rows.map.reshaped(shape)?, ..rows })
            }
            op if op.is(VIEW_OPS) => {
                let rows = of(0)?;
                Some(Rows { map: rows.map.then_node(edit, index)?, ..rows })
            }
            _ => None,
        }
    }
}

/// Returns the axis of an operand that its product sums over.
fn summed_axis(edit: &Edit<'_>, value: ValueId, operand: usize) -> Option<usize> {
    edit.rank(value)?.checked_sub(1 + operand)
}

impl Rows {
    /// Returns the rows of a value of this shape that is computed along these axes within the rows.
    fn within(self, axes: &[usize], shape: &[Dim]) -> Option<Rows> {
        let resized = |map: AxisMap, &axis: &usize| map.with_repeats(axis, shape.get(axis)?);
        Some(Rows { map: axes.iter().try_fold(self.map, resized)?, ..self })
    }

    fn broadcast(self, shape: &[Dim]) -> Option<Rows> {
        Some(Rows { map: self.map.broadcast(shape)?, ..self })
    }

    fn and(&self, other: &Rows) -> Option<Rows> {
        let is_mixed = self.is_mixed && other.is_mixed;
        (self.map == other.map).then(|| Rows { map: self.map.clone(), is_mixed })
    }
}

#[cfg(test)]
mod tests {
    use onnx::OpType;

    use crate::layout::attention::{Stage, run};

    /// Two heads of size two over five rows of five batches. The given nodes make `q`, `k` and `v` of `x`, which
    /// a norm makes of `r`, and of other inputs.
    #[track_caller]
    fn is_fused(nodes: &[&str]) -> bool {
        is_fused_with("-2.4e38", nodes)
    }

    /// The same with a number in the place of masked scores.
    #[track_caller]
    fn is_fused_with(number: &str, nodes: &[&str]) -> bool {
        let nodes = nodes.join("\n");
        let graph = format!(
            "graph g(r:f32[5,5,4], o:f32[5,5,4], m:bool[5,1,1,5]) -> (y)
x:f32[5,5,4] = LayerNormalization(r, 1.5) {{axis=2, epsilon=1e-5}}
{nodes}
q4:f32[5,5,2,2] = Reshape(q, [5, 5, 2, 2]:i64)
qt:f32[5,2,5,2] = Transpose(q4) {{perm=[0, 2, 1, 3]}}
k4:f32[5,5,2,2] = Reshape(k, [5, 5, 2, 2]:i64)
kt:f32[5,2,2,5] = Transpose(k4) {{perm=[0, 2, 3, 1]}}
s:f32[5,2,5,5] = MatMul(qt, kt)
masked:f32[5,2,5,5] = Where(m, s, {number})
p:f32[5,2,5,5] = Softmax(masked) {{axis=3}}
v4:f32[5,5,2,2] = Reshape(v, [5, 5, 2, 2]:i64)
vt:f32[5,2,5,2] = Transpose(v4) {{perm=[0, 2, 1, 3]}}
ot:f32[5,2,5,2] = MatMul(p, vt)
o4:f32[5,5,2,2] = Transpose(ot) {{perm=[0, 2, 1, 3]}}
y:f32[5,5,4] = Reshape(o4, [5, 5, 4]:i64)"
        );
        let mut model = onnx::text::parse_graph(&graph).expect("a graph");
        model.edit(&mut |edit| run(edit, Stage::Any));
        model.graph.nodes.iter().any(|node| node.op == OpType::Attention)
    }

    fn matrix(number: &str, size: usize) -> String {
        let row = format!("[{}]", vec![number; size].join(", "));
        format!("[{}]:f32", vec![row; size].join(", "))
    }

    fn projection(result: &str, of: &str) -> String {
        format!("{result}:f32[5,5,4] = MatMul({of}, {})", matrix("0.5", 4))
    }

    fn projections() -> [String; 3] {
        ["q", "k", "v"].map(|result| projection(result, "x"))
    }

    /// The rows of a value as batches.
    const TURNED: &str = "turned:f32[5,5,4] = Transpose(x) {perm=[1, 0, 2]}";

    #[test]
    fn projections_of_a_norm_are_fused() {
        let [q, k, v] = projections();
        assert!(is_fused(&[&q, &k, &v]));
    }

    #[test]
    fn projections_of_what_has_no_limit_are_not() {
        let [q, k, v] = projections();
        let all = ["q", "k", "v"].map(|result| projection(result, "r"));
        assert!(!is_fused(&all.each_ref().map(String::as_str)));
        assert!(!is_fused(&[&q, &projection("k", "r"), &v]), "the keys");
        assert!(!is_fused(&[&projection("q", "o"), &k, &v]), "the queries");
    }

    #[test]
    fn scores_that_overflow_are_not_fused() {
        let [q, k, v] = projections();
        for number in ["inf", "nan", "1e37"] {
            assert!(!is_fused(&[&q, &k.replace("0.5", number), &v]), "{number}");
        }
        let [large_q, large_k] = [&q, &k].map(|side| side.replace("0.5", "1e18"));
        assert!(is_fused(&[&large_q, &k, &v]));
        assert!(!is_fused(&[&large_q, &large_k, &v]));
        assert!(is_fused(&[&q, &k, &v.replace("0.5", "nan")]), "values may be anything");
    }

    #[test]
    fn kept_scores_must_be_far_above_the_number_of_masked_ones() {
        let [q, k, v] = projections();
        assert!(is_fused_with("-1e9", &[&q, &k, &v]));
        assert!(is_fused_with("-200.0", &[&q, &k, &v]));
        assert!(!is_fused_with("-100.0", &[&q, &k, &v]), "a weight may not be zero");
        assert!(!is_fused_with("nan", &[&q, &k, &v]));
        // The rows of the norm have the length 3, so that queries are at most 3 and keys at most 180,000.
        let k = k.replace("0.5", "3e4");
        assert!(is_fused_with("-1.2e6", &[&q, &k, &v]));
        assert!(!is_fused_with("-1e6", &[&q, &k, &v]));
        let large_q = q.replace("0.5", "1e18");
        assert!(!is_fused_with("-1e9", &[&large_q, &k, &v]));
    }

    #[test]
    fn a_row_of_values_must_be_nan_as_a_whole() {
        let [q, k, _] = projections();
        let by_head = format!(
            "x4:f32[5,5,2,2] = Reshape(x, [5, 5, 2, 2]:i64)
w4:f32[5,5,2,2] = MatMul(x4, {})
v:f32[5,5,4] = Reshape(w4, [5, 5, 4]:i64)",
            matrix("0.5", 2)
        );
        let joined = "a:f32[5,5,2] = Slice(all, [0]:i64, [2]:i64, [2]:i64)
b:f32[5,5,2] = Slice(x, [0]:i64, [2]:i64, [2]:i64)
v:f32[5,5,4] = Concat(a, b) {axis=2}";
        let chosen = "zero:bool[5,5,4] = Equal(o, 0.0)\nv:f32[5,5,4] = Where(zero, all, 0.0)";
        assert!(!is_fused(&[&q, &k, &by_head]));
        assert!(!is_fused(&[&q, &k, &projection("all", "x"), joined]));
        assert!(!is_fused(&[&q, &k, &projection("all", "x"), chosen]));
    }

    #[test]
    fn values_must_have_all_rows() {
        let part = |result: &str, first: usize| {
            let product = format!("of_{result}:f32[5,6,4] = MatMul(long, {})", matrix("0.5", 4));
            let last = first + 5;
            format!(
                "{product}\n{result}:f32[5,5,4] = Slice(of_{result}, [{first}]:i64, [{last}]:i64, [1]:i64)"
            )
        };
        let long = "one:f32[5,1,4] = Slice(r, [0]:i64, [1]:i64, [1]:i64)
more:f32[5,6,4] = Concat(r, one) {axis=1}
long:f32[5,6,4] = LayerNormalization(more, 1.5) {axis=2, epsilon=1e-5}";
        assert!(!is_fused(&[long, &part("q", 0), &part("k", 1), &part("v", 0)]));
    }

    #[test]
    fn rows_of_other_batches_are_not_taken_for_each_other() {
        let [q, k, v] = projections();
        assert!(!is_fused(&[&q, TURNED, &projection("k", "turned"), &v]));
        assert!(!is_fused(&[&k, TURNED, &projection("q", "turned"), &v]));
        let positive = "positive:f32[5,5,4] = Relu(turned)";
        let sum = "k:f32[5,5,4] = Add(of_k, positive)";
        assert!(!is_fused(&[&q, TURNED, positive, &projection("of_k", "x"), sum, &v]));
    }

    #[test]
    fn what_is_added_to_a_projection_must_not_be_nan() {
        let [q, _, v] = projections();
        let of_k = projection("of_k", "x");
        assert!(is_fused(&[&q, &of_k, "k:f32[5,5,4] = Add(of_k, 3.0)", &v]));
        assert!(!is_fused(&[&q, &of_k, "k:f32[5,5,4] = Add(of_k, o)", &v]));
        let limited = "t:f32[5,5,4] = Tanh(o)\nk:f32[5,5,4] = Add(of_k, t)";
        assert!(!is_fused(&[&q, &of_k, limited, &v]));
    }
}
