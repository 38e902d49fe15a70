//! Reads the types of the operands in messages that do not name the node.
//!
//! rten forgets the name of a node if a value has the same name, but lists the operands:
//! `operator "" failed: … Inputs were (tensor(f32) [2, 3], tensor(f32) [5, 4])`. IREE quotes the operation that it
//! read: `%7 = torch.operator "onnx.MatMul"(%5, %arg2) : (!torch.vtensor<[2,3],f32>, …) -> …`.

use std::ops::Range;

use super::clean::Squeezed;
use super::patterns::{Clue, Role};

/// The maximum number of operands to read.
const MAX_OPERANDS: usize = 64;

/// A node as a message describes it without its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operands {
    /// The possible operators; empty if the message does not tell.
    pub ops: Vec<String>,
    pub operands: Vec<Operand>,
    /// The number of the result among the values of IREE's text.
    pub number: Option<usize>,
    /// True if the runtime prints the name of every node whose name is not also the name of a value.
    pub is_named_like_a_value: bool,
}

/// The type of an operand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operand {
    /// The possible element types, as jax2onnx writes them; empty if the message does not tell.
    pub elements: Vec<String>,
    /// The sizes, `None` for one that is not known.
    pub sizes: Option<Vec<Option<i64>>>,
    /// The position of the input of the model that this is.
    pub argument: Option<usize>,
    /// True if the optional operand is absent.
    pub is_absent: bool,
}

/// Returns the nodes that a message describes by their operands.
pub(super) fn find(text: &Squeezed<'_>) -> Vec<(Range<usize>, Clue)> {
    let mut found = of_rten(&text.text);
    found.extend(of_rten_debug(&text.text));
    found.extend(of_iree(&text.text));
    found
}

/// Phrases of rten, each with the operators that use it.
const PHRASES: &[(&str, &[&str])] = &[
    ("Columnsoffirstmatrix", &["MatMul", "Gemm"]),
    ("Cannotbroadcastctooutputshape", &["Gemm"]),
    ("Dimensionsmustbethesameexceptforconcataxis", &["Concat"]),
    ("doesnotmatchkernelinputchannels", &["Conv", "ConvTranspose"]),
    ("Splitsizes", &["Split"]),
    ("k>dimensionsize", &["TopK"]),
    ("Permutationisinvalid", &["Transpose"]),
    ("keyandvaluemusthave", &["Attention"]),
    ("Cannotbroadcastinputwithtargetshape", &["Expand"]),
    ("Inputlengthdoesnotmatchtargetshape", &["Reshape"]),
];

/// Reads `operator "" failed: … Inputs were (…)`.
fn of_rten(text: &str) -> Vec<(Range<usize>, Clue)> {
    const START: &str = "operator\"\"failed:";
    const LIST: &str = ".Inputswere(";
    let mut found = Vec::new();
    for (start, _) in text.match_indices(START).take(MAX_OPERANDS) {
        let Some(list) = text[start..].find(LIST) else { continue };
        let said = &text[start + START.len()..start + list];
        let from = start + list + LIST.len();
        let Some(end) = closing(&text[from..]) else { continue };
        let operands = split(&text[from..from + end]).map(rten_operand).collect();
        let phrase = PHRASES.iter().find(|(phrase, _)| said.contains(phrase));
        let ops = phrase.map_or(&[][..], |(_, ops)| ops).iter().map(|&op| op.to_owned()).collect();
        let operands = Operands { ops, operands, number: None, is_named_like_a_value: true };
        found.push((start..from + end + 1, Clue::Operands(Box::new(operands))));
    }
    found
}

