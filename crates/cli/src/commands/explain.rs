//! `jax2onnx explain`: the line of Python that an error of a runtime is about.

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use inspect::explain::{explain, json, text};
use inspect::log;

use crate::model::ModelArgs;
use crate::output::{Format, OutputArgs};
use crate::{Outcome, Screen};

/// Show the line of Python that an error of ONNX Runtime is about
///
/// Reads the text of an exception, the lines of a log, or several messages at once; also those of
/// onnx.checker, of TensorRT and of OpenVINO. Says which part of the message was used and how sure it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
                  jax2onnx explain model.onnx error.log\n  \
                  python run.py 2>&1 | jax2onnx explain model.onnx\n  \
                  jax2onnx explain model.onnx -m \"running Add node. Name:'add'\"")]
pub(crate) struct Args {
    /// The model that was run
    model: PathBuf,
    /// The file with the messages; standard input where it is `-` or not given
    #[arg(conflicts_with = "message")]
    log: Option<PathBuf>,
    /// The message itself
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    reading: ModelArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(
    arguments: &Args,
    out: &mut dyn Write,
    err: &mut dyn Write,
    screen: Screen,
) -> anyhow::Result<Outcome> {
    let Args { model, log, message, reading, output } = arguments;
    let document = reading.open(model, err)?;
    let said = match (message, log) {
        (Some(message), _) => message.clone().into_bytes(),
        (None, Some(path)) if path.as_os_str() != "-" => read_file(path)?,
        _ => read_input(err)?,
    };
    let explanation = explain(document, &said);
    let sources = reading.sources(document);
    if explanation.is_cut {
        writeln!(err, "note: the log is long: only the end of it was read")?;
    }
    match output.format {
        Format::Text if explanation.findings.is_empty() => {
            writeln!(err, "note: nothing in the text is an error that is known")?;
        }
        Format::Text => {
            write!(out, "{}", text(&explanation, document, &sources, screen.style()))?;
        }
        Format::Json => writeln!(out, "{:#}", json(&explanation, document, &sources))?,
    }
    Ok(if explanation.has_lines() { Outcome::Found } else { Outcome::Nothing })
}

fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    let context = || format!("cannot read `{}`", path.display());
    let mut file = File::open(path).with_context(context)?;
    let metadata = file.metadata().with_context(context)?;
    if metadata.is_dir() {
        bail!("`{}` is a folder", path.display());
    }
    // The error is at the end.
    if metadata.is_file() && metadata.len() > log::MOST_BYTES as u64 {
        use std::io::{Seek, SeekFrom};
        file.seek(SeekFrom::End(-(log::MOST_BYTES as i64) - 1)).with_context(context)?;
    }
    limited(&mut file).with_context(context)
}

fn read_input(err: &mut dyn Write) -> anyhow::Result<Vec<u8>> {
    let input = std::io::stdin();
    if input.is_terminal() {
        writeln!(err, "note: paste the message, and end it with Ctrl-D on a line of its own")?;
    }
    limited(&mut input.lock()).context("cannot read standard input")
}

/// The end of what there is to read, and a byte more than is used where there is more.
fn limited(from: &mut dyn Read) -> std::io::Result<Vec<u8>> {
    const MOST: usize = log::MOST_BYTES + 1;
    let mut kept = Vec::new();
    let mut block = vec![0; 1 << 16];
    loop {
        match from.read(&mut block)? {
            0 => return Ok(kept),
            count => kept.extend_from_slice(&block[..count]),
        }
        if kept.len() > 2 * MOST {
            kept.drain(..kept.len() - MOST);
        }
    }
}
