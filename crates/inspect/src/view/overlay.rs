//! Adds times, errors and differences from another model to a view.

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value, json};

use super::limits::{Limits, thousands};
use super::name;
use super::places::Places;
use crate::Document;
use crate::diff::{LineChange, NodeChange, WeightChange, WeightKind, diff};
use crate::placement::{Evidence, Placement, describe_copy, sentence};
use crate::profile::{By, Profile, summarize};

/// The reason why a report cannot be shown.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReportError {
    #[error("this is not a report of `jax2onnx {0}`: it is not JSON")]
    NoJson(&'static str),
    #[error("this is not a report of `jax2onnx {0}`: it has no `{1}`")]
    NoKey(&'static str, &'static str),
    #[error("the report of `jax2onnx {0}` has version {1}, but this program reads version 1")]
    Version(&'static str, u64),
}

impl ReportError {
    /// Returns the command whose report it is.
    pub fn command(&self) -> &'static str {
        match self {
            Self::NoJson(command) | Self::NoKey(command, _) | Self::Version(command, _) => command,
        }
    }
}

/// Describes the time of each line and each node, as shares of the time of all kernels.
pub(super) fn profile(
    document: &Document<'_>,
    profile: &Profile,
    places: &mut Places<'_>,
    limits: &mut Limits,
) -> Value {
    let lines = summarize(document, profile, By::Line, None);
    let nodes = summarize(document, profile, By::Node, None);
    let numbers = named_nodes(document, limits);
    let kept = limits.rows.take(lines.rows.len());
    let of_lines = lines.rows[..kept].iter().filter_map(|row| {
        let frame = row.frame?;
        let file = places.file_named(frame.file)?;
        Some(json!({
            "file": file, "line": frame.line, "microseconds": row.spread.median,
            "share": row.share, "calls": row.calls, "ops": row.ops,
        }))
    });
    let of_lines: Vec<Value> = of_lines.collect();
    let placement = placed(document, profile, places, &numbers, limits);
    let kept = limits.rows.take(nodes.rows.len());
    let of_nodes = nodes.rows[..kept].iter().filter_map(|row| {
        let node = numbers.get(row.key.as_deref()?)?;
        Some(json!({ "node": node, "microseconds": row.spread.median, "share": row.share }))
    });
    json!({
        "runs": lines.runs.len(),
        "microseconds": lines.sum,
        "known": lines.known,
        "lines": of_lines,
        "nodes": of_nodes.collect::<Vec<_>>(),
        "placement": placement,
    })
}

/// Describes where nodes ran: the lines with nodes on another provider than most, or with copies, and the provider of
/// each node.
fn placed(
    document: &Document<'_>,
    profile: &Profile,
    places: &mut Places<'_>,
    numbers: &FxHashMap<&str, usize>,
    limits: &mut Limits,
) -> Value {
    let evidence = Evidence { profile: Some(profile), ..Evidence::default() };
    let placement = Placement::new(document, evidence);
    let main = placement.main();
    let mut lines = Vec::new();
    for line in &placement.lines {
        let mut providers: Vec<&str> =
            line.elsewhere(main).filter_map(|node| node.provider.as_deref()).collect();
        providers.sort_unstable();
        providers.dedup();
        let Some(frame) = line.frame else { continue };
        if providers.is_empty() && line.copies.is_empty() {
            continue;
        }
        let Some(file) = places.file_named(frame.file).filter(|_| limits.rows.take_all(1)) else {
            continue;
        };
        let kept = limits.rows.take(line.copies.len());
        let copies = line.copies[..kept].iter().map(|copy| limits.cut(describe_copy(copy)));
        let copies: Vec<_> = copies.collect();
        let providers: Vec<_> = providers.iter().map(|provider| limits.cut(*provider)).collect();
        lines.push(json!({
            "file": file, "line": frame.line, "providers": providers, "copies": copies,
            "advice": line.advice.as_deref().map(|advice| limits.cut(advice)),
        }));
    }
    let all = placement.lines.iter().flat_map(|line| &line.nodes);
    let nodes: Vec<(usize, &str)> = all
        .filter_map(|node| Some((*numbers.get(&*node.name)?, node.provider.as_deref()?)))
        .collect();
    let kept = limits.rows.take(nodes.len());
    let nodes = nodes[..kept].iter();
    let nodes =
        nodes.map(|(node, provider)| json!({ "node": node, "provider": limits.cut(*provider) }));
    let nodes: Vec<Value> = nodes.collect();
    json!({ "summary": limits.cut(sentence(&placement)), "lines": lines, "nodes": nodes })
}

