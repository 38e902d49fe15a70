//! Prints and parses the words and names in the text of a jaxpr.

/// True if a word can start with `c`.
pub(crate) fn starts_word(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

/// True if a word can contain `c` after its start.
pub(crate) fn continues_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// True if a name is read back without quotes.
pub(crate) fn is_word(name: &str) -> bool {
    name.starts_with(starts_word) && name.chars().all(continues_word)
}

/// Returns a name, in quotes unless it consists of words that are joined by dots.
pub(crate) fn name(text: &str) -> String {
    if text.split('.').all(is_word) { text.to_owned() } else { quoted(text) }
}

/// Returns a text between quotes, on one line.
pub(crate) fn quoted(text: &str) -> String {
    cursor::quoted(text, '"')
}