/// Reads the same error as a Rust program prints it that returns it from `main`:
/// `OperatorError { name: "", error: …, inputs: [Some(ValueMeta { dtype: Tensor(Float), shape: [5, 3] })] }`.
fn of_rten_debug(text: &str) -> Vec<(Range<usize>, Clue)> {
    const START: &str = "OperatorError{name:\"\",error:";
    const LIST: &str = ",inputs:[";
    let Some(start) = text.find(START) else { return Vec::new() };
    let Some(list) = text[start..].find(LIST) else { return Vec::new() };
    let said = &text[start..start + list];
    let from = start + list + LIST.len();
    let Some(end) = text[from..].find(")]}").map(|end| end + 1) else { return Vec::new() };
    let operand =
        |item: &str| match item.split_once("Tensor(").and_then(|(_, it)| it.split_once(')')) {
            Some((element, rest)) => {
                let element = match element {
                    "Float" => "f32",
                    "Int32" => "i32",
                    "UInt8" => "u8",
                    "Int8" => "i8",
                    _ => "",
                };
                let sizes = rest.split_once("shape:").map_or("", |(_, sizes)| sizes);
                let sizes = sizes.split_once(']').map_or("", |(sizes, _)| sizes);
                rten_operand(&format!("tensor({element}){sizes}]"))
            }
            None => Operand { is_absent: item == "None", ..Operand::default() },
        };
    let operands = split(&text[from..from + end]).map(operand).collect();
    let phrase = PHRASES.iter().find(|(phrase, _)| said.contains(phrase));
    let ops = phrase.map_or(&[][..], |(_, ops)| ops).iter().map(|&op| op.to_owned()).collect();
    let operands = Operands { ops, operands, number: None, is_named_like_a_value: true };
    vec![(start..from + end, Clue::Operands(Box::new(operands)))]
}

/// Reads `tensor(f32)[2,3]`, or `-` for an absent operand. rten has four types, and reads all others as one of them.
fn rten_operand(text: &str) -> Operand {
    let Some((element, sizes)) = text.strip_prefix("tensor(").and_then(|rest| rest.split_once(')'))
    else {
        return Operand { is_absent: text == "-", ..Operand::default() };
    };
    let elements: &[&str] = match element {
        "f32" => &["f32", "f64", "f16", "bf16"],
        "i32" => &["i32", "i64", "bool", "u32", "u64", "i16", "u16"],
        "u8" => &["u8", "bool"],
        "i8" => &["i8"],
        _ => &[],
    };
    Operand {
        elements: elements.iter().map(|&element| element.to_owned()).collect(),
        sizes: sizes_of(sizes),
        ..Operand::default()
    }
}

/// Reads the operation that IREE quotes from the imported text, or else the one in the text of its error.
fn of_iree(text: &str) -> Vec<(Range<usize>, Clue)> {
    const QUOTED: &str = "=torch.operator\"onnx.";
    const NAMED: &str = "<{name=\"onnx.";
    if let Some(at) = text.find(QUOTED) {
        let after = at + QUOTED.len();
        let number = text[..at].rsplit_once('%').and_then(|(_, name)| {
            // `%5:2` has two results.
            name.split(':').next().unwrap_or_default().parse().ok()
        });
        let Some((op, rest)) = text[after..].split_once("\"(") else { return Vec::new() };
        let arguments = rest.split(')').next().unwrap_or_default();
        let end = text.len() - rest.len();
        return operation(op, arguments, rest, number)
            .map(|clue| (at..end, clue))
            .into_iter()
            .collect();
    }
    let Some(at) = text.find(NAMED) else { return Vec::new() };
    let Some((op, rest)) = text[at + NAMED.len()..].split_once('"') else { return Vec::new() };
    let arguments = text[..at].rsplit_once("\"torch.operator\"(").map_or("", |(_, list)| list);
    let arguments = arguments.trim_end_matches(')');
    let end = text.len() - rest.len();
    operation(op, arguments, rest, None).map(|clue| (at..end, clue)).into_iter().collect()
}

/// Returns the clue for an operation of IREE. `rest` contains its attributes and types.
fn operation(op: &str, arguments: &str, rest: &str, number: Option<usize>) -> Option<Clue> {
    if op.is_empty() || !op.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.')) {
        return None;
    }
    if op == "Constant" {
        let name = rest.split_once("dense_resource<_")?.1.split_once('>')?.0;
        return Some(Clue::Value { name: name.to_owned(), role: Role::Weight });
    }
    let arguments: Vec<&str> = split(arguments).collect();
    let types = rest.find(":(").map_or("", |at| &rest[at + 2..]);
    let types = &types[..closing(types).unwrap_or(0)];
    let mut operands: Vec<Operand> = split(types).map(iree_operand).collect();
    for (operand, argument) in operands.iter_mut().zip(arguments) {
        operand.argument = argument.strip_prefix("%arg").and_then(|it| it.parse().ok());
    }
    let ops = vec![op.to_owned()];
    Some(Clue::Operands(Box::new(Operands { ops, operands, number, ..Operands::default() })))
}

