//! `jax2onnx strip`: removes the provenance from a model.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use inspect::show::clean;
use onnx::external_data::save_bytes;
use onnx::outputs::Files;
use onnx::strip::{strip, take_apart};
use provenance::Level;
use serde_json::json;

use crate::command::{Answer, Command, Console, Outcome, print_json};
use crate::files::{read_model, stage_text};
use crate::output::{Format, OutputArgs};

/// Remove the provenance from a model
///
/// Leaves the rest of the file unchanged, byte for byte. With --map, writes the provenance to a source map, from
/// which `jax2onnx attach` can restore it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  jax2onnx strip model.onnx -o release.onnx\n  \
                  jax2onnx strip model.onnx -o release.onnx --map release.onnx.map\n  \
                  jax2onnx strip model.onnx -o small.onnx --level minimal")]
pub(crate) struct Args {
    /// The model
    model: PathBuf,
    /// The file to write the stripped model to; may be MODEL itself
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// The provenance to keep
    #[arg(long, value_enum, default_value_t, conflicts_with = "map")]
    level: Left,
    /// Write the removed provenance to this source map
    #[arg(long, value_name = "PATH")]
    map: Option<PathBuf>,
    /// Keep the debug id, which identifies the source map of the export
    #[arg(long, conflicts_with = "map")]
    keep_debug_id: bool,
    #[command(flatten)]
    format: OutputArgs,
}

/// The provenance that a stripped model keeps.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Left {
    /// Nothing
    #[default]
    Off,
    /// The line and the plugin of each node
    Minimal,
}

/// A model that was written without its provenance.
struct Report<'a> {
    path: &'a Path,
    map: Option<&'a Path>,
    removed: usize,
    lost: Vec<&'static str>,
    bytes_before: usize,
    bytes_after: usize,
}

impl Command for Args {
    fn format(&self) -> Format {
        self.format.format
    }

    fn run<'a>(&'a self, console: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>> {
        let Args { model: path, output, level, map, keep_debug_id, .. } = self;
        let model = read_model(path)?;
        let mut files = Files::default();
        files.read_model("the model", path);
        let map_file = map.as_ref().map(|map| files.write("the source map", map)).transpose()?;
        let output_file = files.write_in_place("the model", output, Some(path))?;
        let (stripped, removed, lost) = match map_file {
            None => {
                let level = match level {
                    Left::Off => Level::Off,
                    Left::Minimal => Level::Minimal,
                };
                let stripped = strip(&model, level, *keep_debug_id)?;
                save_bytes(&stripped.model, path, output_file)?;
                (stripped.model, stripped.removed, Vec::new())
            }
            Some(map_file) => {
                let apart = take_apart(&model).with_context(|| path.display().to_string())?;
                let staged = stage_text(map_file, &apart.map)?;
                save_bytes(&apart.model, path, output_file)?;
                staged.commit()?;
                (apart.model, apart.removed, apart.lost)
            }
        };
        if !lost.is_empty() {
            console.note(format_args!(
                "the metadata of the model does not contain: {}",
                lost.join(", ")
            ))?;
        }
        Ok(Box::new(Report {
            path: output,
            map: map.as_deref(),
            removed,
            lost,
            bytes_before: model.len(),
            bytes_after: stripped.len(),
        }))
    }
}

impl Answer for Report<'_> {
    fn outcome(&self) -> Outcome {
        Outcome::Found
    }

    fn print(&self, console: &mut Console<'_>) -> io::Result<()> {
        let Report { path, map, removed, bytes_before, bytes_after, .. } = self;
        let map = map
            .map(|map| format!("; map in {}", clean(&map.to_string_lossy())))
            .unwrap_or_default();
        let path = clean(&path.to_string_lossy());
        writeln!(
            console.out,
            "{path}: {removed} entries removed, {bytes_before} to {bytes_after} bytes{map}"
        )
    }

    fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        print_json(
            out,
            &json!({
                "version": 1,
                "path": self.path.to_string_lossy(),
                "map": self.map.map(Path::to_string_lossy),
                "removed": self.removed,
                "bytes_before": self.bytes_before,
                "bytes_after": self.bytes_after,
                "lost": self.lost,
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use onnx::names::assign_names;
    use onnx::proto::Message;
    use onnx::text::parse_graph;
    use provenance::keys;

    /// A folder that is removed after the test.
    struct Folder(std::path::PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    impl Folder {
        fn new(test: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("jax2onnx-{test}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        /// Returns the exit code and the output. Paths are relative to this folder.
        fn run(&self, arguments: &[&str]) -> (i32, String) {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let folder = self.0.to_str().unwrap();
            let named = arguments.iter().map(|argument| match argument.contains('.') {
                true => format!("{folder}/{argument}").into(),
                false => argument.into(),
            });
            let program = std::iter::once("jax2onnx".into()).chain(named).collect();
            let code = crate::run(program, &mut out, &mut err, crate::Screen::plain(), None);
            out.extend(err);
            (code, String::from_utf8(out).unwrap().replace(&format!("{folder}/"), ""))
        }
    }

    fn model() -> Vec<u8> {
        let mut model = parse_graph("graph f(x:f32[]) -> (y)\ny:f32[] = Neg(x)").unwrap();
        assign_names(&mut model);
        model.graph.nodes[0].metadata =
            vec![(keys::CALLSITE.into(), "f:1".into()), ("mine".into(), "kept".into())];
        let message = Message::new(&model, &mut |_| Vec::new()).unwrap();
        let mut bytes = vec![0; message.size()];
        message.write_into(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_model_is_taken_apart_and_put_together() {
        let folder = Folder::new("strip");
        fs::write(folder.0.join("m.onnx"), model()).unwrap();
        let arguments = ["strip", "m.onnx", "-o", "c.onnx", "--map", "c.map"];
        let (code, printed) = folder.run(&arguments);
        assert_eq!(code, 0, "{printed}");
        assert!(printed.starts_with("c.onnx: 1 entries removed, "), "{printed}");
        assert!(
            printed.contains("note: the metadata of the model does not contain: "),
            "{printed}"
        );
        assert_ne!(fs::read(folder.0.join("c.onnx")).unwrap(), model());
        let (code, printed) = folder.run(&["attach", "c.onnx", "c.map", "-o", "b.onnx"]);
        assert_eq!(code, 0, "{printed}");
        assert_eq!(fs::read(folder.0.join("b.onnx")).unwrap(), model());
    }

    #[test]
    fn an_error_is_reported_and_nothing_is_written() {
        let folder = Folder::new("strip-refused");
        fs::write(folder.0.join("m.onnx"), model()).unwrap();
        fs::write(folder.0.join("no.onnx"), "text").unwrap();
        let refused = |arguments: &[&str], expected: &str| {
            let (code, printed) = folder.run(arguments);
            assert_eq!(code, 2, "{printed}");
            assert!(printed.starts_with(expected), "{printed}");
        };
        refused(&["strip", "gone.onnx", "-o", "c.onnx"], "error: cannot read `gone.onnx`: No such");
        refused(&["strip", "no.onnx", "-o", "c.onnx"], "error: no.onnx: this is not an ONNX model");
        let same = ["strip", "m.onnx", "-o", "c.onnx", "--map", "c.onnx"];
        refused(
            &same,
            "error: cannot write the model to `c.onnx`: the source map goes to the same file",
        );
        refused(&["attach", "m.onnx", "no.onnx", "-o", "c.onnx"], "error: no.onnx: this is not a");
        assert!(!folder.0.join("c.onnx").exists());
    }
}
