//! Drops what no output needs, and notes the bounds of counters.

pub(crate) mod bound_counters;
pub(crate) mod drop_carries;
pub(crate) mod drop_dead;
