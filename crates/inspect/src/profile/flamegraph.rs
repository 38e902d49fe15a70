//! Draws call paths as boxes: the wider a box, the longer it took.

use std::fmt::Write;

use provenance::clean::clean;
use rustc_hash::FxHashMap;

use super::stacks::Level;

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 18.0;
const TOP: f64 = 34.0;
/// The minimum width of a box. Narrower boxes are not drawn.
const NARROWEST: f64 = 0.3;
/// The maximum depth of a path. Deeper levels are omitted.
const MAX_DEPTH: usize = 128;
/// The width of a letter in the font.
const LETTER: f64 = 6.6;

/// A box of the picture.
#[derive(Default)]
struct Branch<'s> {
    level: Option<&'s Level>,
    time: u64,
    branches: Vec<Branch<'s>>,
    numbers: FxHashMap<&'s Level, usize>,
}

/// The whole picture.
#[derive(Clone, Copy)]
struct Whole<'u> {
    scale: f64,
    time: u64,
    unit: &'u str,
}

/// Draws a self-contained SVG, which shows the name, the location and the number of the box under the mouse.
pub fn flamegraph(stacks: &[(Vec<Level>, u64)], title: &str, unit: &str) -> String {
    let mut root = Branch::default();
    for (path, time) in stacks.iter().filter(|(_, time)| *time > 0) {
        add(&mut root, &path[..path.len().min(MAX_DEPTH)], *time);
    }
    let depth = depth(&root);
    let height = TOP + depth as f64 * HEIGHT + 8.0;
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"6\" y=\"20\" font-size=\"14\">{}</text>",
        escaped(title)
    );
    let scale = if root.time == 0 { 0.0 } else { WIDTH / root.time as f64 };
    let whole = Whole { scale, time: root.time, unit };
    draw(&mut svg, &root, 0.0, 0, whole);
    svg.push_str("</svg>\n");
    svg
}

fn add<'s>(branch: &mut Branch<'s>, path: &'s [Level], time: u64) {
    branch.time += time;
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    let next = branch.branches.len();
    let number = *branch.numbers.entry(first).or_insert(next);
    if number == next {
        branch.branches.push(Branch { level: Some(first), ..Branch::default() });
    }
    add(&mut branch.branches[number], rest, time);
}

fn depth(branch: &Branch<'_>) -> usize {
    branch.branches.iter().map(|branch| 1 + depth(branch)).max().unwrap_or(0)
}

fn draw(svg: &mut String, branch: &Branch<'_>, mut x: f64, row: usize, whole: Whole<'_>) {
    for inner in &branch.branches {
        let width = inner.time as f64 * whole.scale;
        if let Some(level) = inner.level.filter(|_| width >= NARROWEST) {
            let y = TOP + row as f64 * HEIGHT;
            let place = match &level.file {
                Some(file) => format!(" {file}:{}", level.line),
                None => String::new(),
            };
            let share = inner.time as f64 * 100.0 / whole.time.max(1) as f64;
            let said =
                format!("{}{place} — {} {}, {share:.1} %", level.name, inner.time, whole.unit);
            let _ = writeln!(
                svg,
                "<g><title>{}</title><rect x=\"{x:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{}\" rx=\"2\" \
                 fill=\"{}\"/>{}</g>",
                escaped(&said),
                (width - 0.5).max(0.2),
                HEIGHT - 1.0,
                color(level),
                label(level, x, y, width)
            );
            draw(svg, inner, x, row + 1, whole);
        }
        x += width;
    }
}

/// Returns the part of the name that fits into the box.
fn label(level: &Level, x: f64, y: f64, width: f64) -> String {
    let room = ((width - 6.0) / LETTER).max(0.0) as usize;
    if room < 3 {
        return String::new();
    }
    let name = match &level.file {
        Some(_) => format!("{}:{}", level.name, level.line),
        None => level.name.clone(),
    };
    let name = match name.char_indices().nth(room) {
        Some(_) => name.chars().take(room - 1).collect::<String>() + "…",
        None => name,
    };
    format!("<text x=\"{:.2}\" y=\"{}\">{}</text>", x + 3.0, y + 12.5, escaped(&name))
}

/// Returns the color of a box: lines are warm, operators are cool, unknown parts are gray. The same name has the
/// same shade.
fn color(level: &Level) -> String {
    let shade =
        level.name.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte)) % 40;
    let (hue, saturation, lightness) = match (&level.file, level.name.as_str()) {
        (Some(_), _) => (10 + shade, 0.85, 0.68),
        (None, "(not known)") => (0, 0.0, 0.8),
        (None, _) => (190 + shade, 0.55, 0.72),
    };
    hex(f64::from(hue), saturation, lightness)
}

/// Returns a color as `#rrggbb`, because some renderers do not know `hsl()`.
fn hex(hue: f64, saturation: f64, lightness: f64) -> String {
    let chroma = saturation * lightness.min(1.0 - lightness);
    let part = |offset: f64| {
        let at = (offset + hue / 30.0) % 12.0;
        let level = lightness - chroma * (at - 3.0).min(9.0 - at).clamp(-1.0, 1.0);
        (level * 255.0).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", part(0.0), part(8.0), part(4.0))
}

/// Escapes a text for XML.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_color_is_written_as_every_renderer_reads_it() {
        let colors = [(0.0, 1.0, 0.5), (120.0, 1.0, 0.25), (240.0, 0.5, 0.5), (0.0, 0.0, 0.8)];
        let found = colors.map(|(hue, saturation, lightness)| hex(hue, saturation, lightness));
        assert_eq!(found, ["#ff0000", "#008000", "#4040bf", "#cccccc"]);
        let level = |name: &str, file: Option<&str>| Level {
            name: name.to_owned(),
            file: file.map(str::to_owned),
            line: 1,
        };
        let path = vec![level("f", Some("a.py")), level("Add", None)];
        let svg = flamegraph(&[(path, 5), (vec![level("(not known)", None)], 1)], "title", "µs");
        assert!(!svg.contains("hsl"), "{svg}");
        assert_eq!(svg.matches("fill=\"#").count(), 4, "{svg}");
    }
}
