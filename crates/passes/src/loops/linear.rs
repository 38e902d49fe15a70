//! Replaces loops over a state that each step updates linearly.

pub(crate) mod attention;
pub(crate) mod chunks;
mod forms;
mod plan;
mod split;
#[cfg(test)]
mod tests;
