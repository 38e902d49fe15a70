//! What ONNX Runtime makes of operators, under names that say nothing of the nodes.

/// What it joins, by what it calls it: an operator of the model that is in it.
const JOINED: &[(&str, &str)] = &[
    ("SkipLayerNormalization", "LayerNormalization"),
    ("SkipSimplifiedLayerNormalization", "RMSNormalization"),
    ("SimplifiedLayerNormalization", "RMSNormalization"),
    ("BiasGelu", "Gelu"),
    ("FastGelu", "Gelu"),
    ("BiasSoftmax", "Softmax"),
    ("FusedConv", "Conv"),
    ("FusedGemm", "Gemm"),
    ("FusedMatMul", "MatMul"),
];

/// The operator of the model that is in one of the runtime.
pub(crate) fn inner(op: &str) -> Option<&'static str> {
    JOINED.iter().find(|(joined, _)| *joined == op).map(|(_, inner)| *inner)
}

/// Whether a name is nothing but a word, made unique: `Gelu`, `Gelu_2`, `Gelu_token_12`.
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
