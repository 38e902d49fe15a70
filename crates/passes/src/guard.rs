//! Guarantees properties of the file. No pass changes a graph afterwards.

pub(crate) mod drop_unread_inputs;
pub mod faults;
pub(crate) mod keep_zero_signs;
pub(crate) mod share_functions;
pub(crate) mod store_once;
