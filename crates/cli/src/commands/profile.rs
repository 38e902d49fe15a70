//! `jax2onnx profile`: which line of Python the time goes to.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use anyhow::Context;
use inspect::profile::{
    By, Profile, Summary, flamegraph, json, speedscope, stacks, summarize, text,
};
use inspect::{Document, Sources};
use serde_json::Value;

use crate::command::{Answer, Command, Console, Outcome};
use crate::model::ModelArgs;
use crate::output;

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

/// A profile, summed up, and how to show it.
struct Summed {
    document: &'static Document<'static>,
    sources: Sources<'static, 'static>,
    profile: Profile,
    summary: Summary<'static>,
    format: Format,
    top: usize,
}

impl Command for Args {
    fn format(&self) -> output::Format {
        match self.format {
            Format::Json => output::Format::Json,
            Format::Text | Format::Flamegraph | Format::Speedscope => output::Format::Text,
        }
    }

    fn run<'a>(&'a self, console: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>> {
        let document = self.reading.open(&self.model, console)?;
        let shown = self.profile.display();
        let opened = File::open(&self.profile).with_context(|| format!("cannot read `{shown}`"))?;
        let profile = Profile::read(opened).with_context(|| shown.to_string())?;
        let summary = summarize(document, &profile, self.by.to_by(), self.warmup);
        if summary.known < 0.5 {
            let known = summary.known * 100.0;
            console.note(format_args!(
                "{known:.0} % of the time is that of nodes that the model has: is it the model that was run?"
            ))?;
        }
        let sources = self.reading.sources(document);
        let Args { format, top, .. } = *self;
        Ok(Box::new(Summed { document, sources, profile, summary, format, top }))
    }
}

impl Answer for Summed {
    fn outcome(&self) -> Outcome {
        Outcome::found(self.summary.known > 0.0)
    }

    fn print(&self, Console { out, style, .. }: &mut Console<'_>) -> io::Result<()> {
        let Summed { document, summary, .. } = self;
        let stacks = || stacks(document, &self.profile, summary.warmup.len());
        match self.format {
            Format::Text => write!(out, "{}", text(summary, self.top, &self.sources, *style)),
            Format::Flamegraph => {
                let title = format!("{}: {} runs", document.name, summary.runs.len());
                write!(out, "{}", flamegraph(&stacks(), &title))
            }
            Format::Speedscope => writeln!(out, "{}", speedscope(&stacks(), &document.name)),
            Format::Json => writeln!(out, "{:#}", self.to_json()),
        }
    }

    fn to_json(&self) -> Value {
        json(&self.summary, &self.document.name, &self.sources)
    }
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
