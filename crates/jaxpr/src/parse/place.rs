//! Parses the source location of an equation.

use cursor::Result;
use provenance::{Location, ScopeId, ScopeKind, Span, StackId, Tier};

use super::Parser;
use crate::jaxpr::SourceInfo;
use crate::text::is_plain_in_scope;

impl Parser<'_> {
    /// Reads `@ "model.py":12:4-12:20 in f < "main.py":30 in main #~jit(f)/attn`. Each part is optional.
    pub(super) fn place(&mut self) -> Result<SourceInfo> {
        let mut place = SourceInfo::default();
        self.cursor.skip_blanks();
        if self.cursor.peek() == Some('@') {
            self.cursor.advance(1);
            place.stack = self.stack()?;
            self.cursor.skip_blanks();
        }
        if self.cursor.peek() == Some('#') {
            self.cursor.advance(1);
            place.scope = self.scope()?;
        }
        Ok(place)
    }

    fn stack(&mut self) -> Result<Option<StackId>> {
        let mut locations = vec![self.location()?];
        while self.cursor.eat("<") {
            locations.push(self.location()?);
        }
        let mut stack = None;
        for location in locations.into_iter().rev() {
            let location = self.table.location(location);
            stack = Some(self.table.push(stack, location));
        }
        Ok(stack)
    }

    /// Reads `library "nn.py":12:4-12:20 in Linear.__call__`.
    fn location(&mut self) -> Result<Location> {
        self.cursor.skip_space();
        let start = self.cursor.position();
        let tier = match self.word() {
            None => Tier::User,
            Some("library") => Tier::Library,
            Some("internal") => Tier::Internal,
            Some(_) => return Err(self.cursor.error_at(start, "expected a file")),
        };
        let path = self.cursor.quoted('"')?;
        self.cursor.expect(":")?;
        let line = self.cursor.number("a line")?;
        let span = self.span()?;
        self.cursor.expect("in")?;
        let function = self.name("a function")?;
        Ok(Location {
            file: self.table.file(&path, tier),
            function: self.table.function(&function),
            line,
            span,
        })
    }

    fn span(&mut self) -> Result<Option<Span>> {
        if !self.cursor.rest().starts_with(':') {
            return Ok(None);
        }
        self.cursor.advance(1);
        let column = self.cursor.number("a column")?;
        self.cursor.expect("-")?;
        let end_line = self.cursor.number("a line")?;
        self.cursor.expect(":")?;
        let end_column = self.cursor.number("a column")?;
        Ok(Some(Span { column, end_line, end_column }))
    }

    fn scope(&mut self) -> Result<Option<ScopeId>> {
        let mut scope = None;
        loop {
            let kind = if self.cursor.rest().starts_with('~') {
                self.cursor.advance(1);
                ScopeKind::Transform
            } else {
                ScopeKind::Name
            };
            let name = if self.cursor.peek() == Some('"') {
                self.cursor.quoted('"')?
            } else {
                self.cursor.take(is_plain_in_scope).to_owned()
            };
            scope = Some(self.table.scope(scope, kind, &name));
            if !self.cursor.rest().starts_with('/') {
                return Ok(scope);
            }
            self.cursor.advance(1);
        }
    }
}
