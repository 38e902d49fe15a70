//! Drops dead nodes and loop state, and notes the bounds of counters.

pub(crate) mod bound_counters;
pub(crate) mod drop_carries;

#[cfg(test)]
mod tests;
