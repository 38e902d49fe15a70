//! Limits the size of a page, so that the page of every model opens quickly.

use std::borrow::Cow;

/// The extent of a model in a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// Everything.
    #[default]
    Whole,
    /// As much as a browser shows without a delay. The view says what it omits.
    Page,
}

/// The number of bytes of JSON that a browser reads in a second on a slow machine.
pub(super) const MAX_JSON: usize = 24 << 20;

/// A limited list: its maximum length, and how many entries were omitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    most: usize,
    used: usize,
    wanted: usize,
}

impl Room {
    fn new(most: usize) -> Room {
        Room { most, used: 0, wanted: 0 }
    }

    /// Returns how many of `count` further entries fit.
    pub(super) fn take(&mut self, count: usize) -> usize {
        let taken = count.min(self.most - self.used);
        self.used += taken;
        self.wanted += count;
        taken
    }

    /// Returns the number of entries.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Returns true if `count` further entries fit.
    pub(super) fn take_all(&mut self, count: usize) -> bool {
        self.wanted += count;
        self.take_part(count)
    }

    /// Returns true if `count` entries fit, which an earlier call already counted as wanted.
    pub(super) fn take_part(&mut self, count: usize) -> bool {
        let fits = count <= self.most - self.used;
        self.used += if fits { count } else { 0 };
        fits
    }
}

/// The remaining room in each list of a view.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) nodes: Room,
    pub(super) graphs: Room,
    /// The inputs and outputs of nodes.
    pub(super) links: Room,
    /// The inputs and outputs of graphs.
    pub(super) ends: Room,
    pub(super) weights: Room,
    pub(super) attributes: Room,
    pub(super) frames: Room,
    pub(super) sites: Room,
    /// Source text in bytes.
    pub(super) source: Room,
    /// Lines and nodes of a profile, a report or another model.
    pub(super) rows: Room,
    /// The contents of weights that are read for statistics, in bytes.
    pub(super) contents: Room,
    /// The weights without statistics, because there is no room for more contents.
    pub(super) statistics: Room,
    text: usize,
    max_text: usize,
    cut: usize,
}

/// Shorter texts are never cut.
const MIN_TEXT: usize = 60;

impl Limits {
    /// Returns the limits of a view. Each attempt has a quarter of the room of the previous one.
    pub(super) fn new(extent: Extent, attempt: u32) -> Limits {
        let most = |count: usize| match extent {
            Extent::Whole => usize::MAX,
            Extent::Page => count >> (2 * attempt),
        };
        let room = |count: usize| Room::new(most(count));
        Limits {
            nodes: room(100_000),
            graphs: room(20_000),
            links: room(400_000),
            ends: room(60_000),
            weights: room(60_000),
            attributes: room(200_000),
            frames: room(200_000),
            sites: room(200_000),
            source: room(8 << 20),
            rows: room(40_000),
            contents: Room::new((512 << 20) >> (2 * attempt)),
            statistics: Room::new(0),
            text: most(12 << 20),
            max_text: if extent == Extent::Whole { usize::MAX } else { 1000 },
            cut: 0,
        }
    }

    /// Cuts a text that is too long. If there is no room left, only short texts stay whole.
    pub(super) fn cut<'t>(&mut self, text: impl Into<Cow<'t, str>>) -> Cow<'t, str> {
        let text = text.into();
        let most =
            if self.text >= text.len().min(self.max_text) { self.max_text } else { MIN_TEXT };
        if text.len() <= most {
            self.text = self.text.saturating_sub(text.len());
            return text;
        }
        let end = (0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        self.text = self.text.saturating_sub(end);
        self.cut += 1;
        Cow::Owned(format!("{}…", &text[..end]))
    }

    /// Takes the text of a source file. Returns false if it is too long, or if there is no room.
    pub(super) fn take_file(&mut self, text: &str) -> bool {
        if text.len() <= self.max_file() {
            return self.source.take_all(text.len());
        }
        self.source.wanted += text.len();
        false
    }

    /// Returns the maximum size of a source file that a view contains completely, in bytes.
    fn max_file(&self) -> usize {
        if self.max_text == usize::MAX { usize::MAX } else { 1 << 20 }
    }

    /// Returns the maximum size of a source line, in bytes.
    pub(super) fn max_line(&self) -> usize {
        self.max_text
    }

    /// Returns sentences that say what the view omits.
    pub(super) fn left_out(&self) -> Vec<String> {
        let lists = [
            (&self.nodes, "nodes"),
            (&self.graphs, "graphs"),
            (&self.links, "inputs and outputs of nodes"),
            (&self.ends, "inputs and outputs of graphs"),
            (&self.weights, "weights"),
            (&self.attributes, "attributes"),
            (&self.frames, "frames and scopes"),
            (&self.sites, "origins of nodes"),
            (&self.source, "bytes of source text"),
            (&self.rows, "rows of other files"),
        ];
        let missing = lists.iter().filter(|(room, _)| room.used < room.wanted);
        let mut sentences: Vec<String> = missing
            .map(|(room, noun)| {
                let (used, wanted) = (thousands(room.used as u64), thousands(room.wanted as u64));
                format!("The page contains {used} of {wanted} {noun}.")
            })
            .collect();
        match self.cut {
            0 => {}
            1 => sentences.push("One long text is cut.".to_owned()),
            cut => sentences.push(format!("{} long texts are cut.", thousands(cut as u64))),
        }
        if !sentences.is_empty() {
            sentences.push("`jax2onnx view --format json` prints everything.".to_owned());
        }
        match self.statistics.wanted {
            0 => {}
            1 => sentences.push("One weight has no statistics.".to_owned()),
            count => {
                sentences.push(format!("{} weights have no statistics.", thousands(count as u64)));
            }
        }
        sentences
    }
}

/// Returns a number with commas: `1,234,567`.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_view_leaves_nothing_out() {
        let mut limits = Limits::new(Extent::Whole, 0);
        assert_eq!(limits.nodes.take(10_000_000), 10_000_000);
        assert_eq!(limits.cut("x".repeat(100_000)).len(), 100_000);
        assert!(limits.left_out().is_empty());
    }

    #[test]
    fn a_page_says_what_it_leaves_out() {
        let mut limits = Limits::new(Extent::Page, 0);
        assert_eq!(limits.nodes.take(1_234_567), 100_000);
        assert_eq!(limits.cut("é".repeat(600)), format!("{}…", "é".repeat(500)));
        assert_eq!(
            limits.left_out(),
            [
                "The page contains 100,000 of 1,234,567 nodes.",
                "One long text is cut.",
                "`jax2onnx view --format json` prints everything.",
            ]
        );
    }

    #[test]
    fn many_long_texts_are_cut_more() {
        let mut limits = Limits::new(Extent::Page, 0);
        let long = "x".repeat(2000);
        let total: usize = (0..100_000).map(|_| limits.cut(&*long).len()).sum();
        assert!(total < 20 << 20, "{total}");
        assert_eq!(limits.cut("short"), "short");
    }
}
