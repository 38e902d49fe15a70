//! Writes models to files, with the weights in the model or in a file beside it.
//!
//! The name of a weight file contains the hash of its contents. An export first writes the weights to the disk and
//! then renames the model in one step. So whenever an export is interrupted, the model refers to the right weights.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};

use rustc_hash::FxHasher;

use crate::check::constants_of;
use crate::dtype::DType;
use crate::model::Model;
use crate::outputs::Output;
use crate::proto::{Layout, Message, Placed, Render, WriteError, locations, model_proto};
use crate::staged::{Lock, Permissions, Staged, Target, Temporary, folder_of, write_back};
use crate::tensor::{Assumptions, Part, Tensor, write_parts};
use crate::weight_files::{data_name, remove_leftovers, remove_unused, written_weights};

mod copy;

/// The alignment of tensors in the data file, so that a runtime can map them.
const ALIGNMENT: u64 = 4096;

/// Tensors with fewer bytes stay in the model.
const MIN_EXTERNAL_BYTES: usize = 1024;

/// Writes the model. If the weights together have more than `threshold` bytes, the large ones are written to one
/// file beside the model, `<name>.<hash>.data`.
///
/// After an error, the folder is unchanged. If the model replaces another one, the old weights are removed unless
/// another model in the folder refers to them.
pub fn save(
    model: &Model,
    render: &mut Render<'_>,
    output: Output,
    threshold: usize,
) -> Result<(), WriteError> {
    let mut data = DataFile::default();
    let is_external = weight_bytes(model) > threshold;
    let layout = is_external.then_some(&mut data as &mut dyn Layout);
    let (proto, mut initializers) = model_proto(model, render, layout)?;
    let weights = match data.tensors.is_empty() {
        true => None,
        false => Some(data.stage(output.target())?),
    };
    if let Some((_, name)) = &weights {
        output.refuse_weights(name)?;
        for initializer in &mut initializers {
            initializer.set_location(name);
        }
    }
    let message = Message::of(proto, initializers)?;
    let staged = output.stage(|out| message.write(out))?;
    if model.assumptions.as_ref().is_some_and(Assumptions::are_wrong) {
        return Err(WriteError::WrongAssumption);
    }
    commit(staged, |lock, target, placed| {
        let Some((weights, name)) = weights else { return Ok(()) };
        let path = target.folder.join(name);
        let renamed = weights.rename(&path);
        placed.push(path);
        renamed.and_then(|()| lock.sync_folder()).map_err(|why| target.failed_weights(why))
    })
}

/// Writes a changed copy of the model at `from`, which refers to the same weight files. If the output is in another
/// folder, the weight files are copied there. They do not replace files with other contents.
pub fn save_bytes(bytes: &[u8], from: &Path, output: Output) -> Result<(), WriteError> {
    let target = output.target();
    let failed = |why| target.failed(why);
    let named = locations(Cursor::new(bytes)).map_err(failed)?;
    let source = folder_of(from);
    let is_same = fs::canonicalize(&source).ok() == fs::canonicalize(&target.folder).ok();
    let mut copies = Vec::new();
    if !named.is_empty() {
        refuse_distant_link(target)?;
    }
    for location in named.iter().filter(|_| !is_same) {
        let copy = copy::stage(&source, target, location)?;
        if copy.is_some() {
            output.refuse_weights(location)?;
        }
        copies.extend(copy);
    }
    let staged = output.stage(|out| out.write_all(bytes))?;
    commit(staged, |_, target, placed| {
        // Another export may have replaced the model and removed its weights.
        let now = File::open(from).and_then(locations);
        if is_same && now.is_ok_and(|now| now != named) {
            return Err(target
                .failed(io::Error::other("the model file was replaced while jax2onnx read it")));
        }
        copies.into_iter().try_for_each(|copy| copy.place(target, placed))
    })
}

/// Places the weights, replaces the model, and removes weights that no model uses anymore. `place_weights` adds
/// the files that it writes to its last argument.
fn commit(
    model: Staged,
    place_weights: impl FnOnce(&Lock, &Target, &mut Vec<PathBuf>) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let lock = Lock::take(&model.target.folder);
    let replaced = written_weights(&model.target.path);
    // If the old weights cannot be removed now, this link to the old model tells the next export about them.
    let outgoing = match replaced.is_empty() {
        true => None,
        false => Temporary::link(&model.target.folder, &model.target.path).ok(),
    };
    let mut candidates = replaced;
    let done =
        place_weights(&lock, &model.target, &mut candidates).and_then(|()| model.rename(&lock));
    let outgoing_path = outgoing.iter().map(|outgoing| outgoing.path().to_owned());
    let is_settled = remove_unused(&lock, &candidates, &outgoing_path.collect::<Vec<_>>());
    if let Some(outgoing) = outgoing.filter(|_| !is_settled) {
        outgoing.leave_behind();
    }
    done
}

