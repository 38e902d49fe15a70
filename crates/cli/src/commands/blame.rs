//! `jax2onnx blame`: shows which nodes each line of a source file became.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;

use inspect::blame::{Blame, Line, blame, ops};
use inspect::show::clean;
use inspect::{Document, Frame, Source, Sources, Style};
use provenance::Tier;
use provenance::report::excerpt::width;
use serde_json::{Value, json};

use crate::command::{Answer, Command, Console, Outcome, print_json};
use crate::model::{ModelArgs, note_missing};
use crate::output::{Format, OutputArgs};
use inspect::text::bytes;

/// Show the nodes that each source line became
///
/// For each line of FILE, shows the number of nodes, the operators, and the bytes of the weights that these
/// nodes are the first to read. Parentheses mark an operator that was fused with one from another line. Without
/// FILE, shows nodes and weights by file and function.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jax2onnx blame model.onnx\n  \
                        jax2onnx blame model.onnx train/model.py\n  \
                        jax2onnx blame model.onnx model.py:40-60 --source-root ~/src/project")]
pub(crate) struct Args {
    /// The model
    model: PathBuf,
    /// A source file, or some of its lines; the end of the path is enough
    #[arg(value_name = "FILE[:LINE[-LINE]]")]
    place: Option<LineRange>,
    /// Hide lines without nodes
    #[arg(long)]
    only_nodes: bool,
    #[command(flatten)]
    reading: ModelArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// A file, and the lines to show.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LineRange {
    file: String,
    first: u32,
    last: u32,
}

impl FromStr for LineRange {
    type Err = String;

    fn from_str(text: &str) -> Result<LineRange, String> {
        let whole = |file: &str| LineRange { file: file.to_owned(), first: 1, last: u32::MAX };
        let Some((file, lines)) = text.rsplit_once(':') else { return Ok(whole(text)) };
        // The colon belongs to a drive, or to the name of the file.
        if !lines.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(whole(text));
        }
        let number =
            |text: &str| text.parse::<u32>().map_err(|_| format!("`{text}` is not a line number"));
        let (first, last) = match lines.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(lines)?, number(lines)?),
        };
        if first == 0 || last < first {
            return Err(format!(
                "`{lines}` is not a range of lines: use FIRST-LAST, counted from 1"
            ));
        }
        Ok(LineRange { file: file.to_owned(), first, last })
    }
}

impl fmt::Display for LineRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (1, u32::MAX) => f.write_str(&self.file),
            (first, last) if first == last => write!(f, "{}:{first}", self.file),
            (first, last) => write!(f, "{}:{first}-{last}", self.file),
        }
    }
}

/// The nodes that lines became.
enum Blamed<'a> {
    /// Every file and function.
    Model { document: &'static Document<'static>, blame: Blame<'static> },
    /// The lines of one file.
    File {
        document: &'static Document<'static>,
        sources: Sources<'static, 'static>,
        file: &'static str,
        place: &'a LineRange,
        rows: Vec<Row>,
    },
    /// The matching files, unless exactly one file matches.
    Candidates {
        document: &'static Document<'static>,
        blame: Blame<'static>,
        place: &'a LineRange,
        found: Vec<&'static str>,
    },
}

impl Command for Args {
    fn format(&self) -> Format {
        self.output.format
    }

    fn run<'a>(&'a self, console: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>> {
        let document = self.reading.open(&self.model, console)?;
        let blame = blame(document);
        let Some(place) = &self.place else {
            return Ok(Box::new(Blamed::Model { document, blame }));
        };
        let found = blame.matching(&place.file);
        let [file] = found[..] else {
            return Ok(Box::new(Blamed::Candidates { document, blame, place, found }));
        };
        let sources = self.reading.sources(document);
        let rows = rows(&blame, file, place, &sources, self.only_nodes);
        Ok(Box::new(Blamed::File { document, sources, file, place, rows }))
    }
}

