//! Lists the fusions of ONNX Runtime whose names do not contain the names of the fused nodes.

use crate::Document;

/// The fusions of ONNX Runtime by name, each with an operator of the model that it contains, and the operators that
/// the runtime may have combined into that operator first.
const JOINED: &[(&str, &str, &[&str])] = &[
    ("SkipLayerNormalization", "LayerNormalization", &["ReduceMean"]),
    ("SkipSimplifiedLayerNormalization", "RMSNormalization", &["ReduceMean"]),
    ("SimplifiedLayerNormalization", "RMSNormalization", &["ReduceMean"]),
    ("BiasGelu", "Gelu", &["Erf"]),
    ("FastGelu", "Gelu", &["Tanh"]),
    ("BiasSoftmax", "Softmax", &["Exp"]),
];

/// Returns the nodes of the model from which the runtime may have created a node, and their operator. Returns
/// `None` if it may have been created from other nodes.
pub(crate) fn inner(document: &Document<'_>, op: &str) -> Option<(&'static str, Vec<usize>)> {
    let (_, inner, parts) = JOINED.iter().find(|(joined, _, _)| *joined == op)?;
    let nodes = || document.scan.nodes.iter().enumerate();
    if nodes().any(|(_, node)| parts.contains(&node.op)) {
        return None;
    }
    let of_inner = nodes().filter(|(_, node)| node.op == *inner).map(|(number, _)| number);
    Some((*inner, of_inner.collect()))
}

/// Returns the fusion of the runtime that a name refers to: `BiasGelu` for `BiasGelu_2`.
pub(crate) fn bare_fusion(name: &str) -> Option<&'static str> {
    JOINED.iter().map(|(joined, _, _)| *joined).find(|joined| is_bare(name, joined))
}

/// True if a name is a plain word, perhaps with a suffix that makes it unique: `Gelu`, `Gelu_2`, `Gelu_token_12`.
pub(crate) fn is_bare(name: &str, word: &str) -> bool {
    name.strip_prefix(word).is_some_and(|rest| {
        let number = rest.strip_prefix("_token_").or_else(|| rest.strip_prefix('_'));
        let is_number = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
        rest.is_empty() || number.is_some_and(is_number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_the_word_and_a_number() {
        for name in ["Gelu", "Gelu_2", "Gelu_token_12"] {
            assert!(is_bare(name, "Gelu"), "{name}");
        }
        for name in ["a/Gelu", "Gelu_", "Gelu_x", "Gelu_token_", "Gelus"] {
            assert!(!is_bare(name, "Gelu"), "{name}");
        }
    }
}
