//! Recognizes the names that tools derive from other names.

use std::sync::Arc;

/// The prefixes that ONNX Runtime adds to the name of a node that it fused with an activation, and to the name of a
/// value that it casts.
const PREFIXES: &[&str] = &["fused ", "InsertedPrecisionFreeCast_"];

/// The suffix that ONNX Runtime adds to the result of a node that it computes in its blocked layout of images. If
/// it fused an activation with a convolution, this is the result of the activation.
const BLOCKED: &str = "_nchwc";

/// The suffixes that tools add to the name of a node that they changed. Numbers are not among them, because `add_1`
/// and `add` are different nodes.
const SUFFIXES: &[&str] = &[
    // ONNX Runtime: an operand of a product that became a Gemm; profiles.
    "_new_reshape",
    "_kernel_time",
    BLOCKED,
    "_fence_before",
    "_fence_after",
    // ONNX Runtime: the quantization of a product.
    "_quant",
    "_quant_scales_mul",
    "_output_quantized",
    "_output_quantized_cast",
];

/// The prefix that ONNX Runtime adds to the names in an inlined function, before the name of the function.
const INLINED: &str = "_inlfunc_";

/// Returns the names that `name` may be derived from, the longest first, without `name` itself.
pub(super) fn within(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| undecorated(name)).skip(1)
}

/// True if the name belongs to a node in the blocked layout.
pub(super) fn is_blocked(name: &str) -> bool {
    let name = name.strip_suffix("_kernel_time").unwrap_or(name);
    token(name).unwrap_or(name).ends_with(BLOCKED)
}

/// Returns the name without its outermost decoration.
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

/// Returns the names in functions from which inlining may have derived `name`, the outermost call first.
pub(super) fn within_calls<'n>(
    name: &'n str,
    functions: &[Arc<str>],
) -> impl Iterator<Item = &'n str> {
    std::iter::successors(Some(name), |name| without_call(name, functions)).skip(1)
}

/// Handles `_inlfunc_f_f/exp` and `_inlfunc_f_token_3_f/exp` of ONNX Runtime, `f/exp__1` of ONNX's inliner, and its
/// `f/exp__1_64` for values.
fn without_call<'n>(name: &'n str, functions: &[Arc<str>]) -> Option<&'n str> {
    if let Some(inner) = name.strip_prefix(INLINED) {
        return functions.iter().find_map(|function| {
            let rest = inner.strip_prefix(&**function)?;
            let rest = rest
                .strip_prefix("_token_")
                .map_or(rest, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
            rest.strip_prefix('_').filter(|inner| !inner.is_empty())
        });
    }
    let (inner, number) = name.rsplit_once("__")?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_call = match number.split_once('_') {
        Some((call, value)) => is_number(call) && is_number(value),
        None => is_number(number),
    };
    (is_call && !inner.is_empty()).then_some(inner)
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
    fn affixes_of_tools_are_removed_from_the_outside_in() {
        check("a/dot_general/MatMulAddFusion", &["a/dot_general"]);
        check(
            "fused dot/MatMulAddFusion/GemmTransposeFusion/",
            &["dot/MatMulAddFusion/GemmTransposeFusion/", "dot/MatMulAddFusion", "dot"],
        );
        check("add_1_token_4", &["add_1"]);
        check("dot_general_quant_scales_mul", &["dot_general"]);
        check("a/max_nchwc_token_3", &["a/max_nchwc", "a/max"]);
        check("InsertedPrecisionFreeCast_a/max", &["a/max"]);
    }

    #[test]
    fn a_node_in_the_blocked_layout_is_known_by_its_name() {
        for name in ["max_nchwc", "a/max_nchwc_token_3", "max_nchwc_kernel_time"] {
            assert!(is_blocked(name), "{name}");
        }
        for name in ["max", "max_nchwc_1", "nchwc", "max_token_3"] {
            assert!(!is_blocked(name), "{name}");
        }
    }

    #[test]
    fn a_similar_name_is_not_resolved() {
        for name in ["add_1", "add", "a/Fusion", "x/add_bias", "add_token_", "_quant", ""] {
            check(name, &[]);
        }
    }

    #[test]
    fn inlined_nodes_are_named_after_the_call() {
        let functions = ["f".into(), "g_1".into()];
        let check = |name, expected: &[&str]| {
            assert_eq!(within_calls(name, &functions).collect::<Vec<_>>(), expected, "{name}");
        };
        check("_inlfunc_f_f/exp", &["f/exp"]);
        check("_inlfunc_g_1_token_12_g_1/exp", &["g_1/exp"]);
        check("_inlfunc_f__inlfunc_g_1_g_1/exp", &["_inlfunc_g_1_g_1/exp", "g_1/exp"]);
        check("_inlfunc_h_h/exp", &[]);
        check("f/exp__1", &["f/exp"]);
        check("f/exp__1__2_64", &["f/exp__1", "f/exp"]);
        for name in ["f/exp_1", "f/exp__", "f/exp__x", "__1", "f/exp__1_x"] {
            check(name, &[]);
        }
    }
}
