//! Reads the bytes of messages, from memory or from a file. Only this module knows how protobuf encodes a field.
//!
//! A file is untrusted. Reading a field costs the same whatever its contents are, and contents are read only on
//! request.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use super::schema::{Field, FieldKind, Message};

/// Messages nested more deeply are refused. Protobuf's own readers stop at 100.
const MAX_DEPTH: u32 = 300;

/// The largest number of bytes before the contents of a field: two numbers.
const MAX_HEADER: u64 = 20;

/// The longest name of a file, in bytes.
const MAX_FILE_NAME: u64 = 4096;

/// The reason why bytes are not a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    #[error("this is not an ONNX model: {why}{}", place(message, *at))]
    Encoding { message: &'static str, at: u64, why: EncodingError },
    #[error("this is not an ONNX model: `{field}` has the wrong kind{}", place(message, *at))]
    Kind { message: &'static str, at: u64, field: &'static str },
    #[error("this is not an ONNX model: `{field}` occurs twice{}", place(message, *at))]
    Twice { message: &'static str, at: u64, field: &'static str },
    #[error("the text at byte {at}, in a `{message}`, is not UTF-8")]
    Utf8 { message: &'static str, at: u64 },
    #[error("the packed numbers at byte {at}, in a `{message}`, are malformed")]
    Packed { message: &'static str, at: u64 },
    #[error("the name of the file at byte {at} has more than {MAX_FILE_NAME} bytes")]
    FileName { at: u64 },
    #[error("messages are nested more than {MAX_DEPTH} deep")]
    Nested,
    #[error("this is not an ONNX model: it has no graph")]
    NoGraph,
    #[error("the file has more entries than a model can have")]
    TooMany,
}

/// Names the message that an error is in. The whole file needs no name.
fn place(message: &str, at: u64) -> String {
    if at == 0 { String::new() } else { format!(", in the `{message}` at byte {at}") }
}

/// The reason why bytes are not a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodingError {
    #[error("it is truncated")]
    Truncated,
    #[error("a number has more than ten bytes")]
    Number,
    #[error("a field has an invalid number")]
    FieldNumber,
    #[error("a field has the unknown kind {0}")]
    Kind(u8),
}

impl From<FormatError> for io::Error {
    fn from(error: FormatError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

/// The bytes of a model, in memory or in a file.
pub(super) trait Source {
    type Error: From<FormatError>;

    /// Returns up to `size` bytes; fewer only if the source ends.
    fn peek(&mut self, at: u64, size: u64) -> Result<&[u8], Self::Error>;

    /// Returns the contents of a field that is the name of a file.
    fn file_name(&mut self, found: &FieldSpan) -> Result<&str, Self::Error> {
        let (message, at) = (found.message.name(), found.content.start);
        if found.size() > MAX_FILE_NAME {
            return Err(FormatError::FileName { at }.into());
        }
        let name = std::str::from_utf8(self.peek(at, found.size())?);
        name.map_err(|_| FormatError::Utf8 { message, at }.into())
    }
}

impl Source for &[u8] {
    type Error = FormatError;

    fn peek(&mut self, at: u64, size: u64) -> Result<&[u8], FormatError> {
        Ok(slice(self, &(at..at.saturating_add(size).min(self.len() as u64))))
    }
}

/// A file with one block of it in memory.
pub(super) struct FileSource<F> {
    file: F,
    block: Vec<u8>,
    /// The position of the block.
    start: u64,
}

impl<F: Read + Seek> FileSource<F> {
    /// The number of bytes to read at once, at least [`MAX_FILE_NAME`].
    const BLOCK: u64 = 1 << 13;

    pub(super) fn new(file: F) -> FileSource<F> {
        FileSource { file, block: Vec::new(), start: 0 }
    }
}

impl<F: Read + Seek> Source for FileSource<F> {
    type Error = io::Error;

    fn peek(&mut self, at: u64, size: u64) -> io::Result<&[u8]> {
        let end = at.saturating_add(size);
        if at < self.start || end > self.start + self.block.len() as u64 {
            self.block.clear();
            self.file.seek(SeekFrom::Start(at))?;
            (&mut self.file).take(Self::BLOCK).read_to_end(&mut self.block)?;
            self.start = at;
        }
        let end = end.min(self.start + self.block.len() as u64);
        Ok(slice(&self.block, &(at - self.start..end - self.start)))
    }
}

/// Returns a range of bytes. The caller knows that all of them exist.
fn slice<'a>(bytes: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    bytes.get(range.start as usize..range.end as usize).unwrap_or_default()
}

/// The fields of a message from `at` on, which are not read yet.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    message: Message,
    start: u64,
    at: u64,
    end: u64,
    depth: u32,
    /// The message fields that occurred, one bit per field number.
    seen: u32,
}

/// The position of a field in a file.
#[derive(Clone, Debug)]
pub(super) struct FieldSpan {
    pub(super) id: Field,
    pub(super) number: u64,
    /// The position of its first byte.
    pub(super) start: u64,
    /// The positions of the contents.
    pub(super) content: Range<u64>,
    /// The positions of the length of the contents; empty if the encoding has none.
    pub(super) length: Range<u64>,
    encoding: Encoding,
    message: Message,
    depth: u32,
}

/// The encoding of the contents of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Varint,
    Fixed64,
    Fixed32,
    /// A message, a text, or packed numbers.
    Bytes,
}

