//! `jax2onnx diff`: shows the differences between two models.

use std::io::{self, Write};
use std::path::PathBuf;

use inspect::cost::{CostChange, Side, Sizing, read_sizes};
use inspect::diff::{Diff, LineChange, NodeChange, WeightChange, WeightKind, diff};
use inspect::show::clean;
use inspect::{Document, Frame, Source, Sources, Style, Weights};
use provenance::Tier;
use serde_json::{Value, json};

use crate::command::{Answer, Command, Console, Outcome, print_json};
use crate::model::open;
use crate::output::{Format, OutputArgs};
use inspect::text::count;

/// Show the differences between two exports, line by line
///
/// Matches nodes by the lines that they came from, then by name. Shows which lines gained or lost nodes, and
/// which operators, attributes, literals, types and weights changed. Moved lines and renamed files do not count
/// as differences. With --cost, also shows what each of these lines costs before and after. The exit code is 0 if the
/// models are equal and 1 if they differ.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jax2onnx diff before.onnx after.onnx\n  \
                        jax2onnx diff before.onnx after.onnx --cost\n  \
                        jax2onnx diff before.onnx after.onnx --format json")]
pub(crate) struct Args {
    /// The first model
    #[arg(value_name = "A")]
    before: PathBuf,
    /// The second model
    #[arg(value_name = "B")]
    after: PathBuf,
    /// The source map of the first model
    #[arg(long, value_name = "PATH")]
    map_a: Option<PathBuf>,
    /// The source map of the second model
    #[arg(long, value_name = "PATH")]
    map_b: Option<PathBuf>,
    /// Also show how the operations, the bytes and the peak of memory differ
    #[arg(long)]
    cost: bool,
    /// The size that replaces a symbol for --cost, such as `B=8`; may be repeated
    #[arg(long, value_name = "NAME=SIZE", requires = "cost")]
    size: Vec<String>,
    /// Also show source files from this folder, not only from the current one; may be repeated
    #[arg(long, value_name = "DIR")]
    source_root: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Two models and their differences.
struct Compared<'a> {
    before: &'static Document<'static>,
    after: &'static Document<'static>,
    diff: Diff<'static>,
    costs: Option<CostChange<'static>>,
    source_root: &'a [PathBuf],
}

impl Command for Args {
    fn format(&self) -> Format {
        self.output.format
    }

    fn run<'a>(&'a self, console: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>> {
        let before = open(&self.before, Weights::Read, self.map_a.as_deref(), console)?;
        let after = open(&self.after, Weights::Read, self.map_b.as_deref(), console)?;
        let diff = diff(before, after);
        let is_skipped = |weight: &&WeightChange<'_>| weight.kind == WeightKind::NotCompared;
        let skipped = diff.weights.iter().filter(is_skipped).count();
        if skipped > 0 {
            let weights = count(skipped, "weight");
            console.note(format_args!(
                "the contents of {weights} were not compared, because they are in other files or in another encoding"
            ))?;
        }
        let costs = self.cost.then(|| self.costs(before, after)).transpose()?;
        Ok(Box::new(Compared { before, after, diff, costs, source_root: &self.source_root }))
    }
}

impl Args {
    fn costs(
        &self,
        before: &'static Document<'static>,
        after: &'static Document<'static>,
    ) -> anyhow::Result<CostChange<'static>> {
        let sizes = read_sizes(self.size.iter().map(String::as_str))?;
        let side = |document| anyhow::Ok(Side::of(&Sizing::of(document, &sizes)?));
        Ok(CostChange { before: side(before)?, after: side(after)? })
    }
}

impl Answer for Compared<'_> {
    fn outcome(&self) -> Outcome {
        Outcome::found(self.diff.is_empty())
    }

    fn print(&self, console: &mut Console<'_>) -> io::Result<()> {
        let sources = |document| Sources::new(self.source_root.to_vec(), document);
        let (old, new) = (sources(self.before), sources(self.after));
        let costs = self.costs.as_ref();
        let (out, style) = (&mut *console.out, console.style);
        let mut printer = Printer { out, style, old: &old, new: &new, costs };
        printer.print(&self.diff)?;
        let gone = |line: &&LineChange<'_>| line.after.is_none();
        if self.diff.lines.iter().filter(gone).any(|line| printer.text_of(line).is_none()) {
            console.note(
                "the source files have changed since the first export, so some removed lines are not shown; to keep them, export with `--source-map --sources embed`",
            )?;
        }
        Ok(())
    }

    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        print_json(out, &describe(self.before, self.after, &self.diff, self.costs.as_ref()))
    }
}

/// The maximum number of lines to list per weight.
const MAX_LINES: usize = 3;

