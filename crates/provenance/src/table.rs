//! The interned tables behind every id.

use std::hash::Hash;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::frame::{Emitter, Location, Scope, ScopeKind};
use crate::origin::{Origin, Site};
use crate::tier::Tier;

/// Ids are indices in the order of first use, so they are the same from run to run.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            pub(crate) fn at(index: usize) -> $name {
                $name(index as u32)
            }

            /// Returns the position in the table.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids!(
    /// A source file.
    FileId,
    /// The qualified name of a Python function.
    FunctionId,
    /// A [`Location`].
    LocationId,
    /// A call path: its innermost frame, which refers to its callers.
    StackId,
    /// A [`Scope`].
    ScopeId,
    /// An [`Emitter`].
    EmitterId,
    /// A [`Site`].
    SiteId,
    /// An [`Origin`].
    OriginId,
);

/// A source file and its tier.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct File {
    pub path: Box<str>,
    pub tier: Tier,
    /// For a cell of a notebook, which is not in a file: the SHA-256 hash of its text, in hexadecimal. The path is
    /// then its name, `In [3]`.
    pub cell: Option<Box<str>>,
}

/// A frame of a call path: its location, and its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    pub location: LocationId,
    pub parent: Option<StackId>,
}

/// Everything that origins refer to.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub(crate) files: Interned<File>,
    pub(crate) functions: Interned<Box<str>>,
    pub(crate) locations: Interned<Location>,
    pub(crate) stacks: Interned<Frame>,
    pub(crate) scopes: Interned<Scope>,
    pub(crate) emitters: Interned<Emitter>,
    pub(crate) sites: Interned<Site>,
    pub(crate) origins: Interned<Origin>,
    composed_stacks: FxHashMap<(StackId, StackId), StackId>,
    composed_scopes: FxHashMap<(ScopeId, ScopeId), ScopeId>,
    called: FxHashMap<(OriginId, SiteId), OriginId>,
    absorbed: FxHashMap<(OriginId, OriginId), OriginId>,
}

impl Table {
    pub fn file(&mut self, path: &str, tier: Tier) -> FileId {
        self.add_file(File { path: path.into(), tier, cell: None })
    }

    pub fn add_file(&mut self, file: File) -> FileId {
        FileId::at(self.files.intern(file))
    }

    pub fn function(&mut self, qualified_name: &str) -> FunctionId {
        FunctionId::at(self.functions.intern(qualified_name.into()))
    }

    pub fn location(&mut self, location: Location) -> LocationId {
        LocationId::at(self.locations.intern(location))
    }

    /// Returns the call path that calls `location` from `caller`.
    pub fn push(&mut self, caller: Option<StackId>, location: LocationId) -> StackId {
        StackId::at(self.stacks.intern(Frame { location, parent: caller }))
    }

    pub fn scope(&mut self, parent: Option<ScopeId>, kind: ScopeKind, name: &str) -> ScopeId {
        ScopeId::at(self.scopes.intern(Scope { kind, name: name.into(), parent }))
    }

    pub fn emitter(&mut self, emitter: Emitter) -> EmitterId {
        EmitterId::at(self.emitters.intern(emitter))
    }

    pub fn site(&mut self, site: Site) -> SiteId {
        SiteId::at(self.sites.intern(site))
    }

    pub fn origin(&mut self, origin: Origin) -> OriginId {
        OriginId::at(self.origins.intern(origin))
    }

    /// Returns the call path `inner`, called from `outer`.
    ///
    /// The operation is associative: `(a from b) from c` is `a from (b from c)`.
    pub fn stack_called_from(
        &mut self,
        inner: Option<StackId>,
        outer: Option<StackId>,
    ) -> Option<StackId> {
        let (Some(inner), Some(outer)) = (inner, outer) else {
            return inner.or(outer);
        };
        if let Some(&known) = self.composed_stacks.get(&(inner, outer)) {
            return Some(known);
        }
        let mut stack = outer;
        for frame in self.frames(inner).collect::<Vec<_>>().into_iter().rev() {
            stack = self.push(Some(stack), frame);
        }
        self.composed_stacks.insert((inner, outer), stack);
        Some(stack)
    }

