//! A cursor over a text, which the parsers of sizes, jaxprs and graphs use.

/// The reason why a text cannot be parsed, and the position.
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

pub type Result<T, E = ParseError> = std::result::Result<T, E>;

/// The maximum depth of nesting, so that no text exhausts the stack.
const MAX_DEPTH: usize = 64;

/// A position in a text, with methods that read from there.
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

/// A parser that reads from a cursor.
pub trait Parse<'a>: Sized {
    fn cursor(&mut self) -> &mut Cursor<'a>;

    /// Reads items that are separated by commas up to `end`. A comma before `end` is allowed.
    fn list<T>(
        &mut self,
        end: &str,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut items = Vec::new();
        while !self.cursor().eat(end) {
            items.push(item(self)?);
            if !self.cursor().eat(",") {
                self.cursor().expect(end)?;
                break;
            }
        }
        Ok(items)
    }

    /// Reads a form that can contain itself, and refuses it if it is nested too deeply.
    fn nested<T>(&mut self, form: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.cursor().enter()?;
        let read = form(self);
        self.cursor().depth -= 1;
        read
    }
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0, depth: 0 }
    }

    /// Returns the text from the cursor on.
    pub fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns the offset of the cursor in bytes, for [`Cursor::go_to`].
    pub fn position(&self) -> usize {
        self.at
    }

    /// Moves the cursor to a position that it had before.
    pub fn go_to(&mut self, position: usize) {
        self.at = position;
    }

    /// Moves the cursor forward.
    pub fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Returns the 1-based line that the cursor is on.
    pub fn line(&self) -> usize {
        self.text[..self.at].matches('\n').count() + 1
    }

    /// Returns the text between two positions.
    pub fn between(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// Returns the next character without reading it.
    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Skips spaces and line breaks.
    pub fn skip_space(&mut self) {
        self.take(char::is_whitespace);
    }

    /// Skips spaces within the line.
    pub fn skip_blanks(&mut self) {
        self.take(|c| c == ' ' || c == '\t');
    }

    /// Reads the characters that belong to a token.
    pub fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let token = self.peek_while(belongs);
        self.at += token.len();
        token
    }

    /// Returns the characters that belong to a token, without reading them.
    pub fn peek_while(&self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())]
    }

    /// True if `symbol` comes next, after spaces, which are skipped.
    pub fn is_next(&mut self, symbol: &str) -> bool {
        self.skip_space();
        self.rest().starts_with(symbol)
    }

    /// True if only spaces follow; they are skipped.
    pub fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.rest().is_empty()
    }

    /// Reads `symbol` if it comes next, after spaces.
    pub fn eat(&mut self, symbol: &str) -> bool {
        let is_next = self.is_next(symbol);
        if is_next {
            self.at += symbol.len();
        }
        is_next
    }

    /// Reads `symbol`, which must come next, after spaces.
    pub fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.eat(symbol) { Ok(()) } else { Err(self.expected(&format!("`{symbol}`"))) }
    }

    /// Reads digits.
    pub fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T> {
        let digits = self.take(|c| c.is_ascii_digit());
        digits.parse().map_err(|_| self.expected(what))
    }

    /// Reads a text between quotes, as [`quoted`] writes it.
    pub fn quoted(&mut self, quote: char) -> Result<String> {
        self.expect(quote.encode_utf8(&mut [0; 4]))?;
        let mut content = String::new();
        loop {
            content.push_str(self.take(|c| c != quote && c != '\\'));
            if self.eat_exactly(quote) {
                return Ok(content);
            }
            if !self.eat_exactly('\\') {
                return Err(self.error("this text has no closing quote"));
            }
            let escape = self.peek();
            self.at += escape.map_or(0, char::len_utf8);
            content.push(match escape {
                Some('\\') => '\\',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('u') => self.code_point()?,
                Some(same) if same == quote => same,
                _ => return Err(self.error("this escape is unknown")),
            });
        }
    }

    fn code_point(&mut self) -> Result<char> {
        self.expect("{")?;
        let digits = self.take(|c| c.is_ascii_hexdigit());
        self.expect("}")?;
        let point = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
        point.ok_or_else(|| self.error("this is not a character"))
    }

    fn eat_exactly(&mut self, symbol: char) -> bool {
        let is_next = self.peek() == Some(symbol);
        if is_next {
            self.at += symbol.len_utf8();
        }
        is_next
    }

    fn enter(&mut self) -> Result<()> {
        if self.depth == MAX_DEPTH {
            return Err(self.error("this is nested too deeply"));
        }
        self.depth += 1;
        Ok(())
    }

    /// Returns an error at the cursor that says what was expected there.
    pub fn expected(&self, what: &str) -> ParseError {
        self.error(format!("expected {what}"))
    }

    /// Returns an error at the cursor.
    pub fn error(&self, message: impl Into<String>) -> ParseError {
        self.error_at(self.at, message)
    }

    /// Returns an error at a position.
    pub fn error_at(&self, position: usize, message: impl Into<String>) -> ParseError {
        let before = self.between(0, position);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ParseError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
        }
    }
}

