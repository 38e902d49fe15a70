//! Reads a provenance table from an untrusted source.

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::VERSION;
use super::encode::SharedSite;
use super::packed::Unpacker;
use super::words::{TIERS, value};
use crate::frame::{Emitter, EmitterKind, Location, ScopeKind, Span};
use crate::origin::{Origin, Site};
use crate::table::{
    EmitterId, File, FileId, LocationId, OriginId, ScopeId, SiteId, StackId, Table,
};

/// A table, and the origins that nodes refer to by number.
#[derive(Clone, Debug, Default)]
pub struct Decoded {
    pub table: Table,
    /// Entry `n` is the origin with the number `n`.
    pub origins: Vec<OriginId>,
    /// The SHA-256 hashes of source files when the model was exported, in hexadecimal.
    pub hashes: FxHashMap<FileId, Box<str>>,
}

impl Decoded {
    /// Returns the hash of a source file or of a cell, if the document contains it.
    pub fn hash(&self, file: FileId) -> Option<&str> {
        let recorded = self.hashes.get(&file).map(AsRef::as_ref);
        recorded.or_else(|| self.table.get_file(file).cell.as_deref())
    }
}

/// The reason why a text is not a provenance table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    #[error("the provenance table is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the provenance table has the unknown version {0}; update jax2onnx to read it")]
    Version(Value),
    #[error("the provenance table has no `{0}`")]
    Missing(&'static str),
    #[error("entry {index} of `{list}` in the provenance table is malformed")]
    Malformed { list: &'static str, index: usize },
    #[error("`{list}` in the provenance table expands to more than its size allows")]
    Expansion { list: &'static str },
}

/// Decodes a document.
pub fn decode(text: &str) -> Result<Decoded, DecodeError> {
    decode_value(&serde_json::from_str(text)?)
}

/// Decodes a document that is a part of another one.
///
/// An entry may refer only to existing entries. Its enclosing entry must come before it, so the result has no
/// cycles.
pub(crate) fn decode_value(document: &Value) -> Result<Decoded, DecodeError> {
    match document.get("version") {
        None => return Err(DecodeError::Missing("version")),
        Some(version) if version.as_u64() != Some(VERSION) => {
            return Err(DecodeError::Version(version.clone()));
        }
        Some(_) => {}
    }
    let mut table = Table::default();
    let files = read_files(document, &mut table)?;
    let hashes = read_hashes(document, "hashes")?.into_iter();
    let hashes = hashes.filter_map(|(number, hash)| {
        let file = files.get(usize::try_from(number).ok()?)?;
        Some((*file, hash.into()))
    });
    let hashes = hashes.collect();
    let frames = read_frames(document, &mut table, &files)?;
    let scopes = read_scopes(document, &mut table)?;
    let emitters = read_emitters(document, &mut table)?;
    let places = read_places(document, &frames, &emitters)?;
    let sites = read_sites(document, &mut table, &scopes, &places)?;
    let origins = read_origins(document, &mut table, &sites)?;
    Ok(Decoded { table, origins, hashes })
}

fn read_files(document: &Value, table: &mut Table) -> Result<Vec<FileId>, DecodeError> {
    let tiers =
        document.get("tiers").and_then(Value::as_str).ok_or(DecodeError::Missing("tiers"))?;
    let mut tiers = tiers.chars();
    let cells = read_hashes(document, "cells")?;
    let mut number = 0;
    texts(document, "files", |path| {
        let cell = cells.get(&number).map(|&hash| hash.into());
        number += 1;
        Some(table.add_file(File { path: path.into(), tier: value(TIERS, tiers.next()?)?, cell }))
    })
}

fn read_frames(
    document: &Value,
    table: &mut Table,
    files: &[FileId],
) -> Result<Vec<StackId>, DecodeError> {
    let functions = texts(document, "functions", |name| Some(table.function(name)))?;
    let (mut file, mut function, mut line) = (0, 0, 0);
    let locations = packed(document, "locations", |unpacker, _: &[LocationId]| {
        let file = *files.get(unpacker.step(&mut file)? as usize)?;
        let function = *functions.get(unpacker.step(&mut function)? as usize)?;
        let line = unpacker.step(&mut line)?;
        let span = match unpacker.number()?.checked_sub(1) {
            None => None,
            Some(column) => {
                let end_line = unpacker.step(&mut line.clone())?;
                let end_column = unpacker.step(&mut column.clone())?;
                Some(Span { column, end_line, end_column })
            }
        };
        Some(table.location(Location { file, function, line, span }))
    })?;
    let mut frames: Vec<StackId> = Vec::new();
    let mut before = 0;
    packed(document, "frames", |unpacker, runs: &[Vec<LocationId>]| {
        let mut caller = match unpacker.earlier(frames.len())? {
            None => None,
            Some(caller) => Some(*frames.get(caller)?),
        };
        let mut run = Vec::new();
        for _ in 0..unpacker.number()? {
            run.push(*locations.get(unpacker.step(&mut before)? as usize)?);
        }
        match unpacker.number()? as usize {
            0 => {}
            shared => {
                let known = runs.get(unpacker.earlier(runs.len())??)?;
                unpacker.repeat(shared)?;
                run.extend_from_slice(known.get(known.len().checked_sub(shared)?..)?);
            }
        }
        for &location in &run {
            let frame = table.push(caller, location);
            frames.push(frame);
            caller = Some(frame);
        }
        (!run.is_empty()).then_some(run)
    })?;
    Ok(frames)
}

/// Reads a list of pairs, which may be absent: the number of a file, and a hash.
fn read_hashes<'a>(
    document: &'a Value,
    list: &'static str,
) -> Result<FxHashMap<u64, &'a str>, DecodeError> {
    let Some(pairs) = document.get(list) else { return Ok(FxHashMap::default()) };
    let malformed = |index| DecodeError::Malformed { list, index };
    let pairs = pairs.as_array().ok_or(malformed(0))?.iter().enumerate();
    pairs.map(|(index, pair)| read_hash(pair).ok_or(malformed(index))).collect()
}