    /// Returns the name scope `inner`, opened inside `outer`.
    pub fn scope_inside(
        &mut self,
        inner: Option<ScopeId>,
        outer: Option<ScopeId>,
    ) -> Option<ScopeId> {
        let (Some(inner), Some(outer)) = (inner, outer) else {
            return inner.or(outer);
        };
        if let Some(&known) = self.composed_scopes.get(&(inner, outer)) {
            return Some(known);
        }
        let mut scope = outer;
        for entry in self.scope_path(inner).into_iter().rev() {
            let Scope { kind, name, .. } = self.scopes.get(entry.index()).clone();
            scope = self.scope(Some(scope), kind, &name);
        }
        self.composed_scopes.insert((inner, outer), scope);
        Some(scope)
    }

    /// Removes the part that a call path has in common with `outer`. If that part is all of `outer`,
    /// `stack_called_from` restores it.
    ///
    /// If `outer` begins with the whole path, the innermost frame stays.
    pub fn stack_within(&mut self, stack: StackId, outer: StackId) -> StackId {
        let enclosing: FxHashSet<StackId> = self.ancestors(outer).collect();
        let own: Vec<StackId> =
            self.ancestors(stack).take_while(|id| !enclosing.contains(id)).collect();
        let own = if own.is_empty() { vec![stack] } else { own };
        let locations: Vec<LocationId> =
            own.into_iter().map(|id| self.get_frame(id).location).collect();
        let mut locations = locations.into_iter().rev();
        let first = locations.next().map(|location| self.push(None, location));
        locations.fold(first.unwrap_or(stack), |caller, location| self.push(Some(caller), location))
    }

    /// Removes the part that a name scope has in common with `outer`.
    pub fn scope_within(
        &mut self,
        scope: Option<ScopeId>,
        outer: Option<ScopeId>,
    ) -> Option<ScopeId> {
        let common = self.common_scope(scope, outer);
        let own: Vec<ScopeId> = self
            .scope_path(scope?)
            .into_iter()
            .take_while(|&entry| Some(entry) != common)
            .collect();
        own.into_iter().rev().fold(None, |parent, entry| {
            let Scope { kind, name, .. } = self.scopes.get(entry.index()).clone();
            Some(self.scope(parent, kind, &name))
        })
    }

    /// Returns the innermost name scope that contains both.
    pub fn common_scope(&self, a: Option<ScopeId>, b: Option<ScopeId>) -> Option<ScopeId> {
        let around = self.scope_path(b?);
        self.scope_path(a?).into_iter().find(|entry| around.contains(entry))
    }

    /// Returns the call path without its innermost internal frames.
    pub fn without_internal(&self, stack: StackId) -> Option<StackId> {
        let tier = |id: StackId| {
            let location = self.get_location(self.get_frame(id).location);
            self.get_file(location.file).tier
        };
        self.ancestors(stack).find(|&id| tier(id) != Tier::Internal)
    }

