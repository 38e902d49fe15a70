//! The command line. Commands print their answers to `out`, and everything else to `err`.

mod command;
mod commands;
mod files;
mod model;
mod output;
mod printed;
mod screen;

use std::ffi::OsString;
use std::io::{self, Write};

use clap::Parser;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use command::{Command, Console, Outcome};
pub use commands::compare::CompareRequest;
pub use commands::cost::MachineRequest;
pub use commands::export::{
    ArraySpec, InputSpec, ParamValue, Request, Size, SpecError, read_input,
};
pub use commands::lower::LowerRequest;
pub use commands::sensitivity::SensitivityRequest;
use inspect::Style;
use inspect::show::clean;
use printed::Printed;
pub use screen::Screen;

/// Convert JAX functions to ONNX models, and trace every ONNX node back to its line of Python
#[derive(Debug, Parser)]
#[command(
    name = "jax2onnx",
    version,
    about,
    arg_required_else_help = true,
    after_help = "Examples:\n  jax2onnx export model.py:predict -i 'x=f32[B,784]' -o model.onnx\n  \
                  jax2onnx where model.onnx dot_general\n  \
                  python run.py 2>&1 | jax2onnx explain model.onnx\n\n\
                  `jax2onnx COMMAND --help` shows the options and examples of a command."
)]
struct Cli {
    #[command(subcommand)]
    command: Subcommand,
}

/// The commands, in the order in which `--help` lists them.
#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    Export(Box<commands::export::Args>),
    Inspect(commands::inspect::Args),
    Where(commands::where_::Args),
    Blame(commands::blame::Args),
    View(commands::view::Args),
    Explain(commands::explain::Args),
    Profile(commands::profile::Args),
    Cost(commands::cost::Args),
    Compare(Box<commands::compare::Args>),
    Sensitivity(commands::sensitivity::Args),
    Lower(commands::lower::Args),
    Check(commands::check::Args),
    Diff(commands::diff::Args),
    Strip(commands::strip::Args),
    Attach(commands::attach::Args),
    Plugins(commands::plugins::Args),
    Config(commands::config::Args),
    Doctor(commands::doctor::Args),
    Completions(commands::completions::Args),
    Man(commands::completions::ManArgs),
}

