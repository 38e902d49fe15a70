//! `multiply-by-reciprocals`: multiplies by the reciprocal of a divisor, as XLA does, if a function with steps shows it.
//!
//! XLA computes `x / c` as `x · (1 / c)` if `c` is a constant or is broadcast. The results differ in the last digit, which is
//! rounding until a function such as `round` follows. With the scale `max(|x|) / 127.5` of a quantizer, `x / scale` is at a
//! step for the largest `x`, and the last digit decides between two integers.

use algebra::rewrite::require;
use onnx::operator::properties::{POINTWISE, VIEW_OPS};
use onnx::{DType, Edit, OpType, Outcome, Patch};
use rustc_hash::FxHashSet;

/// So many nodes are looked at after a quotient.
const MAX_NODES: usize = 32;

pub(crate) fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    require(edit.node(index).op == OpType::Div)?;
    let (x, divisor) = edit.pair(index)?;
    let dtype = edit.dtype(x)?;
    let is_float = matches!(dtype, DType::F32 | DType::F64);
    require(is_float && reaches_step(edit, index))?;
    let shape = edit.result_ty(index)?.shape.clone();
    let product = if let Some(number) = edit.number(divisor) {
        // A divisor of shape `[1, 1]` adds axes to a number.
        require(edit.shape(x)? == &*shape)?;
        let reciprocal = reciprocal(number, dtype)?;
        edit.formula([x], |[x]| x * reciprocal)
    } else {
        let is_broadcast = edit.shape(divisor)? != &*shape;
        require(is_broadcast && edit.has_kernel(OpType::Reciprocal, dtype))?;
        edit.formula([x, divisor], |[x, divisor]| x * divisor.unary(OpType::Reciprocal))
    };
    edit.settle(product)
}

/// Returns the reciprocal of a constant, unless a quotient is the same.
fn reciprocal(number: f64, dtype: DType) -> Option<f64> {
    let is_single = dtype == DType::F32;
    let reciprocal = if is_single { f64::from(1.0 / number as f32) } else { 1.0 / number };
    let is_normal =
        if is_single { (reciprocal as f32).is_normal() } else { reciprocal.is_normal() };
    (is_normal && !is_power_of_two(number)).then_some(reciprocal)
}

/// True if a number is a power of two, so that its reciprocal is exact.
fn is_power_of_two(number: f64) -> bool {
    number.to_bits().trailing_zeros() >= f64::MANTISSA_DIGITS - 1
}

/// True if a function with steps reads the result of a node, directly or through elementwise operators and layout ops.
fn reaches_step(edit: &Edit<'_>, index: usize) -> bool {
    let mut seen: FxHashSet<usize> = FxHashSet::default();
    let mut open = vec![index];
    while let Some(node) = open.pop() {
        for reader in edit.readers(edit.result(node)) {
            if is_step(edit, reader) {
                return true;
            }
            let op = &edit.node(reader).op;
            let is_passed = op.is(POINTWISE) || op.is(VIEW_OPS);
            if is_passed && seen.len() < MAX_NODES && seen.insert(reader) {
                open.push(reader);
            }
        }
    }
    false
}

