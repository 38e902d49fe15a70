//! The part of a provenance table that the nodes of a model refer to, renumbered.

use std::borrow::Cow;
use std::hash::Hash;

use provenance::{
    EmitterId, FileId, LocationId, OriginId, ScopeId, ScopeKind, SiteId, StackId, Table,
};
use rustc_hash::FxHashMap;

use super::limits::Limits;
use crate::origin::plugin;
use crate::{Document, Frame};

/// The number that means "none".
const NONE: i64 = -1;

/// Entries in the order of first use.
#[derive(Debug)]
pub(super) struct List<K, V> {
    pub(super) list: Vec<V>,
    numbers: FxHashMap<K, u32>,
}

impl<K, V> Default for List<K, V> {
    fn default() -> List<K, V> {
        List { list: Vec::new(), numbers: FxHashMap::default() }
    }
}

impl<K: Hash + Eq, V> List<K, V> {
    fn get(&self, key: &K) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    fn add(&mut self, key: K, value: V) -> u32 {
        let number = self.list.len() as u32;
        self.list.push(value);
        self.numbers.insert(key, number);
        number
    }
}

/// The lists of `docs/view-format.md` that describe the origins of nodes.
#[derive(Debug)]
pub(super) struct Places<'d> {
    table: &'d Table,
    /// The call site of each call path.
    callsites: &'d [LocationId],
    /// Each file, and whether its text belongs to the view.
    pub(super) files: List<FileId, (FileId, bool)>,
    pub(super) functions: List<&'d str, Cow<'d, str>>,
    /// File, function, line, column, end line, end column.
    pub(super) locations: List<LocationId, (u32, u32, u32, i64, i64, i64)>,
    /// Location, caller.
    pub(super) frames: List<StackId, (u32, i64)>,
    /// Name, whether it is a transformation, enclosing scope.
    pub(super) scopes: List<ScopeId, (Cow<'d, str>, u8, i64)>,
    /// Name, file, line.
    pub(super) plugins: List<EmitterId, (Cow<'d, str>, Cow<'d, str>, u32)>,
    /// Frame, location of the call site, scope, plugin.
    pub(super) sites: List<SiteId, (i64, i64, i64, i64)>,
    /// Sites, the one to show first at the front.
    pub(super) origins: List<Vec<OriginId>, Vec<u32>>,
    /// The first file of each path.
    paths: FxHashMap<&'d str, FileId>,
}

