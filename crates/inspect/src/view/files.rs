//! The source files of a view, with as much of their text as may be shown.

use provenance::{FileId, Tier};
use serde_json::{Value, json};

use super::places::Places;
use crate::json::tier;
use crate::{Document, Frame, Source, Sources};

/// Describes the files that locations refer to.
pub(super) fn describe(
    document: &Document<'_>,
    sources: Option<&Sources<'_, '_>>,
    origins: &Places<'_>,
) -> Vec<Value> {
    let table = document.table();
    let describe = |(number, &(id, is_shown)): (usize, &(FileId, bool))| {
        let path = origins.path(id);
        let tier_of_file = table.get_file(id).tier;
        let mut value = json!({ "path": path, "tier": tier(tier_of_file) });
        let is_shown = is_shown && tier_of_file != Tier::Internal;
        let Some((sources, path)) = sources.zip(path).filter(|_| is_shown) else {
            value["source"] = json!("omitted");
            return value;
        };
        let source = sources.lookup(path);
        value["source"] = json!(source.word());
        match &source {
            Source::Same { text, .. } => value["text"] = json!(&**text),
            Source::Unchecked { text, is_newer, .. } => {
                value["text"] = json!(&**text);
                value["is_newer"] = json!(is_newer);
            }
            Source::Changed { .. } | Source::Missing => {
                value["lines"] = json!(recorded(sources, origins, number, path));
            }
        }
        value
    };
    origins.files.list.iter().enumerate().map(describe).collect()
}

/// Returns the lines that the model itself contains.
fn recorded(
    sources: &Sources<'_, '_>,
    origins: &Places<'_>,
    number: usize,
    path: &str,
) -> Vec<(u32, String)> {
    let here = origins.locations.list.iter().filter(|location| location.0 as usize == number);
    let mut lines: Vec<u32> = here.map(|location| location.2).collect();
    lines.sort_unstable();
    lines.dedup();
    let text = |line: u32| {
        let frame = Frame { file: path, function: "", line, span: None, tier: Tier::User };
        sources.line(&frame).1.map(|text| (line, text.to_string()))
    };
    lines.into_iter().filter_map(text).collect()
}
