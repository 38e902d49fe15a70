//! Replaces loops over a state that each step updates linearly.

mod affine;
pub mod attention;
mod blocks;
mod body;
pub mod chunks;
mod components;
mod forms;
mod levels;
mod matrices;
mod mixed;
mod peaks;
mod plan;
mod registers;
mod series;
mod split;
#[cfg(test)]
mod tests;
