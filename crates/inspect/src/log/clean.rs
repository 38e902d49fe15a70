//! Removes colors and other control codes from a log.

/// Returns a text without color codes, cursor movements and other control codes.
pub(super) fn without_escapes(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => match rest.peek() {
                // Skips to the letter that ends the sequence.
                Some('[') => {
                    rest.next();
                    while rest.next_if(|&c| !is_final(c) && !c.is_control()).is_some() {}
                    rest.next_if(|&c| is_final(c));
                }
                Some(_) => {
                    rest.next_if(|c| !c.is_control());
                }
                None => {}
            },
            '\n' | '\t' => clean.push(c),
            '\r' => {}
            c if c.is_control() => clean.push(' '),
            c => clean.push(c),
        }
    }
    clean
}

fn is_final(c: char) -> bool {
    matches!(c, '@'..='~')
}

/// Splits the log at the start of each message.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut starts: Vec<usize> = vec![0];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if at > 0 && starts_message(line) {
            starts.push(at);
        }
        at += line.len();
    }
    starts.push(text.len());
    let mut ends = starts.clone().into_iter().skip(1);
    starts.into_iter().filter_map(move |start| text.get(start..ends.next()?))
}

/// True if a line starts a message.
fn starts_message(line: &str) -> bool {
    let line = line.trim_start();
    // OpenVINO continues a message about a node with the part of the node, perhaps behind a stamp of its own.
    if line.contains("While validating node '") {
        return false;
    }
    is_logged(line) || is_exception(line) || is_of_report(line) || is_diagnostic(line)
}

/// An operator in a report of OpenVINO: `-- Scan-23 with a message:` and `-- Conversion is failed for: Scan-23`
fn is_of_report(line: &str) -> bool {
    line.strip_prefix("-- ").is_some_and(|rest| rest.contains(':'))
}

/// An error of IREE's compiler: `model.mlir:49:11: error: failed to legalize operation`
fn is_diagnostic(line: &str) -> bool {
    let Some((place, _)) = line.split_once(": error: ") else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let mut parts = place.rsplit(':');
    parts.next().is_some_and(is_number) && parts.next().is_some_and(is_number)
}

/// `2026-01-01 00:00:00.000 [E:onnxruntime:, …` and `[01/01/2026-00:00:00] [E] …`
fn is_logged(line: &str) -> bool {
    let line = line.strip_prefix('[').unwrap_or(line);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let year = |text: &str| digits(text) == 4;
    let stamp = |text: &str| {
        text.get(5..).is_some_and(|text| digits(text) == 2)
            && matches!(text.as_bytes().get(4), Some(b'-' | b'/'))
    };
    let reversed = |text: &str| {
        digits(text) == 2
            && text.as_bytes().get(2) == Some(&b'/')
            && text.get(6..).is_some_and(year)
    };
    (year(line) && stamp(line)) || reversed(line) || line.starts_with("TRT]")
}

/// Returns a message without its time stamp.
pub(super) fn without_stamp(part: &str) -> &str {
    let part = part.trim();
    let is_of_stamp =
        |c: char| c.is_ascii_digit() || matches!(c, '-' | '/' | ':' | '.' | '[' | ' ');
    if is_logged(part) { part.trim_start_matches(is_of_stamp) } else { part }
}

/// `ValueError: …`, `onnxruntime.capi.onnxruntime_pybind11_state.Fail: …`, `Traceback (most …`
fn is_exception(line: &str) -> bool {
    if line.starts_with("Traceback (most recent call last)") {
        return true;
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let name = line.split(|c| !is_part(c)).next().unwrap_or_default();
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_class = last.starts_with(|c: char| c.is_ascii_uppercase());
    let is_error = name.contains("onnxruntime_pybind11_state.")
        || ["Error", "Exception", "Failure"].iter().any(|end| last.ends_with(end));
    is_class && is_error && line[name.len()..].starts_with(':')
}

/// A text without white space, with the original position of each byte.
pub(super) struct Squeezed<'t> {
    pub(super) original: &'t str,
    pub(super) text: String,
    offsets: Vec<u32>,
}

impl<'t> Squeezed<'t> {
    pub(super) fn new(original: &'t str) -> Squeezed<'t> {
        let mut text = String::with_capacity(original.len());
        let mut offsets = Vec::with_capacity(original.len());
        for (offset, c) in original.char_indices().filter(|(_, c)| !c.is_whitespace()) {
            text.push(c);
            offsets.extend((0..c.len_utf8()).map(|byte| (offset + byte) as u32));
        }
        Squeezed { original, text, offsets }
    }

    /// Returns the original text between two positions of the squeezed text.
    pub(super) fn slice(&self, start: usize, end: usize) -> &'t str {
        let Some((&first, &last)) =
            self.offsets.get(start).zip(self.offsets.get(end.wrapping_sub(1)))
        else {
            return "";
        };
        self.original.get(first as usize..=last as usize).unwrap_or_default()
    }
}
