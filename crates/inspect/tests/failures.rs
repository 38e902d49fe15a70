//! Runs `explain` on real failures. An answer must be right, or list several lines and say so, or say that it does
//! not know. It must never be wrong.
//!
//! `tools/failures.py` writes the corpus by running ONNX Runtime.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use inspect::explain::{Certainty, explain};
use inspect::{ModelFile, Weights};
use serde_json::Value;

#[path = "judging/mod.rs"]
mod judging;

use judging::{Verdict, judge, string};

#[derive(Default)]
struct Tally {
    real: BTreeMap<Verdict, usize>,
    documented: BTreeMap<Verdict, usize>,
    report: String,
}

#[test]
fn no_failure_is_explained_wrongly() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/failures");
    let text = fs::read_to_string(folder.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let mut tally = Tally::default();
    for (name, failure) in expected["failures"].as_object().unwrap() {
        let strings = |value: &Value| -> Vec<String> {
            value.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
        };
        let truth = strings(&failure["lines"]);
        let model = folder.join(failure["model"].as_str().unwrap());
        for entry in failure["logs"].as_array().unwrap() {
            let log = entry["log"].as_str().unwrap();
            let text = fs::read(folder.join(log)).unwrap();
            let (verdict, said) = judge(&model, &text, &truth);
            let is_real = entry["real"].as_bool().unwrap();
            let count = if is_real { &mut tally.real } else { &mut tally.documented };
            *count.entry(verdict).or_default() += 1;
            if !matches!(verdict, Verdict::Right | Verdict::Silent) {
                let _ = writeln!(tally.report, "{verdict:?}: {name} ({log}): {said}");
            }
        }
    }
    let count = |verdict| tally.real.get(&verdict).copied().unwrap_or(0);
    let summary = format!(
        "{}messages of real runs: {:?}\nmessages as documented: {:?}",
        tally.report, tally.real, tally.documented
    );
    assert_eq!(count(Verdict::Wrong), 0, "{summary}");
    assert_eq!(tally.documented.get(&Verdict::Wrong), None, "{summary}");
    let total: usize = tally.real.values().sum();
    assert!(total >= 40, "{summary}");
    assert!(count(Verdict::Right) * 10 >= total * 8, "{summary}");
    #[expect(clippy::print_stderr, reason = "shown with --nocapture")]
    {
        eprintln!("{summary}");
    }
}

/// Returns a message without its beginning, as people paste it. Each result is shorter than the one before.
fn without_beginning(log: &str) -> Vec<(&'static str, String)> {
    let mut parts = Vec::new();
    for (what, mark, ends) in [
        ("code", " : ", None),
        ("failed", "failed:", None),
        ("name", "Name:'", Some("Name:'")),
        ("node", "In Node, ", None),
        ("status", "Status Message: ", None),
    ] {
        let text = match what {
            "code" => log.rsplit_once("[ONNXRuntimeError]").map_or(log, |(_, rest)| rest),
            _ => log,
        };
        let rest = match what {
            "code" => text.splitn(4, mark).nth(3).map(str::to_owned),
            _ => text.rsplit_once(mark).map(|(_, rest)| format!("{}{rest}", ends.unwrap_or(""))),
        };
        parts.extend(rest.filter(|rest| !rest.trim().is_empty()).map(|rest| (what, rest)));
    }
    parts
}

#[test]
fn a_message_without_its_beginning_is_an_error_and_is_not_explained_wrongly() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/failures");
    let text = fs::read_to_string(folder.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let mut worse = Vec::new();
    let mut seen = 0;
    for (name, failure) in expected["failures"].as_object().unwrap() {
        let truth: Vec<String> = failure["lines"].as_array().unwrap().iter().map(string).collect();
        let model = folder.join(failure["model"].as_str().unwrap());
        let entries = failure["logs"].as_array().unwrap().iter();
        let real = entries.filter(|entry| entry["real"].as_bool().unwrap());
        for log in real.map(|entry| string(&entry["log"])) {
            let whole = fs::read_to_string(folder.join(&log)).unwrap();
            let (before, _) = judge(&model, whole.as_bytes(), &truth);
            // Several messages have several beginnings.
            if whole.matches("Error").count() > 1
                || matches!(before, Verdict::Unknown | Verdict::Nameless)
            {
                continue;
            }
            for (what, part) in without_beginning(&whole) {
                seen += 1;
                let (after, said) = judge(&model, part.as_bytes(), &truth);
                let is_kept = match what {
                    "code" | "failed" | "name" | "node" => after == before,
                    _ => after != Verdict::Wrong && !said.is_empty(),
                };
                if !is_kept {
                    worse.push(format!("{name}, {what}: {before:?}, then {after:?}: {part}{said}"));
                }
            }
        }
    }
    assert!(seen >= 60, "{seen}");
    assert!(worse.is_empty(), "{}", worse.join("\n"));
}

/// Runtimes create nodes. A node of the model with the same operator need not be the origin of such a node.
#[test]
fn names_that_resemble_nodes_are_not_resolved() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/failures");
    for (model, message) in [
        ("add_of_two_lengths", "Could not find an implementation for Add(14) node with name ''"),
        ("product_of_a_transpose", "running Transpose node. Name:'Transpose_token_3'"),
        ("operator_of_a_later_opset", "running Gelu node. Name:'Gelu'"),
        ("matmul_inner_size", "running MatMul node. Name:'dot_general_7'"),
        ("matmul_inner_size", "running MatMul node. Name:'MatMul'"),
    ] {
        let file =
            ModelFile::open(&folder.join(format!("{model}.onnx")), Weights::Skipped).unwrap();
        let document = file.read(None).unwrap();
        let explanation = explain(&document, message.as_bytes());
        let [finding] = explanation.findings.as_slice() else { panic!("{message}") };
        assert_eq!(finding.certainty, Certainty::Unknown, "{message}: {}", finding.how);
    }
}

/// An unknown node inside a loop is one of the lines of the body, not the line of the loop.
#[test]
fn an_unknown_node_in_a_loop_is_one_of_the_lines_of_its_body() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/failures/in_a_scan.onnx");
    let file = ModelFile::open(&model, Weights::Skipped).unwrap();
    let document = file.read(None).unwrap();
    let message = "running Scan node. Name:'scan' Status Message: running Fused node. Name:'Fused'";
    let explanation = explain(&document, message.as_bytes());
    let finding = &explanation.findings[0];
    assert_eq!(finding.certainty, Certainty::OneOf);
    let functions: Vec<&str> = finding.lines.iter().map(|line| line.function).collect();
    assert_eq!(functions, ["in_a_scan.<locals>.fn.<locals>.step"; 2]);
}
