//! Questions about a model, long after the export.

pub mod log;
pub mod profile;
