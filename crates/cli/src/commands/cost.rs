//! `jax2onnx cost`: shows what each line of Python costs, before anything runs.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use inspect::cost::memory::{Order, Peak};
use inspect::cost::{
    By, Costs, Json, Lines, Machine, Roofline, Sizing, costs, read_sizes, sizes_in, stacks, text,
};
use inspect::profile::flamegraph;
use inspect::{Document, Sources};

use crate::command::{Answer, Command, Console, Outcome, print_json};
use crate::files::read_profile;
use crate::model::ModelArgs;
use crate::output;

/// Show how many operations and bytes each line of Python costs
///
/// Counts floating-point operations, other operations, bytes that are read and written, and bytes of weights, from the
/// shapes in the model. Also shows the peak of memory, and the lines that hold it. Nothing runs. A loop counts as often as it runs. If sizes are symbols, the costs are formulas;
/// --size gives numbers. With a profile, also shows what each line achieves per second, beside what the machine can do.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
                  jax2onnx cost model.onnx\n  \
                  jax2onnx cost predict.onnx --size B=8\n  \
                  jax2onnx cost model.onnx --by module --format json\n  \
                  jax2onnx cost predict.onnx --size B=8 --format flamegraph > cost.svg\n  \
                  jax2onnx cost predict.onnx --size B=8 --format memory > memory.svg\n  \
                  jax2onnx cost model.onnx --profile profile.json")]
pub(crate) struct Args {
    /// The model
    model: PathBuf,
    /// The size that replaces a symbol, such as `B=8`; may be repeated
    #[arg(long, value_name = "NAME=SIZE")]
    size: Vec<String>,
    /// How to group the costs
    #[arg(long, value_enum, default_value_t)]
    by: Key,
    /// The order in which the nodes run, for the peak of memory
    #[arg(long, value_enum, default_value_t)]
    order: RunOrder,
    /// A profile that ONNX Runtime wrote; its sizes replace symbols unless --size does
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// The number of runs of the profile to ignore at the start [default: 1 if there are several runs]
    #[arg(long, value_name = "N", requires = "profile")]
    warmup: Option<usize>,
    /// The operations and bytes per second that the machine can do, such as `100G,20GB` [default: measured once]
    #[arg(long, value_name = "FLOPS,BYTES", requires = "profile")]
    machine: Option<Machine>,
    /// The number of threads of the session, to measure the machine [default: that of ONNX Runtime]
    #[arg(long, value_name = "N", requires = "profile")]
    threads: Option<usize>,
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
enum RunOrder {
    /// That of ONNX Runtime
    #[default]
    Onnxruntime,
    /// That of the file
    File,
    /// Each node as soon as its operands exist
    Early,
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
    /// A picture of the memory over time, as SVG
    Memory,
}

/// The costs of a model, and their output format.
struct Counted {
    document: &'static Document<'static>,
    sources: Sources<'static, 'static>,
    costs: Costs<'static>,
    peak: Peak<'static>,
    /// The rates, if there is a profile.
    roofline: Option<Roofline<'static>>,
    format: Format,
    top: usize,
    /// The picture, if it was requested.
    picture: Option<String>,
}

impl Args {
    /// Returns the measurement that the command needs before it runs, if Python can do it.
    pub(crate) fn measurement(&self) -> Option<MachineRequest> {
        let is_needed = self.profile.is_some() && self.machine.is_none();
        is_needed.then_some(MachineRequest { threads: self.threads })
    }
}

/// A request to measure the machine, after which the command runs again with `--machine`.
#[derive(Clone, Copy, Debug)]
pub struct MachineRequest {
    pub threads: Option<usize>,
}

impl Command for Args {
    fn format(&self) -> output::Format {
        match self.format {
            Format::Json => output::Format::Json,
            Format::Text | Format::Flamegraph | Format::Memory => output::Format::Text,
        }
    }

    fn run<'a>(&'a self, console: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>> {
        let mut sizes = read_sizes(self.size.iter().map(String::as_str))?;
        let document = self.reading.open(&self.model, console)?;
        let profile = self.profile.as_deref().map(read_profile).transpose()?;
        let mut sizing = Sizing::of(document, &sizes)?;
        if let Some(profile) = &profile {
            for (name, size) in sizes_in(document, &sizing.open, profile) {
                sizes.entry(name).or_insert(size);
            }
            sizing = Sizing::of(document, &sizes)?;
        }
        let lines = Lines::of(document);
        let costs = costs(&sizing, &lines, self.by.to_by());
        let rates = |profile| Roofline::of(&costs, document, profile, self.warmup, self.machine);
        let roofline = profile.as_ref().map(rates).transpose()?;
        let peak = Peak::of(&sizing, &lines, self.order.to_order());
        let picture = match self.format {
            Format::Flamegraph => {
                let stacks = stacks(&sizing).ok_or_else(|| {
                    anyhow!("a flame graph needs numbers: give all sizes with `--size NAME=SIZE`")
                })?;
                Some(flamegraph(&stacks, &document.name, "operations"))
            }
            Format::Memory => {
                let picture = peak.picture(document, &lines, &document.name);
                Some(picture.ok_or_else(|| {
                    anyhow!(
                        "the memory over time needs numbers: give all sizes with `--size NAME=SIZE`"
                    )
                })?)
            }
            Format::Text | Format::Json => None,
        };
        let sources = self.reading.sources(document);
        let Args { format, top, .. } = *self;
        Ok(Box::new(Counted { document, sources, costs, peak, roofline, format, top, picture }))
    }
}

impl Answer for Counted {
    fn outcome(&self) -> Outcome {
        Outcome::found(!self.costs.lines.is_empty())
    }

    fn print(&self, Console { out, style, .. }: &mut Console<'_>) -> io::Result<()> {
        match (self.format, &self.picture) {
            (Format::Json, _) => self.print_json(*out),
            (Format::Flamegraph | Format::Memory, Some(picture)) => write!(out, "{picture}"),
            (Format::Flamegraph | Format::Memory | Format::Text, _) => {
                let Counted { document, sources, costs, peak, roofline, top, .. } = self;
                write!(out, "{}", text(costs, document, *top, sources, *style))?;
                write!(out, "\n{}", peak.text(document, *top, sources, *style))?;
                match roofline {
                    Some(roofline) => write!(out, "\n{}", roofline.text(*top, sources, *style)),
                    None => Ok(()),
                }
            }
        }
    }

    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let Counted { document, sources, costs, peak, roofline, .. } = self;
        let (roofline, name) = (roofline.as_ref(), &*document.name);
        print_json(out, &Json { costs, peak, roofline, document, name, sources })
    }
}

impl RunOrder {
    fn to_order(self) -> Order {
        match self {
            RunOrder::Onnxruntime => Order::OnnxRuntime,
            RunOrder::File => Order::File,
            RunOrder::Early => Order::Early,
        }
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
