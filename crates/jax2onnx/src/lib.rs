//! The façade: lowers, optimizes, checks, renders and writes.

mod explain;
pub mod paths;
mod report;
mod summary;

use std::borrow::Cow;
use std::path::Path;

use onnx::kernels::{Finding, Lack, Numbers};
use onnx::outline::Outlined;
pub use options::Options;
use provenance::render::{ExportFrame, Renderer};
use provenance::source_map::{Draft, MapValue};
use provenance::{FileId, Level, OriginId, PathPolicy, keys};
use rustc_hash::FxHashMap;

use crate::report::{refusals, report};

pub use explain::{dropped_callbacks, explain};
pub use lowering::{Call, LoweringError, PLUGINS, Plugin, Refused, emitted_ops};
pub use onnx::Trial;
pub use onnx::kernels::Target;
pub use onnx::locate::locate;
pub use onnx::operator::{OpType, properties};
pub use onnx::outputs::{Files, Output};
pub use onnx::pairs::{Definition, Holder, Hop, Pair, Round, ViewStep};
pub use onnx::proto::{Message, ReadError, Skim, WriteError, skim};
pub use onnx::source_map;
pub use onnx::staged::Staged;
pub use passes::{Worth, names as rewrites};
pub use provenance::File;
pub use provenance::source_map::Source;
pub use report::Refusal;
pub use summary::{Summary, summary};

/// The amount and the form of the provenance to write.
#[derive(Clone, Debug, Default)]
pub struct Rendering {
    pub level: Level,
    pub paths: PathPolicy,
    /// The Python stack that called the export, outermost first.
    pub export_stack: Vec<ExportFrame>,
    /// Folders of packages. Their files are named relative to the package.
    pub packages: Vec<String>,
    /// Folders, and the names to write instead.
    pub prefixes: Vec<(String, String)>,
}

