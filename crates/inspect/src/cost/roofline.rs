//! The operations and bytes per second that each line achieves in a profile, beside those that the machine can do.
//!
//! A line with much time is either large, or slow for what it does. The time that the machine needs at least is the
//! longer one of two times: that of its operations at the highest rate, and that of its bytes at the highest rate.

mod observed;
mod show;
#[cfg(test)]
mod tests;

use std::str::FromStr;

use onnx::Total;
use rustc_hash::{FxHashMap, FxHashSet};

use super::budget::{COUNTS, SIZES, read_limit};
use super::{Amounts, By, Costs};
use crate::profile::{self, CPU, Profile, summarize};
use crate::{Document, Frame};

pub use observed::sizes_in;

/// The highest rates of a machine, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes that are read and written.
    pub bytes: f64,
}

/// The reason why there is no roofline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RooflineError {
    #[error(
        "`{text}` is not what a machine can do: write operations and bytes per second, for example `100G,20GB`"
    )]
    Machine { text: String },
    #[error("the rates need numbers: give a size for {}", .open.join(", "))]
    Open { open: Vec<String> },
    #[error("the rates cannot be grouped by {}: use `line`, `function`, `module` or `node`", .by.word())]
    By { by: By },
}

impl FromStr for Machine {
    type Err = RooflineError;

    fn from_str(text: &str) -> Result<Machine, RooflineError> {
        let rates = text.split_once(',').and_then(|(flops, bytes)| {
            let rate = |text: &str, units| read_limit(text.trim(), units).filter(|rate| *rate > 0);
            Some((rate(flops, COUNTS)?, rate(bytes, SIZES)?))
        });
        let (flops, bytes) =
            rates.ok_or_else(|| RooflineError::Machine { text: text.to_owned() })?;
        Ok(Machine { flops: flops as f64, bytes: bytes as f64 })
    }
}

/// The rate that limits a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Flops,
    Bytes,
}

impl Limit {
    pub fn word(self) -> &'static str {
        match self {
            Limit::Flops => "flops",
            Limit::Bytes => "bytes",
        }
    }
}

/// The work that was done in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Microseconds in a run.
    pub time: f64,
    /// Floating-point operations in a run, with transcendental functions.
    pub flops: f64,
    /// Bytes that are read and written in a run.
    pub bytes: f64,
}

impl Rate {
    /// Returns the floating-point operations per second, if there is a time.
    pub fn flops_per_second(&self) -> Option<f64> {
        (self.time > 0.0).then(|| self.flops / self.time * 1e6)
    }

    /// Returns the bytes per second, if there is a time.
    pub fn bytes_per_second(&self) -> Option<f64> {
        (self.time > 0.0).then(|| self.bytes / self.time * 1e6)
    }

    /// Returns the microseconds that the machine needs at least, and the rate that limits it.
    pub fn least(&self, machine: Machine) -> (f64, Limit) {
        let flops = self.flops / machine.flops * 1e6;
        let bytes = self.bytes / machine.bytes * 1e6;
        if flops > bytes { (flops, Limit::Flops) } else { (bytes, Limit::Bytes) }
    }

    /// Returns the share of what the machine can do. It exceeds 1 if the bytes are in a cache.
    pub fn reached(&self, machine: Machine) -> Option<f64> {
        (self.time > 0.0).then(|| self.least(machine).0 / self.time)
    }

    /// Returns the microseconds that the line takes longer than the machine needs.
    pub fn lost(&self, machine: Machine) -> f64 {
        (self.time - self.least(machine).0).max(0.0)
    }
}

/// A line, function, module path or node with a time in the profile.
#[derive(Clone, Debug, PartialEq)]
pub struct RoofRow<'d> {
    /// `None` if the runtime created the nodes, and their line is not known.
    pub key: Option<String>,
    pub frame: Option<Frame<'d>>,
    /// The share of the time of all rows.
    pub share: f64,
    pub rate: Rate,
    /// True if the row has a cost. Without one, it has no rates.
    pub has_cost: bool,
}

