//! The command line. A command reads, asks, prints; data goes to `out`, everything else to `err`.

mod commands;
mod files;
mod model;
mod output;
mod screen;
mod text;

use std::ffi::OsString;
use std::io::{ErrorKind, Write};

use clap::Parser;

pub use commands::export::{ArraySpec, InputSpec, ParamValue, Request, Size};
pub use screen::Screen;

/// JAX functions to ONNX models, and from ONNX models back to the line of Python
#[derive(Debug, Parser)]
#[command(name = "jax2onnx", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Attach(commands::attach::Args),
    Blame(commands::blame::Args),
    Check(commands::check::Args),
    Completions(commands::completions::Args),
    Diff(commands::diff::Args),
    Explain(commands::explain::Args),
    Export(Box<commands::export::Args>),
    Inspect(commands::inspect::Args),
    Man(commands::completions::ManArgs),
    Plugins(commands::plugins::Args),
    Profile(commands::profile::Args),
    Strip(commands::strip::Args),
    Where(commands::where_::Args),
}

/// What a command found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Found,
    Nothing,
}

/// What exports, where there is Python: gives the exit code.
pub type Export<'a> = dyn FnMut(&Request<'_>) -> i32 + 'a;

/// Runs the program: 0 where it answered, 1 where the answer is "nothing", 2 where it could not.
pub fn run(
    arguments: Vec<OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
    screen: Screen,
    export: Option<&mut Export<'_>>,
) -> i32 {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let is_help = !error.use_stderr();
            let to: &mut dyn Write = if is_help { out } else { err };
            let _ = write!(to, "{error}");
            return if is_help { 0 } else { 2 };
        }
    };
    let outcome = match &cli.command {
        Command::Export(arguments) => match export {
            Some(export) => return export(&arguments.request()),
            None => Err(anyhow::anyhow!(
                "`export` traces with JAX, so it needs Python: pip install jax2onnx-rs"
            )),
        },
        Command::Attach(arguments) => commands::attach::run(arguments, out),
        Command::Blame(arguments) => commands::blame::run(arguments, out, err, screen),
        Command::Check(arguments) => commands::check::run(arguments, out, err, screen),
        Command::Completions(arguments) => commands::completions::run(arguments, out),
        Command::Diff(arguments) => commands::diff::run(arguments, out, err, screen),
        Command::Inspect(arguments) => commands::inspect::run(arguments, out, err, screen),
        Command::Explain(arguments) => commands::explain::run(arguments, out, err, screen),
        Command::Man(arguments) => commands::completions::run_man(arguments, out),
        Command::Profile(arguments) => commands::profile::run(arguments, out, err, screen),
        Command::Plugins(arguments) => commands::plugins::run(arguments, out, err),
        Command::Strip(arguments) => commands::strip::run(arguments, out, err),
        Command::Where(arguments) => commands::where_::run(arguments, out, err, screen),
    };
    match outcome {
        Ok(Outcome::Found) => 0,
        Ok(Outcome::Nothing) => 1,
        Err(error) if is_broken_pipe(&error) => 0,
        Err(error) => {
            let _ = writeln!(err, "error: {error:#}");
            2
        }
    }
}

/// Whoever read the output has seen enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == ErrorKind::BrokenPipe)
    };
    error.chain().any(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_export(arguments: &[&str], export: Option<&mut Export<'_>>) -> (i32, String) {
        let mut err = Vec::new();
        let program = ["jax2onnx", "export"].iter().chain(arguments).map(Into::into);
        let code = run(program.collect(), &mut Vec::new(), &mut err, Screen::plain(), export);
        (code, String::from_utf8(err).unwrap())
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
            asked = format!("{} {} {:?}", request.target, request.inputs.len(), request.opset);
            7
        };
        let line = ["m:f", "-i", "x=f32[B]", "-i", "i32[]", "-o", "m.onnx", "--opset", "21"];
        assert_eq!(run_export(&line, Some(&mut export)).0, 7);
        assert_eq!(asked, "m:f 2 Some(21)");
    }

    #[test]
    fn a_source_map_is_beside_the_model_unless_it_has_a_place() {
        for (arguments, expected) in [
            (&["--source-map"][..], "m.onnx.map"),
            (&["--source-map", "x.map"], "x.map"),
            (&["--source-map=x.map", "--sources", "embed"], "x.map"),
        ] {
            let mut asked = None;
            let mut export = |request: &Request<'_>| {
                asked.clone_from(&request.source_map);
                0
            };
            let line = [&["m:f", "-o", "m.onnx"], arguments].concat();
            assert_eq!(run_export(&line, Some(&mut export)), (0, String::new()));
            assert_eq!(asked.as_deref(), Some(std::path::Path::new(expected)));
        }
        assert_eq!(run_export(&["m:f", "-o", "m.onnx", "--sources", "embed"], None).0, 2);
    }

    #[test]
    fn a_bad_input_is_an_error_of_the_command_line() {
        let (code, err) = run_export(&["m:f", "-o", "m.onnx", "-i", "x=f33[B]"], None);
        assert_eq!(code, 2);
        let expected = "error: invalid value 'x=f33[B]' for '--input <SPEC>': `f33` is no type";
        assert!(err.starts_with(expected), "{err}");
        assert!(err.contains("\n  x=f33[B]\n    ^^^\n"), "{err}");
    }
}
