//! The table of options. To add an option, add a row here, and read the option where it has an effect.

use std::sync::LazyLock;

use provenance::{Level, PathPolicy, words};

use crate::value::represented_by_words;
use crate::{OptionKind, Row, Value};

/// Defines [`table()`] and [`Options`].
///
/// A row starts with the documentation of the argument of `to_onnx`. The name, the type and the default in Rust,
/// the kind, the heading, the flag, the documentation of the flag, and other fields of [`Row`] follow. A row
/// without a type is not a field of [`Options`]: Python reads the option before it calls the core.
macro_rules! options {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident $(: $type:ty = $default:expr)? => $kind:expr, $heading:ident, $flag:literal,
        $help:literal $(, $field:ident: $value:expr)*;
    )*) => {
        /// The options that the core reads. The table documents them.
        #[derive(Clone, Debug)]
        pub struct Options {
            $($(pub $name: $type,)?)*
        }

        impl Default for Options {
            fn default() -> Options {
                Options { $($($name: $default,)?)* }
            }
        }

        impl Options {
            /// Reads all options. Fails with the name of an option that is missing or has the wrong type.
            pub fn read(value: impl Fn(&'static str) -> Option<Value>) -> Result<Options, &'static str> {
                fn typed<T: TryFrom<Value>>(
                    name: &'static str,
                    value: Option<Value>,
                ) -> Result<T, &'static str> {
                    value.and_then(|value| T::try_from(value).ok()).ok_or(name)
                }
                Ok(Options {
                    $($($name: typed::<$type>(stringify!($name), value(stringify!($name)))?,)?)*
                })
            }
        }

        fn rows() -> Vec<Row> {
            let default = Options::default();
            vec![$({
                let doc = concat!($($doc, "\n"),+);
                let row = Row::new(stringify!($name), doc, $kind, $heading, $flag, $help);
                $(let row = Row { default: <Value as From<$type>>::from(default.$name), ..row };)?
                Row { $($field: $value,)* ..row }
            }),*]
        }
    };
}

/// Returns all options, in the order in which `jax2onnx config` shows them.
///
/// The other arguments of `to_onnx` describe one call: the function, its inputs, and the output path.
pub fn table() -> &'static [Row] {
    static TABLE: LazyLock<Vec<Row>> = LazyLock::new(rows);
    &TABLE
}

/// Returns the kind of an option that takes one of a few words.
macro_rules! word {
    ($type:ident) => {
        OptionKind::Word { alias: stringify!($type), what: $type::WHAT, words: $type::NAMES }
    };
}

// The headings of the flags in `--help`.
const SIGNATURE: &str = "Inputs and outputs";
const MODEL: &str = "Model";
const GRAPH: &str = "Graph";
const PROVENANCE: &str = "Provenance";

