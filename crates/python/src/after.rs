//! Answers questions about an exported model for Python: explanations, profiles, pages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use inspect::cost::Sizing;
use inspect::explain;
use inspect::placement::{self, Evidence, Placement};
use inspect::profile::{self, By, Profile, flamegraph, speedscope, stacks, summarize};
use inspect::view;
use inspect::{Document, ModelFile, OpenError, Sources, Style, Weights, open_regular};
use jax2onnx::Files;
use provenance::clean::json_text;
use pyo3::prelude::*;

use crate::error;
use crate::files::{Named, inputs};
use crate::sources;

/// A model, by its path or its bytes.
#[derive(FromPyObject)]
pub(crate) enum Model {
    Path(PathBuf),
    Bytes(Vec<u8>),
}

impl Model {
    pub(crate) fn open(self) -> Result<ModelFile, OpenError> {
        self.read(Weights::Skipped)
    }

    fn read(self, weights: Weights) -> Result<ModelFile, OpenError> {
        match self {
            Model::Path(path) => ModelFile::open(&path, weights),
            Model::Bytes(bytes) => Ok(ModelFile::from_bytes(bytes)),
        }
    }
}

/// Reads a model that a runtime may have optimized. The origins are in the map, or in the exported model if it has any.
fn read<'f>(
    file: &'f ModelFile,
    source_map: Option<&str>,
    exported: Option<&str>,
) -> Result<Document<'f>, OpenError> {
    match (source_map, exported) {
        (None, Some(exported)) => file.read_derived(Path::new(exported)),
        _ => file.read(source_map.map(Path::new)),
    }
}

/// Returns the sources of a model, with the cells of the notebook that this process runs.
pub(crate) fn sources_of<'d, 'a>(
    roots: Vec<PathBuf>,
    document: &'d Document<'a>,
) -> Sources<'d, 'a> {
    Sources::new(roots, document).with_cells(sources::cell)
}

/// Explains the messages of a log. Returns text, JSON, and whether any message leads to a line.
#[pyfunction]
#[pyo3(signature = (model, log, *, source_map = None, source_roots = Vec::new()))]
pub(crate) fn explain_log(
    py: Python<'_>,
    model: Model,
    log: &str,
    source_map: Option<&str>,
    source_roots: Vec<PathBuf>,
) -> PyResult<(String, String, bool)> {
    let answer = || -> Result<_, OpenError> {
        let file = model.open()?;
        let document = file.read(source_map.map(Path::new))?;
        let explanation = explain::explain(&document, log.as_bytes());
        let sources = sources_of(source_roots, &document);
        let text = explain::text(&explanation, &document, &sources, Style::plain());
        let json = json_text(&explain::json(&explanation, &document, &sources));
        Ok((text, json, explanation.has_lines()))
    };
    let opened = |error: OpenError| error::source_map(&error);
    error::without_panic(|| py.detach(answer).map_err(opened))
}

/// Returns the lines of all nodes and weights of a model, as JSON.
#[pyfunction]
#[pyo3(signature = (model, *, source_map = None, source_roots = Vec::new()))]
pub(crate) fn model_lines(
    py: Python<'_>,
    model: Model,
    source_map: Option<&str>,
    source_roots: Vec<PathBuf>,
) -> PyResult<String> {
    let answer = || -> Result<_, OpenError> {
        let file = model.open()?;
        let document = file.read(source_map.map(Path::new))?;
        let sources = sources_of(source_roots, &document);
        Ok(json_text(&inspect::lines(&document, &sources)))
    };
    let opened = |error: OpenError| error::source_map(&error);
    error::without_panic(|| py.detach(answer).map_err(opened))
}

/// A profile as a table, as data, its placement as text, a picture and a file for speedscope, and the files that were
/// read.
type Shown = (String, String, String, String, String, Vec<Named>);

/// Summarizes a profile by the lines of the user.
#[pyfunction]
#[pyo3(signature = (
    model, profile, *, by, top, warmup = None, assigned = None, source_map = None, exported = None,
    source_roots = Vec::new()
))]
#[expect(clippy::too_many_arguments, reason = "named arguments of Python")]
pub(crate) fn profile_summary(
    py: Python<'_>,
    model: Model,
    profile: PathBuf,
    by: &str,
    top: usize,
    warmup: Option<usize>,
    assigned: Option<Vec<[String; 3]>>,
    source_map: Option<&str>,
    exported: Option<&str>,
    source_roots: Vec<PathBuf>,
) -> PyResult<Shown> {
    let Some(by) = By::of_word(by) else {
        return Err(error::config(&format!("`by={by}`: use {}", By::words().join(", "))));
    };
    let answer = move || -> Result<Shown, String> {
        let file = model.open().map_err(|error| error.to_string())?;
        let document = read(&file, source_map, exported).map_err(|error| error.to_string())?;
        let (opened, _) = open_regular(&profile).map_err(|error| error.to_string())?;
        let profile = Profile::read(opened).map_err(|error| error.to_string())?;
        let summary = summarize(&document, &profile, by, warmup);
        let assigned = assigned.map(Profile::of_assignment);
        let (assigned, is_optimized) = (assigned.as_ref(), false);
        let evidence = Evidence { assigned, profile: Some(&profile), is_optimized };
        let placement = Placement::new(&document, evidence);
        let sources = sources_of(source_roots, &document);
        let paths = stacks(&document, &profile, summary.warmup.len());
        let mut files = Files::default();
        document.note_inputs("the model", &sources, &mut files);
        Ok((
            profile::text(&summary, &placement, top, &sources, Style::plain()),
            json_text(&profile::Json {
                summary: &summary,
                placement: &placement,
                name: &document.name,
                sources: &sources,
            }),
            placement::report(&placement, top, &sources, Style::plain()),
            flamegraph(&paths, &document.name, "µs"),
            json_text(&speedscope(&paths, &document.name)),
            inputs(&files),
        ))
    };
    error::without_panic(|| py.detach(answer).map_err(|why| error::config(&why)))
}

