//! `jax2onnx config`: shows the settings of exports. Python reads them.

use crate::Task;
use crate::output::{Format, OutputArgs};

/// Show each setting of an export, its value, and where the value comes from
///
/// An argument of `to_onnx` or an option of `jax2onnx export` takes precedence over the environment, which takes
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
