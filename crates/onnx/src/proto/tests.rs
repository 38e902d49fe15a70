use std::io::Cursor;

use prost::Message;

use super::annotations::{put, take};
use super::generated::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto,
    StringStringEntryProto, TensorProto, TrainingInfoProto, ValueInfoProto,
};
use super::scan::scan;
use super::wire::FormatError;
use super::*;

#[test]
fn strings_are_packed_with_their_lengths() {
    let data = pack_strings([&b"ab"[..], b"", b"c"]);
    assert_eq!(unpack_strings(&data), Some(vec![&b"ab"[..], b"", b"c"]));
    assert_eq!(unpack_strings(&data[..data.len() - 1]), None);
}

/// A model of prost with a tensor in every possible field, each with a separate file and with metadata.
#[derive(Default)]
struct Everywhere {
    tensors: usize,
    metadata: usize,
}

impl Everywhere {
    fn entry(&mut self) -> Vec<StringStringEntryProto> {
        self.metadata += 1;
        let value = Some(self.metadata.to_string());
        vec![StringStringEntryProto { key: Some("secret".into()), value }]
    }

    fn tensor(&mut self) -> TensorProto {
        self.tensors += 1;
        let property = |key: &str, value: String| StringStringEntryProto {
            key: Some(key.into()),
            value: Some(value),
        };
        let location = property("location", format!("file{:02}", self.tensors));
        TensorProto {
            external_data: vec![property("offset", "0".into()), location],
            metadata_props: self.entry(),
            dims: vec![2, 3],
            ..TensorProto::default()
        }
    }

    fn sparse(&mut self) -> SparseTensorProto {
        let (values, indices) = (Some(self.tensor()), Some(self.tensor()));
        SparseTensorProto { values, indices, dims: vec![7] }
    }

    fn value(&mut self) -> ValueInfoProto {
        ValueInfoProto { metadata_props: self.entry(), ..ValueInfoProto::default() }
    }

    fn attribute(&mut self, depth: usize) -> AttributeProto {
        let mut graphs: Vec<GraphProto> = (0..2 * depth).map(|_| self.graph(depth - 1)).collect();
        AttributeProto {
            t: Some(self.tensor()),
            tensors: vec![self.tensor(), self.tensor()],
            sparse_tensor: Some(self.sparse()),
            sparse_tensors: vec![self.sparse()],
            g: graphs.pop(),
            graphs,
            ..AttributeProto::default()
        }
    }

    fn node(&mut self, depth: usize) -> NodeProto {
        NodeProto {
            attribute: vec![self.attribute(depth)],
            metadata_props: self.entry(),
            ..NodeProto::default()
        }
    }

    fn graph(&mut self, depth: usize) -> GraphProto {
        GraphProto {
            node: vec![self.node(depth)],
            initializer: vec![self.tensor()],
            sparse_initializer: vec![self.sparse()],
            input: vec![self.value()],
            output: vec![self.value()],
            value_info: vec![self.value()],
            metadata_props: self.entry(),
            ..GraphProto::default()
        }
    }

    fn model(&mut self) -> Vec<u8> {
        let model = ModelProto {
            graph: Some(self.graph(1)),
            functions: vec![FunctionProto {
                node: vec![self.node(0)],
                attribute_proto: vec![self.attribute(0)],
                value_info: vec![self.value()],
                metadata_props: self.entry(),
                ..FunctionProto::default()
            }],
            training_info: vec![TrainingInfoProto {
                initialization: Some(self.graph(0)),
                algorithm: Some(self.graph(0)),
                ..TrainingInfoProto::default()
            }],
            metadata_props: self.entry(),
            ..ModelProto::default()
        };
        model.encode_to_vec()
    }
}

#[test]
fn every_reader_finds_the_tensors_and_the_metadata_at_every_place() {
    let mut everywhere = Everywhere::default();
    let bytes = everywhere.model();
    let Everywhere { tensors, metadata } = everywhere;
    let mut named: Vec<String> = (1..=tensors).map(|i| format!("file{i:02}")).collect();
    named.sort();
    assert_eq!(locations(Cursor::new(&bytes)).unwrap(), named);
    let found = scan(&bytes).unwrap().tensors();
    let mut found: Vec<String> = found.map(|tensor| tensor.external[1].1.to_owned()).collect();
    found.sort();
    assert_eq!(found, named);
    let (clean, entries) = take(&bytes, &|key| key == "secret").unwrap();
    assert_eq!(entries.len(), metadata);
    assert!(!clean.windows(6).any(|window| window == b"secret"));
    assert!(ModelProto::decode(&*clean).is_ok());
    assert!(put(&clean, &entries).unwrap() == Some(bytes));
}

#[test]
fn every_reader_refuses_the_same_bytes() {
    let bytes = Everywhere::default().model();
    // Only readers of the contents of a field can detect these errors.
    let is_about_contents = |error: &FormatError| {
        use FormatError::{FileName, NoGraph, Packed, Utf8};
        matches!(error, Utf8 { .. } | Packed { .. } | FileName { .. } | NoGraph)
    };
    let (mut accepted, mut refused) = (0, 0);
    let mut check = |bytes: &[u8], change: &dyn std::fmt::Debug| {
        let errors = [
            scan(bytes).err(),
            locations(Cursor::new(bytes))
                .err()
                .and_then(|error| error.into_inner()?.downcast::<FormatError>().ok())
                .map(|error| *error),
            take(bytes, &|_| true).err().map(|error| match error {
                ReadError::Format(error) => error,
                ReadError::Protobuf(error) => panic!("{error}"),
            }),
        ];
        if errors.iter().flatten().any(is_about_contents) {
            return;
        }
        // `locations` skips the fields that cannot contain tensors.
        let [scan, locations, take] = errors.each_ref().map(Option::is_some);
        assert!(scan == take && (scan || !locations), "{change:?}: {errors:?}");
        *(if locations { &mut refused } else { &mut accepted }) += 1;
    };
    for at in (0..bytes.len()).step_by(13) {
        check(&bytes[..at], &at);
        let mut bytes = bytes.clone();
        let flipped = [1, 2, 7, 8, 0x80][at % 5];
        bytes[at] ^= flipped;
        check(&bytes, &(at, flipped));
    }
    assert!(accepted > 100 && refused > 100, "{accepted} {refused}");
}

#[test]
fn an_entry_with_an_unknown_field_is_removed_too() {
    use super::schema::Field;
    use super::testing::{field, model};
    let entry = [field(Field::StringStringEntryKey, "secret"), vec![9 << 3, 1]].concat();
    let node = field(Field::GraphNode, field(Field::NodeMetadataProps, entry));
    let (clean, entries) = take(&model(&[node]), &|key| key == "secret").unwrap();
    assert_eq!((clean, entries.len()), (model(&[field(Field::GraphNode, "")]), 1));
}
