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

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;
use std::time::UNIX_EPOCH;

use expect_test::Expect;

/// Returns the folder of the models and their sources. A checkout dates the sources like the models, so this function makes
/// the sources older.
fn fixtures() -> PathBuf {
    static DATED: Once = Once::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    DATED.call_once(|| {
        let entries = [folder.clone(), folder.join("foreign")].map(std::fs::read_dir);
        for entry in entries.into_iter().flat_map(|entries| entries.expect("a folder")) {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|ending| ending == "py") {
                let source = File::options().write(true).open(&path);
                source.and_then(|file| file.set_modified(UNIX_EPOCH)).expect("an older source");
            }
        }
    });
    folder
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
    expect.assert_eq(&answer);
}
