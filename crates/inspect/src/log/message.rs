//! Reads one message: the names in it, its kind, and its text.

use std::sync::LazyLock;

use super::clean::Squeezed;
use super::lists;
use super::patterns::{Clue, Clues, clues};

/// The maximum lengths of the text of a message, and of the part that contains a name.
const MAX_WORDS: usize = 600;
const MAX_USED: usize = 240;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// Sizes do not match.
    Shape,
    /// A buffer was planned for another size.
    Buffer,
    Index,
    /// The runtime has no kernel for the type.
    Kernel,
    /// The runtime does not know the operator or its version.
    Operator,
    Opset,
    Format,
    Type,
    Attribute,
    /// The graph is invalid.
    Graph,
    Memory,
    ExternalData,
    Weight,
    /// The inputs or outputs of a call do not match the model.
    Call,
    File,
}

impl Class {
    pub fn word(self) -> &'static str {
        match self {
            Class::Shape => "shape",
            Class::Buffer => "buffer",
            Class::Index => "index",
            Class::Kernel => "kernel",
            Class::Operator => "operator",
            Class::Opset => "opset",
            Class::Format => "format",
            Class::Type => "type",
            Class::Attribute => "attribute",
            Class::Graph => "graph",
            Class::Memory => "memory",
            Class::ExternalData => "external-data",
            Class::Weight => "weight",
            Class::Call => "call",
            Class::File => "file",
        }
    }
}

/// One message of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The names in the message, the outermost node first. The message concerns the last one.
    pub clues: Vec<Clue>,
    /// The part of the text that contains the name.
    pub used: String,
    pub class: Option<Class>,
    /// The text of the message, without locations in the source of the runtime.
    pub words: String,
    /// True if the text counts as a message only if the model contains one of the names.
    pub(crate) is_loose: bool,
}

impl Message {
    /// Returns the message that consists of the name of a node or a value.
    pub(crate) fn of_name(name: &str) -> Message {
        let clue = Clue::Node { name: name.to_owned(), op: None };
        let used = shortened(name, MAX_USED);
        Message { clues: vec![clue], class: None, words: used.clone(), used, is_loose: false }
    }

    /// True if this message contains everything in `other`.
    pub(super) fn says_as_much_as(&self, other: &Message) -> bool {
        self.clues.ends_with(&other.clues) && (other.class.is_none() || self.class == other.class)
    }
}