impl Answer for Blamed<'_> {
    fn outcome(&self) -> Outcome {
        Outcome::found(match self {
            Blamed::Model { blame, .. } => !blame.files.is_empty(),
            Blamed::File { rows, .. } => rows.iter().any(Row::has_nodes),
            Blamed::Candidates { .. } => false,
        })
    }

    fn print(&self, console: &mut Console<'_>) -> io::Result<()> {
        match self {
            Blamed::Model { document, blame } if blame.files.is_empty() => {
                writeln!(console.err, "no node of `{}` has a line", clean(&document.name))?;
                print_missing(document, console)
            }
            Blamed::Model { blame, .. } => print_summary(blame, console.style, console.out),
            Blamed::Candidates { document, blame, place, found } => {
                print_files(document, blame, &place.file, found, console)
            }
            Blamed::File { document, sources, file, place, rows } => {
                match sources.lookup(file) {
                    Source::Changed { path } => console.note(format_args!(
                        "`{}` has changed since the export, so its lines are not shown",
                        path.display()
                    ))?,
                    Source::Missing if sources.is_cell(file) => console.note(format_args!(
                        "`{}` is a cell of a notebook that was not found: save the notebook in this folder, \
                         or pass its folder with --source-root",
                        clean(file)
                    ))?,
                    _ => {}
                }
                if !rows.iter().any(Row::has_nodes) {
                    writeln!(console.err, "no node came from {}", clean(&place.to_string()))?;
                }
                print_rows(document, rows, console.style, console.out)?;
                note_missing(&sources.missing(), console)
            }
        }
    }

    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        print_json(
            out,
            &match self {
                Blamed::Model { document, blame } => describe_all(document, blame),
                Blamed::File { document, sources, file, rows, .. } => {
                    describe_file(document, file, rows, sources)
                }
                Blamed::Candidates { document, blame, found, .. } => json!({
                    "version": 1,
                    "model": document.name,
                    "file": null,
                    "lines": [],
                    "candidates": match found.is_empty() {
                        true => blame.files.keys().copied().collect(),
                        false => found.clone(),
                    },
                }),
            },
        )
    }
}

/// A source line with its nodes.
struct Row {
    number: u32,
    text: Option<String>,
    line: Line,
}

impl Row {
    fn has_nodes(&self) -> bool {
        !self.line.nodes.is_empty() || !self.line.fused.is_empty()
    }
}

/// Returns the lines to print: all requested lines if the source can be read, otherwise those with nodes.
fn rows(
    blame: &Blame<'_>,
    file: &str,
    place: &LineRange,
    sources: &Sources<'_, '_>,
    only_nodes: bool,
) -> Vec<Row> {
    let mut lines: BTreeMap<u32, Line> = BTreeMap::new();
    for (number, _, line) in blame.lines_of(file) {
        let known = lines.entry(number).or_default();
        known.nodes.extend(&line.nodes);
        known.fused.extend(&line.fused);
        known.weight_bytes = known.weight_bytes.saturating_add(line.weight_bytes);
    }
    let source = sources.lookup(file);
    let texts: Vec<&str> = match source.text() {
        Some(text) => text.lines().collect(),
        None => Vec::new(),
    };
    let wanted = |number: &u32| (place.first..=place.last).contains(number);
    let mut rows: Vec<Row> = Vec::new();
    for (number, text) in (1..).zip(&texts).filter(|(number, _)| wanted(number)) {
        let line = lines.remove(&number).unwrap_or_default();
        let row = Row { number, text: Some((*text).to_owned()), line };
        if !only_nodes || row.has_nodes() {
            rows.push(row);
        }
    }
    let rest = lines.into_iter().filter(|(number, _)| wanted(number));
    rows.extend(rest.map(|(number, line)| {
        let function = blame.lines_of(file).find(|&(n, ..)| n == number).map_or("", |(_, f, _)| f);
        let frame = Frame { file, function, line: number, span: None, tier: Tier::User };
        Row { number, text: sources.line(&frame).1.map(|text| text.to_string()), line }
    }));
    rows.sort_by_key(|row| row.number);
    rows
}