    /// Returns a call path and its callers, innermost first.
    fn ancestors(&self, stack: StackId) -> impl Iterator<Item = StackId> + '_ {
        std::iter::successors(Some(stack), |&id| self.get_frame(id).parent)
    }

    /// Returns the origin `inner`, called from `outer`: the sites of `inner`, each inside `outer`.
    pub fn called_from(&mut self, inner: OriginId, outer: SiteId) -> OriginId {
        if let Some(&known) = self.called.get(&(inner, outer)) {
            return known;
        }
        let enclosing = *self.sites.get(outer.index());
        let inner_origin = self.origins.get(inner.index()).clone();
        let mut places = inner_origin.sites().collect::<Vec<_>>().into_iter().map(|id| {
            let site = *self.sites.get(id.index());
            let stack = self.stack_called_from(site.stack, enclosing.stack);
            let scope = self.scope_inside(site.scope, enclosing.scope);
            let emitter = site.emitter;
            Origin::of(self.site(Site { stack, scope, emitter }))
        });
        let Some(first) = places.next() else {
            return inner;
        };
        let origin = places.fold(first, |joined, place| joined.absorb(&place));
        let origin = self.origin(origin);
        self.called.insert((inner, outer), origin);
        origin
    }

    /// Returns the origin `kept` with the sites of `dropped` added.
    pub fn absorb(&mut self, kept: OriginId, dropped: OriginId) -> OriginId {
        if kept == dropped {
            return kept;
        }
        if let Some(&known) = self.absorbed.get(&(kept, dropped)) {
            return known;
        }
        let joined = self.origins.get(kept.index()).absorb(self.origins.get(dropped.index()));
        let origin = self.origin(joined);
        self.absorbed.insert((kept, dropped), origin);
        origin
    }

    pub fn get_origin(&self, id: OriginId) -> &Origin {
        self.origins.get(id.index())
    }

    pub fn get_site(&self, id: SiteId) -> Site {
        *self.sites.get(id.index())
    }

    pub fn get_location(&self, id: LocationId) -> Location {
        *self.locations.get(id.index())
    }

    pub fn get_file(&self, id: FileId) -> &File {
        self.files.get(id.index())
    }

    /// Returns the call site of every call path, by its number.
    ///
    /// A call path comes after its caller, so one pass is enough.
    pub fn callsites(&self) -> Vec<LocationId> {
        struct Known {
            user: Option<LocationId>,
            library: Option<LocationId>,
            outermost: LocationId,
        }
        let mut known: Vec<Known> = Vec::with_capacity(self.stacks.iter().len());
        for &Frame { location, parent } in self.stacks.iter() {
            let caller = parent.and_then(|parent| known.get(parent.index()));
            let tier = self.get_file(self.get_location(location).file).tier;
            let own = |wanted: Tier| (tier == wanted).then_some(location);
            let entry = Known {
                user: own(Tier::User).or(caller.and_then(|caller| caller.user)),
                library: own(Tier::Library).or(caller.and_then(|caller| caller.library)),
                outermost: caller.map_or(location, |caller| caller.outermost),
            };
            known.push(entry);
        }
        let callsite = |known: Known| known.user.or(known.library).unwrap_or(known.outermost);
        known.into_iter().map(callsite).collect()
    }

    /// Returns every location.
    pub fn all_locations(&self) -> impl Iterator<Item = Location> + '_ {
        self.locations.iter().copied()
    }

    /// Returns the number of files. Their ids are the numbers below it.
    pub fn file_count(&self) -> usize {
        self.files.iter().len()
    }

    pub fn get_function(&self, id: FunctionId) -> &str {
        self.functions.get(id.index())
    }

    pub fn get_scope(&self, id: ScopeId) -> &Scope {
        self.scopes.get(id.index())
    }

    pub fn get_emitter(&self, id: EmitterId) -> &Emitter {
        self.emitters.get(id.index())
    }

    pub fn get_frame(&self, id: StackId) -> Frame {
        *self.stacks.get(id.index())
    }

    /// Returns the locations of a call path, innermost first.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = LocationId> + '_ {
        self.ancestors(stack).map(|id| self.get_frame(id).location)
    }

    /// Returns the entries of a name scope, innermost first.
    pub fn scope_path(&self, scope: ScopeId) -> Vec<ScopeId> {
        std::iter::successors(Some(scope), |&id| self.get_scope(id).parent).collect()
    }

    /// Returns the frames of the lowering, innermost first.
    pub fn emitter_path(&self, emitter: EmitterId) -> Vec<EmitterId> {
        std::iter::successors(Some(emitter), |&id| self.get_emitter(id).parent).collect()
    }

    /// Returns the innermost frame of the emitter that belongs to a plugin.
    pub fn plugin_of(&self, emitter: EmitterId) -> Option<EmitterId> {
        self.emitter_path(emitter).into_iter().find(|&id| self.get_emitter(id).kind.is_plugin())
    }

    /// Returns the innermost frame of the user.
    pub fn user_frame(&self, stack: StackId) -> Option<LocationId> {
        let is_user =
            |&id: &LocationId| self.get_file(self.get_location(id).file).tier == Tier::User;
        self.frames(stack).find(is_user)
    }

    /// Returns the location in the user's code that a call path refers to: the innermost frame of the user, or else
    /// the innermost frame of a library, or else the outermost frame, which is the exported function.
    pub fn callsite(&self, stack: StackId) -> Option<LocationId> {
        let tier = |id: LocationId| self.get_file(self.get_location(id).file).tier;
        self.user_frame(stack)
            .or_else(|| self.frames(stack).find(|&id| tier(id) == Tier::Library))
            .or_else(|| self.frames(stack).last())
    }
}

/// Distinct values, indexed in the order of their first use.
#[derive(Clone, Debug)]
pub(crate) struct Interned<T>(IndexSet<T, FxBuildHasher>);

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Interned(IndexSet::default())
    }
}

impl<T: Hash + Eq> Interned<T> {
    fn intern(&mut self, value: T) -> usize {
        self.0.insert_full(value).0
    }

