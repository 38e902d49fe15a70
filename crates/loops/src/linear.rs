//! Replaces loops over a state that each step updates linearly.

pub mod attention;
mod blocks;
mod body;
pub mod chunks;
mod forms;
mod matrices;
mod plan;
mod series;
mod split;
#[cfg(test)]
mod tests;