/// Returns a text between quotes, on one line.
pub fn quoted(text: &str, quote: char) -> String {
    let mut result = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => result.push_str("\\\\"),
            '\n' => result.push_str("\\n"),
            '\r' => result.push_str("\\r"),
            '\t' => result.push_str("\\t"),
            c if c == quote => result.extend(['\\', c]),
            c if c.is_control() => result.extend(c.escape_unicode()),
            c => result.push(c),
        }
    }
    result.push(quote);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a list of lists of numbers.
    struct Lists<'a>(Cursor<'a>);

    impl<'a> Parse<'a> for Lists<'a> {
        fn cursor(&mut self) -> &mut Cursor<'a> {
            &mut self.0
        }
    }

    /// Returns how many numbers a text contains.
    fn count(text: &str) -> Result<u64> {
        fn item(lists: &mut Lists<'_>) -> Result<u64> {
            lists.nested(|lists| {
                if lists.0.eat("[") {
                    return Ok(lists.list("]", item)?.iter().sum());
                }
                lists.0.number::<u64>("a number or a list").map(|_| 1)
            })
        }
        item(&mut Lists(Cursor::new(text)))
    }

    #[test]
    fn a_list_may_end_with_a_comma() {
        assert_eq!(count("[1, [2, 3,], []]"), Ok(3));
        assert_eq!(count("[1\n  2]").unwrap_err().to_string(), "line 2, column 3: expected `]`");
        assert_eq!(
            count("[1, ü]").unwrap_err().to_string(),
            "line 1, column 5: expected a number or a list"
        );
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(count(&nested(63)), Ok(0));
        assert_eq!(
            count(&nested(65)).unwrap_err().to_string(),
            "line 1, column 65: this is nested too deeply"
        );
        // Completed forms do not count.
        assert_eq!(count(&format!("[{}1]", "[[1]],".repeat(100))), Ok(101));
    }

    #[test]
    fn a_quoted_text_is_read_back() {
        for text in ["", "a \"b\" `c` \\ \n\r\t", "ü\u{0}\u{7f}\u{2028}"] {
            for quote in ['"', '`'] {
                let shown = quoted(text, quote);
                assert!(!shown.contains('\n'));
                assert_eq!(Cursor::new(&shown).quoted(quote).as_deref(), Ok(text), "{shown}");
            }
        }
    }

    #[test]
    fn a_text_without_its_end_is_refused() {
        let error = |text: &str| Cursor::new(text).quoted('"').unwrap_err().to_string();
        assert_eq!(error("\"abc"), "line 1, column 5: this text has no closing quote");
        assert_eq!(error("\"a\\qc\""), "line 1, column 5: this escape is unknown");
        assert_eq!(error("\"\\u{110000}\""), "line 1, column 12: this is not a character");
    }
}
