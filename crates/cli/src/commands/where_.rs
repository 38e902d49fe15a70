//! `jax2onnx where`: shows the lines that a node came from.

use std::io::{self, Write};
use std::path::PathBuf;

use inspect::find::{Matches, Target, find};
use inspect::show::{clean, excerpt, excerpts, traceback};
use inspect::where_::{self, Where, how, where_};
use inspect::{Document, Frame, Provenance, Sources, Style, json as values};
use serde_json::{Value, json};

use crate::command::{Answer, Command, Console, Outcome, print_json};
use crate::model::{ModelArgs, note_missing};
use crate::output::{Format, OutputArgs};

/// Show the line of Python that a node came from
///
/// Shows the call path with the expression underlined, all lines that were fused into the node, the plugin
/// that emitted it, its scope, its inputs and its outputs. A part of the name is enough if it is unique. `#12`
/// is node number 12.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jax2onnx where model.onnx attn/dot_general\n  \
                        jax2onnx where model.onnx logits --source-root ~/src/project\n  \
                        jax2onnx where release.onnx mul_3 --map release.onnx.map --format json")]
pub(crate) struct Args {
    /// The model
    model: PathBuf,
    /// The name of a node, output, input or weight, or a part of the name
    #[arg(value_name = "NODE|OUTPUT")]
    name: String,
    /// Also show the frames of libraries and JAX
    #[arg(long)]
    all_frames: bool,
    #[command(flatten)]
    reading: ModelArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The maximum number of candidates, callers and readers to list.
const MAX_LISTED: usize = 20;

/// The answer for one name.
struct Located<'a> {
    document: &'static Document<'static>,
    sources: Sources<'static, 'static>,
    wanted: &'a str,
    found: Matches<'static>,
    answer: Option<Where<'static>>,
    all_frames: bool,
}

impl Command for Args {
    fn format(&self) -> Format {
        self.output.format
    }

    fn run<'a>(&'a self, console: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>> {
        let document = self.reading.open(&self.model, console)?;
        let sources = self.reading.sources(document);
        let Args { name: wanted, all_frames, .. } = self;
        let found = find(&document.scan, wanted);
        let answer = match &found {
            Matches::One(target) => Some(where_(document, target)),
            // If a runtime derived the name from one in the model, that is a better answer than a similar name.
            _ => runtime_name(document, wanted),
        };
        let all_frames = *all_frames;
        Ok(Box::new(Located { document, sources, wanted, found, answer, all_frames }))
    }
}

impl Answer for Located<'_> {
    fn outcome(&self) -> Outcome {
        Outcome::found(self.answer.is_some() || common_line(self.document, &self.found).is_some())
    }

    fn print(&self, console: &mut Console<'_>) -> io::Result<()> {
        if let Some(answer) = &self.answer {
            self.print_answer(answer, console.style, console.out)?;
            return note_missing(&self.sources.missing(), console);
        }
        if let Some(line) = common_line(self.document, &self.found) {
            print_candidates(self.document, self.wanted, &self.found, console.out)?;
            write!(console.out, "{}", excerpt(&line, &self.sources, console.style))?;
            return note_missing(&self.sources.missing(), console);
        }
        print_candidates(self.document, self.wanted, &self.found, console.err)
    }

    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let answer = self.answer.as_ref();
        print_json(out, &describe(self.document, self.wanted, answer, &self.found, &self.sources))
    }
}

/// Resolves a name that a runtime derived from the name of a node: `mul/LayerNormFusion/`.
fn runtime_name<'d>(document: &'d Document<'_>, name: &str) -> Option<Where<'d>> {
    let provenance = document.resolve_name(name)?;
    Some(Where { provenance: Some(provenance), ..Where::nothing(name.to_owned(), "runtime name") })
}

/// Returns the line that all candidates came from, if there is only one.
fn common_line<'d>(document: &'d Document<'_>, found: &Matches<'_>) -> Option<Frame<'d>> {
    let Matches::Many(candidates) = found else { return None };
    let mut lines = candidates.iter().map(|(_, target)| match target {
        Target::Node(number) => document.callsites(*number).first().map(|&id| document.frame(id)),
        Target::Value { .. } => None,
    });
    let first = lines.next()??;
    let is_same = |line: Option<Frame<'_>>| {
        line.is_some_and(|line| (line.file, line.line) == (first.file, first.line))
    };
    lines.all(is_same).then_some(first)
}

