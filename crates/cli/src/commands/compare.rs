//! `jax2onnx compare`: finds the first wrong number of a model. Python does the work.

use std::path::PathBuf;

use crate::model::ModelArgs;
use crate::output::{Format, OutputArgs};

/// Find the line whose numbers first differ from JAX or from another model
///
/// Feeds each node the reference's inputs, also inside loops, branches and functions, and shows the first line
/// with a wrong result: the iteration, the element, and both values. With --fn, the reference is the function in
/// JAX. With OTHER, the reference is MODEL. With --runtime or --captured alone, the reference is MODEL in ONNX
/// Runtime. With --nan, there is no reference: the command shows the line that computes the first NaN or infinity.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jax2onnx compare model.onnx --fn train.py:forward -i x=batch.npy\n  \
                  jax2onnx compare model.onnx fp16.onnx -i x=batch.npy --keep-float32 keep.txt\n  \
                  jax2onnx compare model.onnx --nan -i x=batch.npy\n  \
                  jax2onnx compare model.onnx --fn m:f -i inputs.npz --reproducer case/\n  \
                  jax2onnx compare model.onnx --fn m:f -i x=batch.npy --runtime onnx.reference\n  \
                  jax2onnx compare model.onnx -i x=batch.npy --captured phone/\n\n\
                  Inputs:\n  \
                  INPUT is [NAME=]FILE.npy, or FILE.npz with one array per input. For random\n  \
                  numbers, use [NAME=]TYPE[SIZE,…] as for `export`, with numbers as sizes.\n\n\
                  Runtimes:\n  \
                  onnxruntime, onnxruntime-web, onnxruntime-node, openvino, onnx.reference,\n  \
                  tract, rten, iree and mnn. PLACE is a Python interpreter, a folder with the\n  \
                  packages, or the program that runs tract and rten.\n\n\
                  Exit codes:\n  \
                  0 if all numbers agree, 1 if some differ, 2 if the command line or an input\n  \
                  is wrong"
)]
#[expect(clippy::struct_excessive_bools, reason = "each field is a flag of the command")]
pub(crate) struct Args {
    /// The model; the reference, if OTHER is given
    model: PathBuf,
    /// A model that a tool made from MODEL: converted, quantized or optimized
    other: Option<PathBuf>,
    /// The function that MODEL was exported from: MODULE:NAME or FILE.py:NAME
    #[arg(long = "fn", value_name = "TARGET", conflicts_with = "other")]
    function: Option<String>,
    /// Find the first NaN or infinity instead of comparing
    #[arg(long, conflicts_with_all = ["other", "function"])]
    nan: bool,
    /// Values of an input, by name or in the order of the model; may be repeated
    #[arg(short, long = "input", value_name = "INPUT")]
    inputs: Vec<String>,
    /// An execution provider of ONNX Runtime; may be repeated [default: `CPUExecutionProvider`]
    #[arg(long = "provider", value_name = "NAME")]
    providers: Vec<String>,
    /// The runtime that runs the model, such as `openvino`, `onnxruntime-web` or `onnxruntime@FOLDER`
    #[arg(long, value_name = "NAME[@PLACE]", conflicts_with_all = ["nan", "captured"])]
    runtime: Option<String>,
    /// Compare arrays that another device recorded: a folder of .npy files, or an .npz file
    #[arg(long, value_name = "PATH", conflicts_with_all = ["nan", "providers"])]
    captured: Option<PathBuf>,
    /// The relative tolerance for outputs
    #[arg(long, value_name = "NUMBER", default_value_t = 1e-3)]
    rtol: f64,
    /// The absolute tolerance for outputs
    #[arg(long, value_name = "NUMBER", default_value_t = 1e-5)]
    atol: f64,
    /// The number of lines to list, largest errors first
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Write a folder that reproduces the error: a model of the one node, its inputs, the expected result, and a script
    #[arg(long, value_name = "DIR")]
    reproducer: Option<PathBuf>,
    /// Write the names of the nodes that lose the most precision, for tools that can keep them in float32
    #[arg(long, value_name = "PATH", requires = "other")]
    keep_float32: Option<PathBuf>,
    /// Keep 64-bit types in JAX, as with `jax_enable_x64`
    #[arg(long)]
    double: bool,
    /// Also show how many equations of the function have a value in the model
    #[arg(short, long)]
    verbose: bool,
    /// Hide the progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    reading: ModelArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The arguments of a comparison.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each field is a flag of the command")]
pub struct CompareRequest<'a> {
    pub model: &'a PathBuf,
    pub other: Option<&'a PathBuf>,
    pub function: Option<&'a str>,
    pub nan: bool,
    pub inputs: &'a [String],
    pub providers: &'a [String],
    pub runtime: Option<&'a str>,
    pub captured: Option<&'a PathBuf>,
    pub rtol: f64,
    pub atol: f64,
    pub top: usize,
    pub reproducer: Option<&'a PathBuf>,
    pub keep_float32: Option<&'a PathBuf>,
    pub double: bool,
    pub verbose: bool,
    pub quiet: bool,
    pub map: Option<&'a PathBuf>,
    pub source_roots: &'a [PathBuf],
    pub json: bool,
}

impl Args {
    /// Returns the comparison, or an error if an argument is missing.
    pub(crate) fn request(&self) -> anyhow::Result<CompareRequest<'_>> {
        let has_reference = self.other.is_some() || self.function.is_some();
        if !has_reference && !self.nan && self.runtime.is_none() && self.captured.is_none() {
            anyhow::bail!(
                "nothing to compare the model with: add another model, --fn TARGET, --runtime NAME, or --nan"
            );
        }
        Ok(CompareRequest {
            model: &self.model,
            other: self.other.as_ref(),
            function: self.function.as_deref(),
            nan: self.nan,
            inputs: &self.inputs,
            providers: &self.providers,
            runtime: self.runtime.as_deref(),
            captured: self.captured.as_ref(),
            rtol: self.rtol,
            atol: self.atol,
            top: self.top,
            reproducer: self.reproducer.as_ref(),
            keep_float32: self.keep_float32.as_ref(),
            double: self.double,
            verbose: self.verbose,
            quiet: self.quiet,
            map: self.reading.map.as_ref(),
            source_roots: &self.reading.source_root,
            json: self.output.format == Format::Json,
        })
    }
}
