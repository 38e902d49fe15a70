//! Reads small messages, and the fields of any message.

use super::super::wire::{Content, Fields, WireError};
use super::{Pair, ScanError};

/// The file, and how much of what it says may still be kept.
pub(super) struct Reader<'a> {
    pub(super) whole: &'a [u8],
    memory: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(whole: &'a [u8], memory: usize) -> Reader<'a> {
        Reader { whole, memory }
    }

    /// Returns the fields of a message.
    pub(super) fn fields(
        &self,
        message: &'static str,
        content: &'a [u8],
    ) -> impl Iterator<Item = Result<Known<'a>, ScanError>> + use<'a> {
        let whole = self.whole;
        let at = offset(whole, content);
        Fields(content).map(move |field| match field {
            Ok(field) => {
                Ok(Known { message, at, whole, number: field.number, content: field.content })
            }
            Err(why) => Err(ScanError::Wire { message, at, why }),
        })
    }

    /// Keeps an entry, if there is room for it.
    pub(super) fn push<T>(&mut self, list: &mut Vec<T>, entry: T) -> Result<(), ScanError> {
        // An entry of a list takes at most twice its size, because lists grow by doubling.
        self.memory = self.memory.checked_sub(size_of::<T>()).ok_or(ScanError::TooMany)?;
        list.push(entry);
        Ok(())
    }
}

/// Returns the offset of a part of the file.
fn offset(whole: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize)
}

/// A field of a message whose name is known.
pub(super) struct Known<'a> {
    message: &'static str,
    at: usize,
    whole: &'a [u8],
    pub(super) number: u64,
    pub(super) content: Content<'a>,
}

impl<'a> Known<'a> {
    pub(super) fn message(&self) -> Result<&'a [u8], ScanError> {
        match self.content {
            Content::Bytes(bytes) => Ok(bytes),
            _ => Err(self.wrong()),
        }
    }

    pub(super) fn text(&self) -> Result<&'a str, ScanError> {
        let bytes = self.message()?;
        let at = || offset(self.whole, bytes);
        std::str::from_utf8(bytes).map_err(|_| ScanError::Utf8 { message: self.message, at: at() })
    }

    pub(super) fn int(&self) -> Result<i64, ScanError> {
        match self.content {
            Content::Number(number) => Ok(number as i64),
            _ => Err(self.wrong()),
        }
    }

    pub(super) fn wrong(&self) -> ScanError {
        ScanError::Field { message: self.message, field: self.number, at: self.at }
    }

    pub(super) fn wire(&self, why: WireError) -> ScanError {
        ScanError::Wire { message: self.message, at: self.at, why }
    }
}

/// Returns a `StringStringEntryProto`.
pub(super) fn pair<'a>(reader: &Reader<'a>, content: &'a [u8]) -> Result<Pair<'a>, ScanError> {
    let mut pair = ("", "");
    for field in reader.fields("StringStringEntryProto", content) {
        let field = field?;
        match field.number {
            1 => pair.0 = field.text()?,
            2 => pair.1 = field.text()?,
            _ => {}
        }
    }
    Ok(pair)
}

/// Returns an `OperatorSetIdProto`.
pub(super) fn opset<'a>(
    reader: &Reader<'a>,
    content: &'a [u8],
) -> Result<(&'a str, i64), ScanError> {
    let mut opset = ("", 0);
    for field in reader.fields("OperatorSetIdProto", content) {
        let field = field?;
        match field.number {
            1 => opset.0 = field.text()?,
            2 => opset.1 = field.int()?,
            _ => {}
        }
    }
    Ok(opset)
}

/// Returns the domain and the name of a function.
pub(super) fn function_name<'a>(
    reader: &Reader<'a>,
    content: &'a [u8],
) -> Result<(&'a str, &'a str), ScanError> {
    let (mut domain, mut name) = ("", "");
    for field in reader.fields("FunctionProto", content) {
        let field = field?;
        match field.number {
            1 => name = field.text()?,
            10 => domain = field.text()?,
            _ => {}
        }
    }
    Ok((domain, name))
}
