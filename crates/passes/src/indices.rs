//! Inlines composites, and replaces reads at indices by fitting operators.

pub(crate) mod division;
pub(crate) mod index;
pub(crate) mod pick;
pub(crate) mod place;
pub(crate) mod reciprocals;
pub(crate) mod resize;
pub(crate) mod tables;
