//! Compares the inferred types with those that onnx infers, and symbols with numbers.

use super::rules::unknown;
use super::*;
use crate::model::Model;
use crate::operator::OpType;
use crate::operator::properties::CONTROL_FLOW;
use crate::text::parse_graph;

/// Graphs of one node each, with the types that onnx infers.
fn cases() -> impl Iterator<Item = (&'static str, Model)> {
    let texts = include_str!("cases.txt").split("\n\n").skip(1);
    texts.map(|text| (text, parse_graph(text).unwrap()))
}

fn infer(model: &Model) -> Inferred {
    let node = &model.graph.nodes[0];
    // The operator may be newer than the opset of the text.
    Call::of_node(node, &model.values, 23).types()
}

fn stated(model: &Model) -> Types {
    let outputs = &model.graph.nodes[0].outputs;
    outputs.iter().map(|&output| model.values[output].ty.clone()).collect()
}

#[test]
fn the_types_of_results_are_those_that_onnx_infers() {
    for (text, model) in cases() {
        assert_eq!(infer(&model), Ok(stated(&model)), "{text}");
    }
}

#[test]
fn the_types_of_loops_and_branches_are_those_of_their_bodies() {
    let bodies = [
        "graph g(x:f32[3]) -> (y, s)
y:f32[3], s:f32[5,3] = Loop(5:i64, true, x) {body={
  graph b(i:i64[], c:bool[], a:f32[3]) -> (c, n, n)
  n:f32[3] = Neg(a)
}}",
        "graph g(x:f32[3], z:f32[B,4]) -> (y, s)
y:f32[3], s:f32[3,B] = Scan(x, z) {body={
  graph b(a:f32[3], e:f32[4]) -> (n, m)
  n:f32[3] = Neg(a)
  m:f32[3] = Abs(a)
}, num_scan_inputs=1, scan_output_axes=[-1]}",
        "graph g(x:f32[3], c:bool[]) -> (y)
y:f32[3] = If(c) {else_branch={
  graph no() -> (a)
  a:f32[3] = Neg(x)
}, then_branch={
  graph yes() -> (b)
  b:f32[3] = Abs(x)
}}",
    ];
    for text in bodies {
        let model = parse_graph(text).unwrap();
        assert_eq!(infer(&model), Ok(stated(&model)), "{text}");
        let open = text.replace("5:i64, true", "_, true").replace("b:f32[3]", "b:f32[4]");
        let model = parse_graph(&open).unwrap();
        let is_known = infer(&model).unwrap().iter().all(Option::is_some);
        assert_eq!(is_known, open == text, "{open}");
    }
}

#[test]
fn every_operator_with_a_rule_has_a_case() {
    let tested: Vec<OpType> =
        cases().filter_map(|(_, model)| model.graph.nodes[0].op.onnx()).collect();
    // onnx does not infer the first one, and the others do not read tensors.
    let others = [OpType::GroupNormalization, OpType::OptionalHasElement, OpType::SequenceLength];
    for op in OpType::ALL {
        let has_rule = !std::ptr::fn_addr_eq(op.row().infer, unknown as Rule);
        let is_elsewhere = op.is(CONTROL_FLOW) || others.contains(op);
        assert!(!has_rule || is_elsewhere || tested.contains(op), "{op} has no case");
    }
}

/// Replaces some sizes of inputs with symbols.
const SYMBOLS: [(i64, &str); 2] = [(7, "B"), (11, "S")];

fn with_symbols(model: &mut Model) {
    let symbol = |dim: &Dim| {
        let found = SYMBOLS.iter().find(|(size, _)| dim.is(*size));
        found.map_or_else(|| dim.clone(), |(_, name)| Dim::symbol(*name))
    };
    for &input in &model.graph.inputs {
        if let Some(ty) = &mut model.values[input].ty {
            ty.shape = ty.shape.iter().map(symbol).collect();
        }
    }
}

fn with_numbers(ty: &Type) -> Type {
    let number = |dim: &Dim| {
        let value = dim.value(&|symbol| {
            let found = SYMBOLS.iter().find(|(_, name)| symbol.to_string() == *name);
            found.unwrap_or_else(|| panic!("no size is called {symbol}")).0
        });
        Dim::Known(value.unwrap().try_into().unwrap())
    };
    Type::new(ty.dtype, ty.shape.iter().map(number).collect::<Vec<Dim>>())
}

#[test]
fn sizes_with_symbols_are_those_of_numbers() {
    let mut unknown = Vec::new();
    for (text, mut model) in cases() {
        let wanted = stated(&model);
        with_symbols(&mut model);
        match infer(&model) {
            Ok(types) => {
                let found: Types = types.iter().map(|ty| ty.as_ref().map(with_numbers)).collect();
                assert_eq!(found, wanted, "{text}");
            }
            Err(NotInferred::Unknown) => unknown.extend(text.lines().skip(1)),
            Err(NotInferred::Invalid(why)) => panic!("{why}: {text}"),
        }
    }
    expect_test::expect![[r#"
        y0:f32[7,11] = Squeeze(x0)
        y0:f32[2,3,11], y1:f32[2,3,11], y2:f32[2,1,11] = Split(x0) {axis=1, num_outputs=3}
        y0:f32[2,4,3] = Slice(x0, [1, -3]:i64, [5, 9223372036854775807]:i64, [1, 2]:i64)
        y0:f32[2,4,3] = Slice(x0, [0, 0]:i64, [-2, 9]:i64, [-1, 1]:i64, [3, 2]:i64)
        y0:f32[1,2,11] = Slice(x0, [0, 2]:i64, [1, 4]:i64)"#]]
    .assert_eq(&unknown.join("\n"));
}
