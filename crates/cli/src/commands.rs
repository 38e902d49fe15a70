//! One file per command.

pub(crate) mod attach;
pub(crate) mod blame;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod cost;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod inspect;
pub(crate) mod lower;
pub(crate) mod plugins;
pub(crate) mod profile;
pub(crate) mod sensitivity;
pub(crate) mod strip;
pub(crate) mod view;
pub(crate) mod where_;
