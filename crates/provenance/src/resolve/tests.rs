use std::fmt::Write;

use expect_test::{Expect, expect};

use super::*;
use crate::outline::OutlineBuilder;

/// Parses one node per line: `name = Op(values) -> values`. Values that are equal to the name may be omitted.
/// `function f` begins a function.
fn outline(text: &str) -> Outline {
    let mut builder = OutlineBuilder::default();
    builder.graph(GraphPlace::Main, None);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("function ") {
            builder.graph(GraphPlace::Function(format!("local::{name}").into()), None);
            continue;
        }
        let (name, rest) = line.split_once(" = ").unwrap();
        let (op, rest) = rest.split_once('(').unwrap();
        let (inputs, outputs) = rest.split_once(')').unwrap();
        let outputs = outputs.strip_prefix(" -> ").unwrap_or(name);
        builder.node(name, "", op, inputs.split(", "), outputs.split(", "));
    }
    builder.finish()
}

/// Returns a map in which each node has a separate origin.
fn resolver(text: &str) -> Resolver {
    let outline = outline(text);
    let origins = (0..).zip(&outline.nodes).map(|(number, _)| Some(number)).collect();
    Resolver::new(SourceMap { outline, origins, ..SourceMap::default() })
}

fn shown(resolver: &Resolver, answer: &Answer) -> String {
    let nodes = &resolver.map().outline.nodes;
    let names: Vec<&str> = answer.origins.iter().map(|&n| &*nodes[n as usize].name).collect();
    format!("{} {}", answer.sure.word(), names.join(", "))
}

#[track_caller]
fn check(before: &str, after: &str, expect: &Expect) {
    let resolver = resolver(before);
    let later = outline(after);
    let mut text = String::new();
    for (node, answer) in later.nodes.iter().zip(resolver.resolve_model(&later)) {
        writeln!(text, "{}: {}", node.name, shown(&resolver, &answer)).unwrap();
    }
    expect.assert_eq(&text);
}

#[test]
fn an_unchanged_model_resolves_to_itself() {
    let model = "sin = Sin(x)\n mul = Mul(sin) -> out";
    check(
        model,
        model,
        &expect![[r"
            sin: exact sin
            mul: exact mul
        "]],
    );
}

#[test]
fn names_alone_and_results_alone_are_enough() {
    check(
        "a = Sin(x)\n b = Cos(a)",
        "a = Sin(x) -> renamed\n other = Cos(renamed) -> b",
        &expect![[r"
            a: name a
            other: exact b
        "]],
    );
}

#[test]
fn a_fused_node_stands_for_all_between_its_name_and_its_result() {
    check(
        "dot = MatMul(x)\n add = Add(dot)\n scale = Mul(add, c)\n c = Exp(k)\n tanh = Tanh(scale)",
        "fused dot/MatMulAddFusion = FusedGemm(x) -> tanh",
        &expect![[r"
            fused dot/MatMulAddFusion: fused tanh, dot, scale, add
        "]],
    );
}

#[test]
fn a_node_that_another_node_fused_is_used_once() {
    check(
        "dot = MatMul(x)\n add = Add(dot)\n tanh = Tanh(add)",
        "dot/MatMulAddFusion = Gemm(x) -> add\n t = FastTanh(add) -> tanh",
        &expect![[r"
            dot/MatMulAddFusion: fused add, dot
            t: fused tanh
        "]],
    );
}

#[test]
fn a_new_node_is_next_to_those_around_it() {
    check(
        "a = Sin(x)\n b = MatMul(a)",
        "a = Sin(x)\n r = Reshape(a) -> r1\n s = Cast(r1) -> r2\n b = MatMul(r2)\n alone = Neg(y)",
        &expect![[r"
            a: exact a
            r: neighbour b, a
            s: neighbour b, a
            b: exact b
            alone: unknown 
        "]],
    );
}

#[test]
fn another_operator_under_a_known_name_is_not_the_node_itself() {
    check(
        "a = MatMul(x)\n b = Add(a)",
        "a = Gemm(x) -> b\n b = Relu(b) -> c",
        &expect![[r"
            a: fused b, a
            b: fused b
        "]],
    );
}

#[test]
fn a_name_that_several_have_says_nothing() {
    check(
        "a = Sin(x) -> u\n a = Cos(x) -> v",
        "a = Sin(x) -> w\n a = Cos(x) -> v",
        &expect![[r"
            a: unknown 
            a: exact a
        "]],
    );
}

#[test]
fn a_node_of_a_function_is_found_where_it_was_inlined() {
    check(
        "call = f(x)\n function f\n f/exp = Exp(i)\n f/neg = Neg(f/exp)",
        "_inlfunc_f_f/exp = Exp(x)\n _inlfunc_f_f/neg = Neg(_inlfunc_f_f/exp) -> call
         f/exp__2 = Exp(x) -> f/exp__2_7\n call__2 = Exp(x)",
        &expect![[r"
            _inlfunc_f_f/exp: name f/exp
            _inlfunc_f_f/neg: fused f/neg, call
            f/exp__2: name f/exp
            call__2: unknown 
        "]],
    );
}

#[test]
fn a_convolution_that_is_named_after_its_activation_is_found() {
    let model = "conv = Conv(x)\n relu = Relu(conv)\n other = Conv(relu)\n twice = Conv(other)
         bn = BatchNormalization(twice)\n add = Add(twice, relu)\n pool = MaxPool(other)
         a = Conv(pool)\n b = Conv(pool)\n sum = Add(a, b)";
    let resolver = resolver(model);
    let check = |name, ran: &[u32], expected| {
        let answer = resolver.resolve_run(name, &|node| ran.contains(&node));
        assert_eq!(shown(&resolver, &answer), expected, "{name}");
    };
    check("relu_nchwc", &[], "fused conv, relu");
    check("relu_nchwc_token_7", &[], "fused conv, relu");
    // The convolution ran under its own name.
    check("relu_nchwc", &[0], "fused relu");
    check("other_nchwc", &[], "fused other");
    // Two nodes read the convolution, so it is not part of the norm.
    check("bn_nchwc", &[], "fused bn");
    check("pool_nchwc", &[], "fused pool");
    // Either convolution may have been fused, unless one of them ran.
    check("sum_nchwc", &[], "fused sum");
    check("sum_nchwc", &[7], "fused b, sum");
}

#[test]
fn a_node_of_a_function_is_found_if_another_name_starts_its_name() {
    let resolver = resolver(
        "call = f(x)\n call_2 = f_2(call)\n function f\n f/exp = Exp(i)\n function f_2\n f_2/exp = Exp(i)",
    );
    for (name, expected) in [
        ("_inlfunc_f_2_f_2/exp", "name f_2/exp"),
        ("_inlfunc_f_token_1_f/exp", "name f/exp"),
        ("_inlfunc_f_2_f_2/exp_nchwc", "fused f_2/exp"),
    ] {
        assert_eq!(shown(&resolver, &resolver.resolve(name)), expected, "{name}");
    }
}

#[test]
fn a_name_is_resolved_without_its_model() {
    let resolver = resolver("sin = Sin(x)\n mul = Mul(sin) -> out\n add = Add(out) -> mul");
    let check = |name, expected| {
        assert_eq!(shown(&resolver, &resolver.resolve(name)), expected, "{name}");
    };
    check("sin", "exact sin");
    check("out", "exact mul");
    check("sin/QuickGeluFusion/", "fused sin");
    check("sin_kernel_time", "fused sin");
    check("sin_1", "unknown ");
    // One is the name of a node, the other the name of another node's result.
    check("mul", "fused mul, add");
}
