//! Formats a source line with carets under an expression.

use crate::clean::clean;
use crate::frame::Span;

/// A line of source to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The line, cleaned.
    pub line: String,
    /// The start of the expression, 1-based, in characters.
    pub column: Option<usize>,
    pub carets: Option<String>,
}

/// Returns the line of `text` with that number; `None` if it does not exist or is blank.
pub fn of(text: &str, number: u32, span: Option<Span>) -> Option<Excerpt> {
    let index = (number as usize).checked_sub(1)?;
    of_line(text.lines().nth(index)?, number, span)
}

/// Returns an excerpt of a line, which has that number; `None` if it is blank.
pub fn of_line(line: &str, number: u32, span: Option<Span>) -> Option<Excerpt> {
    let line = line.trim_end();
    if line.is_empty() {
        return None;
    }
    let parts = span.and_then(|span| split(line, number, span));
    Some(Excerpt {
        line: clean(line),
        column: parts.map(|(before, _)| before.chars().count() + 1),
        carets: parts.map(|(before, expression)| {
            let carets = "^".repeat(width(&clean(expression)).max(1));
            let goes_on = span.is_some_and(|span| span.end_line > number);
            let more = if goes_on { " ..." } else { "" };
            " ".repeat(width(&clean(before))) + &carets + more
        }),
    })
}

/// Splits a line into the text before the expression and the part of the expression on this line.
///
/// Returns `None` if the span does not fit the line, because the line changed after the export.
fn split(line: &str, number: u32, span: Span) -> Option<(&str, &str)> {
    let start = span.column as usize;
    let end = if span.end_line > number { line.len() } else { span.end_column as usize };
    let before = line.get(..start).filter(|before| before.len() < line.len())?;
    Some((before, line.get(start..end.max(start))?))
}

/// Returns the number of columns that a text takes in a terminal.
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Combining marks take no column; East Asian letters and emoji take two.
fn char_width(c: char) -> usize {
    match c as u32 {
        0x0300..=0x036f | 0x200b..=0x200f | 0x20d0..=0x20ff | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}
