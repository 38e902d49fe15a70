//! Models as text, for tests and for people. The text is exact and compact, and [`parse_graph`] reads it.
//!
//! ```text
//! graph f(x:f32[3], c:bool[]) -> (y)
//! w = const f32[3]
//! %0 = Div(x, 2.0)
//! y:f32[3] = If(c) {else_branch={
//!   graph no() -> (a)
//!   a = Mul(%0, w)
//! }, then_branch={
//!   graph yes() -> (b)
//!   b = Gather(x, [0, 1]:i64) {axis=0}
//! }}
//! ```
//!
//! A value without a name has a number, in the order of definition. A constant without a name is written where it
//! is used: in full if it has up to eight elements, with its type unless that is `f32`, `bool` or `string`;
//! otherwise only its type. A constant with a name is declared at the top. `_` is an omitted operand or result.
//! Names that are not plain words are in backticks.

mod parse;
mod print;

pub use cursor::ParseError;
pub use parse::parse_graph;
pub use print::Text;

use crate::model::Model;

impl Model {
    /// Returns the model as text, with the types of inputs and outputs.
    pub fn text(&self) -> Text<'_> {
        Text::new(self, false)
    }

    /// Returns the model as text, with every known type.
    #[cfg(test)]
    pub(crate) fn typed_text(&self) -> Text<'_> {
        Text::new(self, true)
    }
}

/// Words that have another meaning than the name of a value.
const RESERVED: &[&str] =
    &["_", "const", "inf", "nan", "true", "false", "graph", "function", "tensor"];

/// True if a character can be in a name without backticks.
fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '/')
}

/// True if a name needs no backticks.
fn is_plain_name(name: &str) -> bool {
    let starts_plain = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts_plain && name.chars().all(is_plain) && !RESERVED.contains(&name)
}

#[cfg(test)]
mod tests;
