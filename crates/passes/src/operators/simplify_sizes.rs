//! `simplify-sizes`: reads all sizes of one array with a single node.

use algebra::rewrite::require;
use algebra::sizes::{computed_size, shape_of};
use onnx::{DType, Dim, Op, OpType, Outcome, Patch, Type, ValueId};

pub(crate) fn run(patch: &mut Patch<'_, '_>) -> Outcome {
    match patch.op(patch.root())? {
        OpType::Concat => join(patch, patch.root()),
        OpType::Mul => multiply(patch, patch.root()),
        _ => None,
    }
}

/// Replaces consecutive sizes of an array by one `Shape`.
fn join(edit: &mut Patch<'_, '_>, index: usize) -> Outcome {
    let ty = edit.result_ty(index)?.clone();
    let mut sizes = Vec::new();
    let mut fused = Vec::new();
    let mut place = None;
    let parts: Vec<ValueId> = edit.inputs(index).into_iter().collect::<Option<_>>()?;
    for &part in &parts {
        if let Some(tensor) = edit.tensor(part) {
            sizes.extend(tensor.ints()?.into_iter().map(Dim::Known));
            continue;
        }
        // If another node reads the cast, the cast would stay.
        let is_cast = |node: &usize| edit.node(*node).op == OpType::Cast;
        let cast = edit.producer(part).filter(is_cast);
        let uses = parts.iter().filter(|&&other| other == part).count();
        require(cast.is_none() || edit.reads(part) == uses)?;
        fused.extend(cast);
        let part = cast.map_or(Some(part), |cast| edit.input(cast, 0))?;
        let shape = shape_of(edit, part)?;
        fused.extend(edit.producer(part));
        place = place.or(shape.start.checked_sub(sizes.len()).map(|start| (shape.of, start)));
        sizes.extend_from_slice(&edit.ty(shape.of)?.shape[shape.start..shape.end]);
    }
    let (array, start) = place?;
    let shape = edit.shape(array)?;
    let end = start + sizes.len();
    let is_in_order = shape.get(start..end).is_some_and(|dims| *dims == sizes[..]);
    require(is_in_order && matches!(ty.dtype, DType::I64 | DType::I32))?;
    let mut op = Op::new(OpType::Shape, &[array]);
    if sizes.len() < shape.len() {
        op = op.attr("start", start as i64).attr("end", end as i64);
    }
    if ty.dtype == DType::I64 {
        return edit.done(&fused, op);
    }
    let shape = edit.insert_for(&fused, op);
    let cast = Op::new(OpType::Cast, &[shape]).attr("to", i64::from(ty.dtype.code()));
    edit.done(&fused, cast)
}

