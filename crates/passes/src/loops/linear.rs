//! Replaces loops over a state that each step updates linearly.

pub(crate) mod attention;
mod forms;
mod split;
#[cfg(test)]
mod tests;
