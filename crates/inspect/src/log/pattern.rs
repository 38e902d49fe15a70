//! Matches sentences with holes, ignoring white space.

use super::clean::Squeezed;

/// The maximum lengths of a name and of an operator.
const MAX_NAME: usize = 1024;
const MAX_WORD: usize = 128;
/// The maximum number of positions in one message at which a sentence is tried.
const MAX_TRIES: usize = 4096;

/// The texts in the holes of a sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Holes {
    pub(super) name: Option<String>,
    pub(super) op: Option<String>,
    pub(super) domain: Option<String>,
    pub(super) value: Option<String>,
    pub(super) number: Option<String>,
    pub(super) number2: Option<String>,
}

/// The position of a sentence, and the texts in its holes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SentenceMatch {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) holes: Holes,
}

/// A parsed sentence.
pub(super) struct Sentence(Vec<Piece>);

impl Sentence {
    /// Parses a sentence. Its holes are `{name}`, `{value}`, `{op}`, `{domain}`, `{number}`, `{number2}`, `{line}` for a name
    /// that extends to the end of the line, and `{_}` for any text.
    pub(super) fn new(sentence: &str) -> Sentence {
        Sentence(pieces(sentence))
    }
}

/// Returns every occurrence of a sentence in `text`, in order.
pub(super) fn find(sentence: &Sentence, text: &Squeezed<'_>) -> Vec<SentenceMatch> {
    let Some((Piece::Literal(first), rest)) = sentence.0.split_first() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut from = 0;
    for _ in 0..MAX_TRIES {
        let Some(at) = text.text.get(from..).and_then(|text| text.find(first.as_str())) else {
            break;
        };
        let start = from + at;
        let after = start + first.len();
        match holes(rest, text, after) {
            Some((end, holes)) => {
                found.push(SentenceMatch { start, end, holes });
                from = end.max(after);
            }
            None => from = after,
        }
    }
    found
}

enum Piece {
    Literal(String),
    Hole(String),
}

/// Returns the sentence as alternating literals without white space and holes.
fn pieces(sentence: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (number, part) in sentence.split(['{', '}']).enumerate() {
        if number % 2 == 1 {
            pieces.push(Piece::Hole(part.to_owned()));
            continue;
        }
        let literal: String = part.chars().filter(|c| !c.is_whitespace()).collect();
        if number == 0 || !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
    }
    pieces
}

/// Fills the holes from `at` on. Returns the end of the sentence and the texts in the holes.
fn holes(pieces: &[Piece], text: &Squeezed<'_>, mut at: usize) -> Option<(usize, Holes)> {
    let mut holes = Holes::default();
    let mut pieces = pieces.iter().peekable();
    while let Some(piece) = pieces.next() {
        let hole = match piece {
            Piece::Hole(hole) => hole.as_str(),
            Piece::Literal(literal) => {
                if !text.text.get(at..)?.starts_with(literal.as_str()) {
                    return None;
                }
                at += literal.len();
                continue;
            }
        };
        let is_word = matches!(hole, "op" | "domain");
        let is_number = hole.starts_with("number");
        let rest = window(text.text.get(at..)?, if is_word { MAX_WORD } else { MAX_NAME });
        let end = match pieces.peek() {
            Some(Piece::Literal(next)) => rest.find(next.as_str())?,
            _ if hole == "line" => line_end(text, at, rest),
            _ if is_number => rest.bytes().take_while(u8::is_ascii_digit).count(),
            // At the end of a sentence, a hole extends to the end of the word.
            _ => word_end(text, at, rest),
        };
        let is_identifier = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
        // A line break within a word is a wrap; a space belongs to the text.
        let written = text.slice(at, at + end).replace('\n', "");
        let is_bad =
            |word: &str| !word.chars().all(is_identifier) || (hole == "op" && word.is_empty());
        if is_word && is_bad(&written) {
            return None;
        }
        if is_number && (written.is_empty() || !written.bytes().all(|c| c.is_ascii_digit())) {
            return None;
        }
        let slot = match hole {
            "name" | "line" => Some(&mut holes.name),
            "op" => Some(&mut holes.op),
            "domain" => Some(&mut holes.domain),
            "value" => Some(&mut holes.value),
            "number" => Some(&mut holes.number),
            "number2" => Some(&mut holes.number2),
            _ => None,
        };
        if let Some(slot) = slot {
            *slot = Some(written);
        }
        at += end;
    }
    Some((at, holes))
}

/// Returns the start of a text, at most `most` bytes.
fn window(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns the end of the word that starts at `at`, without the period after it.
fn word_end(text: &Squeezed<'_>, at: usize, rest: &str) -> usize {
    let whole = text.slice(at, at + rest.len());
    let word = whole.split(char::is_whitespace).next().unwrap_or_default();
    word.trim_end_matches(['.', ',', ';', ':', ')', '\'', '"', ']']).len()
}

/// Returns the end of the line that contains `at`, without the punctuation at its end.
fn line_end(text: &Squeezed<'_>, at: usize, rest: &str) -> usize {
    let whole = text.slice(at, at + rest.len());
    let line = whole.lines().next().unwrap_or_default();
    let line: String = line.chars().filter(|c| !c.is_whitespace()).collect();
    line.trim_end_matches(['.', ',', ';', ')']).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sentence: &str, text: &str, expected: &[(Option<&str>, Option<&str>)]) {
        let text = Squeezed::new(text);
        let found = find(&Sentence::new(sentence), &text);
        let names: Vec<_> =
            found.iter().map(|it| (it.holes.op.as_deref(), it.holes.name.as_deref())).collect();
        assert_eq!(names, expected);
    }

    const RUNNING: &str = "running {op} node. Name:'{name}'";

    #[test]
    fn a_sentence_is_found_however_it_is_wrapped() {
        let expected = [(Some("Add"), Some("a/add"))];
        check(RUNNING, "while running Add node. Name:'a/add' Status", &expected);
        check(RUNNING, "while run\nning Add\nnode. Na\nme:'a/a\ndd' Status", &expected);
        check(RUNNING, "running Gemm node. Name:'fused add'", &[(Some("Gemm"), Some("fused add"))]);
    }

    #[test]
    fn every_place_of_a_sentence_is_found() {
        let text = "running A node. Name:'a' running B node. Name:'' running C D node. Name:'c'";
        check(RUNNING, text, &[(Some("A"), Some("a")), (Some("B"), Some(""))]);
    }

    #[test]
    fn a_hole_at_the_end_is_a_word() {
        check("Invalid Node - {name}", "[6] Invalid Node - a/b.\nnext", &[(None, Some("a/b"))]);
    }

    #[test]
    fn a_hole_for_a_line_keeps_spaces_and_dots() {
        let sentence = "implementation for node {line}";
        let text = "(no implementation for node {A[a.0 + b...c]}.)\nnext";
        check(sentence, text, &[(None, Some("{A[a.0 + b...c]}"))]);
    }
}
