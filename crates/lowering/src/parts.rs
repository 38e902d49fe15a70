//! Complex numbers, as pairs of a real and an imaginary part.

use onnx::Expr;

/// `re + i·im`
#[derive(Clone, Copy)]
pub(crate) struct Complex<'g> {
    pub re: Expr<'g>,
    pub im: Expr<'g>,
}

impl<'g> Complex<'g> {
    /// Splits pairs into their parts.
    #[track_caller]
    pub fn of(pairs: Expr<'g>) -> Complex<'g> {
        let constant = pairs.tensor().filter(|_| pairs.rank() == 1);
        if let Some(&[re, im]) = constant.and_then(|tensor| tensor.floats()).as_deref() {
            let number = |value| pairs.builder.scalar(pairs.dtype(), value);
            return Complex { re: number(re), im: number(im) };
        }
        if let Some([re, im]) = pairs.builder.parts_of(pairs) {
            return Complex { re, im };
        }
        let axis = pairs.rank() - 1;
        let part = |i: i64| pairs.slice_axis(axis, i, i + 1).squeeze(&[axis]);
        Complex { re: part(0), im: part(1) }
    }

    /// Returns a real number as a complex number.
    #[track_caller]
    pub fn of_real(re: Expr<'g>) -> Complex<'g> {
        Complex { re, im: re.constant(0.0) }
    }

    /// Joins the parts to pairs; both parts broadcast to a common shape.
    #[track_caller]
    pub fn pairs(self) -> Expr<'g> {
        let shape = onnx::expr::broadcast_shapes(&self.re.shape(), &self.im.shape());
        let shape = shape.unwrap_or_else(|| self.re.shape().to_vec());
        let parts = [self.re.expand(&shape), self.im.expand(&shape)];
        let pairs = Expr::concat(&parts.map(|part| part.unsqueeze(&[shape.len()])), shape.len());
        pairs.builder.note_parts(pairs, parts);
        pairs
    }

    /// True if a value is made of parts, so that they need not be taken from it.
    pub fn is_apart(pairs: Expr<'_>) -> bool {
        pairs.builder.parts_of(pairs).is_some()
    }
}
