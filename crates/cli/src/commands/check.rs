//! `jax2onnx check`: what is wrong with a model.

use std::io::Write;
use std::path::PathBuf;

use inspect::check::{Finding, Severity, check};
use inspect::show::clean;
use inspect::{Document, json as values};
use serde_json::{Value, json};

use crate::model::ModelArgs;
use crate::output::{Format, OutputArgs};
use crate::text::count;
use crate::{Outcome, Screen};

/// Look for what is wrong with a model
///
/// Structure, types, opsets, names, weights in other files, metadata, paths of the machine that made it,
/// source files that changed since the export. The exit code is 1 where there is an error, or with
/// --strict a warning.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jax2onnx check model.onnx\n  \
                        jax2onnx check model.onnx --strict --format json")]
pub(crate) struct Args {
    /// The model
    model: PathBuf,
    /// Fail on warnings too
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    reading: ModelArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(
    arguments: &Args,
    out: &mut dyn Write,
    err: &mut dyn Write,
    screen: Screen,
) -> anyhow::Result<Outcome> {
    let document = arguments.reading.open(&arguments.model, err)?;
    let sources = arguments.reading.sources(document);
    let findings = check(document, &sources);
    let number = |severity| findings.iter().filter(|f| f.severity == severity).count();
    let (errors, warnings) = (number(Severity::Error), number(Severity::Warning));
    match arguments.output.format {
        Format::Json => {
            let answer = json!({
                "version": 1,
                "model": document.name,
                "errors": errors,
                "warnings": warnings,
                "findings": findings.iter().map(|f| describe(document, f)).collect::<Vec<_>>(),
            });
            writeln!(out, "{answer:#}")?;
        }
        Format::Text => {
            let style = screen.style();
            for finding in &findings {
                let word = match finding.severity {
                    Severity::Error => style.red("error"),
                    Severity::Warning => style.bold("warning"),
                };
                let place = place(document, finding);
                writeln!(out, "{word}[{}]: {}{place}", finding.rule, clean(&finding.message))?;
            }
            let total = format!("{}, {}", count(errors, "error"), count(warnings, "warning"));
            writeln!(out, "{}: {total}", document.name)?;
        }
    }
    let is_bad = errors > 0 || (arguments.strict && warnings > 0);
    Ok(if is_bad { Outcome::Nothing } else { Outcome::Found })
}

/// The node that a finding is about, and its line.
fn place(document: &Document<'_>, finding: &Finding) -> String {
    let Some(node) = finding.node else { return String::new() };
    let line = document.callsites(node).first().map(|&id| format!(", {}", document.frame(id)));
    clean(&format!(" (`{}`{})", document.node_name(node), line.unwrap_or_default()))
}

fn describe(document: &Document<'_>, finding: &Finding) -> Value {
    let callsites = finding.node.map(|node| document.callsites(node)).unwrap_or_default();
    json!({
        "severity": finding.severity.word(),
        "rule": finding.rule,
        "message": finding.message,
        "node": finding.node.map(|node| document.node_name(node)),
        "callsite": callsites.first().map(|&id| values::frame(&document.frame(id))),
    })
}
