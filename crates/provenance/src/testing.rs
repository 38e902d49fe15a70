//! Call paths and tables for the tests of this crate.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::frame::{Emitter, EmitterKind, Location, ScopeKind, Span};
use crate::origin::{Origin, Site};
use crate::table::{EmitterId, OriginId, ScopeId, StackId, Table};
use crate::tier::Tier;

/// Returns a configuration that generates the same cases in every run.
pub(crate) fn seeded() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A frame before it is in a table.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    file: &'a str,
    tier: Tier,
    function: &'a str,
    line: u32,
    span: Option<Span>,
}

pub(crate) fn frame<'a>(file: &'a str, tier: Tier, function: &'a str, line: u32) -> Frame<'a> {
    Frame { file, tier, function, line, span: None }
}

impl Frame<'_> {
    pub(crate) fn span(mut self, column: u32, end_line: u32, end_column: u32) -> Self {
        self.span = Some(Span { column, end_line, end_column });
        self
    }
}

/// Returns the call path of at least one frame, innermost first.
pub(crate) fn stack(table: &mut Table, frames: &[Frame<'_>]) -> StackId {
    let stack = frames.iter().rev().fold(None, |caller, frame| {
        let location = Location {
            file: table.file(frame.file, frame.tier),
            function: table.function(frame.function),
            line: frame.line,
            span: frame.span,
        };
        let location = table.location(location);
        Some(table.push(caller, location))
    });
    stack.unwrap()
}

/// Generates random tables from a list of choices, so that they shrink.
pub(crate) struct Draw<'a> {
    choices: std::slice::Iter<'a, u8>,
    table: Table,
}

impl<'a> Draw<'a> {
    pub(crate) fn choices() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..200)
    }

    pub(crate) fn new(choices: &'a [u8]) -> Draw<'a> {
        Draw { choices: choices.iter(), table: Table::default() }
    }

    /// Returns a table, and three of the origins in it.
    pub(crate) fn table(mut self) -> (Table, [OriginId; 3]) {
        let origins = [self.origin(), self.origin(), self.origin()];
        (self.table, origins)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.choices.next().map_or(0, |&choice| usize::from(choice)) % limit
    }

    fn word(&mut self) -> &'static str {
        ["f", "model.py", "é \"x\"", ""][self.below(4)]
    }

    fn origin(&mut self) -> OriginId {
        let mut origin = Origin::of(self.site());
        for _ in 0..self.below(4) {
            origin = origin.absorb(&Origin::of(self.site()));
        }
        self.table.origin(origin)
    }

    fn site(&mut self) -> crate::table::SiteId {
        let site = Site { stack: self.stack(), scope: self.scope(), emitter: self.emitter() };
        self.table.site(site)
    }

    fn stack(&mut self) -> Option<StackId> {
        let tiers = [Tier::User, Tier::Library, Tier::Internal];
        let frames: Vec<_> = (0..self.below(4))
            .map(|_| {
                let tier = tiers[self.below(3)];
                let frame = frame(self.word(), tier, self.word(), self.below(3) as u32);
                if self.below(2) == 0 { frame } else { frame.span(1, self.below(3) as u32, 9) }
            })
            .collect();
        (!frames.is_empty()).then(|| stack(&mut self.table, &frames))
    }

    fn scope(&mut self) -> Option<ScopeId> {
        let mut scope = None;
        for _ in 0..self.below(3) {
            let kind = [ScopeKind::Name, ScopeKind::Transform][self.below(2)];
            let name = self.word();
            scope = Some(self.table.scope(scope, kind, name));
        }
        scope
    }

    fn emitter(&mut self) -> Option<EmitterId> {
        let mut parent = None;
        for _ in 0..self.below(3) {
            let emitter = Emitter {
                kind: [EmitterKind::Plugin, EmitterKind::Helper][self.below(2)],
                name: self.word().into(),
                file: self.word().into(),
                line: self.below(3) as u32,
                parent,
            };
            parent = Some(self.table.emitter(emitter));
        }
        parent
    }
}
