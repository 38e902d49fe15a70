//! Adds to a view what each line loses in a shorter type.

use rustc_hash::FxHashSet;
use serde_json::{Value, json};

use super::limits::{Limits, thousands};
use super::overlay::{ReportError, named_nodes, read_report, texts, three_digits};
use super::places::Places;
use crate::Document;

/// From this error on, nothing of an output is left.
const LOST: f64 = 1.0;

/// Describes what the outputs lose if a line is rounded, from a report of `jax2onnx sensitivity`. Skips lines that match
/// nothing in the model.
pub(super) fn sensitivity(
    document: &Document<'_>,
    report: &str,
    places: &mut Places<'_>,
    limits: &mut Limits,
) -> Result<Value, ReportError> {
    let report = read_report(report, "sensitivity", "lines")?;
    let to = report["to"].as_str().ok_or(ReportError::NoKey("sensitivity", "to"))?;
    let rows = report["lines"].as_array().map_or(&[][..], Vec::as_slice);
    let numbers = named_nodes(document, limits);
    let (mut lines, mut nodes) = (Vec::new(), Vec::new());
    let mut first = None;
    // The first entry of a line is the one that matters most.
    let mut seen = FxHashSet::default();
    for row in &rows[..limits.rows.take(rows.len())] {
        let error = row["error"].as_f64();
        let known: Vec<usize> =
            texts(&row["nodes"]).filter_map(|name| numbers.get(name).copied()).collect();
        first = first.or(known.first().copied());
        let file = row["file"].as_str().and_then(|file| places.file_named(file));
        if let (Some(file), Some(line)) = (file, row["line"].as_u64())
            && seen.insert((file, line))
        {
            lines.push(json!({
                "file": file, "line": line, "error": error, "what": limits.cut(describe(row)),
            }));
        }
        let kept = limits.rows.take(known.len());
        nodes.extend(known[..kept].iter().map(|node| json!({ "node": node, "error": error })));
    }
    Ok(json!({
        "to": limits.cut(to),
        "verdict": limits.cut(verdict(&report, to)),
        "first": first,
        "lines": lines,
        "nodes": nodes,
    }))
}

/// Returns the loss of a line in words: `adds an error of 3.1 %: values up to 8e4 exceed float16 (65,504)`.
fn describe(row: &Value) -> String {
    let reason = row["reason"].as_str().unwrap_or_default();
    // The line is beside the text.
    let reason = reason.rsplit_once(" at `").map_or(reason, |(before, _)| before);
    let about = if row["measured"] == false { "about " } else { "" };
    let effect = match row["error"].as_f64() {
        None => "makes an output infinite or NaN".to_owned(),
        Some(error) if error >= LOST => "leaves nothing of an output".to_owned(),
        Some(0.0) => "changes no output".to_owned(),
        Some(error) => format!("adds an error of {about}{} %", three_digits(100.0 * error)),
    };
    if reason.is_empty() { effect } else { format!("{effect}: {reason}") }
}

/// Returns what the first line does, as a sentence.
fn verdict(report: &Value, to: &str) -> String {
    let first = &report["first"];
    if first.is_null() {
        return format!("no line is rounded to {to}");
    }
    let output = first["output"].as_str().map_or("an output".to_owned(), |it| format!("`{it}`"));
    let file = first["file"].as_str().unwrap_or_default();
    let file = file.rsplit('/').next().unwrap_or_default();
    let place = match first["line"].as_u64() {
        Some(line) if !file.is_empty() => format!("{file}:{line}"),
        Some(line) => format!("line {}", thousands(line)),
        None => "a node without a line".to_owned(),
    };
    match first["error"].as_f64() {
        None => format!("in {to}, {place} makes {output} infinite or NaN"),
        Some(error) if error >= LOST => format!("in {to}, {place} leaves nothing of {output}"),
        Some(error) => {
            let percent = three_digits(100.0 * error);
            format!("in {to}, {place} matters most: {output} gets an error of {percent} %")
        }
    }
}
