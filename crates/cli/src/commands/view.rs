//! `jax2onnx view`: writes a page that links the source and the graph.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context;
use inspect::cost::{Sizing, read_sizes};
use inspect::show::clean;
use inspect::view::{Extent, Options, View, page, view};
use inspect::{Document, Sources, Weights, open_regular};
use onnx::outputs::Files;

use crate::command::{Answer, Command, Console, Outcome, print_json};
use crate::files::{read_profile, stage_text};
use crate::model::{ModelArgs, note_missing, open};
use crate::output;
use inspect::text::{bytes, count};

/// Write an HTML page that shows the source beside the graph
///
/// The page is one file that works offline. Click a line to see its nodes, or a node to see its line. With
/// --profile, --compare, --sensitivity, --cost or --against, the page also shows times, errors, losses in a shorter type,
/// costs or differences beside each line.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jax2onnx view model.onnx --open\n  \
                        jax2onnx view model.onnx -o page.html --profile profile.json\n  \
                        jax2onnx view predict.onnx --cost --size B=8\n  \
                        jax2onnx view model.onnx --against before.onnx\n  \
                        jax2onnx view model.onnx --format json > data.json")]
pub(crate) struct Args {
    /// The model
    model: PathBuf,
    /// The file to write [default: MODEL with the extension `.html`, in the current folder]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Open the page in your browser
    #[arg(long)]
    open: bool,
    /// Leave out the text of all source files
    #[arg(long)]
    no_source: bool,
    /// Show the time of each line, from a profile of ONNX Runtime
    #[arg(long, value_name = "PROFILE.json")]
    profile: Option<PathBuf>,
    /// Show the error of each line, from the output of `jax2onnx compare --format json`
    #[arg(long, value_name = "REPORT.json")]
    compare: Option<PathBuf>,
    /// Show what each line loses in a shorter type, from the output of `jax2onnx sensitivity --format json`
    #[arg(long, value_name = "REPORT.json")]
    sensitivity: Option<PathBuf>,
    /// Show the operations, bytes and memory of each line, with sliders for symbolic sizes
    #[arg(long)]
    cost: bool,
    /// The size with which the costs are first shown, such as `B=8`; may be repeated
    #[arg(long, value_name = "NAME=SIZE", requires = "cost")]
    size: Vec<String>,
    /// Show which lines gained or lost nodes since an earlier export
    #[arg(long, value_name = "OTHER.onnx")]
    against: Option<PathBuf>,
    #[command(flatten)]
    reading: ModelArgs,
    /// The output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Format {
    /// The page
    #[default]
    Html,
    /// The data of the page, to standard output; stable, with a version number
    Json,
    /// Errors, times or lines of the nodes for Model Explorer, to standard output
    ModelExplorer,
}

/// A page that was written, or its data.
struct Viewed<'a> {
    args: &'a Args,
    view: View<'static>,
    files: Files,
    /// The source files that were not found.
    missing: Vec<String>,
    /// The source files that differ from the exported ones.
    changed: Vec<String>,
}

impl Command for Args {
    fn format(&self) -> output::Format {
        match self.format {
            Format::Html => output::Format::Text,
            Format::Json | Format::ModelExplorer => output::Format::Json,
        }
    }

    fn run<'a>(&'a self, console: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>> {
        // Only the differences of two models need the contents of weights.
        let weights = if self.against.is_some() { Weights::Read } else { Weights::Skipped };
        let document = open(&self.model, weights, self.reading.map.as_deref(), console)?;
        let sources = self.reading.sources(document);
        let profile = self.profile.as_deref().map(read_profile).transpose()?;
        let report = self.compare.as_deref().map(read_report).transpose()?;
        let sensitivity = self.sensitivity.as_deref().map(read_report).transpose()?;
        let sizes = read_sizes(self.size.iter().map(String::as_str))?;
        Sizing::check(document, &sizes)?;
        let against: Option<&'static Document<'static>> = match &self.against {
            Some(other) => Some(open(other, weights, None, console)?),
            None => None,
        };
        let options = Options {
            sources: (!self.no_source).then_some(&sources),
            profile: profile.as_ref(),
            report: report.as_deref(),
            sensitivity: sensitivity.as_deref(),
            cost: self.cost.then_some(&sizes),
            against,
            extent: match self.format {
                Format::Html => Extent::Page,
                Format::Json | Format::ModelExplorer => Extent::Whole,
            },
        };
        let view = view(document, &options).map_err(|error| {
            let is_compared = error.command() == "compare";
            let report = if is_compared { &self.compare } else { &self.sensitivity };
            let name = report.as_deref().unwrap_or(Path::new("")).display().to_string();
            anyhow::Error::new(error).context(name)
        })?;
        let files = self.inputs(document, &sources, against);
        let (missing, changed) = (sources.missing(), sources.changed());
        Ok(Box::new(Viewed { args: self, view, files, missing, changed }))
    }
}

