//! Sizes of axes: numbers, and polynomials of symbols in a canonical form.
//!
//! Two sizes are equal if their polynomials are: `2*(B + 1)` and `B + B + 2` are the same [`Dim`]. The order of
//! terms is the order in which JAX prints them.

mod arithmetic;
mod dim;
mod division;
mod facts;
mod order;
mod polynomial;
mod text;
mod total;
mod value;

#[cfg(test)]
mod laws;

pub use dim::{Dim, Symbol};
pub use polynomial::{Atom, Operation, Polynomial, Term};
pub use total::Total;
