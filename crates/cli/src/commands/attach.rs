//! `jax2onnx attach`: writes the provenance from a source map into a model.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use inspect::read_map;
use inspect::show::clean;
use onnx::external_data::save_bytes;
use onnx::outputs::Files;
use onnx::strip::attach;
use serde_json::json;

use crate::command::{Answer, Command, Console, Outcome, print_json};
use crate::files::read_model;
use crate::output::{Format, OutputArgs};

/// Write the provenance from a source map into its model
///
/// With a map from `jax2onnx strip --map`, the result is the original model, byte for byte. With the map
/// of an export, the result contains what the level `indexed` writes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jax2onnx attach release.onnx release.onnx.map -o debug.onnx")]
pub(crate) struct Args {
    /// The model
    model: PathBuf,
    /// The source map of the model
    map: PathBuf,
    /// The file to write the model to; may be MODEL itself
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    #[command(flatten)]
    format: OutputArgs,
}

/// A model that was written with its provenance.
struct Attached<'a> {
    path: &'a Path,
    bytes_before: usize,
    bytes_after: usize,
}

impl Command for Args {
    fn format(&self) -> Format {
        self.format.format
    }

    fn run<'a>(&'a self, _: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>> {
        let Args { model: path, map, output, .. } = self;
        let model = read_model(path)?;
        let map_file = read_map(map)?;
        let attached =
            attach(&model, map_file.text()?).with_context(|| map.display().to_string())?;
        let mut files = Files::default();
        files.read("the source map", map);
        files.read_model("the model", path);
        let output_file = files.write_in_place("the model", output, Some(path))?;
        save_bytes(&attached, path, output_file)?;
        let (bytes_before, bytes_after) = (model.len(), attached.len());
        Ok(Box::new(Attached { path: output, bytes_before, bytes_after }))
    }
}

impl Answer for Attached<'_> {
    fn outcome(&self) -> Outcome {
        Outcome::Found
    }

    fn print(&self, console: &mut Console<'_>) -> io::Result<()> {
        let Attached { path, bytes_before, bytes_after } = self;
        let path = clean(&path.to_string_lossy());
        writeln!(console.out, "{path}: {bytes_before} to {bytes_after} bytes")
    }

    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        print_json(
            out,
            &json!({
                "version": 1,
                "path": self.path.to_string_lossy(),
                "bytes_before": self.bytes_before,
                "bytes_after": self.bytes_after,
            }),
        )
    }
}
