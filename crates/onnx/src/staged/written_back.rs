//! Syncs a file in the background while it is written.
//!
//! Without this, the system would keep the bytes in memory until the final sync, and the disk would be idle while the
//! weights are computed.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{self, SyncSender};
use std::thread::{Scope, ScopedJoinHandle, scope};

/// The number of bytes between two syncs.
const SYNCED_BYTES: usize = 1 << 24;

/// A file that another thread syncs from time to time.
pub(crate) struct WrittenBack<'scope, 'env> {
    file: &'env File,
    scope: &'scope Scope<'scope, 'env>,
    /// The number of bytes since the last sync began.
    unsynced: usize,
    syncing: Option<(SyncSender<()>, ScopedJoinHandle<'scope, io::Result<()>>)>,
}

/// Writes a file. If both the contents and a sync fail, returns the error of the contents.
pub(crate) fn write_back<'env>(
    file: &'env File,
    contents: impl FnOnce(&mut WrittenBack<'_, 'env>) -> io::Result<()>,
) -> io::Result<()> {
    scope(|scope| {
        let mut out = WrittenBack { file, scope, unsynced: 0, syncing: None };
        let written = contents(&mut out);
        let synced = out.syncing.take().map_or(Ok(()), |(full, syncing)| {
            drop(full);
            syncing.join().map_err(|_| io::Error::other("the thread that syncs it failed"))?
        });
        written.and(synced)
    })
}

impl WrittenBack<'_, '_> {
    fn sync(&mut self) {
        let (file, scope) = (self.file, self.scope);
        let (full, _) = self.syncing.get_or_insert_with(|| {
            let (full, is_full) = mpsc::sync_channel(1);
            (full, scope.spawn(move || is_full.into_iter().try_for_each(|()| file.sync_data())))
        });
        // If the thread is busy, it syncs these bytes next. If it failed, `write_back` returns its error.
        let _ = full.try_send(());
        self.unsynced = 0;
    }
}

impl Write for WrittenBack<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(&bytes[..bytes.len().min(SYNCED_BYTES)])?;
        self.unsynced += written;
        if self.unsynced >= SYNCED_BYTES {
            self.sync();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;

    use super::*;

    #[test]
    fn a_file_that_is_synced_meanwhile_has_all_bytes() {
        let path = std::env::temp_dir().join(format!("jax2onnx-back-{}", std::process::id()));
        let file = File::options().create(true).truncate(true).write(true).open(&path).unwrap();
        let bytes = b"weights".repeat(SYNCED_BYTES / 3);
        write_back(&file, |out| {
            out.write_all(b"head")?;
            out.write_all(&bytes)?;
            out.write_all(b"tail")
        })
        .unwrap();
        let mut found = Vec::new();
        File::open(&path).unwrap().read_to_end(&mut found).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(found == [b"head", &bytes[..], b"tail"].concat());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_error_of_the_disk_is_reported() {
        // This device accepts all bytes, but cannot be synced.
        let file = File::options().write(true).open("/dev/null").unwrap();
        let few = write_back(&file, |out| out.write_all(&[0; 8]));
        assert!(few.is_ok());
        let many = write_back(&file, |out| out.write_all(&vec![0; 2 * SYNCED_BYTES]));
        assert_eq!(many.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
