//! The fields of the messages in a model. Every reader and writer of bytes uses this one table.

mod generated;

pub(super) use generated::{Field, Message};
use generated::{NAMES, ROWS};

/// The contents of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    /// An integer of any width, or a member of an enum.
    Int,
    Float,
    Double,
    Text,
    Bytes,
    Message(Message),
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    field: Field,
    message: Message,
    number: u32,
    name: &'static str,
    kind: FieldKind,
    is_repeated: bool,
}

const fn row(
    field: Field,
    message: Message,
    number: u32,
    name: &'static str,
    kind: FieldKind,
    is_repeated: bool,
) -> Row {
    Row { field, message, number, name, kind, is_repeated }
}

/// No field has a larger number.
const MAX_NUMBER: usize = 31;

/// The fields by message and number.
static BY_NUMBER: [[Field; MAX_NUMBER + 1]; NAMES.len()] = {
    let mut fields = [[Field::Unknown; MAX_NUMBER + 1]; NAMES.len()];
    let mut i = 0;
    while i < ROWS.len() {
        fields[ROWS[i].message as usize][ROWS[i].number as usize] = ROWS[i].field;
        i += 1;
    }
    fields
};

/// The fields for metadata by message.
static METADATA: [Field; NAMES.len()] = {
    let mut fields = [Field::Unknown; NAMES.len()];
    let mut i = 0;
    while i < ROWS.len() {
        if let b"metadata_props" = ROWS[i].name.as_bytes() {
            fields[ROWS[i].message as usize] = ROWS[i].field;
        }
        i += 1;
    }
    fields
};

/// True for each message that is a tensor or may contain one, at any depth.
static HAS_TENSORS: [bool; NAMES.len()] = {
    let mut has_tensors = [false; NAMES.len()];
    has_tensors[Message::Tensor as usize] = true;
    let mut i = 0;
    while i < ROWS.len() * NAMES.len() {
        let row = &ROWS[i % ROWS.len()];
        if let FieldKind::Message(inner) = row.kind {
            has_tensors[row.message as usize] |= has_tensors[inner as usize];
        }
        i += 1;
    }
    has_tensors
};

impl Message {
    /// Returns the name in `onnx.proto`.
    pub(super) fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    pub(super) fn field(self, number: u64) -> Field {
        let fields = &BY_NUMBER[self as usize];
        usize::try_from(number)
            .ok()
            .and_then(|number| fields.get(number))
            .map_or(Field::Unknown, |&field| field)
    }

    /// Returns the field for metadata; `Unknown` if the message has none.
    pub(super) fn metadata(self) -> Field {
        METADATA[self as usize]
    }
}

impl Field {
    fn row(self) -> Option<&'static Row> {
        ROWS.get(self as usize)
    }

    /// Returns the number; 0 for an unknown field.
    pub(super) fn number(self) -> u32 {
        self.row().map_or(0, |row| row.number)
    }

    /// Returns the kind of the contents, unless the field is unknown.
    pub(super) fn kind(self) -> Option<FieldKind> {
        self.row().map(|row| row.kind)
    }

    pub(super) fn is_repeated(self) -> bool {
        self.row().is_some_and(|row| row.is_repeated)
    }

    /// True if the field is a tensor or may contain one.
    pub(super) fn has_tensors(self) -> bool {
        matches!(self.kind(), Some(FieldKind::Message(message)) if HAS_TENSORS[message as usize])
    }

    /// True if the field is for metadata.
    pub(super) fn is_metadata(self) -> bool {
        self.row().is_some_and(|row| row.message.metadata() == self)
    }

    /// Returns the name in `onnx.proto`.
    pub(super) fn name(self) -> &'static str {
        self.row().map_or("", |row| row.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_found_by_its_number() {
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(row.field as usize, index, "{row:?}");
            assert_eq!(row.message.field(row.number.into()), row.field);
        }
        assert_eq!(Message::Graph.field(3), Field::Unknown);
        assert_eq!(Message::Graph.field(u64::MAX), Field::Unknown);
        assert_eq!(Field::Unknown as usize, ROWS.len());
    }
}
