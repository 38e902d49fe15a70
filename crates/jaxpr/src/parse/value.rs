//! Parses the values of parameters.

use std::sync::Arc;

use cursor::{Parse, Result};

use super::Parser;
use crate::Dim;
use crate::aval::{Aval, DType};
use crate::element;
use crate::param::Param;
use crate::text::is_reserved;

impl Parser<'_> {
    pub(super) fn value(&mut self) -> Result<Param> {
        self.cursor.skip_space();
        self.nested(|parser| match parser.cursor.peek() {
            Some('(') => parser.sequence(")"),
            Some('[') => parser.sequence("]"),
            Some('"') => parser.text_or_named(),
            _ => parser.word_or_number(),
        })
    }

    fn sequence(&mut self, end: &str) -> Result<Param> {
        self.cursor.advance(1);
        Ok(Param::Seq(self.list(end, Parser::value)?.into()))
    }

    /// Reads a text, or a value whose name is quoted.
    fn text_or_named(&mut self) -> Result<Param> {
        let start = self.cursor.position();
        let text = self.cursor.quoted('"')?;
        match self.cursor.peek() {
            Some('[') => {
                self.cursor.go_to(start);
                self.aval().map(Param::Aval)
            }
            Some('(' | '.') => self.named(&text),
            _ => Ok(Param::Str(text.into())),
        }
    }

    fn word_or_number(&mut self) -> Result<Param> {
        let start = self.cursor.position();
        if let Some(alone) = self.reserved_word() {
            return Ok(alone);
        }
        self.cursor.go_to(start);
        if let Some(size) = self.size() {
            return Ok(size);
        }
        self.cursor.go_to(start);
        let Some(word) = self.word() else {
            return self.float();
        };
        let next = self.cursor.peek();
        match (word, next) {
            ("dim", Some('(')) => {
                self.cursor.advance(1);
                let dim = self.dim()?;
                self.cursor.expect(")")?;
                Ok(Param::Dim(dim))
            }
            ("jaxpr", Some(' ' | '"')) => {
                self.cursor.go_to(start);
                Ok(Param::Jaxpr(Arc::new(self.jaxpr()?)))
            }
            ("array", Some(' ')) => self.constant(None).map(Param::Array),
            ("aval", Some(' ')) => self.aval().map(Param::Aval),
            ("dtype", Some(' ')) => self.dtype().map(Param::DType),
            (_, Some('[' | '<')) => {
                self.cursor.go_to(start);
                self.dtype_or_aval()
            }
            _ => {
                self.cursor.go_to(start);
                let name = self.name("a value")?;
                self.named(&name)
            }
        }
    }

    /// Reads a single word that is not a size: a boolean or an element type.
    fn reserved_word(&mut self) -> Option<Param> {
        let word = self.word()?;
        if !self.at_delimiter() || !is_reserved(word) {
            return None;
        }
        Some(match word {
            "None" => Param::None,
            "True" => Param::Bool(true),
            "False" => Param::Bool(false),
            "nan" => Param::Float(f64::NAN),
            "inf" => Param::Float(f64::INFINITY),
            dtype => Param::DType(DType::from_short(dtype)),
        })
    }

    /// Reads an integer, or an expression of symbols.
    fn size(&mut self) -> Option<Param> {
        let start = self.cursor.position();
        let dim = self.dim().ok()?;
        let text = self.cursor.between(start, self.cursor.position());
        let is_float = text.trim_start_matches('-').trim_end() == "inf";
        if is_float || !self.at_delimiter() {
            return None;
        }
        Some(match dim {
            Dim::Known(size) => Param::Int(size),
            symbolic @ Dim::Symbolic(_) => Param::Dim(symbolic),
        })
    }

    fn float(&mut self) -> Result<Param> {
        let start = self.cursor.position();
        let text = self.cursor.take(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        let bytes = element::read(&DType::F64, text).and_then(|bytes| bytes.try_into().ok());
        match bytes {
            Some(bytes) => Ok(Param::Float(f64::from_le_bytes(bytes))),
            None => Err(self.cursor.error_at(start, "expected a value")),
        }
    }

    fn dtype_or_aval(&mut self) -> Result<Param> {
        let start = self.cursor.position();
        let dtype = self.dtype()?;
        if !self.cursor.rest().starts_with('[') {
            return Ok(Param::DType(dtype));
        }
        self.cursor.go_to(start);
        let aval: Aval = self.aval()?;
        Ok(Param::Aval(aval))
    }

    /// Reads the rest of a value after a name: the fields of a record, `...`, or the member of an enumeration.
    fn named(&mut self, name: &str) -> Result<Param> {
        if self.cursor.rest().starts_with('(') {
            self.cursor.advance(1);
            if self.cursor.eat("...") {
                self.cursor.expect(")")?;
                return Ok(Param::Opaque(name.into()));
            }
            let fields = self.list(")", |parser| {
                let key: Arc<str> = parser.name("a field")?.into();
                parser.cursor.expect("=")?;
                Ok((key, parser.value()?))
            })?;
            return Ok(Param::Record(name.into(), fields.into()));
        }
        if self.cursor.rest().starts_with('.') {
            self.cursor.advance(1);
            let member = self.name("a member")?;
            return Ok(Param::Enum(name.into(), member.into()));
        }
        match name.rsplit_once('.') {
            Some((kind, member)) => Ok(Param::Enum(kind.into(), member.into())),
            None => Err(self.cursor.expected("a value")),
        }
    }

    fn at_delimiter(&mut self) -> bool {
        self.cursor.skip_space();
        matches!(self.cursor.peek(), None | Some(',' | ';' | ')' | ']' | '}'))
    }
}
