//! Rewrites what a runtime of the target lacks. They do nothing for the default target.

pub(crate) mod device;
#[cfg(test)]
mod form_tests;
pub(crate) mod forms;
pub(crate) mod loops;
pub(crate) mod operators;
mod scatters;
#[cfg(test)]
mod tests;
mod transforms;
