//! Fuses the read of one entry of an axis: `x[…, i, …]`.

use algebra::pattern::{Pattern, hole, node};
use algebra::rewrite::{Declined, Match, Result, ensure};
use onnx::{Op, OpType, Tensor};

/// A slice of size one along an axis, which a squeeze then drops
pub(super) fn pick() -> Pattern {
    let starts = hole("starts");
    let part = node(OpType::Slice, &[&hole("x"), &starts, &hole("ends"), &hole("axes")]);
    node(OpType::Squeeze, &[&part.named("part"), &hole("dropped")])
}

fn ints(found: &Match<'_, '_, '_>, name: &str) -> Result<Vec<i64>> {
    let tensor = found.tensor(found.value(name)?);
    tensor.and_then(Tensor::ints).ok_or_else(|| Declined(format!("the {name} are unknown")))
}

pub(super) fn to_entry_of_one_axis(found: &mut Match<'_, '_, '_>) -> Result<Op> {
    let axes = ints(found, "axes")?;
    let (&[axis], &[start]) = (&axes[..], &ints(found, "starts")?[..]) else {
        return Err("several axes are sliced".into());
    };
    let part = found.ty(found.value("part")?)?;
    let is_one =
        usize::try_from(axis).is_ok_and(|axis| part.shape.get(axis).is_some_and(|dim| dim.is(1)));
    ensure(
        is_one && ints(found, "dropped")? == axes && start >= 0,
        "the squeeze drops other axes",
    )?;
    let x = found.value("x")?;
    found.expect_kernel(OpType::Gather, x)?;
    let place = found.integer(start).ok_or("no index")?;
    Ok(Op::new(OpType::Gather, &[x, place]).attr("axis", axis))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, formulas};

    #[test]
    fn one_entry_is_gathered() {
        check(
            formulas(&crate::indices::index::ENTRIES),
            "graph g(x:f32[B,5,3]) -> (y)
%0:f32[B,1,3] = Slice(x, [4]:i64, [5]:i64, [1]:i64)
y:f32[B,3] = Squeeze(%0, [1]:i64)",
            expect![[r#"
                graph g(x:f32[B,5,3]) -> (y)
                y:f32[B,3] = Gather(x, 4:i64) {axis=1}  # 3 2
            "#]],
        );
    }

    #[test]
    fn an_entry_of_two_axes_is_not() {
        check(
            formulas(&crate::indices::index::ENTRIES),
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