impl<'d> Places<'d> {
    pub(super) fn new(document: &'d Document<'_>) -> Places<'d> {
        let table = document.table();
        let mut paths = FxHashMap::default();
        for id in (0..table.file_count() as u32).map(FileId) {
            paths.entry(&*table.get_file(id).path).or_insert(id);
        }
        Places {
            table,
            paths,
            callsites: document.known_callsites(),
            files: List::default(),
            functions: List::default(),
            locations: List::default(),
            frames: List::default(),
            scopes: List::default(),
            plugins: List::default(),
            sites: List::default(),
            origins: List::default(),
        }
    }

    /// Returns the number of an origin in the view, or -1 for none.
    pub(super) fn origin(&mut self, origins: Vec<OriginId>, limits: &mut Limits) -> i64 {
        if origins.is_empty() {
            return NONE;
        }
        if let Some(known) = self.origins.get(&origins) {
            return known.into();
        }
        let table = self.table;
        let mut sites: Vec<u32> = Vec::new();
        for &origin in &origins {
            for site in table.get_origin(origin).sites() {
                if limits.sites.take(1) == 1 {
                    sites.push(self.site(site, limits));
                }
            }
        }
        let mut seen = rustc_hash::FxHashSet::default();
        sites.retain(|&site| seen.insert(site));
        self.origins.add(origins, sites).into()
    }

    /// Returns the location of the call site of an origin, if it is known.
    pub(super) fn callsite(&self, origin: i64) -> Option<usize> {
        let sites = self.origins.list.get(usize::try_from(origin).ok()?)?;
        let mut callsites = sites.iter().map(|&site| self.sites.list[site as usize].1);
        usize::try_from(callsites.find(|&callsite| callsite != NONE)?).ok()
    }

    fn site(&mut self, id: SiteId, limits: &mut Limits) -> u32 {
        if let Some(known) = self.sites.get(&id) {
            return known;
        }
        let site = self.table.get_site(id);
        let callsite = site.stack.and_then(|stack| self.callsites.get(stack.index()));
        let callsite = callsite.map_or(NONE, |&location| self.line(location, limits).into());
        let frame = site.stack.map_or(NONE, |stack| self.frame(stack, limits));
        let scope = site.scope.map_or(NONE, |scope| self.scope(scope, limits));
        let plugin = site.emitter.and_then(|emitter| self.plugin(emitter, limits));
        let plugin = plugin.map_or(NONE, i64::from);
        self.sites.add(id, (frame, callsite, scope, plugin))
    }

    /// Returns the number of a location whose file is shown.
    fn line(&mut self, id: LocationId, limits: &mut Limits) -> u32 {
        let number = self.location(id, limits);
        let file = self.locations.list[number as usize].0;
        self.files.list[file as usize].1 = true;
        number
    }

    fn location(&mut self, id: LocationId, limits: &mut Limits) -> u32 {
        if let Some(known) = self.locations.get(&id) {
            return known;
        }
        let table = self.table;
        let location = table.get_location(id);
        let file = self.file(location.file);
        let name = table.get_function(location.function);
        let function = self.functions.get(&name);
        let function = function.unwrap_or_else(|| self.functions.add(name, limits.cut(name)));
        let (column, end_line, end_column) = match location.span {
            Some(span) => (span.column.into(), span.end_line.into(), span.end_column.into()),
            None => (NONE, NONE, NONE),
        };
        let value = (file, function, location.line, column, end_line, end_column);
        self.locations.add(id, value)
    }

    fn file(&mut self, id: FileId) -> u32 {
        let known = self.files.get(&id);
        let is_users = self.table.get_file(id).tier == provenance::Tier::User;
        known.unwrap_or_else(|| self.files.add(id, (id, is_users)))
    }

    /// Returns the number of a file by its name in the model.
    pub(super) fn file_named(&mut self, path: &str) -> Option<u32> {
        let id = *self.paths.get(path)?;
        let number = self.file(id);
        self.files.list[number as usize].1 = true;
        Some(number)
    }

    /// Returns the number of a frame, or -1 if there is no room for it and its callers.
    fn frame(&mut self, stack: StackId, limits: &mut Limits) -> i64 {
        let table = self.table;
        let mut path = Vec::new();
        let mut at = Some(stack);
        let mut caller = NONE;
        while let Some(id) = at {
            if let Some(known) = self.frames.get(&id) {
                caller = known.into();
                break;
            }
            path.push(id);
            at = table.get_frame(id).parent;
        }
        if !limits.frames.take_all(path.len()) {
            return NONE;
        }
        for &id in path.iter().rev() {
            let location = self.location(table.get_frame(id).location, limits);
            caller = self.frames.add(id, (location, caller)).into();
        }
        caller
    }

    /// Returns the number of a scope, or -1 if there is no room for it and the enclosing scopes.
    fn scope(&mut self, scope: ScopeId, limits: &mut Limits) -> i64 {
        let table = self.table;
        let mut path = Vec::new();
        let mut at = Some(scope);
        let mut outer = NONE;
        while let Some(id) = at {
            if let Some(known) = self.scopes.get(&id) {
                outer = known.into();
                break;
            }
            path.push(id);
            at = table.get_scope(id).parent;
        }
        if !limits.frames.take_all(path.len()) {
            return NONE;
        }
        for &id in path.iter().rev() {
            let scope = table.get_scope(id);
            let is_transform = u8::from(scope.kind == ScopeKind::Transform);
            let name = limits.cut(&*scope.name);
            outer = self.scopes.add(id, (name, is_transform, outer)).into();
        }
        outer
    }

    fn plugin(&mut self, emitter: EmitterId, limits: &mut Limits) -> Option<u32> {
        let known = self.plugins.get(&emitter);
        known.or_else(|| {
            let plugin = plugin(self.table, emitter)?;
            let (name, file) = (limits.cut(plugin.name), limits.cut(plugin.file));
            Some(self.plugins.add(emitter, (name, file, plugin.line)))
        })
    }

    /// Returns the name of a file, if the model contains it.
    pub(super) fn path(&self, file: FileId) -> Option<&'d str> {
        let path = &*self.table.get_file(file).path;
        (path != Frame::UNKNOWN).then_some(path)
    }
}