/// Describes the lines that gained, lost or changed nodes compared with another model.
pub(super) fn against(
    before: &Document<'_>,
    after: &Document<'_>,
    places: &mut Places<'_>,
    limits: &mut Limits,
) -> Value {
    let diff = diff(before, after);
    let kept = limits.nodes.used();
    let mut pairs = vec![-1i64; kept.min(after.scan.nodes.len())];
    let mut different = Vec::new();
    for pair in &diff.pairs {
        if let Some(known) = pairs.get_mut(pair.after) {
            *known = if pair.before < kept { pair.before as i64 } else { -1 };
            let reads_another = || reads_changed(after, pair.after, &diff.weights);
            different.extend((pair.is_different || reads_another()).then_some(pair.after));
        }
    }
    let ops = |list: &[(String, usize)], limits: &mut Limits| -> Vec<Value> {
        let list = &list[..limits.rows.take(list.len())];
        let entry = |(op, count): &(String, usize)| json!({ "op": limits.cut(op), "count": count });
        list.iter().map(entry).collect()
    };
    let nodes = |list: &[NodeChange], limits: &mut Limits| -> Vec<Value> {
        let list = &list[..limits.rows.take(list.len())];
        let entry = |change: &NodeChange| {
            let mut cut =
                |text: &Option<String>| text.as_deref().map(|text| limits.cut(text).into_owned());
            let (before, after) = (cut(&change.before), cut(&change.after));
            let (op, what) = (limits.cut(&*change.op), limits.cut(change.what.join("; ")));
            json!({ "op": op, "before": before, "after": after, "what": what })
        };
        list.iter().map(entry).collect()
    };
    let mut line = |change: &LineChange<'_>, limits: &mut Limits| {
        json!({
            "file": places.file_named(change.file),
            "path": limits.cut(change.file),
            "function": limits.cut(change.function),
            "before": change.before,
            "after": change.after,
            "lost": ops(&change.lost, limits),
            "gained": ops(&change.gained, limits),
            "changed": nodes(&change.changed, limits),
        })
    };
    let compared = diff.weights.iter().filter(|change| change.kind != WeightKind::NotCompared);
    let kept = limits.rows.take(compared.clone().count());
    let weights: Vec<Value> = compared
        .take(kept)
        .map(|change| json!({ "name": limits.cut(change.name), "change": change.kind.word() }))
        .collect();
    let kept = limits.rows.take(diff.lines.len());
    let lines: Vec<Value> = diff.lines[..kept].iter().map(|it| line(it, limits)).collect();
    json!({
        "name": name(before),
        "nodes_before": diff.nodes.0,
        "nodes_after": diff.nodes.1,
        "lines_moved": diff.moved,
        "lines": lines,
        "nodes_without_line": nodes(&diff.unplaced, limits),
        "weights": weights,
        "pairs": pairs,
        "different": different,
    })
}

/// True if a node reads a weight with other contents, or of another type.
fn reads_changed(document: &Document<'_>, node: usize, changes: &[WeightChange<'_>]) -> bool {
    let Some(node) = document.scan.nodes.get(node) else { return false };
    let is_other = |kind| matches!(kind, WeightKind::Contents | WeightKind::Type);
    let mut changed = changes.iter().filter(|change| is_other(change.kind));
    changed.any(|change| node.inputs.contains(&change.name))
}

