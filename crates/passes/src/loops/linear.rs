//! Replaces loops over a state that each step updates linearly.

pub(crate) mod attention;
mod forms;
mod plan;
mod split;
#[cfg(test)]
mod tests;
