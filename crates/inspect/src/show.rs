//! Formats frames as text: the line, with the expression underlined.

use std::fmt::Write;

use onnx::scan::{Attribute, AttributeValue};
pub use provenance::clean::clean;
use provenance::report::excerpt;
use rustc_hash::FxHashSet;

use crate::literals::numbers;
use crate::{Frame, Provenance, Source, Sources};

/// The color and the width of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    pub color: bool,
    /// The width in columns.
    pub width: usize,
}

impl Style {
    /// A width at which no line is cut.
    pub const WIDE: usize = 1 << 20;

    /// Returns a style without color and with the largest width.
    pub fn plain() -> Style {
        Style { color: false, width: Style::WIDE }
    }

    /// The codes of the escape sequences that a style uses.
    pub const CODES: [&'static str; 6] = ["0", "1", "2", "1;31", "32", "1;34"];

    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub fn red(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    pub fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub fn blue(self, text: &str) -> String {
        self.paint("1;34", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Wraps a text between words, so that no line is wider than the screen. The text starts in column `start`, and
    /// further lines are indented by another `indent` columns.
    pub fn wrapped(self, text: &str, start: usize, indent: usize) -> Vec<String> {
        let room = self.width.saturating_sub(start).max(MIN_COLUMNS);
        let mut words = text.split(' ');
        let mut line = words.next().unwrap_or_default().to_owned();
        let mut lines = Vec::new();
        for word in words {
            if excerpt::width(&line) + 1 + excerpt::width(word) > room {
                lines.push(line.trim_end().to_owned());
                line = " ".repeat(indent) + word;
            } else {
                line = line + " " + word;
            }
        }
        lines.push(line);
        lines
    }

    /// Wraps a text that starts in column `start`, and indents further lines to the same column.
    pub fn hanging(self, text: &str, start: usize) -> String {
        self.wrapped(text, start, 0).join(&format!("\n{}", " ".repeat(start)))
    }

    /// Joins as many texts as fit into this many columns. `…` replaces the others, and the end of the first one if
    /// it does not fit.
    pub fn list(self, texts: &[String], columns: usize) -> String {
        let whole = texts.join(", ");
        if excerpt::width(&whole) <= columns {
            return whole;
        }
        let mut kept = String::new();
        let first = texts.first().map_or(0, |text| excerpt::width(text));
        if first + 3 > columns {
            return self.fit(&whole, columns);
        }
        for text in texts {
            // The comma, the space and the mark take three columns.
            if excerpt::width(&kept) + excerpt::width(text) + 3 > columns {
                break;
            }
            kept = kept + text + ", ";
        }
        kept + "…"
    }

    /// Cuts the start of a text that is wider than this many columns. `…` marks the cut.
    pub fn fit_end(self, text: &str, columns: usize) -> String {
        let width = excerpt::width(text);
        if width <= columns {
            return text.to_owned();
        }
        let mut rest = text;
        while excerpt::width(rest) + 1 > columns.max(1) {
            let mut letters = rest.chars();
            letters.next();
            rest = letters.as_str();
        }
        format!("…{rest}")
    }

    /// Cuts a text to at most this many columns. `…` marks the cut.
    pub fn fit(self, text: &str, columns: usize) -> String {
        if excerpt::width(text) <= columns {
            return text.to_owned();
        }
        let mut kept = String::new();
        for letter in text.chars() {
            kept.push(letter);
            if excerpt::width(&kept) >= columns.max(1) {
                kept.pop();
                break;
            }
        }
        kept + "…"
    }
}

/// Returns the value of an attribute, cut to at most this many columns.
pub(crate) fn attribute_text(attribute: &Attribute<'_>, max: usize) -> String {
    let text = match attribute.value() {
        AttributeValue::Int(int) => int.to_string(),
        AttributeValue::Float(float) => float.to_string(),
        AttributeValue::Text(text) => format!("\"{}\"", String::from_utf8_lossy(text)),
        AttributeValue::Ints(ints) => format!("{ints:?}"),
        AttributeValue::Floats(floats) => format!("{floats:?}"),
        AttributeValue::Texts(texts) => {
            let texts: Vec<_> = texts.iter().map(|text| String::from_utf8_lossy(text)).collect();
            format!("{texts:?}")
        }
        AttributeValue::Tensor(tensor) => numbers(&tensor).unwrap_or_else(|| tensor.type_text()),
        AttributeValue::Reference(name) => format!("@{name}"),
        _ => "…".to_owned(),
    };
    Style::plain().fit(&text, max)
}

/// The width of text on the narrowest screen, in columns.
const MIN_COLUMNS: usize = 20;

/// Formats a frame, with its line if it can be shown.
///
/// ```text
///   --> train/whiten.py:42:12, in whiten
///    |
/// 42 |     w, v = jnp.linalg.eigh(cov)
///    |            ^^^^^^^^^^^^^^^^^^^^
/// ```
pub fn excerpt(frame: &Frame<'_>, sources: &Sources<'_, '_>, style: Style) -> String {
    excerpts(std::slice::from_ref(frame), sources, style)
}

/// Formats several frames. A note about a file appears only once.
pub fn excerpts(frames: &[Frame<'_>], sources: &Sources<'_, '_>, style: Style) -> String {
    let mut warned = Warned::default();
    let each = frames
        .iter()
        .map(|frame| lines("-->", frame, sources, style, gutter(frame.line), &mut warned));
    each.collect()
}

/// The files with a note that they may have changed.
type Warned<'d> = FxHashSet<&'d str>;

/// Formats the call path of a node: the user's line first, then its callers.
pub fn traceback(
    provenance: &Provenance<'_>,
    all: bool,
    sources: &Sources<'_, '_>,
    style: Style,
) -> String {
    let frames = provenance.shown_frames(all);
    let gutter = frames.iter().map(|frame| gutter(frame.line)).max().unwrap_or_default();
    let mut warned = Warned::default();
    let mut text = String::new();
    for (depth, frame) in frames.iter().enumerate() {
        let arrow = if depth == 0 { "-->" } else { "called from" };
        text += &lines(arrow, frame, sources, style, gutter, &mut warned);
    }
    text
}

/// Returns the width of the line number before the bar.
fn gutter(line: u32) -> usize {
    line.to_string().len().max(2)
}

fn lines<'d>(
    arrow: &str,
    frame: &Frame<'d>,
    sources: &Sources<'_, '_>,
    style: Style,
    gutter: usize,
    warned: &mut Warned<'d>,
) -> String {
    let (source, line) = sources.line(frame);
    // If only the line in the model is shown, its columns may differ from those of the file.
    let is_shown = source.text().is_some();
    let span = frame.span.filter(|_| is_shown);
    let excerpt = line.and_then(|line| excerpt::of_line(&line, frame.line, span));
    let column = match &excerpt {
        Some(excerpt) => excerpt.column,
        None => frame.span.map(|span| span.column as usize + 1),
    };
    let mut place = clean(&frame.place());
    if let (Some(column), true) = (column, frame.line > 0) {
        let _ = write!(place, ":{column}");
    }
    let function = match frame.function {
        "" => String::new(),
        function => format!(", in {}", clean(function)),
    };
    let changed = match source {
        Source::Changed { .. } => " (changed since the export)",
        Source::Unchecked { is_newer: true, .. } => " (dated after the model: it may have changed)",
        Source::Missing if sources.is_cell(frame.file) => " (the notebook was not found)",
        _ => "",
    };
    let is_new = changed.is_empty() || warned.insert(frame.file);
    let changed = if is_new { changed } else { "" };
    let space = " ".repeat(gutter);
    let mut text = String::new();
    let _ =
        writeln!(text, "{space}{} {}{function}{changed}", style.blue(arrow), style.bold(&place));
    if let Some(excerpt) = excerpt {
        let bar = style.blue("|");
        let number = style.blue(&format!("{:>gutter$}", frame.line));
        let room = style.width.saturating_sub(gutter + 3);
        let _ = writeln!(text, "{space} {bar}");
        let _ = writeln!(text, "{number} {bar} {}", style.fit(&excerpt.line, room));
        if let Some(carets) = excerpt.carets {
            let start = carets.len() - carets.trim_start().len();
            let end = carets.len().min(room.max(start + 1));
            let carets = format!("{}{}", &carets[..start], style.red(&carets[start..end]));
            let _ = writeln!(text, "{space} {bar} {carets}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_between_words_and_keeps_its_spaces() {
        let style = Style { width: 24, ..Style::plain() };
        assert_eq!(style.wrapped("a  b c", 0, 2), ["a  b c"]);
        let lines = style.wrapped("one two three four five six", 0, 2);
        assert_eq!(lines, ["one two three four five", "  six"]);
        assert_eq!(style.hanging("one two three four five", 4), "one two three four\n    five");
        let whole = "a word of the text";
        assert_eq!(Style::plain().wrapped(whole, 9, 2), [whole]);
    }

    #[test]
    fn text_that_does_not_fit_is_cut_and_marked() {
        let style = Style::plain();
        let texts = ["Add", "MatMul", "Conv"].map(str::to_owned);
        assert_eq!(style.list(&texts, 17), "Add, MatMul, Conv");
        assert_eq!(style.list(&texts, 15), "Add, MatMul, …");
        assert_eq!(style.list(&texts, 4), "Add…");
        assert_eq!(style.fit_end("a/long/path", 6), "…/path");
        assert_eq!(style.fit_end("path", 6), "path");
        assert_eq!(style.fit("a/long/path", 6), "a/lon…");
    }
}