/// Describes the error that each line adds, from a report of `jax2onnx compare`. Skips rows that match nothing in
/// the model.
pub(super) fn compare(
    document: &Document<'_>,
    report: &str,
    places: &mut Places<'_>,
    limits: &mut Limits,
) -> Result<Value, ReportError> {
    let report = read_report(report, "compare", "rows")?;
    let rows = report["rows"].as_array().map_or(&[][..], Vec::as_slice);
    let numbers = named_nodes(document, limits);
    let first = &report["first"];
    let wrong: FxHashSet<&str> = texts(&first["nodes"]).chain(first["node"].as_str()).collect();
    let (mut lines, mut nodes) = (Vec::new(), Vec::new());
    let kept = limits.rows.take(rows.len());
    for row in &rows[..kept] {
        let of_row: Vec<&str> = texts(&row["nodes"]).collect();
        let is_wrong = of_row.iter().any(|node| wrong.contains(node));
        // A NaN or an infinity has no distance.
        let error = row["max_absolute_error"].as_f64().filter(|_| births(row).is_empty());
        let elements = row["elements_wrong"].as_u64().unwrap_or(0).max(u64::from(is_wrong));
        let what = limits.cut(describe_error(row));
        let line = &row["line"];
        let file = line["file"].as_str().and_then(|file| places.file_named(file));
        if let (Some(file), Some(number)) = (file, line["line"].as_u64()) {
            lines.push(json!({
                "file": file, "line": number, "error": error, "wrong": elements, "is_wrong": is_wrong,
                "what": what,
            }));
        }
        for name in of_row.iter().filter(|name| of_row.len() == 1 || wrong.contains(*name)) {
            if let Some(node) = numbers.get(name) {
                let is_wrong = wrong.contains(name);
                nodes.push(json!({
                    "node": node, "error": error, "wrong": elements, "is_wrong": is_wrong, "what": what,
                }));
            }
        }
    }
    let first = first["node"].as_str().and_then(|node| numbers.get(node));
    Ok(json!({ "verdict": verdict(&report), "first": first, "lines": lines, "nodes": nodes }))
}

/// Reads the report of a command, which has a list.
pub(super) fn read_report(
    text: &str,
    command: &'static str,
    list: &'static str,
) -> Result<Value, ReportError> {
    let report: Value = serde_json::from_str(text).map_err(|_| ReportError::NoJson(command))?;
    if let Some(version) = report["version"].as_u64().filter(|&version| version != 1) {
        return Err(ReportError::Version(command, version));
    }
    if report[list].is_array() { Ok(report) } else { Err(ReportError::NoKey(command, list)) }
}

/// Returns the texts of a list.
pub(super) fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Returns how many elements of a row are NaN or infinite where the reference has a number: `6 NaN`, `2 inf`.
fn births(row: &Value) -> Vec<String> {
    [("nans_born", "NaN"), ("infinities_born", "inf")]
        .into_iter()
        .filter_map(|(key, what)| Some((row[key].as_u64().filter(|&count| count > 0)?, what)))
        .map(|(count, what)| format!("{} {what}", thousands(count)))
        .collect()
}

/// Returns the errors of a row in words: `3 of 8 elements wrong, max error 0.25`.
fn describe_error(row: &Value) -> String {
    let mut parts = Vec::new();
    if let (Some(wrong @ 1..), Some(all)) =
        (row["elements_wrong"].as_u64(), row["elements"].as_u64())
    {
        parts.push(format!("{} of {} elements wrong", thousands(wrong), thousands(all)));
    }
    let births = births(row);
    if !births.is_empty() {
        parts.extend(births);
        return parts.join(", ");
    }
    for (key, before, after) in [
        ("max_absolute_error", "max error ", ""),
        ("max_ulp", "", " ulp"),
        ("loss", "loss ", ""),
        ("snr_db", "SNR ", " dB"),
    ] {
        let shown = match &row[key] {
            Value::Number(number) => number.as_f64().map(three_digits),
            Value::String(text) => Some(text.clone()),
            _ => None,
        };
        parts.extend(shown.map(|value| format!("{before}{value}{after}")));
    }
    parts.join(", ")
}

/// Returns a number with three digits: `0.25`, `1.09`, `7.63e-6`.
pub(super) fn three_digits(number: f64) -> String {
    let exponent = number.abs().log10().floor();
    if number == 0.0 || !(-3.0..6.0).contains(&exponent) {
        let text = format!("{number:.2e}");
        return text.replace(".00e", "e").replace("0e0", "0");
    }
    let digits = (2.0 - exponent).max(0.0) as usize;
    let text = format!("{number:.digits$}");
    if digits == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

fn verdict(report: &Value) -> String {
    let reference = report["reference"].as_str().unwrap_or("the reference");
    if report["agrees"] == true {
        return format!("the model agrees with {reference}");
    }
    match report["first"]["node"].as_str() {
        Some(node) => format!("`{node}` computes the first wrong number"),
        None => format!("the outputs differ from {reference}"),
    }
}

/// Returns the first node with each name.
pub(super) fn named_nodes<'d>(
    document: &'d Document<'_>,
    limits: &Limits,
) -> FxHashMap<&'d str, usize> {
    let mut numbers: FxHashMap<&str, usize> = FxHashMap::default();
    for (number, node) in document.scan.nodes.iter().enumerate().take(limits.nodes.used()) {
        numbers.entry(node.name).or_insert(number);
    }
    numbers
}