/// Phrases, and the class that each implies. The first one that occurs decides.
const CLASSES: &[(Class, &[&str])] = &[
    (Class::Buffer, &["attempting to re-use buffer"]),
    (
        Class::Memory,
        &[
            "Failed to allocate memory",
            "bad_alloc",
            "out of memory",
            "OutOfMemory",
            "bad allocation",
        ],
    ),
    (
        Class::ExternalData,
        &[
            "External data path",
            "External initializer:",
            "GetExtDataFromTensor",
            "Failed to load external data file",
            "externally stored data",
            "external data error:",
            "ONNX external data path",
            "external data range",
        ],
    ),
    (
        Class::Weight,
        &[
            "Deserialize tensor",
            "size of the initializer does not match",
            "Raw tensor data length",
            "graph error: length",
        ],
    ),
    (
        Class::Kernel,
        &[
            "Could not find an implementation for",
            "Could not find any implementation",
            "Failed to find kernel for",
        ],
    ),
    (
        Class::Operator,
        &[
            "No Op registered for",
            "is not a registered function/op",
            "not support the following ONNX operations",
            "No schema registered for",
            "No conversion rule found for operations",
            "operator not supported or not enabled",
            "These Op Not Support",
            "No importer registered for op",
            "Plugin not found",
            "Unimplemented(",
            "failed to legalize operation 'torch.operator'",
        ],
    ),
    (
        Class::Opset,
        &[
            "official released onnx opset versions",
            "Unsupported opset",
            "is under development and support",
        ],
    ),
    (Class::Format, &["Unsupported model IR version", "Unknown model file format version"]),
    (
        Class::Attribute,
        &["Required attribute", "Unrecognized attribute", "has an invalid value. Value"],
    ),
    (
        Class::Call,
        &[
            "Got invalid dimensions for input",
            "Invalid rank for input",
            "Unexpected input data type",
            "Required inputs (",
            "Missing Input:",
            "Invalid input name",
            "Invalid output name",
            "Invalid Feed Input Name",
            "Invalid Output Name",
            "Input Feed contains",
            "Please fix either the inputs/outputs or the model",
            "Can't set the input tensor",
        ],
    ),
    (
        Class::Index,
        &[
            "out of data bounds",
            "invalid index found",
            "Out of range value in index",
            "indices element out of",
            "should not be greater than specified axis dim value",
            "is out of range. Must be in",
            "Index out of range",
        ],
    ),
    (
        Class::Type,
        &[
            "Type Error:",
            "bound to different types",
            "TypeInferenceError] Input",
            "does not match expected type",
            "is invalid. Type",
            "unsupported input type",
            "Bool is not a number",
            "do not have the same element type",
            "unsupported data type",
        ],
    ),
    (
        Class::Graph,
        &[
            "is not a graph input",
            "Duplicate definition of name",
            "graph is not acyclic",
            "topologically sorted",
            "has input size",
            "This is an invalid model. Error",
            "Encountered cycle",
            "Loop detected",
            "Input tensor isn't found",
            "Could not resolve inputs",
        ],
    ),
    (
        Class::Shape,
        &[
            "Attempting to broadcast an axis",
            "cannot broadcast on dim",
            "existing shape differ",
            "broadcast",
            "dimension mismatch",
            "Dimension mismatch",
            "cannot be reshaped",
            "dimensions must match",
            "invalid expand shape",
            "Incompatible dimensions",
            "ShapeInferenceError",
            "kernel channels",
            "must match X.shape",
            "must have shape",
            "needs to be same",
            "exceeds the remaining size",
            "shapes are inconsistent",
            "dimensions not compatible",
            "bias shape",
            "kv_sequence_length",
            "Impossible to unify",
            "Inconsistent matmul",
            "incompatible input shapes",
            "Compute Shape Error",
            "dimension",
            "shape",
        ],
    ),
    (Class::File, &["Protobuf parsing failed", "ModelProto does not have a graph"]),
];

/// Phrases that also occur in texts that are not errors. They tell what an error is about, but not that there is
/// one.
const COMMON: &[&str] =
    &["out of memory", "OutOfMemory", "bad allocation", "broadcast", "dimension", "shape"];

/// Reads a part of a log: a message for each operator of a list, and one for everything else. Returns nothing if the
/// part contains nothing known.
pub(super) fn read(text: &Squeezed<'_>) -> Vec<Message> {
    let listed = lists::find(text);
    let one = one(text);
    let class = one.as_ref().and_then(|message| message.class);
    let of_list = listed.into_iter().map(|listed| {
        let clues = vec![Clue::Op { op: listed.op, domain: listed.domain }];
        let used = shortened(&listed.used, MAX_USED);
        Message { clues, words: used.clone(), used, class, is_loose: false }
    });
    let mut messages: Vec<Message> = of_list.collect();
    messages.extend(one.filter(|one| messages.is_empty() || !one.clues.is_empty()));
    messages
}

fn one(text: &Squeezed<'_>) -> Option<Message> {
    let Clues { found, is_loose } = clues(text);
    let has = |phrase: &String| text.text.contains(phrase.as_str());
    let is_error = (!found.is_empty() && !is_loose) || SQUEEZED.errors.iter().any(has);
    let phrases = SQUEEZED
        .classes
        .iter()
        .flat_map(|(class, phrases)| phrases.iter().map(move |phrase| (*class, phrase)));
    let mut said = phrases.filter(|(_, phrase)| has(phrase));
    // Many texts mention shapes. But a sentence of a runtime is an error even without its beginning.
    let class = said.find(|(_, phrase)| is_error || !SQUEEZED.common.contains(phrase));
    let class = class.map(|(class, _)| class);
    if found.is_empty() && class.is_none() {
        return None;
    }
    let (ranges, clues): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    let last = ranges.last().cloned();
    let used = last.clone().map(|range| shortened(text.slice(range.start, range.end), MAX_USED));
    let after = last.map_or(0, |range| range.end);
    let words = words(text.slice(after, text.text.len()), text.original);
    let is_loose = is_loose && class.is_none();
    Some(Message { clues, used: used.unwrap_or_default(), class, words, is_loose })
}

