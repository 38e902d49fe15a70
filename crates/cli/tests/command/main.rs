//! Runs whole commands, and checks standard output, standard error and the exit code.
//!
//! `tools/command_fixtures.py` and `tools/foreign_fixtures.py` create the models. `UPDATE_EXPECT=1 cargo test -p
//! jax2onnx-cli` writes the expectations; read them before you commit.

#![expect(clippy::expect_used, reason = "a panic fails the test")]

mod blame;
mod check;
mod diff;
mod errors;
mod explain;
mod help;
mod hostile;
mod inspect;
mod view;
mod where_;
mod where_json;
mod width;
mod without_lines;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use expect_test::Expect;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn run(line: &str, folder: &Path) -> Output {
    run_arguments(&line.split_whitespace().collect::<Vec<_>>(), folder)
}

fn run_arguments(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jax2onnx"))
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .expect("the program runs")
}

/// Runs a command beside the fixtures.
#[track_caller]
fn check(line: &str, expect: &Expect) {
    check_arguments(&line.split_whitespace().collect::<Vec<_>>(), expect);
}

/// Runs a command beside the fixtures.
#[track_caller]
fn check_arguments(arguments: &[&str], expect: &Expect) {
    let output = run_arguments(arguments, &fixtures());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("what is printed is UTF-8");
    let mut answer =
        format!("exit {}\n{}", output.status.code().unwrap_or(-1), text(&output.stdout));
    if !output.stderr.is_empty() {
        answer = format!("{answer}--- stderr\n{}", text(&output.stderr));
    }
    // A checkout is newer than the models in it.
    expect.assert_eq(&answer.replace(" (dated after the model: it may have changed)", ""));
}
