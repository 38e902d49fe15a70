//! Reads protobuf fields in place.

/// The reason why bytes are not a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("it is truncated")]
    CutOff,
    #[error("a number has more than ten bytes")]
    Number,
    #[error("a field has the unknown kind {0}")]
    Kind(u8),
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) number: u64,
    /// All its bytes.
    pub(crate) whole: &'a [u8],
    /// The bytes of its tag.
    pub(crate) tag: &'a [u8],
    pub(crate) content: Content<'a>,
}

/// The contents of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    Number(u64),
    /// A message, a text, or numbers side by side.
    Bytes(&'a [u8]),
    Fixed64(u64),
    Fixed32(u32),
}

impl<'a> Field<'a> {
    pub(crate) fn bytes(&self) -> Option<&'a [u8]> {
        match self.content {
            Content::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// The fields of a message. After an error there are no more.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = field(self.0);
        self.0 = match &field {
            Ok(field) => &self.0[field.whole.len()..],
            Err(_) => &[],
        };
        Some(field)
    }
}

fn field(bytes: &[u8]) -> Result<Field<'_>, WireError> {
    let (tag, start) = varint(bytes)?;
    let rest = &bytes[start..];
    let (content, end) = match tag & 7 {
        0 => {
            let (number, size) = varint(rest)?;
            (Content::Number(number), start + size)
        }
        1 => {
            let fixed = rest.first_chunk::<8>().ok_or(WireError::CutOff)?;
            (Content::Fixed64(u64::from_le_bytes(*fixed)), start + 8)
        }
        2 => {
            let (length, size) = varint(rest)?;
            let length = usize::try_from(length).map_err(|_| WireError::CutOff)?;
            let content = rest[size..].get(..length).ok_or(WireError::CutOff)?;
            (Content::Bytes(content), start + size + length)
        }
        5 => {
            let fixed = rest.first_chunk::<4>().ok_or(WireError::CutOff)?;
            (Content::Fixed32(u32::from_le_bytes(*fixed)), start + 4)
        }
        kind => return Err(WireError::Kind(kind as u8)),
    };
    Ok(Field { number: tag >> 3, whole: &bytes[..end], tag: &bytes[..start], content })
}

/// Returns a number, and how many bytes it takes.
pub(crate) fn varint(bytes: &[u8]) -> Result<(u64, usize), WireError> {
    let mut number = 0;
    for (i, &byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Ok((number, i + 1));
        }
    }
    Err(if bytes.len() < 10 { WireError::CutOff } else { WireError::Number })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(bytes: &[u8]) -> Result<Vec<(u64, Content<'_>)>, WireError> {
        Fields(bytes).map(|field| field.map(|field| (field.number, field.content))).collect()
    }

    #[test]
    fn fields_are_read_in_place() {
        let bytes = [8, 150, 1, 18, 2, b'a', b'b', 29, 1, 0, 0, 0, 33, 2, 0, 0, 0, 0, 0, 0, 0];
        let expected = vec![
            (1, Content::Number(150)),
            (2, Content::Bytes(b"ab")),
            (3, Content::Fixed32(1)),
            (4, Content::Fixed64(2)),
        ];
        assert_eq!(contents(&bytes), Ok(expected));
    }

    #[test]
    fn bytes_that_are_not_a_message_are_refused() {
        for cut in [&[8][..], &[8, 150], &[18, 2, b'a'], &[29, 1, 0], &[33, 1], &[0x80]] {
            assert_eq!(contents(cut), Err(WireError::CutOff), "{cut:?}");
        }
        assert_eq!(contents(&[0x80; 12]), Err(WireError::Number));
        assert_eq!(contents(&[11]), Err(WireError::Kind(3)));
        let absurd = [18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0];
        assert_eq!(contents(&absurd), Err(WireError::CutOff));
    }
}