/// Texts that mark a message without names as an error.
const ERRORS: &[&str] = &[
    "[ONNXRuntimeError]",
    "Non-zero status code",
    "Status Message:",
    "Exception during initialization",
    "ERROR_MESSAGE",
    "Load model from",
    "INVALID_ARGUMENT :",
    "RUNTIME_EXCEPTION :",
    "NOT_IMPLEMENTED :",
    "INVALID_GRAPH :",
    "onnxruntime::",
    "[E:onnxruntime",
    "[E][TRT]",
    "Error:",
    "ShapeInferenceError",
    "ValidationError",
];

/// The phrases without white space, because messages are matched that way.
struct Phrases {
    errors: Vec<String>,
    common: Vec<String>,
    classes: Vec<(Class, Vec<String>)>,
}

static SQUEEZED: LazyLock<Phrases> = LazyLock::new(|| {
    let squeeze = |phrases: &[&str]| phrases.iter().map(|phrase| phrase.replace(' ', "")).collect();
    Phrases {
        errors: squeeze(ERRORS),
        common: squeeze(COMMON),
        classes: CLASSES.iter().map(|(class, phrases)| (*class, squeeze(phrases))).collect(),
    }
});

/// Returns the text of a message, without locations in the source of the runtime.
fn words(after: &str, whole: &str) -> String {
    let after = after.trim_start_matches([':', ' ', '\n']);
    let said = match after.split_once("Status Message:") {
        Some((_, said)) => said,
        None if after.starts_with('[') => after,
        None => whole,
    };
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut line = line.as_str();
    for before in [" failed:", " was false. ", " , Error "] {
        line = line.rsplit_once(before).map_or(line, |(_, said)| said);
    }
    shortened(without_place(without_exception(line)), MAX_WORDS)
}

/// Returns a text without `ValueError: ` and `onnxruntime.capi….Fail: [ONNXRuntimeError] : 1 : FAIL : `.
fn without_exception(text: &str) -> &str {
    if let Some((_, said)) = text.split_once("[ONNXRuntimeError] : ") {
        return said.splitn(3, " : ").nth(2).unwrap_or(said);
    }
    match text.split_once(": ") {
        Some((class, said)) if class.ends_with("Error") && !class.contains(' ') => said,
        _ => text,
    }
}

/// Returns a text without the file and the function of the runtime at its start.
fn without_place(text: &str) -> &str {
    let Some((place, rest)) = text.split_once(' ') else {
        return text;
    };
    let is_place = place.rsplit_once(':').is_some_and(|(file, line)| {
        [".h", ".cc", ".cpp", ".hpp"].iter().any(|end| file.ends_with(end))
            && !line.is_empty()
            && line.bytes().all(|byte| byte.is_ascii_digit())
    });
    if !is_place {
        return text;
    }
    let is_signature = |open: &usize| rest[..*open].contains("::");
    match rest.find('(').filter(is_signature) {
        Some(open) => after_signature(&rest[open..]).unwrap_or(rest),
        // `Compute MatMul dimension mismatch`
        None => rest.split_once(' ').map_or(rest, |(_, said)| said),
    }
}

/// Returns the text after `(…)` and `[with T = …]`.
fn after_signature(text: &str) -> Option<&str> {
    let mut depth = 0usize;
    let end = text.char_indices().find_map(|(at, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (depth == 0).then_some(at + 1)
    })?;
    let rest = text.get(end..)?.trim_start();
    let rest = rest.strip_prefix("const ").unwrap_or(rest);
    match rest.strip_prefix("[with ") {
        Some(types) => types.split_once("] ").map(|(_, said)| said),
        None => Some(rest),
    }
}

/// Shortens a text to one line of at most `most` characters.
fn shortened(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
