//! Checks the text of a jaxpr, and the errors for malformed texts.

use expect_test::{Expect, expect};
use jaxpr::{Param, parse, text};

#[track_caller]
fn check(input: &str, expect: &Expect) {
    let printed = match parse(input) {
        Ok(program) => text::print(&program),
        Err(error) => format!("refused: {error}\n"),
    };
    expect.assert_eq(&printed);
    if let Ok(program) = parse(&printed) {
        assert_eq!(text::print(&program), printed);
    }
}

#[track_caller]
fn param(value: &str) -> Param {
    match parse(&format!("-> y:f32[] = f{{p={value}}}")) {
        Ok(program) => program.main.eqns[0].params.entries()[0].1.clone(),
        Err(error) => Param::Opaque(error.to_string().into()),
    }
}

#[test]
fn one_equation_is_a_program() {
    check(
        "x:f32[3] -> y:f32[3] = expm1 x",
        &expect![[r"
            jaxpr main(a:f32[3]) {
              b:f32[3] = expm1 a
              return b
            }
        "]],
    );
}

#[test]
fn an_equation_has_parameters_and_several_operands() {
    check(
        "a:f32[2,3] b:f32[3,4] -> c:f32[2,4] = \
         dot_general{dimension_numbers=(([1], [0]), ([], [])); precision=None; out_sharding=P} a b",
        &expect![[r"
            jaxpr main(a:f32[2,3], b:f32[3,4]) {
              c:f32[2,4] = dot_general{dimension_numbers=(((1), (0)), ((), ())); precision=None; out_sharding=P} a b
              return c
            }
        "]],
    );
}

#[test]
fn an_unread_value_may_be_named_underscore() {
    check(
        "x:f32[4] -> _:f32[4] _:i32[4] = sort{dimension=0} x",
        &expect![[r"
            jaxpr main(a:f32[4]) {
              b:f32[4] c:i32[4] = sort{dimension=0} a
              return b, c
            }
        "]],
    );
}

#[test]
fn the_complete_form_says_everything() {
    check(
        r#"jaxpr "f.<locals>.g"(x:f32[2,B], key:key<fry>[]) names("params['w']", "key") @ "m.py":3 in f {
          const w:f32[2] = [1, -0.0] "blocks.0.kernel"
          const flags:bool[] = True
          z:f32[2,2*B + 1] = dot_general{mode=GatherScatterMode.CLIP; n=Dims(lhs=(1), size=B*2)} x w  @ "model.py":12:4-12:20 in f < library "flax/nn.py":30 in "<lambda>"  #~jit(f)/Transformer/"attn head"
          = token
          t:<token> = after z inf:f32[] [1, 2]:i32[2] (1.0, nan):c64[]
          return z, 0x7fc00001:f32[]
        }"#,
        &expect![[r#"
            jaxpr "f.<locals>.g"(a:f32[2,B], b:key<fry>[]) names("params['w']", "key") @ "m.py":3 in f {
              const c:f32[2] = [1.0, -0.0] "blocks.0.kernel"
              const d:bool[] = True
              e:f32[2,2*B + 1] = dot_general{mode=GatherScatterMode.CLIP; n=Dims(lhs=(1), size=2*B)} a c @ "model.py":12:4-12:20 in f < library "flax/nn.py":30 in "<lambda>" #~jit(f)/Transformer/"attn head"
              = token
              f:<token> = after e inf:f32[] [1, 2]:i32[2] (1.0, nan):c64[]
              return e, 0x7fc00001:f32[]
            }
        "#]],
    );
}

#[test]
fn a_nested_jaxpr_is_printed_in_place() {
    check(
        "x:f32[] -> y:f32[] = cond{branches=(jaxpr f(a:f32[]) { return a }, jaxpr g(a:f32[]) {
            b:f32[] = neg a
            return b
         }); linear=False} x",
        &expect![[r"
            jaxpr main(a:f32[]) {
              b:f32[] = cond{branches=(jaxpr f(a:f32[]) {
                  return a
                }, jaxpr g(a:f32[]) {
                  b:f32[] = neg a
                  return b
                }); linear=False} a
              return b
            }
        "]],
    );
}

#[test]
fn a_long_array_is_written_as_bytes() {
    let elements: Vec<_> = (0..17).map(|i| i.to_string()).collect();
    check(
        &format!("-> y:u8[17] = copy [{}]:u8[17]", elements.join(", ")),
        &expect![[r#"
            jaxpr main() {
              a:u8[17] = copy hex"000102030405060708090a0b0c0d0e0f10":u8[17]
              return a
            }
        "#]],
    );
}

#[test]
fn a_word_is_what_it_looks_like() {
    assert!(matches!(param("None"), Param::None));
    assert!(matches!(param("-3"), Param::Int(-3)));
    assert!(matches!(param("-3.0"), Param::Float(-3.0)));
    assert!(matches!(param("-inf"), Param::Float(f64::NEG_INFINITY)));
    assert!(matches!(param("f32"), Param::DType(_)));
    assert!(matches!(param("key<fry>"), Param::DType(_)));
    assert!(matches!(param("f32[3,B]"), Param::Aval(_)));
    assert!(matches!(param("B"), Param::Dim(_)));
    assert!(matches!(param("floordiv(B, 2) + 1"), Param::Dim(_)));
    assert!(matches!(param("dim(f32)"), Param::Dim(_)));
    assert!(matches!(param("Precision.HIGHEST"), Param::Enum(..)));
    assert!(matches!(param("Dims(a=1)"), Param::Record(..)));
    assert!(matches!(param("Mesh(...)"), Param::Opaque(_)));
    assert!(matches!(param("\"SAME\""), Param::Str(_)));
    assert!(matches!(param("array [1, 2]:i32[2]"), Param::Array(_)));
}

#[test]
fn an_error_says_where() {
    let refused = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(refused("x:f32[3] -> y:f32[3] = neg z"), "line 1, column 28: `z` is not defined");
    assert_eq!(refused("x:f32[3] -> x:f32[3] = neg x"), "line 1, column 13: `x` is defined twice");
    assert_eq!(
        refused("x:f32[3 -> y:f32[3] = neg x"),
        "line 1, column 10: expected a number or a symbol"
    );
    assert_eq!(refused("x:f32[] -> y:f32[] = mul x 2.0"), "line 1, column 31: expected `:`");
    assert_eq!(refused("x:f32[] -> y:f32[] = f{p=} x"), "line 1, column 26: expected a value");
    assert_eq!(refused("-> y:u8[] = f 256:u8[]"), "line 1, column 15: `256` is not a `u8`");
    assert_eq!(
        refused("-> y:u8[] = f [1]:u8[2]"),
        "line 1, column 15: 1 elements do not fill the shape [2]"
    );
    assert_eq!(refused("jaxpr f() {\n  é:f32[] = f \"\n}"), "line 2, column 15: expected a number");
    assert_eq!(refused("jaxpr f() {\n}"), "line 2, column 1: expected an equation or `return`");
    assert_eq!(refused("jaxpr f() { return } x"), "line 1, column 22: expected the end");
}
