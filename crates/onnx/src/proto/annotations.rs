//! Removes metadata from the bytes of a model, and restores it.
//!
//! Everything else stays unchanged, byte for byte: unknown fields, the order of fields, weights.

use super::ReadError;
use super::wire::{Field, Fields};

/// A metadata entry, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The message that holds it, counted in the order in which they begin.
    pub message: u32,
    /// The number of bytes of the message before it, without the entries that were taken.
    pub at: u32,
    pub key: String,
    pub value: String,
}

/// Takes the entries whose key is `unwanted` out of a model.
pub fn take(
    model: &[u8],
    unwanted: &dyn Fn(&str) -> bool,
) -> Result<(Vec<u8>, Vec<Entry>), ReadError> {
    let mut walk = Take { unwanted, messages: 0, entries: Vec::new() };
    let mut clean = Vec::with_capacity(model.len());
    walk.message(Kind::Model, model, &mut clean).ok_or(ReadError::Damaged)?;
    Ok((clean, walk.entries))
}

/// Puts entries back into the model that they were taken from; nothing if they are from another
/// model.
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
    /// Returns the number of the field that has the metadata.
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
            let field = field.ok()?;
            if let Some((key, value)) = entry(&field, kind)
                && (self.unwanted)(key)
            {
                let at = (out.len() - start) as u32;
                self.entries.push(Entry { message, at, key: key.into(), value: value.into() });
            } else if let Some((child, content)) = child(&field, kind) {
                let (messages, has_unwanted) = self.scan(child, content)?;
                if has_unwanted {
                    let mut inner = Vec::with_capacity(content.len());
                    self.message(child, content, &mut inner)?;
                    write_with(&field, &inner, out);
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

    /// Counts the messages in this one, itself included, and says whether one contains an unwanted
    /// entry.
    fn scan(&self, kind: Kind, content: &[u8]) -> Option<(u32, bool)> {
        let mut messages = 1;
        let mut has_unwanted = false;
        for field in Fields(content) {
            let field = field.ok()?;
            if let Some((key, _)) = entry(&field, kind) {
                has_unwanted |= (self.unwanted)(key);
            } else if let Some((child, content)) = child(&field, kind) {
                let (inner, has) = self.scan(child, content)?;
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
            let field = field.ok()?;
            self.entries_at(kind, message, at, out);
            at += field.whole.len();
            match child(&field, kind) {
                // Weights are not copied twice for nothing.
                Some((Kind::Tensor, _)) if !self.is_next(self.messages) => {
                    self.messages += 1;
                    out.extend_from_slice(field.whole);
                }
                Some((child, content)) => {
                    let before = self.entries.len();
                    let mut inner = Vec::with_capacity(content.len());
                    self.message(child, content, &mut inner)?;
                    if self.entries.len() == before {
                        out.extend_from_slice(field.whole);
                    } else {
                        write_with(&field, &inner, out);
                    }
                }
                None => out.extend_from_slice(field.whole),
            }
        }
        self.entries_at(kind, message, at, out);
        Some(())
    }

    /// True if the next entry is one of that message.
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

/// Returns the key and the value of a field that is a metadata entry.
fn entry<'a>(field: &Field<'a>, kind: Kind) -> Option<(&'a str, &'a str)> {
    if kind.metadata() != Some(field.number) {
        return None;
    }
    let (mut key, mut value) = ("", "");
    for field in Fields(field.bytes()?) {
        let field = field.ok()?;
        let text = std::str::from_utf8(field.bytes()?).ok()?;
        match field.number {
            1 => key = text,
            2 => value = text,
            _ => return None,
        }
    }
    Some((key, value))
}

/// Returns the contents of a field that is a message with metadata in it, and what it is.
fn child<'a>(field: &Field<'a>, kind: Kind) -> Option<(Kind, &'a [u8])> {
    Some((kind.child(field.number)?, field.bytes()?))
}

/// Writes a field with other contents.
fn write_with(field: &Field<'_>, content: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(field.tag);
    write_varint(out, content.len() as u64);
    out.extend_from_slice(content);
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
