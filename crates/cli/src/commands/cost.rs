//! `jax2onnx cost`: shows what each line of Python costs, before anything runs.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use inspect::cost::{By, Costs, Json, Sizing, costs, read_sizes, stacks, text};
use inspect::profile::flamegraph;
use inspect::{Document, Sources};

use crate::command::{Answer, Command, Console, Outcome, print_json};
use crate::model::ModelArgs;
use crate::output;

/// Show how many operations and bytes each line of Python costs
///
/// Counts floating-point operations, other operations, bytes that are read and written, and bytes of weights, from the
/// shapes in the model. Nothing runs. A loop counts as often as it runs. If sizes are symbols, the costs are formulas;
/// --size gives numbers.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
                  jax2onnx cost model.onnx\n  \
                  jax2onnx cost predict.onnx --size B=8\n  \
                  jax2onnx cost model.onnx --by module --format json\n  \
                  jax2onnx cost predict.onnx --size B=8 --format flamegraph > cost.svg")]
pub(crate) struct Args {
    /// The model
    model: PathBuf,
    /// The size that replaces a symbol, such as `B=8`; may be repeated
    #[arg(long, value_name = "NAME=SIZE")]
    size: Vec<String>,
    /// How to group the costs
    #[arg(long, value_enum, default_value_t)]
    by: Key,
    /// The number of rows to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
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
    /// The path of modules and name scopes
    #[value(alias = "scope")]
    Module,
    /// The operator
    #[value(alias = "op")]
    Operator,
    /// The node
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
}

/// The costs of a model, and their output format.
struct Counted {
    document: &'static Document<'static>,
    sources: Sources<'static, 'static>,
    costs: Costs<'static>,
    format: Format,
    top: usize,
    /// The picture, if it was requested.
    picture: Option<String>,
}

impl Command for Args {
    fn format(&self) -> output::Format {
        match self.format {
            Format::Json => output::Format::Json,
            Format::Text | Format::Flamegraph => output::Format::Text,
        }
    }

    fn run<'a>(&'a self, console: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>> {
        let sizes = read_sizes(self.size.iter().map(String::as_str))?;
        let document = self.reading.open(&self.model, console)?;
        let sizing = Sizing::of(document, &sizes)?;
        let costs = costs(&sizing, self.by.to_by());
        let picture = match self.format {
            Format::Flamegraph => {
                let stacks = stacks(&sizing).ok_or_else(|| {
                    anyhow!("a flame graph needs numbers: give all sizes with `--size NAME=SIZE`")
                })?;
                Some(flamegraph(&stacks, &document.name, "operations"))
            }
            Format::Text | Format::Json => None,
        };
        let sources = self.reading.sources(document);
        let Args { format, top, .. } = *self;
        Ok(Box::new(Counted { document, sources, costs, format, top, picture }))
    }
}

impl Answer for Counted {
    fn outcome(&self) -> Outcome {
        Outcome::found(!self.costs.lines.is_empty())
    }

    fn print(&self, Console { out, style, .. }: &mut Console<'_>) -> io::Result<()> {
        match (self.format, &self.picture) {
            (Format::Json, _) => self.print_json(*out),
            (Format::Flamegraph, Some(picture)) => write!(out, "{picture}"),
            (Format::Flamegraph | Format::Text, _) => {
                let Counted { document, sources, costs, top, .. } = self;
                write!(out, "{}", text(costs, document, *top, sources, *style))
            }
        }
    }

    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let Counted { document, sources, costs, .. } = self;
        print_json(out, &Json { costs, document, name: &document.name, sources })
    }
}

impl Key {
    fn to_by(self) -> By {
        match self {
            Key::Line => By::Line,
            Key::Function => By::Function,
            Key::Module => By::Module,
            Key::Operator => By::Operator,
            Key::Node => By::Node,
        }
    }
}