fn print_candidates(
    document: &Document<'_>,
    wanted: &str,
    found: &Matches<'_>,
    err: &mut dyn Write,
) -> io::Result<()> {
    match found {
        Matches::Many(candidates) => {
            writeln!(err, "`{}` matches {} names:", clean(wanted), candidates.len())?;
            for (name, target) in candidates.iter().take(MAX_LISTED) {
                writeln!(err, "  {}", candidate(document, name, target))?;
            }
            if candidates.len() > MAX_LISTED {
                writeln!(err, "  … and {} more", candidates.len() - MAX_LISTED)?;
            }
        }
        Matches::Nothing(nearest) => {
            writeln!(err, "no node or value has the name `{}`", clean(wanted))?;
            if let Some(file) = file_of_line(wanted) {
                let file = clean(file);
                writeln!(
                    err,
                    "\nhint: `jax2onnx blame MODEL {file}` lists the nodes of each line"
                )?;
            } else if is_number(wanted)
                && let Some(last) = document.scan.nodes.len().checked_sub(1)
            {
                writeln!(err, "\nhint: the nodes of the model are `#0` to `#{last}`")?;
            } else if !nearest.is_empty() {
                let names: Vec<String> =
                    nearest.iter().map(|name| format!("`{}`", clean(name))).collect();
                let named =
                    if names.len() == 1 { "a similar name is" } else { "similar names are" };
                writeln!(err, "\nhint: {named} {}", names.join(", "))?;
            }
        }
        Matches::One(_) => {}
    }
    Ok(())
}

/// True for the number of a node, as in `#12`.
fn is_number(wanted: &str) -> bool {
    wanted.strip_prefix('#').is_some_and(|number| number.parse::<u64>().is_ok())
}

/// Returns the file of a line: `model.py` of `model.py:12`.
fn file_of_line(wanted: &str) -> Option<&str> {
    let (file, line) = wanted.split_once(".py:")?;
    let is_line = line.split(':').all(|number| number.parse::<u32>().is_ok());
    is_line.then(|| &wanted[..file.len() + ".py".len()])
}

/// Describes a candidate so that it differs from the others.
fn candidate(document: &Document<'_>, name: &str, target: &Target<'_>) -> String {
    let name = clean(name);
    match *target {
        Target::Node(number) => {
            let op = document.scan.nodes.get(number).map(|node| node.op_with_domain());
            let line = document.callsites(number).first().map(|&id| document.frame(id).place());
            let line = line.map_or_else(String::new, |line| format!(", {}", clean(&line)));
            format!("#{number}  {name}  {}{line}", clean(&op.unwrap_or_default()))
        }
        Target::Value { .. } => format!("{name}  an input or a weight"),
    }
}

impl Located<'_> {
    fn print_answer(
        &self,
        answer: &Where<'_>,
        style: Style,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Located { document, sources, all_frames, .. } = self;
        let what = answer.op.as_deref().unwrap_or(answer.kind);
        writeln!(out, "{} `{}`", style.bold(&clean(what)), clean(&answer.name))?;
        if let Some(provenance) = &answer.provenance {
            write!(out, "{}", traceback(provenance, *all_frames, sources, style))?;
        }
        let reading = reading_lines(document, answer);
        write!(out, "{}", excerpts(&reading, sources, style))?;
        for (name, value) in origin_facts(document, answer, !reading.is_empty()) {
            print_fact(name, &value, style, out)?;
        }
        for (name, value) in value_facts(document, answer) {
            print_fact(name, &value, style, out)?;
        }
        let fused = answer.provenance.as_ref().map(Provenance::fused_lines).unwrap_or_default();
        if !fused.is_empty() {
            writeln!(out, "{}", style.bold("also from"))?;
        }
        fused.iter().try_for_each(|frame| write!(out, "{}", excerpt(frame, sources, style)))
    }
}

/// A name and a value.
type Fact = (&'static str, String);

fn print_fact(name: &str, value: &str, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let (mark, name) = (style.blue("="), style.dim(&format!("{name:<9}")));
    writeln!(out, "   {mark} {name} {}", style.hanging(&clean(value), 15))
}

/// The maximum number of lines to show for a value that no node computes.
const MAX_READING: usize = 3;

/// Returns the lines that read a value without a line, such as a weight.
fn reading_lines<'d>(document: &'d Document<'_>, answer: &Where<'_>) -> Vec<Frame<'d>> {
    let mut lines: Vec<Frame<'d>> = Vec::new();
    if answer.provenance.is_some() {
        return lines;
    }
    for &reader in &answer.readers {
        let Some(&id) = document.callsites(reader).first() else { continue };
        let line = document.frame(id);
        let is_known = |known: &Frame<'_>| (known.file, known.line) == (line.file, line.line);
        if !lines.iter().any(is_known) && lines.len() < MAX_READING {
            lines.push(line);
        }
    }
    lines
}

