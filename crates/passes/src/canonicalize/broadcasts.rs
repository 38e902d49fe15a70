//! `bypass-expand`: drops the broadcast of an operand if the operator broadcasts it itself.

use algebra::axis_map::{Step, added_units, emit_last};
use algebra::rewrite::require;
use algebra::sizes::adds_leading_axes;
use onnx::expr::broadcast_shapes;
use onnx::kernels::Limit;
use onnx::operator::properties::{BROADCAST_OPS, BROADCASTING, LAYOUT_OPS, POINTWISE, RESHAPES};
use onnx::{Dim, Edit, Op, OpType, Outcome, Patch, ValueId};

use super::Rule;

pub(crate) const RULE: Rule = Rule {
    name: "bypass-expand",
    does: "drops the broadcast of an operand if the operator broadcasts it itself",
    apply: bypass_expand,
};

pub(crate) const SINK_RULE: Rule = Rule {
    name: "sink-expand",
    does: "broadcasts the result of an elementwise operator instead of its operand",
    apply: |patch| sink_expand(patch).or_else(|| sink_repeated_number(patch)),
};

pub(crate) const DELAY_RULE: Rule = Rule {
    name: "delay-expand",
    does: "adds axes of size one before a broadcast instead of after it, and broadcasts to the size of a slice",
    apply: delay_expand,
};

/// If all operands are broadcast along an axis, computes the result once and broadcasts it.
fn sink_expand(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let node = edit.node(index);
    let op = node.op.onnx()?;
    require(op.is(POINTWISE) && op != OpType::Identity)?;
    let mut inputs = edit.inputs(index);
    let (operand, expand) = inputs.iter().enumerate().find_map(|(operand, &value)| {
        let value = value.filter(|&value| edit.reads(value) == 1 || may_sink_apart(edit, value))?;
        Some((operand, edit.made_by(value, OpType::Expand)?))
    })?;
    inputs[operand] = edit.input(expand, 0);
    let operands: Option<Vec<ValueId>> = inputs.iter().copied().collect();
    let narrow = broadcast_shape(edit, &operands?)?;
    let result = edit.ty(node.outputs[0])?;
    let expanded = broadcast_shapes(&narrow, &edit.result_ty(expand)?.shape)?;
    let is_broadcast = narrow[..] != result.shape[..] && expanded[..] == result.shape[..];
    // A plugin may have cast the result after the `Expand`, because the runtime has no `Expand` for its type.
    let has_kernel = edit.has_kernel(OpType::Expand, result.dtype);
    // ONNX Runtime drops some broadcasts to empty arrays, for which nothing is computed anyway.
    let is_empty = result.shape.iter().any(|dim| dim.is(0));
    require(is_broadcast && has_kernel && !is_empty)?;
    let sizes = edit.input(expand, 1)?;
    let op = Op::of(node, inputs);
    let result = edit.insert(op);
    edit.done(&[expand], Op::new(OpType::Expand, &[result, sizes]))
}

/// True if a few elementwise operators read a broadcast, and others read their results, which probably broadcast them.
fn may_sink_apart(edit: &Edit<'_>, value: ValueId) -> bool {
    const MAX_READS: usize = 4;
    let is_pointwise = |reader: usize| edit.node(reader).op.is(POINTWISE);
    let passes_on = |reader: usize| is_pointwise(reader) || edit.op(reader) == Some(OpType::Slice);
    let sinks = |reader: usize| {
        let result = edit.result(reader);
        let is_read = (1..=MAX_READS).contains(&edit.reads(result)) && !edit.is_result(result);
        is_pointwise(reader) && is_read && edit.readers(result).all(passes_on)
    };
    edit.reads(value) <= MAX_READS && !edit.is_result(value) && edit.readers(value).all(sinks)
}

