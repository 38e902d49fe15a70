//! Replaces loops over a state that each step updates linearly.

pub(crate) mod attention;
mod blocks;
mod body;
pub(crate) mod chunks;
mod forms;
mod matrices;
mod plan;
mod series;
mod split;
#[cfg(test)]
mod tests;