impl Fields {
    /// Returns the fields of a model with this many bytes.
    pub(super) fn of_model(size: u64) -> Fields {
        Fields::of(Message::Model, 0..size, 0)
    }

    fn of(message: Message, content: Range<u64>, depth: u32) -> Fields {
        Fields {
            message,
            start: content.start,
            at: content.start,
            end: content.end,
            depth,
            seen: 0,
        }
    }

    /// Reads the next field. After an error, there are no more fields.
    pub(super) fn next<S: Source>(
        &mut self,
        source: &mut S,
    ) -> Result<Option<FieldSpan>, S::Error> {
        let start = std::mem::replace(&mut self.at, self.end);
        if start >= self.end {
            return Ok(None);
        }
        let header = source.peek(start, MAX_HEADER.min(self.end - start))?;
        let (message, at) = (self.message.name(), self.start);
        let found =
            self.parse(start, header).map_err(|why| FormatError::Encoding { message, at, why })?;
        if !found.has_right_kind() {
            return Err(FormatError::Kind { message, at, field: found.id.name() }.into());
        }
        if matches!(found.id.kind(), Some(FieldKind::Message(_))) && !found.id.is_repeated() {
            let bit = 1 << found.id.number();
            if self.seen & bit != 0 {
                return Err(FormatError::Twice { message, at, field: found.id.name() }.into());
            }
            self.seen |= bit;
        }
        self.at = found.content.end;
        Ok(Some(found))
    }

    /// Reads the field at `position`, which starts with these bytes.
    fn parse(&self, position: u64, header: &[u8]) -> Result<FieldSpan, EncodingError> {
        let (tag, tag_size) = varint(header)?;
        let number = tag >> 3;
        if number == 0 || tag > u64::from(u32::MAX) {
            return Err(EncodingError::FieldNumber);
        }
        let rest = &header[tag_size..];
        let start = position + tag_size as u64;
        let (encoding, length, size) = match tag & 7 {
            0 => (Encoding::Varint, 0, varint(rest)?.1 as u64),
            1 => (Encoding::Fixed64, 0, 8),
            2 => {
                let (size, length) = varint(rest)?;
                (Encoding::Bytes, length as u64, size)
            }
            5 => (Encoding::Fixed32, 0, 4),
            kind => return Err(EncodingError::Kind(kind as u8)),
        };
        let content = start + length;
        let end = content.checked_add(size).filter(|&end| end <= self.end);
        Ok(FieldSpan {
            id: self.message.field(number),
            number,
            start: position,
            length: start..content,
            content: content..end.ok_or(EncodingError::Truncated)?,
            encoding,
            message: self.message,
            depth: self.depth,
        })
    }
}