/// If only a constant with equal elements determines the size of an axis, computes with one of its elements, and
/// broadcasts the result.
fn sink_repeated_number(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    require(edit.node(index).op.is(BROADCASTING))?;
    let result = edit.result_ty(index)?.clone();
    let mut inputs = edit.inputs(index);
    let is_array = |value: ValueId| edit.rank(value).is_some_and(|rank| rank > 0);
    let (operand, constant) = inputs.iter().enumerate().find_map(|(operand, &value)| {
        let value = value.filter(|&value| is_array(value) && edit.number(value).is_some())?;
        (!edit.is_captured(value)).then_some((operand, value))
    })?;
    let others = inputs.iter().enumerate().filter(|&(other, _)| other != operand);
    let others: Vec<ValueId> = others.map(|(_, &value)| value).collect::<Option<_>>()?;
    let narrow = broadcast_shape(edit, &others)?;
    let number = edit.tensor(constant)?;
    let units = vec![1; number.shape.len()];
    let of_units: Vec<Dim> = units.iter().copied().map(Dim::Known).collect();
    let is_number = narrow.iter().all(|dim| dim.is(1));
    let is_repeated = broadcast_shapes(&narrow, &of_units)?[..] != result.shape[..];
    let is_empty = result.shape.iter().any(|dim| dim.is(0));
    let has_kernel = edit.has_kernel(OpType::Expand, result.dtype);
    require(is_repeated && !is_number && !is_empty && has_kernel)?;
    let number = number.sliced(&vec![0; units.len()], &units, &units)?;
    inputs[operand] = Some(edit.constant(number, &[constant]));
    let value = edit.insert(Op::of(edit.node(index), inputs));
    let op = emit_last(edit, &[index], value, &[Step::Broadcast(result.shape.to_vec())]).ok()?;
    edit.done(&[], op)
}

/// Adds unit axes before a broadcast instead of after it, if a reader may broadcast by itself. Broadcasts to the size of
/// a slice along repeated axes.
fn delay_expand(patch: &mut Patch<'_, '_>) -> Outcome {
    let node = patch.node(patch.root());
    match node.op.onnx()? {
        OpType::Slice => return broadcast_to_slice(patch),
        op if op.is(LAYOUT_OPS) => return broadcast_number(patch),
        _ => {}
    }
    require(node.op.is(BROADCASTING) || node.op == OpType::Expand)?;
    let operands = patch.inputs(patch.root());
    operands.into_iter().find_map(|operand| delay(patch, patch.producer(operand?)?))
}

fn delay(edit: &mut Patch<'_, '_>, index: usize) -> Outcome {
    let node = edit.node(index);
    require(node.op.is(RESHAPES))?;
    let (before, after) = (edit.input(index, 0)?, node.outputs[0]);
    let expand = edit.made_by(before, OpType::Expand)?;
    let narrow = edit.input(expand, 0)?;
    let [before, after] = [before, after].map(|value| edit.ty(value).map(|ty| ty.shape.clone()));
    let (of_narrow, before, after) = (edit.shape(narrow)?.to_vec(), before?, after?);
    let missing = before.len().checked_sub(of_narrow.len())?;
    let units = added_units(&before, &after)?;
    let mut own = [&vec![Dim::Known(1); missing][..], &of_narrow].concat();
    for axis in units {
        own.insert(axis as usize, Dim::Known(1));
    }
    require(own[..] != after[..])?;
    let reshape = Step::reshape(&of_narrow, &own);
    let steps: Vec<Step> = reshape.into_iter().chain([Step::Broadcast(after.to_vec())]).collect();
    edit.move_to(index);
    let op = emit_last(edit, &[index, expand], narrow, &steps).ok()?;
    Some(edit.replace(index, [expand], op))
}

/// Broadcasts a number to the shape that a layout op gives an array of this number.
fn broadcast_number(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let expand = edit.made_by(edit.input(index, 0)?, OpType::Expand)?;
    let number = edit.input(expand, 0)?;
    let tensor = edit.tensor(number).filter(|tensor| tensor.len() == 1)?.with_shape(Vec::new());
    let shape = edit.result_ty(index)?.shape.to_vec();
    require(!shape.iter().any(|dim| dim.is(0)))?;
    let number = edit.constant(tensor, &[number]);
    let op = emit_last(edit, &[index, expand], number, &[Step::Broadcast(shape)]).ok()?;
    edit.done(&[expand], op)
}

