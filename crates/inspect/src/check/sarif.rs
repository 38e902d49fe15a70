//! Findings for other tools: SARIF for code scanning, and lines that editors understand.

use std::fmt::Write;

use provenance::Tier;
use serde_json::{Value, json};

use super::{Finding, Severity};
use crate::show::clean;
use crate::{Document, Frame, Sources};

/// Returns findings as SARIF 2.1.0, each at the line of its node, or at the model if it has none.
///
/// <https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>
pub fn sarif(
    document: &Document<'_>,
    sources: &Sources<'_, '_>,
    findings: &[Finding],
    model: &str,
) -> Value {
    let mut rules: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    let results = findings.iter().map(|finding| {
        let physical = match callsite(document, finding) {
            Some(frame) => json!({
                "artifactLocation": { "uri": uri(frame.file) },
                "region": region(&frame, sources),
            }),
            None => json!({ "artifactLocation": { "uri": uri(model) } }),
        };
        let mut location = json!({ "physicalLocation": physical });
        if let Some(node) = finding.node {
            let name = document.node_name(node);
            location["logicalLocations"] = json!([{ "name": name, "kind": "element" }]);
        }
        json!({
            "ruleId": finding.rule,
            "ruleIndex": rules.binary_search(&finding.rule).unwrap_or_default(),
            "level": finding.severity.word(),
            "message": { "text": finding.message },
            "locations": [location],
        })
    });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "jax2onnx",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|rule| json!({ "id": rule })).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "artifacts": [{ "location": { "uri": uri(model) } }],
            "results": results.collect::<Vec<_>>(),
        }],
    })
}

/// Returns a finding as `file:line:column: severity: message`.
pub fn line(
    document: &Document<'_>,
    sources: &Sources<'_, '_>,
    finding: &Finding,
    model: &str,
) -> String {
    let node = finding.node.map(|node| format!(" (`{}`)", document.node_name(node)));
    let place = match callsite(document, finding) {
        Some(frame) => {
            let (column, _) = columns(&frame, sources);
            format!("{}:{}:{column}", frame.file, frame.line)
        }
        None => model.to_owned(),
    };
    let Finding { rule, message, .. } = finding;
    let severity = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    clean(&format!("{place}: {severity}: {message}{} [{rule}]", node.unwrap_or_default()))
}

/// Returns the user's line that a finding concerns, if the model contains it.
fn callsite<'d>(document: &'d Document<'_>, finding: &Finding) -> Option<Frame<'d>> {
    let location = *document.callsites(finding.node?).first()?;
    Some(document.frame(location)).filter(|frame| frame.has_file() && frame.line > 0)
}

/// Returns the first column of an expression and the column after it, in characters from 1.
fn columns(frame: &Frame<'_>, sources: &Sources<'_, '_>) -> (usize, Option<usize>) {
    let Some(span) = frame.span else { return (1, None) };
    let characters = |line: u32, byte: u32| {
        let shown = Frame { line, span: None, tier: Tier::User, ..*frame };
        let text = sources.line(&shown).1;
        let before = text.as_deref().and_then(|text| text.get(..byte as usize));
        1 + before.map_or(byte as usize, |before| before.chars().count())
    };
    let end = characters(span.end_line, span.end_column);
    (characters(frame.line, span.column), Some(end))
}

fn region(frame: &Frame<'_>, sources: &Sources<'_, '_>) -> Value {
    let mut region = json!({ "startLine": frame.line });
    if let (column, Some(end)) = columns(frame, sources) {
        let end_line = frame.span.map_or(frame.line, |span| span.end_line);
        region["startColumn"] = json!(column);
        region["endLine"] = json!(end_line);
        region["endColumn"] = json!(end);
    }
    region
}

/// Returns a path as a URI: an absolute path with its scheme, a relative path as a relative reference.
fn uri(path: &str) -> String {
    let mut uri = if path.starts_with('/') { "file://".to_owned() } else { String::new() };
    for byte in path.replace('\\', "/").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            byte => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}
