//! A row of the table of options.

use crate::Value;

/// An option of an export.
#[derive(Clone, Debug)]
pub struct Row {
    /// The argument of `to_onnx`. With dashes, it is the key in `pyproject.toml`.
    pub name: &'static str,
    /// The documentation of the argument.
    pub doc: &'static str,
    pub kind: OptionKind,
    pub default: Value,
    /// The heading in `--help`.
    pub heading: &'static str,
    /// The flag of `jax2onnx export` without the dashes.
    pub flag: &'static str,
    /// The name of the flag's value in `--help`; empty if the flag has none.
    pub value_name: &'static str,
    /// The documentation of the flag.
    pub help: &'static str,
    /// The environment variable.
    pub variable: String,
    /// Another key in `pyproject.toml`.
    pub alias: Option<&'static str>,
    /// The option without which this flag has no effect.
    pub requires: Option<&'static str>,
    /// True if the environment and the project do not apply to an export that writes no file.
    pub needs_file: bool,
}

/// The values that an option takes. The kind determines the type of the option, and the syntax of its values in
/// Python, in `pyproject.toml`, in the environment and on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    Flag,
    /// A name.
    Text,
    /// An integer from `least` to `most`. `refusal` is the message for a wrong value `{}`, in the syntax of
    /// `str.format`, and `advice` lists the correct values.
    Number {
        least: i64,
        most: i64,
        refusal: &'static str,
        advice: &'static str,
    },
    /// One of a few words. `alias` is the name of the type in Python.
    Word {
        alias: &'static str,
        what: &'static str,
        words: &'static [&'static str],
    },
    Names,
    /// Runtimes, with versions: `onnxruntime>=1.31`.
    Targets,
    /// Positions of arguments or results.
    Positions,
    /// The path of a file to write.
    Path,
    /// A path of a file to write, or whether to write it to the default path.
    FlagOrPath,
    /// Packages, files and folders. Entries from several sources are combined.
    Code,
    /// Folders, and the names to write instead. Entries from several sources are combined.
    Prefixes,
}

impl OptionKind {
    /// Returns the name of the kind for Python.
    pub fn name(self) -> &'static str {
        match self {
            OptionKind::Flag => "flag",
            OptionKind::Text => "text",
            OptionKind::Number { .. } => "number",
            OptionKind::Word { .. } => "word",
            OptionKind::Names => "names",
            OptionKind::Targets => "targets",
            OptionKind::Positions => "positions",
            OptionKind::Path => "path",
            OptionKind::FlagOrPath => "flag or path",
            OptionKind::Code => "code",
            OptionKind::Prefixes => "prefixes",
        }
    }

    /// Returns the default of an option whose row has none.
    fn default(self) -> Value {
        match self {
            OptionKind::Flag | OptionKind::FlagOrPath => Value::Flag(false),
            OptionKind::Code | OptionKind::Targets => Value::Texts(Vec::new()),
            OptionKind::Prefixes => Value::Pairs(Vec::new()),
            _ => Value::Nothing,
        }
    }
}

impl Row {
    /// Creates a row. `flag` is the flag as the user writes it, with the name of its value: `--unroll NODES`.
    pub(crate) fn new(
        name: &'static str,
        doc: &'static str,
        kind: OptionKind,
        heading: &'static str,
        flag: &'static str,
        help: &'static str,
    ) -> Row {
        let (flag, value_name) = flag.split_once(' ').unwrap_or((flag, ""));
        Row {
            name,
            doc: doc.trim(),
            kind,
            default: kind.default(),
            heading,
            flag: flag.trim_start_matches('-'),
            value_name,
            help,
            variable: format!("JAX2ONNX_{}", name.to_uppercase()),
            alias: None,
            requires: None,
            needs_file: false,
        }
    }
}
