//! Compares the answers of `explain` with the lines that are to blame.

use std::fmt::Write;
use std::path::Path;

use inspect::explain::{Certainty, explain};
use inspect::{ModelFile, Weights};
use serde_json::Value;

/// The result of comparing an answer with the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// The answer is the correct line.
    Right,
    /// The answer lists several lines, including the correct one.
    Among,
    /// There is no correct line, and the answer has none.
    Silent,
    /// The message names nothing, and the answer says so.
    Nameless,
    Unknown,
    Wrong,
}

pub(crate) fn string(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Judges an answer. `truth` contains every marked line, and finding one of them is enough.
pub(crate) fn judge(model: &Path, log: &[u8], truth: &[String]) -> (Verdict, String) {
    let file = ModelFile::open(model, Weights::Skipped).unwrap();
    // If a model cannot be read, nothing is known about it.
    let document = match file.read(None) {
        Ok(document) => document,
        Err(error) => return (Verdict::Unknown, error.to_string()),
    };
    let explanation = explain(&document, log);
    let mut verdict = Verdict::Unknown;
    let mut said = String::new();
    let mut found: Vec<String> = Vec::new();
    for finding in &explanation.findings {
        let lines: Vec<String> = finding.lines.iter().map(|line| line.place()).collect();
        let _ = write!(said, "{:?} {lines:?} {}; ", finding.certainty, finding.how);
        verdict = match finding.certainty {
            Certainty::Unknown => continue,
            Certainty::Certain | Certainty::Likely if truth.contains(&lines[0]) => Verdict::Right,
            Certainty::OneOf if lines.iter().any(|line| truth.contains(line)) => {
                // If all lines are marked, the answer is right.
                let is_all = lines.iter().all(|line| truth.contains(line));
                if is_all { Verdict::Right } else { Verdict::Among }
            }
            _ => return (Verdict::Wrong, said),
        };
        found.extend(lines);
    }
    if verdict == Verdict::Right && !truth.iter().all(|line| found.contains(line)) {
        verdict = Verdict::Among;
    }
    let is_nameless = explanation.findings.iter().all(|finding| finding.message.clues.is_empty());
    // If no line is marked, not knowing is right.
    match (verdict, truth.is_empty()) {
        (Verdict::Unknown, true) => (Verdict::Silent, said),
        (Verdict::Unknown, false) if is_nameless => (Verdict::Nameless, said),
        _ => (verdict, said),
    }
}
