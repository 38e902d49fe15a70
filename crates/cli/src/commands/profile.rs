//! `jax2onnx profile`: which line of Python the time goes to.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use inspect::profile::{By, Profile, flamegraph, json, speedscope, stacks, summarize, text};

use crate::model::ModelArgs;
use crate::{Outcome, Screen};

/// Show which lines of Python the time of a profile goes to
///
/// The profile is one of ONNX Runtime: `options.enable_profiling = True` before the session, and
/// `session.end_profiling()` after it. The time of a loop is without that of its body, so that all adds up.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
                  jax2onnx profile model.onnx onnxruntime_profile.json\n  \
                  jax2onnx profile model.onnx profile.json --by scope\n  \
                  jax2onnx profile model.onnx profile.json --format flamegraph > profile.svg\n\n\
                  Nodes that the runtime made anew are known in the model that it optimised \
                  (options.optimized_model_filepath):\n  \
                  jax2onnx profile optimized.onnx profile.json --map model.onnx")]
pub(crate) struct Args {
    /// The model that was run
    model: PathBuf,
    /// The profile
    profile: PathBuf,
    /// What to sum times by
    #[arg(long, value_enum, default_value_t)]
    by: Key,
    /// How many rows to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// How many runs at the start are for warming up; 1 where there are several
    #[arg(long, value_name = "N")]
    warmup: Option<usize>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    reading: ModelArgs,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Key {
    /// The line of the user
    #[default]
    Line,
    /// The function of the user
    Function,
    /// The name scope
    Scope,
    /// The operator
    Op,
    /// The plugin that emitted the node
    Plugin,
    /// The node as it was run
    Node,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Format {
    /// For people; may change
    #[default]
    Text,
    /// For programs; stable, with a version
    Json,
    /// A picture of the call paths, as SVG
    Flamegraph,
    /// A file for <https://www.speedscope.app>
    Speedscope,
}

pub(crate) fn run(
    arguments: &Args,
    out: &mut dyn Write,
    err: &mut dyn Write,
    screen: Screen,
) -> anyhow::Result<Outcome> {
    let Args { model, profile: path, by, top, warmup, format, reading } = arguments;
    let document = reading.open(model, err)?;
    let shown = path.display();
    let opened = File::open(path).with_context(|| format!("cannot read `{shown}`"))?;
    let profile = Profile::read(opened).with_context(|| shown.to_string())?;
    let summary = summarize(document, &profile, by.to_by(), *warmup);
    if summary.known < 0.5 {
        let known = summary.known * 100.0;
        writeln!(
            err,
            "note: {known:.0} % of the time is that of nodes that the model has: is it the model that was run?"
        )?;
    }
    let skipped = summary.warmup.len();
    match format {
        Format::Text => {
            let sources = reading.sources(document);
            write!(out, "{}", text(&summary, *top, &sources, screen.style()))?;
        }
        Format::Json => {
            let sources = reading.sources(document);
            writeln!(out, "{:#}", json(&summary, &document.name, &sources))?;
        }
        Format::Flamegraph => {
            let title = format!("{}: {} runs", document.name, summary.runs.len());
            write!(out, "{}", flamegraph(&stacks(document, &profile, skipped), &title))?;
        }
        Format::Speedscope => {
            let stacks = stacks(document, &profile, skipped);
            writeln!(out, "{}", speedscope(&stacks, &document.name))?;
        }
    }
    Ok(if summary.known > 0.0 { Outcome::Found } else { Outcome::Nothing })
}

impl Key {
    fn to_by(self) -> By {
        match self {
            Key::Line => By::Line,
            Key::Function => By::Function,
            Key::Scope => By::Scope,
            Key::Op => By::Op,
            Key::Plugin => By::Plugin,
            Key::Node => By::Node,
        }
    }
}
