use super::*;
use crate::proto::generated::TensorShapeProto;
use crate::proto::generated::tensor_shape_proto::Dimension;
use crate::proto::schema::Field;
use crate::proto::testing::field;

#[track_caller]
fn check(proto: TensorProto, expected: &[u8]) {
    let dtype = DType::from_code(proto.data_type.unwrap()).unwrap();
    assert_eq!(contents(dtype, proto), expected);
}

fn of_type(dtype: DType) -> TensorProto {
    TensorProto { data_type: Some(dtype.code()), ..TensorProto::default() }
}

fn model(graph: GraphProto) -> Result<Model, DecodeError> {
    let proto = ModelProto { ir_version: Some(10), graph: Some(graph), ..ModelProto::default() };
    read(proto.encode_to_vec().into())
}

#[test]
fn typed_contents_become_bytes() {
    let ints = |dtype| TensorProto { int32_data: vec![1, -1], ..of_type(dtype) };
    check(ints(DType::I32), &[1, 0, 0, 0, 255, 255, 255, 255]);
    check(ints(DType::F16), &[1, 0, 255, 255]);
    check(ints(DType::I8), &[1, 255]);
    check(ints(DType::I4), &[1, 255]);
    check(
        TensorProto { float_data: vec![1.0, 0.0], ..of_type(DType::C64) },
        &[0, 0, 128, 63, 0, 0, 0, 0],
    );
    check(TensorProto { int64_data: vec![-2], ..of_type(DType::I64) }, &(-2_i64).to_le_bytes());
    check(TensorProto { double_data: vec![0.5], ..of_type(DType::F64) }, &0.5_f64.to_le_bytes());
    check(TensorProto { uint64_data: vec![7], ..of_type(DType::U32) }, &[7, 0, 0, 0]);
    check(TensorProto { uint64_data: vec![7], ..of_type(DType::U64) }, &7_u64.to_le_bytes());
    check(
        TensorProto { string_data: vec![b"a".to_vec()], ..of_type(DType::String) },
        b"\x01\0\0\0a",
    );
}

#[test]
fn a_file_that_is_not_a_model_is_refused_with_a_reason() {
    let error = read(Bytes::from_static(b"hello")).unwrap_err().to_string();
    assert!(error.starts_with("this is not an ONNX model: "), "{error}");
    assert!(matches!(read(Bytes::new()), Err(DecodeError::NoGraph)));
    let huge = TensorProto {
        dims: vec![i64::MAX, i64::MAX],
        name: Some("w".into()),
        ..of_type(DType::F32)
    };
    let graph = GraphProto { initializer: vec![huge], ..GraphProto::default() };
    assert!(matches!(model(graph), Err(DecodeError::Contents { .. })));
    let node =
        NodeProto { op_type: Some("Neg".into()), input: vec!["x".into()], ..NodeProto::default() };
    let graph = GraphProto { node: vec![node], ..GraphProto::default() };
    assert_eq!(
        model(graph).unwrap_err().to_string(),
        "`Neg` reads `x`, which nothing before it defines"
    );
}

#[test]
fn axes_of_unknown_size_are_all_different_and_stay_unknown() {
    let shape = TensorShapeProto { dim: vec![Dimension::default(), Dimension::default()] };
    let tensor = type_proto::Tensor { elem_type: Some(1), shape: Some(shape) };
    let ty =
        TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() };
    let input =
        ValueInfoProto { name: Some("x".into()), r#type: Some(ty), ..ValueInfoProto::default() };
    let graph = GraphProto { input: vec![input], ..GraphProto::default() };
    let model = model(graph.clone()).unwrap();
    assert_eq!(model.text().to_string(), "graph ``(x:f32[?0,?1]) -> ()\n");
    let bytes = crate::proto::to_bytes(&model, &mut crate::proto::no_metadata).unwrap();
    assert_eq!(ModelProto::decode(&*bytes).unwrap().graph.unwrap().input, graph.input);
}

#[test]
fn nesting_has_a_bound() {
    let mut graph = Vec::new();
    for _ in 0..7000 {
        let attribute = field(Field::AttributeG, &graph);
        graph = field(Field::GraphNode, field(Field::NodeAttribute, attribute));
    }
    let error = read(field(Field::ModelGraph, graph).into()).unwrap_err().to_string();
    assert!(error.contains("recursion limit"), "{error}");
}