fn broadcast_to_slice(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let expand = edit.made_by(edit.input(index, 0)?, OpType::Expand)?;
    let axes = edit.ints(index, 3)?;
    let narrow = edit.input(expand, 0)?;
    let (repeated, sliced) = (edit.result_ty(expand)?, edit.result_ty(index)?);
    let missing = repeated.rank().checked_sub(edit.rank(narrow)?)?;
    let is_repeated = |axis: usize| {
        let own = edit.shape(narrow).zip(axis.checked_sub(missing));
        own.is_none_or(|(own, axis)| own.get(axis).is_some_and(|dim| dim.is(1)))
    };
    let axes: Vec<usize> = axes.into_iter().map(usize::try_from).collect::<Result<_, _>>().ok()?;
    // ONNX Runtime drops some broadcasts to empty arrays.
    let is_empty = sliced.shape.iter().any(|dim| dim.is(0));
    require(!is_empty)?;
    let sliced = Step::Broadcast(sliced.shape.to_vec());
    let narrow = if axes.iter().copied().all(is_repeated) {
        narrow
    } else {
        // The slice of a constant is a constant.
        require(edit.tensor(narrow).is_some() && !axes.iter().copied().any(is_repeated))?;
        let own: Vec<i64> = axes.iter().map(|axis| (axis - missing) as i64).collect();
        let mut inputs = edit.inputs(index);
        inputs[0] = Some(narrow);
        inputs[3] = edit.integers(&own);
        edit.insert(Op::of(edit.node(index), inputs))
    };
    let op = emit_last(edit, &[index, expand], narrow, &[sliced]).ok()?;
    edit.done(&[expand], op)
}

/// Returns the shape to which values broadcast.
pub(crate) fn broadcast_shape(edit: &Edit<'_>, values: &[ValueId]) -> Option<Vec<Dim>> {
    values.iter().try_fold(Vec::new(), |shape, &value| broadcast_shapes(&shape, edit.shape(value)?))
}

fn bypass_expand(patch: &mut Patch<'_, '_>) -> Outcome {
    let node = patch.node(patch.root());
    let operands = match node.op.onnx()? {
        OpType::Expand => 1,
        op if op.is(BROADCASTING) => node.inputs.len(),
        _ => 0,
    };
    require(operands != 0)?;
    let mut inputs = patch.inputs(patch.root());
    let mut passed = Vec::new();
    for operand in 0..operands {
        while let Some((node, narrow)) = without_expand(patch, &inputs, operand) {
            passed.push(node);
            inputs[operand] = Some(narrow);
        }
    }
    let op = Op::of(node, inputs);
    (!passed.is_empty()).then(|| patch.done(&passed, op))?
}

/// Returns the node that broadcasts an operand of the root or adds leading unit axes to it, and the operand of that
/// node. `None` if the shape of the result depends on the node.
///
/// Without the node, a bias stays a parameter.
fn without_expand(
    patch: &Patch<'_, '_>,
    inputs: &[Option<ValueId>],
    operand: usize,
) -> Option<(usize, ValueId)> {
    let shape_of = |id: ValueId| patch.shape(id).map(<[Dim]>::to_vec);
    let producer = patch.producer(inputs[operand]?)?;
    let narrow = patch.input(producer, 0)?;
    match patch.op(producer)? {
        OpType::Expand => {}
        op if op.is(RESHAPES) => {
            let wide = shape_of(patch.result(producer))?;
            require(adds_leading_axes(&shape_of(narrow)?, &wide))?;
        }
        _ => return None,
    }
    let node = patch.node(patch.root());
    let is_needed = node.op == OpType::Where && operand == 2;
    require(!(is_needed && patch.target().has_limit(Limit::WhereRepeats)))?;
    let result = shape_of(node.outputs[0])?;
    let operands = inputs.iter().enumerate().map(|(other, &input)| match node.op.onnx() {
        _ if other == operand => shape_of(narrow),
        Some(OpType::Expand) => expand_sizes(patch, patch.root()),
        _ => shape_of(input?),
    });
    let joined = operands
        .into_iter()
        .try_fold(Vec::<Dim>::new(), |joined, shape| broadcast_shapes(&joined, &shape?));
    (joined?[..] == result[..]).then_some((producer, narrow))
}

