//! Lowers a convolution as a matrix product.

use std::slice::from_ref;

use onnx::{Dim, Expr};

use super::Convolution;

impl<'g> Convolution<'g> {
    /// `out[n, g, o, s] = Σ_d rhs[g, o, d] · windows[n, g, d, s]`, where `d` runs over the channels
    /// of a group and the elements of the window
    ///
    /// Used for types without a kernel of `Conv`, for arrays that are both dilated and strided, and
    /// for windows of a symbolic size, as in the derivative with respect to the weights.
    pub(super) fn product(&self) -> Expr<'g> {
        let builder = self.lhs.builder;
        let spaces = self.slides.len();
        let window = self.rhs.shape();
        let mut windows = self.lhs;
        for (i, slide) in self.slides.iter().enumerate() {
            let zero = self.lhs.constant(0.0);
            let count = if self.exchanged[i] { &window[2 + i] } else { &self.shape[2 + i] };
            windows = slide.windows(windows, 2 + 2 * i, count, zero);
        }
        let (batch, space) = (&self.shape[0], builder.product(&self.shape[2..]));
        let depth = builder.product(&window[1..]);
        let groups = Dim::Known(self.groups);
        let channels = match self.shape[1].known() {
            Some(channels) => Dim::Known(channels / self.groups),
            None => self.shape[1].clone(),
        };
        let lead = if self.groups == 1 { vec![] } else { vec![groups] };
        let weights = self.rhs.reshape(&[&lead[..], &[channels, depth.clone()]].concat());

        let places = (0..spaces).map(|i| 2 + 2 * i + usize::from(!self.exchanged[i]));
        let space_axes = (0..spaces).map(|i| 2 + 2 * i + usize::from(self.exchanged[i]));
        if batch.known().is_some() {
            // The order is batch, channels, elements of the window, then spatial axes.
            let order: Vec<usize> = [0, 1].into_iter().chain(places).chain(space_axes).collect();
            let shape = [from_ref(batch), &lead[..], &[depth, space]].concat();
            let windows = windows.transpose(&order).reshape(&shape);
            return weights.matmul(windows).reshape(&self.shape);
        }
        // ONNX Runtime fails on a matrix product with an empty batch, but not on one without
        // columns.
        let order: Vec<usize> =
            [1].into_iter().chain(places).chain([0]).chain(space_axes).collect();
        let columns = builder.product(&[from_ref(batch), &self.shape[2..]].concat());
        let shape = [&lead[..], &[depth, columns]].concat();
        let windows = windows.transpose(&order).reshape(&shape);
        let mut shape = self.shape.clone();
        shape.swap(0, 1);
        let mut back: Vec<usize> = (0..shape.len()).collect();
        back.swap(0, 1);
        weights.matmul(windows).reshape(&shape).transpose(&back)
    }
}