fn read_hash(pair: &Value) -> Option<(u64, &str)> {
    match pair.as_array()?.as_slice() {
        [file, hash] => Some((file.as_u64()?, hash.as_str()?)),
        _ => None,
    }
}

fn read_scopes(document: &Value, table: &mut Table) -> Result<Vec<ScopeId>, DecodeError> {
    let names = texts(document, "scope_names", Some)?;
    packed(document, "scopes", |unpacker, before: &[ScopeId]| {
        let (name, kind) = match unpacker.number()? {
            number if number % 2 == 1 => (number / 2, ScopeKind::Transform),
            number => (number / 2, ScopeKind::Name),
        };
        let outer = unpacker.earlier(before.len())?.map(|outer| before[outer]);
        Some(table.scope(outer, kind, names.get(name as usize)?))
    })
}

fn read_emitters(document: &Value, table: &mut Table) -> Result<Vec<EmitterId>, DecodeError> {
    let files = texts(document, "emitter_files", Some)?;
    let names = texts(document, "emitter_names", Some)?;
    packed(document, "emitters", |unpacker, before: &[EmitterId]| {
        let kind = match unpacker.number()? {
            0 => EmitterKind::Plugin,
            1 => EmitterKind::Helper,
            2 => EmitterKind::PythonPlugin,
            3 => EmitterKind::PythonHelper,
            _ => return None,
        };
        let name = (*names.get(unpacker.number()? as usize)?).into();
        let file = (*files.get(unpacker.number()? as usize)?).into();
        let line = unpacker.number()?;
        let parent = unpacker.earlier(before.len())?.map(|parent| before[parent]);
        Some(table.emitter(Emitter { kind, name, file, line, parent }))
    })
}

fn read_places(
    document: &Value,
    frames: &[StackId],
    emitters: &[EmitterId],
) -> Result<Vec<SharedSite>, DecodeError> {
    let (mut frame, mut emitter) = (0, 0);
    packed(document, "places", |unpacker, _: &[SharedSite]| {
        let frame = refer(frames, unpacker.step(&mut frame)?)?;
        Some((frame, refer(emitters, unpacker.step(&mut emitter)?)?))
    })
}

