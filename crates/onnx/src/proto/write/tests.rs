use std::sync::Arc;

use bytes::Bytes;
use provenance::{Origin, Site};

use super::*;
use crate::names::assign_names;
use crate::proto::read;
use crate::text::parse_graph;
use crate::value::Value;

fn model(text: &str) -> Model {
    let mut model = parse_graph(text).unwrap();
    assign_names(&mut model);
    model
}

#[test]
fn more_than_protobuf_holds_is_refused_before_anything_is_written() {
    let mut model = model("graph f(x:f32[]) -> (y)\ny:f32[] = Sum(x)");
    let data = Bytes::from(vec![0; 1 << 26]);
    for i in 0..32 {
        let (dtype, shape, data) = (DType::U8, vec![1 << 26], data.clone());
        let id = model.values.add(Value {
            name: Some(format!("w{i}").into()),
            tensor: Some(Arc::new(Tensor::new(dtype, shape, data))),
            ..Value::default()
        });
        model.graph.nodes[0].inputs.push(Some(id));
    }
    let error = Message::new(&model, &mut no_metadata).err().unwrap();
    assert!(matches!(error, WriteError::TooLarge { bytes } if bytes > 1 << 31), "{error}");
}

#[test]
fn weights_are_shared_and_not_copied() {
    let model = model("graph f(x:f32[2048]) -> (y)\ny:f32[2048] = Add(x, const f32[2048])");
    let (_, initializers) = model_proto(&model, &mut no_metadata, None).unwrap();
    let id = model.graph.nodes[0].inputs[1].unwrap();
    let tensor = model.values[id].tensor.as_ref().unwrap();
    assert!(Arc::ptr_eq(initializers[0].contents.as_ref().unwrap(), tensor));
}

#[test]
fn weights_are_listed_once_in_the_order_of_first_use() {
    let model = model(
        "graph f(c:bool[]) -> (y)
         a = 1.0
         b = 2.0
         unused = 3.0
         y:f32[] = If(c) {else_branch={
           graph no() -> (n)
           n = Add(b, a)
         }, then_branch={
           graph yes() -> (m)
           m = Neg(b)
         }}",
    );
    let (_, initializers) = model_proto(&model, &mut no_metadata, None).unwrap();
    let names: Vec<_> =
        initializers.iter().map(|tensor| tensor.proto.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["b", "a"]);
}

#[test]
fn rendered_metadata_replaces_the_metadata_that_was_read() {
    let mut model = model("graph f(x:f32[]) -> (y)\ny:f32[] = Add(x, 1.0)");
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    model.graph.nodes[0].metadata = vec![pair("pkg.k", "old"), pair("other", "kept")];
    let site = model.provenance.site(Site { stack: None, scope: None, emitter: None });
    let folded = model.provenance.origin(Origin::of(site));
    let constant = model.graph.nodes[0].inputs[1].unwrap();
    model.values[constant].origin = Some(folded);
    let mut render =
        |origin| vec![("pkg.k", if origin == folded { "folded" } else { "new" }.to_owned())];
    let (proto, initializers) = model_proto(&model, &mut render, None).unwrap();
    let graph = proto.graph.unwrap();
    let expected = [property("other", "kept"), property("pkg.k", "new")];
    assert_eq!(graph.node[0].metadata_props, expected);
    assert_eq!(initializers[0].proto.metadata_props, [property("pkg.k", "folded")]);
}

#[test]
fn a_value_without_a_name_is_refused() {
    let model = parse_graph("graph f(x:f32[]) -> (%0)\n%0:f32[] = Neg(x)").unwrap();
    let error = to_bytes(&model, &mut no_metadata).unwrap_err();
    assert_eq!(error.to_string(), "value 1 has no name");
}

#[test]
fn metadata_of_values_is_read_as_it_was_written() {
    let mut model = model(
        "graph f(x:f32[]) -> (y)
         w = const f32[]
         z:f32[] = Add(x, w)
         y:f32[] = Neg(z)",
    );
    let names = ["x", "w", "z", "y"];
    for id in model.values.ids() {
        let value = &mut model.values[id];
        let name = value.name.as_deref().unwrap_or_default();
        value.metadata = vec![("pkg.k".to_owned(), format!("of {name}"))];
    }
    let bytes = to_bytes(&model, &mut no_metadata).unwrap();
    let again = read(bytes.into()).unwrap();
    for name in names {
        let named = |id: &ValueId| again.values[*id].name.as_deref() == Some(name);
        let id = again.values.ids().find(named).unwrap();
        assert_eq!(again.values[id].metadata, [("pkg.k".to_owned(), format!("of {name}"))]);
    }
}
