use std::fmt::Write;

use expect_test::expect;

use prost::Message as _;

use super::*;
use crate::dtype::DType;
use crate::names::assign_names;
use crate::proto::generated::TensorProto;
use crate::proto::testing::{self, field};
use crate::proto::{no_metadata, to_bytes};
use crate::text::parse_graph;

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
    assert_eq!(refused(b"\x0b"), "this is not an ONNX model: a field has the unknown kind 3");
    let cut = field(Field::ModelGraph, [10, 5, b'a']);
    assert_eq!(
        refused(&cut),
        "this is not an ONNX model: it is truncated, in the `GraphProto` at byte 2"
    );
    let latin = testing::model(&[field(Field::GraphNode, field(Field::NodeName, b"caf\xe9"))]);
    assert_eq!(refused(&latin), "the text at byte 6, in a `NodeProto`, is not UTF-8");
    let wrong = field(Field::ModelGraph, [8, 1]);
    assert_eq!(
        refused(&wrong),
        "this is not an ONNX model: `node` has the wrong kind, in the `GraphProto` at byte 2"
    );
    let dims = field(Field::GraphInitializer, field(Field::TensorDims, [1, 0x80]));
    assert_eq!(
        refused(&testing::model(&[dims])),
        "the packed numbers at byte 6, in a `TensorProto`, are malformed"
    );
}

#[test]
fn bodies_and_types_may_not_be_nested_without_end() {
    let mut graph = Vec::new();
    let mut deepest = 0;
    for depth in 1..=150 {
        let attribute = field(Field::AttributeG, &graph);
        graph = field(Field::GraphNode, field(Field::NodeAttribute, attribute));
        if scan(&testing::model(&[graph.clone()])).is_ok() {
            deepest = depth;
        }
    }
    assert_eq!(deepest, 99);
    let deep = "messages are nested more than 300 deep";
    assert_eq!(refused(&testing::model(&[graph])), deep);
    let mut ty = Vec::new();
    for _ in 0..5000 {
        ty = field(Field::TypeSequenceType, field(Field::TypeSequenceElemType, ty));
    }
    let value = field(Field::GraphInput, field(Field::ValueInfoType, ty));
    assert_eq!(refused(&testing::model(&[value])), deep);
}

#[test]
fn a_small_file_cannot_ask_for_much_memory() {
    let bytes = testing::model(&[field(Field::GraphNode, b"").repeat(4096)]);
    assert!(scan_within(&bytes, 1 << 20).is_ok());
    assert_eq!(scan_within(&bytes, 1 << 19).unwrap_err(), FormatError::TooMany);
}

#[test]
fn an_attribute_has_its_last_value_and_a_function_the_attributes_with_defaults() {
    let ints = field(Field::AttributeInts, [1, 2]);
    let attribute = [field(Field::AttributeName, "axes"), ints, vec![8 << 3, 3, 0xa0, 1, 7]];
    let function = [
        field(Field::FunctionName, "f"),
        field(Field::FunctionAttribute, "alpha"),
        field(Field::FunctionAttributeProto, attribute.concat()),
        field(Field::FunctionNode, field(Field::NodeAttribute, attribute.concat())),
    ];
    let bytes = [field(Field::ModelFunctions, function.concat()), testing::model(&[])].concat();
    let scan = scan(&bytes).unwrap();
    assert_eq!(scan.functions().next().unwrap().attributes, ["alpha", "axes"]);
    let value = scan.nodes[0].attribute("axes").unwrap().value();
    assert_eq!(value, AttributeValue::Ints(vec![1, 2, 3]));
}

#[test]
fn sparse_tensors_with_other_indices_have_other_contents() {
    let tensor = |name: &str, indices: u8| {
        let values = [field(Field::TensorName, name), field(Field::TensorRawData, "1234")];
        let indices = field(Field::TensorRawData, [indices; 8]);
        let parts = [
            field(Field::SparseTensorValues, values.concat()),
            field(Field::SparseTensorIndices, indices),
        ];
        testing::model(&[field(Field::GraphSparseInitializer, parts.concat())])
    };
    let files = [tensor("a", 1), tensor("b", 1), tensor("a", 2)];
    let [a, b, c] =
        files.each_ref().map(|file| scan(file).unwrap().graphs.remove(0).initializers.remove(0));
    assert_eq!((a.has_contents_of(&b), a.has_contents_of(&c)), (Some(true), Some(false)));
}

#[test]
fn the_numbers_of_a_list_are_the_contents_of_a_tensor() {
    let tensor = |dtype: DType, id: Field, list: &[u8]| {
        let proto = TensorProto { data_type: Some(dtype.code()), ..TensorProto::default() };
        let parts = [proto.encode_to_vec(), field(Field::TensorName, "w"), field(id, list)];
        testing::model(&[field(Field::GraphInitializer, parts.concat())])
    };
    let listed = |file: &[u8]| {
        scan(file).unwrap().graphs.remove(0).initializers.remove(0).listed().map(|it| it.to_vec())
    };
    let floats = [1.5f32.to_le_bytes(), (-3.0f32).to_le_bytes()].concat();
    let float_list = tensor(DType::F32, Field::TensorFloatData, &floats);
    assert_eq!(listed(&float_list), Some(floats.clone()));
    // Each number of the list is a variable number of bytes: 1 and 300, which do not fit a byte.
    let ints = tensor(DType::I32, Field::TensorInt32Data, &[1, 0xac, 2]);
    assert_eq!(listed(&ints), Some([1i32.to_le_bytes(), 300i32.to_le_bytes()].concat()));
    let raw = tensor(DType::F32, Field::TensorRawData, &floats);
    assert_eq!(listed(&raw), None);
}

#[test]
fn every_beginning_of_a_model_is_read_or_refused() {
    let bytes = model();
    for end in 0..bytes.len() {
        let _ = scan(&bytes[..end]);
    }
}
