//! Answers what a model costs for Python.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use inspect::cost::memory::{Order, Peak};
use inspect::cost::{
    By, Json, Lines, Machine, Roofline, RooflineError, SizeError, Sizing, costs, sizes_in, text,
};
use inspect::profile::Profile;
use inspect::{OpenError, Style, open_regular};
use provenance::clean::json_text;
use pyo3::prelude::*;

use crate::after::{Model, sources_of};
use crate::error;

/// The reason why the costs of a model cannot be shown.
enum Failed {
    Open(OpenError),
    Size(SizeError),
    Rates(RooflineError),
    Profile(String),
}

/// The costs as text and as JSON, and the rates as text.
type Shown = (String, String, Option<String>);

/// Counts the operations and bytes of a model. `machine` has the operations and bytes per second that are possible.
#[pyfunction]
#[pyo3(signature = (
    model, sizes, *, by, order, top, profile = None, warmup = None, machine = None, source_map = None,
    source_roots = Vec::new()
))]
#[expect(clippy::too_many_arguments, reason = "named arguments of Python")]
pub(crate) fn cost_summary(
    py: Python<'_>,
    model: Model,
    mut sizes: BTreeMap<String, i64>,
    by: &str,
    order: &str,
    top: usize,
    profile: Option<PathBuf>,
    warmup: Option<usize>,
    machine: Option<(f64, f64)>,
    source_map: Option<&str>,
    source_roots: Vec<PathBuf>,
) -> PyResult<Shown> {
    let Some(by) = By::of_word(by) else {
        let words = By::words().join(", ");
        return Err(error::config(&format!("`by` is `{by}`: use one of {words}")));
    };
    let Some(order) = Order::of_word(order) else {
        let words = Order::words().join(", ");
        return Err(error::config(&format!("`order` is `{order}`: use one of {words}")));
    };
    let machine = machine.map(|(flops, bytes)| Machine { flops, bytes });
    let answer = move || -> Result<Shown, Failed> {
        let file = model.open().map_err(Failed::Open)?;
        let document = file.read(source_map.map(Path::new)).map_err(Failed::Open)?;
        let profile = profile.map(|path| {
            let (opened, _) = open_regular(&path).map_err(|why| why.to_string())?;
            Profile::read(opened).map_err(|why| why.to_string())
        });
        let profile = profile.transpose().map_err(Failed::Profile)?;
        let mut sizing = Sizing::of(&document, &sizes).map_err(Failed::Size)?;
        if let Some(profile) = &profile {
            for (name, size) in sizes_in(&document, &sizing.open, profile) {
                sizes.entry(name).or_insert(size);
            }
            sizing = Sizing::of(&document, &sizes).map_err(Failed::Size)?;
        }
        let lines = Lines::of(&document);
        let costs = costs(&sizing, &lines, by);
        let rates = |profile| Roofline::of(&costs, &document, profile, warmup, machine);
        let roofline = profile.as_ref().map(rates).transpose().map_err(Failed::Rates)?;
        let peak = Peak::of(&sizing, &lines, order);
        let sources = sources_of(source_roots, &document);
        let costs_text = text(&costs, &document, top, &sources, Style::plain());
        let peak_text = peak.text(&document, top, &sources, Style::plain());
        let mut text = format!("{costs_text}\n{peak_text}");
        let rates = roofline.as_ref().map(|it| it.text(top, &sources, Style::plain()));
        if let Some(rates) = &rates {
            text = format!("{text}\n{rates}");
        }
        let json = Json {
            costs: &costs,
            peak: &peak,
            roofline: roofline.as_ref(),
            document: &document,
            name: &document.name,
            sources: &sources,
        };
        Ok((text, json_text(&json), rates))
    };
    let failed = |failed: Failed| match failed {
        Failed::Open(error) => error::source_map(&error),
        Failed::Size(error) => error::config(&error.to_string()),
        Failed::Rates(error) => error::config(&error.to_string()),
        Failed::Profile(why) => error::config(&why),
    };
    error::without_panic(|| py.detach(answer).map_err(failed))
}
