//! Detects the properties of the terminal, file or pipe that receives the output.

use std::io::IsTerminal;

use inspect::Style;

/// A width that no terminal has.
const WIDE: usize = Style::WIDE;

/// The colors and the width of the output.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    pub color: bool,
    pub width: usize,
}

impl Screen {
    /// Returns the properties of a file or a pipe: no color, and lines of any width.
    pub fn plain() -> Screen {
        Screen { color: false, width: WIDE }
    }

    /// Detects what standard output is. Respects `NO_COLOR` and `TERM=dumb`.
    pub fn detect() -> Screen {
        if !std::io::stdout().is_terminal() {
            return Screen::plain();
        }
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let width = terminal_size::terminal_size().map_or(WIDE, |(width, _)| width.0.into());
        Screen { color: !is_set("NO_COLOR") && !is_dumb, width }
    }

    pub(crate) fn style(self) -> Style {
        Style { color: self.color, width: self.width }
    }
}
