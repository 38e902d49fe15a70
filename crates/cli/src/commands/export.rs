//! `jax2onnx export`: exports a function of a module. Python does the work.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;

use crate::output::{Format, OutputArgs};

mod spec;

pub use spec::{ArraySpec, InputSpec, ParamValue, Size, SpecError, input as read_input};

/// The suffix of the source map if `--source-map` has no path.
const BESIDE: &str = ".map";

/// Export a JAX function to an ONNX model
///
/// The target is a module or a file, and the name of a callable in it: `package.module:fn` or
/// `path/to/file.py:Model.apply`. It can also be a call that returns one:
/// `package.module:make_model(width=64)`. Modules in the current directory can be imported.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  jax2onnx export model:predict --input 'x=f32[B,784]' --output model.onnx\n  \
                  jax2onnx export 'train.py:make_model()' -i 'f32[1,224,224,3]' -o model.onnx\n  \
                  jax2onnx export model:step -i 'x=i32[B]' -i 'cache.0.k=f32[B,8,16]' -o s.onnx\n  \
                  jax2onnx export model:predict -i 'f32[B,784]' --dry-run\n  \
                  jax2onnx export m:enc -i 'f32[8]' -o a.onnx --and m:dec -i 'f32[8]' -o b.onnx\n\n\
                  An input is [NAME=]TYPE[SIZE,…]: f32[B,784], i32[], tokens=i32[B,T],\n\
                  f16[2*B + 1,3]. A size is a number, a name, or an expression of names. A name\n\
                  with dots is a part of a parameter: cache.0.k is cache[0][\"k\"]. Quote inputs:\n\
                  most shells interpret brackets. `--and` separates several exports.\n\n\
                  The exit code is 1 if the export failed and 2 if the command line is wrong."
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command")]
pub(crate) struct Args {
    /// What to export: MODULE:NAME or FILE.py:NAME
    #[arg(value_name = "TARGET")]
    target: String,
    /// An input, by parameter name or in order; may be repeated
    #[arg(short, long = "input", value_name = "SPEC", value_parser = spec::input)]
    inputs: Vec<InputSpec>,
    /// Where to write the model
    #[arg(short, long, value_name = "PATH", required_unless_present = "dry_run")]
    output: Option<PathBuf>,
    /// Write nothing: show what would be written, or every operation that cannot be exported
    #[arg(long)]
    dry_run: bool,
    /// A keyword argument that becomes an input: a flag, a number, or TYPE[SIZE,…]
    #[arg(long = "input-param", value_name = "NAME=VALUE", value_parser = spec::param)]
    input_params: Vec<(String, ParamValue)>,
    /// The ONNX opset
    #[arg(long)]
    opset: Option<i64>,
    /// The name of the graph
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
    /// Keep 64-bit types
    #[arg(long)]
    double: bool,
    /// Names of the inputs, instead of the parameter names
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    input_names: Option<Vec<String>>,
    /// Names of the outputs
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    output_names: Option<Vec<String>>,
    /// Positions of images that are NCHW in the model and NHWC in the function
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    inputs_as_nchw: Option<Vec<u32>>,
    /// Positions of output images that are NCHW in the model and NHWC in the function
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    outputs_as_nchw: Option<Vec<u32>>,
    /// How much provenance each node contains [default: from the environment]
    #[arg(long, value_name = "LEVEL", value_parser = PossibleValuesParser::new(["off", "minimal", "full", "indexed"]))]
    provenance: Option<String>,
    /// How files are named in the model
    #[arg(long, value_name = "POLICY", value_parser = PossibleValuesParser::new(["relative", "absolute", "basename"]))]
    provenance_paths: Option<String>,
    /// Write a folder under another name: /home/x/proj=proj
    #[arg(long = "provenance-prefix", value_name = "FOLDER=NAME")]
    provenance_prefixes: Option<Vec<String>>,
    /// A package, file or folder that counts as your code
    #[arg(long, value_name = "CODE")]
    user_code: Option<Vec<String>>,
    /// Write the source map, by default to OUTPUT.map
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = BESIDE)]
    source_map: Option<PathBuf>,
    /// What the source map contains of the source files
    #[arg(long, value_name = "WHAT", requires = "source_map", value_parser = PossibleValuesParser::new(["hash", "embed"]))]
    sources: Option<String>,
    /// Write every equation as text
    #[arg(long, value_name = "PATH")]
    record_primitive_calls: Option<PathBuf>,
    /// `web` writes one file for browsers
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(["standard", "web"]))]
    export_mode: Option<String>,
    /// Where to write the weights: in the model, in a file beside it, or beside it above 1 GiB
    #[arg(long, value_name = "PLACE", value_parser = PossibleValuesParser::new(["inline", "external", "auto"]))]
    weights: Option<String>,
    /// Keep norms as arithmetic, or convert each to one operator
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(["auto", "prefer_native", "force_decomposed"]))]
    normalization_mode: Option<String>,
    /// Do not optimize the graph
    #[arg(long)]
    no_optimize: bool,
    /// Compute the same as JAX for NaN, or leave out the nodes that this needs [default: exact]
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(["exact", "ignore"]))]
    nan: Option<String>,
    /// How many nodes the rounds of a loop may become; 0 keeps all loops [default: 32]
    #[arg(long, value_name = "NODES")]
    unroll: Option<u32>,
    /// Show what was fused into one operator and what was not, with the source line and the reason
    #[arg(long)]
    explain_passes: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    format: OutputArgs,
}

