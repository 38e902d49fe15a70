//! The cost of a change of a model, line by line.

use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};

use onnx::Total;

use super::memory::{Order, Peak};
use super::show::{integer, number};
use super::{Amounts, By, Costs, Lines, Sizing, costs};
use crate::diff::LineChange;
use crate::text::bytes;

/// The places of the sums in [`Amounts::all`] that hold bytes.
const FIRST_BYTES: usize = 3;

/// The costs of one of two models.
#[derive(Debug)]
pub struct Side<'d> {
    costs: Costs<'d>,
    pub peak: Peak<'d>,
    /// The costs of each line of a file.
    lines: FxHashMap<(&'d str, u32), Both>,
}

/// The sums of a line as numbers, and as formulas.
#[derive(Clone, Debug, Default)]
struct Both {
    numbers: Amounts,
    formulas: Amounts,
}

impl<'d> Side<'d> {
    pub fn of(sizing: &Sizing<'d, '_>) -> Side<'d> {
        let line_of = Lines::of(sizing.document);
        let costs = costs(sizing, &line_of, By::Line);
        let peak = Peak::of(sizing, &line_of, Order::default());
        let mut lines: FxHashMap<(&'d str, u32), Both> = FxHashMap::default();
        for row in &costs.lines {
            if let Some(frame) = row.frame {
                let both = lines.entry((frame.file, frame.line)).or_default();
                both.numbers.add_amounts(&row.numbers);
                both.formulas.add_amounts(&row.formulas);
            }
        }
        Side { costs, peak, lines }
    }

    fn line(&self, file: &'d str, line: Option<u32>) -> Both {
        line.and_then(|line| self.lines.get(&(file, line))).cloned().unwrap_or_default()
    }
}

/// The costs of two models.
#[derive(Debug)]
pub struct CostChange<'d> {
    pub before: Side<'d>,
    pub after: Side<'d>,
}

impl<'d> CostChange<'d> {
    /// Returns the sums of the whole models that differ: `flops 1.2 G → 1.4 G (+16.7 %)`.
    pub fn totals(&self) -> Vec<String> {
        let (before, after) = (&self.before.costs.total, &self.after.costs.total);
        let pairs = pairs(&before.numbers, &after.numbers, &before.formulas, &after.formulas);
        let mut texts: Vec<String> = pairs.iter().filter_map(Pair::text).collect();
        let (before, after) = (&self.before.peak.memory, &self.after.peak.memory);
        let shown = |memory: &super::memory::Memory| match (memory.bytes, &memory.formula) {
            (Some(number), _) => memory_size(number),
            (None, formula) => formula.clone().unwrap_or_default(),
        };
        if (before.bytes, &before.formula) != (after.bytes, &after.formula) {
            let change = before.bytes.zip(after.bytes).map(|(a, b)| percent(a, b));
            let change = change.unwrap_or_default();
            texts.push(format!("peak {} → {}{change}", shown(before), shown(after)));
        }
        texts
    }

    /// Returns the sums of a line that differ: `flops 0 → 12 M`.
    pub fn line(&self, change: &LineChange<'d>) -> Vec<String> {
        self.pairs_of_line(change).iter().filter_map(Pair::text).collect()
    }

    fn pairs_of_line(&self, change: &LineChange<'d>) -> Vec<Pair> {
        let before = self.before.line(change.file_before, change.before);
        let after = self.after.line(change.file, change.after);
        pairs(&before.numbers, &after.numbers, &before.formulas, &after.formulas)
    }

    pub fn json(&self) -> Value {
        let (before, after) = (&self.before.costs.total, &self.after.costs.total);
        let pairs = pairs(&before.numbers, &after.numbers, &before.formulas, &after.formulas);
        let mut map = describe(&pairs);
        let (before, after) = (&self.before.peak.memory, &self.after.peak.memory);
        let bytes = |number: Option<i128>| number.map_or(Value::Null, integer);
        map.insert(
            "peak".to_owned(),
            json!({
                "before": bytes(before.bytes), "after": bytes(after.bytes),
                "formula_before": before.formula, "formula_after": after.formula,
            }),
        );
        Value::Object(map)
    }

    pub fn json_of_line(&self, change: &LineChange<'d>) -> Value {
        Value::Object(describe(&self.pairs_of_line(change)))
    }
}

fn describe(pairs: &[Pair]) -> Map<String, Value> {
    let entry = |pair: &Pair| {
        let number = |side: &(Total, Total)| side.0.known().map_or(Value::Null, integer);
        let value = json!({
            "before": number(&pair.before), "after": number(&pair.after),
            "formula_before": pair.before.1.formula(), "formula_after": pair.after.1.formula(),
        });
        (pair.name.to_owned(), value)
    };
    pairs.iter().map(entry).collect()
}

/// A sum before and after, each as a number and as a formula.
struct Pair {
    name: &'static str,
    is_bytes: bool,
    before: (Total, Total),
    after: (Total, Total),
}

fn pairs(before: &Amounts, after: &Amounts, old: &Amounts, new: &Amounts) -> Vec<Pair> {
    let pair = |place: usize| Pair {
        name: Amounts::NAMES[place],
        is_bytes: place >= FIRST_BYTES,
        before: (before.all()[place].clone(), old.all()[place].clone()),
        after: (after.all()[place].clone(), new.all()[place].clone()),
    };
    (0..Amounts::NAMES.len()).map(pair).collect()
}

impl Pair {
    fn text(&self) -> Option<String> {
        if self.before == self.after {
            return None;
        }
        let shown = |(sum, formula): &(Total, Total)| match (sum.known(), formula.formula()) {
            (Some(amount), _) if self.is_bytes => memory_size(amount),
            (Some(amount), _) => number(amount).trim_end().to_owned(),
            (None, Some(formula)) => formula,
            (None, None) => "(a very long formula)".to_owned(),
        };
        let known = self.before.0.known().zip(self.after.0.known());
        if known.is_some_and(|(before, after)| before == after) {
            return None;
        }
        let change = known.map(|(before, after)| percent(before, after)).unwrap_or_default();
        let name = self.name.replace('_', " ");
        Some(format!("{name} {} → {}{change}", shown(&self.before), shown(&self.after)))
    }
}

fn memory_size(amount: i128) -> String {
    bytes(u64::try_from(amount).unwrap_or(u64::MAX))
}

/// Returns a change in percent: ` (+16.7 %)`.
fn percent(before: i128, after: i128) -> String {
    if before <= 0 || after <= 0 {
        return String::new();
    }
    let change = (after as f64 / before as f64 - 1.0) * 100.0;
    format!(" ({change:+.1} %)")
}
