//! Reading a document that may come from anywhere.

use serde_json::Value;

use super::VERSION;
use super::words::{EMITTERS, SCOPES, TIERS, value};
use crate::frame::{Emitter, Location, Span};
use crate::origin::{Origin, Site};
use crate::table::{OriginId, StackId, Table};

/// A table, and the origins that nodes refer to by number.
#[derive(Clone, Debug)]
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
///
/// An entry may only refer to one that exists, and to an enclosing one only before itself, so what
/// is read has no cycle.
pub fn decode(text: &str) -> Result<Decoded, DecodeError> {
    let document: Value = serde_json::from_str(text)?;
    match document.get("version") {
        None => return Err(DecodeError::Missing("version")),
        Some(version) if version.as_u64() != Some(VERSION) => {
            return Err(DecodeError::Version(version.clone()));
        }
        Some(_) => {}
    }
    let mut table = Table::default();
    let files = read(&document, "files", |entry, _| match entry.as_array()?.as_slice() {
        [path, tier] => Some(table.file(path.as_str()?, value(TIERS, tier.as_str()?)?)),
        _ => None,
    })?;
    let functions = read(&document, "functions", |entry, _| Some(table.function(entry.as_str()?)))?;
    let locations = read(&document, "locations", |entry, _| {
        let (file, function, line, span) = match entry.as_array()?.as_slice() {
            [file, function, line] => (file, function, line, None),
            [file, function, line, column, end_line, end_column] => {
                let span = Span {
                    column: number(column)?,
                    end_line: number(end_line)?,
                    end_column: number(end_column)?,
                };
                (file, function, line, Some(span))
            }
            _ => return None,
        };
        Some(table.location(Location {
            file: refer(&files, file)?,
            function: refer(&functions, function)?,
            line: number(line)?,
            span,
        }))
    })?;
    let stacks: Vec<StackId> =
        read(&document, "frames", |entry, before| match entry.as_array()?.as_slice() {
            [location, parent] => {
                Some(table.push(refer_or_null(before, parent)?, refer(&locations, location)?))
            }
            _ => None,
        })?;
    let scopes = read(&document, "scopes", |entry, before| match entry.as_array()?.as_slice() {
        [kind, name, parent] => {
            let kind = value(SCOPES, kind.as_str()?)?;
            Some(table.scope(refer_or_null(before, parent)?, kind, name.as_str()?))
        }
        _ => None,
    })?;
    let emitters =
        read(&document, "emitters", |entry, before| match entry.as_array()?.as_slice() {
            [kind, name, file, line, parent] => Some(table.emitter(Emitter {
                kind: value(EMITTERS, kind.as_str()?)?,
                name: name.as_str()?.into(),
                file: file.as_str()?.into(),
                line: number(line)?,
                parent: refer_or_null(before, parent)?,
            })),
            _ => None,
        })?;
    let sites = read(&document, "sites", |entry, _| match entry.as_array()?.as_slice() {
        [stack, scope, emitter] => Some(table.site(Site {
            stack: refer_or_null(&stacks, stack)?,
            scope: refer_or_null(&scopes, scope)?,
            emitter: refer_or_null(&emitters, emitter)?,
        })),
        _ => None,
    })?;
    let origins = read(&document, "origins", |entry, _| {
        let (primary, absorbed) = entry.as_array()?.split_first()?;
        let mut origin = Origin::of(refer(&sites, primary)?);
        for site in absorbed {
            origin = origin.absorb(&Origin::of(refer(&sites, site)?));
        }
        Some(table.origin(origin))
    })?;
    Ok(Decoded { table, origins })
}

/// Reads a list, each entry with those that were read before it.
fn read<Id>(
    document: &Value,
    list: &'static str,
    mut entry: impl FnMut(&Value, &[Id]) -> Option<Id>,
) -> Result<Vec<Id>, DecodeError> {
    let entries = document.get(list).and_then(Value::as_array).ok_or(DecodeError::Missing(list))?;
    let mut ids = Vec::with_capacity(entries.len());
    for (index, value) in entries.iter().enumerate() {
        let id = entry(value, &ids).ok_or(DecodeError::Malformed { list, index })?;
        ids.push(id);
    }
    Ok(ids)
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