/// The reason why an export failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Equations were refused. `report` is the complete message with source lines; `refusals` contains the same as
    /// data.
    #[error("{report}")]
    Lowering { errors: Vec<LoweringError>, report: String, refusals: Vec<Refusal> },
    #[error("the exported model is not valid: {0}")]
    Internal(#[from] onnx::check::CheckError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Lowers and optimizes a program. [`passes::optimize`] describes `checks_weights`. `source` returns the text of a
/// source file, for error messages. `begin` is called with the name of each phase of the passes before it runs.
pub fn convert(
    program: jaxpr::Program,
    options: &Options,
    call: &Call,
    checks_weights: bool,
    source: &dyn Fn(&str) -> Option<String>,
    begin: &mut dyn FnMut(&'static str),
) -> Result<onnx::Model, Error> {
    let mut model = lower(program, options, call, source)?;
    // The passes may unroll some loops, but not that many.
    check_nesting(&model, MAX_LOWERED, source)?;
    passes::optimize(&mut model, options, checks_weights, &mut |phase| begin(phase.name));
    begin("finish");
    model.assign_value_origins();
    onnx::names::assign_names(&mut model);
    onnx::check::check(&model)?;
    if cfg!(debug_assertions) {
        onnx::check::check_types(&model)?;
    }
    check_nesting(&model, MAX_NESTED, source)?;
    check_target(&model, source)?;
    Ok(model)
}

/// Lowers a program, and measures what each rewrite is worth in it: the number of nodes, and the rewrites that change
/// it.
pub fn worth(
    program: jaxpr::Program,
    options: &Options,
    call: &Call,
    checks_weights: bool,
    source: &dyn Fn(&str) -> Option<String>,
) -> Result<(usize, Vec<Worth>), Error> {
    let model = lower(program, options, call, source)?;
    Ok(passes::worth(&model, options, checks_weights))
}

fn lower(
    program: jaxpr::Program,
    options: &Options,
    call: &Call,
    source: &dyn Fn(&str) -> Option<String>,
) -> Result<onnx::Model, Error> {
    lowering::lower(program, options, call).map_err(|failure| {
        let report = report(&failure.errors, &failure.table, source);
        let refusals = refusals(&failure.errors, &failure.table);
        Error::Lowering { errors: failure.errors, report, refusals }
    })
}

/// Refuses nodes that a runtime of the target does not run correctly.
fn check_target(model: &onnx::Model, source: &dyn Fn(&str) -> Option<String>) -> Result<(), Error> {
    // The builder adds only nodes that the default runtime has. Its device may compute some of them wrongly.
    let others = onnx::kernels::audit(model, model.target.without_default()).into_iter();
    let own = model.target.device_name().map(|_| onnx::kernels::audit(model, model.target));
    let own = own
        .into_iter()
        .flatten()
        .filter(|finding| matches!(finding.lack, Lack::WrongOnDevice { .. }));
    // The passes keep NaN where a runtime drops it, unless the program does not care.
    let counts = |finding: &Finding| !matches!(finding.lack, Lack::Wrong(_, Numbers::Nan));
    let errors = others.chain(own).filter(counts).filter_map(|finding| {
        let origin = finding.origin?;
        let what = finding.to_string();
        let site = model.provenance.get_origin(origin).primary;
        Some(LoweringError { why: Refused::Target { what }, site })
    });
    refuse(errors.collect(), model, source)
}

/// Fails if there are errors.
fn refuse(
    errors: Vec<LoweringError>,
    model: &onnx::Model,
    source: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Error> {
    if errors.is_empty() {
        return Ok(());
    }
    let report = report(&errors, &model.provenance, source);
    let refusals = refusals(&errors, &model.provenance);
    Err(Error::Lowering { errors, report, refusals })
}

/// Refuses bodies that are nested too deeply, at the line of the deepest one.
fn check_nesting(
    model: &onnx::Model,
    most: usize,
    source: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Error> {
    let Some((depth, node)) = deepest(model).filter(|(depth, _)| *depth > most) else {
        return Ok(());
    };
    let why = Refused::Nested { depth, most: MAX_NESTED };
    let site = model.provenance.get_origin(model.origin_of(node)).primary;
    refuse(vec![LoweringError { why, site }], model, source)
}

/// The maximum nesting of bodies in a model before the passes.
const MAX_LOWERED: usize = 4 * MAX_NESTED;

/// The maximum nesting of bodies that readers accept. Protobuf allows 100 nested messages. A body takes three of
/// them, and the rest is for the model and the types in the innermost body.
const MAX_NESTED: usize = 31;

/// Returns the node with the deepest body, and the depth of that body.
fn deepest(model: &onnx::Model) -> Option<(usize, &onnx::Node)> {
    let functions = model.functions.iter().map(|function| &function.body);
    let mut open: Vec<(usize, &onnx::Graph)> =
        functions.chain([&model.graph]).map(|graph| (0, graph)).collect();
    let mut deepest = None;
    while let Some((depth, graph)) = open.pop() {
        for node in &graph.nodes {
            for body in node.bodies() {
                open.push((depth + 1, body));
                if deepest.is_none_or(|(known, _)| known < depth + 1) {
                    deepest = Some((depth + 1, node));
                }
            }
        }
    }
    deepest
}

/// A model with the provenance to write.
pub struct Annotated<'a> {
    model: Cow<'a, onnx::Model>,
    metadata: Metadata,
    source_map: Option<String>,
}

type Metadata = FxHashMap<OriginId, Vec<(&'static str, String)>>;

impl Annotated<'_> {
    /// Returns the model as one protobuf message.
    pub fn to_message(&self) -> Result<Message, Error> {
        Ok(Message::new(&self.model, &mut |origin| self.metadata_of(origin))?)
    }

    /// Writes the model in one step. If its weights together have more than `external_threshold` bytes, they are
    /// written to a file beside it.
    pub fn to_file(&self, output: Output, external_threshold: usize) -> Result<(), Error> {
        let metadata = &mut |origin| self.metadata_of(origin);
        Ok(onnx::external_data::save(&self.model, metadata, output, external_threshold)?)
    }

    /// Returns the source files of all lines, by their paths in Python.
    pub fn source_files(&self) -> impl Iterator<Item = &Path> {
        let table = &self.model.provenance;
        let ids = (0..table.file_count() as u32).map(FileId);
        ids.map(|id| Path::new(&*table.get_file(id).path))
    }

    /// Returns the text of the source map, if one was requested.
    pub fn source_map(&self) -> Option<&str> {
        self.source_map.as_deref()
    }

    fn metadata_of(&self, origin: OriginId) -> Vec<(&'static str, String)> {
        self.metadata.get(&origin).cloned().unwrap_or_default()
    }
}

/// Writes a text under a temporary name; [`Staged::commit`] renames the file.
pub fn stage_text(output: Output, text: &str) -> Result<Staged, Error> {
    Ok(output.stage(|file| file.write_all(text.as_bytes()))?)
}

/// Renders the provenance of each node at the given level, each origin once. Creates a source map too if `has_map`.
/// `sources` describes the files of this machine.
pub fn annotate<'a>(
    model: &'a onnx::Model,
    rendering: &Rendering,
    sources: &Sources<'_>,
    has_map: bool,
) -> Annotated<'a> {
    let paths = paths::on_this_machine(rendering.paths)
        .with_packages(&rendering.packages)
        .with_prefixes(&rendering.prefixes);
    let level = rendering.level;
    let mut renderer = Renderer::new(&model.provenance, level, paths, &rendering.export_stack);
    let mut metadata = Metadata::default();
    if level != Level::Off {
        for origin in model.origins() {
            metadata.entry(origin).or_insert_with(|| renderer.node(origin));
        }
    }
    let mut added: Vec<(String, String)> = Vec::new();
    let table = renderer.model(&|_, file| sources(file).sha256);
    added.extend(table.map(|(key, table)| (key.into(), table)));
    if !model.exact_nan {
        added.push((keys::NAN.into(), keys::IGNORE.into()));
    }
    if model.dequantizes {
        added.push((keys::DEQUANTIZE.into(), keys::RUN.into()));
    }
    if let Some(widened) = model.widened {
        added.push((keys::HALF.into(), widened.to_string()));
    }
    added.extend(model.target.spell_names().map(|names| (keys::TARGET.into(), names)));
    let source_map = has_map.then(|| {
        let (text, id) = source_map(model, &mut renderer, sources);
        added.push((keys::DEBUG_ID.into(), id));
        text
    });
    let mut model = Cow::Borrowed(model);
    if level != Level::Off {
        write_paths(model.to_mut());
    }
    if !added.is_empty() {
        model.to_mut().metadata.extend(added);
    }
    Annotated { model, metadata, source_map }
}

/// Returns the hash of a source file by its path, and the text if it is requested too.
pub type Sources<'a> = dyn Fn(&File) -> Source + 'a;

/// Returns the text of the source map, and the id that it shares with the model.
fn source_map(
    model: &onnx::Model,
    renderer: &mut Renderer<'_>,
    sources: &Sources<'_>,
) -> (String, String) {
    // Numbers the origins as the level `indexed` does, at every level.
    for origin in model.origins() {
        renderer.made_number(origin);
    }
    let Outlined { outline, origins, values } = onnx::outline::outline(model);
    let origins: Vec<Option<u32>> =
        origins.into_iter().map(|origin| Some(renderer.number(origin))).collect();
    let values: Vec<MapValue> =
        values.into_iter().map(|id| map_value(model, id, renderer)).collect();
    let files = renderer.files().iter().map(Option::as_ref);
    let sources: Vec<Source> = files.map(|file| file.map(sources).unwrap_or_default()).collect();
    let table = renderer.table();
    let draft = Draft {
        table: &table,
        outline: &outline,
        origins: &origins,
        values: &values,
        sources: &sources,
        more: &[],
    };
    draft.finish()
}

fn map_value(model: &onnx::Model, id: onnx::ValueId, renderer: &mut Renderer<'_>) -> MapValue {
    let value = &model.values[id];
    MapValue {
        name: value.name.clone().unwrap_or_default(),
        origin: model.origin_of_value(id).map(|origin| renderer.number(origin)),
        paths: value.paths.to_vec(),
    }
}

/// Records the path of each weight, input and output in the model, the arguments or the result.
fn write_paths(model: &mut onnx::Model) {
    for id in model.values.ids() {
        let value = &mut model.values[id];
        if !value.paths.is_empty() {
            value.metadata.push((keys::PATH.into(), value.paths.join("\n")));
        }
    }
}