/// An export that the command line asks for. `None` stands for the default of `to_onnx`.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command")]
pub struct Request<'a> {
    pub target: &'a str,
    pub inputs: &'a [InputSpec],
    pub input_params: &'a [(String, ParamValue)],
    /// Nothing if nothing is written.
    pub output: Option<&'a PathBuf>,
    pub dry_run: bool,
    pub opset: Option<i64>,
    pub model_name: Option<&'a str>,
    pub double: bool,
    pub input_names: Option<&'a [String]>,
    pub output_names: Option<&'a [String]>,
    pub inputs_as_nchw: Option<&'a [u32]>,
    pub outputs_as_nchw: Option<&'a [u32]>,
    pub provenance: Option<&'a str>,
    pub provenance_paths: Option<&'a str>,
    pub provenance_prefixes: Option<&'a [String]>,
    pub user_code: Option<&'a [String]>,
    /// The path of the source map.
    pub source_map: Option<PathBuf>,
    pub sources: Option<&'a str>,
    pub record_primitive_calls: Option<&'a PathBuf>,
    pub export_mode: Option<&'a str>,
    pub weights: Option<&'a str>,
    pub normalization_mode: Option<&'a str>,
    pub no_optimize: bool,
    pub nan: Option<&'a str>,
    pub unroll: Option<u32>,
    pub explain_passes: bool,
    pub quiet: bool,
    pub json: bool,
}

impl Args {
    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            target: &self.target,
            inputs: &self.inputs,
            input_params: &self.input_params,
            output: self.output.as_ref(),
            dry_run: self.dry_run,
            opset: self.opset,
            model_name: self.model_name.as_deref(),
            double: self.double,
            input_names: self.input_names.as_deref(),
            output_names: self.output_names.as_deref(),
            inputs_as_nchw: self.inputs_as_nchw.as_deref(),
            outputs_as_nchw: self.outputs_as_nchw.as_deref(),
            provenance: self.provenance.as_deref(),
            provenance_paths: self.provenance_paths.as_deref(),
            provenance_prefixes: self.provenance_prefixes.as_deref(),
            user_code: self.user_code.as_deref(),
            source_map: self.source_map.as_ref().and_then(|path| self.beside(path)),
            sources: self.sources.as_deref(),
            record_primitive_calls: self.record_primitive_calls.as_ref(),
            export_mode: self.export_mode.as_deref(),
            weights: self.weights.as_deref(),
            normalization_mode: self.normalization_mode.as_deref(),
            no_optimize: self.no_optimize,
            nan: self.nan.as_deref(),
            unroll: self.unroll,
            explain_passes: self.explain_passes,
            quiet: self.quiet,
            json: self.format.format == Format::Json,
        }
    }

    /// Returns the path of the map: the given one, or that of the model with `.map`.
    fn beside(&self, path: &Path) -> Option<PathBuf> {
        if path != Path::new(BESIDE) {
            return Some(path.to_owned());
        }
        let mut beside = self.output.clone()?.into_os_string();
        beside.push(BESIDE);
        Some(beside.into())
    }
}
