//! Stores the metadata that was removed from a model in its source map.

use provenance::codec::json::Json;
use provenance::{SourceMap, source_map::MapError};
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::Entry;

/// The key in a source map.
pub(super) const KEY: &str = "annotations";

/// The metadata in a source map cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the `annotations` of the source map are malformed")]
pub struct NoAnnotations;

/// Writes `texts`, each once, and for each position in a message its entries as numbers of texts.
pub(super) fn write(entries: &[Entry]) -> String {
    let mut numbers: FxHashMap<&str, u32> = FxHashMap::default();
    let mut texts: Vec<&str> = Vec::new();
    for text in entries.iter().flat_map(|entry| [&*entry.key, &*entry.value]) {
        numbers.entry(text).or_insert_with(|| {
            texts.push(text);
            texts.len() as u32 - 1
        });
    }
    let number = |text: &str| numbers.get(text).copied().unwrap_or_default();
    let mut json = Json::default();
    json.object(|json| {
        json.key("texts").each(texts, Json::text);
        let place = |entry: &Entry| (entry.message, entry.at);
        let groups = entries.chunk_by(|one, other| place(one) == place(other));
        json.key("entries").each(groups, |json, group| {
            json.list(|json| {
                json.numbers(group.first().map(place).into_iter().flat_map(|(m, at)| [m, at]));
                json.numbers(
                    group.iter().flat_map(|entry| [number(&entry.key), number(&entry.value)]),
                );
            });
        });
    });
    json.finish()
}

/// Reads the map, and its entries if it has any.
pub(super) fn read(text: &str) -> Result<(SourceMap, Option<Vec<Entry>>), super::StripError> {
    let document: Value = serde_json::from_str(text).map_err(MapError::from)?;
    let map = SourceMap::from_value(&document)?;
    let Some(annotations) = document.get(KEY) else { return Ok((map, None)) };
    Ok((map, Some(entries(annotations).ok_or(NoAnnotations)?)))
}

fn entries(annotations: &Value) -> Option<Vec<Entry>> {
    let texts = annotations.get("texts")?.as_array()?;
    let number = |value: &Value| u32::try_from(value.as_u64()?).ok();
    let text = |value: &Value| Some(texts.get(number(value)? as usize)?.as_str()?.to_owned());
    let mut entries = Vec::new();
    for group in annotations.get("entries")?.as_array()? {
        let (place, pairs) = group.as_array()?.split_at_checked(2)?;
        let (message, at) = (number(place.first()?)?, number(place.get(1)?)?);
        let (pairs, rest) = pairs.as_chunks::<2>();
        if !rest.is_empty() {
            return None;
        }
        for [key, value] in pairs {
            entries.push(Entry { message, at, key: text(key)?, value: text(value)? });
        }
    }
    Some(entries)
}