/// A command that Python runs.
#[derive(Debug)]
pub enum Task<'a> {
    /// Exports a model.
    Export(Box<Request<'a>>),
    /// Compares a model.
    Compare(Box<CompareRequest<'a>>),
    /// Ranks the lines of a model.
    Sensitivity(Box<SensitivityRequest<'a>>),
    /// Writes a model in a shorter type.
    Lower(Box<LowerRequest<'a>>),
    /// Measures what the machine can do, and runs the command again with it.
    Machine(MachineRequest),
    /// Shows the settings.
    Config { json: bool },
    /// Shows what is installed.
    Doctor { json: bool },
}

/// Runs a command in Python, if Python is available, and returns the exit code.
pub type Python<'a> = dyn FnMut(&Task<'_>) -> i32 + 'a;

/// Runs the program. Returns 0 on success, 1 if the answer is "nothing", and 2 on failure.
pub fn run(
    arguments: Vec<OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
    screen: Screen,
    mut python: Option<&mut Python<'_>>,
) -> i32 {
    let lines = exports(&arguments);
    if lines.len() > 1 {
        // A mistake in any export is reported before the first one runs.
        if let Some(wrong) = lines.iter().find(|line| Cli::try_parse_from(*line).is_err()) {
            return run(wrong.clone(), out, err, screen, python);
        }
        let codes =
            lines.into_iter().map(|line| run(line, out, err, screen, python.as_deref_mut()));
        return codes.max().unwrap_or_default();
    }
    let style = screen.style();
    let (mut out, mut err) = (Printed::in_blocks(out, style), Printed::in_lines(err));
    let is_json = wants_json(&arguments);
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(mut error) => {
            suggest_input(&mut error);
            let is_help = !error.use_stderr();
            let text = error.to_string();
            let to = if is_help { &mut out } else { &mut err };
            let shown = if is_help { text.clone() } else { wrapped(&text, style) };
            let _ = write!(to, "{shown}").and_then(|()| to.flush());
            if is_json && !is_help {
                print_json_error(&mut out, text.trim_start_matches("error: ").trim_end());
            }
            return if is_help { 0 } else { 2 };
        }
    };
    let mut console = Console { out: &mut out, err: &mut err, style };
    let mut ask = |command: &dyn Command| command::run(command, &mut console);
    let outcome = match &cli.command {
        Subcommand::Export(command) => match python {
            Some(python) => return python(&Task::Export(Box::new(command.request()))),
            None => Err(anyhow::anyhow!(
                "`export` traces with JAX, so it needs Python: pip install jax2onnx-rs"
            )),
        },
        Subcommand::Compare(command) => match (command.request(), python) {
            (Ok(request), Some(python)) => return python(&Task::Compare(Box::new(request))),
            (Err(why), _) => Err(why),
            (Ok(_), None) => Err(anyhow::anyhow!(
                "`compare` runs models with ONNX Runtime, so it needs Python: pip install 'jax2onnx-rs[runtime]'"
            )),
        },
        Subcommand::Lower(command) => match python {
            Some(python) => return python(&Task::Lower(Box::new(command.request()))),
            None => Err(anyhow::anyhow!(
                "`lower` runs models with ONNX Runtime, so it needs Python: pip install 'jax2onnx-rs[runtime]'"
            )),
        },
        Subcommand::Sensitivity(command) => match python {
            Some(python) => return python(&Task::Sensitivity(Box::new(command.request()))),
            None => Err(anyhow::anyhow!(
                "`sensitivity` runs models with ONNX Runtime, so it needs Python: pip install 'jax2onnx-rs[runtime]'"
            )),
        },
        Subcommand::Config(command) => match python {
            Some(python) => return python(&command.task()),
            None => Err(anyhow::anyhow!(
                "`config` shows the settings of exports, which need Python: pip install jax2onnx-rs"
            )),
        },
        Subcommand::Doctor(command) => match python {
            Some(python) => return python(&command.task()),
            None => ask(command),
        },
        Subcommand::Completions(command) => command.run(console.out),
        Subcommand::Man(command) => command.run(console.out),
        Subcommand::Attach(command) => ask(command),
        Subcommand::Blame(command) => ask(command),
        Subcommand::Check(command) => ask(command),
        Subcommand::Cost(command) => match (command.measurement(), python) {
            (Some(request), Some(python)) => return python(&Task::Machine(request)),
            _ => ask(command),
        },
        Subcommand::Diff(command) => ask(command),
        Subcommand::Explain(command) => ask(command),
        Subcommand::Inspect(command) => ask(command),
        Subcommand::Plugins(command) => ask(command),
        Subcommand::Profile(command) => ask(command),
        Subcommand::Strip(command) => ask(command),
        Subcommand::View(command) => ask(command),
        Subcommand::Where(command) => ask(command),
    };
    let outcome = outcome.and_then(|outcome| {
        console.out.flush()?;
        Ok(outcome)
    });
    match outcome {
        Ok(Outcome::Found) => 0,
        Ok(Outcome::Nothing) => 1,
        Err(error) if is_broken_pipe(&error) => 0,
        Err(error) => {
            let text = clean(&message(&error));
            let _ = console.labelled(ERROR, &text);
            if is_json {
                print_json_error(console.out, &text);
            }
            2
        }
    }
}

/// The label of an error.
const ERROR: &str = "error: ";

/// Wraps the sentence of an error about the command line. The line that marks the mistake stays as it is.
fn wrapped(text: &str, style: Style) -> String {
    let line = |line: &str| match line.strip_prefix(ERROR) {
        Some(said) => format!("{ERROR}{}", style.hanging(said, ERROR.len())),
        None => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Shows the flag of an input that was written without it.
fn suggest_input(error: &mut clap::Error) {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return };
    if error.kind() != ErrorKind::UnknownArgument || !argument.ends_with(']') {
        return;
    }
    let spec = match argument.split_once(':') {
        Some((name, spec)) if !argument.contains('=') => format!("{name}={}", spec.trim()),
        _ => argument.clone(),
    };
    if read_input(&spec).is_ok() {
        let tip = vec![StyledStr::from(format!("to give an input, use '-i {spec}'"))];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tip));
    }
}

