//! Describes the source files of a view, with as much of their text as may be shown.

use provenance::{FileId, Tier};
use serde_json::{Value, json};

use super::limits::Limits;
use super::places::Places;
use crate::json::tier;
use crate::{Document, Frame, Source, Sources};

/// The number of lines to show around each line of a long file that nodes came from.
const CONTEXT: u32 = 12;

/// Describes the files that locations refer to.
pub(super) fn describe(
    document: &Document<'_>,
    sources: Option<&Sources<'_, '_>>,
    origins: &Places<'_>,
    limits: &mut Limits,
) -> Vec<Value> {
    let table = document.table();
    let describe = |(number, &(id, is_shown)): (usize, &(FileId, bool))| {
        let path = origins.path(id);
        let tier_of_file = table.get_file(id).tier;
        let shown = path.map(|path| limits.cut(path));
        let mut value = json!({ "path": shown, "tier": tier(tier_of_file) });
        let is_shown = is_shown && tier_of_file != Tier::Internal;
        let Some((sources, path)) = sources.zip(path).filter(|_| is_shown) else {
            value["source"] = json!("omitted");
            return value;
        };
        let source = sources.lookup(path);
        value["source"] = json!(source.word());
        if let Source::Unchecked { is_newer, .. } = &source {
            value["is_newer"] = json!(is_newer);
        }
        match source.text() {
            Some(text) if limits.take_file(text) => value["text"] = json!(&**text),
            Some(text) => {
                let lines = excerpt(text, &lines_of(origins, number), limits);
                value["lines"] = json!(lines);
            }
            None => value["lines"] = json!(recorded(sources, origins, number, path, limits)),
        }
        value
    };
    origins.files.list.iter().enumerate().map(describe).collect()
}

/// Returns the source lines that the model contains.
fn recorded(
    sources: &Sources<'_, '_>,
    origins: &Places<'_>,
    number: usize,
    path: &str,
    limits: &mut Limits,
) -> Vec<(u32, String)> {
    let text = |line: u32| {
        let frame = Frame { file: path, function: "", line, span: None, tier: Tier::User };
        sources.line(&frame).1.map(|text| (line, limits.cut(&*text).into_owned()))
    };
    lines_of(origins, number).into_iter().filter_map(text).collect()
}

/// Returns the lines of a long file that nodes came from, with a few lines around each.
fn excerpt(text: &str, lines: &[u32], limits: &mut Limits) -> Vec<(u32, String)> {
    let mut shown = Vec::new();
    let mut next = 0;
    for (number, line) in (1u32..).zip(text.lines()) {
        while lines.get(next).is_some_and(|&line| line.saturating_add(CONTEXT) < number) {
            next += 1;
        }
        let is_near = lines.get(next).is_some_and(|&line| line <= number + CONTEXT);
        if is_near && limits.source.take_part(line.len().min(limits.max_line())) {
            shown.push((number, limits.cut(line).into_owned()));
        }
    }
    shown
}

/// Returns the lines of a file that locations refer to.
fn lines_of(origins: &Places<'_>, number: usize) -> Vec<u32> {
    let here = origins.locations.list.iter().filter(|location| location.0 as usize == number);
    let mut lines: Vec<u32> = here.map(|location| location.2).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}
