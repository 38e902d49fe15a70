//! The interned tables behind every id.

use std::hash::Hash;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::frame::{Emitter, EmitterKind, Location, Scope, ScopeKind};
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

            /// The position in the table.
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
    /// A call path: its innermost frame, and through it all that enclose it.
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

/// A source file, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct File {
    pub path: Box<str>,
    pub tier: Tier,
}

/// A frame of a call path: where, and called from where.
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
        FileId::at(self.files.intern(File {
            path: path.into(),
            tier,
        }))
    }

    pub fn function(&mut self, qualified_name: &str) -> FunctionId {
        FunctionId::at(self.functions.intern(qualified_name.into()))
    }

    pub fn location(&mut self, location: Location) -> LocationId {
        LocationId::at(self.locations.intern(location))
    }

    /// The call path that enters `location` from `caller`.
    pub fn push(&mut self, caller: Option<StackId>, location: LocationId) -> StackId {
        StackId::at(self.stacks.intern(Frame {
            location,
            parent: caller,
        }))
    }

    pub fn scope(&mut self, parent: Option<ScopeId>, kind: ScopeKind, name: &str) -> ScopeId {
        ScopeId::at(self.scopes.intern(Scope {
            kind,
            name: name.into(),
            parent,
        }))
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

    /// The call path `inner`, entered from `outer`.
    ///
    /// Associative: `(a from b) from c` is `a from (b from c)`.
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

    /// The name scope `inner`, opened inside `outer`.
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

    /// The origin `inner`, called from `outer`: the places of `inner`, each inside `outer`.
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
            Origin::of(self.site(Site {
                stack,
                scope,
                emitter,
            }))
        });
        let Some(first) = places.next() else {
            return inner;
        };
        let origin = places.fold(first, |joined, place| joined.absorb(&place));
        let origin = self.origin(origin);
        self.called.insert((inner, outer), origin);
        origin
    }

    /// The origin `kept`, which takes over the places of `dropped`.
    pub fn absorb(&mut self, kept: OriginId, dropped: OriginId) -> OriginId {
        if kept == dropped {
            return kept;
        }
        if let Some(&known) = self.absorbed.get(&(kept, dropped)) {
            return known;
        }
        let joined = self
            .origins
            .get(kept.index())
            .absorb(self.origins.get(dropped.index()));
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

    /// The locations of a call path, innermost first.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = LocationId> + '_ {
        let mut next = Some(stack);
        std::iter::from_fn(move || {
            let frame = self.get_frame(next?);
            next = frame.parent;
            Some(frame.location)
        })
    }

    /// The entries of a name scope, innermost first.
    pub fn scope_path(&self, scope: ScopeId) -> Vec<ScopeId> {
        std::iter::successors(Some(scope), |&id| self.get_scope(id).parent).collect()
    }

    /// The frames of the lowering, innermost first.
    pub fn emitter_path(&self, emitter: EmitterId) -> Vec<EmitterId> {
        std::iter::successors(Some(emitter), |&id| self.get_emitter(id).parent).collect()
    }

    /// The innermost frame of the emitter that is a plugin's.
    pub fn plugin_of(&self, emitter: EmitterId) -> Option<EmitterId> {
        self.emitter_path(emitter)
            .into_iter()
            .find(|&id| self.get_emitter(id).kind == EmitterKind::Plugin)
    }

    /// The place in the user's code that a call path is about: the innermost frame of the user,
    /// else the innermost of a library, else the outermost of all, which is the function exported.
    pub fn callsite(&self, stack: StackId) -> Option<LocationId> {
        let tier = |id: LocationId| self.get_file(self.get_location(id).file).tier;
        self.frames(stack)
            .find(|&id| tier(id) == Tier::User)
            .or_else(|| self.frames(stack).find(|&id| tier(id) == Tier::Library))
            .or_else(|| self.frames(stack).last())
    }
}

/// Values with an index each, in the order of first use.
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

    /// Every id is made by `intern` of the same table, so the index is in range.
    pub(crate) fn get(&self, index: usize) -> &T {
        &self.0[index]
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.0.iter()
    }
}
