//! `Trilu`: keeps the elements on one side of a diagonal, and replaces the others by zero.

use onnx::{DType, Op, OpType, Tensor};

use crate::algebra::pattern::{Pattern, constant, either, hole, node};
use crate::rewrite::{Declined, Formulas, Found, Rewrite};

pub(crate) static REWRITES: Formulas = Formulas::new(&[&[Rewrite {
    name: "fuse-triangle",
    pattern: triangle,
    replacement: to_trilu,
}]]);

/// `mask ? x : 0`, or `mask ? 0 : x`
fn triangle() -> Pattern {
    let (mask, x, zero) = (constant("mask"), hole("x"), Pattern::from(0.0));
    either(&[
        &node(OpType::Where, &[&mask, &x, &zero]).named("kept"),
        &node(OpType::Where, &[&mask, &zero, &x]),
    ])
}

fn to_trilu(found: &mut Found<'_, '_, '_>) -> Result<Op, Declined> {
    let x = found.value("x")?;
    let ty = found.ty(x)?;
    if ty != found.ty(found.result())? {
        return Err("the mask has more axes than the operand".into());
    }
    let mask = found.edit.tensor(found.value("mask")?).ok_or("the mask is not constant")?;
    let (lead, whole) = (mask.shape.len().checked_sub(2), ty.shape.len().checked_sub(2));
    let (Some(lead), Some(whole)) = (lead, whole) else {
        return Err("the operand is not a matrix".into());
    };
    let matrix = &mask.shape[lead..];
    if !ty.shape[whole..].iter().zip(matrix).all(|(dim, &size)| dim.is(size)) {
        return Err("the mask is not over the last two axes".into());
    }
    let triangle = Triangle::of(mask, matrix[1], found.maybe("kept").is_some());
    let Triangle { is_upper, diagonal } = triangle.ok_or("the mask is not a triangle")?;
    found.expect_kernel(OpType::Trilu, x)?;
    let diagonal = Tensor::of_ints(DType::I64, Vec::new(), &[diagonal]).ok_or("no diagonal")?;
    let diagonal = found.constant(diagonal);
    Ok(Op::new(OpType::Trilu, &[x, diagonal]).attr("upper", i64::from(is_upper)))
}

/// The elements from a diagonal on: `column ≥ row + diagonal`, or `column ≤ row + diagonal`.
struct Triangle {
    is_upper: bool,
    diagonal: i64,
}

impl Triangle {
    /// The triangle that a mask of rows of this width keeps, where it keeps one of its two sides and
    /// not everything.
    fn of(mask: &Tensor, width: i64, kept: bool) -> Option<Triangle> {
        let width = usize::try_from(width).ok().filter(|&width| width > 0)?;
        let bytes = mask.bytes();
        let rows = || bytes.chunks_exact(width);
        if bytes.len() / width != *mask.shape.iter().rev().nth(1)? as usize {
            return None;
        }
        // A lower triangle has as many elements in its first row as its diagonal is to the right, or
        // begins in a later row.
        let of_lower = |flag: bool| {
            let length = |row: &[u8]| row.iter().take_while(|&&found| (found != 0) == flag).count();
            let first = rows().position(|row| length(row) > 0)? as i64;
            let diagonal = if first > 0 { -first } else { length(rows().next()?) as i64 - 1 };
            let is_lower = rows().zip(0..).all(|(row, number)| {
                let end = number + diagonal;
                row.iter()
                    .zip(0..)
                    .all(|(&found, column)| ((found != 0) == flag) == (column <= end))
            });
            (is_lower && diagonal + 1 < width as i64).then_some(diagonal)
        };
        let lower = of_lower(kept).map(|diagonal| Triangle { is_upper: false, diagonal });
        lower.or_else(|| {
            let below = of_lower(!kept)?;
            Some(Triangle { is_upper: true, diagonal: below + 1 })
        })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{check, formulas};

    #[test]
    fn one_side_of_a_diagonal_is_a_triangle() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[B,2,3], i:i32[2,3]) -> (a, b, c, d)
a:f32[B,2,3] = Where([[true, false, false], [true, true, false]], x, 0.0)
b:f32[B,2,3] = Where([[[true, true, false], [true, true, true]]], 0.0, x)
c:i32[2,3] = Where([[false, false, false], [true, false, false]], i, 0:i32)
d:i32[2,3] = Where([[false, false, false], [true, false, false]], 0:i32, i)",
            expect![[r#"
                graph g(x:f32[B,2,3], i:i32[2,3]) -> (a, b, c, d)
                a:f32[B,2,3] = Trilu(x, 0:i64) {upper=0}  # 2
                b:f32[B,2,3] = Trilu(x, 2:i64) {upper=1}  # 3
                c:i32[2,3] = Trilu(i, -1:i64) {upper=0}  # 4
                d:i32[2,3] = Trilu(i, 0:i64) {upper=1}  # 5
            "#]],
        );
    }

    #[test]
    fn a_mask_that_is_not_a_triangle_is_not_fused() {
        check(
            formulas(&super::REWRITES),
            "graph g(x:f32[2,2], h:f16[2,2], r:f32[2], m:bool[2,2]) -> (a, b, c, d, e, f, g, i, y)
a:f32[2,2] = Where([[true, false], [false, true]], x, 0.0)
b:f32[2,2] = Where([[true, false], [true, true]], x, 1.0)
c:f32[2,2] = Where([[true, false], [true, true]], x, -0.0)
d:f32[2,2] = Where([[true, false], [true, true]], r, 0.0)
e:f32[2,2] = Where(m, x, 0.0)
f:f32[2,2] = Where([[true], [false]], x, 0.0)
g:f32[2,2] = Where([[true, true], [true, true]], x, 0.0)
i:f16[2,2] = Where([[true, false], [true, true]], h, 0.0:f16)
y:f32[2,2,2] = Where([[[true, false], [true, true]], [[true, false], [false, false]]], x, 0.0)",
            expect![[r#"
                graph g(x:f32[2,2], h:f16[2,2], r:f32[2], m:bool[2,2]) -> (a, b, c, d, e, f, g, i, y)
                a:f32[2,2] = Where([[true, false], [false, true]], x, 0.0)  # 2
                b:f32[2,2] = Where([[true, false], [true, true]], x, 1.0)  # 3
                c:f32[2,2] = Where([[true, false], [true, true]], x, -0.0)  # 4
                d:f32[2,2] = Where([[true, false], [true, true]], r, 0.0)  # 5
                e:f32[2,2] = Where(m, x, 0.0)  # 6
                f:f32[2,2] = Where([[true], [false]], x, 0.0)  # 7
                g:f32[2,2] = Where([[true, true], [true, true]], x, 0.0)  # 8
                i:f16[2,2] = Where([[true, false], [true, true]], h, 0.0:f16)  # 9
                y:f32[2,2,2] = Where([[[true, false], [true, true]], [[true, false], [false, false]]], x, 0.0)  # 10
            "#]],
        );
    }
}
