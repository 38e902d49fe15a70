//! The options of an export, in one table.
//!
//! [`table()`] is the table as data. The command line derives its flags from it, and Python its settings. [`Options`]
//! is the same table as a struct, which the stages of an export read. `tools/options.py` generates the signature of
//! `to_onnx` and the table in `docs/configuration.md`.

mod row;
mod table;
mod value;

pub use provenance::{Level, PathPolicy};
pub use row::{OptionKind, Row};
pub use table::{
    DequantizeMode, ExportMode, HalfMode, NanMode, NormalizationMode, Options, Precision,
    SourcesMode, WeightsMode, table,
};
pub use value::Value;