/// True if a node computes a function of floats with steps.
fn is_step(edit: &Edit<'_>, index: usize) -> bool {
    let node = edit.node(index);
    let dtype = |value| edit.dtype(value);
    let from = edit.operands(index).next().and_then(dtype);
    let to = edit.result_ty(index).map(|ty| ty.dtype);
    let is_rounding = [OpType::Round, OpType::Floor, OpType::Ceil].iter().any(|op| node.op == *op);
    let is_cast = node.op == OpType::Cast && to.is_some_and(DType::is_int);
    from.is_some_and(DType::is_float) && (is_rounding || is_cast)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, each};

    #[test]
    fn a_scale_that_rounding_shows_is_a_product() {
        check(
            each(super::run),
            "graph g(x:f32[4,8], m:f32[4]) -> (y)
             s:f32[4] = Div(m, 127.5)
             c:f32[4,1] = Unsqueeze(s, [1]:i64)
             q:f32[4,8] = Div(x, c)
             y:f32[4,8] = Round(q)",
            expect![[r#"
                graph g(x:f32[4,8], m:f32[4]) -> (y)
                s = Mul(m, 0.007843138)  # 2
                c = Unsqueeze(s, [1]:i64)  # 3
                %0 = Reciprocal(c)  # 4
                q = Mul(x, %0)  # 4
                y:f32[4,8] = Round(q)  # 5
            "#]],
        );
    }

    #[test]
    fn a_quotient_that_becomes_an_integer_is_a_product() {
        check(
            each(super::run),
            "graph g(x:f32[4]) -> (y)
             q:f32[4] = Div(x, 0.1)
             m:f32[4] = Max(q, -128.0)
             y:i8[4] = Cast(m) {to=3}",
            expect![[r#"
                graph g(x:f32[4]) -> (y)
                q = Mul(x, 10.0)  # 2
                m = Max(q, -128.0)  # 3
                y:i8[4] = Cast(m) {to=3}  # 4
            "#]],
        );
    }

    #[test]
    fn a_quotient_by_a_scale_for_each_row_is_a_product() {
        check(
            each(super::run),
            "graph g(x:f32[B,8], s:f32[B,1]) -> (y)
             q:f32[B,8] = Div(x, s)
             y:f32[B,8] = Round(q)",
            expect![[r#"
                graph g(x:f32[B,8], s:f32[B,1]) -> (y)
                %0 = Reciprocal(s)  # 2
                q = Mul(x, %0)  # 2
                y:f32[B,8] = Round(q)  # 3
            "#]],
        );
    }

    #[test]
    fn a_divisor_that_adds_axes_is_kept() {
        check(
            each(super::run),
            "graph g(x:f32[]) -> (y)
             q:f32[1,1] = Div(x, [[3.0]]:f32)
             y:f32[1,1] = Round(q)",
            expect![[r#"
                graph g(x:f32[]) -> (y)
                q = Div(x, [[3.0]])  # 2
                y:f32[1,1] = Round(q)  # 3
            "#]],
        );
    }

    #[test]
    fn a_quotient_by_as_many_numbers_is_kept() {
        check(
            each(super::run),
            "graph g(x:f32[B,8], s:f32[B,8]) -> (y)
             q:f32[B,8] = Div(x, s)
             y:f32[B,8] = Round(q)",
            expect![[r#"
                graph g(x:f32[B,8], s:f32[B,8]) -> (y)
                q = Div(x, s)  # 2
                y:f32[B,8] = Round(q)  # 3
            "#]],
        );
    }

    #[test]
    fn a_quotient_without_a_step_is_kept() {
        check(
            each(super::run),
            "graph g(x:f32[4], w:f32[4,4]) -> (y)
             q:f32[4] = Div(x, 0.1)
             p:f32[4] = MatMul(q, w)
             y:f32[4] = Round(p)",
            expect![[r#"
                graph g(x:f32[4], w:f32[4,4]) -> (y)
                q = Div(x, 0.1)  # 2
                p = MatMul(q, w)  # 3
                y:f32[4] = Round(p)  # 4
            "#]],
        );
    }

    #[test]
    fn a_quotient_by_a_power_of_two_is_kept() {
        check(
            each(super::run),
            "graph g(x:f32[4]) -> (y)
             q:f32[4] = Div(x, 8.0)
             y:f32[4] = Round(q)",
            expect![[r#"
                graph g(x:f32[4]) -> (y)
                q = Div(x, 8.0)  # 2
                y:f32[4] = Round(q)  # 3
            "#]],
        );
    }

    #[test]
    fn a_quotient_in_double_precision_is_a_product_too() {
        check(
            each(super::run),
            "graph g(x:f64[4]) -> (y)
             q:f64[4] = Div(x, 3.0:f64)
             y:f64[4] = Floor(q)",
            expect![[r#"
                graph g(x:f64[4]) -> (y)
                q = Mul(x, 0.3333333333333333:f64)  # 2
                y:f64[4] = Floor(q)  # 3
            "#]],
        );
    }
}
