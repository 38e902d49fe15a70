//! The façade: lower, optimise, check, render, write.

use std::path::Path;

use provenance::render::ExportFrame;
use provenance::{Level, PathPolicy};

/// What the model should be like.
#[derive(Clone, Debug)]
pub struct Options {
    pub model_name: String,
    pub opset: i64,
}

/// How much provenance is written, and how.
#[derive(Clone, Debug, Default)]
pub struct Rendering {
    pub level: Level,
    pub paths: PathPolicy,
    /// The Python stack that called the export, outermost first.
    pub export_stack: Vec<ExportFrame>,
}

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An equation was refused. `report` is the message with the source line, ready to show.
    #[error("{report}")]
    Lowering {
        error: lowering::LoweringError,
        report: String,
    },
    #[error("the finished model is not valid: {0}")]
    Internal(String),
    #[error("{path}: {source}")]
    Write {
        path: String,
        #[source]
        source: std::io::Error,
    },
}

/// Lowers and optimises a program. `source` gives the text of a source file, for error messages.
pub fn convert(
    program: jaxpr::Program,
    options: &Options,
    source: &dyn Fn(&str) -> Option<String>,
) -> Result<onnx::Model, Error> {
    let _ = (program, options, source);
    Err(Error::Internal("not built yet".into()))
}

/// The model as one protobuf message.
pub fn to_bytes(model: &onnx::Model, rendering: &Rendering) -> Result<Vec<u8>, Error> {
    let _ = (model, rendering);
    Err(Error::Internal("not built yet".into()))
}

/// Writes the model beside `path` and renames it when it is whole. Weights go into
/// `<path>.data` once they are larger than `external_threshold` bytes in all.
pub fn to_file(
    model: &onnx::Model,
    rendering: &Rendering,
    path: &Path,
    external_threshold: usize,
) -> Result<(), Error> {
    let _ = (model, rendering, path, external_threshold);
    Err(Error::Internal("not built yet".into()))
}
