//! One file a command.

pub(crate) mod attach;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod plugins;
pub(crate) mod profile;
pub(crate) mod strip;
