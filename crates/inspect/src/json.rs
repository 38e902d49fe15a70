//! Formats frames and origins for programs, in the same way for all commands. `docs/json-formats.md` describes
//! them.

use provenance::Tier;
use serde_json::{Value, json};

use crate::{Frame, Plugin, Provenance, Sources};

/// Returns a frame as JSON; unknown parts are `null`.
pub fn frame(frame: &Frame<'_>) -> Value {
    let known = |number: u32| (number > 0).then_some(number);
    let span = frame.span.map(|span| {
        json!({
            "column": span.column,
            "end_line": span.end_line,
            "end_column": span.end_column,
        })
    });
    json!({
        "file": frame.has_file().then_some(frame.file),
        "line": known(frame.line),
        "function": frame.function,
        "span": span,
        "tier": tier(frame.tier),
    })
}

/// Returns a frame with its source line, if it can be shown, and whether the line is unchanged.
pub fn frame_with_source(shown: &Frame<'_>, sources: &Sources<'_, '_>) -> Value {
    let mut value = frame(shown);
    let (source, line) = sources.line(shown);
    value["source"] = json!(source.word());
    value["text"] = json!(line.as_deref());
    value
}

/// Returns the origin of a node.
pub fn provenance(provenance: &Provenance<'_>, sources: &Sources<'_, '_>) -> Value {
    let frames = |list: &[Frame<'_>]| -> Vec<Value> {
        list.iter().map(|shown| frame_with_source(shown, sources)).collect()
    };
    json!({
        "sure": provenance.sure.word(),
        "callsite": provenance.callsite.map(|shown| frame_with_source(&shown, sources)),
        "frames": frames(&provenance.frames),
        "fused_from": frames(&provenance.fused),
        "plugin": provenance.plugin.as_ref().map(plugin),
        "scope": provenance.scope,
        "transforms": provenance.transforms,
    })
}

fn plugin(plugin: &Plugin<'_>) -> Value {
    json!({
        "name": plugin.name,
        "file": Some(plugin.file).filter(|file| !file.is_empty()),
        "line": Some(plugin.line).filter(|&line| line > 0),
    })
}

/// Returns the word for a tier.
pub fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::User => "user",
        Tier::Library => "library",
        Tier::Internal => "internal",
    }
}
