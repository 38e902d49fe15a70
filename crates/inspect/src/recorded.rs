//! Reads the provenance of a model, in any form.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use onnx::scan::{Node, Scan};
use onnx::source_map::NoMap;
use provenance::codec::{self, Decoded};
use provenance::from_text::{self, NodeTexts};
use provenance::{SourceMap, keys};

use crate::file::{OpenError, read_map};
use crate::foreign::{self, Lines};

/// The form in which a model records the origins of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It records none.
    Off,
    /// As call sites without files.
    Minimal,
    /// As texts on each node.
    Full,
    /// As a table.
    Indexed,
    /// In a source map.
    Map,
    /// As the stack traces and scopes of torch.onnx.
    Torch,
}

impl Recorded {
    pub fn word(self) -> &'static str {
        match self {
            Recorded::Off => "off",
            Recorded::Minimal => "minimal",
            Recorded::Full => "full",
            Recorded::Indexed => "indexed",
            Recorded::Map => "map",
            Recorded::Torch => "torch",
        }
    }

    /// Returns what a model does not record, and how to export one that records it.
    ///
    /// `producer` is the exporter that the model names.
    pub(crate) fn missing(self, producer: &str) -> Option<&'static str> {
        match self {
            Recorded::Off if producer == "pytorch" => Some(
                "the model contains no source lines: export it with `torch.onnx.export(..., dynamo=True)`",
            ),
            Recorded::Off => Some(
                "the model contains no provenance: pass its source map with --map, or export it with \
                 `provenance=\"indexed\"`",
            ),
            Recorded::Minimal => Some(
                "the level `minimal` does not record files: export with `provenance=\"indexed\"`",
            ),
            Recorded::Full | Recorded::Indexed | Recorded::Map | Recorded::Torch => None,
        }
    }
}

/// The source of the origins.
pub(crate) enum Origins {
    /// The model itself, with the number of each node's origin.
    Own { provenance: Arc<Decoded>, numbers: Vec<Option<u32>> },
    /// A map of the exported model, from which this model may have been derived.
    Export(SourceMap),
}

/// The recorded origins of a model.
pub(crate) struct RecordedOrigins {
    pub(crate) level: Recorded,
    pub(crate) origins: Origins,
    /// Source lines that the model contains.
    pub(crate) lines: Lines,
    pub(crate) map_path: Option<PathBuf>,
    pub(crate) notes: Vec<String>,
}

/// The maximum size of a provenance table. jax2onnx writes smaller ones, and reading larger ones would take much
/// memory.
const MAX_TABLE: usize = 1 << 27;

/// Finds the origins of a model: in the given map, in the map beside the model, or in the model.
pub(crate) fn find(
    scan: &Scan<'_>,
    path: Option<&Path>,
    name: &str,
    map: Option<&Path>,
) -> Result<RecordedOrigins, OpenError> {
    let id = scan.meta(keys::DEBUG_ID);
    if let Some(map_path) = map {
        let map = load(map_path)?;
        if let Some(id) = id {
            map.check(id).map_err(|why| OpenError::Pair { path: map_path.to_owned(), why })?;
        }
        return Ok(RecordedOrigins {
            level: Recorded::Map,
            origins: Origins::Export(map),
            lines: Lines::default(),
            map_path: Some(map_path.to_owned()),
            notes: Vec::new(),
        });
    }
    let mut notes = Vec::new();
    if let Some(beside) = path.map(beside).filter(|beside| beside.is_file())
        && let Some(found) = beside_the_model(&beside, id, &mut notes)
    {
        let lines = Lines::default();
        let map_path = Some(beside);
        let level = Recorded::Map;
        let origins = Origins::Export(found);
        return Ok(RecordedOrigins { level, origins, lines, map_path, notes });
    }
    let model_error = |why| OpenError::Model { name: name.to_owned(), why };
    let (level, provenance, numbers, lines) = of_model(scan, &mut notes).map_err(model_error)?;
    let origins = Origins::Own { provenance: Arc::new(provenance), numbers };
    Ok(RecordedOrigins { level, origins, lines, map_path: None, notes })
}