/// The maximum width of the source, in columns.
const MAX_SOURCE: usize = 100;

fn print_rows(
    document: &Document<'_>,
    rows: &[Row],
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let texts: Vec<String> =
        rows.iter().map(|row| clean(row.text.as_deref().unwrap_or("").trim_end())).collect();
    let ops: Vec<Vec<String>> =
        rows.iter().map(|row| ops_texts(document, &row.line.nodes, &row.line.fused)).collect();
    // Only lines with operators need room beside them.
    let widest_source = texts.iter().zip(&ops).filter(|(_, ops)| !ops.is_empty());
    let widest_source = widest_source.map(|(text, _)| width(text)).max().unwrap_or(0);
    let widest_ops = ops.iter().map(|ops| width(&ops.join(", "))).max().unwrap_or(0);
    // On a narrow screen, the operators get the columns that they need, but at most two fifths.
    let room = style.width.saturating_sub(LEFT + 2).max(20);
    let columns = widest_source.min(MAX_SOURCE).min(room - widest_ops.min(room * 2 / 5));
    if !rows.is_empty() {
        writeln!(out, "{}", style.dim(" nodes    weights  line"))?;
    }
    for ((row, text), ops) in rows.iter().zip(&texts).zip(&ops) {
        let Line { nodes, weight_bytes, .. } = &row.line;
        let columns = if ops.is_empty() { room.min(MAX_SOURCE) } else { columns };
        let number = if nodes.is_empty() { String::new() } else { nodes.len().to_string() };
        let weight = if *weight_bytes == 0 { String::new() } else { bytes(*weight_bytes) };
        let text = style.fit(text, columns);
        let pad = " ".repeat(columns.saturating_sub(width(&text)));
        let left = format!("{number:>6} {weight:>10} {:>5}", row.number);
        let room = style.width.saturating_sub(LEFT + columns + 2);
        let what = style.list(ops, room);
        let line = format!("{left} {} {text}{pad}  {what}", style.blue("|"));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// The width of the columns before the source.
const LEFT: usize = 26;

fn ops_texts(document: &Document<'_>, nodes: &[usize], fused: &[usize]) -> Vec<String> {
    let words = |nodes: &[usize]| -> Vec<String> {
        let word = |(op, count): (String, usize)| match count {
            1 => clean(&op),
            count => format!("{} ×{count}", clean(&op)),
        };
        ops(document, nodes).into_iter().map(word).collect()
    };
    let mut parts = words(nodes);
    parts.extend(words(fused).into_iter().map(|word| format!("({word})")));
    parts
}

fn print_summary(blame: &Blame<'_>, style: Style, out: &mut dyn Write) -> io::Result<()> {
    for (file, lines) in &blame.files {
        let mut functions: BTreeMap<&str, (usize, u64, u32, u32)> = BTreeMap::new();
        for (&(number, function), line) in lines {
            let entry = functions.entry(function).or_insert((0, 0, number, number));
            entry.0 += line.nodes.len();
            entry.1 = entry.1.saturating_add(line.weight_bytes);
            entry.2 = entry.2.min(number);
            entry.3 = entry.3.max(number);
        }
        let nodes: usize = functions.values().map(|entry| entry.0).sum();
        let weight = functions.values().fold(0u64, |all, entry| all.saturating_add(entry.1));
        let name = match *file {
            Frame::UNKNOWN => "this level does not record files; `indexed` does",
            file => file,
        };
        writeln!(out, "{nodes:>6} {:>10}  {}", bytes(weight), style.bold(&clean(name)))?;
        let mut functions: Vec<_> = functions.into_iter().collect();
        functions.sort_by_key(|&(_, (_, _, first, _))| first);
        for (function, (nodes, weight, first, last)) in functions {
            let place = if first == last { format!("{first}") } else { format!("{first}-{last}") };
            writeln!(out, "{nodes:>6} {:>10}    {}:{place}", bytes(weight), clean(function))?;
        }
    }
    if blame.unknown > 0 {
        writeln!(out, "{:>6} {:>10}  {}", blame.unknown, "", style.dim("nodes without a line"))?;
    }
    Ok(())
}

/// Prints a hint that says how to get lines or files, if the model records none.
fn print_missing(document: &Document<'_>, console: &mut Console<'_>) -> io::Result<()> {
    let Some(missing) = document.missing() else { return Ok(()) };
    writeln!(console.err)?;
    console.labelled("hint: ", missing)
}

fn print_files(
    document: &Document<'_>,
    blame: &Blame<'_>,
    wanted: &str,
    found: &[&str],
    console: &mut Console<'_>,
) -> io::Result<()> {
    let err = &mut *console.err;
    let known: Vec<&str> = if found.is_empty() {
        match blame.files.is_empty() {
            true => writeln!(err, "no node of `{}` has a line", clean(&document.name))?,
            false => writeln!(err, "no node came from a file `{}`", clean(wanted))?,
        }
        blame.files.keys().copied().filter(|&file| file != Frame::UNKNOWN).collect()
    } else {
        writeln!(err, "`{}` matches {} files:", clean(wanted), found.len())?;
        found.to_vec()
    };
    if found.is_empty() && known.is_empty() {
        return print_missing(document, console);
    }
    if found.is_empty() {
        writeln!(err, "\nhint: the model has nodes from")?;
    }
    known.iter().try_for_each(|file| writeln!(err, "  {}", clean(file)))
}

fn describe_line(document: &Document<'_>, line: &Line) -> Value {
    let list = |nodes: &[usize]| -> Vec<Value> {
        let node = |&node: &usize| {
            let op = document.scan.nodes.get(node).map(|node| node.op_with_domain());
            json!({ "node": document.node_name(node), "op": op })
        };
        nodes.iter().map(node).collect()
    };
    json!({
        "nodes": list(&line.nodes),
        "fused": list(&line.fused),
        "weight_bytes": line.weight_bytes,
    })
}

fn describe_file(
    document: &Document<'_>,
    file: &str,
    rows: &[Row],
    sources: &Sources<'_, '_>,
) -> Value {
    let row = |row: &Row| {
        let mut value = describe_line(document, &row.line);
        value["line"] = json!(row.number);
        value["text"] = json!(row.text);
        value
    };
    json!({
        "version": 1,
        "model": document.name,
        "file": file,
        "source": sources.lookup(file).word(),
        "lines": rows.iter().map(row).collect::<Vec<_>>(),
        "candidates": [],
    })
}

fn describe_all(document: &Document<'_>, blame: &Blame<'_>) -> Value {
    let files = blame.files.iter().map(|(file, lines)| {
        let lines = lines.iter().map(|(&(number, function), line)| {
            let mut value = describe_line(document, line);
            value["line"] = json!(number);
            value["function"] = json!(function);
            value
        });
        json!({
            "file": Some(file).filter(|file| **file != Frame::UNKNOWN),
            "lines": lines.collect::<Vec<_>>(),
        })
    });
    json!({
        "version": 1,
        "model": document.name,
        "files": files.collect::<Vec<_>>(),
        "nodes_without_line": blame.unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_and_perhaps_lines() {
        for (text, file, first, last) in [
            ("model.py", "model.py", 1, u32::MAX),
            ("a/model.py:12", "a/model.py", 12, 12),
            ("model.py:12-20", "model.py", 12, 20),
            ("C:\\model.py", "C:\\model.py", 1, u32::MAX),
        ] {
            let expected = LineRange { file: file.to_owned(), first, last };
            assert_eq!(text.parse(), Ok(expected.clone()));
            assert_eq!(expected.to_string(), text);
        }
        assert_eq!(
            "m.py:3-2".parse::<LineRange>().unwrap_err(),
            "`3-2` is not a range of lines: use FIRST-LAST, counted from 1"
        );
        assert_eq!("m.py:3-x".parse::<LineRange>().unwrap_err(), "`x` is not a line number");
    }
}