options! {
    /// The ONNX opset, from 16 to 26, by default 23.
    opset: i64 = 23 => OptionKind::Number {
        least: 16,
        most: 26,
        refusal: "opset {!r} is not supported",
        advice: "16 to 26",
    }, MODEL, "--opset OPSET", "The ONNX opset of the model";

    /// The runtimes that the model is for, such as `"openvino"`, `"onnxruntime>=1.31"` or a list of several. The model
    /// uses only what all of them compute correctly. If that is not possible, the export is refused with the line. By
    /// default, the model is for ONNX Runtime 1.23.2 to 1.31. `docs/targets.md` lists all runtimes.
    target: Vec<String> = Vec::new() => OptionKind::Targets, MODEL, "--target RUNTIME,…",
    "The runtimes that the model is for [default: onnxruntime]";

    /// The name of the graph, by default `jax_model`.
    model_name: String = "jax_model".into() => OptionKind::Text, MODEL, "--model-name NAME",
    "The name of the graph in the model";

    /// Names of the positional inputs. By default, an input is named by its path in the arguments: `x`, or
    /// `params.Dense_0.kernel`.
    input_names => OptionKind::Names, SIGNATURE, "--input-names NAME,…",
    "Names of the inputs, instead of the parameter names";

    /// Names of the outputs. By default, an output is named by its path in the result: `out_0`, or `logits` in a
    /// dictionary.
    output_names => OptionKind::Names, SIGNATURE, "--output-names NAME,…", "Names of the outputs";

    /// The positions of inputs that are NHWC images in `fn` and NCHW in the model.
    inputs_as_nchw => OptionKind::Positions, SIGNATURE, "--inputs-as-nchw N,…",
    "Positions of inputs that are NHWC in the function and NCHW in the model, counted from 0";

    /// The positions of outputs that are NHWC images in `fn` and NCHW in the model.
    outputs_as_nchw => OptionKind::Positions, SIGNATURE, "--outputs-as-nchw N,…",
    "Positions of outputs that are NHWC in the function and NCHW in the model, counted from 0";

    /// Whether to keep 64-bit types. If true, a shape means `float64`.
    enable_double_precision => OptionKind::Flag, SIGNATURE, "--double",
    "Keep 64-bit types, as with `jax_enable_x64`";

    /// `"web"` writes a model for onnxruntime-web: one file that contains all weights, with inputs and outputs of types
    /// that JavaScript supports.
    export_mode: ExportMode = ExportMode::Standard => word!(ExportMode), MODEL, "--export-mode MODE",
    "`web` writes one file that onnxruntime-web can load";

    /// Where `return_mode="file"` writes the weights: `"inline"` into the model (up to 2 GiB), `"external"` into one
    /// file beside the model, `"auto"` into a file if they take more than 1 GiB.
    weights: WeightsMode = WeightsMode::Auto => word!(WeightsMode), MODEL, "--weights PLACE",
    "Write the weights into the model or into a file beside it; `auto` moves more than 1 GiB to a file",
    needs_file: true;

    /// `"force_decomposed"` keeps norms as arithmetic. The other modes replace a norm with one operator, such as
    /// `LayerNormalization`, if the two are exactly equal.
    normalization_mode: NormalizationMode = NormalizationMode::Auto => word!(NormalizationMode), GRAPH,
    "--normalization-mode MODE", "Convert each norm to one operator, or keep it as arithmetic";

    /// Whether passes simplify the graph. With `False`, the graph is larger and computes the same. Use it to find out
    /// whether a pass causes a wrong result.
    optimize: bool = true => OptionKind::Flag, GRAPH, "--no-optimize", "Write the graph without optimizations";

    /// `"exact"`, the default, returns what JAX returns for NaN. `"ignore"` leaves out the nodes that only do this, and
    /// records the choice in the metadata of the model.
    nan: NanMode = NanMode::Exact => word!(NanMode), GRAPH, "--nan MODE",
    "Return what JAX returns for NaN, or leave out the nodes that only do this [default: exact]";

    /// `"exact"`, the default, rounds `float16` and `bfloat16` where JAX does. `"fast"` computes them in `float32`, so
    /// that the model has as few casts as a `float32` model, and records the choice in the metadata of the model.
    /// Inputs, outputs and weights keep their types.
    half: HalfMode = HalfMode::Exact => word!(HalfMode), GRAPH, "--half MODE",
    "Round half precision where JAX does, or compute it in float32 with fewer casts [default: exact]";

    /// When weights of 8 or 4 bits that `fn` multiplies by scales become floats. `"load"`, the default, writes `Cast` and
    /// `Mul`, which ONNX Runtime computes when it loads the model. `"run"` writes `DequantizeLinear`, so that the weights
    /// stay small in memory. ONNX Runtime may then round the other operand of a matrix product to 8 bits.
    dequantize: DequantizeMode = DequantizeMode::Load => word!(DequantizeMode), GRAPH, "--dequantize WHEN",
    "Convert quantized weights to floats when the model is loaded, or in each run [default: load]";

    /// The type of weights and results, by default `"float32"`, which keeps the types of `fn`. `"float16"`,
    /// `"bfloat16"`, `"int8"` and `"int4"` lower them with `jax2onnx.lower_precision`, so that the outputs for `data`
    /// stay within `budget`.
    precision: Precision = Precision::Float32 => word!(Precision), GRAPH, "--precision TYPE",
    "The type of weights and results; other types than float32 need `--data` [default: float32]";

    /// The maximum number of nodes of an unrolled loop, by default 32. 0 keeps all loops.
    unroll: usize = 32 => OptionKind::Number {
        least: 0,
        most: i64::MAX,
        refusal: "`{}` is not a number of nodes",
        advice: "a whole number, or 0 to keep all loops",
    }, GRAPH, "--unroll NODES",
    "Unroll a loop if it becomes at most this many nodes; 0 keeps all loops [default: 32]";

    /// Where to report the rewrites and the code that was nearly rewritten, with the source lines: `True` for standard
    /// error, or the path of a file.
    explain_passes => OptionKind::FlagOrPath, GRAPH, "--explain-passes",
    "Show each rewrite with its line, and why similar code was not rewritten";

    /// How much the model says about the origin of each node: `"off"`, `"minimal"`, `"full"` or `"indexed"`. Takes
    /// precedence over `jax2onnx.provenance(...)` and the environment.
    provenance: Level = Level::Off => word!(Level), PROVENANCE, "--provenance LEVEL",
    "How much provenance the model contains [default: see `jax2onnx config`]",
    variable: "JAX2ONNX_ENABLE_STACKTRACE_METADATA".into();

    /// How to write the paths of files: `"relative"`, `"absolute"` or `"basename"`.
    provenance_paths: PathPolicy = PathPolicy::Relative => word!(PathPolicy), PROVENANCE,
    "--provenance-paths POLICY", "How the model names source files",
    variable: "JAX2ONNX_STACKTRACE_PATHS".into();

    /// Folders, and the names to write instead of them: `["/home/me/proj=proj"]`, or a dictionary.
    provenance_prefixes: Vec<(String, String)> = Vec::new() => OptionKind::Prefixes, PROVENANCE,
    "--provenance-prefix FOLDER=NAME",
    "Replace the start of paths, as in /home/me/proj=proj; may be repeated",
    variable: "JAX2ONNX_STACKTRACE_PREFIXES".into(), alias: Some("path-prefixes");

    /// Packages, files and folders whose lines count as yours: `["my_lib"]`.
    user_code => OptionKind::Code, PROVENANCE, "--user-code CODE",
    "A package, file or folder that counts as your code; may be repeated";

    /// Packages, files and folders whose lines count as a library's.
    library_code => OptionKind::Code, PROVENANCE, "--library-code CODE",
    "A package, file or folder that counts as a library's code; may be repeated";

    /// The path of the source map to write. `True` means `<output_path>.map`. The map contains the origins of all nodes.
    /// Read it with `jax2onnx.SourceMap`.
    source_map => OptionKind::FlagOrPath, PROVENANCE, "--source-map PATH",
    "Write a source map too, by default to OUTPUT.map", needs_file: true;

    /// What the source map stores for each source file: `"hash"` only a hash, `"embed"` also the text.
    sources: SourcesMode = SourcesMode::Hash => word!(SourcesMode), PROVENANCE, "--sources WHAT",
    "Store a hash or the text of each source file in the source map", requires: Some("source_map"), needs_file: true;

    /// The path of a text file to write. It contains every equation of the jaxpr with its types, parameters and source
    /// line.
    record_primitive_calls_file => OptionKind::Path, PROVENANCE, "--record-primitive-calls PATH",
    "Write every equation of the jaxpr with its line to a text file";

    /// Whether nodes are named by the path of their NNX or Equinox module. By default, they are, except on Python 3.11,
    /// where this takes longer than the trace.
    module_scopes: bool = true => OptionKind::Flag, PROVENANCE, "--no-module-scopes",
    "Name nodes without the path of their NNX or Equinox module";
}

