use super::*;
use crate::proto::testing::field;

/// Returns the numbers of the fields and their contents.
fn contents(bytes: &[u8]) -> Result<Vec<(u64, &[u8])>, FormatError> {
    let fields = MessageBytes::new(Message::Model, bytes);
    fields.map(|field| field.map(|field| (field.number(), field.bytes()))).collect()
}

fn refused(message: Message, bytes: &[u8]) -> String {
    let mut fields = MessageBytes::new(message, bytes).walk(|_| true);
    fields.find_map(Result::err).map_or("accepted".into(), |error| error.to_string())
}

#[test]
fn fields_are_read_in_place() {
    // A number, a text, and unknown fields of all kinds.
    let bytes = [8, 150, 1, 18, 2, b'a', b'b', 77, 1, 0, 0, 0, 81, 2, 0, 0, 0, 0, 0, 0, 0, 88, 1];
    let expected: [(u64, &[u8]); 5] = [
        (1, &[150, 1]),
        (2, b"ab"),
        (9, &[1, 0, 0, 0]),
        (10, &[2, 0, 0, 0, 0, 0, 0, 0]),
        (11, &[1]),
    ];
    assert_eq!(contents(&bytes).unwrap(), expected);
    let mut fields = MessageBytes::new(Message::Model, &bytes);
    assert_eq!(fields.next().unwrap().unwrap().int(), 150);
    assert_eq!(fields.next().unwrap().unwrap().text(), Ok("ab"));
}

#[test]
fn bytes_that_are_not_a_message_are_refused() {
    let why = |bytes: &[u8]| match contents(bytes) {
        Err(FormatError::Encoding { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    for cut in [&[8][..], &[8, 150], &[18, 2, b'a'], &[77, 1, 0], &[81, 1], &[0x80]] {
        assert_eq!(why(cut), EncodingError::Truncated, "{cut:?}");
    }
    let huge = [18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0];
    assert_eq!(why(&huge), EncodingError::Truncated);
    assert_eq!(why(&[0x80; 12]), EncodingError::Number);
    // The beginning and the end of a group, which `onnx.proto` does not use.
    assert_eq!(why(&[11]), EncodingError::Kind(3));
    assert_eq!(why(&[12]), EncodingError::Kind(4));
    assert_eq!(why(&[0, 0]), EncodingError::FieldNumber);
    assert_eq!(why(&[0x88, 0x80, 0x80, 0x80, 0x10, 0]), EncodingError::FieldNumber);
}

#[test]
fn a_field_has_the_kind_of_the_table() {
    // `graph` is a number, `ir_version` is bytes.
    let wrong = "this is not an ONNX model: `graph` has the wrong kind";
    assert_eq!(refused(Message::Model, &[7 << 3, 1]), wrong);
    assert!(refused(Message::Model, &[1 << 3 | 2, 0]).contains("`ir_version` has the wrong kind"));
    // Repeated numbers may be packed or not, but not have another width.
    for dims in [&[1 << 3, 2][..], &[1 << 3 | 2, 2, 2, 3]] {
        assert_eq!(refused(Message::Tensor, dims), "accepted");
    }
    let fixed = [1 << 3 | 5, 0, 0, 0, 0];
    assert!(refused(Message::Tensor, &fixed).contains("`dims` has the wrong kind"));
}

#[test]
fn packed_and_single_numbers_are_the_same() {
    let ints = |bytes: &[u8]| {
        let fields = MessageBytes::new(Message::Attribute, bytes).map(Result::unwrap);
        fields.flat_map(|field| field.ints()).collect::<Result<Vec<i64>, FormatError>>()
    };
    assert_eq!(ints(&[8 << 3, 1, 8 << 3 | 2, 3, 2, 150, 1, 8 << 3, 3]), Ok(vec![1, 2, 150, 3]));
    assert!(ints(&[8 << 3 | 2, 2, 2, 150]).is_err());
    let floats =
        [&[7 << 3 | 5][..], &1f32.to_le_bytes(), &[7 << 3 | 2, 4], &2f32.to_le_bytes()].concat();
    let fields = MessageBytes::new(Message::Attribute, &floats).map(Result::unwrap);
    assert_eq!(fields.flat_map(|field| field.floats()).collect::<Vec<_>>(), [1.0, 2.0]);
}

#[test]
fn a_message_that_occurs_twice_is_refused_and_of_numbers_the_last_counts() {
    let two = field(Field::ModelGraph, "").repeat(2);
    let wrong = "this is not an ONNX model: `graph` occurs twice";
    assert_eq!(refused(Message::Model, &two), wrong);
    assert_eq!(refused(Message::Model, &field(Field::ModelFunctions, "").repeat(2)), "accepted");
    assert_eq!(refused(Message::Model, &[1 << 3, 7, 1 << 3, 8]), "accepted");
}

#[test]
fn nesting_has_a_bound() {
    let mut bytes = Vec::new();
    let mut deepest = 0;
    for depth in (1..=MAX_DEPTH + 1).step_by(2) {
        bytes = field(Field::TypeSequenceType, field(Field::TypeSequenceElemType, bytes));
        if refused(Message::Type, &bytes) == "accepted" {
            deepest = depth + 1;
        }
    }
    assert_eq!(deepest, MAX_DEPTH);
    assert_eq!(refused(Message::Type, &bytes), "messages are nested more than 300 deep");
}

#[test]
fn a_file_is_read_like_memory() {
    let text = vec![b'a'; 3 * FileSource::<io::Cursor<&[u8]>>::BLOCK as usize];
    let names = (0..5000).flat_map(|i| field(Field::NodeInput, format!("v{i}")));
    let node = [names.collect(), field(Field::NodeDocString, &text)].concat();
    let graph = field(Field::GraphNode, &node).repeat(3);
    let model = [field(Field::ModelGraph, &graph), field(Field::ModelProducerName, "p")].concat();
    let mut file = FileSource::new(io::Cursor::new(&model));
    let mut walk = Walk::new(Fields::of_model(model.len() as u64));
    let mut found = Vec::new();
    while let Some(field) = walk.next(&mut file).unwrap() {
        found.push((field.id, field.content));
    }
    let memory = MessageBytes::new(Message::Model, &model).walk(|_| true).map(Result::unwrap);
    assert!(found.iter().cloned().eq(memory.map(|field| (field.id(), field.found.content))));
    assert_eq!(found.len(), 3 * 5002 + 2);
    // A file that became shorter counts as truncated.
    let mut file = FileSource::new(io::Cursor::new(&model[..model.len() - 3]));
    let mut walk = Walk::new(Fields::of_model(model.len() as u64));
    let end = std::iter::from_fn(|| walk.next(&mut file).transpose()).last();
    assert!(end.unwrap().unwrap_err().to_string().contains("it is truncated"));
}
