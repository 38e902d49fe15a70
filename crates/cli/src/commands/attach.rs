//! `jax2onnx attach`: a model with what its source map says.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use onnx::strip::attach;
use serde_json::json;

use crate::Outcome;
use crate::files::ModelFile;
use crate::output::{Format, OutputArgs};

/// Put into a model what its source map says
///
/// The map of `jax2onnx strip --map` gives the model as it was, byte by byte. The map of an export
/// gives what the level `indexed` writes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jax2onnx attach release.onnx release.onnx.map -o debug.onnx")]
pub(crate) struct Args {
    /// The model
    model: PathBuf,
    /// Its source map
    map: PathBuf,
    /// Where to write the model with its origins; may be the same file
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    #[command(flatten)]
    format: OutputArgs,
}

pub(crate) fn run(arguments: &Args, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let Args { model: path, map, output, format } = arguments;
    let model = ModelFile::read(path)?;
    let text =
        fs::read_to_string(map).with_context(|| format!("cannot read `{}`", map.display()))?;
    let attached = attach(&model.bytes, &text).with_context(|| map.display().to_string())?;
    model.write(&attached, path, output)?;
    let (before, after) = (model.bytes.len(), attached.len());
    match format.format {
        Format::Text => writeln!(out, "{}: {before} to {after} bytes", output.display())?,
        Format::Json => {
            let answer = json!({
                "version": 1, "path": output, "bytes_before": before, "bytes_after": after,
            });
            writeln!(out, "{answer:#}")?;
        }
    }
    Ok(Outcome::Found)
}
