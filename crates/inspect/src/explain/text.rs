//! Formats an explanation for people.

use std::fmt::Write;

use super::{Certainty, Explanation, Finding};
use crate::show::{self, clean};
use crate::{Document, Sources, Style};

/// The maximum number of lines to show if several are possible.
const MAX_LINES: usize = 6;

/// Returns the explanation of each message.
pub fn text(
    explanation: &Explanation<'_>,
    document: &Document<'_>,
    sources: &Sources<'_, '_>,
    style: Style,
) -> String {
    let mut text = String::new();
    for (number, finding) in explanation.findings.iter().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        one(&mut text, finding, document, sources, style);
    }
    text
}

fn one(
    text: &mut String,
    finding: &Finding<'_>,
    document: &Document<'_>,
    sources: &Sources<'_, '_>,
    style: Style,
) {
    let words = clean(&finding.message.words);
    let words = style.hanging(&words, "error: ".len());
    let _ = writeln!(text, "{} {}", style.red("error:"), style.bold(&words));
    match (finding.certainty, &finding.origin) {
        (Certainty::OneOf, _) => {
            let shown = &finding.lines[..finding.lines.len().min(MAX_LINES)];
            *text += &show::excerpts(shown, sources, style);
            if finding.lines.len() > MAX_LINES {
                let _ = writeln!(text, "   … and {} more", finding.lines.len() - MAX_LINES);
            }
        }
        (_, Some(origin)) => *text += &show::traceback(origin, false, sources, style),
        _ => {}
    }
    let mut note = |label: &str, said: &str| {
        let said = style.hanging(&clean(&format!("{label}{said}")), "   = ".len());
        let _ = writeln!(text, "   {} {said}", style.blue("="));
    };
    note("", &sureness(finding));
    if !finding.message.used.is_empty() {
        note("from the message: ", &finding.message.used);
    }
    let is_nameless = finding.lines.first().is_some_and(|line| !line.has_file());
    if let Some(missing) = document.missing().filter(|_| is_nameless) {
        note("file: ", missing);
    }
    if let Some(node) = finding.node {
        note("node: ", &described(document, node));
    }
    if !finding.within.is_empty() {
        let around: Vec<String> =
            finding.within.iter().map(|&node| described(document, node)).collect();
        note("within: ", &around.join(" / "));
    }
    if let Some(origin) = finding.origin.as_ref().filter(|origin| !origin.scope.is_empty()) {
        note("scope: ", &origin.scope.join("/"));
    }
    for role in ["reads", "makes"] {
        let values = finding.values.iter().filter(|value| value.role == role);
        let shown: Vec<String> = values
            .map(|value| match &value.ty {
                Some(ty) => format!("{} {ty}", value.name),
                None => value.name.clone(),
            })
            .collect();
        if !shown.is_empty() {
            note(&format!("{role}: "), &shown.join(", "));
        }
    }
    if let Some(advice) = &finding.advice {
        let advice = style.hanging(&clean(advice), "hint: ".len());
        let _ = writeln!(text, "\n{} {advice}", style.green("hint:"));
    }
}

/// Describes how certain the answer is, and why.
fn sureness(finding: &Finding<'_>) -> String {
    let how = &finding.how;
    let others = finding.lines.len().saturating_sub(1);
    match finding.certainty {
        Certainty::Certain => format!("certain: {how}"),
        Certainty::Likely if others > 0 => {
            let lines = finding.lines.iter().skip(1).map(|line| line.place());
            let lines = lines.collect::<Vec<_>>().join(", ");
            format!(
                "likely: {how}; the node also replaces {lines}, which the message does not concern"
            )
        }
        Certainty::Likely => format!("likely: {how}"),
        Certainty::OneOf => format!("one of these lines: {how}"),
        Certainty::Unknown => format!("the line is not known: {how}"),
    }
}

/// `Add add`
fn described(document: &Document<'_>, node: usize) -> String {
    let op = document.scan.nodes.get(node).map_or("", |node| node.op);
    format!("{op} `{}`", document.node_name(node))
}