/// Summarizes the assignment of a session by the lines of the user: a provider, a node and an operator in each
/// entry. Returns a text and JSON.
#[pyfunction]
#[pyo3(signature = (
    model, assigned, *, is_optimized, top, source_map = None, exported = None,
    source_roots = Vec::new()
))]
#[expect(clippy::too_many_arguments, reason = "named arguments of Python")]
pub(crate) fn placement_summary(
    py: Python<'_>,
    model: Model,
    assigned: Vec<[String; 3]>,
    is_optimized: bool,
    top: usize,
    source_map: Option<&str>,
    exported: Option<&str>,
    source_roots: Vec<PathBuf>,
) -> PyResult<(String, String)> {
    let answer = move || -> Result<(String, String), OpenError> {
        let file = model.open()?;
        let document = read(&file, source_map, exported)?;
        let assigned = Profile::of_assignment(assigned);
        let evidence = Evidence { assigned: Some(&assigned), profile: None, is_optimized };
        let placement = Placement::new(&document, evidence);
        let sources = sources_of(source_roots, &document);
        let text = placement::report(&placement, top, &sources, Style::plain());
        Ok((text, json_text(&placement::json(&placement, &sources))))
    };
    let opened = |error: OpenError| error::source_map(&error);
    error::without_panic(|| py.detach(answer).map_err(opened))
}

/// Returns the page of a model, as HTML, and the files that were read. `report` and
/// `sensitivity` are the texts of reports of these commands.
#[pyfunction]
#[pyo3(signature = (
    model, *, has_source = true, profile = None, report = None, sensitivity = None, cost = None,
    against = None, source_map = None, source_roots = Vec::new()
))]
#[expect(clippy::too_many_arguments, reason = "named arguments of Python")]
pub(crate) fn view_page(
    py: Python<'_>,
    model: Model,
    has_source: bool,
    profile: Option<PathBuf>,
    report: Option<&str>,
    sensitivity: Option<&str>,
    cost: Option<BTreeMap<String, i64>>,
    against: Option<Model>,
    source_map: Option<&str>,
    source_roots: Vec<PathBuf>,
) -> PyResult<(String, Vec<Named>)> {
    let answer = move || -> PyResult<(String, Vec<Named>)> {
        let mut files = Files::default();
        let opened = |error: OpenError| error::source_map(&error);
        let wrong = |error: &dyn std::error::Error| error::config(&error.to_string());
        // Only the differences of two models need the contents of weights.
        let weights = if against.is_some() { Weights::Read } else { Weights::Skipped };
        let file = model.read(weights).map_err(opened)?;
        let document = file.read(source_map.map(Path::new)).map_err(opened)?;
        let other = against.map(|other| other.read(weights)).transpose().map_err(opened)?;
        let other = other.as_ref().map(|other| other.read(None)).transpose().map_err(opened)?;
        let profile = match &profile {
            Some(path) => {
                files.read("the profile", path);
                let (file, _) = open_regular(path).map_err(opened)?;
                Some(Profile::read(file).map_err(|error| wrong(&error))?)
            }
            None => None,
        };
        let sources = sources_of(source_roots.clone(), &document);
        document.note_inputs("the model", &sources, &mut files);
        if let Some(other) = &other {
            let sources = sources_of(source_roots, other);
            other.note_inputs("the other model", &sources, &mut files);
        }
        if let Some(sizes) = &cost {
            Sizing::check(&document, sizes).map_err(|error| wrong(&error))?;
        }
        let options = view::Options {
            sources: has_source.then_some(&sources),
            profile: profile.as_ref(),
            report,
            sensitivity,
            cost: cost.as_ref(),
            against: other.as_ref(),
            extent: view::Extent::Page,
        };
        let data = view::view(&document, &options).map_err(|error| wrong(&error))?;
        Ok((view::page(&data), inputs(&files)))
    };
    error::without_panic(|| py.detach(answer))
}
