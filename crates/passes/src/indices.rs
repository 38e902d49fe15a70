//! Inlines composites, and writes lookups by index as the operator that fits.

pub(crate) mod division;
pub(crate) mod index;
pub(crate) mod inline_composites;
pub(crate) mod pick;
pub(crate) mod place;
pub(crate) mod resize;
