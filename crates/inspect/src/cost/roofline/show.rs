//! Formats rates for people and for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Limit, Machine, Rate, RoofRow, Roofline};
use crate::cost::{By, show::number};
use crate::json::frame_with_source;
use crate::profile::time;
use crate::show::clean;
use crate::{Sources, Style};

/// The width of the numbers in a row, with the space after them.
const NUMBERS: usize = 56;

impl Roofline<'_> {
    /// Formats a table of at most `top` rows, the longest time first.
    pub fn text(&self, top: usize, sources: &Sources<'_, '_>, style: Style) -> String {
        let mut text = String::new();
        let runs = crate::text::count(self.runs, "run");
        let all = time(self.total.time);
        let _ = write!(text, "{}: {runs}, {all} in kernels per run", style.bold("rates"));
        if let (Some(flops), Some(bytes)) =
            (self.total.flops_per_second(), self.total.bytes_per_second())
        {
            let _ = write!(text, ", {}flop/s, {}B/s", rate(flops), rate(bytes));
        }
        text.push('\n');
        if let Some(machine) = self.machine {
            let (flops, bytes) = (rate(machine.flops), rate(machine.bytes));
            let _ = writeln!(text, "the machine can do {flops}flop/s and {bytes}B/s");
        }
        let heading = format!(
            "{:>8} {:>6} {:>7} {:>7} {:>5} {:>7} {:>8}  {}",
            "time",
            "share",
            "flop/s",
            "byte/s",
            "limit",
            "reached",
            "lost",
            self.by.word()
        );
        let _ = writeln!(text, "\n{}", style.bold(&heading));
        for row in self.rows.iter().take(top) {
            self.row(&mut text, row, sources, style);
        }
        if self.rows.len() > top {
            let _ = writeln!(text, "… {} more", self.rows.len() - top);
        }
        for note in self.notes() {
            let _ = writeln!(text, "\nnote: {}", style.hanging(&clean(&note), "note: ".len()));
        }
        text
    }

    fn row(&self, text: &mut String, row: &RoofRow<'_>, sources: &Sources<'_, '_>, style: Style) {
        let shown = |rate_of: Option<f64>| {
            let known = rate_of.filter(|_| row.has_cost);
            known.map_or_else(String::new, |known| rate(known).trim_end().to_owned())
        };
        let roof = self.machine.filter(|_| row.has_cost).map(|machine| {
            let reached = row.rate.reached(machine).map_or_else(String::new, percent);
            (limit(row.rate, machine), reached, time(row.rate.lost(machine)))
        });
        let (limit, reached, lost) = roof.unwrap_or_default();
        let key = match &row.key {
            Some(key) if key.is_empty() => "(no scope)".to_owned(),
            Some(key) => clean(key),
            None => "(not known)".to_owned(),
        };
        let room = style.width.saturating_sub(NUMBERS);
        let key = match self.by {
            By::Module | By::Node => style.fit_end(&key, room),
            _ => style.fit(&key, room),
        };
        let _ = writeln!(
            text,
            "{:>8} {:>6} {:>7} {:>7} {limit:>5} {reached:>7} {lost:>8}  {key}",
            time(row.rate.time),
            percent(row.share),
            shown(row.rate.flops_per_second()),
            shown(row.rate.bytes_per_second()),
        );
        if let (By::Line, Some(frame)) = (self.by, &row.frame)
            && let (_, Some(source)) = sources.line(frame)
        {
            let source = style.fit(&clean(source.trim()), style.width.saturating_sub(NUMBERS));
            let _ = writeln!(text, "{:NUMBERS$}{}", "", style.dim(&source));
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.is_noisy {
            notes.push("the machine was busy: profile again on a quiet machine".to_owned());
        }
        if let Some(device) = self.devices.first() {
            notes.push(format!(
                "nodes ran on {device}, whose highest rates are not known: the machine is the CPU"
            ));
        }
        if self.machine.is_none() && self.devices.is_empty() {
            notes.push(
                "the rates of the machine are not known: they are measured with ONNX Runtime in Python, or given with \
                 `--machine`"
                    .to_owned(),
            );
        }
        let (count, share) = self.untimed;
        if count > 0 {
            let rows = crate::text::count(count, self.by.word());
            let share = percent(share);
            notes.push(format!(
                "{rows} with {share} of the operations have no time: ONNX Runtime computes them in the kernels of \
                 other lines, or when it loads the model"
            ));
        }
        notes
    }

    /// Returns the rates as JSON.
    pub fn json(&self, sources: &Sources<'_, '_>) -> Value {
        let machine = self.machine.map(
            |machine| json!({"flops_per_second": machine.flops, "bytes_per_second": machine.bytes}),
        );
        let rows: Vec<Value> = self.rows.iter().map(|row| self.row_json(row, sources)).collect();
        json!({
            "machine": machine,
            "runs": self.runs,
            "noisy": self.is_noisy,
            "devices": self.devices,
            "total": self.rate_json(self.total),
            "rows": rows,
            "rows_without_time": self.untimed.0,
            "share_without_time": self.untimed.1,
        })
    }

    fn row_json(&self, row: &RoofRow<'_>, sources: &Sources<'_, '_>) -> Value {
        let mut value = match row.has_cost {
            true => self.rate_json(row.rate),
            false => json!({"time_us": row.rate.time}),
        };
        let source = row.frame.as_ref().map(|frame| frame_with_source(frame, sources));
        let part = |name: &str| source.as_ref().map_or(Value::Null, |it| it[name].clone());
        value["key"] = json!(row.key);
        for name in ["file", "line", "function", "text"] {
            value[name] = part(name);
        }
        value["share"] = json!(row.share);
        value
    }

    fn rate_json(&self, of: Rate) -> Value {
        let machine = self.machine;
        json!({
            "time_us": of.time,
            "flops_per_second": of.flops_per_second(),
            "bytes_per_second": of.bytes_per_second(),
            "limit": machine.map(|machine| of.least(machine).1.word()),
            "reached": machine.and_then(|machine| of.reached(machine)),
            "lost_us": machine.map(|machine| of.lost(machine)),
        })
    }
}

fn limit(of: Rate, machine: Machine) -> &'static str {
    match of.least(machine).1 {
        Limit::Flops => "flop",
        Limit::Bytes => "byte",
    }
}

/// Formats a rate with three digits and a prefix. A space follows it.
fn rate(of: f64) -> String {
    number(of as i128)
}

/// Formats a share. A small share has one digit after the point.
fn percent(share: f64) -> String {
    let digits = usize::from(share < 0.9995);
    format!("{:.digits$} %", share * 100.0)
}
