//! Rewrites what a runtime of the target lacks. They do nothing for the default target.

pub mod aligned;
#[cfg(test)]
mod arithmetic_tests;
mod branches;
pub mod device;
#[cfg(test)]
mod digit_tests;
mod digits;
pub mod endings;
mod factors;
#[cfg(test)]
mod form_tests;
pub mod forms;
pub mod integers;
pub mod loops;
pub mod operators;
#[cfg(test)]
mod scan_tests;
mod scatters;
#[cfg(test)]
mod tests;
mod transforms;
