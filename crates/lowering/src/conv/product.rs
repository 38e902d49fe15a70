//! A convolution as a product of matrices.

use onnx::{Dim, Expr};

use super::Convolution;

impl<'g> Convolution<'g> {
    /// `out[n, g, o, s] = Σ_d rhs[g, o, d] · windows[n, g, d, s]`, where `d` counts the channels of a
    /// group and the places of the window
    ///
    /// For the types that `Conv` has no kernel for, and for arrays that are both spread out and
    /// strided over.
    pub(super) fn product(&self) -> Expr<'g> {
        let builder = self.lhs.builder;
        let spaces = self.slides.len();
        let mut windows = self.lhs;
        for (i, slide) in self.slides.iter().enumerate() {
            let zero = self.lhs.constant(0.0);
            windows = slide.windows(windows, 2 + 2 * i, &self.shape[2 + i], zero);
        }
        // Batch and channels, the places of the window, then space.
        let places = (0..spaces).map(|i| 3 + 2 * i);
        let space = (0..spaces).map(|i| 2 + 2 * i);
        let order: Vec<usize> = [0, 1].into_iter().chain(places).chain(space).collect();
        let windows = windows.transpose(&order);

        let (batch, space) = (&self.shape[0], builder.product(&self.shape[2..]));
        let depth = builder.product(&self.rhs.shape()[1..]);
        if self.groups == 1 {
            let windows = windows.reshape(&[batch.clone(), depth.clone(), space]);
            let weights = self.rhs.reshape(&[self.shape[1].clone(), depth]);
            return weights.matmul(windows).reshape(&self.shape);
        }
        let groups = Dim::Known(self.groups);
        let channels = match self.shape[1].known() {
            Some(channels) => Dim::Known(channels / self.groups),
            None => self.shape[1].clone(),
        };
        let windows = windows.reshape(&[batch.clone(), groups.clone(), depth.clone(), space]);
        let weights = self.rhs.reshape(&[groups, channels, depth]);
        weights.matmul(windows).reshape(&self.shape)
    }
}
