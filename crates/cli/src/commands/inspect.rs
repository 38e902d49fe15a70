//! `jax2onnx inspect`: shows what a model contains.

use std::io::{self, Write};
use std::path::PathBuf;

use inspect::positive::{Need, Positive};
use inspect::show::clean;
use inspect::summary::{End, Origins, Summary, Weights, summary};
use inspect::{Document, Frame, Recorded, Style};
use serde_json::{Value, json};

use crate::command::{Answer, Command, Console, Outcome, print_json};
use crate::model::ModelArgs;
use crate::output::{Format, OutputArgs};
use inspect::text::{bytes, count, share};

/// Show the contents of a model and how many of its nodes have a source line
///
/// Shows inputs, outputs, opsets, sizes, weights and operators, the provenance level, how many nodes have a
/// line, and which files, functions and scopes they come from. Does not read weights.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jax2onnx inspect model.onnx\n  \
                        jax2onnx inspect release.onnx --map release.onnx.map --format json")]
pub(crate) struct Args {
    /// The model
    model: PathBuf,
    /// List every operator, function and scope
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    reading: ModelArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The maximum number of lines to print per list, unless the user wants all.
const MAX_LISTED: usize = 12;

/// The summary of a model, and how much of each list to print.
struct Summed {
    document: &'static Document<'static>,
    summary: Summary<'static>,
    max_listed: usize,
}

impl Command for Args {
    fn format(&self) -> Format {
        self.output.format
    }

    fn run<'a>(&'a self, console: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>> {
        let document = self.reading.open(&self.model, console)?;
        let max_listed = if self.all { usize::MAX } else { MAX_LISTED };
        Ok(Box::new(Summed { document, summary: summary(document), max_listed }))
    }
}

impl Answer for Summed {
    fn outcome(&self) -> Outcome {
        Outcome::Found
    }

    fn print(&self, console: &mut Console<'_>) -> io::Result<()> {
        let Summed { document, summary, max_listed } = self;
        let mut printer =
            Printer { out: console.out, style: console.style, max_listed: *max_listed };
        printer.print(document, summary)
    }

    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        print_json(out, &describe(self.document, &self.summary))
    }
}

/// Prints a summary for people.
struct Printer<'p> {
    out: &'p mut dyn Write,
    style: Style,
    max_listed: usize,
}