/// Prints a diff for people.
struct Printer<'p, 'd, 'a> {
    out: &'p mut dyn Write,
    style: Style,
    old: &'p Sources<'d, 'a>,
    new: &'p Sources<'d, 'a>,
    costs: Option<&'p CostChange<'static>>,
}

impl Printer<'_, '_, '_> {
    fn print(&mut self, diff: &Diff<'static>) -> io::Result<()> {
        for end in &diff.ends {
            let what = clean(&end.what);
            let line = match (end.before.as_deref().map(clean), end.after.as_deref().map(clean)) {
                (Some(before), Some(after)) => format!("~ {what} {before} → {after}"),
                (Some(before), None) => self.style.red(&format!("- {what} {before}")),
                (None, after) => {
                    self.style.green(&format!("+ {what} {}", after.unwrap_or_default()))
                }
            };
            writeln!(self.out, "{line}")?;
        }
        for (before, after) in &diff.renamed {
            writeln!(self.out, "~ file {} → {}", clean(before), clean(after))?;
        }
        let mut place = None;
        for line in &diff.lines {
            if place != Some((line.file, line.function)) {
                place = Some((line.file, line.function));
                let file = if line.file == Frame::UNKNOWN { "" } else { line.file };
                let comma = if file.is_empty() { "" } else { ", " };
                let title = format!("{}{comma}in {}", clean(file), clean(line.function));
                writeln!(self.out, "\n{}", self.style.bold(&title))?;
            }
            self.line(line)?;
        }
        self.list("nodes without a line", &diff.unplaced, |printer, change| printer.node(change))?;
        let weights: Vec<&WeightChange<'_>> =
            diff.weights.iter().filter(|weight| weight.kind != WeightKind::NotCompared).collect();
        self.list("weights", &weights, |printer, change| printer.weight(change))?;
        self.summary(diff)
    }

    fn list<T>(
        &mut self,
        title: &str,
        entries: &[T],
        mut print: impl FnMut(&mut Self, &T) -> io::Result<()>,
    ) -> io::Result<()> {
        if !entries.is_empty() {
            writeln!(self.out, "\n{}", self.style.bold(title))?;
        }
        entries.iter().try_for_each(|entry| print(self, entry))
    }

    fn line(&mut self, change: &LineChange<'static>) -> io::Result<()> {
        let (mark, place) = match (change.before, change.after) {
            (Some(before), Some(after)) if before == after => (" ", format!("line {after}")),
            (Some(before), Some(after)) => (" ", format!("line {before} → {after}")),
            (Some(before), None) => ("-", format!("line {before}")),
            (None, after) => ("+", format!("line {}", after.unwrap_or_default())),
        };
        let text = self.text_of(change).unwrap_or_default();
        let room = self.style.width.saturating_sub(place.len() + 6);
        let line = format!("{mark} {place}  {}", self.style.fit(&clean(text.trim()), room));
        writeln!(self.out, "{}", line.trim_end())?;
        let ops = |list: &[(String, usize)]| -> Vec<String> {
            let word = |(op, count): &(String, usize)| match count {
                1 => clean(op),
                count => format!("{} ×{count}", clean(op)),
            };
            list.iter().map(word).collect()
        };
        if !change.lost.is_empty() {
            let lost = self.style.hanging(&ops(&change.lost).join(", "), 8);
            writeln!(self.out, "      {}", self.style.red(&format!("- {lost}")))?;
        }
        if !change.gained.is_empty() {
            let gained = self.style.hanging(&ops(&change.gained).join(", "), 8);
            writeln!(self.out, "      {}", self.style.green(&format!("+ {gained}")))?;
        }
        for cost in self.costs.iter().flat_map(|costs| costs.line(change)) {
            writeln!(self.out, "      {}", self.style.dim(&self.style.hanging(&clean(&cost), 8)))?;
        }
        change.changed.iter().try_for_each(|node| self.node(node))
    }

    /// Returns the line in the second model. If it was removed and the file is unchanged, returns the line in the
    /// first model.
    fn text_of(&self, change: &LineChange<'_>) -> Option<String> {
        let frame = |file, line| {
            let function = change.function;
            Frame { file, function, line, span: None, tier: Tier::User }
        };
        if let Some(after) = change.after {
            return self.new.line(&frame(change.file, after)).1.map(|text| text.to_string());
        }
        match self.old.line(&frame(change.file_before, change.before?)) {
            (Source::Unchecked { is_newer: true, .. }, _) => None,
            (_, text) => text.map(|text| text.to_string()),
        }
    }

    fn node(&mut self, change: &NodeChange) -> io::Result<()> {
        let name = change.after.as_deref().or(change.before.as_deref()).unwrap_or_default();
        let mark = match (&change.before, &change.after) {
            (Some(_), Some(_)) => "~",
            (Some(_), None) => "-",
            _ => "+",
        };
        let what = if change.what.is_empty() { "" } else { ": " };
        let line = format!("{mark} {} `{name}`{what}{}", change.op, change.what.join("; "));
        writeln!(
            self.out,
            "      {}",
            self.style.wrapped(&clean(&line), 10, 0).join("\n          ")
        )
    }

    fn weight(&mut self, change: &WeightChange<'_>) -> io::Result<()> {
        let or_nothing = |ty: &Option<String>| ty.clone().unwrap_or_default();
        let (before, after) = (or_nothing(&change.before), or_nothing(&change.after));
        let name = change.name;
        let lines = change.read_at.iter().take(MAX_LINES).map(|line| line.place());
        let mut lines: Vec<String> = lines.collect();
        if change.read_at.len() > MAX_LINES {
            lines.push("…".to_owned());
        }
        let read_at = match lines.is_empty() {
            true => String::new(),
            false => format!(", read at {}", lines.join(", ")),
        };
        let line = match change.kind {
            WeightKind::New => format!("+ {name}  {after}"),
            WeightKind::Gone => format!("- {name}  {before}"),
            WeightKind::Type => format!("~ {name}  {before} → {after}{read_at}"),
            WeightKind::Contents => format!("~ {name}  {after}, different contents{read_at}"),
            WeightKind::NotCompared => return Ok(()),
        };
        writeln!(self.out, "  {}", self.style.wrapped(&clean(&line), 6, 0).join("\n      "))
    }

    fn summary(&mut self, diff: &Diff<'static>) -> io::Result<()> {
        if diff.is_empty() {
            let moved = match diff.moved {
                0 => String::new(),
                moved => format!("; {} moved", count(moved, "line")),
            };
            return writeln!(self.out, "no difference{moved}");
        }
        let kinds =
            |is: fn(&LineChange<'_>) -> bool| diff.lines.iter().filter(|line| is(line)).count();
        let new = kinds(|line| line.before.is_none());
        let gone = kinds(|line| line.after.is_none());
        let changed = diff.lines.len() - new - gone;
        let totals = self.costs.map(CostChange::totals).unwrap_or_default();
        if !totals.is_empty() {
            writeln!(self.out, "\n{}", self.style.bold("costs"))?;
        }
        for total in totals {
            writeln!(self.out, "  {}", self.style.hanging(&clean(&total), 4))?;
        }
        let (before, after) = diff.nodes;
        writeln!(
            self.out,
            "\n{} changed, {new} new, {gone} gone, {} moved; {before} → {after} nodes",
            count(changed, "line"),
            diff.moved,
        )
    }
}

