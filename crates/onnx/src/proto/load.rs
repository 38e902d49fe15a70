//! Reads a model file without its large weights.

use std::io::{self, Read, Seek, SeekFrom};

use super::wire::varint;

/// Smaller weights are read with what is around them.
const MIN_SKIPPED: usize = 1 << 16;

/// The number of bytes that are read at once, at least.
const BLOCK: usize = 1 << 16;

/// The kinds of messages in which weights are.
#[derive(Clone, Copy)]
enum Kind {
    Model,
    Graph,
    Function,
    Node,
    Attribute,
    SparseTensor,
    Tensor,
}

impl Kind {
    /// Returns the kind of the message in a field, if weights may be in it.
    fn inner(self, field: u64) -> Option<Kind> {
        Some(match (self, field) {
            (Kind::Model, 7) | (Kind::Attribute, 6 | 11) => Kind::Graph,
            (Kind::Model, 25) => Kind::Function,
            (Kind::Graph, 1) | (Kind::Function, 7) => Kind::Node,
            (Kind::Graph, 5) | (Kind::Attribute, 5 | 10) | (Kind::SparseTensor, 1 | 2) => {
                Kind::Tensor
            }
            (Kind::Graph, 15) | (Kind::Attribute, 22 | 23) => Kind::SparseTensor,
            (Kind::Node, 5) => Kind::Attribute,
            _ => return None,
        })
    }
}

/// Reads the first `size` bytes of a model. Zeros replace the contents of large weights, and take no memory
/// until somebody looks at them. Bytes that are not a model are read as they are.
pub fn without_weights(file: &mut (impl Read + Seek), size: usize) -> io::Result<Vec<u8>> {
    let mut loader = Loader { file, bytes: vec![0; size], loaded: 0 };
    // The messages around the current position, each with its end.
    let mut around = vec![(Kind::Model, size)];
    let mut at = 0;
    while let Some(&(kind, end)) = around.last() {
        if at >= end {
            around.pop();
            continue;
        }
        let Some((field, wire, start)) = loader.tag(at, end)? else { break };
        let after = match wire {
            0 => loader.number(start, end)?.map(|(_, after)| after),
            1 => start.checked_add(8),
            5 => start.checked_add(4),
            2 => match loader.number(start, end)? {
                Some((length, content)) => {
                    let after = usize::try_from(length).ok().and_then(|l| content.checked_add(l));
                    let is_large = length >= MIN_SKIPPED as u64;
                    if let (Some(inner), Some(after)) = (kind.inner(field), after)
                        && is_large
                        && after <= end
                    {
                        around.push((inner, after));
                        at = content;
                        continue;
                    }
                    if let (Kind::Tensor, 9, true, Some(after)) = (kind, field, is_large, after)
                        && after <= end
                    {
                        loader.skip(after)?;
                    }
                    after
                }
                None => None,
            },
            _ => None,
        };
        match after.filter(|&after| after <= end) {
            Some(after) => {
                loader.load(after)?;
                at = after;
            }
            None => break,
        }
    }
    loader.load(size)?;
    Ok(loader.bytes)
}

struct Loader<'f, F> {
    file: &'f mut F,
    bytes: Vec<u8>,
    /// The bytes before this one were read or skipped, and the file is at it.
    loaded: usize,
}

impl<F: Read + Seek> Loader<'_, F> {
    fn load(&mut self, end: usize) -> io::Result<()> {
        if end > self.loaded {
            let end = end.max(self.loaded + BLOCK).min(self.bytes.len());
            self.file.read_exact(&mut self.bytes[self.loaded..end])?;
            self.loaded = end;
        }
        Ok(())
    }

    fn skip(&mut self, end: usize) -> io::Result<()> {
        if end > self.loaded {
            self.file.seek(SeekFrom::Start(end as u64))?;
            self.loaded = end;
        }
        Ok(())
    }

    /// Reads a field's number and the kind of its contents; nothing if they are malformed.
    fn tag(&mut self, at: usize, end: usize) -> io::Result<Option<(u64, u64, usize)>> {
        let read = self.number(at, end)?;
        Ok(read.map(|(tag, after)| (tag >> 3, tag & 7, after)))
    }

    /// Reads a number and where it ends; nothing if it is malformed.
    fn number(&mut self, at: usize, end: usize) -> io::Result<Option<(u64, usize)>> {
        /// The letters of the longest number.
        const MAX: usize = 10;
        let end = end.min(at.saturating_add(MAX));
        self.load(end)?;
        Ok(varint(&self.bytes[at..end]).ok().map(|(number, length)| (number, at + length)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A field with contents of a length.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2];
        let mut length = content.len();
        while length >= 0x80 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend_from_slice(content);
        bytes
    }

    fn loaded(bytes: &[u8]) -> Vec<u8> {
        without_weights(&mut Cursor::new(bytes), bytes.len()).unwrap()
    }

    #[test]
    fn only_the_contents_of_large_weights_are_left_out() {
        let raw = vec![7; 5 * MIN_SKIPPED];
        let tensor = |name: &[u8]| field(5, &[field(8, name), field(9, &raw)].concat());
        let small = field(5, &field(9, &[9; 100]));
        let body = field(6, &[tensor(b"c"), field(2, b"body")].concat());
        let node = field(1, &[field(5, &body), field(4, b"Loop")].concat());
        let named = field(2, &vec![b'n'; 3 * MIN_SKIPPED]);
        let graph = [tensor(b"a"), node, small, tensor(b"b"), named, field(10, b"end")].concat();
        let model = [field(7, &graph), field(2, b"producer")].concat();
        let read = loaded(&model);
        assert_eq!(read.len(), model.len());
        let mut left_out = 0;
        for (at, (&read, &written)) in read.iter().zip(&model).enumerate() {
            assert!(read == written || (read == 0 && written == 7), "byte {at}");
            left_out += usize::from(read != written);
        }
        assert!(left_out > 3 * (raw.len() - 2 * BLOCK), "{left_out}");
    }

    #[test]
    fn bytes_that_are_not_a_model_are_read_as_they_are() {
        let noise: Vec<u8> = (0..300_000_u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect();
        for start in 0..64 {
            assert_eq!(loaded(&noise[start..]), &noise[start..]);
        }
        assert!(loaded(&[]).is_empty());
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let raw = field(7, &field(5, &field(9, &vec![7; 5 * MIN_SKIPPED])));
        let whole = [raw, field(2, b"producer")].concat();
        let error = without_weights(&mut Cursor::new(&whole[..whole.len() - 3]), whole.len());
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
