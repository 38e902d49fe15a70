//! Cleans everything that the program prints.

use std::io::{self, Write};

use inspect::Style;
use provenance::clean::is_unprintable;

/// The number of bytes to collect before they are written.
const BLOCK: usize = 1 << 16;

/// An output that replaces unprintable characters, except line ends, tabs, and the colors of a [`Style`]. Text from
/// a file is already cleaned when it is formatted, so this is the second line of defense.
pub(crate) struct Printed<'a> {
    out: &'a mut dyn Write,
    has_color: bool,
    /// The maximum number of waiting bytes.
    block: usize,
    waiting: Vec<u8>,
}

impl<'a> Printed<'a> {
    /// Returns an output that writes large blocks.
    pub(crate) fn in_blocks(out: &'a mut dyn Write, style: Style) -> Printed<'a> {
        Printed { out, has_color: style.color, block: BLOCK, waiting: Vec::new() }
    }

    /// Returns an output without colors that writes line by line.
    pub(crate) fn in_lines(out: &'a mut dyn Write) -> Printed<'a> {
        Printed { out, has_color: false, block: 0, waiting: Vec::new() }
    }

    /// Writes the first waiting bytes.
    fn print(&mut self, count: usize) -> io::Result<()> {
        let bytes: Vec<u8> = self.waiting.drain(..count).collect();
        let text = String::from_utf8_lossy(&bytes);
        let mut cleaned = String::with_capacity(text.len());
        let mut rest = &*text;
        while let Some(c) = rest.chars().next() {
            let color = self.has_color.then(|| color(rest)).flatten();
            let length = if let Some(color) = color {
                cleaned.push_str(color);
                color.len()
            } else {
                let is_kept = matches!(c, '\n' | '\t') || !is_unprintable(c);
                cleaned.push(if is_kept { c } else { char::REPLACEMENT_CHARACTER });
                c.len_utf8()
            };
            rest = &rest[length..];
        }
        self.out.write_all(cleaned.as_bytes())
    }
}

/// Returns the sequence of a [`Style`] at the start of a text.
fn color(text: &str) -> Option<&str> {
    let code = text.strip_prefix("\x1b[")?;
    let (code, _) = code.get(..code.len().min(8)).unwrap_or(code).split_once('m')?;
    Style::CODES.contains(&code).then(|| &text[..code.len() + 3])
}

impl Write for Printed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() > self.block
            && let Some(last) = self.waiting.iter().rposition(|&byte| byte == b'\n')
        {
            self.print(last + 1)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.print(self.waiting.len())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str, style: Style) -> String {
        let mut out = Vec::new();
        let mut printed = Printed::in_blocks(&mut out, style);
        for byte in text.bytes() {
            printed.write_all(&[byte]).unwrap();
        }
        printed.flush().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_the_colors_of_a_style_get_through() {
        let color = Style { color: true, ..Style::plain() };
        let styled = format!("{} {}\tgröße\n", color.red("error:"), color.blue("x"));
        assert_eq!(printed(&styled, color), styled);
        assert!(!printed(&styled, Style::plain()).contains('\x1b'));
        let hostile = "\x1b[2J\x1b]0;title\x07\x1b[8m\u{9b}1m\x7f\u{202e}\r";
        assert_eq!(printed(hostile, color), "�[2J�]0;title��[8m�1m���");
    }
}
