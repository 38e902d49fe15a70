//! Reading a document that may come from anywhere.

use serde_json::Value;

use super::VERSION;
use super::words::{EMITTERS, TIERS, TRANSFORM, value};
use crate::frame::{Emitter, Location, ScopeKind, Span};
use crate::origin::{Origin, Site};
use crate::table::{EmitterId, OriginId, ScopeId, SiteId, StackId, Table};

/// A table, and the origins that nodes refer to by number.
#[derive(Clone, Debug, Default)]
pub struct Decoded {
    pub table: Table,
    /// The origin with number `n` is the entry `n`.
    pub origins: Vec<OriginId>,
}

/// Why a text is no document of ours.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    #[error("the provenance table is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("version {0} of the provenance table is unknown")]
    Version(Value),
    #[error("the provenance table has no `{0}`")]
    Missing(&'static str),
    #[error("entry {index} of `{list}` in the provenance table is malformed")]
    Malformed { list: &'static str, index: usize },
}

/// The table and the origins of a document.
pub fn decode(text: &str) -> Result<Decoded, DecodeError> {
    decode_value(&serde_json::from_str(text)?)
}

/// The same of a document that is part of another.
///
/// An entry may only refer to one that exists, and to an enclosing one only before itself, so what
/// is read has no cycle.
pub(crate) fn decode_value(document: &Value) -> Result<Decoded, DecodeError> {
    match document.get("version") {
        None => return Err(DecodeError::Missing("version")),
        Some(version) if version.as_u64() != Some(VERSION) => {
            return Err(DecodeError::Version(version.clone()));
        }
        Some(_) => {}
    }
    let mut table = Table::default();
    let frames = read_frames(document, &mut table)?;
    let scopes = read_scopes(document, &mut table)?;
    let emitters = read_emitters(document, &mut table)?;
    let places: Vec<Place> =
        read(document, "places", |entry, _| match entry.as_array()?.as_slice() {
            [frame, emitter] => {
                Some((refer_or_null(&frames, frame)?, refer_or_null(&emitters, emitter)?))
            }
            _ => None,
        })?;
    let sites = read_sites(document, &mut table, &scopes, &places)?;
    let origins = read_origins(document, &mut table, &sites)?;
    Ok(Decoded { table, origins })
}

type Place = (Option<StackId>, Option<EmitterId>);

fn read_frames(document: &Value, table: &mut Table) -> Result<Vec<StackId>, DecodeError> {
    let files = read(document, "files", |entry, _| match entry.as_array()?.as_slice() {
        [path, tier] => Some(table.file(path.as_str()?, value(TIERS, tier.as_str()?)?)),
        _ => None,
    })?;
    let functions = read(document, "functions", |entry, _| Some(table.function(entry.as_str()?)))?;
    let locations = read(document, "locations", |entry, _| {
        let (place, span) = entry.as_array()?.split_at_checked(3)?;
        let [file, function, line] = place else { return None };
        let line = number(line)?;
        let span = match span {
            [] => None,
            [column, end_column] => Some((column, line, end_column)),
            [column, end_line, end_column] => Some((column, number(end_line)?, end_column)),
            _ => return None,
        };
        let span = match span {
            Some((column, end_line, end_column)) => {
                Some(Span { column: number(column)?, end_line, end_column: number(end_column)? })
            }
            None => None,
        };
        let (file, function) = (refer(&files, file)?, refer(&functions, function)?);
        Some(table.location(Location { file, function, line, span }))
    })?;
    let mut frames: Vec<StackId> = Vec::new();
    read_runs(document, "frames", |caller, run| {
        let mut caller = refer_or_null(&frames, caller)?;
        for location in run {
            let frame = table.push(caller, refer(&locations, location)?);
            frames.push(frame);
            caller = Some(frame);
        }
        Some(())
    })?;
    Ok(frames)
}

fn read_scopes(document: &Value, table: &mut Table) -> Result<Vec<ScopeId>, DecodeError> {
    read(document, "scopes", |entry, before| {
        let (name, parent, kind) = match entry.as_array()?.as_slice() {
            [name, parent] => (name, parent, ScopeKind::Name),
            [name, parent, word] if word == TRANSFORM => (name, parent, ScopeKind::Transform),
            _ => return None,
        };
        Some(table.scope(refer_or_null(before, parent)?, kind, name.as_str()?))
    })
}

fn read_emitters(document: &Value, table: &mut Table) -> Result<Vec<EmitterId>, DecodeError> {
    let files = read(document, "emitter_files", |entry, _| entry.as_str())?;
    read(document, "emitters", |entry, before| match entry.as_array()?.as_slice() {
        [kind, name, file, line, parent] => Some(table.emitter(Emitter {
            kind: value(EMITTERS, kind.as_str()?)?,
            name: name.as_str()?.into(),
            file: refer(&files, file)?.into(),
            line: number(line)?,
            parent: refer_or_null(before, parent)?,
        })),
        _ => None,
    })
}

fn read_sites(
    document: &Value,
    table: &mut Table,
    scopes: &[ScopeId],
    places: &[Place],
) -> Result<Vec<SiteId>, DecodeError> {
    let mut sites = Vec::new();
    read_runs(document, "origins", |scope, run| {
        let scope = refer_or_null(scopes, scope)?;
        for place in run {
            let (stack, emitter) = refer(places, place)?;
            sites.push(table.site(Site { stack, scope, emitter }));
        }
        Some(())
    })?;
    Ok(sites)
}

/// An origin for each site; the fused ones have others beside it.
fn read_origins(
    document: &Value,
    table: &mut Table,
    sites: &[SiteId],
) -> Result<Vec<OriginId>, DecodeError> {
    let mut origins: Vec<Origin> = sites.iter().map(|&site| Origin::of(site)).collect();
    read_runs(document, "fused", |fused, absorbed| {
        let index = number(fused)? as usize;
        let origin = origins.get(index)?;
        let others = absorbed.iter().map(|other| refer(&sites[..index], other));
        origins[index] = origin.absorb_sites(others.collect::<Option<_>>()?);
        Some(())
    })?;
    Ok(origins.into_iter().map(|origin| table.origin(origin)).collect())
}

/// Reads a list, each entry with those that were read before it.
fn read<'a, Id>(
    document: &'a Value,
    list: &'static str,
    mut entry: impl FnMut(&'a Value, &[Id]) -> Option<Id>,
) -> Result<Vec<Id>, DecodeError> {
    let entries = document.get(list).and_then(Value::as_array).ok_or(DecodeError::Missing(list))?;
    let mut ids = Vec::with_capacity(entries.len());
    for (index, value) in entries.iter().enumerate() {
        let id = entry(value, &ids).ok_or(DecodeError::Malformed { list, index })?;
        ids.push(id);
    }
    Ok(ids)
}

/// Reads a list of lists, each with at least two entries: what the others have in common, and these.
fn read_runs(
    document: &Value,
    list: &'static str,
    mut run: impl FnMut(&Value, &[Value]) -> Option<()>,
) -> Result<(), DecodeError> {
    read(document, list, |entry, _| {
        let (first, rest) = entry.as_array()?.split_first()?;
        if rest.is_empty() { None } else { run(first, rest) }
    })?;
    Ok(())
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64()?.try_into().ok()
}

fn refer<Id: Copy>(ids: &[Id], value: &Value) -> Option<Id> {
    ids.get(number(value)? as usize).copied()
}

/// What an entry refers to, or that it refers to nothing; `None` where it does neither.
#[expect(clippy::option_option)]
fn refer_or_null<Id: Copy>(ids: &[Id], value: &Value) -> Option<Option<Id>> {
    if value.is_null() { Some(None) } else { refer(ids, value).map(Some) }
}
