//! How tools make names of names.

/// What ONNX Runtime puts in front of the name of what it fused with an activation.
const PREFIXES: &[&str] = &["fused "];

/// What tools put behind a name. None is a number alone: `add_1` is another node than `add`.
const SUFFIXES: &[&str] = &[
    // ONNX Runtime: operands of a product that was made a Gemm, profiles.
    "_new_reshape",
    "_kernel_time",
    "_fence_before",
    "_fence_after",
    // Its quantisation.
    "_QuantizeLinear",
    "_QuantizeLinear_Input",
    "_DequantizeLinear",
    "_DequantizeLinear_Output",
    "_quant",
    "_quant_scales_mul",
    "_quantized",
    "_output_quantized",
    "_output_quantized_cast",
    "_scale",
    "_zero_point",
    "_cast",
];

/// The names that `name` may be made of, the longest first; not itself.
pub(super) fn within(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| undecorated(name)).skip(1)
}

/// The name without its outermost decoration.
fn undecorated(name: &str) -> Option<&str> {
    let before = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
    let behind = || SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix));
    let inner = before.or_else(|| fusion(name)).or_else(|| token(name)).or_else(behind)?;
    (!inner.is_empty()).then_some(inner)
}

/// `dot_general/MatMulAddFusion` and `mul/QuickGeluFusion/`
fn fusion(name: &str) -> Option<&str> {
    let (inner, pass) = name.strip_suffix('/').unwrap_or(name).rsplit_once('/')?;
    let is_pass = pass.len() > "Fusion".len() && pass.ends_with("Fusion");
    is_pass.then_some(inner)
}

/// `add_1_token_4`: ONNX Runtime makes names unique this way.
fn token(name: &str) -> Option<&str> {
    let (inner, number) = name.rsplit_once("_token_")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: &[&str]) {
        assert_eq!(within(name).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_tools_add_is_taken_away_from_the_outside_in() {
        check("a/dot_general/MatMulAddFusion", &["a/dot_general"]);
        check(
            "fused dot/MatMulAddFusion/GemmTransposeFusion/",
            &["dot/MatMulAddFusion/GemmTransposeFusion/", "dot/MatMulAddFusion", "dot"],
        );
        check("add_1_token_4", &["add_1"]);
        check("dot_general_quant_scales_mul", &["dot_general"]);
    }

    #[test]
    fn a_name_that_only_looks_alike_is_itself() {
        for name in ["add_1", "add", "a/Fusion", "x/add_bias", "add_token_", "_cast", ""] {
            check(name, &[]);
        }
    }
}