/// Refuses a link to another folder: readers look for weights beside the link.
fn refuse_distant_link(target: &Target) -> Result<(), WriteError> {
    let beside = fs::canonicalize(folder_of(&target.given));
    match (beside, fs::canonicalize(&target.folder)) {
        (Ok(beside), Ok(folder)) if beside != folder => {
            Err(WriteError::DistantLink { path: target.given.clone(), target: target.path.clone() })
        }
        _ => Ok(()),
    }
}

fn weight_bytes(model: &Model) -> usize {
    let tensors = constants_of(model, &model.graph).into_iter();
    let sizes = tensors.filter_map(|id| Some(model.values[id].tensor.as_ref()?.byte_len()));
    sizes.sum()
}

/// The tensors in the external data file, with their offsets.
#[derive(Default)]
struct DataFile {
    end: u64,
    tensors: Vec<(u64, Tensor)>,
}

impl Layout for DataFile {
    fn place(&mut self, tensor: &Tensor) -> Option<Placed> {
        if tensor.byte_len() < MIN_EXTERNAL_BYTES || tensor.dtype == DType::String {
            return None;
        }
        let offset = self.end.next_multiple_of(ALIGNMENT);
        let length = tensor.byte_len() as u64;
        self.end = offset + length;
        self.tensors.push((offset, tensor.clone()));
        Some(Placed { offset, length })
    }
}

impl DataFile {
    /// Writes the weights under a temporary name. Returns the temporary file and its final name.
    fn stage(&self, target: &Target) -> Result<(Temporary, String), WriteError> {
        refuse_distant_link(target)?;
        remove_leftovers(&target.folder);
        let replaced = written_weights(&target.path);
        let permissions = match replaced.first().map(fs::metadata) {
            Some(Ok(metadata)) => Permissions::Kept(metadata),
            _ => target.permissions(),
        };
        let mut hash = 0;
        let temporary = Temporary::write(&target.folder, &permissions, |file| {
            write_back(file, |out| {
                let mut out = Hashing::new(out);
                self.write(&mut out)?;
                hash = out.finish()?;
                Ok(())
            })
        });
        let temporary = temporary.map_err(|why| target.failed_weights(why))?;
        Ok((temporary, data_name(&target.name, hash)))
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        const PADDING: [u8; ALIGNMENT as usize] = [0; ALIGNMENT as usize];
        let mut end = 0;
        let parts = self.tensors.iter().flat_map(|(offset, tensor)| {
            let padding = Part::Bytes(&PADDING[..(offset - end) as usize]);
            end = offset + tensor.byte_len() as u64;
            [padding, Part::Contents(tensor)]
        });
        write_parts(&parts.collect::<Vec<_>>(), out)
    }
}

/// The number of bytes to hash at once; they fit into the cache of a processor.
const HASHED_BYTES: usize = 1 << 17;

/// Writes bytes and hashes them. Weights are in the memory of the user, and other threads may change them at any
/// time, so the bytes are copied first, and the copy is both hashed and written. The hash does not depend on how the
/// bytes are split into writes.
struct Hashing<W> {
    out: W,
    hasher: FxHasher,
    copied: Vec<u8>,
}

impl<W: Write> Hashing<W> {
    fn new(out: W) -> Hashing<W> {
        Hashing { out, hasher: FxHasher::default(), copied: Vec::with_capacity(HASHED_BYTES) }
    }

    /// Writes the last bytes, and returns the hash.
    fn finish(mut self) -> io::Result<u64> {
        self.write_copied()?;
        self.out.flush()?;
        Ok(self.hasher.finish())
    }

    fn write_copied(&mut self) -> io::Result<()> {
        self.hasher.write(&self.copied);
        self.out.write_all(&self.copied)?;
        self.copied.clear();
        Ok(())
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(HASHED_BYTES - self.copied.len());
        self.copied.extend_from_slice(&bytes[..taken]);
        if self.copied.len() == HASHED_BYTES {
            self.write_copied()?;
        }
        Ok(taken)
    }

    /// Keeps an incomplete block, so that equal files are hashed in equal blocks.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
