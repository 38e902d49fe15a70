//! Protobuf straight into a file.

use std::io;

use bytes::buf::UninitSlice;
use bytes::{Buf, BufMut};

/// A writer as a buffer for prost: small pieces are collected, large ones go through as they are.
///
/// prost cannot fail halfway, so an error is kept until the end.
pub(super) struct Stream<'a, W> {
    out: &'a mut W,
    collected: Vec<u8>,
    result: io::Result<()>,
}

/// Up to this many bytes are collected.
const COLLECTED: usize = 1 << 16;

impl<'a, W: io::Write> Stream<'a, W> {
    pub fn new(out: &'a mut W) -> Stream<'a, W> {
        Stream { out, collected: Vec::with_capacity(2 * COLLECTED), result: Ok(()) }
    }

    fn pass_on(&mut self) {
        if self.result.is_ok() {
            self.result = self.out.write_all(&self.collected);
        }
        self.collected.clear();
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.pass_on();
        self.result?;
        self.out.flush()
    }
}

#[expect(unsafe_code, reason = "the trait is unsafe to implement")]
// SAFETY: chunks are those of `collected`, whose own implementation upholds the contract.
unsafe impl<W: io::Write> BufMut for Stream<'_, W> {
    fn remaining_mut(&self) -> usize {
        self.collected.remaining_mut()
    }

    unsafe fn advance_mut(&mut self, count: usize) {
        // SAFETY: the caller has initialized `count` bytes of the chunk, which is that of `collected`.
        unsafe { self.collected.advance_mut(count) };
        if self.collected.len() >= COLLECTED {
            self.pass_on();
        }
    }

    fn chunk_mut(&mut self) -> &mut UninitSlice {
        self.collected.chunk_mut()
    }

    fn put_slice(&mut self, bytes: &[u8]) {
        if bytes.len() < COLLECTED {
            self.collected.extend_from_slice(bytes);
            if self.collected.len() >= COLLECTED {
                self.pass_on();
            }
            return;
        }
        self.pass_on();
        if self.result.is_ok() {
            self.result = self.out.write_all(bytes);
        }
    }

    fn put<T: Buf>(&mut self, mut bytes: T) {
        while bytes.has_remaining() {
            let count = bytes.chunk().len();
            self.put_slice(bytes.chunk());
            bytes.advance(count);
        }
    }
}
