//! `jax2onnx doctor`: shows what is installed. Python finds most of it.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::Task;
use crate::command::{Answer, Command, Console, Outcome, print_json};
use crate::output::{Format, OutputArgs};

/// Show versions and settings for a bug report
///
/// Shows the versions of jax2onnx, Python, JAX, ONNX and ONNX Runtime, the platform, the settings that are not
/// defaults, the opsets that work here, and the optional packages. Paste the output into your bug report.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jax2onnx doctor\n  jax2onnx doctor --format json")]
pub(crate) struct Args {
    #[command(flatten)]
    output: OutputArgs,
}

impl Args {
    pub(crate) fn task(&self) -> Task<'static> {
        Task::Doctor { json: self.output.format == Format::Json }
    }
}

/// The facts that do not need Python.
struct Facts;

impl Command for Args {
    fn format(&self) -> Format {
        self.output.format
    }

    fn run<'a>(&'a self, _: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>> {
        Ok(Box::new(Facts))
    }
}

impl Answer for Facts {
    fn outcome(&self) -> Outcome {
        Outcome::Found
    }

    fn print(&self, console: &mut Console<'_>) -> io::Result<()> {
        writeln!(console.out, "jax2onnx  {}, without Python", env!("CARGO_PKG_VERSION"))?;
        writeln!(console.out, "platform  {}", platform())
    }

    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let answer: Value = json!({
            "version": 1,
            "jax2onnx": env!("CARGO_PKG_VERSION"),
            "python": null,
            "platform": platform(),
        });
        print_json(out, &answer)
    }
}

/// `linux x86_64`
fn platform() -> String {
    format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)
}
