//! Finds the nodes, operators and values that the messages of a runtime name.
//!
//! A log is text from anywhere: an exception, lines of a C++ logger, or several messages at once, perhaps with
//! colors and wrapped by a terminal. Messages are matched without their white space, so that a line break in the
//! middle of a word does no harm. Time and memory are bounded: long texts are cut, and the result says so.

mod clean;
mod lists;
mod message;
mod operands;
mod pattern;
mod patterns;

pub use message::{Class, Message};
pub use operands::{Operand, Operands};
pub use patterns::{Clue, Role};

use rustc_hash::FxHashSet;

use clean::Squeezed;

/// The maximum number of bytes to read from a log.
pub const MAX_BYTES: usize = 8 << 20;
/// The maximum number of messages to distinguish.
const MAX_MESSAGES: usize = 256;

/// The messages of a log that contain a name or have a known class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    pub messages: Vec<Message>,
    /// True if a part of the text was not read.
    pub is_cut: bool,
}

/// Reads a log.
pub fn parse(text: &[u8]) -> Log {
    parse_end(text, MAX_BYTES)
}

/// Parses at most the last `length` bytes: the error is at the end of a log.
fn parse_end(text: &[u8], length: usize) -> Log {
    let mut is_cut = text.len() > length;
    let text = &text[text.len().saturating_sub(length)..];
    let text = clean::without_escapes(&String::from_utf8_lossy(text));
    // A report of OpenVINO ends with a summary, which is of use only without the report.
    let is_detailed = text.contains(" with a message:");
    let is_of_use = |part: &&str| !(is_detailed && part.contains("Conversion is failed for:"));
    let mut messages: Vec<Message> = Vec::new();
    let mut seen = FxHashSet::default();
    // A server may repeat a message a thousand times.
    let parts = clean::parts(&text).filter(is_of_use);
    let parts = parts.filter(|&part| seen.insert(clean::without_stamp(part)));
    for message in parts.flat_map(|part| message::read(&Squeezed::new(part))) {
        if messages.iter().any(|known| known.says_as_much_as(&message)) {
            continue;
        }
        messages.retain(|known| !message.says_as_much_as(known));
        if messages.len() == MAX_MESSAGES {
            is_cut = true;
            break;
        }
        messages.push(message);
    }
    Log { messages, is_cut }
}

#[cfg(test)]
mod tests;