/// The rates of all lines.
#[derive(Clone, Debug)]
pub struct Roofline<'d> {
    pub by: By,
    /// `None` if it is not known, or if nodes ran on another provider than the CPU.
    pub machine: Option<Machine>,
    /// The rows with a time, the longest first.
    pub rows: Vec<RoofRow<'d>>,
    pub total: Rate,
    /// The number of runs that count.
    pub runs: usize,
    /// The number of rows of the costs without a time, and the share of all operations that they have.
    pub untimed: (usize, f64),
    /// The providers that ran nodes, without the CPU.
    pub devices: Vec<String>,
    pub is_noisy: bool,
}

impl<'d> Roofline<'d> {
    /// Joins the costs of a model with a profile of it. `document` has the names of the profile: it is the model, or
    /// the form of it that the runtime optimized.
    pub fn of<'p: 'd>(
        costs: &Costs<'d>,
        document: &'p Document<'_>,
        profile: &Profile,
        warmup: Option<usize>,
        machine: Option<Machine>,
    ) -> Result<Roofline<'d>, RooflineError> {
        let is_open = |total: &&Total| total.known().is_none();
        if costs.total.numbers.all().iter().any(is_open) {
            let open = costs.symbols.iter().filter(|symbol| symbol.size.is_none());
            let open = open.map(|symbol| format!("`{}`", symbol.name)).collect();
            return Err(RooflineError::Open { open });
        }
        let by = match costs.by {
            // A model without lines has nodes instead.
            By::Line if costs.missing.is_some() => profile::By::Node,
            By::Line => profile::By::Line,
            By::Function => profile::By::Function,
            By::Module => profile::By::Scope,
            By::Node => profile::By::Node,
            By::Operator => return Err(RooflineError::By { by: costs.by }),
        };
        let summary = summarize(document, profile, by, warmup);
        let counted = costs.rows.as_ref().unwrap_or(&costs.lines);
        let of_key: FxHashMap<&str, &Amounts> =
            counted.iter().filter_map(|row| Some((row.key.as_deref()?, &row.numbers))).collect();
        let mut rows = Vec::new();
        let mut timed: FxHashSet<&str> = FxHashSet::default();
        for row in &summary.rows {
            let cost = row.key.as_deref().and_then(|key| of_key.get_key_value(key));
            timed.extend(cost.map(|(key, _)| *key));
            let (flops, bytes) = cost.map_or((0.0, 0.0), |(_, amounts)| work(amounts));
            rows.push(RoofRow {
                key: row.key.clone(),
                frame: row.frame,
                share: row.share,
                rate: Rate { time: row.spread.median, flops, bytes },
                has_cost: cost.is_some(),
            });
        }
        let (flops, bytes) = work(&costs.total.numbers);
        let untimed = counted.iter().filter(|row| {
            row.key.as_deref().is_none_or(|key| !timed.contains(key))
                && work(&row.numbers) != (0.0, 0.0)
        });
        let untimed = untimed.map(|row| work(&row.numbers).0);
        let (count, lost) = untimed.fold((0, 0.0), |(count, all), flops| (count + 1, all + flops));
        let mut devices: Vec<String> = Vec::new();
        for kernel in profile.kernels.iter().filter(|kernel| *kernel.provider != *CPU) {
            if !kernel.provider.is_empty() && !devices.contains(&kernel.provider.to_string()) {
                devices.push(kernel.provider.to_string());
            }
        }
        Ok(Roofline {
            by: costs.by,
            machine: machine.filter(|_| devices.is_empty()),
            rows,
            total: Rate { time: summary.sum, flops, bytes },
            runs: summary.runs.len(),
            untimed: (count, if flops > 0.0 { lost / flops } else { 0.0 }),
            devices,
            is_noisy: summary.is_noisy,
        })
    }
}

/// Returns the floating-point operations and the bytes of a row.
fn work(amounts: &Amounts) -> (f64, f64) {
    let sum = |a: &Total, b: &Total| {
        let known = |total: &Total| total.known().unwrap_or_default();
        known(a).saturating_add(known(b)) as f64
    };
    let flops = sum(&amounts.flops, &amounts.transcendentals);
    (flops, sum(&amounts.bytes_read, &amounts.bytes_written))
}
