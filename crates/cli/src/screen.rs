//! What the output goes to.

use std::io::IsTerminal;

use inspect::Style;

/// No terminal is as wide.
const WIDE: usize = Style::WIDE;

/// Whether there are colours, and how wide it is.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    pub color: bool,
    pub width: usize,
}

impl Screen {
    /// A file or a pipe: no colours, and no end of the line.
    pub fn plain() -> Screen {
        Screen { color: false, width: WIDE }
    }

    /// What standard output is. `NO_COLOR` and a terminal that calls itself dumb are respected.
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