words! {
    /// The runtime that the model is for.
    ExportMode, "an export mode" {
        #[default]
        Standard = "standard",
        Web = "web",
    }
}

words! {
    /// The file that contains the weights.
    WeightsMode, "a place for weights" {
        Inline = "inline",
        External = "external",
        #[default]
        Auto = "auto",
    }
}

words! {
    /// Decides whether a norm becomes one operator.
    NormalizationMode, "a normalization mode" {
        #[default]
        Auto = "auto",
        PreferNative = "prefer_native",
        ForceDecomposed = "force_decomposed",
    }
}

words! {
    /// Decides what the model computes for NaN inputs.
    NanMode, "a NaN mode" {
        #[default]
        Exact = "exact",
        Ignore = "ignore",
    }
}

words! {
    /// Decides where `float16` and `bfloat16` are rounded.
    HalfMode, "a half-precision mode" {
        #[default]
        Exact = "exact",
        Fast = "fast",
    }
}

words! {
    /// Decides when weights in few bits become floats.
    DequantizeMode, "a time to dequantize" {
        #[default]
        Load = "load",
        Run = "run",
    }
}

words! {
    /// The type that an export lowers weights and results to.
    Precision, "a precision" {
        #[default]
        Float32 = "float32",
        Float16 = "float16",
        Bfloat16 = "bfloat16",
        Int8 = "int8",
        Int4 = "int4",
    }
}

