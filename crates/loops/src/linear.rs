//! Replaces loops over a state that each step updates linearly.

mod affine;
pub mod attention;
mod blocks;
mod body;
pub mod chunks;
mod coefficients;
mod components;
mod forms;
mod kernels;
mod lanes;
mod levels;
mod matrices;
mod mixed;
mod peaks;
mod plan;
mod powers;
mod registers;
mod series;
mod split;
mod sums;
#[cfg(test)]
mod tests;
