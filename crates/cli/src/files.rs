//! Reads models and profiles, and writes files.

use std::path::Path;

use anyhow::Context;
use inspect::profile::Profile;
use inspect::{ModelFile, Weights, open_regular};
use onnx::outputs::Output;
use onnx::proto::skim;
use onnx::staged::Staged;

/// Reads a model, without external weights.
pub(crate) fn read_model(path: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes = ModelFile::open(path, Weights::Read)?.into_bytes();
    skim(&bytes).with_context(|| path.display().to_string())?;
    Ok(bytes)
}

/// Writes a text under a temporary name. A commit renames the file.
pub(crate) fn stage_text(output: Output, text: &str) -> anyhow::Result<Staged> {
    Ok(output.stage(|file| file.write_all(text.as_bytes()))?)
}

/// Reads a profile of ONNX Runtime.
pub(crate) fn read_profile(path: &Path) -> anyhow::Result<Profile> {
    let (opened, _) = open_regular(path)?;
    Profile::read(opened).with_context(|| path.display().to_string())
}
