//! Analyses that rewrites share: axes and layouts, patterns, sizes, constants and their evaluation.

pub(crate) mod axis_map;
pub(crate) mod axis_order;
pub(crate) mod eval;
pub(crate) mod pattern;
pub(crate) mod sizes;
pub(crate) mod stored;
