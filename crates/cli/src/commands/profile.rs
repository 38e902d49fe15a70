//! `jax2onnx profile`: shows which lines of Python take the time.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use inspect::placement::{Evidence, Placement};
use inspect::profile::{
    By, Json, Profile, Summary, flamegraph, speedscope, stacks, summarize, text, trace,
};
use inspect::{Document, Recorded, Sources, open_regular};
use serde_json::Value;

use crate::command::{Answer, Command, Console, Outcome, print_json};
use crate::model::{ModelArgs, note_missing};
use crate::output;

/// Show how much time each line of Python takes, and where it runs
///
/// Reads a profile from ONNX Runtime. To record one, set `options.enable_profiling = True` before you create the
/// session, and call `session.end_profiling()` at the end. The time of a loop excludes its body, so the times add
/// up. If several execution providers ran the nodes, also shows the lines that run on another provider, and the
/// copies between devices.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
                  jax2onnx profile model.onnx onnxruntime_profile.json\n  \
                  jax2onnx profile model.onnx profile.json --by scope\n  \
                  jax2onnx profile model.onnx profile.json --format flamegraph > profile.svg\n\n\
                  To include the nodes that ONNX Runtime creates, save the optimized model with\n\
                  `options.optimized_model_filepath`, and pass both models:\n  \
                  jax2onnx profile optimized.onnx profile.json --map model.onnx")]
pub(crate) struct Args {
    /// The model that ran
    model: PathBuf,
    /// The profile that ONNX Runtime wrote
    profile: PathBuf,
    /// How to group the times
    #[arg(long, value_enum, default_value_t)]
    by: Key,
    /// The number of rows to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// The number of runs to ignore at the start [default: 1 if there are several runs]
    #[arg(long, value_name = "N")]
    warmup: Option<usize>,
    /// The output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    reading: ModelArgs,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Key {
    /// The line of your code
    #[default]
    Line,
    /// The function of your code
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
    /// For people; may change between versions
    #[default]
    Text,
    /// For programs; stable, with a version number
    Json,
    /// A picture of the call paths, as SVG
    Flamegraph,
    /// A file for <https://www.speedscope.app>
    Speedscope,
    /// The events for <https://ui.perfetto.dev>, with `callsite` in the arguments of each kernel
    Perfetto,
}

/// The summary of a profile, and its output format.
struct Summed {
    document: &'static Document<'static>,
    sources: Sources<'static, 'static>,
    profile: Profile,
    summary: Summary<'static>,
    placement: Placement<'static>,
    format: Format,
    top: usize,
    /// The events with their lines, if they were requested.
    events: Option<Value>,
}

impl Command for Args {
    fn format(&self) -> output::Format {
        match self.format {
            Format::Json => output::Format::Json,
            Format::Text | Format::Flamegraph | Format::Speedscope | Format::Perfetto => {
                output::Format::Text
            }
        }
    }

    fn run<'a>(&'a self, console: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>> {
        let document = self.reading.open(&self.model, console)?;
        let shown = self.profile.display();
        let (opened, _) = open_regular(&self.profile)?;
        let profile = Profile::read(opened).with_context(|| shown.to_string())?;
        let summary = summarize(document, &profile, self.by.to_by(), self.warmup);
        // If the model records no lines, the summary says so.
        if summary.known < 0.5 && document.level != Recorded::Off {
            let known = summary.known * 100.0;
            console.note(format_args!(
                "only {known:.0} % of the time is in nodes of this model: is this the model that ran?"
            ))?;
        }
        let evidence = Evidence { profile: Some(&profile), ..Evidence::default() };
        let placement = Placement::new(document, evidence);
        let sources = self.reading.sources(document);
        let events = match self.format {
            Format::Perfetto => {
                let (opened, _) = open_regular(&self.profile)?;
                Some(trace(document, &profile, opened).with_context(|| shown.to_string())?)
            }
            _ => None,
        };
        let Args { format, top, .. } = *self;
        Ok(Box::new(Summed { document, sources, profile, summary, placement, format, top, events }))
    }
}

impl Answer for Summed {
    fn outcome(&self) -> Outcome {
        Outcome::found(self.summary.known > 0.0)
    }

    fn print(&self, console: &mut Console<'_>) -> io::Result<()> {
        let (out, style) = (&mut console.out, console.style);
        let Summed { document, summary, .. } = self;
        let stacks = || stacks(document, &self.profile, summary.warmup.len());
        match self.format {
            Format::Text => {
                let text = text(summary, &self.placement, self.top, &self.sources, style);
                write!(out, "{text}")?;
                note_missing(&self.sources.missing(), console)
            }
            Format::Flamegraph => {
                let title = format!("{}: {} runs", document.name, summary.runs.len());
                write!(out, "{}", flamegraph(&stacks(), &title, "µs"))
            }
            Format::Speedscope => print_json(*out, &speedscope(&stacks(), &document.name)),
            Format::Perfetto => print_json(*out, &self.events),
            Format::Json => self.print_json(*out),
        }
    }

    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let Summed { summary, placement, sources, document, .. } = self;
        print_json(out, &Json { summary, placement, name: &document.name, sources })
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
