//! Removes metadata from the bytes of a model, and restores it.
//!
//! Everything else stays unchanged, byte for byte: unknown fields, the order of fields, weights.

use std::ops::Range;

use super::ReadError;
use super::schema::{Field, Message};
use super::wire::{FieldBytes, FormatError, MessageBytes, write_field, write_varint};

/// A metadata entry and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The message that contains it, counted in the order in which they begin.
    pub message: u32,
    /// The number of bytes of the message before it, without the entries that were removed.
    pub at: u32,
    pub key: String,
    pub value: String,
}

/// Removes the entries whose key is `unwanted` from a model.
pub fn take(
    model: &[u8],
    unwanted: &dyn Fn(&str) -> bool,
) -> Result<(Vec<u8>, Vec<Entry>), ReadError> {
    let mut editor = Editor::new(unwanted, &[]);
    let clean = editor.edit(model)?;
    Ok((clean, editor.removed))
}

/// Puts entries back into the model that they were taken from. Returns nothing if they are from another model.
pub fn put(clean: &[u8], entries: &[Entry]) -> Result<Option<Vec<u8>>, ReadError> {
    let mut editor = Editor::new(&|_| false, entries);
    let model = editor.edit(clean)?;
    Ok(editor.inserted.is_empty().then_some(model))
}

/// Adds an entry to the metadata of the model itself.
pub fn push(model: &mut Vec<u8>, key: &str, value: &str) {
    write_entry(model, Message::Model, key, value);
}

/// Removes entries, or inserts them.
struct Editor<'a> {
    unwanted: &'a dyn Fn(&str) -> bool,
    removed: Vec<Entry>,
    /// The entries that are still to be inserted, in the order of their messages.
    inserted: &'a [Entry],
    /// The number of messages that began.
    messages: u32,
    /// The bytes to replace, in the order of their positions.
    patches: Vec<(Range<u64>, Vec<u8>)>,
}

impl<'a> Editor<'a> {
    fn new(unwanted: &'a dyn Fn(&str) -> bool, inserted: &'a [Entry]) -> Editor<'a> {
        Editor { unwanted, removed: Vec::new(), inserted, messages: 0, patches: Vec::new() }
    }

    fn edit(&mut self, model: &[u8]) -> Result<Vec<u8>, FormatError> {
        self.message(MessageBytes::new(Message::Model, model))?;
        let mut edited = Vec::with_capacity(model.len());
        let mut copied = 0;
        for (range, bytes) in self.patches.drain(..) {
            edited.extend_from_slice(&model[copied..range.start as usize]);
            edited.extend_from_slice(&bytes);
            copied = range.end as usize;
        }
        edited.extend_from_slice(&model[copied..]);
        Ok(edited)
    }

    /// Notes the changes in a message. Returns the number of bytes by which it grows.
    fn message(&mut self, message: MessageBytes<'_>) -> Result<i64, FormatError> {
        let (kind, range) = (message.kind(), message.range());
        let number = self.messages;
        // The format of source maps counts attributes too.
        let is_counted = kind.metadata() != Field::Unknown || kind == Message::Attribute;
        self.messages += u32::from(is_counted);
        let mut growth = 0;
        for field in message {
            let field = field?;
            let found = &field.found;
            let at = (found.start - range.start) as i64;
            growth += self.insert(kind, number, at, found.start);
            if found.id.is_metadata() {
                let (key, value) = field.pair()?;
                if (self.unwanted)(key) {
                    let (key, value) = (key.to_owned(), value.to_owned());
                    let at = (at + growth) as u32;
                    self.removed.push(Entry { message: number, at, key, value });
                    self.patches.push((found.start..found.content.end, Vec::new()));
                    growth -= field.encoded().len() as i64;
                }
            } else {
                growth += self.inside(&field)?;
            }
        }
        Ok(growth + self.insert(kind, number, (range.end - range.start) as i64, range.end))
    }

    /// Notes the changes in the message of a field, and in the number of its bytes.
    fn inside(&mut self, field: &FieldBytes<'_>) -> Result<i64, FormatError> {
        let Some(message) = field.nested()? else { return Ok(0) };
        let length = field.found.length.clone();
        let index = self.patches.len();
        self.patches.push((length.clone(), Vec::new()));
        let growth = self.message(message)?;
        if self.patches.len() == index + 1 {
            self.patches.pop();
            return Ok(0);
        }
        let encoded = &mut self.patches[index].1;
        write_varint(encoded, field.found.size().saturating_add_signed(growth));
        Ok(growth + encoded.len() as i64 - (length.end - length.start) as i64)
    }

    /// Notes the entries that are inserted at a position of a message, `at` bytes after its beginning. Returns
    /// the number of their bytes.
    fn insert(&mut self, kind: Message, message: u32, at: i64, position: u64) -> i64 {
        let mut bytes = Vec::new();
        while let Some((entry, rest)) = self.inserted.split_first()
            && (entry.message, i64::from(entry.at)) == (message, at)
            && kind.metadata() != Field::Unknown
        {
            write_entry(&mut bytes, kind, &entry.key, &entry.value);
            self.inserted = rest;
        }
        let size = bytes.len() as i64;
        if size > 0 {
            self.patches.push((position..position, bytes));
        }
        size
    }
}

fn write_entry(out: &mut Vec<u8>, message: Message, key: &str, value: &str) {
    let mut entry = Vec::with_capacity(key.len() + value.len() + 12);
    write_field(&mut entry, Field::StringStringEntryKey, key.as_bytes());
    write_field(&mut entry, Field::StringStringEntryValue, value.as_bytes());
    write_field(out, message.metadata(), &entry);
}
