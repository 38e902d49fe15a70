//! Metadata that is taken out of the bytes of a model, and put back where it stood.
//!
//! Everything else stays as it is, byte by byte, whoever wrote the model: unknown fields, the order
//! of fields, weights.

use super::ReadError;

/// A metadata entry, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The message that holds it, counted in the order in which they begin.
    pub message: u32,
    /// How many bytes of the message stand before it, without the entries that were taken.
    pub at: u32,
    pub key: String,
    pub value: String,
}

/// The model without the entries whose key is `unwanted`, and those.
pub fn take(
    model: &[u8],
    unwanted: &dyn Fn(&str) -> bool,
) -> Result<(Vec<u8>, Vec<Entry>), ReadError> {
    let mut walk = Take { unwanted, messages: 0, entries: Vec::new() };
    let mut clean = Vec::with_capacity(model.len());
    walk.message(Kind::Model, model, &mut clean).ok_or(ReadError::Damaged)?;
    Ok((clean, walk.entries))
}

/// The model with the entries that were taken from it, or nothing where they are another model's.
pub fn put(clean: &[u8], entries: &[Entry]) -> Result<Option<Vec<u8>>, ReadError> {
    let mut walk = Put { entries, messages: 0 };
    let mut model = Vec::with_capacity(clean.len());
    walk.message(Kind::Model, clean, &mut model).ok_or(ReadError::Damaged)?;
    Ok(walk.entries.is_empty().then_some(model))
}

/// Adds an entry to the metadata of the model itself.
pub fn push(model: &mut Vec<u8>, key: &str, value: &str) {
    write_entry(model, Kind::Model, key, value);
}

/// A message that has metadata, or that holds one that has.
#[derive(Clone, Copy)]
enum Kind {
    Model,
    Graph,
    Function,
    Node,
    Attribute,
    Tensor,
    ValueInfo,
}

impl Kind {
    /// The number of the field that has the metadata.
    fn metadata(self) -> Option<u64> {
        match self {
            Kind::Model | Kind::Function => Some(14),
            Kind::Graph | Kind::Tensor => Some(16),
            Kind::Node => Some(9),
            Kind::ValueInfo => Some(4),
            Kind::Attribute => None,
        }
    }

    fn child(self, field: u64) -> Option<Kind> {
        match (self, field) {
            (Kind::Model, 7) | (Kind::Attribute, 6 | 11) => Some(Kind::Graph),
            (Kind::Model, 25) => Some(Kind::Function),
            (Kind::Graph, 1) | (Kind::Function, 7) => Some(Kind::Node),
            (Kind::Graph, 5) | (Kind::Attribute, 5 | 10) => Some(Kind::Tensor),
            (Kind::Graph, 11..=13) | (Kind::Function, 12) => Some(Kind::ValueInfo),
            (Kind::Node, 5) | (Kind::Function, 11) => Some(Kind::Attribute),
            _ => None,
        }
    }
}

struct Take<'a> {
    unwanted: &'a dyn Fn(&str) -> bool,
    messages: u32,
    entries: Vec<Entry>,
}

impl Take<'_> {
    /// Copies what stays of a message.
    fn message(&mut self, kind: Kind, content: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let message = self.messages;
        self.messages += 1;
        let start = out.len();
        for field in Fields(content) {
            let field = field?;
            if let Some((key, value)) = field.entry(kind)
                && (self.unwanted)(key)
            {
                let at = (out.len() - start) as u32;
                self.entries.push(Entry { message, at, key: key.into(), value: value.into() });
            } else if let Some(child) = field.child(kind) {
                let (messages, has_unwanted) = self.scan(child, field.payload)?;
                if has_unwanted {
                    let mut inner = Vec::with_capacity(field.payload.len());
                    self.message(child, field.payload, &mut inner)?;
                    field.write_with(&inner, out);
                } else {
                    self.messages += messages;
                    out.extend_from_slice(field.whole);
                }
            } else {
                out.extend_from_slice(field.whole);
            }
        }
        Some(())
    }

    /// How many messages there are from this one inwards, and whether one has what is unwanted.
    fn scan(&self, kind: Kind, content: &[u8]) -> Option<(u32, bool)> {
        let mut messages = 1;
        let mut has_unwanted = false;
        for field in Fields(content) {
            let field = field?;
            if let Some((key, _)) = field.entry(kind) {
                has_unwanted |= (self.unwanted)(key);
            } else if let Some(child) = field.child(kind) {
                let (inner, has) = self.scan(child, field.payload)?;
                messages += inner;
                has_unwanted |= has;
            }
        }
        Some((messages, has_unwanted))
    }
}

