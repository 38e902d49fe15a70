//! A place in a text, and the small things that can be read there.

use std::borrow::Cow;

/// Why a text is no jaxpr, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
#[non_exhaustive]
pub struct ParseError {
    /// 1-based.
    pub line: usize,
    /// 1-based, in characters.
    pub column: usize,
    pub message: String,
}

/// Nesting deeper than this is refused, so that no text exhausts the stack.
const MAX_DEPTH: usize = 64;

pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0, depth: 0 }
    }

    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn go_to(&mut self, position: usize) {
        self.at = position;
    }

    pub(crate) fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Enters a nested form; [`Cursor::leave`] ends it.
    pub(crate) fn enter(&mut self) -> Result<(), ParseError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(self.error("this is nested too deeply")) } else { Ok(()) }
    }

    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Skips space and ends of lines.
    pub(crate) fn space(&mut self) {
        self.take(char::is_whitespace);
    }

    /// Skips space within the line.
    pub(crate) fn blanks(&mut self) {
        self.take(|c| c == ' ' || c == '\t');
    }

    pub(crate) fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Takes `symbol`, where it is what follows the space.
    pub(crate) fn eat(&mut self, symbol: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len();
        }
        found
    }

    pub(crate) fn expect(&mut self, symbol: &str) -> Result<(), ParseError> {
        if self.eat(symbol) { Ok(()) } else { Err(self.error(format!("expected `{symbol}`"))) }
    }

    /// A name of letters, digits and underscores, or nothing.
    pub(crate) fn word(&mut self) -> Option<&'a str> {
        self.peek().filter(|&first| starts_word(first))?;
        Some(self.take(continues_word))
    }

    /// A word that may have dots in it, or a quoted text.
    pub(crate) fn name(&mut self, what: &str) -> Result<Cow<'a, str>, ParseError> {
        self.space();
        if self.peek() == Some('"') {
            return self.string().map(Cow::Owned);
        }
        let start = self.at;
        while self.word().is_some() {
            let after_word = self.at;
            if !self.rest().starts_with('.') {
                break;
            }
            self.at += 1;
            if !self.peek().is_some_and(starts_word) {
                self.at = after_word;
                break;
            }
        }
        if self.at == start {
            return Err(self.error(format!("expected {what}")));
        }
        Ok(Cow::Borrowed(&self.text[start..self.at]))
    }

    /// A quoted text, as [`quoted`] writes it.
    pub(crate) fn string(&mut self) -> Result<String, ParseError> {
        self.expect("\"")?;
        let mut content = String::new();
        loop {
            content.push_str(self.take(|c| c != '"' && c != '\\'));
            if self.eat_exactly('"') {
                return Ok(content);
            }
            if !self.eat_exactly('\\') {
                return Err(self.error("this text has no closing quote"));
            }
            let escape = self.peek();
            self.at += escape.map_or(0, char::len_utf8);
            content.push(match escape {
                Some(same @ ('"' | '\\')) => same,
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('u') => self.code_point()?,
                _ => return Err(self.error("this escape is unknown")),
            });
        }
    }

    fn code_point(&mut self) -> Result<char, ParseError> {
        self.expect("{")?;
        let digits = self.take(|c| c.is_ascii_hexdigit());
        self.expect("}")?;
        let point = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
        point.ok_or_else(|| self.error("this is no character"))
    }

    fn eat_exactly(&mut self, symbol: char) -> bool {
        let found = self.peek() == Some(symbol);
        if found {
            self.at += symbol.len_utf8();
        }
        found
    }

    pub(crate) fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, ParseError> {
        let digits = self.take(|c| c.is_ascii_digit());
        digits.parse().map_err(|_| self.error(format!("expected {what}")))
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> ParseError {
        self.error_at(self.at, message)
    }

    pub(crate) fn error_at(&self, at: usize, message: impl Into<String>) -> ParseError {
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ParseError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
        }
    }
}

/// Whether a name is read back without quotes.
pub(crate) fn is_word(name: &str) -> bool {
    name.starts_with(starts_word) && name.chars().all(continues_word)
}

/// A name of words with dots between them, in quotes where it is none.
pub(crate) fn name(text: &str) -> String {
    if text.split('.').all(is_word) { text.to_owned() } else { quoted(text) }
}

/// A text between quotes, on one line.
pub(crate) fn quoted(text: &str) -> String {
    let mut result = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' => result.push_str("\\\""),
            '\\' => result.push_str("\\\\"),
            '\n' => result.push_str("\\n"),
            '\r' => result.push_str("\\r"),
            '\t' => result.push_str("\\t"),
            c if c.is_control() => result.extend(c.escape_unicode()),
            c => result.push(c),
        }
    }
    result + "\""
}

fn starts_word(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn continues_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