/// Returns the facts about the origin of a node, except its lines. `is_read` means that the lines belong to nodes
/// that read it.
fn origin_facts(document: &Document<'_>, answer: &Where<'_>, is_read: bool) -> Vec<Fact> {
    let Some(provenance) = &answer.provenance else {
        let what = match (is_read, answer.op.is_some()) {
            (true, _) => "the lines that read it",
            (false, true) => document.missing().unwrap_or("not recorded"),
            (false, false) if answer.readers.is_empty() => "not recorded; no node reads it",
            (false, false) => document.missing().unwrap_or("the nodes that read it have no line"),
        };
        return vec![("origin", what.to_owned())];
    };
    let mut facts = Vec::new();
    let is_nameless = provenance.callsite.is_some_and(|frame| !frame.has_file());
    if let Some(missing) = document.missing().filter(|_| is_nameless) {
        facts.push(("file", missing.to_owned()));
    }
    if let Some(how) = how(provenance.sure) {
        facts.push(("sure", how.to_owned()));
    }
    if !provenance.scope.is_empty() {
        facts.push(("scope", provenance.scope.join("/")));
    }
    if !provenance.transforms.is_empty() {
        facts.push(("through", provenance.transforms.join(" / ")));
    }
    if let Some(plugin) = &provenance.plugin {
        let place = match (plugin.file, plugin.line) {
            ("", 0) => String::new(),
            ("", line) => format!(", line {line}"),
            (file, line) => format!(", {file}:{line}"),
        };
        facts.push(("plugin", format!("{}{place}", plugin.name)));
    }
    facts
}

/// Returns the place of a node or value in the model: its operands, results, callers and readers.
fn value_facts(document: &Document<'_>, answer: &Where<'_>) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(path) = answer.path {
        facts.push(("path", path.to_owned()));
    }
    if !answer.inside.is_empty() {
        facts.push(("inside", answer.inside.join(", ")));
    }
    for (name, values) in [("in", &answer.inputs), ("out", &answer.outputs)] {
        let ty = |value: &where_::Value<'_>| value.ty.clone().unwrap_or_else(|| "?".into());
        facts.extend(values.iter().map(|value| (name, format!("{}  {}", value.name, ty(value)))));
    }
    for (name, nodes) in [("called by", &answer.callers), ("read by", &answer.readers)] {
        let listed = nodes.iter().take(MAX_LISTED);
        facts.extend(listed.map(|&node| (name, node_and_line(document, node))));
        if nodes.len() > MAX_LISTED {
            facts.push((name, format!("… and {} more", nodes.len() - MAX_LISTED)));
        }
    }
    facts
}

fn node_and_line(document: &Document<'_>, node: usize) -> String {
    let line = document.callsites(node).first().map(|&id| format!(", {}", document.frame(id)));
    format!("{}{}", document.node_name(node), line.unwrap_or_default())
}

fn describe(
    document: &Document<'_>,
    wanted: &str,
    answer: Option<&Where<'_>>,
    found: &Matches<'_>,
    sources: &Sources<'_, '_>,
) -> Value {
    let candidates: Vec<Value> = match found {
        Matches::Many(list) if answer.is_none() => list
            .iter()
            .map(|(name, target)| match target {
                Target::Node(number) => json!({
                    "name": name,
                    "node": number,
                    "callsite": document.callsites(*number).first().map(|&id| values::frame(&document.frame(id))),
                }),
                Target::Value { .. } => json!({ "name": name, "node": null, "callsite": null }),
            })
            .collect(),
        _ => Vec::new(),
    };
    let nearest: &[&str] = match found {
        Matches::Nothing(nearest) if answer.is_none() => nearest,
        _ => &[],
    };
    json!({
        "version": 1,
        "model": document.name,
        "asked": wanted,
        "found": answer.map(|answer| found_value(document, answer, sources)),
        "candidates": candidates,
        "nearest": nearest,
    })
}

fn found_value(document: &Document<'_>, answer: &Where<'_>, sources: &Sources<'_, '_>) -> Value {
    let list = |list: &[where_::Value<'_>]| -> Vec<Value> {
        list.iter().map(|value| json!({ "name": value.name, "type": value.ty })).collect()
    };
    let nodes = |list: &[usize]| -> Vec<String> {
        list.iter().map(|&node| document.node_name(node)).collect()
    };
    json!({
        "name": answer.name,
        "kind": answer.kind,
        "op": answer.op,
        "provenance": answer.provenance.as_ref().map(|p| values::provenance(p, sources)),
        "path": answer.path,
        "inside": answer.inside,
        "inputs": list(&answer.inputs),
        "outputs": list(&answer.outputs),
        "called_by": nodes(&answer.callers),
        "read_by": nodes(&answer.readers),
    })
}
