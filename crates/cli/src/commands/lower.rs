//! `jax2onnx lower`: writes a model in a shorter type. Python does the work.

use std::path::PathBuf;

use crate::model::ModelArgs;
use crate::output::{Format, OutputArgs};

/// Write a model in float16, bfloat16, int8 or int4 whose outputs stay within a budget
///
/// Lines that cost too much keep their type. Every inserted node has the lines of the node that it serves. A quarter
/// of the inputs is held back to measure the error of the new model.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each field is a flag of the command")]
#[command(after_help = "Examples:\n  jax2onnx lower model.onnx -i x=batch.npy -o short.onnx\n  \
                  jax2onnx lower model.onnx -i inputs.npz --to int8 --budget 0.05 -o int8.onnx\n  \
                  jax2onnx lower model.onnx -i x=batch.npy --metric snr --budget 40 -o out.onnx\n  \
                  jax2onnx lower model.onnx -i x=batch.npy --keep Conv -o short.onnx\n\n\
                  Inputs:\n  \
                  INPUT is [NAME=]FILE.npy, or FILE.npz with one array per input. An array with\n  \
                  one more axis contains several inputs. For random numbers, use\n  \
                  [NAME=]TYPE[SIZE,…] as for `export`, with numbers as sizes.\n\n\
                  Exit codes:\n  \
                  0 if the model is written, 2 if nothing fits the budget, or the command line\n  \
                  or an input is wrong")]
pub(crate) struct Args {
    /// The model
    model: PathBuf,
    /// The model to write
    #[arg(short = 'o', long = "output", value_name = "PATH")]
    path: PathBuf,
    /// Values of an input, by name or in the order of the model; may be repeated
    #[arg(short, long = "input", value_name = "INPUT")]
    inputs: Vec<String>,
    /// The type: float16, bfloat16, int8 or int4
    #[arg(long, value_name = "TYPE", default_value = "float16")]
    to: String,
    /// The largest relative error of an output, or with `--metric snr` the smallest ratio in decibels
    #[arg(long, value_name = "NUMBER", default_value_t = 1e-2, allow_negative_numbers = true)]
    budget: f64,
    /// What the budget limits: error or snr
    #[arg(long, value_name = "NAME", default_value = "error")]
    metric: String,
    /// What keeps its type: FILE.py:LINE, a function, a node or an operator; may be repeated
    #[arg(long, value_name = "NAME")]
    keep: Vec<String>,
    /// Lower only the weights
    #[arg(long)]
    weights_only: bool,
    /// Find the ranges of operands when the model runs, with `--to int8`
    #[arg(long, conflicts_with = "weights_only")]
    dynamic: bool,
    /// Use operators of this runtime: onnxruntime
    #[arg(long, value_name = "RUNTIME")]
    target: Option<String>,
    /// Lower the inputs and outputs of the model, too
    #[arg(long)]
    convert_inputs_and_outputs: bool,
    /// Hide the progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    reading: ModelArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The arguments of a lowering.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each field is a flag of the command")]
pub struct LowerRequest<'a> {
    pub model: &'a PathBuf,
    pub path: &'a PathBuf,
    pub inputs: &'a [String],
    pub to: &'a str,
    pub budget: f64,
    pub metric: &'a str,
    pub keep: &'a [String],
    pub weights_only: bool,
    pub dynamic: bool,
    pub target: Option<&'a str>,
    pub convert_inputs_and_outputs: bool,
    pub quiet: bool,
    pub map: Option<&'a PathBuf>,
    pub source_roots: &'a [PathBuf],
    pub json: bool,
}

impl Args {
    /// Returns what to lower.
    pub(crate) fn request(&self) -> LowerRequest<'_> {
        LowerRequest {
            model: &self.model,
            path: &self.path,
            inputs: &self.inputs,
            to: &self.to,
            budget: self.budget,
            metric: &self.metric,
            keep: &self.keep,
            weights_only: self.weights_only,
            dynamic: self.dynamic,
            target: self.target.as_deref(),
            convert_inputs_and_outputs: self.convert_inputs_and_outputs,
            quiet: self.quiet,
            map: self.reading.map.as_ref(),
            source_roots: &self.reading.source_root,
            json: self.output.format == Format::Json,
        }
    }
}
