//! Answers questions about a model after the export: what it contains, which line a node came from, what a line
//! became, what differs. Answers are data or text; this crate prints nothing.
//!
//! Files are untrusted and are read without their weights. Start at [`ModelFile`] and [`Document`].

pub mod blame;
pub mod check;
pub mod cost;
pub mod diff;
mod document;
pub mod explain;
pub mod external;
mod file;
pub mod find;
mod foreign;
mod fusions;
mod guards;
mod inputs;
pub mod json;
mod lines;
mod literals;
pub mod log;
mod origin;
pub mod placement;
pub mod positive;
pub mod profile;
mod recorded;
pub mod show;
mod sources;
pub mod summary;
pub mod text;
pub mod view;
pub mod where_;

pub use document::Document;
pub use file::{ModelFile, OpenError, Weights, open_regular, read_map};
pub use lines::lines;
pub use onnx::kernels::Target;
pub use origin::{Frame, Plugin, Provenance};
pub use recorded::Recorded;
pub use show::Style;
pub use sources::{Source, Sources};