fn describe(
    before: &Document<'_>,
    after: &Document<'_>,
    diff: &Diff<'static>,
    costs: Option<&CostChange<'static>>,
) -> Value {
    let ops = |list: &[(String, usize)]| -> Vec<Value> {
        list.iter().map(|(op, count)| json!({ "op": op, "count": count })).collect()
    };
    let node = |change: &NodeChange| json!({ "op": change.op, "before": change.before, "after": change.after, "what": change.what });
    let nodes = |list: &[NodeChange]| -> Vec<Value> { list.iter().map(node).collect() };
    json!({
        "version": 1,
        "before": before.name,
        "after": after.name,
        "same": diff.is_empty(),
        "model": diff.ends.iter().map(|end| json!({
            "what": end.what, "before": end.before, "after": end.after,
        })).collect::<Vec<_>>(),
        "lines": diff.lines.iter().map(|line| json!({
            "file": Some(line.file).filter(|file| *file != Frame::UNKNOWN),
            "file_before": Some(line.file_before).filter(|file| *file != Frame::UNKNOWN),
            "function": line.function,
            "before": line.before,
            "after": line.after,
            "lost": ops(&line.lost),
            "gained": ops(&line.gained),
            "changed": nodes(&line.changed),
            "cost": costs.map(|costs| costs.json_of_line(line)),
        })).collect::<Vec<_>>(),
        "lines_moved": diff.moved,
        "files_renamed": diff.renamed.iter().map(|(before, after)| json!({
            "before": before, "after": after,
        })).collect::<Vec<_>>(),
        "nodes_without_line": nodes(&diff.unplaced),
        "weights": diff.weights.iter().map(|weight| json!({
            "name": weight.name, "kind": weight.kind.word(),
            "before": weight.before, "after": weight.after,
            "read_at": weight.read_at.iter().map(|line| line.place()).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "nodes_before": diff.nodes.0,
        "nodes_after": diff.nodes.1,
        "cost": costs.map(CostChange::json),
    })
}
