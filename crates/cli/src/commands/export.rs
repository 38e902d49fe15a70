//! `jax2onnx export`: exports a function of a module. Python does the work.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;

use crate::output::{Format, OutputArgs};

mod spec;

pub use spec::{ArraySpec, InputSpec, ParamValue, Size, SpecError, input as read_input};

/// The suffix of the source map if `--source-map` has no path.
const BESIDE: &str = ".map";

/// The headings of the options in `--help`.
const SIGNATURE: &str = "Inputs and outputs";
const MODEL: &str = "Model";
const GRAPH: &str = "Graph";
const PROVENANCE: &str = "Provenance";

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
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command")]
pub(crate) struct Args {
    /// The function to export: MODULE:NAME or FILE.py:NAME
    #[arg(value_name = "TARGET")]
    target: String,
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
    /// The ONNX opset of the model
    #[arg(long, help_heading = MODEL)]
    opset: Option<i64>,
    /// The name of the graph in the model
    #[arg(long, value_name = "NAME", help_heading = MODEL)]
    model_name: Option<String>,
    /// Keep 64-bit types, as with `jax_enable_x64`
    #[arg(long, help_heading = SIGNATURE)]
    double: bool,
    /// Names of the inputs, instead of the parameter names
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = SIGNATURE)]
    input_names: Option<Vec<String>>,
    /// Names of the outputs
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = SIGNATURE)]
    output_names: Option<Vec<String>>,
    /// Positions of inputs that are NHWC in the function and NCHW in the model, counted from 0
    #[arg(long, value_name = "N,…", value_delimiter = ',', help_heading = SIGNATURE)]
    inputs_as_nchw: Option<Vec<u32>>,
    /// Positions of outputs that are NHWC in the function and NCHW in the model, counted from 0
    #[arg(long, value_name = "N,…", value_delimiter = ',', help_heading = SIGNATURE)]
    outputs_as_nchw: Option<Vec<u32>>,
    /// How much provenance the model contains [default: see `jax2onnx config`]
    #[arg(long, value_name = "LEVEL", help_heading = PROVENANCE, value_parser = PossibleValuesParser::new(["off", "minimal", "full", "indexed"]))]
    provenance: Option<String>,
    /// How the model names source files
    #[arg(long, value_name = "POLICY", help_heading = PROVENANCE, value_parser = PossibleValuesParser::new(["relative", "absolute", "basename"]))]
    provenance_paths: Option<String>,
    /// Replace the start of paths, as in /home/me/proj=proj; may be repeated
    #[arg(long = "provenance-prefix", value_name = "FOLDER=NAME", help_heading = PROVENANCE)]
    provenance_prefixes: Option<Vec<String>>,
    /// A package, file or folder that counts as your code; may be repeated
    #[arg(long, value_name = "CODE", help_heading = PROVENANCE)]
    user_code: Option<Vec<String>>,
    /// Write a source map too, by default to OUTPUT.map
    #[arg(long, value_name = "PATH", help_heading = PROVENANCE, num_args = 0..=1, default_missing_value = BESIDE)]
    source_map: Option<PathBuf>,
    /// Store a hash or the text of each source file in the source map
    #[arg(long, value_name = "WHAT", help_heading = PROVENANCE, requires = "source_map", value_parser = PossibleValuesParser::new(["hash", "embed"]))]
    sources: Option<String>,
    /// Write every equation of the jaxpr with its line to a text file
    #[arg(long, value_name = "PATH", help_heading = PROVENANCE)]
    record_primitive_calls: Option<PathBuf>,
    /// `web` writes one file that onnxruntime-web can load
    #[arg(long, value_name = "MODE", help_heading = MODEL, value_parser = PossibleValuesParser::new(["standard", "web"]))]
    export_mode: Option<String>,
    /// Write the weights into the model or into a file beside it; `auto` moves more than 1 GiB to a file
    #[arg(long, value_name = "PLACE", help_heading = MODEL, value_parser = PossibleValuesParser::new(["inline", "external", "auto"]))]
    weights: Option<String>,
    /// Convert each norm to one operator, or keep it as arithmetic
    #[arg(long, value_name = "MODE", help_heading = GRAPH, value_parser = PossibleValuesParser::new(["auto", "prefer_native", "force_decomposed"]))]
    normalization_mode: Option<String>,
    /// Write the graph without optimizations
    #[arg(long, help_heading = GRAPH)]
    no_optimize: bool,
    /// Return what JAX returns for NaN, or leave out the nodes that only do this [default: exact]
    #[arg(long, value_name = "MODE", help_heading = GRAPH, value_parser = PossibleValuesParser::new(["exact", "ignore"]))]
    nan: Option<String>,
    /// Unroll a loop if it becomes at most this many nodes; 0 keeps all loops [default: 32]
    #[arg(long, value_name = "NODES", help_heading = GRAPH)]
    unroll: Option<u32>,
    /// Show each rewrite with its line, and why similar code was not rewritten
    #[arg(long, help_heading = GRAPH)]
    explain_passes: bool,
    /// Hide the progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    format: OutputArgs,
}

/// The arguments of an export. `None` means the default of `to_onnx`.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command")]
pub struct Request<'a> {
    pub target: &'a str,
    pub inputs: &'a [InputSpec],
    pub input_params: &'a [(String, ParamValue)],
    /// `None` in a dry run without an output.
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