/// Returns the sizes to which an `Expand` broadcasts. They differ from the shape of its result if the operand has axes
/// that the sizes lack.
pub(super) fn expand_sizes(edit: &Edit<'_>, expand: usize) -> Option<Vec<Dim>> {
    let (x, sizes) = edit.pair(expand)?;
    let is_number = || edit.shape(x).is_some_and(<[Dim]>::is_empty);
    let result = || is_number().then(|| Some(edit.result_ty(expand)?.shape.to_vec()))?;
    edit.sizes(sizes).or_else(result)
}

/// Walks back through nodes that only add leading unit axes, as broadcasting does too. Returns the value before them,
/// and the nodes.
pub(super) fn without_leading_axes(edit: &Edit<'_>, value: ValueId) -> (ValueId, Vec<usize>) {
    let adds_axes = |&(index, narrow): &(usize, ValueId)| {
        let shape_of = |id: ValueId| edit.shape(id);
        let wide = shape_of(edit.result(index));
        shape_of(narrow).zip(wide).is_some_and(|(narrow, wide)| adds_leading_axes(narrow, wide))
    };
    let (passed, sources): (Vec<usize>, Vec<ValueId>) =
        edit.walk(value, BROADCAST_OPS).take_while(adds_axes).unzip();
    (sources.last().copied().unwrap_or(value), passed)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, check_all, check_lean, each};

    #[test]
    fn the_reader_broadcasts_and_inherits_the_origin() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[2,3], b:f32[3]) -> (y)
