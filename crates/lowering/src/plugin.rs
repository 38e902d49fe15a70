//! The type of an entry of the plugin table.

mod run;

use std::panic::Location;

use onnx::Expr;

use crate::ctx::{Ctx, Eqn};
use crate::error::Result;
use crate::parts::Complex;

/// An entry of the table: the lowering of one primitive.
#[derive(Clone, Copy)]
pub struct Plugin {
    pub primitive: &'static str,
    /// The limits of the plugin, in words for the documentation.
    pub limits: &'static [&'static str],
    /// The line of the table that declares the plugin.
    pub line: &'static Location<'static>,
    lower: Lower,
    parts: Parts,
    /// The parameters that do not change the numbers.
    ignored: &'static [&'static str],
    /// True if passes see the formula as one node.
    composite: bool,
    /// True if several results are correct. `compare` then does not compare the results of the model
    /// with those of JAX.
    is_ambiguous: bool,
}

/// The way that a plugin handles complex numbers and random keys, which are arrays with an
/// additional axis of parts.
#[derive(Clone, Copy)]
enum Parts {
    /// The plugin refuses them.
    Refused,
    /// The lowering for numbers is also correct for arrays with an axis of parts.
    Unchanged,
    /// The same as `Unchanged`. For complex numbers that are made of parts, `f(a + ib) = f(a) + i f(b)` needs fewer
    /// nodes, because later equations read the parts.
    Apart,
    /// `f(a + ib) = f(a) + i f(b)`
    Linear,
    /// `f(a + ib, c + id) = f(a, c) − f(b, d) + i (f(a, d) + f(b, c))`
    Bilinear,
    /// A separate formula for a complex number.
    Unary(for<'g> fn(Complex<'g>) -> Complex<'g>),
    /// A separate formula for two complex numbers.
    Binary(for<'g> fn(Complex<'g>, Complex<'g>) -> Complex<'g>),
    /// A separate lowering for complex numbers.
    Eqn(for<'g> fn(&Ctx<'g>, &Eqn<'g, '_>) -> Result<Expr<'g>>),
}

#[derive(Clone, Copy)]
enum Lower {
    Unary(for<'g> fn(Expr<'g>) -> Expr<'g>),
    Binary(for<'g> fn(Expr<'g>, Expr<'g>) -> Expr<'g>),
    One(for<'g> fn(&Ctx<'g>, &Eqn<'g, '_>) -> Result<Expr<'g>>),
    Many(for<'g> fn(&Ctx<'g>, &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>>),
}

impl Plugin {
    #[track_caller]
    const fn new(primitive: &'static str, lower: Lower) -> Plugin {
        Plugin {
            primitive,
            limits: &[],
            line: Location::caller(),
            lower,
            parts: Parts::Refused,
            ignored: &[],
            composite: false,
            is_ambiguous: false,
        }
    }

    /// Lists the limits of the plugin.
    pub(crate) const fn limits(self, limits: &'static [&'static str]) -> Plugin {
        Plugin { limits, ..self }
    }

    /// Lists parameters that do not change the numbers, if several primitives share the lowering
    /// and only some of them have these parameters.
    pub(crate) const fn ignores(self, ignored: &'static [&'static str]) -> Plugin {
        Plugin { ignored, ..self }
    }

    /// Marks the formula as a composite, so that passes see one node with the name of the primitive.
    pub(crate) const fn composite(self) -> Plugin {
        Plugin { composite: true, ..self }
    }

    /// Declares that several results are correct, because JAX does not specify some elements or the
    /// sign of a vector.
    pub(crate) const fn ambiguous(self) -> Plugin {
        Plugin { is_ambiguous: true, ..self }
    }

    /// Declares that the plugin supports random keys and complex numbers, whose parts are an
    /// additional last axis. Every other plugin refuses them.
    pub(crate) const fn parts(self) -> Plugin {
        Plugin { parts: Parts::Unchanged, ..self }
    }

    /// Declares that the plugin supports random keys and complex numbers as they are, and that it can
    /// also handle the parts of complex numbers separately.
    pub(crate) const fn apart(self) -> Plugin {
        Plugin { parts: Parts::Apart, ..self }
    }

    /// Declares that the plugin is linear, so that it can handle the parts of complex numbers
    /// separately.
    pub(crate) const fn linear(self) -> Plugin {
        Plugin { parts: Parts::Linear, ..self }
    }

    /// Declares that the plugin is linear in each of its two operands.
    pub(crate) const fn bilinear(self) -> Plugin {
        Plugin { parts: Parts::Bilinear, ..self }
    }

    /// Sets the formula for a complex number.
    pub(crate) const fn complex(self, formula: for<'g> fn(Complex<'g>) -> Complex<'g>) -> Plugin {
        Plugin { parts: Parts::Unary(formula), ..self }
    }

    /// Sets the formula for two complex numbers.
    pub(crate) const fn complex_pair(
        self,
        formula: for<'g> fn(Complex<'g>, Complex<'g>) -> Complex<'g>,
    ) -> Plugin {
        Plugin { parts: Parts::Binary(formula), ..self }
    }

    /// Sets the lowering for complex numbers.
    pub(crate) const fn complex_eqn(
        self,
        lower: for<'g> fn(&Ctx<'g>, &Eqn<'g, '_>) -> Result<Expr<'g>>,
    ) -> Plugin {
        Plugin { parts: Parts::Eqn(lower), ..self }
    }
}

/// Declares a primitive with one operand, as a formula.
#[track_caller]
pub(crate) const fn unary(
    primitive: &'static str,
    formula: for<'g> fn(Expr<'g>) -> Expr<'g>,
) -> Plugin {
    Plugin::new(primitive, Lower::Unary(formula))
}

/// Declares a primitive with two operands that broadcast, as a formula.
#[track_caller]
pub(crate) const fn binary(
    primitive: &'static str,
    formula: for<'g> fn(Expr<'g>, Expr<'g>) -> Expr<'g>,
) -> Plugin {
    Plugin::new(primitive, Lower::Binary(formula))
}

/// Declares a primitive with parameters or with any number of operands, and one result.
#[track_caller]
pub(crate) const fn eqn(
    primitive: &'static str,
    lower: for<'g> fn(&Ctx<'g>, &Eqn<'g, '_>) -> Result<Expr<'g>>,
) -> Plugin {
    Plugin::new(primitive, Lower::One(lower))
}

/// Declares a primitive with any number of results.
#[track_caller]
pub(crate) const fn many(
    primitive: &'static str,
    lower: for<'g> fn(&Ctx<'g>, &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>>,
) -> Plugin {
    Plugin::new(primitive, Lower::Many(lower))
}
