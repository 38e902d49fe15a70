//! Draws the memory over time: one bar for each node, in the order in which they run.

use std::fmt::Write;

use onnx::Total;

use super::Peak;
use crate::Document;
use crate::cost::Lines;
use crate::profile::escaped;
use crate::text::bytes;

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 300.0;
const TOP: f64 = 34.0;
/// The maximum number of bars. If there are more nodes, a bar is the largest of several.
const MAX_BARS: usize = 1200;

impl Peak<'_> {
    /// Returns the memory that is allocated while each node runs; `None` if a size is not known.
    pub fn curve(&self) -> Option<Vec<i128>> {
        let steps = &self.memory.steps;
        let mut changes = vec![0_i128; steps.len() + 2];
        for buffer in &self.memory.buffers {
            let size = self.number(&buffer.size)?;
            changes[buffer.first.min(steps.len())] += size;
            changes[(buffer.last + 1).min(steps.len() + 1)] -= size;
        }
        let mut live = 0;
        let mut curve = Vec::with_capacity(steps.len());
        for (step, change) in steps.iter().zip(changes) {
            live += change;
            let number = |total: &Total| self.number(total);
            let extra: Option<Vec<i128>> = step.extra.iter().map(number).collect();
            curve.push(live + extra?.into_iter().max().unwrap_or(0));
        }
        Some(curve)
    }

    /// Draws a self-contained SVG, which shows the line and the size of the bar under the mouse. `None` if a size is not
    /// known.
    pub fn picture(
        &self,
        document: &Document<'_>,
        lines: &Lines<'_>,
        title: &str,
    ) -> Option<String> {
        let curve = self.curve()?;
        let most = self.memory.bytes?.max(1);
        let (all, height) = (bytes(u64::try_from(most).ok()?), TOP + HEIGHT + 8.0);
        let mut svg = String::new();
        let _ = writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"monospace\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"6\" y=\"20\" font-size=\"14\">{}</text>",
            escaped(&format!("{title}: the peak of memory is {all}"))
        );
        let group = curve.len().div_ceil(MAX_BARS).max(1);
        let width = WIDTH / curve.len().div_ceil(group).max(1) as f64;
        for (bar, steps) in curve.chunks(group).enumerate() {
            let Some((place, &size)) = steps.iter().enumerate().max_by_key(|(_, size)| **size)
            else {
                continue;
            };
            let node = self.memory.steps.get(bar * group + place)?.node;
            let line = lines.origin(node).and_then(|origin| origin.callsite);
            let line = line.map_or_else(String::new, |frame| format!(", {frame}"));
            let name = document.node_name(node);
            let shown = bytes(u64::try_from(size).unwrap_or_default());
            let tall = (size as f64 / most as f64 * HEIGHT).max(0.5);
            let color = if size == most { "#d9480f" } else { "#4c78a8" };
            let _ = writeln!(
                svg,
                "<g><title>{}</title><rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{tall:.2}\" \
                 fill=\"{color}\"/></g>",
                escaped(&format!("{name}{line} — {shown}")),
                bar as f64 * width,
                TOP + HEIGHT - tall,
                (width - 0.3).max(0.3),
            );
        }
        svg.push_str("</svg>\n");
        Some(svg)
    }
}
