//! Parses the text of [`crate::text`], and a short form for one equation.

mod constant;
mod place;
mod value;

use std::borrow::Cow;
use std::sync::Arc;

pub use cursor::ParseError;
use cursor::{Cursor, Parse, Result};
use provenance::Table;
use rustc_hash::FxHashMap;

use crate::Dim;
use crate::aval::{Aval, DType};
use crate::jaxpr::{Atom, Eqn, Jaxpr, Program, Var, VarId};
use crate::param::Params;
use crate::word::{continues_word, starts_word};

/// Parses a program.
///
/// The text is either the complete form that [`crate::text::print`] writes, or the inputs and one equation:
/// `x:f32[3] y:f32[3] -> z:f32[3] = add x y`. The outputs of that equation are those of the program.
pub fn parse(text: &str) -> Result<Program> {
    let mut parser = Parser { cursor: Cursor::new(text), table: Table::default() };
    parser.cursor.skip_space();
    let main = if parser.at_jaxpr() { parser.jaxpr()? } else { parser.one_equation()? };
    if !parser.cursor.is_at_end() {
        return Err(parser.cursor.expected("the end"));
    }
    Ok(Program { table: parser.table, main: Arc::new(main) })
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    table: Table,
}

/// A jaxpr as far as it was read, and the names of its variables.
#[derive(Default)]
struct Body<'a> {
    jaxpr: Jaxpr,
    names: FxHashMap<&'a str, VarId>,
}

impl<'a> Parse<'a> for Parser<'a> {
    fn cursor(&mut self) -> &mut Cursor<'a> {
        &mut self.cursor
    }
}

impl<'a> Parser<'a> {
    /// True if `jaxpr` and the name of a function come next, not a variable called `jaxpr`.
    fn at_jaxpr(&self) -> bool {
        let rest = self.cursor.rest().strip_prefix("jaxpr");
        rest.is_some_and(|rest| rest.starts_with([' ', '\n', '"']))
    }

    fn one_equation(&mut self) -> Result<Jaxpr> {
        let mut body = Body::default();
        body.jaxpr.name = "main".into();
        while !self.cursor.eat("->") {
            let var = self.definition(&mut body)?;
            body.jaxpr.inputs.push(var);
        }
        self.equation(&mut body)?;
        body.jaxpr.outputs = body.jaxpr.eqns[0].outputs.iter().copied().map(Atom::Var).collect();
        Ok(body.jaxpr)
    }

    fn jaxpr(&mut self) -> Result<Jaxpr> {
        self.nested(Parser::jaxpr_inside)
    }

    fn jaxpr_inside(&mut self) -> Result<Jaxpr> {
        let mut body = Body::default();
        self.cursor.expect("jaxpr")?;
        body.jaxpr.name = self.name("the name of a function")?.into();
        self.cursor.expect("(")?;
        body.jaxpr.inputs = self.list(")", |parser| parser.definition(&mut body))?;
        if self.cursor.eat("names(") {
            body.jaxpr.input_names =
                self.list(")", |parser| Ok(parser.cursor.quoted('"')?.into()))?;
        }
        self.cursor.skip_space();
        body.jaxpr.place = self.place()?;
        self.cursor.expect("{")?;
        while !self.statement(&mut body)? {}
        self.cursor.expect("}")?;
        Ok(body.jaxpr)
    }

    /// Reads a constant, an equation or the outputs. Returns true after the outputs, which come last.
    fn statement(&mut self, body: &mut Body<'a>) -> Result<bool> {
        self.cursor.skip_space();
        let start = self.cursor.position();
        let word = self.word();
        self.cursor.skip_blanks();
        match word {
            Some("const") if self.cursor.peek() != Some(':') => {
                let var = self.definition(body)?;
                self.cursor.expect("=")?;
                let aval = body.jaxpr.aval(var).clone();
                let constant = self.constant(Some(&aval))?;
                body.jaxpr.constants.push((var, constant));
            }
            Some("return") if self.cursor.peek() != Some(':') => {
                if !self.at_end_of_equation() {
                    body.jaxpr.outputs.push(self.atom(body)?);
                    while self.cursor.eat(",") {
                        self.cursor.skip_space();
                        body.jaxpr.outputs.push(self.atom(body)?);
                    }
                }
                return Ok(true);
            }
            Some(_) => {
                self.cursor.go_to(start);
                self.equation(body)?;
            }
            None if self.cursor.peek() == Some('=') => self.equation(body)?,
            None => return Err(self.cursor.expected("an equation or `return`")),
        }
        Ok(false)
    }