/// Returns an error with its causes. Omits a cause that the error already contains.
fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Returns the command lines of the exports that `--and` separates, or the line itself.
fn exports(arguments: &[OsString]) -> Vec<Vec<OsString>> {
    match arguments {
        [program, command, rest @ ..] if command == "export" => rest
            .split(|argument| argument == "--and")
            .map(|each| [&[program.clone(), command.clone()], each].concat())
            .collect(),
        _ => vec![arguments.to_vec()],
    }
}

/// True if the output format is JSON, even if the command line cannot be parsed.
fn wants_json(arguments: &[OsString]) -> bool {
    arguments
        .windows(2)
        .any(|pair| matches!(pair, [name, value] if name == "--format" && value == "json"))
        || arguments.iter().any(|argument| argument == "--format=json")
}

/// Prints an error as JSON to standard output, where programs read the answer.
fn print_json_error(out: &mut dyn Write, message: &str) {
    let error = serde_json::json!({ "version": 1, "error": { "message": message } });
    let _ = writeln!(out, "{error:#}").and_then(|()| out.flush());
}

/// True if the reader of the output has closed it, which is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    };
    error.chain().any(io)
}

#[cfg(test)]
mod tests {
    use options::Value;

    use super::*;

    fn run_export(arguments: &[&str], export: Option<&mut Export<'_>>) -> (i32, String) {
        let line = [&["export"], arguments].concat();
        let mut python = export.map(|export| {
            |task: &Task<'_>| match task {
                Task::Export(request) => export(request),
                _ => unreachable!("the command is `export`"),
            }
        });
        run_python(&line, python.as_mut().map(|python| python as &mut Python<'_>))
    }

    type Export<'a> = dyn FnMut(&Request<'_>) -> i32 + 'a;

    fn run_python(arguments: &[&str], python: Option<&mut Python<'_>>) -> (i32, String) {
        let mut err = Vec::new();
        let program = ["jax2onnx"].iter().chain(arguments).map(Into::into);
        let code = run(program.collect(), &mut Vec::new(), &mut err, Screen::plain(), python);
        (code, String::from_utf8(err).unwrap())
    }

    #[test]
    fn an_error_does_not_repeat_its_cause() {
        use anyhow::Context;

        let why = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        let error = onnx::proto::WriteError::File { path: "fifo".into(), why };
        let text = "cannot write `fifo`: it is not a regular file";
        assert_eq!(message(&anyhow::Error::new(error)), text);
        let other = anyhow::anyhow!("it is empty").context("a.onnx");
        assert_eq!(message(&other), "a.onnx: it is empty");
        let nested = io::Error::other(onnx::proto::WriteError::WrongAssumption);
        let nested = Err::<(), _>(nested).context("m.onnx").unwrap_err();
        assert_eq!(message(&nested).matches("assumed").count(), 1);
    }

    #[test]
    fn an_export_without_python_says_what_it_needs() {
        let (code, err) = run_export(&["m:f", "-o", "m.onnx"], None);
        assert_eq!(code, 2);
        assert!(err.starts_with("error: `export` traces with JAX, so it needs Python"), "{err}");
    }

    #[test]
    fn an_export_is_handed_over_with_its_exit_code() {
        let mut asked = String::new();
        let mut export = |request: &Request<'_>| {
            asked = format!("{} {} {:?}", request.function, request.inputs.len(), request.options);
            7
        };
        let line = ["m:f", "-i", "x=f32[B]", "-i", "i32[]", "-o", "m.onnx", "--opset", "21"];
        assert_eq!(run_export(&line, Some(&mut export)).0, 7);
        assert_eq!(asked, r#"m:f 2 [("opset", Number(21))]"#);
    }