impl Printer<'_> {
    fn print(&mut self, document: &Document<'_>, summary: &Summary<'_>) -> io::Result<()> {
        let scan = &document.scan;
        writeln!(self.out, "{}", self.style.bold(&clean(&document.name)))?;
        let weights = &summary.weights;
        let sizes = format!("{}, {}", bytes(document.size), weights_text(weights));
        self.field("size", &sizes)?;
        let version = if scan.producer_version.is_empty() { "" } else { " " };
        if !scan.producer.is_empty() {
            self.field("made by", &format!("{}{version}{}", scan.producer, scan.producer_version))?;
        }
        let opset = |&(domain, version): &(&str, i64)| match domain {
            "" | "ai.onnx" => format!("{version}"),
            domain => format!("{domain} {version}"),
        };
        let opsets: Vec<String> = scan.opsets.iter().map(opset).collect();
        self.field("opset", &format!("{}; IR {}", opsets.join(", "), scan.ir_version))?;
        for (what, ends) in [("in", &summary.inputs), ("out", &summary.outputs)] {
            ends.iter().try_for_each(|end| self.field(what, &end_text(end)))?;
        }
        let sizes = &summary.positive_sizes;
        sizes.iter().try_for_each(|size| self.field("positive", &positive_text(size)))?;
        for (location, size) in &weights.files {
            let size = size.as_ref().map_or_else(|why| why.to_string(), |&size| bytes(size));
            self.field("weights", &format!("{location}, {size}"))?;
        }
        self.nodes(summary)?;
        self.origins(document, &summary.origins, summary.nodes)
    }

    fn field(&mut self, name: &str, value: &str) -> io::Result<()> {
        let value = self.style.hanging(&clean(value), 11);
        writeln!(self.out, "  {} {value}", self.style.dim(&format!("{name:<8}")))
    }

    fn nodes(&mut self, summary: &Summary<'_>) -> io::Result<()> {
        let mut parts = vec![count(summary.nodes, "node")];
        if !summary.functions.is_empty() {
            parts.push(count(summary.functions.len(), "function"));
        }
        if summary.bodies > 0 {
            let bodies = if summary.bodies == 1 { "body" } else { "bodies" };
            parts.push(format!("{} {bodies}", summary.bodies));
        }
        writeln!(self.out, "\n{}", self.style.bold(&parts.join(", ")))?;
        self.list(&summary.ops, |(op, number)| (*number, op.clone()))?;
        if summary.functions.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n{}", self.style.bold("functions, by calls"))?;
        self.list(&summary.functions, |function| {
            (function.calls, format!("{}, {}", function.name, count(function.nodes, "node")))
        })
    }

    fn origins(
        &mut self,
        document: &Document<'_>,
        origins: &Origins<'_>,
        nodes: usize,
    ) -> io::Result<()> {
        let level = match (origins.level, &document.map_path) {
            (Recorded::Map, Some(path)) => format!("source map {}", clean(&path.to_string_lossy())),
            (Recorded::Torch, _) => "from torch.onnx".to_owned(),
            (level, _) => level.word().to_owned(),
        };
        writeln!(self.out, "\n{} {level}", self.style.bold("provenance:"))?;
        if origins.level == Recorded::Off {
            return Ok(());
        }
        let (lines, all) = (origins.with_line, share(origins.with_line, nodes));
        writeln!(self.out, "  {lines} of {} have a line ({all})", count(nodes, "node"))?;
        if origins.with_user_line < lines {
            let other = lines - origins.with_user_line;
            writeln!(self.out, "  {other} of them have only lines of libraries")?;
        }
        if origins.fused > 0 {
            writeln!(self.out, "  {} fused from several lines", were(origins.fused))?;
        }
        for (sure, number) in
            origins.sure.iter().filter(|(sure, _)| inspect::where_::how(*sure).is_some())
        {
            writeln!(self.out, "  {} found as `{}`", count(*number, "node"), sure.word())?;
        }
        let shown = |file: &str| match file {
            Frame::UNKNOWN => "this level does not record files; `indexed` does".to_owned(),
            file => file.to_owned(),
        };
        writeln!(self.out, "\n{}", self.style.bold("files, by nodes"))?;
        self.list(&origins.files, |(file, _, number)| (*number, shown(file)))?;
        writeln!(self.out, "\n{}", self.style.bold("functions of the source, by nodes"))?;
        self.list(&origins.functions, |(file, function, number)| match *file {
            Frame::UNKNOWN => (*number, (*function).to_owned()),
            file => (*number, format!("{function}, {file}")),
        })?;
        if !origins.scopes.is_empty() {
            writeln!(self.out, "\n{}", self.style.bold("scopes, by nodes"))?;
            self.list(&origins.scopes, |(scope, number)| (*number, scope.clone()))?;
        }
        Ok(())
    }

    /// Prints numbers and names, one per line, as many as there is room for.
    fn list<T>(&mut self, entries: &[T], line: impl Fn(&T) -> (usize, String)) -> io::Result<()> {
        for entry in entries.iter().take(self.max_listed) {
            let (number, name) = line(entry);
            let room = self.style.width.saturating_sub(9);
            writeln!(self.out, "{number:>7}  {}", self.style.fit(&clean(&name), room))?;
        }
        if entries.len() > self.max_listed {
            let more = entries.len() - self.max_listed;
            writeln!(self.out, "      …  and {more} more; --all lists them")?;
        }
        Ok(())
    }
}

fn were(nodes: usize) -> String {
    if nodes == 1 { "1 node was".to_owned() } else { format!("{nodes} nodes were") }
}

fn weights_text(weights: &Weights<'_>) -> String {
    if weights.count == 0 {
        return "no weights".to_owned();
    }
    let tensors = count(weights.count, "tensor");
    let external = match weights.external_bytes {
        0 => String::new(),
        external => format!(", {} of them in other files", bytes(external)),
    };
    format!("weights {} in {tensors}{external}", bytes(weights.bytes))
}

