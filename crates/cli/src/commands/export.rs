//! `jax2onnx export`: exports a function of a module. Python does the work.

use std::path::PathBuf;

use options::Value;

use crate::output::{Format, OutputArgs};

mod flags;
mod spec;

use flags::Flags;
pub use spec::{ArraySpec, InputSpec, ParamValue, Size, SpecError, input as read_input};

/// The heading of the inputs in `--help`.
const SIGNATURE: &str = "Inputs and outputs";

/// Export a JAX function to an ONNX model
///
/// TARGET names a function, a method or a callable object, in a module or in a file: `package.module:fn` or
/// `path/to/file.py:Model.apply`. It can also be a call that returns one:
/// `package.module:make_model(width=64)`. Modules in the current directory can be imported.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jax2onnx export model:predict --input 'x=f32[B,784]' --output model.onnx\n  \
                  jax2onnx export 'train.py:make_model()' -i 'f32[1,224,224,3]' -o model.onnx\n  \
                  jax2onnx export model:step -i 'x=i32[B]' -i 'cache.0.k=f32[B,8,16]' -o s.onnx\n  \
                  jax2onnx export model:predict -i 'f32[B,784]' --dry-run\n  \
                  jax2onnx export m:enc -i 'f32[8]' -o a.onnx --and m:dec -i 'f32[8]' -o b.onnx\n\n\
                  Inputs:\n  \
                  SPEC is [NAME=]TYPE[SIZE,…], such as f32[B,784], i32[] or tokens=i32[B,T].\n  \
                  A size is a number, a name, or an expression such as 2*B + 1. A name with\n  \
                  dots is a part of a parameter: cache.0.k is cache[0][\"k\"]. Quote each SPEC,\n  \
                  because most shells interpret brackets.\n\n\
                  Several exports:\n  \
                  `--and` starts the next export. JAX is loaded only once.\n\n\
                  Exit codes:\n  \
                  0 on success, 1 if the export fails, 2 if the command line is wrong"
)]
pub(crate) struct Args {
    /// The function to export: MODULE:NAME or FILE.py:NAME
    #[arg(value_name = "FUNCTION")]
    function: String,
    /// Type and shape of an input, by parameter name or in order; may be repeated
    #[arg(short, long = "input", value_name = "SPEC", value_parser = spec::input, help_heading = SIGNATURE)]
    inputs: Vec<InputSpec>,
    /// The file to write the model to
    #[arg(short, long, value_name = "PATH", required_unless_present = "dry_run")]
    output: Option<PathBuf>,
    /// Show what the export would write, or every operation that it cannot convert, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// A keyword argument that becomes an input: true, false, a number, or TYPE[SIZE,…]; may be repeated
    #[arg(long = "input-param", value_name = "NAME=VALUE", value_parser = spec::param, help_heading = SIGNATURE)]
    input_params: Vec<(String, ParamValue)>,
    #[command(flatten)]
    options: Flags,
    /// Values of the inputs that `--precision` is measured with: [NAME=]FILE.npy or FILE.npz; may be repeated
    #[arg(long, value_name = "INPUT")]
    data: Vec<String>,
    /// The largest relative error of an output that `--precision` allows [default: 0.01]
    #[arg(long, value_name = "NUMBER", requires = "data", allow_negative_numbers = true)]
    budget: Option<f64>,
    /// Hide the progress, and the note about models without lines
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    format: OutputArgs,
}

/// The arguments of an export.
#[derive(Debug)]
pub struct Request<'a> {
    pub function: &'a str,
    pub inputs: &'a [InputSpec],
    pub input_params: &'a [(String, ParamValue)],
    /// `None` in a dry run without an output.
    pub output: Option<&'a PathBuf>,
    pub dry_run: bool,
    /// The names and values of the options on the command line.
    pub options: &'a [(&'static str, Value)],
    /// The inputs by which a shorter type is measured.
    pub data: &'a [String],
    pub budget: Option<f64>,
    pub quiet: bool,
    pub json: bool,
}

impl Args {
    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            function: &self.function,
            inputs: &self.inputs,
            input_params: &self.input_params,
            output: self.output.as_ref(),
            dry_run: self.dry_run,
            options: &self.options.given,
            data: &self.data,
            budget: self.budget,
            quiet: self.quiet,
            json: self.format.format == Format::Json,
        }
    }
}
