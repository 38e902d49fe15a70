//! The origin of a node, in one form for all exporters.

use std::fmt;

use provenance::resolve::Sure;
use provenance::{
    EmitterId, LocationId, OriginId, ScopeKind, Site, Span, Table, Tier, from_text, render,
};

/// A line of a function, and the expression on it if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame<'d> {
    /// [`Frame::UNKNOWN`] if only the function is known.
    pub file: &'d str,
    pub function: &'d str,
    /// 1-based; 0 if unknown.
    pub line: u32,
    pub span: Option<Span>,
    pub tier: Tier,
}

impl<'d> Frame<'d> {
    /// The file of a frame if only the function and the line are known.
    pub const UNKNOWN: &'static str = from_text::UNKNOWN_FILE;

    pub(crate) fn of(table: &'d Table, id: LocationId) -> Frame<'d> {
        let location = table.get_location(id);
        let file = table.get_file(location.file);
        Frame {
            file: &file.path,
            function: table.get_function(location.function),
            line: location.line,
            span: location.span,
            tier: file.tier,
        }
    }

    /// True if the file is known.
    pub fn has_file(&self) -> bool {
        self.file != Frame::UNKNOWN
    }

    /// Returns `model.py:12`, or `line 12` if the file is not known.
    pub fn place(&self) -> String {
        match (self.has_file(), self.line) {
            (true, 0) => self.file.to_owned(),
            (true, line) => format!("{}:{line}", self.file),
            (false, line) => format!("line {line}"),
        }
    }
}

impl fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place())?;
        if self.function.is_empty() { Ok(()) } else { write!(f, ", in {}", self.function) }
    }
}

/// The plugin that emitted a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin<'d> {
    /// `SinPlugin.lower`, or the name in another exporter: `aten.sin.default`.
    pub name: String,
    /// Empty if unknown.
    pub file: &'d str,
    /// 0 if unknown.
    pub line: u32,
}

/// The origin of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance<'d> {
    pub sure: Sure,
    /// The user's line to show first.
    pub callsite: Option<Frame<'d>>,
    /// The call path, innermost first.
    pub frames: Vec<Frame<'d>>,
    /// The other lines of the user that the node implements, each once.
    pub fused: Vec<Frame<'d>>,
    pub plugin: Option<Plugin<'d>>,
    /// The user's scopes around it, outermost first.
    pub scope: Vec<&'d str>,
    /// The transformations of JAX, such as `jit(f)` or `vmap`, outermost first.
    pub transforms: Vec<&'d str>,
}

impl<'d> Provenance<'d> {
    /// Returns the provenance of a node that has these origins. `known` is [`Table::callsites`].
    pub fn of(
        table: &'d Table,
        known: &[LocationId],
        sure: Sure,
        origins: &[OriginId],
    ) -> Option<Provenance<'d>> {
        let first = table.get_origin(*origins.first()?);
        let site = table.get_site(first.primary);
        let mut provenance = Provenance::of_site(table, known, sure, site);
        let callsites = callsites(table, known, origins).into_iter().map(|id| Frame::of(table, id));
        let is_own = usize::from(provenance.callsite.is_some());
        provenance.fused = callsites.skip(is_own).collect();
        Some(provenance)
    }

    /// Returns the provenance of one site of an origin, without the others.
    pub(crate) fn of_site(
        table: &'d Table,
        known: &[LocationId],
        sure: Sure,
        site: Site,
    ) -> Provenance<'d> {
        let Site { stack, scope, emitter } = site;
        let callsite = stack.and_then(|stack| known.get(stack.index()));
        let callsite = callsite.map(|&id| Frame::of(table, id));
        let frames = stack.into_iter().flat_map(|stack| table.frames(stack));
        let path = scope.map(|scope| table.scope_path(scope)).unwrap_or_default();
        let named = |kind: ScopeKind| {
            let entries = path.iter().rev().map(|&id| table.get_scope(id));
            entries.filter(move |scope| scope.kind == kind).map(|scope| &*scope.name).collect()
        };
        Provenance {
            sure,
            callsite,
            frames: frames.map(|id| Frame::of(table, id)).collect(),
            fused: Vec::new(),
            plugin: emitter.and_then(|emitter| plugin(table, emitter)),
            scope: named(ScopeKind::Name),
            transforms: named(ScopeKind::Transform),
        }
    }

    /// Returns the other lines of the user, each once, with the outermost expression on it.
    pub fn fused_lines(&self) -> Vec<Frame<'d>> {
        let mut lines: Vec<Frame<'d>> = Vec::new();
        let is_line = |frame: &Frame<'d>, other: &Frame<'d>| {
            (frame.file, frame.line) == (other.file, other.line)
        };
        let width = |frame: &Frame<'d>| {
            frame.span.map(|span| (span.end_line, span.end_column.saturating_sub(span.column)))
        };
        let own = self.callsite;
        for frame in self.fused.iter().filter(|frame| own.is_none_or(|own| !is_line(frame, &own))) {
            match lines.iter_mut().find(|line| is_line(line, frame)) {
                Some(line) if width(line) < width(frame) => *line = *frame,
                Some(_) => {}
                None => lines.push(*frame),
            }
        }
        lines.sort_by_key(|frame| (frame.file, frame.line));
        lines
    }

    /// Returns the frames to show: those of the user from the call site outwards, or all frames if `all` is set.
    pub fn shown_frames(&self, all: bool) -> Vec<Frame<'d>> {
        if all {
            return self.frames.clone();
        }
        let is_shown = |frame: &&Frame<'d>| frame.tier == Tier::User;
        let outer = self.frames.iter().skip_while(|&&frame| Some(frame) != self.callsite).skip(1);
        self.callsite.into_iter().chain(outer.filter(is_shown).copied()).collect()
    }
}

/// Returns the call sites of origins, each once, the one to show first at the front. `known` contains the call site
/// of each call path.
pub(crate) fn callsites(
    table: &Table,
    known: &[LocationId],
    origins: &[OriginId],
) -> Vec<LocationId> {
    let mut found = Vec::new();
    for &origin in origins {
        let sites = table.get_origin(origin).sites().map(|id| table.get_site(id));
        let stacks = sites.filter_map(|site| site.stack);
        found.extend(stacks.filter_map(|stack| known.get(stack.index()).copied()));
    }
    if found.len() > 1 {
        let mut seen = rustc_hash::FxHashSet::default();
        found.retain(|&location| seen.insert(location));
    }
    found
}

pub(crate) fn plugin(table: &Table, emitter: EmitterId) -> Option<Plugin<'_>> {
    let entry = table.get_emitter(table.plugin_of(emitter)?);
    let file = if &*entry.file == Frame::UNKNOWN { "" } else { &*entry.file };
    Some(Plugin { name: render::emitter_name(entry), file, line: entry.line })
}