fn end_text(end: &End<'_>) -> String {
    let path = end.path.filter(|&path| path != end.name);
    let path = path.map_or_else(String::new, |path| format!("  ({path})"));
    format!("{}  {}{path}", end.name, end.ty.as_deref().unwrap_or("?"))
}

/// `T  for MaxPool at pool.py:12, and 2 more nodes`
fn positive_text(positive: &Positive<'_>) -> String {
    let need = |need: &Need<'_>| match &need.callsite {
        Some(frame) => format!("  for {} at {}", need.op, frame.place()),
        None => format!("  for {} {}", need.op, need.node),
    };
    let first = positive.needed_by.first().map(need).unwrap_or_default();
    let more = match positive.needed_by.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(", and {}", count(more, "more node")),
    };
    format!("{}{first}{more}", positive.size)
}

fn describe(document: &Document<'_>, summary: &Summary<'_>) -> Value {
    let scan = &document.scan;
    let ends = |ends: &[End<'_>]| -> Vec<Value> {
        ends.iter()
            .map(|end| json!({ "name": end.name, "type": end.ty, "path": end.path }))
            .collect()
    };
    let opset = |(domain, version): &(&str, i64)| json!({ "domain": domain, "version": version });
    json!({
        "version": 1,
        "model": document.name,
        "bytes": document.size,
        "producer": scan.producer,
        "producer_version": scan.producer_version,
        "ir_version": scan.ir_version,
        "opsets": scan.opsets.iter().map(opset).collect::<Vec<_>>(),
        "inputs": ends(&summary.inputs),
        "outputs": ends(&summary.outputs),
        "positive_sizes": summary.positive_sizes.iter().map(describe_positive).collect::<Vec<_>>(),
        "weights": describe_weights(&summary.weights),
        "nodes": summary.nodes,
        "bodies": summary.bodies,
        "ops": counted(&summary.ops, "op"),
        "functions": summary.functions.iter().map(|function| json!({
            "name": function.name, "nodes": function.nodes, "calls": function.calls,
        })).collect::<Vec<_>>(),
        "provenance": describe_origins(document, &summary.origins),
    })
}

fn describe_positive(positive: &Positive<'_>) -> Value {
    json!({
        "size": positive.size,
        "needed_by": positive.needed_by.iter().map(|need| json!({
            "node": need.node,
            "op": need.op,
            "callsite": need.callsite.as_ref().map(inspect::json::frame),
        })).collect::<Vec<_>>(),
    })
}

fn describe_weights(weights: &Weights<'_>) -> Value {
    json!({
        "count": weights.count,
        "elements": weights.elements,
        "bytes": weights.bytes,
        "external_bytes": weights.external_bytes,
        "files": weights.files.iter().map(|(location, size)| json!({
            "location": location,
            "bytes": size.as_ref().ok(),
            "problem": size.as_ref().err().map(ToString::to_string),
        })).collect::<Vec<_>>(),
    })
}

fn describe_origins(document: &Document<'_>, origins: &Origins<'_>) -> Value {
    json!({
        "level": origins.level.word(),
        "map": document.map_path,
        "debug_id": origins.debug_id,
        "nodes_with_line": origins.with_line,
        "nodes_with_user_line": origins.with_user_line,
        "nodes_fused": origins.fused,
        "sure": origins.sure.iter().map(|(sure, nodes)| json!({ "sure": sure.word(), "nodes": nodes })).collect::<Vec<_>>(),
        "files": origins.files.iter().map(|(file, tier, nodes)| json!({
            "file": Some(file).filter(|file| **file != Frame::UNKNOWN),
            "tier": inspect::json::tier(*tier),
            "nodes": nodes,
        })).collect::<Vec<_>>(),
        "functions": origins.functions.iter().map(|(file, function, nodes)| json!({
            "file": Some(file).filter(|file| **file != Frame::UNKNOWN),
            "function": function,
            "nodes": nodes,
        })).collect::<Vec<_>>(),
        "scopes": counted(&origins.scopes, "scope"),
    })
}

fn counted(list: &[(String, usize)], key: &str) -> Vec<Value> {
    list.iter().map(|(name, nodes)| json!({ key: name, "nodes": nodes })).collect()
}
