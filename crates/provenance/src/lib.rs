//! The origin of a node: frames, call paths, origins, and how they are shown.
//!
//! Origins are always captured, as 32-bit ids into a [`Table`]; a [`Level`] only decides what
//! [`render`] writes at the end. This crate knows neither JAX nor ONNX.

pub mod clean;
pub mod codec;
pub mod frame;
pub mod from_text;
pub mod keys;
pub mod level;
pub mod origin;
pub mod outline;
pub mod paths;
pub mod render;
pub mod report;
pub mod resolve;
pub mod source_map;
pub mod table;
#[cfg(test)]
mod testing;
pub mod tier;

pub use frame::{Emitter, EmitterKind, Location, Scope, ScopeKind, Span};
pub use level::{Level, PathPolicy};
pub use origin::{Origin, Site};
pub use paths::Paths;
pub use report::report;
pub use source_map::SourceMap;
pub use table::{
    EmitterId, File, FileId, FunctionId, LocationId, OriginId, ScopeId, SiteId, StackId, Table,
};
pub use tier::{Tier, Tiers};
