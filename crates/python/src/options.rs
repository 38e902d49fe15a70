//! Reads the options of an export from Python's `ExportOptions`.

use std::path::PathBuf;
use std::str::FromStr;

use jax2onnx::{Options, PassOptions, Rendering};
use provenance::level::UnknownWord;
use provenance::render::ExportFrame;
use provenance::{Level, PathPolicy, Tiers};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error;
use crate::files::Named;
use crate::read::Plugins;

/// The file, the line and the qualified name of a function.
pub(crate) type Frame = (String, u32, String);

/// The rules of [`Tiers`], as a dictionary of lists.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TierRules {
    added_user: Vec<String>,
    added_library: Vec<String>,
    pub(crate) internal: Vec<String>,
    library: Vec<String>,
    frozen_library: Vec<String>,
}

impl From<TierRules> for Tiers {
    fn from(rules: TierRules) -> Tiers {
        Tiers {
            added_user: rules.added_user,
            added_library: rules.added_library,
            internal: rules.internal,
            library: rules.library,
            frozen_library: rules.frozen_library,
        }
    }
}

/// Everything that an export needs besides the jaxpr, sorted by the stage that uses it.
///
/// `_options.py` declares and documents the same options as fields of one dataclass. A field that
/// only one side knows is an error.
pub(crate) struct ExportOptions<'py> {
    pub(crate) reading: Reading<'py>,
    pub(crate) lowering: Options,
    pub(crate) passes: PassOptions,
    /// Is called with the name of each phase of the passes before it runs.
    pub(crate) on_phase: Option<Bound<'py, PyAny>>,
    /// Is called with the jaxpr if a layer may be in training mode.
    pub(crate) on_training: Option<Bound<'py, PyAny>>,
    /// Is called with the lines of callbacks that are not part of the model.
    pub(crate) on_dropped: Option<Bound<'py, PyAny>>,
    /// Is called with the report on the passes.
    pub(crate) explain: Option<Bound<'py, PyAny>>,
    /// Is called with what holds each variable of the jaxpr.
    pub(crate) on_pairs: Option<Bound<'py, PyAny>>,
    /// Is called with a summary of the model, which is then not written.
    pub(crate) summarize: Option<Bound<'py, PyAny>>,
    pub(crate) rendering: Rendering,
    pub(crate) output: Output,
}

/// The options of the reader of jaxprs.
pub(crate) struct Reading<'py> {
    pub(crate) tiers: TierRules,
    pub(crate) definition: Option<Frame>,
    /// The names of the user's arrays, by the identity that `_tracing/weights.py` returns.
    pub(crate) weight_names: Option<Bound<'py, PyDict>>,
    pub(crate) plugins: Option<Plugins<'py>>,
    /// Takes an equation; returns the jaxpr of its primitive's definition, the reason why there is none, or
    /// `None`.
    pub(crate) define: Option<Bound<'py, PyAny>>,
}

/// The files to write.
pub(crate) struct Output {
    pub(crate) path: Option<PathBuf>,
    pub(crate) external_threshold: usize,
    pub(crate) source_map: Option<PathBuf>,
    pub(crate) embed_sources: bool,
    /// What the program reads, which no file may replace.
    pub(crate) inputs: Vec<Named>,
}

impl<'py> FromPyObject<'_, 'py> for ExportOptions<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<ExportOptions<'py>> {
        let fields = Fields::of(&object)?;
        let tiers: TierRules = fields.take("tiers")?;
        let on_pairs: Option<Bound<'py, PyAny>> = fields.take("on_pairs")?;
        let options = ExportOptions {
            rendering: Rendering {
                level: fields.word::<Level>("level")?,
                paths: fields.word::<PathPolicy>("path_policy")?,
                export_stack: export_stack(fields.take("export_stack")?),
                packages: tiers.internal.clone(),
                prefixes: fields.take("prefixes")?,
            },
            reading: Reading {
                tiers,
                definition: fields.take("definition")?,
                weight_names: fields.take("weight_names")?,
                plugins: fields.take("plugins")?,
                define: fields.take("define")?,
            },
            lowering: Options {
                model_name: fields.take("model_name")?,
                opset: fields.take("opset")?,
                input_names: fields.take("input_names")?,
                output_names: fields.take("output_names")?,
                input_paths: fields.take("input_paths")?,
                output_paths: fields.take("output_paths")?,
                exact_nan: fields.take("exact_nan")?,
                pairs: on_pairs.is_some(),
                ..Options::default()
            },
            passes: PassOptions {
                optimize: fields.take("optimize")?,
                norms: fields.take("norms")?,
                unroll: fields.take("unroll")?,
                checks_weights: fields.take("checks_weights")?,
            },
            on_phase: fields.take("on_phase")?,
            on_training: fields.take("on_training")?,
            on_dropped: fields.take("on_dropped")?,
            explain: fields.take("explain")?,
            on_pairs,
            summarize: fields.take("summarize")?,
            output: Output {
                path: fields.take("output_path")?,
                external_threshold: fields.take("external_threshold")?,
                source_map: fields.take("source_map")?,
                embed_sources: fields.take("embed_sources")?,
                inputs: fields.take("inputs")?,
            },
        };
        fields.finish()?;
        Ok(options)
    }
}

/// The fields of a dataclass that were not read yet.
struct Fields<'py>(Bound<'py, PyDict>);

impl<'py> Fields<'py> {
    fn of(object: &Bound<'py, PyAny>) -> PyResult<Fields<'py>> {
        let fields = object.getattr("__dict__")?.cast_into::<PyDict>()?;
        Ok(Fields(fields.copy()?))
    }

    /// Removes a field and returns its value.
    fn take<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<T> {
        let Some(value) = self.0.get_item(name)? else {
            return Err(PyTypeError::new_err(format!("`ExportOptions` has no field `{name}`")));
        };
        self.0.del_item(name)?;
        value.extract::<T>().map_err(|error| {
            let reason: PyErr = error.into();
            PyTypeError::new_err(format!("`{name}` of `ExportOptions`: {reason}"))
        })
    }

    /// Removes a field whose value is one of a few words, and parses the word.
    fn word<T: FromStr<Err = UnknownWord>>(&self, name: &str) -> PyResult<T> {
        let word: String = self.take(name)?;
        word.parse().map_err(|error| error::unknown_word(&error))
    }

    /// Fails if a field was not read.
    fn finish(self) -> PyResult<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let unread = self.0.keys();
        Err(PyTypeError::new_err(format!("the Rust core does not read these options: {unread}")))
    }
}

fn export_stack(frames: Vec<Frame>) -> Vec<ExportFrame> {
    let frame = |(file, line, function)| ExportFrame { file, line, function };
    frames.into_iter().map(frame).collect()
}
