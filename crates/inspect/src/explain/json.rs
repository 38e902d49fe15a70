//! Formats an explanation for programs, as `docs/explain.md` describes.

use serde_json::{Value, json};

use super::{Explanation, Finding};
use crate::json::{frame_with_source, provenance};
use crate::log::Clue;
use crate::{Document, Sources};

/// Returns the explanation of each message.
pub fn json(
    explanation: &Explanation<'_>,
    document: &Document<'_>,
    sources: &Sources<'_, '_>,
) -> Value {
    let findings = explanation.findings.iter().map(|finding| one(finding, document, sources));
    json!({
        "version": 1,
        "model": document.name,
        "findings": findings.collect::<Vec<_>>(),
        "cut": explanation.is_cut,
    })
}

fn one(finding: &Finding<'_>, document: &Document<'_>, sources: &Sources<'_, '_>) -> Value {
    let node = |number: usize| {
        let op = document.scan.nodes.get(number).map_or("", |node| node.op);
        json!({"name": document.node_name(number), "op": op})
    };
    let lines = finding.lines.iter().map(|line| frame_with_source(line, sources));
    let values = finding
        .values
        .iter()
        .map(|value| json!({"name": value.name, "role": value.role, "type": value.ty}));
    json!({
        "message": finding.message.words,
        "class": finding.message.class.map(|class| class.word()),
        "used": finding.message.used,
        "names": finding.message.clues.iter().map(clue).collect::<Vec<_>>(),
        "sure": finding.certainty.word(),
        "how": finding.how,
        "lines": lines.collect::<Vec<_>>(),
        "origin": finding.origin.as_ref().map(|origin| provenance(origin, sources)),
        "node": finding.node.map(node),
        "within": finding.within.iter().copied().map(node).collect::<Vec<_>>(),
        "values": values.collect::<Vec<_>>(),
        "advice": finding.advice,
    })
}

fn clue(clue: &Clue) -> Value {
    match clue {
        Clue::Node { name, op } => json!({"node": name, "op": op}),
        Clue::Context { name, op } => json!({"node": name, "op": op}),
        Clue::Output { name, op } => json!({"value": name, "op": op}),
        Clue::Inner { name } => json!({"node": name, "op": null}),
        Clue::Value { name, .. } => json!({"value": name}),
        Clue::Argument { position } => json!({"input": position}),
        Clue::Numbered { position, op } => json!({"position": position, "op": op}),
        Clue::Lacking { attribute } => json!({"attribute": attribute}),
        Clue::Other { op, attribute } => json!({"op": op, "attribute": attribute}),
        Clue::Broadcast { sizes } => json!({"sizes": sizes}),
        Clue::Product => json!({"op": "MatMul", "domain": null}),
        Clue::Fused { name, operation } => json!({"value": name, "op": operation}),
        Clue::External { file, offset } => json!({"file": file, "offset": offset}),
        Clue::Operands(it) => json!({"ops": it.ops, "operands": it.operands.len()}),
        Clue::Op { op, domain } => json!({"op": op, "domain": domain}),
        Clue::Unnamed { op } => json!({"node": "", "op": op}),
    }
}
