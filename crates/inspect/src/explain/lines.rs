//! Finds the lines that a message concerns, the best match first.

use provenance::resolve::Sure;
use provenance::{LocationId, OriginId, SiteId};

use super::resolve::Culprits;
use crate::log::{Class, Message};
use crate::{Document, Frame, Provenance};

/// The lines to show.
#[derive(Debug, Default)]
pub(super) struct Lines<'d> {
    /// The lines, each once.
    pub(super) frames: Vec<Frame<'d>>,
    pub(super) origin: Option<Provenance<'d>>,
    /// True if the message determines which of the lines it concerns.
    pub(super) is_chosen: bool,
}

/// A possible line for a message, and the primitive of the node from that line.
struct LineCandidate<'d> {
    location: LocationId,
    site: SiteId,
    origin: OriginId,
    primitive: &'d str,
}

/// Primitives that move numbers without combining them. They are rarely the cause of an error about sizes.
const MOVES: &[&str] =
    &["broadcast_in_dim", "convert_element_type", "copy", "reshape", "squeeze", "transpose"];

pub(super) fn lines<'d>(
    document: &'d Document<'_>,
    found: &Culprits,
    message: &Message,
) -> Lines<'d> {
    let mut candidates = candidates(document, found);
    // The line of a `def` and a line with `x.shape[0]` only compute sizes. If there are other lines, the error is
    // there.
    let is_computed =
        |candidate: &LineCandidate<'_>| !matches!(candidate.primitive, "" | "dim_as_value");
    if candidates.iter().any(is_computed) {
        candidates.retain(is_computed);
    }
    let op = found.nodes.first().and_then(|&node| document.scan.nodes.get(node));
    let wanted = op.and_then(|node| wanted(node.op, message));
    let is_wanted =
        |candidate: &LineCandidate<'_>| wanted.is_some_and(|wanted| candidate.primitive == wanted);
    let is_shape = message.class == Some(Class::Shape);
    let is_move = |candidate: &LineCandidate<'_>| is_shape && MOVES.contains(&candidate.primitive);
    candidates.sort_by_key(|candidate| (!is_wanted(candidate), is_move(candidate)));
    let mut is_chosen = found.nodes.len() == 1 && candidates.iter().any(is_wanted);
    let Some(first) = candidates.first() else {
        return Lines::default();
    };
    let sure = if found.is_certain { Sure::Exact } else { Sure::Fused };
    let origin = origin(document, sure, first);
    let mut frames: Vec<Frame<'d>> = Vec::new();
    for candidate in &candidates {
        let frame = document.frame(candidate.location);
        let same = |known: &Frame<'_>| (known.file, known.line) == (frame.file, frame.line);
        if !frames.iter().any(same) {
            // If a second line fits as well, the choice stays open.
            is_chosen &= frames.is_empty() || !is_wanted(candidate);
            frames.push(frame);
        }
    }
    Lines { frames, origin, is_chosen }
}

/// Returns the primitive that a message concerns, if a node represents several.
fn wanted(op: &str, message: &Message) -> Option<&'static str> {
    if op != "Gemm" || message.class != Some(Class::Shape) {
        return None;
    }
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| message.words.contains(phrase));
    if has(&["bias", "Cannot broadcast c to"]) {
        return Some("add");
    }
    has(&["W:", "Columns of first matrix"]).then_some("dot_general")
}

/// Returns every line of these nodes or origins.
fn candidates<'d>(document: &'d Document<'_>, found: &Culprits) -> Vec<LineCandidate<'d>> {
    let table = document.table();
    let of_nodes = || found.nodes.iter().flat_map(|&node| document.answer(node).1);
    let origins: Vec<OriginId> = match found.origins.is_empty() {
        true => of_nodes().collect(),
        false => found.origins.clone(),
    };
    let known = document.known_callsites();
    let mut candidates = Vec::new();
    for origin in origins {
        for site in table.get_origin(origin).sites() {
            let provenance::Site { stack, emitter, .. } = table.get_site(site);
            let Some(&location) = stack.and_then(|stack| known.get(stack.index())) else {
                continue;
            };
            let plugin = emitter.and_then(|emitter| table.plugin_of(emitter));
            let primitive = plugin.map_or("", |plugin| &*table.get_emitter(plugin).name);
            candidates.push(LineCandidate { location, site, origin, primitive });
        }
    }
    candidates
}

/// Returns the call path of the line that is shown first.
fn origin<'d>(
    document: &'d Document<'_>,
    sure: Sure,
    candidate: &LineCandidate<'d>,
) -> Option<Provenance<'d>> {
    let (table, known) = (document.table(), document.known_callsites());
    let is_primary = table.get_origin(candidate.origin).primary == candidate.site;
    match is_primary {
        true => Provenance::of(table, known, sure, &[candidate.origin]),
        false => Some(Provenance::of_site(table, known, sure, table.get_site(candidate.site))),
    }
}
