//! The parts that all commands share: a command computes an answer, which is printed as text or JSON.

use std::fmt::Display;
use std::io::{self, Write};

use inspect::Style;
use inspect::show::clean;
use provenance::clean::write_json;
use serde::Serialize;

use crate::output::Format;

/// The outputs of a command: the answer goes to `out`, everything else to `err`.
pub(crate) struct Console<'a> {
    pub out: &'a mut dyn Write,
    pub err: &'a mut dyn Write,
    pub style: Style,
}

impl Console<'_> {
    /// Prints a note to the user, on one line if the screen is wide enough.
    pub(crate) fn note(&mut self, text: impl Display) -> io::Result<()> {
        self.labelled("note: ", &text.to_string())
    }

    /// Prints a sentence after its label. Further lines are indented by the width of the label.
    pub(crate) fn labelled(&mut self, label: &str, text: &str) -> io::Result<()> {
        writeln!(self.err, "{label}{}", self.style.hanging(&clean(text), label.len()))
    }
}

/// A command that answers a question. Its fields are its arguments.
pub(crate) trait Command {
    /// Returns the output format that the user chose.
    fn format(&self) -> Format;

    /// Computes the answer.
    fn run<'a>(&'a self, console: &mut Console<'_>) -> anyhow::Result<Box<dyn Answer + 'a>>;
}

/// The answer of a command, which can be printed as text or JSON.
pub(crate) trait Answer {
    /// Returns whether the command found anything, which determines the exit code.
    fn outcome(&self) -> Outcome;

    /// Prints the answer for people.
    fn print(&self, console: &mut Console<'_>) -> io::Result<()>;

    /// Prints the answer for programs.
    fn print_json(&self, out: &mut dyn Write) -> io::Result<()>;
}

/// Prints a value for programs. Unprintable characters are escaped.
pub(crate) fn print_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write_json(&mut *out, value)?;
    writeln!(out)
}

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Found,
    Nothing,
}

impl Outcome {
    pub(crate) fn found(is_found: bool) -> Outcome {
        if is_found { Outcome::Found } else { Outcome::Nothing }
    }
}

/// Runs a command and prints its answer.
pub(crate) fn run(command: &dyn Command, console: &mut Console<'_>) -> anyhow::Result<Outcome> {
    let answer = command.run(console)?;
    match command.format() {
        Format::Text => answer.print(console)?,
        Format::Json => answer.print_json(console.out)?,
    }
    Ok(answer.outcome())
}
