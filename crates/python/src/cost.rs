//! Answers what a model costs for Python.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use inspect::cost::memory::{Order, Peak};
use inspect::cost::{By, Json, Lines, SizeError, Sizing, costs, text};
use inspect::{OpenError, Style};
use provenance::clean::json_text;
use pyo3::prelude::*;

use crate::after::{Model, sources_of};
use crate::error;

/// The reason why the costs of a model cannot be shown.
enum Failed {
    Open(OpenError),
    Size(SizeError),
}

/// Counts the operations and bytes of a model. Returns a text and JSON.
#[pyfunction]
#[pyo3(signature = (model, sizes, *, by, order, top, source_map = None, source_roots = Vec::new()))]
#[expect(clippy::too_many_arguments, reason = "named arguments of Python")]
pub(crate) fn cost_summary(
    py: Python<'_>,
    model: Model,
    sizes: BTreeMap<String, i64>,
    by: &str,
    order: &str,
    top: usize,
    source_map: Option<&str>,
    source_roots: Vec<PathBuf>,
) -> PyResult<(String, String)> {
    let Some(by) = By::of_word(by) else {
        let words = By::words().join(", ");
        return Err(error::config(&format!("`by` is `{by}`: use one of {words}")));
    };
    let Some(order) = Order::of_word(order) else {
        let words = Order::words().join(", ");
        return Err(error::config(&format!("`order` is `{order}`: use one of {words}")));
    };
    let answer = move || -> Result<(String, String), Failed> {
        let file = model.open().map_err(Failed::Open)?;
        let document = file.read(source_map.map(Path::new)).map_err(Failed::Open)?;
        let sizing = Sizing::of(&document, &sizes).map_err(Failed::Size)?;
        let costs = costs(&sizing, by);
        let peak = Peak::of(&sizing, &Lines::of(&document), order);
        let sources = sources_of(source_roots, &document);
        let costs_text = text(&costs, &document, top, &sources, Style::plain());
        let peak_text = peak.text(&document, top, &sources, Style::plain());
        let text = format!("{costs_text}\n{peak_text}");
        let json = Json {
            costs: &costs,
            peak: &peak,
            document: &document,
            name: &document.name,
            sources: &sources,
        };
        Ok((text, json_text(&json)))
    };
    let failed = |failed: Failed| match failed {
        Failed::Open(error) => error::source_map(&error),
        Failed::Size(error) => error::config(&error.to_string()),
    };
    error::without_panic(|| py.detach(answer).map_err(failed))
}
