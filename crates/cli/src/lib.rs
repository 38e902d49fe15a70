//! The command line. A command reads, asks, prints; data goes to `out`, everything else to `err`.

mod commands;
mod output;

use std::ffi::OsString;
use std::io::{ErrorKind, Write};

use clap::Parser;

/// Ask what jax2onnx can convert.
#[derive(Debug, Parser)]
#[command(name = "jax2onnx", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Plugins(commands::plugins::Args),
}

/// What a command found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Found,
    Nothing,
}

/// Runs the program: 0 where it answered, 1 where the answer is "nothing", 2 where it could not.
pub fn run(arguments: Vec<OsString>, out: &mut dyn Write, err: &mut dyn Write) -> i32 {
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
        Command::Plugins(arguments) => commands::plugins::run(arguments, out, err),
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