    /// Reads `outputs = primitive{params} inputs`, and the source location if there is one.
    fn equation(&mut self, body: &mut Body<'a>) -> Result<()> {
        // An equation cannot read its own outputs, so they are defined at its end.
        let mut outputs = Vec::new();
        while !self.cursor.eat("=") {
            outputs.push(self.typed_name()?);
        }
        let primitive = self.name("a primitive")?.into();
        let params = if self.cursor.rest().starts_with('{') {
            self.cursor.advance(1);
            self.params()?
        } else {
            Params::default()
        };
        let mut inputs = Vec::new();
        while !self.at_end_of_equation() {
            inputs.push(self.atom(body)?);
        }
        let place = self.place()?;
        let outputs = outputs.into_iter().map(|output| self.define(body, output));
        let outputs = outputs.collect::<Result<_, _>>()?;
        body.jaxpr.eqns.push(Eqn { primitive, inputs, outputs, params, place, recipe: None });
        Ok(())
    }

    fn at_end_of_equation(&mut self) -> bool {
        self.cursor.skip_blanks();
        matches!(self.cursor.peek(), None | Some('\n' | '\r' | '@' | '#' | '}'))
    }

    fn params(&mut self) -> Result<Params> {
        let mut entries = Vec::new();
        while !self.cursor.eat("}") {
            let key = self.name("the name of a parameter")?.into();
            self.cursor.expect("=")?;
            entries.push((key, self.value()?));
            self.cursor.skip_space();
            if self.cursor.peek() != Some('}') {
                self.cursor.expect(";")?;
            }
        }
        Ok(Params::new(entries))
    }

    /// Reads a variable, or a literal, which is always followed by a type.
    fn atom(&mut self, body: &Body<'a>) -> Result<Atom> {
        let start = self.cursor.position();
        if let Some(word) = self.word()
            && !self.cursor.rest().starts_with([':', '"'])
        {
            let var = body.names.get(word).copied().map(Atom::Var);
            return var
                .ok_or_else(|| self.cursor.error_at(start, format!("`{word}` is not defined")));
        }
        self.cursor.go_to(start);
        self.constant(None).map(Atom::Literal)
    }

    fn definition(&mut self, body: &mut Body<'a>) -> Result<VarId> {
        let typed_name = self.typed_name()?;
        self.define(body, typed_name)
    }

    /// Reads `x:f32[3]`. Returns its position too.
    fn typed_name(&mut self) -> Result<(usize, &'a str, Aval)> {
        self.cursor.skip_space();
        let start = self.cursor.position();
        let name = self.word().ok_or_else(|| self.cursor.expected("a variable"))?;
        self.cursor.expect(":")?;
        Ok((start, name, self.aval()?))
    }

    /// Defines a variable. Several may be called `_`, which nothing reads.
    fn define(
        &self,
        body: &mut Body<'a>,
        (start, name, aval): (usize, &'a str, Aval),
    ) -> Result<VarId> {
        let var = VarId(body.jaxpr.vars.len() as u32);
        body.jaxpr.vars.push(Var { aval });
        if name != "_" && body.names.insert(name, var).is_some() {
            return Err(self.cursor.error_at(start, format!("`{name}` is defined twice")));
        }
        Ok(var)
    }

    fn aval(&mut self) -> Result<Aval> {
        if self.cursor.eat("<") {
            let text = self.name("a type")?.into();
            self.cursor.expect(">")?;
            return Ok(Aval::Other(text));
        }
        let dtype = self.dtype()?;
        self.cursor.expect("[")?;
        let shape = self.list("]", Parser::dim)?;
        Ok(Aval::array(dtype, shape))
    }

    fn dtype(&mut self) -> Result<DType> {
        self.cursor.skip_space();
        if self.cursor.peek() == Some('"') {
            return Ok(DType::Other(self.cursor.quoted('"')?.into()));
        }
        let word = self.word().ok_or_else(|| self.cursor.expected("an element type"))?;
        if word == "key" && self.cursor.rest().starts_with('<') {
            self.cursor.advance(1);
            let implementation = self.name("the kind of a key")?.into();
            self.cursor.expect(">")?;
            return Ok(DType::Key(implementation));
        }
        Ok(DType::from_short(word))
    }

    fn dim(&mut self) -> Result<Dim> {
        Dim::read(&mut self.cursor)
    }

    /// Reads a word of letters, digits and underscores, if one comes next.
    fn word(&mut self) -> Option<&'a str> {
        self.cursor.peek().filter(|&first| starts_word(first))?;
        Some(self.cursor.take(continues_word))
    }

    /// Reads words that are joined by dots, or a quoted text.
    fn name(&mut self, what: &str) -> Result<Cow<'a, str>> {
        self.cursor.skip_space();
        if self.cursor.peek() == Some('"') {
            return self.cursor.quoted('"').map(Cow::Owned);
        }
        let start = self.cursor.position();
        let mut end = start;
        while self.word().is_some() {
            end = self.cursor.position();
            if self.cursor.peek() != Some('.') {
                break;
            }
            self.cursor.advance(1);
        }
        self.cursor.go_to(end);
        if end == start {
            return Err(self.cursor.expected(what));
        }
        Ok(Cow::Borrowed(self.cursor.between(start, end)))
    }
}
