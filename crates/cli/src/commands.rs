//! One file a command.

pub(crate) mod export;
pub(crate) mod plugins;
