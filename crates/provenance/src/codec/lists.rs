//! The lists of a document, as texts of packed numbers.
//!
//! The layers of a model are similar, so an entry stores the distance to an earlier entry instead of the part that
//! both have in common.

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::encode::{Entry, SharedSite};
use super::json::Json;
use super::packed::Packer;
use crate::frame::{EmitterKind, ScopeKind};
use crate::table::{Frame, LocationId, StackId, Table};

type Names<'a> = IndexSet<&'a str, FxBuildHasher>;

pub(super) fn locations(table: &Table) -> String {
    let mut packer = Packer::default();
    let (mut file, mut function, mut line) = (0, 0, 0);
    for location in table.locations.iter() {
        packer.step(&mut file, location.file.0);
        packer.step(&mut function, location.function.0);
        packer.step(&mut line, location.line);
        if let Some(span) = location.span {
            packer.number(u64::from(span.column) + 1);
            packer.step(&mut location.line.clone(), span.end_line);
            packer.step(&mut span.column.clone(), span.end_column);
        } else {
            packer.number(0_u32);
        }
    }
    packer.text
}

/// Writes the call paths. They are copied from the outside in, so most frames are called from the frame before, and
/// inside JAX the paths end alike.
pub(super) fn frames(table: &Table) -> String {
    let mut packer = Packer::default();
    let frames: Vec<(usize, &Frame)> = table.stacks.iter().enumerate().collect();
    let follows = |one: &(usize, &Frame), other: &(usize, &Frame)| {
        other.1.parent == Some(StackId(one.0 as u32))
    };
    let mut ends: FxHashMap<Vec<LocationId>, usize> = FxHashMap::default();
    let mut before = 0;
    for (number, run) in frames.chunk_by(follows).enumerate() {
        let Some((first, frame)) = run.first() else { continue };
        packer.earlier(*first, frame.parent.map(StackId::index));
        let locations: Vec<LocationId> = run.iter().map(|(_, frame)| frame.location).collect();
        let shared = (0..locations.len() - 1).find_map(|start| {
            let known = ends.get(&locations[start..])?;
            Some((start, *known))
        });
        let shared = shared.filter(|(start, _)| packer.repeat(locations.len() - start));
        let own = shared.map_or(locations.len(), |(start, _)| start);
        packer.number(own as u64);
        for location in &locations[..own] {
            packer.step(&mut before, location.0);
        }
        packer.number((locations.len() - own) as u64);
        if let Some((_, known)) = shared {
            packer.earlier(number, Some(known));
        }
        for start in 0..locations.len() - 1 {
            ends.insert(locations[start..].to_vec(), number);
        }
    }
    packer.text
}

pub(super) fn scopes(json: &mut Json, table: &Table) {
    let mut packer = Packer::default();
    let mut names = Names::default();
    for (number, scope) in table.scopes.iter().enumerate() {
        let name = names.insert_full(&*scope.name).0 as u64;
        packer.number(2 * name + u64::from(scope.kind == ScopeKind::Transform));
        packer.earlier(number, scope.parent.map(|id| id.0 as usize));
    }
    json.key("scope_names").each(names, |json, name| json.text(name));
    json.key("scopes").text(&packer.text);
}

pub(super) fn emitters(json: &mut Json, table: &Table) {
    let mut packer = Packer::default();
    let (mut names, mut files) = (Names::default(), Names::default());
    for (number, emitter) in table.emitters.iter().enumerate() {
        packer.number(match emitter.kind {
            EmitterKind::Plugin => 0_u32,
            EmitterKind::Helper => 1,
            EmitterKind::PythonPlugin => 2,
            EmitterKind::PythonHelper => 3,
        });
        packer.number(names.insert_full(&*emitter.name).0 as u64);
        packer.number(files.insert_full(&*emitter.file).0 as u64);
        packer.number(emitter.line);
        packer.earlier(number, emitter.parent.map(|id| id.0 as usize));
    }
    json.key("emitter_files").each(files, |json, file| json.text(file));
    json.key("emitter_names").each(names, |json, name| json.text(name));
    json.key("emitters").text(&packer.text);
}

/// Writes the shared parts of sites. A missing part is 0, and any other part is its number plus one.
pub(super) fn places<'a>(places: impl IntoIterator<Item = &'a SharedSite>) -> String {
    let mut packer = Packer::default();
    let (mut frame, mut emitter) = (0, 0);
    for (stack, by) in places {
        packer.step(&mut frame, stack.map_or(0, |id| id.0 + 1));
        packer.step(&mut emitter, by.map_or(0, |id| id.0 + 1));
    }
    packer.text
}

pub(super) fn origins(entries: &[Entry]) -> String {
    let mut packer = Packer::default();
    let mut runs: FxHashMap<Vec<u32>, usize> = FxHashMap::default();
    let (mut scope, mut place) = (0, 0);
    for (number, run) in entries.chunk_by(|one, other| one.scope == other.scope).enumerate() {
        let Some(first) = run.first() else { continue };
        packer.step(&mut scope, first.scope.map_or(0, |id| id.0 + 1));
        let places: Vec<u32> = run.iter().map(|entry| entry.place).collect();
        let known = runs.get(&places).copied().filter(|_| packer.repeat(places.len()));
        packer.earlier(number, known);
        if known.is_none() {
            packer.number(places.len() as u64);
            for &each in &places {
                packer.step(&mut place, each);
            }
        }
        place = places.last().copied().unwrap_or(place);
        runs.insert(places, number);
    }
    packer.text
}

/// Writes the other sites of fused origins as runs of numbers, from the fused one downward.
pub(super) fn fused(fused: &[(u32, Vec<u32>)]) -> String {
    let mut packer = Packer::default();
    let mut known: FxHashMap<Vec<u32>, usize> = FxHashMap::default();
    let mut before = 0;
    for (index, (number, others)) in fused.iter().enumerate() {
        packer.number(number - before);
        before = *number;
        let distances: Vec<u32> = others.iter().rev().map(|other| number - other).collect();
        let same = known.get(&distances).copied().filter(|_| packer.repeat(distances.len()));
        packer.earlier(index, same);
        if same.is_none() {
            let has_runs = packer.repeat(distances.len());
            let runs: Vec<&[u32]> =
                distances.chunk_by(|one, other| has_runs && one + 1 == *other).collect();
            packer.number(runs.len() as u64);
            let mut at = 0;
            for run in runs {
                if let (Some(first), Some(last)) = (run.first(), run.last()) {
                    packer.number(first - at - 1);
                    packer.number(last - first);
                    at = *last;
                }
            }
        }
        known.insert(distances, index);
    }
    packer.text
}
