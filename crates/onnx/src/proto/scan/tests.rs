use std::fmt::Write;

use expect_test::expect;
use provenance::outline::Place;

use super::*;
use crate::names::assign_names;
use crate::proto::{no_metadata, to_bytes};
use crate::text::parse_graph;

/// Reads a field with contents of a length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(content);
    bytes
}

fn refused(bytes: &[u8]) -> String {
    scan(bytes).unwrap_err().to_string()
}

fn model() -> Vec<u8> {
    let mut model = parse_graph(
        "graph f(c:bool[], x:f32[B,2]) -> (y)
         %0 = Add(x, 1.5)
         y:f32[B,2] = If(c) {else_branch={
           graph no() -> (%3)
           %3 = my::Add(%0, %0)
         }, then_branch={
           graph yes() -> (%4)
           %4 = LeakyRelu(%0) {alpha=0.5}
         }}
         function local::g(%0) -> (y)
         y = ReduceSum(%0) {keepdims=1}",
    )
    .unwrap();
    assign_names(&mut model);
    to_bytes(&model, &mut no_metadata).unwrap()
}

#[test]
fn a_model_is_read_without_its_weights() {
    let bytes = model();
    let scan = scan(&bytes).unwrap();
    let mut text = String::new();
    for graph in &scan.graphs {
        let _ = writeln!(text, "{:?} {}", graph.place, graph.name);
        for (what, list) in [("in", &graph.inputs), ("out", &graph.outputs)] {
            for value in list {
                let ty = value.ty.as_ref().map(ToString::to_string);
                let _ = writeln!(text, "  {what} {} {}", value.name, ty.unwrap_or_default());
            }
        }
        for tensor in &graph.initializers {
            let _ = writeln!(text, "  {} {} {:?}", tensor.name, tensor.type_text(), tensor.bytes());
        }
        for node in &scan.nodes[graph.nodes.clone()] {
            let values: Vec<_> = node.attributes.iter().map(|a| (a.name, a.value())).collect();
            let _ = writeln!(text, "  {} {:?} {values:?}", node.op_with_domain(), node.inputs);
        }
    }
    expect![[r#"
        Main f
          in c bool[]
          in x f32[B,2]
          out y f32[B,2]
          Add.const f32[] Some(4)
          Add ["x", "Add.const"] []
          If ["c"] [("else_branch", Graphs), ("then_branch", Graphs)]
        Function("local::g") g
          in g.input_0 
          out y_1 
          ReduceSum ["g.input_0"] [("keepdims", Int(1))]
        Body { node: 1, attribute: "else_branch" } no
          out Add_1 
          my::Add ["Add", "Add"] []
        Body { node: 1, attribute: "then_branch" } yes
          out LeakyRelu 
          LeakyRelu ["Add"] [("alpha", Float(0.5))]
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_broken_file_is_described() {
    assert_eq!(refused(b""), "this is not an ONNX model: it has no graph");
    assert_eq!(refused(b"\x00\x00"), "this is not an ONNX model: it has no graph");
    assert_eq!(
        refused(b"\x0b"),
        "this is not an ONNX model: a field has the unknown kind 3, in the `ModelProto` at byte 0"
    );
    let two = [field(7, b""), field(7, b"")].concat();
    assert_eq!(refused(&two), "this is not an ONNX model: it has two graphs");
    let cut = field(7, &[10, 5, b'a']);
    assert_eq!(
        refused(&cut),
        "this is not an ONNX model: it is truncated, in the `GraphProto` at byte 2"
    );
    let latin = field(7, &field(1, &field(3, b"caf\xe9")));
    assert_eq!(refused(&latin), "the text at byte 6, in a `NodeProto`, is not UTF-8");
    let wrong = field(7, &[8, 1]);
    assert_eq!(
        refused(&wrong),
        "this is not an ONNX model: field 1 of the `GraphProto` at byte 2 has the wrong kind"
    );
}

#[test]
fn bodies_and_types_may_not_be_nested_without_end() {
    let mut graph = Vec::new();
    let mut deepest = 0;
    for depth in 1..=MAX_NESTED + 1 {
        graph = field(1, &field(5, &field(6, &graph)));
        if scan(&field(7, &graph)).is_ok() {
            deepest = depth;
        }
    }
    assert_eq!(deepest, MAX_NESTED);
    assert_eq!(refused(&field(7, &graph)), "graphs or types are nested more than 100 deep");
    let mut ty = Vec::new();
    for _ in 0..5000 {
        ty = field(4, &field(1, &ty));
    }
    let value = field(7, &field(11, &field(2, &ty)));
    assert_eq!(refused(&value), "graphs or types are nested more than 100 deep");
}

#[test]
fn a_small_file_cannot_ask_for_much_memory() {
    let bytes = field(1, b"").repeat(4096);
    let mut reader = Reader::new(&bytes, 1000);
    let error = read_graph(&mut reader, &bytes, Place::Main, None, 0).unwrap_err();
    assert_eq!(error, ScanError::TooMany);
}

#[test]
fn every_beginning_of_a_model_is_read_or_refused() {
    let bytes = model();
    for end in 0..bytes.len() {
        let _ = scan(&bytes[..end]);
    }
}