words! {
    /// The information about each source file in a source map.
    SourcesMode, "a way to keep sources" {
        #[default]
        Hash = "hash",
        Embed = "embed",
    }
}

represented_by_words!(
    DequantizeMode,
    ExportMode,
    HalfMode,
    Level,
    NanMode,
    NormalizationMode,
    PathPolicy,
    Precision,
    SourcesMode,
    WeightsMode,
);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_options_share_a_flag_a_key_or_a_variable() {
        let distinct = |values: Vec<&str>| values.iter().collect::<BTreeSet<_>>().len();
        let aliases = table().iter().filter_map(|row| row.alias);
        let keys: Vec<String> = table().iter().map(|row| row.name.replace('_', "-")).collect();
        assert_eq!(
            distinct(keys.iter().map(String::as_str).chain(aliases.clone()).collect()),
            table().len() + aliases.count()
        );
        assert_eq!(distinct(table().iter().map(|row| row.flag).collect()), table().len());
        assert_eq!(distinct(table().iter().map(|row| &*row.variable).collect()), table().len());
    }

    #[test]
    fn the_defaults_of_the_table_are_those_of_the_struct() {
        let default =
            |name| table().iter().find(|row| row.name == name).map(|row| row.default.clone());
        let read = Options::read(default).unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", Options::default()));
    }

    #[test]
    fn the_walk_through_shows_a_row_of_the_table() {
        let (_, row) = include_str!("table.rs").split_once("    /// The maximum number").unwrap();
        let (row, _) = row.split_once("\n\n").unwrap();
        let shown = format!("```rust\n/// The maximum number{}\n```", row.replace("\n    ", "\n"));
        assert!(include_str!("../../../CONTRIBUTING.md").contains(&shown), "{shown}");
    }

    #[test]
    fn an_option_of_another_type_is_named() {
        let wrong = |wrong: &'static str, value: Option<Value>| {
            Options::read(|name| {
                let row = table().iter().find(|row| row.name == name)?;
                if name == wrong { value.clone() } else { Some(row.default.clone()) }
            })
            .unwrap_err()
        };
        assert_eq!(wrong("unroll", Some(Value::Number(-1))), "unroll");
        assert_eq!(wrong("nan", Some(Value::Text("perhaps".into()))), "nan");
        assert_eq!(wrong("optimize", None), "optimize");
    }
}