    #[test]
    fn the_settings_are_shown_by_python() {
        let mut asked = Vec::new();
        let mut python = |task: &Task<'_>| {
            asked.push(format!("{task:?}"));
            0
        };
        assert_eq!(run_python(&["config"], Some(&mut python)).0, 0);
        assert_eq!(run_python(&["config", "--format", "json"], Some(&mut python)).0, 0);
        assert_eq!(asked, ["Config { json: false }", "Config { json: true }"]);
        let (code, err) = run_python(&["config"], None);
        assert_eq!(code, 2);
        assert!(err.starts_with("error: `config` shows the settings of exports"), "{err}");
    }

    #[test]
    fn a_comparison_is_handed_over_with_its_exit_code() {
        let mut asked = String::new();
        let mut python = |task: &Task<'_>| {
            let Task::Compare(request) = task else { unreachable!("the command is `compare`") };
            asked = format!("{:?} {:?} {:?}", request.function, request.inputs, request.top);
            1
        };
        let line = ["compare", "m.onnx", "--fn", "m:f", "-i", "x=x.npy", "--top", "3"];
        assert_eq!(run_python(&line, Some(&mut python)), (1, String::new()));
        assert_eq!(asked, r#"Some("m:f") ["x=x.npy"] 3"#);
    }

    #[test]
    fn a_comparison_needs_something_to_compare_with() {
        let mut python = |_: &Task<'_>| unreachable!("nothing is compared");
        let (code, err) = run_python(&["compare", "m.onnx"], Some(&mut python));
        assert_eq!(code, 2);
        assert!(err.contains("add another model, --fn TARGET, --runtime NAME, or --nan"), "{err}");
        let (code, err) = run_python(&["compare", "a.onnx", "b.onnx", "--fn", "m:f"], None);
        assert_eq!(code, 2);
        assert!(err.contains("cannot be used with"), "{err}");
        let (code, err) = run_python(&["compare", "a.onnx", "b.onnx"], None);
        assert_eq!(code, 2);
        assert!(err.contains("`compare` runs models with ONNX Runtime"), "{err}");
    }

    #[test]
    fn a_ranking_is_handed_over_with_its_exit_code() {
        let mut asked = String::new();
        let mut python = |task: &Task<'_>| {
            let Task::Sensitivity(request) = task else {
                unreachable!("the command is `sensitivity`")
            };
            asked = format!("{:?} {:?} {}", request.inputs, request.to, request.top);
            0
        };
        let line = ["sensitivity", "m.onnx", "-i", "x=x.npy", "--to", "int8"];
        assert_eq!(run_python(&line, Some(&mut python)), (0, String::new()));
        assert_eq!(asked, r#"["x=x.npy"] "int8" 10"#);
        let (code, err) = run_python(&line, None);
        assert_eq!(code, 2);
        assert!(err.contains("`sensitivity` runs models with ONNX Runtime"), "{err}");
    }

    #[test]
    fn a_lowering_is_handed_over_with_its_exit_code() {
        let mut asked = String::new();
        let mut python = |task: &Task<'_>| {
            let Task::Lower(request) = task else { unreachable!("the command is `lower`") };
            asked = format!("{:?} {:?} {}", request.path, request.keep, request.budget);
            2
        };
        let line = ["lower", "m.onnx", "-o", "s.onnx", "--keep", "f", "--keep", "g"];
        assert_eq!(run_python(&line, Some(&mut python)), (2, String::new()));
        assert_eq!(asked, r#""s.onnx" ["f", "g"] 0.01"#);
        let (code, err) = run_python(&line, None);
        assert_eq!(code, 2);
        assert!(err.contains("`lower` runs models with ONNX Runtime"), "{err}");
        let (code, err) = run_python(&["lower", "m.onnx"], None);
        assert_eq!(code, 2);
        assert!(err.contains("--output <PATH>"), "{err}");
    }

    #[test]
    fn doctor_answers_with_python_and_without_it() {
        let mut asked = Vec::new();
        let mut python = |task: &Task<'_>| {
            asked.push(format!("{task:?}"));
            0
        };
        assert_eq!(run_python(&["doctor", "--format", "json"], Some(&mut python)).0, 0);
        assert_eq!(asked, ["Doctor { json: true }"]);
        assert_eq!(run_python(&["doctor"], None), (0, String::new()));
    }

    #[test]
    fn exports_that_and_separates_run_in_order_and_the_highest_exit_code_wins() {
        let mut asked = Vec::new();
        let mut export = |request: &Request<'_>| {
            asked.push(format!("{} {}", request.function, request.output.unwrap().display()));
            i32::from(request.function == "m:f")
        };
        let line = ["m:f", "-o", "f.onnx", "--and", "m:g", "-o", "g.onnx", "-i", "f32[2]"];
        assert_eq!(run_export(&line, Some(&mut export)), (1, String::new()));
        assert_eq!(asked, ["m:f f.onnx", "m:g g.onnx"]);
    }

    #[test]
    fn a_mistake_in_one_of_several_exports_stops_all_of_them() {
        let mut export = |_: &Request<'_>| unreachable!("nothing is exported");
        let line = ["m:f", "-o", "f.onnx", "--and", "m:g"];
        let (code, err) = run_export(&line, Some(&mut export));
        assert_eq!(code, 2);
        assert!(err.contains("--output <PATH>"), "{err}");
    }

    #[test]
    fn an_error_is_json_if_the_answer_would_be() {
        for line in [
            &["inspect", "missing.onnx", "--format", "json"][..],
            &["inspect", "--format=json"],
            &["export", "m:f", "-o", "m.onnx", "--format", "json"],
            &["export", "m:f", "--format", "json"],
            &["attach", "missing.onnx", "missing.map", "-o", "m.onnx", "--format", "json"],
            &["blame", "missing.onnx", "--format", "json"],
            &["check", "missing.onnx", "--format", "json"],
            &["compare", "missing.onnx", "--format", "json"],
            &["lower", "missing.onnx", "-o", "short.onnx", "--format", "json"],
            &["sensitivity", "missing.onnx", "--format", "json"],
            &["config", "--format", "json"],
            &["diff", "missing.onnx", "missing.onnx", "--format", "json"],
            &["explain", "missing.onnx", "-m", "x", "--format", "json"],
            &["profile", "missing.onnx", "missing.json", "--format", "json"],
            &["strip", "missing.onnx", "-o", "m.onnx", "--format", "json"],
            &["view", "missing.onnx", "--format", "json"],
            &["where", "missing.onnx", "x", "--format", "json"],
            &["plugins", "--no-such-option", "--format", "json"],
        ] {
            let mut out = Vec::new();
            let program = ["jax2onnx"].iter().chain(line).map(Into::into);
            let code = run(program.collect(), &mut out, &mut Vec::new(), Screen::plain(), None);
            assert_eq!(code, 2);
            let answer: serde_json::Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(answer["version"], 1);
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(!message.is_empty() && !message.starts_with("error: "), "{message}");
        }
    }

    #[test]
    fn a_source_map_is_beside_the_model_unless_it_has_a_place() {
        for (arguments, expected) in [
            (&["--source-map"][..], Value::Flag(true)),
            (&["--source-map", "x.map"], Value::Path("x.map".into())),
            (&["--source-map=x.map", "--sources", "embed"], Value::Path("x.map".into())),
        ] {
            let mut asked = None;
            let mut export = |request: &Request<'_>| {
                asked = request.options.iter().find(|(name, _)| *name == "source_map").cloned();
                0
            };
            let line = [&["m:f", "-o", "m.onnx"], arguments].concat();
            assert_eq!(run_export(&line, Some(&mut export)), (0, String::new()));
            assert_eq!(asked, Some(("source_map", expected)));
        }
        assert_eq!(run_export(&["m:f", "-o", "m.onnx", "--sources", "embed"], None).0, 2);
    }

    #[test]
    fn a_bad_input_is_an_error_of_the_command_line() {
        let (code, err) = run_export(&["m:f", "-o", "m.onnx", "-i", "x=f33[B]"], None);
        assert_eq!(code, 2);
        let expected = "error: invalid value 'x=f33[B]' for '--input <SPEC>': `f33` is not a type";
        assert!(err.starts_with(expected), "{err}");
        assert!(err.contains("\n  x=f33[B]\n    ^^^\n"), "{err}");
    }

    #[test]
    fn an_input_without_its_flag_is_shown_with_it() {
        for written in ["x=f32[B,8]", "x:f32[B,8]"] {
            let (code, err) = run_export(&["m:f", written, "-o", "m.onnx"], None);
            assert_eq!(code, 2);
            let tip = "tip: to give an input, use '-i x=f32[B,8]'";
            assert!(err.contains(tip), "{err}");
        }
        let (_, err) = run_export(&["m:f", "x", "-o", "m.onnx"], None);
        assert!(!err.contains("tip"), "{err}");
    }
}
