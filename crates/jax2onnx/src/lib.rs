//! The façade: lower, optimise, check, render, write.

use std::borrow::Cow;
use std::path::Path;

use provenance::render::{ExportFrame, Renderer};
use provenance::{Level, OriginId, PathPolicy, Paths, Table, keys};
use rustc_hash::FxHashMap;

pub use lowering::{LoweringError, Options, PLUGINS, Plugin, Refused, emitted_ops};
pub use onnx::proto::{Message, WriteError};

/// How much provenance is written, and how.
#[derive(Clone, Debug, Default)]
pub struct Rendering {
    pub level: Level,
    pub paths: PathPolicy,
    /// The Python stack that called the export, outermost first.
    pub export_stack: Vec<ExportFrame>,
    /// Folders of packages whose files are named from the package.
    pub packages: Vec<String>,
}

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An equation was refused. `report` is the message with the source line, ready to show.
    #[error("{report}")]
    Lowering { error: LoweringError, report: String },
    #[error("the finished model is not valid: {0}")]
    Internal(#[from] onnx::check::CheckError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Lowers and optimises a program. `source` gives the text of a source file, for error messages.
pub fn convert(
    program: jaxpr::Program,
    options: &Options,
    source: &dyn Fn(&str) -> Option<String>,
) -> Result<onnx::Model, Error> {
    let mut model = lowering::lower(program, options).map_err(|failure| {
        let report = report(&failure.error, &failure.table, source);
        Error::Lowering { error: failure.error, report }
    })?;
    passes::optimize(&mut model);
    model.assign_value_origins();
    onnx::names::assign_names(&mut model);
    onnx::check::check(&model)?;
    Ok(model)
}

/// The model as one protobuf message, to be written where it is wanted.
pub fn to_message(model: &onnx::Model, rendering: &Rendering) -> Result<Message, Error> {
    rendered(model, rendering, |model, metadata| Ok(Message::new(model, metadata)?))
}

/// Writes the model beside `path` and renames it when it is whole. Weights go into
/// `<path>.data` once they are larger than `external_threshold` bytes in all.
pub fn to_file(
    model: &onnx::Model,
    rendering: &Rendering,
    path: &Path,
    external_threshold: usize,
) -> Result<(), Error> {
    rendered(model, rendering, |model, metadata| {
        Ok(onnx::external_data::save(model, metadata, path, external_threshold)?)
    })
}

/// Runs `write` on the model with what the level says is written, each origin rendered once.
fn rendered<T>(
    model: &onnx::Model,
    rendering: &Rendering,
    write: impl FnOnce(&onnx::Model, &mut onnx::proto::Render<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let is_there = |path: &Path| path.exists();
    let paths = Paths::new(rendering.paths, &is_there).with_packages(&rendering.packages);
    let level = rendering.level;
    let mut renderer = Renderer::new(&model.provenance, level, paths, &rendering.export_stack);
    let mut metadata: FxHashMap<OriginId, Vec<(&'static str, String)>> = FxHashMap::default();
    if level != Level::Off {
        for origin in model.origins() {
            metadata.entry(origin).or_insert_with(|| renderer.node(origin));
        }
    }
    let mut model = Cow::Borrowed(model);
    if level != Level::Off {
        write_paths(model.to_mut());
    }
    if let Some((key, table)) = renderer.model() {
        model.to_mut().metadata.push((key.into(), table));
    }
    write(&model, &mut |origin| metadata.get(&origin).cloned().unwrap_or_default())
}

/// Says of each weight, input and output where it stands in what the function holds, takes or gives.
fn write_paths(model: &mut onnx::Model) {
    for id in model.values.ids() {
        let value = &mut model.values[id];
        if !value.paths.is_empty() {
            value.metadata.push((keys::PATH.into(), value.paths.join("\n")));
        }
    }
}

fn report(error: &LoweringError, table: &Table, source: &dyn Fn(&str) -> Option<String>) -> String {
    let is_there = |path: &Path| path.exists();
    let mut paths = Paths::new(PathPolicy::Relative, &is_there);
    provenance::report::report(
        table,
        error.site,
        &error.why.to_string(),
        error.why.hint(),
        &mut paths,
        source,
    )
}