impl FieldSpan {
    /// Returns the number of bytes of the contents.
    pub(super) fn size(&self) -> u64 {
        self.content.end - self.content.start
    }

    /// Returns the fields of the message in this field, if there is one.
    pub(super) fn fields(&self) -> Result<Option<Fields>, FormatError> {
        let Some(FieldKind::Message(message)) = self.id.kind() else { return Ok(None) };
        if self.depth == MAX_DEPTH {
            return Err(FormatError::Nested);
        }
        Ok(Some(Fields::of(message, self.content.clone(), self.depth + 1)))
    }

    /// True if the contents are encoded as the table says. Repeated numbers may be packed or not.
    fn has_right_kind(&self) -> bool {
        let Some(kind) = self.id.kind() else { return true };
        let single = match kind {
            FieldKind::Int => Encoding::Varint,
            FieldKind::Float => Encoding::Fixed32,
            FieldKind::Double => Encoding::Fixed64,
            FieldKind::Text | FieldKind::Bytes | FieldKind::Message(_) => Encoding::Bytes,
        };
        self.encoding == single || (self.encoding == Encoding::Bytes && self.id.is_repeated())
    }
}

/// Visits the fields of a message, and those of all messages in it.
pub(super) struct Walk {
    open: Vec<Fields>,
    /// The message in the last field.
    inner: Option<Fields>,
}

impl Walk {
    pub(super) fn new(fields: Fields) -> Walk {
        Walk { open: vec![fields], inner: None }
    }

    /// Returns the next field. If the last field contains a message, that is the first field in it. After an error,
    /// there are no more fields.
    pub(super) fn next<S: Source>(
        &mut self,
        source: &mut S,
    ) -> Result<Option<FieldSpan>, S::Error> {
        self.open.extend(self.inner.take());
        while let Some(fields) = self.open.last_mut() {
            let found = fields.next(source).inspect_err(|_| self.open.clear())?;
            if let Some(found) = found {
                self.inner = found.fields().inspect_err(|_| self.open.clear())?;
                return Ok(Some(found));
            }
            self.open.pop();
        }
        Ok(None)
    }

    /// Skips the fields of the message in the last field.
    pub(super) fn pass(&mut self) {
        self.inner = None;
    }
}

/// A message in memory; the iterator returns its fields.
#[derive(Clone, Debug)]
pub(super) struct MessageBytes<'a> {
    /// The bytes that all positions refer to.
    whole: &'a [u8],
    fields: Fields,
}

/// A field in memory.
#[derive(Clone, Debug)]
pub(super) struct FieldBytes<'a> {
    whole: &'a [u8],
    pub(super) found: FieldSpan,
}

impl<'a> MessageBytes<'a> {
    pub(super) fn new(message: Message, bytes: &'a [u8]) -> MessageBytes<'a> {
        MessageBytes { whole: bytes, fields: Fields::of(message, 0..bytes.len() as u64, 0) }
    }

    pub(super) fn kind(&self) -> Message {
        self.fields.message
    }

    /// Returns the positions of the fields that are not read yet.
    pub(super) fn range(&self) -> Range<u64> {
        self.fields.at..self.fields.end
    }

    /// Returns the fields of this message and of all messages in it that `is_entered` accepts.
    pub(super) fn walk(
        self,
        is_entered: impl Fn(Field) -> bool,
    ) -> impl Iterator<Item = Result<FieldBytes<'a>, FormatError>> {
        let MessageBytes { mut whole, fields } = self;
        let mut walk = Walk::new(fields);
        std::iter::from_fn(move || {
            let found = walk.next(&mut whole).transpose()?;
            if found.as_ref().is_ok_and(|found| !is_entered(found.id)) {
                walk.pass();
            }
            Some(found.map(|found| FieldBytes { whole, found }))
        })
    }
}

impl<'a> Iterator for MessageBytes<'a> {
    type Item = Result<FieldBytes<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.fields.next(&mut self.whole).transpose()?;
        Some(found.map(|found| FieldBytes { whole: self.whole, found }))
    }
}