impl Args {
    /// Returns the files that the page contains or derives from.
    fn inputs(
        &self,
        document: &Document<'_>,
        sources: &Sources<'_, '_>,
        against: Option<&Document<'_>>,
    ) -> Files {
        let mut files = Files::default();
        document.note_inputs("the model", sources, &mut files);
        if let Some(other) = against {
            other.note_inputs("the other model", &self.reading.sources(other), &mut files);
        }
        let reports = [
            ("the profile", &self.profile),
            ("the report", &self.compare),
            ("the report", &self.sensitivity),
        ];
        for (what, path) in reports {
            if let Some(path) = path {
                files.read(what, path);
            }
        }
        files
    }
}

impl Answer for Viewed<'_> {
    fn outcome(&self) -> Outcome {
        Outcome::Found
    }

    fn print(&self, console: &mut Console<'_>) -> io::Result<()> {
        let Viewed { args, view, files, missing, changed } = self;
        let output = args.output.clone().unwrap_or_else(|| default_output(&args.model));
        let page = page(view);
        let file = files.clone().write("the page", &output).map_err(io::Error::other)?;
        let written = stage_text(file, &page).and_then(|staged| Ok(staged.commit()?));
        written.map_err(io::Error::other)?;
        let shown = clean(&output.to_string_lossy());
        let (nodes, with_line) = view.nodes();
        let size = bytes(page.len() as u64);
        let linked = if with_line == nodes { "all".to_owned() } else { with_line.to_string() };
        let nodes = count(nodes, "node");
        writeln!(console.out, "{shown}: {nodes}, {linked} linked to source, {size}")?;
        for sentence in view.left_out() {
            console.note(format_args!("{}", clean(sentence)))?;
        }
        note_missing(missing, console)?;
        note_changed(changed, console)?;
        if args.open && !open_in_browser(&output) {
            console.note(format_args!("no browser could be started: open `{shown}` yourself"))?;
        }
        Ok(())
    }

    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.args.format {
            Format::ModelExplorer => print_json(out, &self.view.node_data()),
            Format::Html | Format::Json => print_json(out, &self.view),
        }
    }
}

/// Says which source files the page leaves out because they changed.
fn note_changed(files: &[String], console: &mut Console<'_>) -> io::Result<()> {
    let files = match files {
        [] => return Ok(()),
        [file] => format!("`{}` has", clean(file)),
        [file, rest @ ..] => {
            format!("`{}` and {} have", clean(file), count(rest.len(), "other file"))
        }
    };
    console.note(format_args!("{files} changed since the export: the page leaves out the text"))
}

/// Returns the path of the page of a model. It is in the current folder, because the model may be anywhere.
fn default_output(model: &Path) -> PathBuf {
    Path::new(model.file_name().unwrap_or(model.as_os_str())).with_extension("html")
}

fn read_report(path: &Path) -> anyhow::Result<String> {
    let (opened, _) = open_regular(path)?;
    io::read_to_string(opened).with_context(|| path.display().to_string())
}

/// Starts the user's browser. Returns true if it started.
fn open_in_browser(page: &Path) -> bool {
    let Ok(page) = page.canonicalize() else { return false };
    let mut command = if cfg!(target_os = "macos") {
        std::process::Command::new("open")
    } else if cfg!(windows) {
        std::process::Command::new("explorer")
    } else {
        std::process::Command::new("xdg-open")
    };
    let command = command.arg(page).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).spawn().is_ok()
}
