//! `jax2onnx explain`: shows the line of Python behind an error of a runtime.

use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use inspect::explain::{Explanation, explain, json, text};
use inspect::{Document, Sources, log, open_regular};

use crate::command::{Answer, Command, Console, Outcome, print_json};
use crate::model::{ModelArgs, note_missing};
use crate::output::{Format, OutputArgs};

/// Show the line of Python behind an error of ONNX Runtime
///
/// Reads the text of an exception or a whole log, from ONNX Runtime, onnx.checker, TensorRT or OpenVINO. For
/// each error, shows the line, the part of the message that led to it, how certain the answer is, and a hint.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
                  jax2onnx explain model.onnx error.log\n  \
                  python run.py 2>&1 | jax2onnx explain model.onnx\n  \
                  jax2onnx explain model.onnx -m \"running Add node. Name:'add'\"")]
pub(crate) struct Args {
    /// The model that ran
    model: PathBuf,
    /// The file that contains the messages [default: standard input]
    #[arg(conflicts_with = "message")]
    log: Option<PathBuf>,
    /// The message, instead of a file
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    reading: ModelArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The explanation of the messages of a runtime.
struct Explained {
    document: &'static Document<'static>,
    sources: Sources<'static, 'static>,
    explanation: Explanation<'static>,
}

impl Command for Args {
    fn format(&self) -> Format {
        self.output.format
    }

    fn run<'a>(&'a self, console: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>> {
        let document = self.reading.open(&self.model, console)?;
        let said = match (&self.message, &self.log) {
            (Some(message), _) => message.clone().into_bytes(),
            (None, Some(path)) if path.as_os_str() != "-" => read_file(path).map_err(|error| {
                // A path has no blanks as a rule, and a message has some.
                match path.to_string_lossy().contains(' ') && !path.exists() {
                    true => anyhow::anyhow!(
                        "there is no file with this name; for the text of a message, use `--message TEXT`"
                    ),
                    false => error,
                }
            })?,
            _ => read_input(console)?,
        };
        let explanation = explain(document, &said);
        if explanation.is_cut {
            console.note("the log is very long, so only its end was read")?;
        }
        let sources = self.reading.sources(document);
        Ok(Box::new(Explained { document, sources, explanation }))
    }
}

impl Answer for Explained {
    fn outcome(&self) -> Outcome {
        Outcome::found(self.explanation.has_lines())
    }

    fn print(&self, console: &mut Console<'_>) -> io::Result<()> {
        let Explained { document, sources, explanation } = self;
        if explanation.findings.is_empty() {
            return console.note(
                "jax2onnx does not recognize an error in this text; `jax2onnx where MODEL NAME` looks up a node",
            );
        }
        write!(console.out, "{}", text(explanation, document, sources, console.style))?;
        note_missing(&sources.missing(), console)
    }

    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        print_json(out, &json(&self.explanation, self.document, &self.sources))
    }
}

fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    let context = || format!("cannot read `{}`", path.display());
    let (mut file, size) = open_regular(path)?;
    // The error is at the end of the file.
    if size > log::MAX_BYTES as u64 {
        file.seek(SeekFrom::End(-(log::MAX_BYTES as i64) - 1)).with_context(context)?;
    }
    limited(&mut file).with_context(context)
}

fn read_input(console: &mut Console<'_>) -> anyhow::Result<Vec<u8>> {
    let input = io::stdin();
    if input.is_terminal() {
        console.note("paste the message, then press Ctrl-D on an empty line")?;
    }
    limited(&mut input.lock()).context("cannot read standard input")
}

/// Reads the end of a stream. If the stream is too long, returns one byte more than is used.
fn limited(from: &mut dyn Read) -> io::Result<Vec<u8>> {
    const MAX: usize = log::MAX_BYTES + 1;
    let mut kept = Vec::new();
    let mut block = vec![0; 1 << 16];
    loop {
        match from.read(&mut block)? {
            0 => return Ok(kept),
            count => kept.extend_from_slice(&block[..count]),
        }
        if kept.len() > 2 * MAX {
            kept.drain(..kept.len() - MAX);
        }
    }
}
