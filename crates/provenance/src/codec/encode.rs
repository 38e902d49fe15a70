//! Writing what some origins reach.

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::VERSION;
use super::words::{EMITTERS, SCOPES, TIERS, word};
use crate::frame::{Emitter, Location, Scope};
use crate::origin::{Origin, Site};
use crate::paths::Paths;
use crate::table::{EmitterId, LocationId, OriginId, ScopeId, SiteId, StackId, Table};

/// A document, and the number of each origin in it.
#[derive(Clone, Debug)]
pub struct Encoded {
    pub text: String,
    pub numbers: FxHashMap<OriginId, u32>,
}

/// The document of `roots` and of nothing else.
pub fn encode(table: &Table, roots: &[OriginId], paths: &mut Paths<'_>) -> Encoded {
    let mut encoder = Encoder::new(table);
    for &origin in roots {
        encoder.number(origin, paths);
    }
    Encoded { text: encoder.text(), numbers: encoder.numbers }
}

/// Numbers origins one after the other, and writes all that they reach.
///
/// What is reached is copied into a table of its own, where every entry has the number of its first
/// use and stands behind the one that encloses it.
#[derive(Debug)]
pub struct Encoder<'a> {
    from: &'a Table,
    into: Table,
    numbers: FxHashMap<OriginId, u32>,
    locations: FxHashMap<LocationId, LocationId>,
    stacks: FxHashMap<StackId, StackId>,
}

impl<'a> Encoder<'a> {
    pub fn new(table: &'a Table) -> Encoder<'a> {
        Encoder {
            from: table,
            into: Table::default(),
            numbers: FxHashMap::default(),
            locations: FxHashMap::default(),
            stacks: FxHashMap::default(),
        }
    }

    /// The number of an origin in the document, which is the one to write on a node.
    pub fn number(&mut self, origin: OriginId, paths: &mut Paths<'_>) -> u32 {
        if let Some(&number) = self.numbers.get(&origin) {
            return number;
        }
        let from = self.from;
        let root = from.get_origin(origin);
        let mut copy = Origin::of(self.site(root.primary, paths));
        for &site in &root.absorbed {
            copy = copy.absorb(&Origin::of(self.site(site, paths)));
        }
        let number = self.into.origin(copy).0;
        self.numbers.insert(origin, number);
        number
    }

    /// The document of the origins that were numbered so far.
    pub fn text(&self) -> String {
        let table = &self.into;
        json!({
            "version": VERSION,
            "files": list(table.files.iter(), |file| json!([file.path, word(TIERS, &file.tier)])),
            "functions": list(table.functions.iter(), |name| json!(name)),
            "locations": list(table.locations.iter(), location_entry),
            "frames": list(table.stacks.iter(), |frame| {
                json!([frame.location.0, frame.parent.map(|id| id.0)])
            }),
            "scopes": list(table.scopes.iter(), |scope| {
                json!([word(SCOPES, &scope.kind), scope.name, scope.parent.map(|id| id.0)])
            }),
            "emitters": list(table.emitters.iter(), |emitter| {
                let Emitter { kind, name, file, line, parent } = emitter;
                json!([word(EMITTERS, kind), name, file, line, parent.map(|id| id.0)])
            }),
            "sites": list(table.sites.iter(), |site| {
                let (stack, scope) = (site.stack.map(|id| id.0), site.scope.map(|id| id.0));
                json!([stack, scope, site.emitter.map(|id| id.0)])
            }),
            "origins": list(table.origins.iter(), |origin| origin.sites().map(|site| site.0).collect()),
        })
        .to_string()
    }

    fn site(&mut self, id: SiteId, paths: &mut Paths<'_>) -> SiteId {
        let site = self.from.get_site(id);
        let copy = Site {
            stack: site.stack.map(|stack| self.stack(stack, paths)),
            scope: site.scope.and_then(|scope| self.scope(scope)),
            emitter: site.emitter.and_then(|emitter| self.emitter(emitter, paths)),
        };
        self.into.site(copy)
    }

    /// Copies the frames of a call path that were not copied before, outermost first.
    fn stack(&mut self, stack: StackId, paths: &mut Paths<'_>) -> StackId {
        if let Some(&known) = self.stacks.get(&stack) {
            return known;
        }
        let from = self.from;
        let path = std::iter::successors(Some(stack), |&id| from.get_frame(id).parent);
        let fresh: Vec<_> = path.take_while(|id| !self.stacks.contains_key(id)).collect();
        let outermost = fresh.last().copied().unwrap_or(stack);
        let caller = from.get_frame(outermost).parent.and_then(|id| self.stacks.get(&id).copied());
        let copy = fresh.into_iter().rev().fold(caller, |caller, id| {
            let location = self.location(from.get_frame(id).location, paths);
            let copy = self.into.push(caller, location);
            self.stacks.insert(id, copy);
            Some(copy)
        });
        copy.unwrap_or(stack)
    }

    fn location(&mut self, id: LocationId, paths: &mut Paths<'_>) -> LocationId {
        if let Some(&known) = self.locations.get(&id) {
            return known;
        }
        let location = self.from.get_location(id);
        let file = self.from.get_file(location.file);
        let copy = Location {
            file: self.into.file(&paths.shown(&file.path), file.tier),
            function: self.into.function(self.from.get_function(location.function)),
            ..location
        };
        let copy = self.into.location(copy);
        self.locations.insert(id, copy);
        copy
    }

    fn scope(&mut self, scope: ScopeId) -> Option<ScopeId> {
        let path = self.from.scope_path(scope);
        path.into_iter().rev().fold(None, |parent, id| {
            let Scope { kind, name, .. } = self.from.get_scope(id);
            Some(self.into.scope(parent, *kind, name))
        })
    }

    fn emitter(&mut self, emitter: EmitterId, paths: &mut Paths<'_>) -> Option<EmitterId> {
        let path = self.from.emitter_path(emitter);
        path.into_iter().rev().fold(None, |parent, id| {
            let emitter = self.from.get_emitter(id).clone();
            let file = emitter.shown_file(paths).into();
            Some(self.into.emitter(Emitter { file, parent, ..emitter }))
        })
    }
}

fn list<'a, T: 'a>(entries: impl Iterator<Item = &'a T>, entry: impl Fn(&T) -> Value) -> Value {
    entries.map(entry).collect()
}

fn location_entry(location: &Location) -> Value {
    let (file, function, line) = (location.file.0, location.function.0, location.line);
    match location.span {
        Some(span) => json!([file, function, line, span.column, span.end_line, span.end_column]),
        None => json!([file, function, line]),
    }
}
