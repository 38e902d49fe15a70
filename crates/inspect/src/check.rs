//! Checks a model: its structure, types, opsets, names, weights, metadata and sources.

mod graph;
mod metadata;
mod runtimes;
mod sarif;
mod weights;

use std::fmt;

use onnx::kernels::Target;

use crate::{Document, Sources};
pub use sarif::{line, sarif};

/// A problem, or a possible problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// The kind of the finding: `undefined-value`.
    pub rule: &'static str,
    pub message: String,
    /// The number of the node that it concerns.
    pub node: Option<usize>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A runtime rejects the model, or computes wrong results.
    Error,
    /// The model works, but may surprise its users.
    Warning,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// The maximum number of findings to list per rule. Further ones are only counted.
const MAX_PER_RULE: usize = 50;

/// The findings of a check so far.
#[derive(Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
    more: std::collections::BTreeMap<(Severity, &'static str), usize>,
}

impl Findings {
    fn add(
        &mut self,
        severity: Severity,
        rule: &'static str,
        node: Option<usize>,
        message: fmt::Arguments<'_>,
    ) {
        let known = self.list.iter().filter(|finding| finding.rule == rule).count();
        if known >= MAX_PER_RULE {
            *self.more.entry((severity, rule)).or_default() += 1;
        } else {
            self.list.push(Finding { severity, rule, message: message.to_string(), node });
        }
    }

    fn error(&mut self, rule: &'static str, node: Option<usize>, message: fmt::Arguments<'_>) {
        self.add(Severity::Error, rule, node, message);
    }

    fn warning(&mut self, rule: &'static str, node: Option<usize>, message: fmt::Arguments<'_>) {
        self.add(Severity::Warning, rule, node, message);
    }
}

/// Returns all problems, errors first. With a target, also what its runtimes lack.
pub fn check(
    document: &Document<'_>,
    sources: &Sources<'_, '_>,
    target: Option<Target>,
) -> Vec<Finding> {
    let mut findings = Findings::default();
    if let Some(target) = target {
        runtimes::check(document, target, &mut findings);
    }
    graph::check(document, &mut findings);
    weights::check(document, &mut findings);
    metadata::check(document, sources, &mut findings);
    for ((severity, rule), count) in findings.more {
        let message = format!("… and {count} more");
        findings.list.push(Finding { severity, rule, message, node: None });
    }
    findings.list.sort_by_key(|finding| (finding.severity, finding.rule));
    findings.list
}
