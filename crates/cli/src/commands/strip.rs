//! `jax2onnx strip`: a model without its provenance.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use onnx::strip::{strip, take_apart};
use provenance::Level;
use serde_json::json;

use crate::Outcome;
use crate::files::{ModelFile, stage_text};
use crate::output::{Format, OutputArgs};

/// Remove from a model what it says about its origins
///
/// Nothing else changes: the rest of the file stays as it is, byte by byte. With --map it is kept in a
/// source map, and `jax2onnx attach` puts it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jax2onnx strip model.onnx -o release.onnx\n  \
                  jax2onnx strip model.onnx -o release.onnx --map release.onnx.map\n  \
                  jax2onnx strip model.onnx -o small.onnx --level minimal")]
pub(crate) struct Args {
    /// The model
    model: PathBuf,
    /// Where to write the model without it; may be the same file
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// What to leave
    #[arg(long, value_enum, default_value_t, conflicts_with = "map")]
    level: Left,
    /// Where to write the source map
    #[arg(long, value_name = "PATH")]
    map: Option<PathBuf>,
    /// Leave the id of the source map that was written when the model was exported
    #[arg(long, conflicts_with = "map")]
    keep_debug_id: bool,
    #[command(flatten)]
    format: OutputArgs,
}

/// What a stripped model may still say.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Left {
    /// Nothing
    #[default]
    Off,
    /// The line and the plugin of each node
    Minimal,
}

pub(crate) fn run(
    arguments: &Args,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let Args { model: path, output, level, map, keep_debug_id, format } = arguments;
    let model = ModelFile::read(path)?;
    let (stripped, removed, lost) = match map {
        None => {
            let level = match level {
                Left::Off => Level::Off,
                Left::Minimal => Level::Minimal,
            };
            let stripped = strip(&model.bytes, level, *keep_debug_id)?;
            model.write(&stripped.model, path, output)?;
            (stripped.model, stripped.removed, Vec::new())
        }
        Some(map) => {
            refuse_same(map, output)?;
            refuse_same(map, path)?;
            let apart = take_apart(&model.bytes).with_context(|| path.display().to_string())?;
            let staged = stage_text(map, &apart.map)?;
            model.write(&apart.model, path, output)?;
            staged.commit()?;
            (apart.model, apart.removed, apart.lost)
        }
    };
    if !lost.is_empty() {
        writeln!(err, "note: not in the texts of the model: {}", lost.join(", "))?;
    }
    let (before, after) = (model.bytes.len(), stripped.len());
    match format.format {
        Format::Text => {
            write!(
                out,
                "{}: {removed} entries removed, {before} to {after} bytes",
                output.display()
            )?;
            match map {
                Some(map) => writeln!(out, "; map in {}", map.display())?,
                None => writeln!(out)?,
            }
        }
        Format::Json => {
            let answer = json!({
                "version": 1,
                "path": output,
                "map": map,
                "removed": removed,
                "bytes_before": before,
                "bytes_after": after,
                "lost": lost,
            });
            writeln!(out, "{answer:#}")?;
        }
    }
    Ok(Outcome::Found)
}

fn refuse_same(map: &Path, model: &Path) -> anyhow::Result<()> {
    if map == model {
        bail!("`{}` is the model and the map", map.display());
    }
    Ok(())
}
