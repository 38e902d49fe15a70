//! Computes the contents of a tensor block by block.

use std::io;
use std::sync::LazyLock;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use super::{Contents, Tensor, floats_of};

/// The number of bytes to compute at a time. At most three such blocks exist.
const WRITTEN_BYTES: usize = 1 << 23;

/// The sizes of the first and of later blocks. The first is small because a few bytes are often enough.
const READ_BYTES: [usize; 2] = [1 << 12, 1 << 20];

/// The minimum number of bytes per thread.
const MIN_THREAD_BYTES: usize = 1 << 20;
const MAX_THREADS: usize = 8;

/// A part of a file.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    Bytes(&'a [u8]),
    Contents(&'a Tensor),
}

/// Writes parts one after another. Another thread computes the next block of contents meanwhile.
pub(crate) fn write_parts(
    parts: &[Part<'_>],
    out: &mut (impl io::Write + ?Sized),
) -> io::Result<()> {
    let computed: Vec<&Tensor> = parts.iter().filter_map(Part::computed).collect();
    thread::scope(|scope| {
        let (computed_blocks, blocks) = mpsc::sync_channel(1);
        let (written_blocks, buffers) = mpsc::channel();
        if !computed.is_empty() {
            scope.spawn(move || compute_blocks(&computed, &buffers, &computed_blocks));
        }
        for part in parts {
            match part {
                Part::Bytes(bytes) => out.write_all(bytes)?,
                Part::Contents(tensor) => match &tensor.contents {
                    Contents::Bytes(bytes) => out.write_all(&bytes.0)?,
                    Contents::Lazy(_) => {
                        for _ in 0..tensor.byte_len().div_ceil(WRITTEN_BYTES) {
                            let block = blocks.recv().map_err(io::Error::other)?;
                            out.write_all(&block)?;
                            // If the other thread does not need the buffer, it has ended.
                            let _ = written_blocks.send(block);
                        }
                    }
                },
            }
        }
        out.flush()
    })
}

/// Computes the contents of tensors block by block, until the receiver is gone.
fn compute_blocks(tensors: &[&Tensor], buffers: &Receiver<Vec<u8>>, blocks: &SyncSender<Vec<u8>>) {
    for tensor in tensors {
        let width = (tensor.dtype.bits() / 8).max(1);
        for start in (0..tensor.byte_len()).step_by(WRITTEN_BYTES) {
            let mut block = buffers.try_recv().unwrap_or_default();
            block.resize(WRITTEN_BYTES.min(tensor.byte_len() - start), 0);
            tensor.fill_in_parallel(start / width, &mut block);
            if blocks.send(block).is_err() {
                return;
            }
        }
    }
}

/// The number of threads that can run at a time. It is cached because the standard library reads files to find out.
static AVAILABLE_THREADS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS));

/// Returns the number of threads to use for this many bytes.
fn threads_for(bytes: usize) -> usize {
    match bytes / MIN_THREAD_BYTES {
        few @ 0..2 => few,
        many => many.min(*AVAILABLE_THREADS),
    }
}

impl<'a> Part<'a> {
    /// Returns the tensor, if its contents must be computed.
    fn computed(&self) -> Option<&'a Tensor> {
        match self {
            Part::Contents(tensor) if matches!(tensor.contents, Contents::Lazy(_)) => Some(tensor),
            _ => None,
        }
    }
}

impl Tensor {
    /// Writes the contents into a buffer of their size.
    pub fn write_into(&self, out: &mut [u8]) {
        match &self.contents {
            Contents::Bytes(bytes) => out.copy_from_slice(&bytes.0),
            Contents::Lazy(_) => self.fill_in_parallel(0, out),
        }
    }

    /// True if the elements are floats of a common type and `holds` is true for all of them.
    pub fn all_floats(&self, mut holds: impl FnMut(f64) -> bool) -> bool {
        let mut all_of = |bytes: &[u8]| {
            floats_of(self.dtype, bytes).is_some_and(|floats| floats.into_iter().all(&mut holds))
        };
        let all_hold =
            |block: &[u8]| block.chunks(READ_BYTES[0]).all(&mut all_of).then_some(()).ok_or(());
        self.blocks(READ_BYTES, all_hold).is_ok()
    }

    /// True if a condition holds for each pair of floats of two tensors.
    pub(super) fn all_floats_with(
        &self,
        other: &Tensor,
        mut holds: impl FnMut(f64, f64) -> bool,
    ) -> bool {
        let mut start = 0;
        let all_hold = |block: &[u8]| {
            let floats = floats_of(self.dtype, block).ok_or(())?;
            let mut others = vec![0; floats.len() * other.dtype.bits() / 8];
            other.fill(start, &mut others);
            start += floats.len();
            let others = floats_of(other.dtype, &others).ok_or(())?;
            let mut pairs = floats.into_iter().zip(others);
            pairs.all(|(a, b)| holds(a, b)).then_some(()).ok_or(())
        };
        self.blocks(READ_BYTES, all_hold).is_ok()
    }

    /// If all elements are equal, returns a tensor of that element.
    pub fn uniform(&self) -> Option<Tensor> {
        let width = (self.dtype.bits() / 8).max(1);
        let mut first: Option<Vec<u8>> = None;
        let all_same = |block: &[u8]| {
            let first = first.get_or_insert_with(|| block[..width.min(block.len())].to_vec());
            // Each element is equal to the one before it.
            let is_one = block.starts_with(first)
                && block[first.len()..] == block[..block.len() - first.len()];
            is_one.then_some(()).ok_or(())
        };
        let is_uniform =
            !self.is_empty() && self.dtype.bits() >= 8 && self.blocks(READ_BYTES, all_same).is_ok();
        is_uniform.then(|| Tensor::new(self.dtype, Vec::new(), first.unwrap_or_default()))
    }

    /// Visits the contents in order: one block of the first size, then blocks of the second size.
    fn blocks<E>(
        &self,
        [first, later]: [usize; 2],
        mut visit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let width = (self.dtype.bits() / 8).max(1);
        let (mut start, end) = (0, self.byte_len());
        let mut size = first;
        let mut buffer = Vec::new();
        while start < end {
            let length = size.min(end - start);
            match &self.contents {
                Contents::Bytes(bytes) => visit(&bytes.0[start..start + length])?,
                Contents::Lazy(_) => {
                    buffer.resize(length, 0);
                    self.fill_in_parallel(start / width, &mut buffer);
                    visit(&buffer)?;
                }
            }
            start += length;
            size = later;
        }
        Ok(())
    }

    /// Fills `out` with the elements from index `start` on.
    fn fill_in_parallel(&self, start: usize, out: &mut [u8]) {
        let threads = threads_for(out.len());
        if threads < 2 {
            return self.fill(start, out);
        }
        let width = (self.dtype.bits() / 8).max(1);
        let part = (out.len() / width).div_ceil(threads) * width;
        thread::scope(|scope| {
            for (number, out) in out.chunks_mut(part).enumerate() {
                scope.spawn(move || self.fill(start + number * part / width, out));
            }
        });
    }
}