    /// Returns the value at an index. Every id comes from `intern` of the same table, so the index is in range.
    pub(crate) fn get(&self, index: usize) -> &T {
        &self.0[index]
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::EmitterKind;
    use crate::testing::{Draw, frame, seeded, stack};

    #[track_caller]
    fn check(tiers: &[Tier], line: u32) {
        let mut table = Table::default();
        let lines = (1..).zip(tiers);
        let frames: Vec<_> = lines.map(|(line, &tier)| frame("a.py", tier, "f", line)).collect();
        let stack = stack(&mut table, &frames);
        let callsite = table.callsite(stack).map(|id| table.get_location(id).line);
        assert_eq!(callsite, Some(line));
        assert_eq!(table.callsites().get(stack.index()).copied(), table.callsite(stack));
    }

    #[test]
    fn the_callsite_is_the_innermost_frame_of_the_user() {
        use Tier::{Internal, Library, User};
        check(&[Internal, Library, User, Library, User], 3);
        check(&[User], 1);
    }

    #[test]
    fn without_a_user_it_is_the_innermost_frame_of_a_library() {
        use Tier::{Internal, Library};
        check(&[Internal, Library, Internal, Library], 2);
    }

    #[test]
    fn without_either_it_is_the_outermost_frame() {
        check(&[Tier::Internal; 3], 3);
    }

    #[test]
    fn the_plugin_is_the_innermost_frame_that_is_one() {
        let mut table = Table::default();
        let mut emitter = |kind, name: &str, parent| {
            let (name, file) = (name.into(), "f.rs".into());
            table.emitter(Emitter { kind, name, file, line: 1, parent })
        };
        let outer = emitter(EmitterKind::Plugin, "scan", None);
        let inner = emitter(EmitterKind::Plugin, "sin", Some(outer));
        let helper = emitter(EmitterKind::Helper, "broadcast", Some(inner));
        let alone = emitter(EmitterKind::Helper, "broadcast", None);
        assert_eq!(table.plugin_of(helper), Some(inner));
        assert_eq!(table.plugin_of(alone), None);
    }

    proptest! {
        #![proptest_config(seeded())]

        #[test]
        fn called_from_is_associative(choices in Draw::choices()) {
            let (mut table, origins) = Draw::new(&choices).table();
            let [inner, middle, outer] = origins;
            let middle_site = table.get_origin(middle).primary;
            let outer_site = table.get_origin(outer).primary;
            let once = table.called_from(inner, middle_site);
            let left = table.called_from(once, outer_site);
            let middle_alone = table.origin(Origin::of(middle_site));
            let enclosing = table.called_from(middle_alone, outer_site);
            let right = table.called_from(inner, table.get_origin(enclosing).primary);
            prop_assert_eq!(left, right);
        }

        #[test]
        fn called_from_distributes_over_absorb(choices in Draw::choices()) {
            let (mut table, [a, b, outer]) = Draw::new(&choices).table();
            let site = table.get_origin(outer).primary;
            let joined = table.absorb(a, b);
            let left = table.called_from(joined, site);
            let (a, b) = (table.called_from(a, site), table.called_from(b, site));
            prop_assert_eq!(left, table.absorb(a, b));
        }

        #[test]
        fn the_inner_part_of_a_call_path_is_restored_by_a_call(choices in Draw::choices()) {
            let (mut table, [inner, outer, _]) = Draw::new(&choices).table();
            let [inner, outer] = [inner, outer]
                .map(|id| table.get_site(table.get_origin(id).primary));
            let whole = table.stack_called_from(inner.stack, outer.stack);
            if let (Some(whole), Some(_), Some(outer)) = (whole, inner.stack, outer.stack) {
                let within = table.stack_within(whole, outer);
                prop_assert_eq!(Some(within), inner.stack);
                prop_assert_eq!(table.stack_called_from(Some(within), Some(outer)), Some(whole));
            }
            let whole = table.scope_inside(inner.scope, outer.scope);
            if outer.scope.is_some() {
                let within = table.scope_within(whole, outer.scope);
                prop_assert_eq!(within, inner.scope);
                prop_assert_eq!(table.scope_inside(within, outer.scope), whole);
            }
        }

        #[test]
        fn stacks_and_scopes_compose_associatively(choices in Draw::choices()) {
            let (mut table, origins) = Draw::new(&choices).table();
            let sites = origins.map(|id| table.get_site(table.get_origin(id).primary));
            let [a, b, c] = sites.map(|site| site.stack);
            let (inner, outer) = (table.stack_called_from(a, b), table.stack_called_from(b, c));
            prop_assert_eq!(table.stack_called_from(inner, c), table.stack_called_from(a, outer));
            let [a, b, c] = sites.map(|site| site.scope);
            let (inner, outer) = (table.scope_inside(a, b), table.scope_inside(b, c));
            prop_assert_eq!(table.scope_inside(inner, c), table.scope_inside(a, outer));
        }
    }
}
