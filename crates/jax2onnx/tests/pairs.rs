//! Checks the holders of each variable of a program: jaxpr text in, one line per value out.
#![expect(clippy::expect_used, reason = "a panic fails the test")]

use expect_test::{Expect, expect};
use jax2onnx::{Call, Definition, Holder, Hop, Options, Pair, Round, convert};

fn converted(jaxpr: &str, with_pairs: bool) -> onnx::Model {
    let program = jaxpr::parse(jaxpr).expect("the jaxpr of a test can be parsed");
    let call = Call { pairs: with_pairs, ..Call::default() };
    convert(program, &Options::default(), &call, true, &|_| None, &mut |_| {})
        .expect("the jaxpr of a test can be converted")
}

#[track_caller]
fn check(jaxpr: &str, expected: &Expect) {
    let model = converted(jaxpr, true);
    let lines: Vec<String> = model.pairs().iter().map(line).collect();
    expected.assert_eq(&(lines.join("\n") + "\n"));
}

/// Formats a pair: in `1.jaxpr/0 [each] = scan.body/sin`, the variable is the result of equation 0 in the body of
/// equation 1, in each iteration.
fn line(pair: &Pair<'_>) -> String {
    let variable = pair.variable;
    let mut path: Vec<String> = Vec::new();
    for step in &*variable.path {
        path.push(format!("{}.{}", step.eqn, step.param));
        path.extend((step.param == "branches").then(|| step.index.to_string()));
    }
    path.push(match variable.definition {
        Definition::Constant => format!("constant {}", variable.position),
        Definition::Input => format!("input {}", variable.position),
        Definition::Equation(eqn) if variable.position == 0 => eqn.to_string(),
        Definition::Equation(eqn) => format!("{eqn}:{}", variable.position),
    });
    let parts = if variable.has_parts { " in parts" } else { "" };
    let name = path.join("/") + parts;
    match &pair.holder {
        Holder::Value { name: value, graph, rounds, is_ambiguous, view, .. } => {
            let rounds: Vec<String> = rounds.iter().map(round).collect();
            let rounds = match &rounds[..] {
                [] => String::new(),
                rounds => format!(" [{}]", rounds.join(", ")),
            };
            let hop = |hop: &Hop| match &hop.body {
                Some(body) => format!("{}.{body}/", hop.node),
                None => format!("{}()/", hop.node),
            };
            let graph: String = graph.iter().map(hop).collect();
            let sign = if *is_ambiguous { "≈" } else { "=" };
            let steps: Vec<String> = view.0.iter().map(|step| format!(" {step:?}")).collect();
            format!("{name}{rounds} {sign} {graph}{value}{}", steps.concat())
        }
        Holder::Covered { nodes, constants } => {
            let constants = constants.iter().map(|name| format!("constant {name}"));
            let all: Vec<String> = nodes.iter().map(ToString::to_string).chain(constants).collect();
            let all = if all.is_empty() { "something else".into() } else { all.join(", ") };
            format!("{name} in {all}")
        }
        Holder::Unused => format!("{name} is unused"),
    }
}

fn round(round: &Round) -> String {
    match round {
        Round::Each => "each".into(),
        Round::Next => "next".into(),
        Round::All => "all".into(),
        Round::At(round) => round.to_string(),
    }
}