fn read_sites(
    document: &Value,
    table: &mut Table,
    scopes: &[ScopeId],
    places: &[SharedSite],
) -> Result<Vec<SiteId>, DecodeError> {
    let mut sites = Vec::new();
    let (mut scope, mut place) = (0, 0);
    packed(document, "origins", |unpacker, runs: &[Vec<u32>]| {
        let scope = refer(scopes, unpacker.step(&mut scope)?)?;
        let run = if let Some(known) = unpacker.earlier(runs.len())? {
            unpacker.repeat(runs[known].len())?;
            runs[known].clone()
        } else {
            let count = unpacker.number()?;
            (0..count).map(|_| unpacker.step(&mut place)).collect::<Option<Vec<u32>>>()?
        };
        place = *run.last()?;
        for &place in &run {
            let (stack, emitter) = *places.get(place as usize)?;
            sites.push(table.site(Site { stack, scope, emitter }));
        }
        Some(run)
    })?;
    Ok(sites)
}

/// Reads an origin for each site; fused origins have several sites.
fn read_origins(
    document: &Value,
    table: &mut Table,
    sites: &[SiteId],
) -> Result<Vec<OriginId>, DecodeError> {
    let mut origins: Vec<Origin> = sites.iter().map(|&site| Origin::of(site)).collect();
    let mut number = 0_usize;
    packed(document, "fused", |unpacker, before: &[Vec<u32>]| {
        number = number.checked_add(unpacker.number()? as usize)?;
        let distances = match unpacker.earlier(before.len())? {
            Some(known) => {
                unpacker.repeat(before[known].len())?;
                before[known].clone()
            }
            None => read_distances(unpacker, number)?,
        };
        let other = |&distance: &u32| Some(sites[number.checked_sub(distance as usize)?]);
        let others = distances.iter().rev().map(other).collect::<Option<_>>()?;
        origins[number] = origins.get(number)?.absorb_sites(others);
        (!distances.is_empty()).then_some(distances)
    })?;
    Ok(origins.into_iter().map(|origin| table.origin(origin)).collect())
}

/// Reads the distances from an origin back to its other sites, the nearest first; at most `most`.
fn read_distances(unpacker: &mut Unpacker<'_>, most: usize) -> Option<Vec<u32>> {
    let mut distances = Vec::new();
    let mut at = 0_u32;
    for _ in 0..unpacker.number()? {
        let first = at.checked_add(unpacker.number()?)?.checked_add(1)?;
        at = first.checked_add(unpacker.number()?)?;
        if at as usize > most {
            return None;
        }
        unpacker.repeat((at - first) as usize)?;
        distances.extend(first..=at);
    }
    Some(distances)
}

/// Reads a list of texts.
fn texts<'a, T>(
    document: &'a Value,
    list: &'static str,
    mut entry: impl FnMut(&'a str) -> Option<T>,
) -> Result<Vec<T>, DecodeError> {
    let entries = document.get(list).and_then(Value::as_array).ok_or(DecodeError::Missing(list))?;
    let read = |(index, value): (usize, &'a Value)| {
        value.as_str().and_then(&mut entry).ok_or(DecodeError::Malformed { list, index })
    };
    entries.iter().enumerate().map(read).collect()
}

/// Reads a list of packed numbers. `entry` gets the entries before the current one.
fn packed<T>(
    document: &Value,
    list: &'static str,
    mut entry: impl FnMut(&mut Unpacker<'_>, &[T]) -> Option<T>,
) -> Result<Vec<T>, DecodeError> {
    let text = document.get(list).and_then(Value::as_str).ok_or(DecodeError::Missing(list))?;
    let mut unpacker = Unpacker::new(text);
    let mut entries = Vec::new();
    while !unpacker.is_done() {
        let Some(read) = entry(&mut unpacker, &entries) else {
            return Err(match unpacker.repeats_too_much() {
                true => DecodeError::Expansion { list },
                false => DecodeError::Malformed { list, index: entries.len() },
            });
        };
        entries.push(read);
    }
    Ok(entries)
}

/// Returns the id at `number - 1`; no id for 0.
#[expect(clippy::option_option)]
fn refer<Id: Copy>(ids: &[Id], number: u32) -> Option<Option<Id>> {
    match number.checked_sub(1) {
        None => Some(None),
        Some(index) => ids.get(index as usize).copied().map(Some),
    }
}
