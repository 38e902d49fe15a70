//! Models as text, for tests and for people: exact, compact, and read back by [`parse_graph`].
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
//! A value without a name is a number, in the order of definition. Constants without a name stand
//! where they are used: up to eight elements as they are, with the type unless it is `f32`, `bool`
//! or `string`; larger ones as their type. Those with a name stand at the top. `_` is left out.
//! Names that are no plain words are in backticks.

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

    /// Returns the model as text, with every type that is known.
    #[cfg(test)]
    pub(crate) fn typed_text(&self) -> Text<'_> {
        Text::new(self, true)
    }
}

/// Words that mean something of their own where a value can stand.
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