/// Replaces the product of all sizes of an array by `Size`.
fn multiply(edit: &mut Patch<'_, '_>, index: usize) -> Outcome {
    let result = edit.result(index);
    require(*edit.ty(result)? == Type::new(DType::I64, Vec::new()))?;
    let (size, mut nodes) = computed_size(edit, result)?;
    let op = |index: usize| &edit.node(index).op;
    require(!nodes.iter().any(|&node| *op(node) == OpType::Cast))?;
    let is_whole = |&array: &ValueId| {
        edit.ty(array).is_some_and(|ty| {
            let has_kernel = edit.has_kernel(OpType::Size, ty.dtype);
            has_kernel && Dim::checked_product(&*ty.shape).as_ref() == Some(&size)
        })
    };
    let arrays = nodes.iter().filter(|&&node| *op(node) == OpType::Shape);
    let array = arrays.filter_map(|&node| edit.input(node, 0)).find(is_whole)?;
    nodes.retain(|&node| node != index);
    edit.done(&nodes, Op::new(OpType::Size, &[array]))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{check_lean, each};

    #[test]
    fn all_sizes_of_an_array_are_its_shape() {
        check_lean(
            each(super::run),
            "graph g(x:f32[B,3,T], z:f32[T], q:f32[T,T]) -> (y, w, v, u)
%0:i64[1] = Shape(x) {end=1, start=0}
%1:i64[1] = Shape(z)
y:i64[3] = Concat(%0, [3]:i64, %1) {axis=0}
%2:i32[1] = Cast(%1) {to=6}
w:i32[2] = Concat([3]:i32, %2) {axis=0}
%3:i64[1] = Shape(x) {end=3, start=2}
%4:i32[1] = Cast(%3) {to=6}
v:i32[2] = Concat([3]:i32, %4) {axis=0}
%5:i64[1] = Shape(q) {end=1, start=0}
%6:i32[1] = Cast(%5) {to=6}
u:i32[2] = Concat(%6, %6) {axis=0}",
            expect![[r#"
                graph g(x:f32[B,3,T], z:f32[T], q:f32[T,T]) -> (y, w, v, u)
                %0 = Shape(z)  # 3
                y:i64[3] = Shape(x)  # 3 2 4
                %1 = Cast(%0) {to=6}  # 5
                w:i32[2] = Concat([3]:i32, %1) {axis=0}  # 6
                %2 = Shape(x) {end=3, start=1}  # 7 8 9
                v:i32[2] = Cast(%2) {to=6}  # 8 7 9
                %3 = Shape(q)  # 10 11 12
                u:i32[2] = Cast(%3) {to=6}  # 11 10 12
            "#]],
        );
    }

    #[test]
    fn another_order_or_another_number_is_left() {
        check_lean(
            each(super::run),
            "graph g(x:f32[B,3]) -> (y, z, w)
%0:i64[1] = Shape(x) {end=1, start=0}
y:i64[2] = Concat([3]:i64, %0) {axis=0}
z:i64[2] = Concat(%0, [4]:i64) {axis=0}
%1:i64[] = Squeeze(%0, [0]:i64)
w:i64[] = Mul(%1, 4:i64)",
            expect![[r#"
                graph g(x:f32[B,3]) -> (y, z, w)
                %0 = Shape(x) {end=1, start=0}  # 2
                y:i64[2] = Concat([3]:i64, %0) {axis=0}  # 3
                z:i64[2] = Concat(%0, [4]:i64) {axis=0}  # 4
                %1 = Squeeze(%0, [0]:i64)  # 5
                w:i64[] = Mul(%1, 4:i64)  # 6
            "#]],
        );
    }

    #[test]
    fn the_product_of_all_sizes_is_the_size() {
        check_lean(
            each(super::run),
            "graph g(x:f32[B,3,T]) -> (y, z)
%0:i64[1] = Shape(x) {end=1, start=0}
%1:i64[] = Squeeze(%0, [0]:i64)
%2:i64[] = Mul(3:i64, %1)
%3:i64[1] = Shape(x) {end=3, start=2}
%4:i64[] = Squeeze(%3, [0]:i64)
y:i64[] = Mul(%2, %4)
z:i64[] = Mul(%1, %4)",
            expect![[r#"
                graph g(x:f32[B,3,T]) -> (y, z)
                %0 = Shape(x) {end=1, start=0}  # 2
                %1 = Squeeze(%0, [0]:i64)  # 3
                %2 = Shape(x) {end=3, start=2}  # 5
                %3 = Squeeze(%2, [0]:i64)  # 6
                y:i64[] = Size(x)  # 7 2 3 4 5 6
                z:i64[] = Mul(%1, %3)  # 8
            "#]],
        );
    }

    #[test]
    fn the_sizes_of_an_array_without_a_kernel_are_multiplied() {
        check_lean(
            each(super::run),
            "graph g(x:bf16[B,3,T]) -> (y, z)
%0:i64[1] = Shape(x) {end=1, start=0}
%1:i64[] = Squeeze(%0, [0]:i64)
%2:i64[] = Mul(3:i64, %1)
%3:i64[1] = Shape(x) {end=3, start=2}
%4:i64[] = Squeeze(%3, [0]:i64)
y:i64[] = Mul(%2, %4)
z:i64[] = Mul(%1, %4)",
            expect![[r#"
                graph g(x:bf16[B,3,T]) -> (y, z)
                %0 = Shape(x) {end=1, start=0}  # 2
                %1 = Squeeze(%0, [0]:i64)  # 3
                %2 = Mul(3:i64, %1)  # 4
                %3 = Shape(x) {end=3, start=2}  # 5
                %4 = Squeeze(%3, [0]:i64)  # 6
                y:i64[] = Mul(%2, %4)  # 7
                z:i64[] = Mul(%1, %4)  # 8
            "#]],
        );
    }
}
