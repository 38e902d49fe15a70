//! Formats a profile for people and for programs.

use std::fmt::Write;

use provenance::report::excerpt::width;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, json};

use super::{By, Run, Spread, Summary};
use crate::json::frame_with_source;
use crate::placement::{self, Placement};
use crate::show::clean;
use crate::{Sources, Style};

/// The minimum and maximum width of the operators in a row, in columns.
const MIN_OPS: usize = 8;
const MAX_OPS: usize = 100;

/// Formats a table of at most `top` rows, the longest time first, and the sum of the rest. If several providers ran
/// the nodes, a second table contains the placement.
pub fn text(
    summary: &Summary<'_>,
    placement: &Placement<'_>,
    top: usize,
    sources: &Sources<'_, '_>,
    style: Style,
) -> String {
    let mut text = heading(summary);
    if !placement.is_whole() {
        let sentence = style.wrapped(&clean(&placement::sentence(placement)), 0, 0);
        let _ = writeln!(text, "{}", sentence.join("\n"));
    }
    let _ = writeln!(
        text,
        "\n{}",
        style.bold(&format!(
            "{:>8} {:>8}  {:>6} {:>6}  {}",
            if summary.runs.len() > 1 { "median" } else { "time" },
            "±",
            "share",
            "calls",
            summary.by.word()
        ))
    );
    let counted = summary.runs.len().max(1) as f64;
    for row in summary.rows.iter().take(top) {
        let key = match &row.key {
            Some(key) if key.is_empty() => "(no scope)".to_owned(),
            Some(key) => clean(key),
            None => "(not known)".to_owned(),
        };
        let calls = format!("{:.0}", row.calls as f64 / counted);
        let numbers = line(&row.spread, row.share, &calls);
        let room = style.width.saturating_sub(NUMBERS);
        // The end of a path is more informative than its start.
        let key = match summary.by {
            By::Scope | By::Node => style.fit_end(&key, room),
            _ => style.fit(&key, room),
        };
        let room = room.saturating_sub(width(&key) + "  []".len()).min(MAX_OPS);
        let ops: Vec<String> = row.ops.iter().map(|op| clean(op)).collect();
        let ops = match summary.by {
            By::Op => String::new(),
            _ if room < MIN_OPS => String::new(),
            _ => format!("  {}", style.dim(&format!("[{}]", style.list(&ops, room)))),
        };
        let _ = writeln!(text, "{numbers}  {key}{ops}");
        if let (By::Line, Some(frame)) = (summary.by, &row.frame)
            && let (_, Some(source)) = sources.line(frame)
        {
            let start = NUMBERS + 2;
            let source = style.fit(&clean(source.trim()), style.width.saturating_sub(start));
            let _ = writeln!(text, "{:start$}{}", "", style.dim(&source));
        }
    }
    if summary.rows.len() > top {
        let rest = &summary.rows[top..];
        let times = (0..summary.runs.len())
            .map(|run| rest.iter().filter_map(|row| row.times.get(run)).sum())
            .collect::<Vec<u64>>();
        let share = rest.iter().map(|row| row.share).sum();
        let median = rest.iter().map(|row| row.spread.median).sum();
        let numbers = line(&Spread { median, ..Spread::of(&times) }, share, "");
        let _ = writeln!(text, "{numbers}  … {} more", rest.len());
    }
    let placed = placement::text(placement, top, sources, style);
    if !placed.is_empty() {
        text.push('\n');
        text.push_str(&placed);
    }
    if let Some(missing) = summary.missing {
        let _ = writeln!(text, "\nhint: {}", style.hanging(missing, "hint: ".len()));
    }
    text
}

/// The width of the numbers in a row, with the space after them.
const NUMBERS: usize = 34;

fn line(spread: &Spread, share: f64, calls: &str) -> String {
    let share = format!("{:.1} %", share * 100.0);
    let (median, deviation) = (time(spread.median), time(spread.median_deviation));
    format!("{median:>8} {deviation:>8}  {share:>6} {calls:>6}")
}