%0:f32[2,3] = Expand(b, [2, 3]:i64)
y:f32[2,3] = Add(x, %0)",
            expect![[r#"
                graph g(x:f32[2,3], b:f32[3]) -> (y)
                %0 = Expand(b, [2, 3]:i64)  # 2
                y:f32[2,3] = Add(x, b)  # 3 2
            "#]],
        );
    }

    #[test]
    fn the_last_operand_of_a_choice_is_repeated_for_a_runtime_that_does_not() {
        testing::check_for(
            "mnn",
            super::RULE.apply,
            "graph g(c:bool[2,3], x:f32[2,3], b:f32[3]) -> (y, z)
%0:f32[2,3] = Expand(b, [2, 3]:i64)
y:f32[2,3] = Where(c, x, %0)
z:f32[2,3] = Where(c, %0, x)",
            expect![[r#"
                graph g(c:bool[2,3], x:f32[2,3], b:f32[3]) -> (y, z)
                %0 = Expand(b, [2, 3]:i64)  # 2
                y:f32[2,3] = Where(c, x, %0)  # 3
                z:f32[2,3] = Where(c, b, x)  # 4 2
            "#]],
        );
    }

    #[test]
    fn a_broadcast_needs_no_leading_unit_axes() {
        check(
            each(super::RULE.apply),
            "graph g(b:f32[3]) -> (y, z)
%0:f32[1,3] = Unsqueeze(b, [0]:i64)
y:f32[2,3] = Expand(%0, [2, 3]:i64)
%1:f32[3,1] = Unsqueeze(b, [1]:i64)
z:f32[3,3] = Expand(%1, [3, 3]:i64)",
            expect![[r#"
                graph g(b:f32[3]) -> (y, z)
                %0 = Unsqueeze(b, [0]:i64)  # 2
                y:f32[2,3] = Expand(b, [2, 3]:i64)  # 3 2
                %1 = Unsqueeze(b, [1]:i64)  # 4
                z:f32[3,3] = Expand(%1, [3, 3]:i64)  # 5
            "#]],
        );
    }

    #[test]
    fn a_broadcast_of_an_axis_that_the_sizes_of_the_reader_lack_is_kept() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[1,1], b:f32[3], r:f32[N,1]) -> (y, z, u)
%0:f32[1,7] = Expand(x, [1, 7]:i64)
y:f32[7,7] = Expand(%0, [7, 1]:i64)
%1:f32[1,3] = Unsqueeze(b, [0]:i64)
z:f32[1,3] = Expand(%1, [3]:i64)
%2:i64[2] = Shape(r)
%3:f32[1,7] = Expand(x, [7]:i64)
u:f32[N,7] = Expand(%3, %2)",
            expect![[r#"
                graph g(x:f32[1,1], b:f32[3], r:f32[N,1]) -> (y, z, u)
                %0 = Expand(x, [1, 7]:i64)  # 2
                y:f32[7,7] = Expand(%0, [7, 1]:i64)  # 3
                %1 = Unsqueeze(b, [0]:i64)  # 4
                z:f32[1,3] = Expand(%1, [3]:i64)  # 5
                %2 = Shape(r)  # 6
                %3 = Expand(x, [7]:i64)  # 7
                u:f32[N,7] = Expand(%3, %2)  # 8
            "#]],
        );
    }

    #[test]
    fn leading_axes_need_no_expand() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[2,3], b:f32[3], c:f32[2]) -> (y)
%0:f32[1,3] = Reshape(b, [1, 3]:i64)
%1:f32[2,1] = Reshape(c, [2, 1]:i64)
%2:f32[2,3] = Mul(x, %1)
y:f32[2,3] = Add(%2, %0)",
            expect![[r#"
                graph g(x:f32[2,3], b:f32[3], c:f32[2]) -> (y)
                %0 = Reshape(b, [1, 3]:i64)  # 2
                %1 = Reshape(c, [2, 1]:i64)  # 3
                %2 = Mul(x, %1)  # 4
                y:f32[2,3] = Add(%2, b)  # 5 2
            "#]],
        );
    }

    #[test]
    fn an_expand_that_determines_the_shape_is_kept() {
        check(
            each(super::RULE.apply),
            "graph g(x:f32[1,3], b:f32[3]) -> (y)
%0:f32[2,3] = Expand(b, [2, 3]:i64)
y:f32[2,3] = Add(x, %0)",
            expect![[r#"
                graph g(x:f32[1,3], b:f32[3]) -> (y)
                %0 = Expand(b, [2, 3]:i64)  # 2
                y:f32[2,3] = Add(x, %0)  # 3
            "#]],
        );
    }

    #[test]
    fn one_of_two_expands_that_determine_the_shape_is_kept() {
        check(
            each(super::RULE.apply),
            "graph g(a:f32[3], b:f32[3]) -> (y)
%0:f32[2,3] = Expand(a, [2, 3]:i64)
%1:f32[2,3] = Expand(b, [2, 3]:i64)
y:f32[2,3] = Mul(%0, %1)",
            expect![[r#"
                graph g(a:f32[3], b:f32[3]) -> (y)
                %0 = Expand(a, [2, 3]:i64)  # 2
                %1 = Expand(b, [2, 3]:i64)  # 3
                y:f32[2,3] = Mul(a, %1)  # 4 2
            "#]],
        );
    }

    #[test]
    fn a_broadcast_to_an_empty_array_is_kept() {
        check_all(
            &[&each(super::SINK_RULE.apply), &testing::drop_dead],
            "graph g(x:f32[N,1]) -> (y)
%0:f32[1,0] = Expand(2.0, [1, 0]:i64)
y:f32[N,0] = Mul(x, %0)",
            expect![[r#"
                graph g(x:f32[N,1]) -> (y)
                %0 = Expand(2.0, [1, 0]:i64)  # 2
                y:f32[N,0] = Mul(x, %0)  # 3
            "#]],
        );
    }

    #[test]
    fn an_elementwise_operator_runs_before_the_broadcast() {
        check_all(
            &[&each(super::SINK_RULE.apply), &testing::drop_dead],
            "graph g(x:f32[2,1]) -> (y)
%0:f32[2,3] = Expand(x, [2, 3]:i64)
%1:f32[2,3] = Add(%0, 0.5)
y:f32[2,3] = Sqrt(%1)",
            expect![[r#"
                graph g(x:f32[2,1]) -> (y)
                %0 = Add(x, 0.5)  # 3
                %1 = Sqrt(%0)  # 4
                y:f32[2,3] = Expand(%1, [2, 3]:i64)  # 2 3 4
            "#]],
        );
    }

    #[test]
    fn a_broadcast_of_a_type_without_a_kernel_is_not_inserted() {
        check(
            each(super::SINK_RULE.apply),
            "graph g(x:bf16[1]) -> (y)
%0:f32[1] = Cast(x) {to=1}
%1:f32[3] = Expand(%0, [3]:i64)
y:bf16[3] = Cast(%1) {to=16}",
            expect![[r#"
                graph g(x:bf16[1]) -> (y)
                %0 = Cast(x) {to=1}  # 2
                %1 = Expand(%0, [3]:i64)  # 3
                y:bf16[3] = Cast(%1) {to=16}  # 4
            "#]],
        );
    }

    #[test]
    fn a_broadcast_with_other_readers_or_next_to_an_array_is_kept() {
        check(
            each(super::SINK_RULE.apply),
            "graph g(x:f32[2,1], z:f32[2,3]) -> (y, u, v)
%0:f32[2,3] = Expand(x, [2, 3]:i64)
y:f32[2,3] = Sqrt(%0)
u:f32[2,3] = Neg(%0)
%1:f32[2,3] = Expand(x, [2, 3]:i64)
v:f32[2,3] = Mul(%1, z)",
            expect![[r#"
                graph g(x:f32[2,1], z:f32[2,3]) -> (y, u, v)
                %0 = Expand(x, [2, 3]:i64)  # 2
                y:f32[2,3] = Sqrt(%0)  # 3
                u:f32[2,3] = Neg(%0)  # 4
                %1 = Expand(x, [2, 3]:i64)  # 5
                v:f32[2,3] = Mul(%1, z)  # 6
            "#]],
        );
    }

    #[test]
    fn a_comparison_that_is_the_same_for_all_batches_runs_once() {
        check_lean(
            crate::canonicalize::everything,
            "graph g(x:f32[B,T], s:i64[2], i:i32[T]) -> (y)
%0:i32[B,T] = Expand(i, s)
%1:i32[B,T,1] = Unsqueeze(%0, [2]:i64)
%2:i32[B,1,T] = Unsqueeze(%0, [1]:i64)
%3:bool[B,T,T] = GreaterOrEqual(%1, %2)
%4:f32[B,T,1] = Unsqueeze(x, [2]:i64)
y:f32[B,T,T] = Where(%3, %4, 0.0)",
            expect![[r#"
                graph g(x:f32[B,T], s:i64[2], i:i32[T]) -> (y)
                %0 = Reshape(i, [1, -1, 1]:i64)  # 3 2
                %1 = GreaterOrEqual(%0, i)  # 5 2 3
                %2 = Unsqueeze(x, [2]:i64)  # 6
                y:f32[B,T,T] = Where(%1, %2, 0.0)  # 7 2 3 4 5
            "#]],
        );
    }

    #[test]
    fn a_broadcast_result_keeps_its_shape() {
        check_lean(
            crate::canonicalize::everything,
            "graph g(x:f32[B,3], i:f32[3], j:f32[4,1]) -> (y)
%0:i64[1] = Shape(x) {end=1, start=0}
%1:i64[3] = Concat(%0, [1, 3]:i64) {axis=0}
%2:f32[B,1,3] = Expand(i, %1)
y:f32[B,4,3] = Mul(%2, j)",
            expect![[r#"
                graph g(x:f32[B,3], i:f32[3], j:f32[4,1]) -> (y)
                %0 = Shape(x) {end=1, start=0}  # 2
                %1 = Concat(%0, [1, 3]:i64) {axis=0}  # 3
                %2 = Mul(i, j)  # 5
                y:f32[B,4,3] = Expand(%2, %1)  # 4 5
            "#]],
        );
    }

    #[test]
    fn a_slice_of_repeated_entries_broadcasts_to_its_own_size() {
        check_lean(
            each(super::DELAY_RULE.apply),
            "graph g(x:f32[B,1,3]) -> (y, z, u)
%0:f32[B,9,3] = Expand(x, [1, 9, 1]:i64)
y:f32[B,4,3] = Slice(%0, [1]:i64, [9]:i64, [1]:i64, [2]:i64)
z:f32[B,9,2] = Slice(%0, [0]:i64, [2]:i64, [2]:i64)
%1:f32[9,2] = Expand([1.0, 0.0], [9, 2]:i64)
u:f32[9,1] = Slice(%1, [1]:i64, [2]:i64, [1]:i64)",
            expect![[r#"
                graph g(x:f32[B,1,3]) -> (y, z, u)
                %0 = Expand(x, [1, 9, 1]:i64)  # 2
                y:f32[B,4,3] = Expand(x, [1, 4, 1]:i64)  # 2 3
                z:f32[B,9,2] = Slice(%0, [0]:i64, [2]:i64, [2]:i64)  # 4
                %1 = Slice([1.0, 0.0], [1]:i64, [2]:i64, [0]:i64)  # 6
                u:f32[9,1] = Expand(%1, [9, 1]:i64)  # 5 6
            "#]],
        );
    }

    #[test]
    fn a_repeated_number_is_broadcast_to_the_shape_after_a_layout_op() {
        check_lean(
            each(super::DELAY_RULE.apply),
            "graph g(x:f32[1]) -> (y, z)
%0:f32[4,3,1] = Expand(2.0, [4, 3, 1]:i64)
y:f32[4,3] = Squeeze(%0, [2]:i64)
%1:f32[4,1] = Expand(x, [4, 1]:i64)
z:f32[1,4] = Transpose(%1) {perm=[1, 0]}",
            expect![[r#"
                graph g(x:f32[1]) -> (y, z)
                y:f32[4,3] = Expand(2.0, [4, 3]:i64)  # 2 3
                %0 = Expand(x, [4, 1]:i64)  # 4
                z:f32[1,4] = Transpose(%0) {perm=[1, 0]}  # 5
            "#]],
        );
    }

    #[test]
    fn a_constant_with_equal_elements_is_used_once() {
        check_lean(
            each(super::SINK_RULE.apply),
            "graph g(x:f32[1,2], y:f32[3,2], n:f32[]) -> (u, v, w)
u:f32[3,2] = Mul(x, [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
v:f32[3,2] = Mul(y, [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
w:f32[2] = Mul(n, [5.0, 5.0])",
            expect![[r#"
                graph g(x:f32[1,2], y:f32[3,2], n:f32[]) -> (u, v, w)
                %0 = Mul(x, [[0.0]])  # 2
                u:f32[3,2] = Expand(%0, [3, 1]:i64)  # 2
                v:f32[3,2] = Mul(y, [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])  # 3
                w:f32[2] = Mul(n, [5.0, 5.0])  # 4
            "#]],
        );
    }

    #[test]
    fn two_operators_that_read_a_broadcast_run_before_it() {
        check_lean(
            each(super::SINK_RULE.apply),
            "graph g(x:f32[1,2], y:f32[3,2]) -> (u, v)
%0:f32[3,2] = Expand(x, [3, 2]:i64)
%1:f32[3,2] = Mul(x, %0)
%2:f32[3,2] = Neg(%0)
u:f32[3,2] = Add(%1, y)
v:f32[3,2] = Mul(%2, y)",
            expect![[r#"
                graph g(x:f32[1,2], y:f32[3,2]) -> (u, v)
                %0 = Mul(x, x)  # 3
                %1 = Expand(%0, [3, 2]:i64)  # 2 3
                %2 = Neg(x)  # 4
                %3 = Expand(%2, [3, 2]:i64)  # 2 4
                u:f32[3,2] = Add(%1, y)  # 5
                v:f32[3,2] = Mul(%3, y)  # 6
            "#]],
        );
    }
}
