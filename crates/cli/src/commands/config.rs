//! `jax2onnx config`: shows the settings of exports. Python reads them.

use crate::Task;
use crate::output::{Format, OutputArgs};

/// Show the settings of exports and where each value comes from
///
/// Arguments of `to_onnx` and options of `jax2onnx export` take precedence over environment variables, which take
/// precedence over `[tool.jax2onnx]` in the nearest `pyproject.toml`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jax2onnx config\n  jax2onnx config --format json")]
pub(crate) struct Args {
    #[command(flatten)]
    output: OutputArgs,
}

impl Args {
    pub(crate) fn task(&self) -> Task<'static> {
        Task::Config { json: self.output.format == Format::Json }
    }
}
