//! Frames as text: the line, and the expression on it underlined.

use std::fmt::Write;

use onnx::scan::{Attribute, AttributeValue};
pub use provenance::clean::clean;
use provenance::report::excerpt;

use crate::{Frame, Provenance, Source, Sources};

/// The color and the width of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    pub color: bool,
    /// The number of columns.
    pub width: usize,
}

impl Style {
    /// No line is cut off.
    pub const WIDE: usize = 1 << 20;

    /// Returns a style without color and with the largest width.
    pub fn plain() -> Style {
        Style { color: false, width: Style::WIDE }
    }

    /// The codes of the escape sequences that a style makes.
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

    /// Cuts a text to at most so many columns; `…` marks the cut.
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

/// Returns the value of an attribute, cut to at most so many columns.
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
        AttributeValue::Tensor(tensor) => tensor.type_text(),
        AttributeValue::Reference(name) => format!("@{name}"),
        _ => "…".to_owned(),
    };
    Style::plain().fit(&text, max)
}

/// Formats a frame, with its line if it can be shown.
///
/// ```text
///   --> train/whiten.py:42:12, in whiten
///    |
/// 42 |     w, v = jnp.linalg.eigh(cov)
///    |            ^^^^^^^^^^^^^^^^^^^^
/// ```
pub fn excerpt(frame: &Frame<'_>, sources: &Sources<'_, '_>, style: Style) -> String {
    lines("-->", frame, sources, style, gutter(frame.line))
}

/// Formats the call path of a node: the line of the user first, then its callers.
pub fn traceback(
    provenance: &Provenance<'_>,
    all: bool,
    sources: &Sources<'_, '_>,
    style: Style,
) -> String {
    let frames = provenance.shown_frames(all);
    let gutter = frames.iter().map(|frame| gutter(frame.line)).max().unwrap_or_default();
    let mut text = String::new();
    for (depth, frame) in frames.iter().enumerate() {
        let arrow = if depth == 0 { "-->" } else { "called from" };
        text += &lines(arrow, frame, sources, style, gutter);
    }
    text
}

/// Returns the columns that a number takes before the bar.
fn gutter(line: u32) -> usize {
    line.to_string().len().max(2)
}

fn lines(
    arrow: &str,
    frame: &Frame<'_>,
    sources: &Sources<'_, '_>,
    style: Style,
    gutter: usize,
) -> String {
    let (source, line) = sources.line(frame);
    // Where the text is only what the model has of it, the columns are those of another line.
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
        Source::Unchecked { is_newer: true, .. } => " (written after the model, may have changed)",
        _ => "",
    };
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
            let carets = format!("{}{}", &carets[..start], style.red(&carets[start..]));
            let _ = writeln!(text, "{space} {bar} {carets}");
        }
    }
    text
}
