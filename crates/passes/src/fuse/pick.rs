//! One entry of an axis: `x[…, i, …]`.

use onnx::{DType, Op, Tensor};

use crate::pattern::{Pattern, hole, node};
use crate::rewrite::{Declined, Found, Rewrite};

pub(super) const REWRITES: &[Rewrite] =
    &[Rewrite { name: "fuse-pick", pattern: pick, replacement: to_gather }];

/// A part of size one of an axis, and then the axis dropped.
fn pick() -> Pattern {
    let starts = hole("starts");
    let part = node("Slice", &[&hole("x"), &starts, &hole("ends"), &hole("axes")]);
    node("Squeeze", &[&part.named("part"), &hole("dropped")])
}

fn to_gather(found: &mut Found<'_, '_>) -> Result<Op<'static>, Declined> {
    let ints = |found: &Found<'_, '_>, name: &str| {
        let tensor = found.edit.tensor(found.value(name)?);
        tensor.and_then(Tensor::ints).ok_or_else(|| Declined(format!("the {name} are not known")))
    };
    let axes = ints(found, "axes")?;
    let (&[axis], [start]) = (&axes[..], &ints(found, "starts")?[..]) else {
        return Err("it is a part of several axes".into());
    };
    let part = found.ty(found.value("part")?)?;
    let is_one =
        usize::try_from(axis).is_ok_and(|axis| part.shape.get(axis).is_some_and(|dim| dim.is(1)));
    if !is_one || ints(found, "dropped")? != axes || *start < 0 {
        return Err("other axes are dropped".into());
    }
    let x = found.value("x")?;
    found.expect_kernel("Gather", x)?;
    let place = Tensor::of_ints(DType::I64, Vec::new(), &[*start]).ok_or("no index")?;
    let place = found.constant(place);
    Ok(Op::new("Gather", &[x, place]).attr("axis", axis))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn one_entry_is_gathered() {
        check(
            crate::fuse::picks,
            "graph g(x:f32[B,5,3]) -> (y)
%0:f32[B,1,3] = Slice(x, [4]:i64, [5]:i64, [1]:i64)
y:f32[B,3] = Squeeze(%0, [1]:i64)",
            expect![[r#"
                graph g(x:f32[B,5,3]) -> (y)
                %0 = Slice(x, [4]:i64, [5]:i64, [1]:i64)  # 2
                y:f32[B,3] = Gather(x, 4:i64) {axis=1}  # 3 2
            "#]],
        );
    }

    #[test]
    fn an_entry_of_two_axes_is_not() {
        check(
            crate::fuse::picks,
            "graph g(x:f32[4,5,3]) -> (y)
%0:f32[1,1,3] = Slice(x, [1, 4]:i64, [2, 5]:i64, [0, 1]:i64)
y:f32[1,3] = Squeeze(%0, [1]:i64)",
            expect![[r#"
                graph g(x:f32[4,5,3]) -> (y)
                %0 = Slice(x, [1, 4]:i64, [2, 5]:i64, [0, 1]:i64)  # 2
                y:f32[1,3] = Squeeze(%0, [1]:i64)  # 3
            "#]],
        );
    }
}