struct Put<'a> {
    /// Those that are still to be put, in the order of their messages.
    entries: &'a [Entry],
    messages: u32,
}

impl Put<'_> {
    /// Copies a message with what was taken from it.
    fn message(&mut self, kind: Kind, content: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let message = self.messages;
        self.messages += 1;
        let mut at = 0;
        for field in Fields(content) {
            let field = field?;
            self.entries_at(kind, message, at, out);
            at += field.whole.len();
            match field.child(kind) {
                // Weights are not copied twice for nothing.
                Some(Kind::Tensor) if !self.is_next(self.messages) => {
                    self.messages += 1;
                    out.extend_from_slice(field.whole);
                }
                Some(child) => {
                    let before = self.entries.len();
                    let mut inner = Vec::with_capacity(field.payload.len());
                    self.message(child, field.payload, &mut inner)?;
                    if self.entries.len() == before {
                        out.extend_from_slice(field.whole);
                    } else {
                        field.write_with(&inner, out);
                    }
                }
                None => out.extend_from_slice(field.whole),
            }
        }
        self.entries_at(kind, message, at, out);
        Some(())
    }

    /// Whether the next entry is one of that message.
    fn is_next(&self, message: u32) -> bool {
        self.entries.first().is_some_and(|entry| entry.message == message)
    }

    fn entries_at(&mut self, kind: Kind, message: u32, at: usize, out: &mut Vec<u8>) {
        while let Some((entry, rest)) = self.entries.split_first()
            && (entry.message, entry.at as usize) == (message, at)
        {
            write_entry(out, kind, &entry.key, &entry.value);
            self.entries = rest;
        }
    }
}

/// A field of a message.
struct Field<'a> {
    number: u64,
    /// All its bytes.
    whole: &'a [u8],
    /// The bytes of its tag.
    tag: &'a [u8],
    /// The contents of a message or a text; empty for a number.
    payload: &'a [u8],
    has_length: bool,
}

impl<'a> Field<'a> {
    /// The key and the value of a metadata entry.
    fn entry(&self, kind: Kind) -> Option<(&'a str, &'a str)> {
        if !self.has_length || kind.metadata() != Some(self.number) {
            return None;
        }
        let (mut key, mut value) = ("", "");
        for field in Fields(self.payload) {
            let field = field?;
            let text = std::str::from_utf8(field.payload).ok()?;
            match (field.number, field.has_length) {
                (1, true) => key = text,
                (2, true) => value = text,
                _ => return None,
            }
        }
        Some((key, value))
    }

    fn child(&self, kind: Kind) -> Option<Kind> {
        kind.child(self.number).filter(|_| self.has_length)
    }

    /// Writes the field with other contents.
    fn write_with(&self, payload: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.tag);
        write_varint(out, payload.len() as u64);
        out.extend_from_slice(payload);
    }
}

/// The fields of a message; `None` is one that is cut off or of a kind that is not known.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Option<Field<'a>>;

    fn next(&mut self) -> Option<Option<Field<'a>>> {
        if self.0.is_empty() {
            return None;
        }
        let field = field(self.0);
        self.0 = field.as_ref().map_or(&[], |field| &self.0[field.whole.len()..]);
        Some(field)
    }
}

fn field(bytes: &[u8]) -> Option<Field<'_>> {
    let (tag, after_tag) = varint(bytes)?;
    let (start, length) = match tag & 7 {
        0 => (after_tag, varint(&bytes[after_tag..])?.1),
        1 => (after_tag, 8),
        2 => {
            let (length, size) = varint(&bytes[after_tag..])?;
            (after_tag + size, usize::try_from(length).ok()?)
        }
        5 => (after_tag, 4),
        _ => return None,
    };
    let end = start.checked_add(length)?;
    let has_length = tag & 7 == 2;
    let payload = bytes.get(start..end)?;
    Some(Field {
        number: tag >> 3,
        whole: bytes.get(..end)?,
        tag: &bytes[..after_tag],
        payload: if has_length { payload } else { &[] },
        has_length,
    })
}

/// A number, and how many bytes it takes.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (i, &byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((number, i + 1));
        }
    }
    None
}

fn write_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn write_entry(out: &mut Vec<u8>, kind: Kind, key: &str, value: &str) {
    let mut entry = Vec::with_capacity(key.len() + value.len() + 12);
    for (field, text) in [(1, key), (2, value)] {
        write_varint(&mut entry, field << 3 | 2);
        write_varint(&mut entry, text.len() as u64);
        entry.extend_from_slice(text.as_bytes());
    }
    write_varint(out, kind.metadata().unwrap_or_default() << 3 | 2);
    write_varint(out, entry.len() as u64);
    out.extend_from_slice(&entry);
}
