//! `jax2onnx check`: finds problems in a model.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use inspect::check::{Finding, Severity, check, line, sarif};
use inspect::cost::memory::{Order, Peak};
use inspect::cost::{Budget, By, Lines, Sizing, Verdict, costs, read_sizes};
use inspect::show::clean;
use inspect::{Document, Sources, Target, json as values};
use serde_json::{Value, json};

use crate::command::{Answer, Command, Console, Outcome, print_json};
use crate::model::ModelArgs;
use crate::output;
use inspect::text::count;

/// Check a model for problems
///
/// Checks the structure, types, opsets, names, external weights and metadata, and looks for absolute paths and
/// for source files that changed since the export. With --target, it also checks which nodes a runtime does not
/// load or computes wrongly. With --budget, it also checks what the model costs before it runs. The exit code is 1 if
/// there is an error or a budget is exceeded, or if there is a warning with --strict.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jax2onnx check model.onnx\n  \
                        jax2onnx check model.onnx --target openvino\n  \
                        jax2onnx check predict.onnx --budget 'peak<=64MB' --size B=1\n  \
                        jax2onnx check model.onnx --strict --format json\n  \
                        jax2onnx check model.onnx --format sarif > findings.sarif")]
pub(crate) struct Args {
    /// The model
    model: PathBuf,
    /// Check what these runtimes lack, such as `openvino` or `onnxruntime>=1.31`
    #[arg(long, value_name = "RUNTIME,…", value_delimiter = ',')]
    target: Vec<String>,
    /// A limit for a cost, such as `flops<=4.2e9` or `peak<=64MB`; may be repeated
    #[arg(long, value_name = "COST<=LIMIT")]
    budget: Vec<Budget>,
    /// The size that replaces a symbol for budgets, such as `B=8`; may be repeated
    #[arg(long, value_name = "NAME=SIZE", requires = "budget")]
    size: Vec<String>,
    /// Fail on warnings, not only on errors
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    reading: ModelArgs,
    /// The output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Format {
    /// For people; may change between versions
    #[default]
    Text,
    /// For programs; stable, with a version number
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// `file:line:column: severity: message`, for editors and CI
    Lines,
}

/// The findings of a check.
struct Report<'a> {
    document: &'static Document<'static>,
    findings: Vec<Finding>,
    budgets: Vec<Verdict<'static>>,
    errors: usize,
    warnings: usize,
    is_strict: bool,
    sources: Sources<'static, 'static>,
    model: &'a Path,
    format: Format,
}

impl Command for Args {
    fn format(&self) -> output::Format {
        match self.format {
            Format::Json => output::Format::Json,
            Format::Text | Format::Sarif | Format::Lines => output::Format::Text,
        }
    }

    fn run<'a>(&'a self, console: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>> {
        let document = self.reading.open(&self.model, console)?;
        let sources = self.reading.sources(document);
        let names = self.target.iter().map(String::as_str);
        let target = (!self.target.is_empty()).then(|| Target::parse(names)).transpose()?;
        let mut findings = check(document, &sources, target);
        let budgets = self.verdicts(document)?;
        findings.splice(..0, budgets.iter().filter_map(Verdict::finding));
        let number = |severity| findings.iter().filter(|f| f.severity == severity).count();
        let (errors, warnings) = (number(Severity::Error), number(Severity::Warning));
        let Args { strict: is_strict, format, ref model, .. } = *self;
        Ok(Box::new(Report {
            document,
            findings,
            budgets,
            errors,
            warnings,
            is_strict,
            sources,
            model,
            format,
        }))
    }
}

impl Args {
    /// Compares the costs of the model with the budgets.
    fn verdicts(
        &self,
        document: &'static Document<'static>,
    ) -> anyhow::Result<Vec<Verdict<'static>>> {
        if self.budget.is_empty() {
            return Ok(Vec::new());
        }
        let sizes = read_sizes(self.size.iter().map(String::as_str))?;
        let sizing = Sizing::of(document, &sizes)?;
        let lines = Lines::of(document);
        let costs = costs(&sizing, &lines, By::Line);
        let peak = Peak::of(&sizing, &lines, Order::default());
        let verdict =
            |budget: &Budget| Verdict::of(budget.clone(), document, &lines, &costs, &peak);
        Ok(self.budget.iter().map(verdict).collect::<Result<_, _>>()?)
    }
}

impl Answer for Report<'_> {
    fn outcome(&self) -> Outcome {
        Outcome::found(self.errors == 0 && !(self.is_strict && self.warnings > 0))
    }

    fn print(&self, Console { out, style, .. }: &mut Console<'_>) -> io::Result<()> {
        let Report { document, sources, findings, .. } = self;
        let model = self.model.to_string_lossy();
        match self.format {
            Format::Sarif => return print_json(*out, &sarif(document, sources, findings, &model)),
            Format::Lines => {
                let mut lines = findings.iter().map(|it| line(document, sources, it, &model));
                return lines.try_for_each(|line| writeln!(out, "{line}"));
            }
            Format::Text | Format::Json => {}
        }
        for finding in &self.findings {
            let word = match finding.severity {
                Severity::Error => style.red("error"),
                Severity::Warning => style.bold("warning"),
            };
            let place = place(self.document, finding);
            let start = format!("{}[{}]: ", finding.severity.word(), finding.rule).len();
            let lines = style.wrapped(&format!("{}{place}", clean(&finding.message)), start, 0);
            let message = lines.join("\n    ");
            writeln!(out, "{word}[{}]: {message}", finding.rule)?;
        }
        for verdict in self.budgets.iter().filter(|verdict| verdict.is_met()) {
            writeln!(out, "{}", clean(&verdict.text()))?;
        }
        let (errors, warnings) = (count(self.errors, "error"), count(self.warnings, "warning"));
        writeln!(out, "{}: {errors}, {warnings}", clean(&self.document.name))
    }

    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let findings = self.findings.iter().map(|finding| describe(self.document, finding));
        print_json(
            out,
            &json!({
                "version": 1,
                "model": self.document.name,
                "errors": self.errors,
                "warnings": self.warnings,
                "findings": findings.collect::<Vec<_>>(),
                "budgets": self.budgets.iter().map(Verdict::json).collect::<Vec<_>>(),
            }),
        )
    }
}

/// Returns the node that a finding concerns, and its line.
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
