//! Reads the options of an export from Python's `ExportOptions`.

use std::path::PathBuf;

use ::options::{OptionKind, Options, Row, SourcesMode, Value, table};
use jax2onnx::{Call, Rendering, Target};
use provenance::Tiers;
use provenance::render::ExportFrame;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

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

/// Everything that an export needs besides the jaxpr, grouped by the stage that uses it.
///
/// `_options.py` declares and documents the same fields in one dataclass. A field that only one side has is an
/// error. The table in `crates/options` declares the options of the user, which are the attributes of the field
/// `settings`.
pub(crate) struct ExportOptions<'py> {
    pub(crate) reading: Reading<'py>,
    pub(crate) options: Options,
    pub(crate) call: Call,
    pub(crate) checks_weights: bool,
    /// Called with the name of each phase of the passes before it runs.
    pub(crate) on_phase: Option<Bound<'py, PyAny>>,
    /// Called with the jaxpr if a layer may be in training mode.
    pub(crate) on_training: Option<Bound<'py, PyAny>>,
    /// Called with the lines of callbacks that are not part of the model.
    pub(crate) on_dropped: Option<Bound<'py, PyAny>>,
    /// Called with the report on the passes.
    pub(crate) explain: Option<Bound<'py, PyAny>>,
    /// Called with the holders of each variable of the jaxpr.
    pub(crate) on_pairs: Option<Bound<'py, PyAny>>,
    /// Called with a summary of the model, which is then not written.
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
    /// Takes an equation. Returns the jaxpr of its primitive's definition, the reason why it cannot be used, or
    /// `None` if there is no definition.
    pub(crate) define: Option<Bound<'py, PyAny>>,
    /// Takes the file, the function and the code of a frame. Returns the name and the text of its cell in a
    /// notebook, and the number of lines before the code, or `None` if the file is not a cell.
    pub(crate) cells: Option<Bound<'py, PyAny>>,
}

/// The files to write.
pub(crate) struct Output {
    pub(crate) path: Option<PathBuf>,
    pub(crate) external_threshold: usize,
    pub(crate) source_map: Option<PathBuf>,
    pub(crate) embed_sources: bool,
    /// The files that the program reads, which no output may replace.
    pub(crate) inputs: Vec<Named>,
}

impl<'py> FromPyObject<'_, 'py> for ExportOptions<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<ExportOptions<'py>> {
        let fields = Fields::of(&object)?;
        let tiers: TierRules = fields.take("tiers")?;
        let on_pairs: Option<Bound<'py, PyAny>> = fields.take("on_pairs")?;
        let settings: Bound<'py, PyAny> = fields.take("settings")?;
        let kind = |name| table().iter().find(|row| row.name == name).map(|row| row.kind);
        let options = Options::read(|name| read(&settings.getattr(name).ok()?, kind(name)?))
            .map_err(|name| {
                PyTypeError::new_err(format!("`Settings` has no `{name}` that the core can read"))
            })?;
        let options = ExportOptions {
            rendering: Rendering {
                level: options.provenance,
                paths: options.provenance_paths,
                export_stack: export_stack(fields.take("export_stack")?),
                packages: tiers.internal.clone(),
                prefixes: options.provenance_prefixes.clone(),
            },
            reading: Reading {
                tiers,
                definition: fields.take("definition")?,
                weight_names: fields.take("weight_names")?,
                plugins: fields.take("plugins")?,
                define: fields.take("define")?,
                cells: fields.take("cells")?,
            },
            call: Call {
                input_names: fields.take("input_names")?,
                output_names: fields.take("output_names")?,
                input_paths: fields.take("input_paths")?,
                output_paths: fields.take("output_paths")?,
                pairs: on_pairs.is_some(),
                target: target(&options.target)?,
                ..Call::default()
            },
            checks_weights: fields.take("checks_weights")?,
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
                embed_sources: options.sources == SourcesMode::Embed,
                inputs: fields.take("inputs")?,
            },
            options,
        };
        fields.finish()?;
        Ok(options)
    }
}

/// The fields of a dataclass that are not read yet.
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

    /// Fails if a field was not read.
    fn finish(self) -> PyResult<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let unread = self.0.keys();
        Err(PyTypeError::new_err(format!("the Rust core does not read these options: {unread}")))
    }
}

/// Reads the names of runtimes.
fn target(names: &[String]) -> PyResult<Target> {
    let target = Target::parse(names.iter().map(String::as_str));
    target.map_err(|unknown| PyValueError::new_err(unknown.to_string()))
}

/// Returns the newest opset that all runtimes load. Fails if a name stands for none.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes lists by value")]
pub(crate) fn target_opset(names: Vec<String>) -> PyResult<Option<i64>> {
    Ok(target(&names)?.newest_opset())
}

fn export_stack(frames: Vec<Frame>) -> Vec<ExportFrame> {
    let frame = |(file, line, function)| ExportFrame { file, line, function };
    frames.into_iter().map(frame).collect()
}

/// Returns the table of options for Python, which builds its settings from it.
#[pyfunction]
pub(crate) fn options(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    table().iter().map(|row| described(py, row)).collect()
}

fn described<'py>(py: Python<'py>, row: &Row) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("name", row.name)?;
    fields.set_item("doc", row.doc)?;
    fields.set_item("kind", row.kind.name())?;
    fields.set_item("default", written(py, &row.default)?)?;
    fields.set_item("flag", row.flag)?;
    fields.set_item("variable", &row.variable)?;
    fields.set_item("alias", row.alias)?;
    fields.set_item("needs_file", row.needs_file)?;
    match row.kind {
        OptionKind::Word { alias, what, words } => {
            fields.set_item("type_alias", alias)?;
            fields.set_item("refusal", format!("`{{}}` is not {what}"))?;
            fields.set_item("advice", words.join(", "))?;
            fields.set_item("words", words)?;
        }
        OptionKind::Number { least, most, refusal, advice } => {
            fields.set_item("refusal", refusal)?;
            fields.set_item("advice", advice)?;
            fields.set_item("limits", (least, most))?;
        }
        _ => {}
    }
    Ok(fields)
}

/// Reads a value of a setting. Returns `None` if the core does not know its type.
fn read(object: &Bound<'_, PyAny>, kind: OptionKind) -> Option<Value> {
    if kind == OptionKind::Targets {
        return object.extract().map(Value::Texts).ok();
    }
    let flag = object.extract().map(Value::Flag);
    let number = flag.or_else(|_| object.extract().map(Value::Number));
    let text = number.or_else(|_| object.extract().map(Value::Text));
    text.or_else(|_| object.extract().map(Value::Pairs)).ok()
}

/// Returns a value for Python.
pub(crate) fn written<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Nothing => Ok(py.None().into_bound(py)),
        Value::Flag(flag) => flag.into_bound_py_any(py),
        Value::Number(number) => number.into_bound_py_any(py),
        Value::Text(text) => text.into_bound_py_any(py),
        Value::Path(path) => path.into_bound_py_any(py),
        Value::Texts(texts) => PyTuple::new(py, texts).map(Bound::into_any),
        Value::Numbers(numbers) => PyTuple::new(py, numbers).map(Bound::into_any),
        Value::Pairs(pairs) => PyTuple::new(py, pairs).map(Bound::into_any),
    }
}
