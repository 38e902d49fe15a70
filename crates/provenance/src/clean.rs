//! Makes text from a file safe to print. All output goes through this module: text, JSON and SVG.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// The spaces that replace a tab.
const TAB: &str = "    ";

/// True if a character affects a terminal or a page beyond its own position: control codes, which move the cursor
/// or start an escape sequence, line separators, characters that reorder the text around them, and invisible tags.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns a text as one line of printable characters.
pub fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => cleaned.push_str(TAB),
            c if is_unprintable(c) => cleaned.push(char::REPLACEMENT_CHARACTER),
            c => cleaned.push(c),
        }
    }
    cleaned
}

/// Returns a text of several lines without unprintable characters. Line ends and tabs stay.
pub fn clean_lines(text: &str) -> String {
    let is_kept = |c: char| matches!(c, '\n' | '\t') || !is_unprintable(c);
    text.chars().map(|c| if is_kept(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Writes a value as indented JSON. Unprintable characters are escaped, so the data is exact.
pub fn write_json(out: impl io::Write, value: &impl Serialize) -> io::Result<()> {
    let mut serializer = Serializer::with_formatter(out, Escaping(PrettyFormatter::new()));
    Ok(value.serialize(&mut serializer)?)
}

/// Returns a value as JSON on several lines, without unprintable characters.
pub fn json_text(value: &impl Serialize) -> String {
    let mut written = Vec::new();
    // Writing to memory cannot fail, and neither can values whose keys are texts.
    let _ = write_json(&mut written, value);
    String::from_utf8_lossy(&written).into_owned()
}

struct Escaping<'a>(PrettyFormatter<'a>);

/// JSON itself escapes the other parts, which never get here.
impl Formatter for Escaping<'_> {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|&(_, c)| is_unprintable(c)) {
            out.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        is_first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(out, is_first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        is_first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(out, is_first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOSTILE: &str = "a\u{1b}[2J\n\r\u{7f}\u{9b}\u{202e}\u{2066}\u{2028}\u{e0041}\tb";

    #[test]
    fn nothing_that_moves_the_cursor_is_left() {
        assert_eq!(clean(HOSTILE), "a�[2J��������    b");
        assert_eq!(clean_lines(HOSTILE), "a�[2J\n�������\tb");
        assert_eq!(clean("Größe, 大小, 🦀, e\u{301}"), "Größe, 大小, 🦀, e\u{301}");
    }

    #[test]
    fn json_is_printable_and_exact() {
        let value = json!({ HOSTILE: [HOSTILE, "größe"], "n": 1.5, "empty": [], "o": {} });
        let mut written = Vec::new();
        write_json(&mut written, &value).unwrap();
        let text = String::from_utf8(written).unwrap();
        assert!(text.contains("größe") && text.contains("\\u009b"), "{text}");
        assert!(!text.chars().any(|c| c != '\n' && is_unprintable(c)), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        let plain = json!({"a": [1, {"b": "c"}]});
        let mut written = Vec::new();
        write_json(&mut written, &plain).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), format!("{plain:#}"));
    }
}
