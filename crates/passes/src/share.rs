//! Computes equal nodes once, and stores equal constants once.

pub(crate) mod hoist_invariants;
pub(crate) mod lift_weights;
pub(crate) mod share_constants;