/// Reads `!torch.vtensor<[2,3],f32>` and `!torch.none`.
fn iree_operand(text: &str) -> Operand {
    let Some(inner) = text.strip_prefix("!torch.vtensor<").and_then(|rest| rest.strip_suffix('>'))
    else {
        return Operand { is_absent: text == "!torch.none", ..Operand::default() };
    };
    let (sizes, element) = inner.rsplit_once(',').unwrap_or((inner, ""));
    let element = match element {
        "i1" => "bool".to_owned(),
        "" => String::new(),
        // `si64` is `i64` and `ui8` is `u8`.
        other => match other.strip_prefix("ui") {
            Some(bits) => format!("u{bits}"),
            None => other.strip_prefix('s').unwrap_or(other).to_owned(),
        },
    };
    let elements = if element.is_empty() { Vec::new() } else { vec![element] };
    Operand { elements, sizes: sizes_of(sizes), ..Operand::default() }
}

/// Reads `[2,?,3]`.
fn sizes_of(text: &str) -> Option<Vec<Option<i64>>> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    if inner.is_empty() {
        return Some(Vec::new());
    }
    Some(inner.split(',').map(|size| size.parse().ok()).collect())
}

/// Returns the position of the bracket that closes a list.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in text.bytes().enumerate().take(1 << 14) {
        match c {
            b'(' => depth += 1,
            b')' if depth == 0 => return Some(at),
            b')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Splits a list at the commas that are not in brackets.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, c) in text.bytes().enumerate() {
        match c {
            b'(' | b'[' | b'<' => depth += 1,
            b')' | b']' | b'>' => depth = depth.saturating_sub(1),
            b',' if depth == 0 && parts.len() < MAX_OPERANDS => {
                parts.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..).filter(|rest| !rest.is_empty()));
    parts.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Operands {
        let found = find(&Squeezed::new(text));
        let [(_, Clue::Operands(operands))] = found.as_slice() else { panic!("{found:?}") };
        (**operands).clone()
    }

    #[test]
    fn operands_of_rten_are_read() {
        let found = only(
            "operator \"\" failed: incompatible input shapes: Columns of first matrix does not match rows \
             of second matrix. Inputs were (tensor(f32) [2, 3], -, tensor(i32) [])",
        );
        assert_eq!(found.ops, ["MatMul", "Gemm"]);
        assert_eq!(found.operands[0].sizes, Some(vec![Some(2), Some(3)]));
        assert!(found.operands[1].is_absent);
        assert_eq!(found.operands[2].sizes, Some(vec![]));
        assert!(found.operands[2].elements.contains(&"bool".to_owned()));
    }

    #[test]
    fn operands_of_iree_are_read() {
        let found = only(
            "a.mlir:49:11: error: failed to legalize operation 'torch.operator': %183 = \
             \"torch.operator\"(%arg0, %104) <{name = \"onnx.Gather\"}> {torch.onnx.axis = 0 : si64} : \
             (!torch.vtensor<[6,3],f32>, !torch.vtensor<[4,?],si64>) -> !torch.vtensor<[6,3],f32>\n\
             %45:2 = torch.operator \"onnx.Gather\"(%arg0, %35) {torch.onnx.axis = 0 : si64} : \
             (!torch.vtensor<[6,3],f32>, !torch.vtensor<[4,?],si64>) -> !torch.vtensor<[6,3],f32>",
        );
        assert_eq!((found.ops, found.number), (vec!["Gather".to_owned()], Some(45)));
        assert_eq!(found.operands[0].argument, Some(0));
        assert_eq!(found.operands[1].elements, ["i64"]);
        assert_eq!(found.operands[1].sizes, Some(vec![Some(4), None]));
    }

    #[test]
    fn a_constant_of_iree_is_a_weight() {
        let text = "%0 = torch.operator \"onnx.Constant\"() {torch.onnx.value = \
                    dense_resource<_mul.const> : tensor<f32>} : () -> !torch.vtensor<[],f32>";
        let found = find(&Squeezed::new(text));
        let weight = Clue::Value { name: "mul.const".into(), role: Role::Weight };
        assert_eq!(found[0].1, weight);
    }

    #[test]
    fn a_text_that_ends_early_is_not_read() {
        for text in ["operator \"\" failed: a. Inputs were (tensor(f32", "=torch.operator \"onnx."]
        {
            assert_eq!(find(&Squeezed::new(text)), [], "{text}");
        }
    }
}