/// Describes the measurement.
fn heading(summary: &Summary<'_>) -> String {
    let runs = match summary.runs.len() {
        1 => "1 run".to_owned(),
        count => format!("{count} runs"),
    };
    let mut text = format!("{runs}: {} in kernels per run", time(summary.sum));
    if summary.runs.len() > 1 {
        let _ = write!(text, ", ± {}", time(summary.kernels.median_deviation));
    }
    let walls: Vec<u64> = summary.runs.iter().filter_map(|run| run.wall).collect();
    if !walls.is_empty() {
        let _ = write!(text, ", {} from start to end", time(Spread::of(&walls).median));
    }
    if !summary.warmup.is_empty() {
        let first: u64 = summary.warmup.iter().map(|run| run.kernels).sum();
        let count = summary.warmup.len();
        let plural = if count == 1 { "" } else { "s" };
        let _ = write!(text, "\nExcluded {count} warm-up run{plural} ({})", time(first as f64));
    }
    if summary.is_noisy {
        let _ = write!(
            text,
            "\nThe machine was busy: the kernels of a run took {} ± {},\n\
             and the medians of the rows add up to {}.\n\
             Profile again on a quiet machine, or with more runs.",
            time(summary.kernels.median),
            time(summary.kernels.median_deviation),
            time(summary.sum)
        );
    }
    let _ = writeln!(
        text,
        "\n{:.1} % of the time is in your lines, {:.1} % in lines of libraries",
        summary.users * 100.0,
        (summary.known - summary.users).max(0.0) * 100.0
    );
    text
}

/// Formats microseconds with three digits and a unit.
pub(crate) fn time(micros: f64) -> String {
    let (number, unit) = match micros {
        m if m >= 999_500.0 => (m / 1e6, "s"),
        m if m >= 999.5 => (m / 1e3, "ms"),
        m => (m, "µs"),
    };
    let digits = match number {
        n if n >= 99.95 => 0,
        n if n >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.digits$} {unit}")
}

/// The summary as JSON, which `docs/profile.md` describes. Rows are serialized one at a time.
pub struct Json<'s, 'd, 'a> {
    pub summary: &'s Summary<'d>,
    pub placement: &'s Placement<'d>,
    /// The name of the model.
    pub name: &'s str,
    pub sources: &'s Sources<'d, 'a>,
}

impl Serialize for Json<'_, '_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Json { summary, name, .. } = self;
        let run = |run: &Run, is_warmup: bool| json!({"warmup": is_warmup, "wall_us": run.wall, "kernels_us": run.kernels});
        let warmup = summary.warmup.iter().map(|it| run(it, true));
        let runs: Vec<Value> = warmup.chain(summary.runs.iter().map(|it| run(it, false))).collect();
        let kernels = &summary.kernels;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", &1)?;
        map.serialize_entry("model", name)?;
        map.serialize_entry("by", summary.by.word())?;
        map.serialize_entry("runs", &runs)?;
        map.serialize_entry("total_us", &summary.total)?;
        let spread = json!({
            "median": kernels.median,
            "median_deviation": kernels.median_deviation,
            "mean": kernels.mean,
            "deviation": kernels.deviation,
        });
        map.serialize_entry("kernels_us", &spread)?;
        map.serialize_entry("sum_us", &summary.sum)?;
        map.serialize_entry("noisy", &summary.is_noisy)?;
        map.serialize_entry("share_of_user_lines", &summary.users)?;
        map.serialize_entry("share_of_lines", &summary.known)?;
        map.serialize_entry("rows", &Rows(self))?;
        map.serialize_entry("placement", &placement::json(self.placement, self.sources))?;
        map.end()
    }
}

struct Rows<'j, 's, 'd, 'a>(&'j Json<'s, 'd, 'a>);

impl Serialize for Rows<'_, '_, '_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Json { summary, sources, .. } = self.0;
        serializer.collect_seq(summary.rows.iter().map(|row| {
            json!({
                "key": row.key,
                "line": row.frame.as_ref().map(|frame| frame_with_source(frame, sources)),
                "median_us": row.spread.median,
                "median_deviation_us": row.spread.median_deviation,
                "mean_us": row.spread.mean,
                "deviation_us": row.spread.deviation,
                "times_us": row.times,
                "share": row.share,
                "calls": row.calls,
                "ops": row.ops,
            })
        }))
    }
}
