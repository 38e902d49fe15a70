//! `jax2onnx sensitivity`: ranks the lines of a model by what a shorter type costs. Python does the work.

use std::path::PathBuf;

use crate::model::ModelArgs;
use crate::output::{Format, OutputArgs};

/// Rank the lines by what the outputs lose if a line is computed in float16 or int8
///
/// Looks at all values of the model once, also inside loops, branches and functions. Then rounds one line after
/// another, and shows the line that matters most, with the reason: values that exceed the range of the type, numbers
/// that become 0, or rounding that later lines amplify.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jax2onnx sensitivity model.onnx -i x=batch.npy\n  \
                  jax2onnx sensitivity model.onnx -i inputs.npz --to bfloat16 --top 20\n  \
                  jax2onnx sensitivity model.onnx -i x=batch.npy --to int8 --format json\n\n\
                  Inputs:\n  \
                  INPUT is [NAME=]FILE.npy, or FILE.npz with one array per input. An array with\n  \
                  one more axis contains several inputs. For random numbers, use\n  \
                  [NAME=]TYPE[SIZE,…] as for `export`, with numbers as sizes.\n\n\
                  Exit codes:\n  \
                  0 if the lines are ranked, 2 if the command line or an input is wrong")]
pub(crate) struct Args {
    /// The model
    model: PathBuf,
    /// Values of an input, by name or in the order of the model; may be repeated
    #[arg(short, long = "input", value_name = "INPUT")]
    inputs: Vec<String>,
    /// The type: float16, bfloat16, int8 or int4
    #[arg(long, value_name = "TYPE", default_value = "float16")]
    to: String,
    /// The number of lines to list, largest effects first
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Hide the progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    reading: ModelArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The arguments of a ranking.
#[derive(Debug)]
pub struct SensitivityRequest<'a> {
    pub model: &'a PathBuf,
    pub inputs: &'a [String],
    pub to: &'a str,
    pub top: usize,
    pub quiet: bool,
    pub map: Option<&'a PathBuf>,
    pub source_roots: &'a [PathBuf],
    pub json: bool,
}

impl Args {
    /// Returns what to rank.
    pub(crate) fn request(&self) -> SensitivityRequest<'_> {
        SensitivityRequest {
            model: &self.model,
            inputs: &self.inputs,
            to: &self.to,
            top: self.top,
            quiet: self.quiet,
            map: self.reading.map.as_ref(),
            source_roots: &self.reading.source_root,
            json: self.output.format == Format::Json,
        }
    }
}