impl<'a> FieldBytes<'a> {
    pub(super) fn id(&self) -> Field {
        self.found.id
    }

    pub(super) fn number(&self) -> u64 {
        self.found.number
    }

    pub(super) fn is_message(&self) -> bool {
        matches!(self.id().kind(), Some(FieldKind::Message(_)))
    }

    /// Returns the contents.
    pub(super) fn bytes(&self) -> &'a [u8] {
        slice(self.whole, &self.found.content)
    }

    /// Returns the whole field.
    pub(super) fn encoded(&self) -> &'a [u8] {
        slice(self.whole, &(self.found.start..self.found.content.end))
    }

    pub(super) fn text(&self) -> Result<&'a str, FormatError> {
        let (message, at) = (self.found.message.name(), self.found.content.start);
        std::str::from_utf8(self.bytes()).map_err(|_| FormatError::Utf8 { message, at })
    }

    /// Returns the message in this field, if there is one.
    pub(super) fn nested(&self) -> Result<Option<MessageBytes<'a>>, FormatError> {
        let whole = self.whole;
        Ok(self.found.fields()?.map(|fields| MessageBytes { whole, fields }))
    }

    /// Returns the fields of the message in this field; none if the field has another kind.
    pub(super) fn message(
        &self,
    ) -> Result<impl Iterator<Item = Result<FieldBytes<'a>, FormatError>> + use<'a>, FormatError>
    {
        Ok(self.nested()?.into_iter().flatten())
    }

    /// Checks that the field is valid.
    pub(super) fn check(&self) -> Result<(), FormatError> {
        match self.nested()? {
            Some(message) => message.walk(|_| true).try_for_each(|field| field.map(drop)),
            None => Ok(()),
        }
    }

    /// Returns the key and the value of an entry.
    pub(super) fn pair(&self) -> Result<(&'a str, &'a str), FormatError> {
        let mut pair = ("", "");
        for field in self.message()? {
            let field = field?;
            match field.id() {
                Field::StringStringEntryKey => pair.0 = field.text()?,
                Field::StringStringEntryValue => pair.1 = field.text()?,
                _ => {}
            }
        }
        Ok(pair)
    }

    /// Returns the number of an `int` field; 0 for other fields.
    pub(super) fn int(&self) -> i64 {
        self.ints().next().and_then(Result::ok).unwrap_or_default()
    }

    /// Returns the numbers of an `int` field, packed or not.
    pub(super) fn ints(&self) -> impl Iterator<Item = Result<i64, FormatError>> + use<'a> {
        let mut rest = self.bytes();
        let (message, at) = (self.found.message.name(), self.found.content.start);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let number = varint(rest);
            rest = number.map_or(&[], |(_, size)| &rest[size..]);
            Some(number.map(|it| it.0 as i64).map_err(|_| FormatError::Packed { message, at }))
        })
    }

    /// Returns the numbers of a `float` field, packed or not.
    pub(super) fn floats(&self) -> impl Iterator<Item = f32> + use<'a> {
        self.bytes().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes))
    }
}

/// Returns a number and its size in bytes.
fn varint(bytes: &[u8]) -> Result<(u64, usize), EncodingError> {
    // Most numbers are small.
    if let &[byte @ ..0x80, ..] = bytes {
        return Ok((byte.into(), 1));
    }
    let mut number = 0;
    for (i, &byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Ok((number, i + 1));
        }
    }
    Err(if bytes.len() < 10 { EncodingError::Truncated } else { EncodingError::Number })
}

pub(super) fn write_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes the header of a field whose contents have this many bytes.
pub(super) fn begin_field(out: &mut Vec<u8>, field: Field, size: usize) {
    write_varint(out, u64::from(field.number()) << 3 | 2);
    write_varint(out, size as u64);
}

/// Writes a field that is a message, a text or bytes.
pub(super) fn write_field(out: &mut Vec<u8>, field: Field, content: &[u8]) {
    begin_field(out, field, content.len());
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests;