/// `model.onnx.map`
fn beside(model: &Path) -> PathBuf {
    let mut name = model.as_os_str().to_owned();
    name.push(".map");
    PathBuf::from(name)
}

/// Returns the map beside the model, if it belongs to the model.
fn beside_the_model(path: &Path, id: Option<&str>, notes: &mut Vec<String>) -> Option<SourceMap> {
    let shown = path.display();
    let Some(id) = id else {
        notes.push(format!(
            "ignored `{shown}`: without a debug id in the model, jax2onnx cannot tell whether it is the map \
             of this model; to use it anyway, pass it with --map"
        ));
        return None;
    };
    match load(path) {
        Ok(map) if map.check(id).is_ok() => Some(map),
        Ok(_) => {
            notes.push(format!("ignored `{shown}`: it is the source map of another model"));
            None
        }
        Err(error) => {
            notes.push(format!("ignored `{shown}`: {error}"));
            None
        }
    }
}

/// Reads a map, or creates one from a model with provenance.
fn load(path: &Path) -> Result<SourceMap, OpenError> {
    let file = read_map(path)?;
    let bytes = file.bytes();
    if bytes.first() != Some(&b'{') {
        let failed = |why| OpenError::NoMap { path: path.to_owned(), why };
        return onnx::source_map::of_model(bytes).map_err(failed);
    }
    SourceMap::read(file.text()?).map_err(|why| OpenError::Map { path: path.to_owned(), why })
}

type OfModel = (Recorded, Decoded, Vec<Option<u32>>, Lines);

fn of_model(scan: &Scan<'_>, notes: &mut Vec<String>) -> Result<OfModel, NoMap> {
    if let Some(table) = scan.meta(keys::PROVENANCE) {
        if table.len() > MAX_TABLE {
            return Err(NoMap::TableSize { found: table.len(), most: MAX_TABLE });
        }
        let provenance = codec::decode(table)?;
        let origins = written_numbers(scan, &provenance, notes);
        return Ok((Recorded::Indexed, provenance, origins, Lines::default()));
    }
    let texts: Vec<NodeTexts<'_>> = scan.nodes.iter().map(texts).collect();
    if let Some(read) = from_text::read(&texts) {
        let is_full = texts.iter().any(|t| t.stacktrace.is_some() || t.jax_traceback.is_some());
        let level = if is_full { Recorded::Full } else { Recorded::Minimal };
        return Ok((level, codec::decode(&read.table)?, read.origins, Lines::default()));
    }
    Ok(match foreign::read(scan) {
        Some(read) => (Recorded::Torch, read.provenance, read.origins, read.lines),
        None => (Recorded::Off, Decoded::default(), vec![None; scan.nodes.len()], Lines::default()),
    })
}

/// Returns the origin numbers of the nodes. Omits numbers that are not in the table, and adds a note.
fn written_numbers(
    scan: &Scan<'_>,
    provenance: &Decoded,
    notes: &mut Vec<String>,
) -> Vec<Option<u32>> {
    let mut wrong = 0;
    let mut number = |node: &Node<'_>| {
        let found = node.meta(keys::ORIGIN)?;
        let known = found.parse().ok().filter(|&n: &u32| (n as usize) < provenance.origins.len());
        wrong += usize::from(known.is_none());
        known
    };
    let numbers = scan.nodes.iter().map(&mut number).collect();
    if wrong > 0 {
        notes.push(format!("{wrong} nodes refer to an origin that is not in the provenance table"));
    }
    numbers
}

fn texts<'a>(node: &Node<'a>) -> NodeTexts<'a> {
    NodeTexts {
        callsite: node.meta(keys::CALLSITE),
        plugin: node.meta(keys::PLUGIN),
        stacktrace: node.meta(keys::STACKTRACE),
        jax_traceback: node.meta(keys::JAX_TRACEBACK),
        fused_from: node.meta(keys::FUSED_FROM),
    }
}