#[test]
fn a_fused_variable_is_covered_and_one_without_readers_is_unused() {
    check(
        r#"jaxpr main(x:f32[3]) {
            a:f32[3] = abs x @ "m.py":2 in f
            b:f32[3] = add a 1.0:f32[] @ "m.py":3 in f
            c:f32[3] = div x b @ "m.py":4 in f
            d:f32[3] = sin x @ "m.py":5 in f
            g:f32[3] = exp c @ "m.py":6 in f
            return g
        }"#,
        &expect![[r#"
            input 0 = in_0
            0 in softsign
            1 in softsign
            2 = softsign
            3 is unused
            4 = out_0
        "#]],
    );
}

#[test]
fn copies_and_equal_nodes_are_one_value_and_a_folded_variable_is_a_constant() {
    check(
        r#"jaxpr main(x:f32[2,3]) {
            a:f32[2,3] = copy x @ "m.py":2 in f
            b:f32[2,3] = sin a @ "m.py":3 in f
            c:f32[2,3] = sin x @ "m.py":4 in f
            d:f32[2,3] = broadcast_in_dim{shape=(2, 3); broadcast_dimensions=(); sharding=None} 2.0:f32[] @ "m.py":5 in f
            e:f32[2,3] = exp d @ "m.py":6 in f
            g:f32[2,3] = add b e @ "m.py":7 in f
            h:f32[2,3] = mul g c @ "m.py":8 in f
            return h
        }"#,
        &expect![[r#"
            input 0 = in_0
            0 = in_0
            1 = sin
            2 = sin
            3 in add
            4 in add, constant add.const
            5 = add
            6 = out_0
        "#]],
    );
}

#[test]
fn a_value_in_another_order_of_axes_does_not_hold_the_variable() {
    check(
        r#"jaxpr main(x:f32[1,8,8,3], w:f32[3,3,3,4]) {
            a:f32[1,8,8,4] = conv_general_dilated{window_strides=(1, 1); padding=((1, 1), (1, 1)); lhs_dilation=(1, 1); rhs_dilation=(1, 1); dimension_numbers=ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2)); feature_group_count=1; batch_group_count=1; precision=None; preferred_element_type=None} x w @ "m.py":2 in f
            b:f32[1,8,8,4] = sin a @ "m.py":3 in f
            c:f32[1,8,8,4] = exp b @ "m.py":4 in f
            return c
        }"#,
        &expect![[r#"
            input 0 = in_0
            input 1 = in_1
            0 = conv_general_dilated_2 Transpose([0, 2, 3, 1])
            1 = sin Transpose([0, 2, 3, 1])
            2 = out_0
        "#]],
    );
}

#[test]
fn a_call_and_its_body_hold_the_same_values() {
    check(
        r#"jaxpr main(x:c64[3]) {
            a:c64[3] = jit{name="f"; jaxpr=jaxpr f(x:c64[3]) {
                b:c64[3] = neg x @ "m.py":3 in f
                return b
            }} x @ "m.py":10 in main
            b:c64[3] = jit{name="f"; jaxpr=jaxpr f(x:c64[3]) {
                b:c64[3] = neg x @ "m.py":3 in f
                return b
            }} a @ "m.py":11 in main
            c:f32[3] = real b @ "m.py":12 in main
            return c
        }"#,
        &expect![[r#"
            input 0 in parts = in_0
            0.jaxpr/input 0 in parts = in_0
            0.jaxpr/0 in parts = neg
            0 in parts = neg
            1.jaxpr/input 0 in parts = neg
            1.jaxpr/0 in parts = neg_1
            1 in parts = neg_1
            2 = out_0
        "#]],
    );
}

#[test]
fn a_loop_holds_variables_of_each_round_and_what_was_hoisted_of_all() {
    check(
        r#"jaxpr main(xs:f32[100,3], h:f32[3], w:f32[3]) {
            a:f32[3] b:f32[100,3] = scan{length=100; reverse=False; num_consts=1; num_carry=1; linear=(False, False, False); unroll=1; _split_transpose=False; jaxpr=jaxpr body(w:f32[3], c:f32[3], x:f32[3]) {
                d:f32[3] = sin w @ "m.py":2 in body
                e:f32[3] = exp x @ "m.py":3 in body
                g:f32[3] = mul c e @ "m.py":4 in body
                i:f32[3] = add g d @ "m.py":5 in body
                j:f32[3] = cos i @ "m.py":6 in body
                return j, i
            }} w h xs @ "m.py":9 in main
            return a, b
        }"#,
        &expect![[r#"
            input 0 = in_0
            input 1 = in_1
            input 2 = in_2
            0.jaxpr/input 0 [all] = in_2
            0.jaxpr/input 1 [each] = scan.body/scan.body.input_0
            0.jaxpr/input 2 in something else
            0.jaxpr/0 [all] = sin
            0.jaxpr/1 [each] = scan.body/scan.body.input_1
            0.jaxpr/2 [each] = scan.body/mul
            0.jaxpr/3 [each] = scan.body/add
            0.jaxpr/4 [each] = scan.body/cos
            0 = out_0
            0:1 = out_1
        "#]],
    );
}

#[test]
fn an_unrolled_loop_in_a_loop_has_a_value_for_each_of_its_rounds() {
    check(
        r#"jaxpr main(xs:f32[100,3], h:f32[3]) {
            a:f32[3] = scan{length=100; reverse=False; num_consts=0; num_carry=1; linear=(False, False); unroll=1; _split_transpose=False; jaxpr=jaxpr body(c:f32[3], x:f32[3]) {
                d:f32[3] = scan{length=2; reverse=False; num_consts=1; num_carry=1; linear=(False, False); unroll=1; _split_transpose=False; jaxpr=jaxpr inner(x:f32[3], c:f32[3]) {
                    a:f32[3] = sin c @ "m.py":2 in inner
                    b:f32[3] = mul a x @ "m.py":3 in inner
                    return b
                }} x c @ "m.py":4 in body
                return d
            }} h xs @ "m.py":9 in main
            return a
        }"#,
        &expect![[r#"
            input 0 = in_0
            input 1 = in_1
            0.jaxpr/input 0 [each] = scan.body/scan.body.input_0
            0.jaxpr/input 1 [each] = scan.body/scan.body.input_1
            0.jaxpr/0.jaxpr/input 0 [each, all] = scan.body/scan.body.input_1
            0.jaxpr/0.jaxpr/input 1 [each, 0] = scan.body/scan.body.input_0
            0.jaxpr/0.jaxpr/input 1 [each, 1] = scan.body/mul
            0.jaxpr/0.jaxpr/0 [each, 0] = scan.body/sin
            0.jaxpr/0.jaxpr/0 [each, 1] = scan.body/iteration_1/sin
            0.jaxpr/0.jaxpr/1 [each, 0] = scan.body/mul
            0.jaxpr/0.jaxpr/1 [each, 1] = scan.body/iteration_1/mul
            0.jaxpr/0 [each] = scan.body/iteration_1/mul
            0 = out_0
        "#]],
    );
}

#[test]
fn the_condition_of_a_loop_is_held_before_it_and_by_the_round_before() {
    check(
        r#"jaxpr main(x:f32[]) {
            a:f32[] = while{cond_nconsts=0; body_nconsts=0; cond_jaxpr=jaxpr cond(c:f32[]) {
                a:f32[] = sin c @ "m.py":2 in cond
                b:bool[] = lt a 0.5:f32[] @ "m.py":3 in cond
                return b
            }; body_jaxpr=jaxpr body(c:f32[]) {
                a:f32[] = exp c @ "m.py":5 in body
                return a
            }} x @ "m.py":9 in main
            return a
        }"#,
        &expect![[r#"
            input 0 = in_0
            0.cond_jaxpr/input 0 [0] = in_0
            0.cond_jaxpr/0 [0] = sin
            0.cond_jaxpr/1 [0] = lt
            0.body_jaxpr/input 0 [each] = while.body/while.body.input_2
            0.body_jaxpr/0 [each] = while.body/exp
            0.cond_jaxpr/input 0 [next] = while.body/exp
            0.cond_jaxpr/0 [next] = while.body/sin_1
            0.cond_jaxpr/1 [next] = while.body/lt_1
            0 = out_0
        "#]],
    );
}

#[test]
fn a_branch_is_on_the_way_to_its_values() {
    check(
        r#"jaxpr main(i:i32[], x:f32[3]) {
            a:f32[3] = cond{branches=(jaxpr first(x:f32[3]) {
                a:f32[3] = sin x @ "m.py":2 in first
                return a
            }, jaxpr second(x:f32[3]) {
                a:f32[3] = cos x @ "m.py":4 in second
                b:f32[3] = exp a @ "m.py":5 in second
                return b
            })} i x @ "m.py":9 in main
            return a
        }"#,
        &expect![[r#"
            input 0 = in_0
            input 1 = in_1
            0.branches/0/input 0 = in_1
            0.branches/0/0 = cond_1.else_branch/sin
            0.branches/1/input 0 = in_1
            0.branches/1/0 = cond_1.then_branch/cos
            0.branches/1/1 = cond_1.then_branch/exp
            0 = out_0
        "#]],
    );
}

/// `f` is called twice, and its two bodies become one function.
const TWO_CALLS: &str = r#"jaxpr main(a:f32[3]) {
    b:f32[3] = onnx_function{edge="enter"; id=0; domain="my"; name="f"} a @ "m.py":10 in main
    c:f32[3] = sin b @ "m.py":3 in f < "m.py":10 in main
    d:f32[3] = exp c @ "m.py":4 in f < "m.py":10 in main
    e:f32[3] = onnx_function{edge="leave"; id=0; domain="my"; name="f"} d @ "m.py":10 in main
    g:f32[3] = onnx_function{edge="enter"; id=1; domain="my"; name="f"} e @ "m.py":11 in main
    h:f32[3] = sin g @ "m.py":3 in f < "m.py":11 in main
    i:f32[3] = exp h @ "m.py":4 in f < "m.py":11 in main
    j:f32[3] = onnx_function{edge="leave"; id=1; domain="my"; name="f"} i @ "m.py":11 in main
    return j
}"#;

#[test]
fn one_function_holds_the_variables_of_each_of_its_calls() {
    check(
        TWO_CALLS,
        &expect![[r#"
        input 0 = in_0
        0 = f()/f.input_0
        1 = f()/f/sin
        2 = f()/f/exp
        3 = f
        4 = f_1()/f.input_0
        5 = f_1()/f/sin
        6 = f_1()/f/exp
        7 = out_0
    "#]],
    );
}

#[test]
fn pairs_change_nothing_and_are_noted_only_if_wanted() {
    let (with, without) = (converted(TWO_CALLS, true), converted(TWO_CALLS, false));
    assert_eq!(with.text().to_string(), without.text().to_string());
    assert!(without.pairs.is_none() && without.pairs().is_empty());
}
