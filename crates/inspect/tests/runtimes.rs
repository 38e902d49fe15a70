//! Runs `explain` on messages of runtimes other than ONNX Runtime for Python. An answer must be right, or list several
//! lines and say so, or say that it does not know. It must never be wrong.
//!
//! `tools/runtime_failures.py` writes the corpus by running the runtimes.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

#[path = "judging/mod.rs"]
mod judging;

use judging::{Verdict, judge, string};

/// A message of a runtime, the model, and the lines to blame.
struct Entry {
    runtime: String,
    model: String,
    text: String,
    truth: Vec<String>,
}

fn corpus() -> Vec<Entry> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runtimes");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    let mut entries = Vec::new();
    for path in paths {
        let file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        for message in file["messages"].as_array().unwrap() {
            entries.push(Entry {
                runtime: string(&file["runtime"]),
                model: string(&message["model"]),
                text: string(&message["text"]),
                truth: message["lines"].as_array().unwrap().iter().map(string).collect(),
            });
        }
    }
    entries
}

fn verdict(entry: &Entry, text: &str) -> (Verdict, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runtimes");
    judge(&folder.join(&entry.model), text.as_bytes(), &entry.truth)
}

#[test]
fn no_message_of_another_runtime_is_explained_wrongly() {
    let mut tally: BTreeMap<String, BTreeMap<Verdict, usize>> = BTreeMap::new();
    let mut report = String::new();
    for entry in corpus() {
        let (verdict, said) = verdict(&entry, &entry.text);
        *tally.entry(entry.runtime.clone()).or_default().entry(verdict).or_default() += 1;
        if !matches!(verdict, Verdict::Right | Verdict::Silent) {
            let text: String = entry.text.chars().take(300).collect();
            let Entry { runtime, model, truth, .. } = &entry;
            let _ =
                writeln!(report, "{verdict:?}: {runtime} {model} {truth:?}\n  {text}\n  {said}");
        }
    }
    let count = |wanted: Verdict| -> usize {
        tally.values().filter_map(|counts| counts.get(&wanted)).sum()
    };
    let summary = format!("{report}\n{tally:#?}");
    assert_eq!(count(Verdict::Wrong), 0, "{summary}");
    let total: usize = tally.values().flat_map(BTreeMap::values).sum();
    assert!(total >= 300 && tally.len() >= 6, "{summary}");
    let named = total - count(Verdict::Nameless) - count(Verdict::Silent);
    let found = count(Verdict::Right) + count(Verdict::Among);
    assert!(found * 100 >= named * 95, "{summary}");
    assert!(count(Verdict::Right) * 100 >= named * 85, "{summary}");
    assert!(count(Verdict::Nameless) * 10 <= total, "{summary}");
    #[expect(clippy::print_stderr, reason = "shown with --nocapture")]
    {
        eprintln!("{summary}");
    }
}

/// Inserts a line break after every 72 characters, as a narrow terminal does.
fn wrapped(text: &str) -> String {
    let mut wrapped = String::new();
    for line in text.lines() {
        for (at, c) in line.chars().enumerate() {
            if at > 0 && at % 72 == 0 {
                wrapped.push('\n');
            }
            wrapped.push(c);
        }
        wrapped.push('\n');
    }
    wrapped
}

#[test]
fn a_decorated_message_of_another_runtime_is_not_explained_wrongly() {
    let mut worse = Vec::new();
    let mut seen = 0;
    for entry in corpus().into_iter().step_by(7) {
        let (before, _) = verdict(&entry, &entry.text);
        let prefixed = |prefix: &str| {
            let lines = entry.text.lines().flat_map(|line| [prefix, line, "\n"]);
            lines.collect::<String>()
        };
        for (what, text) in [
            ("wrapped", wrapped(&entry.text)),
            ("prefixed", prefixed("[worker 3] ")),
            ("colored", format!("\x1b[31m{}\x1b[0m", entry.text.replace('\n', "\r\n"))),
        ] {
            seen += 1;
            let (after, said) = verdict(&entry, &text);
            assert_ne!(after, Verdict::Wrong, "{} {what}: {text}\n{said}", entry.model);
            if after != before {
                let Entry { runtime, model, .. } = &entry;
                worse.push(format!("{what} {runtime} {model}: {before:?} to {after:?}: {said}"));
            }
        }
    }
    assert!(worse.len() * 20 <= seen, "{} of {seen}\n{}", worse.len(), worse.join("\n"));
}
