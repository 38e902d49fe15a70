//! Lowers a convolution whose operand is dilated.

use onnx::{Dim, Expr, OpType, Range};

use super::Convolution;

impl<'g> Convolution<'g> {
    /// <https://onnx.ai/onnx/operators/onnx__ConvTranspose.html>
    ///
    /// In an array with dilation `d`, element `i` meets element `k` of the window in
    /// `out[d·i + low − k·e]`. This is `out[d·i + k'·e − ((K − 1)·e − low)]`, with `k'` counted
    /// from the end, which `ConvTranspose` computes with stride `d` and padding `(K − 1)·e − low`.
    /// If this padding is negative, the missing results are zeros, which a `Pad` adds.
    ///
    /// Returns `None` if the convolution has a stride or symbolic padding, which `ConvTranspose`
    /// does not support.
    pub(super) fn transposed(&self) -> Option<Expr<'g>> {
        if self.slides.len() > 3 || self.slides.iter().any(|slide| slide.stride != 1) {
            return None;
        }
        let builder = self.lhs.builder;
        let mut cut = Vec::new();
        for slide in &self.slides {
            let (low, high) = slide.known_padding()?;
            let reach = (slide.size - 1) * slide.window_dilation;
            cut.push((reach - low, reach - high));
        }
        let sides = |of: fn(&(i64, i64)) -> i64| cut.iter().map(of);
        let both = || sides(|cut| cut.0).chain(sides(|cut| cut.1));

        let mut attrs = self.attrs(|slide| slide.base_dilation);
        let pads: Vec<i64> = both().map(|side| side.max(0)).collect();
        if pads.iter().any(|&pad| pad != 0) {
            attrs.push(("pads", pads[..].into()));
        }
        let mut shape = self.shape.clone();
        for (i, &(low, high)) in cut.iter().enumerate() {
            let missing = Dim::Known((-low).max(0) + (-high).max(0));
            shape[i + 2] = builder.difference(&shape[i + 2], &missing);
        }
        if shape.iter().any(|dim| dim.known().is_some_and(|size| size < 1)) {
            return None;
        }
        let inputs = [self.lhs, self.flipped()?];
        let spread = builder.sized_node(OpType::ConvTranspose, &inputs, attrs, &shape);
        if both().all(|side| side >= 0) {
            return Some(spread);
        }
        let around = |of: fn(&(i64, i64)) -> i64| {
            [0, 0].into_iter().chain(cut.iter().map(move |cut| (-of(cut)).max(0)))
        };
        let amounts: Vec<i64> = around(|cut| cut.0).chain(around(|cut| cut.1)).collect();
        let amounts = builder.ints(&amounts);
        Some(builder.sized_node(OpType::Pad, &[spread, amounts], Vec::new(), &self.shape))
    }

    /// Returns the reversed window, with the channels of the operand before those of the result.
    fn flipped(&self) -> Option<Expr<'g>> {
        let shape = self.rhs.shape();
        let ranges: Vec<Range> = (0..shape.len())
            .map(|axis| {
                let is_window = axis >= 2 && !shape[axis].is(1);
                if is_window { Range::backwards() } else { Range::whole() }
            })
            .collect();
        let flipped = self.rhs.slice(&ranges, &shape);
        if self.groups == 1 {
            let order: Vec<usize> = [1, 0].into_iter().chain(2..shape.len()).collect();
            return Some(flipped.transpose(&order));
        }
        let groups = Dim::Known(self.groups);
        let out = Dim::Known(shape[0].known()? / self.groups);
        let window = &shape[2..];
        let apart = [&[groups.clone(), out.clone(), shape[1].clone()], window].concat();
        let order: Vec<usize> = [0, 2, 1].into_iter().chain(3..apart.len()).collect();
        let channels = self.rhs.builder.product(&[groups, shape[1].clone()]);
        let joined = [&[channels, out], window].concat();
        Some(flipped.reshape(&apart).transpose(&order).reshape(&joined))
    }
}
