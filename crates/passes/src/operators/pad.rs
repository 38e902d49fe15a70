//! `fuse-pads`: folds zero padding into the convolution that reads it.

use algebra::rewrite::require;
use onnx::{Attr, Edit, OpType, Outcome, Patch};

pub(crate) fn run(patch: &mut Patch<'_, '_>) -> Outcome {
    let (by, amounts) = padding(patch, patch.root())?;
    let op = patch.op_with(patch.root(), 0, patch.input(by, 0)?);
    patch.done(&[by], op.attr("pads", Attr::Ints(amounts.into())))
}

/// Returns the node that pads the operand of a convolution, if nothing else reads the operand, and the numbers of zeros
/// before and after each axis, including those that the convolution adds itself.
fn padding(edit: &Edit<'_>, index: usize) -> Option<(usize, Vec<i64>)> {
    let node = edit.node(index);
    let is_convolution = node.op == OpType::Conv && node.attr("auto_pad").is_none();
    let array = edit.input(index, 0).filter(|_| is_convolution)?;
    let by = edit.made_by(array, OpType::Pad).filter(|_| edit.reads(array) == 1)?;
    let is_zero = edit.input(by, 2).is_none_or(|value| edit.number(value) == Some(0.0));
    require(is_zero && edit.node(by).attr("mode").is_none() && edit.input(by, 3).is_none())?;
    let all = edit.ints(by, 1)?;
    let (before, after) = all.split_at_checked(all.len() / 2)?;
    let is_of_places = [before, after].iter().all(|amounts| {
        amounts.iter().take(2).all(|&amount| amount == 0)
            && amounts.iter().all(|&amount| amount >= 0)
    });
    let mut amounts = [before.get(2..)?, after.get(2..)?].concat();
    if let Some(Attr::Ints(own)) = node.attr("pads") {
        amounts.iter_mut().zip(own.iter()).for_each(|(amount, own)| *amount += own);
    }
    is_of_places.then_some((by, amounts))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check_lean, each};

    #[test]
    fn zeros_around_an_image_are_those_of_the_convolution() {
        check_lean(
            each(super::run),
            "graph g(x:f32[B,3,8,8], w:f32[4,3,3,3]) -> (y, z)
%0:f32[B,3,9,10] = Pad(x, [0, 0, 0, 1, 0, 0, 1, 1]:i64, 0.0)
y:f32[B,4,4,5] = Conv(%0, w) {strides=[2, 2], pads=[1, 0, 0, 1]}
%1:f32[B,3,8,8] = Relu(x)
%2:f32[B,3,10,10] = Pad(%1, [0, 0, 1, 1, 0, 0, 1, 1]:i64)
z:f32[B,4,8,8] = Conv(%2, w)",
            expect![[r#"
                graph g(x:f32[B,3,8,8], w:f32[4,3,3,3]) -> (y, z)
                y:f32[B,4,4,5] = Conv(x, w) {pads=[1, 1, 1, 2], strides=[2, 2]}  # 3 2
                %0 = Relu(x)  # 4
                z:f32[B,4,8,8] = Conv(%0, w) {pads=[1, 1, 1, 1]}  # 6 5
            "#]],
        );
    }

    #[test]
    fn other_pads_are_left() {
        let graph = |pad: &str| {
            format!(
                "graph g(x:f32[1,3,8,8], w:f32[4,3,3,3]) -> (y)
%0:f32[1,3,10,10] = {pad}
y:f32[1,4,8,8] = Conv(%0, w)"
            )
        };
        for pad in [
            "Pad(x, [0, 0, 1, 1, 0, 0, 1, 1]:i64, 1.0)",
            "Pad(x, [0, 0, 1, 1, 0, 0, 1, 1]:i64) {mode=\"edge\"}",
            "Pad(x, [0, 0, 3, 1, 0, 0, -1, 1]:i64)",
            "Pad(x, [1, 1, 1, 1]:i64, 0.0, [2, 3]:i64)",
        ] {
            let mut model = onnx::text::parse_graph(&graph(pad)).unwrap();
            assert!(!model.edit(&mut each(super::run)), "{pad}");
        }
    }
}
