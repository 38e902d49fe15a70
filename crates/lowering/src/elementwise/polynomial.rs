//! Polynomials by Horner's rule.

use onnx::Expr;

/// `c₀ xⁿ + c₁ xⁿ⁻¹ + … + cₙ`
#[track_caller]
pub(crate) fn polynomial<'g>(x: Expr<'g>, coefficients: &[f64]) -> Expr<'g> {
    x.builder.helper("polynomial", || {
        let (first, rest) = coefficients.split_first().unwrap_or((&0.0, &[]));
        rest.iter().fold(x.constant(*first), |sum, &coefficient| sum * x + coefficient)
    })
}
