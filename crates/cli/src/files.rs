//! Models and maps as files.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use inspect::Weights;
use onnx::external_data::save_bytes;
use onnx::proto::skim;
use onnx::staged::Staged;

/// A model as it is in its file, without the weights that are in another.
pub(crate) struct ModelFile {
    pub(crate) bytes: Vec<u8>,
    external: Vec<String>,
}

impl ModelFile {
    pub(crate) fn read(path: &Path) -> anyhow::Result<ModelFile> {
        let bytes = inspect::ModelFile::open(path, Weights::Read)?.into_bytes();
        let skim = skim(&bytes).with_context(|| path.display().to_string())?;
        Ok(ModelFile { bytes, external: skim.external })
    }

    /// Writes another form of the model that was read from `from`, with its weights.
    pub(crate) fn write(&self, bytes: &[u8], from: &Path, to: &Path) -> anyhow::Result<()> {
        Ok(save_bytes(bytes, from, to, &self.external)?)
    }
}

/// Writes a text under a temporary name; a commit renames the file.
pub(crate) fn stage_text(path: &Path, text: &str) -> anyhow::Result<Staged> {
    Ok(Staged::write(path, |file| Ok(file.write_all(text.as_bytes())?))?)
}
