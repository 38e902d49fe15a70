//! Writes the part of the table that some origins refer to.

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::VERSION;
use super::json::Json;
use super::lists;
use super::words::{TIERS, letter};
use crate::frame::{Emitter, Location, Scope};
use crate::origin::Site;
use crate::paths::Paths;
use crate::table::{EmitterId, File, LocationId, OriginId, ScopeId, SiteId, StackId, Table};

/// A document, and the number of each origin in it.
#[derive(Clone, Debug)]
pub struct Encoded {
    pub text: String,
    pub numbers: FxHashMap<OriginId, u32>,
}

/// Encodes the document of `roots` only.
pub fn encode(table: &Table, roots: &[OriginId], paths: &mut Paths<'_>) -> Encoded {
    let mut encoder = Encoder::new(table);
    for &origin in roots {
        encoder.number(origin, paths);
    }
    Encoded { text: encoder.text(&[]), numbers: encoder.numbers }
}

/// Numbers origins one after the other, and writes everything that they refer to.
///
/// The encoder copies these entries into a separate table, in which every entry has the number of its first use and
/// comes after its enclosing entry.
#[derive(Debug)]
pub struct Encoder<'a> {
    from: &'a Table,
    into: Table,
    numbers: FxHashMap<OriginId, u32>,
    locations: FxHashMap<LocationId, LocationId>,
    stacks: FxHashMap<StackId, StackId>,
    /// The files of `into`, as they are in `from`; `None` if several files have the same name.
    files: Vec<Option<File>>,
    places: IndexSet<SharedSite, FxBuildHasher>,
    entries: Vec<Entry>,
    of_site: FxHashMap<SiteId, u32>,
    of_fused: FxHashMap<(SiteId, Vec<u32>), u32>,
    fused: Vec<(u32, Vec<u32>)>,
}

/// The call path and the emitter: the part of a site that the layers of a model have in common.
pub(super) type SharedSite = (Option<StackId>, Option<EmitterId>);

/// The shared part of the site that is shown first for an origin, and its name scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub scope: Option<ScopeId>,
    pub place: u32,
}

impl<'a> Encoder<'a> {
    pub fn new(table: &'a Table) -> Encoder<'a> {
        Encoder {
            from: table,
            into: Table::default(),
            numbers: FxHashMap::default(),
            locations: FxHashMap::default(),
            stacks: FxHashMap::default(),
            files: Vec::new(),
            places: IndexSet::default(),
            entries: Vec::new(),
            of_site: FxHashMap::default(),
            of_fused: FxHashMap::default(),
            fused: Vec::new(),
        }
    }

    /// Returns the number of an origin in the document. The model stores this number on nodes.
    pub fn number(&mut self, origin: OriginId, paths: &mut Paths<'_>) -> u32 {
        if let Some(&number) = self.numbers.get(&origin) {
            return number;
        }
        let root = self.from.get_origin(origin);
        let absorbed: Vec<SiteId> =
            root.absorbed.iter().map(|&site| self.site(site, paths)).collect();
        let mut absorbed: Vec<u32> =
            absorbed.into_iter().map(|site| self.number_of_site(site)).collect();
        absorbed.sort_unstable();
        absorbed.dedup();
        let primary = self.site(root.primary, paths);
        let own = self.of_site.get(&primary).copied();
        absorbed.retain(|&number| Some(number) != own);
        let number = if absorbed.is_empty() {
            self.number_of_site(primary)
        } else {
            self.number_of_fused(primary, absorbed)
        };
        self.numbers.insert(origin, number);
        number
    }

    fn number_of_site(&mut self, site: SiteId) -> u32 {
        if let Some(&number) = self.of_site.get(&site) {
            return number;
        }
        let number = self.add_entry(site);
        self.of_site.insert(site, number);
        number
    }

    fn number_of_fused(&mut self, primary: SiteId, absorbed: Vec<u32>) -> u32 {
        let key = (primary, absorbed);
        if let Some(&number) = self.of_fused.get(&key) {
            return number;
        }
        let number = self.add_entry(primary);
        self.fused.push((number, key.1.clone()));
        self.of_fused.insert(key, number);
        number
    }

    fn add_entry(&mut self, site: SiteId) -> u32 {
        let Site { stack, scope, emitter } = self.into.get_site(site);
        let place = self.places.insert_full((stack, emitter)).0 as u32;
        self.entries.push(Entry { scope, place });
        self.entries.len() as u32 - 1
    }

    /// Returns the files of the document, in its order, with their names in the source table; `None` if several
    /// files have the same name in the document.
    pub fn files(&self) -> &[Option<File>] {
        &self.files
    }

    /// Returns the document with all origins that have a number. `hashes` contains the hashes of the files, in the
    /// order of [`Encoder::files`].
    pub fn text(&self, hashes: &[Option<String>]) -> String {
        let table = &self.into;
        let mut json = Json::default();
        json.object(|json| {
            json.key("version").number(VERSION);
            json.key("files").each(table.files.iter(), |json, file| json.text(&file.path));
            let tiers = table.files.iter().map(|file| letter(TIERS, &file.tier));
            json.key("tiers").text(&tiers.collect::<String>());
            write_hashes(json, "cells", table.files.iter().map(|file| file.cell.as_deref()));
            write_hashes(json, "hashes", hashes.iter().map(Option::as_deref));
            json.key("functions").each(table.functions.iter(), |json, name| json.text(name));
            json.key("locations").text(&lists::locations(table));
            json.key("frames").text(&lists::frames(table));
            lists::scopes(json, table);
            lists::emitters(json, table);
            json.key("places").text(&lists::places(&self.places));
            json.key("origins").text(&lists::origins(&self.entries));
            json.key("fused").text(&lists::fused(&self.fused));
        });
        json.finish()
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

    /// Copies the frames of a call path that are not copied yet, outermost first.
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
        let path = paths.shown(&file.path).into();
        let shown = self.into.add_file(File { path, ..file.clone() });
        match self.files.get_mut(shown.index()) {
            None => self.files.push(Some(file.clone())),
            Some(known) => *known = known.take().filter(|known| known == file),
        }
        let function = self.into.function(self.from.get_function(location.function));
        let copy = self.into.location(Location { file: shown, function, ..location });
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

/// Writes a list of pairs, unless it is empty: the number of a file, and a hash.
fn write_hashes<'a>(
    json: &mut Json,
    key: &'static str,
    hashes: impl Iterator<Item = Option<&'a str>>,
) {
    let mut known = hashes.enumerate().filter_map(|(i, hash)| Some((i, hash?))).peekable();
    if known.peek().is_some() {
        json.key(key).each(known, |json, (file, hash)| {
            json.list(|json| {
                json.number(file as u64);
                json.text(hash);
            });
        });
    }
}
