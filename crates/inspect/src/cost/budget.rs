//! Limits for the costs of a model: `flops<=4.2e9`, `peak<=64MB`.

use std::str::FromStr;

use serde_json::{Value, json};

use super::memory::Peak;
use super::show::{integer, number};
use super::{Amounts, Costs, Lines};
use crate::check::{Finding, Severity};
use crate::text::bytes;
use crate::{Document, Frame};

/// The maximum number of lines to name for a budget that is exceeded.
const MAX_LINES: usize = 3;

/// The name of the memory that is allocated at the same time.
const PEAK: &str = "peak";

/// The units of operations, with their factors.
pub(super) const COUNTS: &[(&str, i128)] =
    &[("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)];

/// The units of memory.
pub(super) const SIZES: &[(&str, i128)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// The largest limit that is a fraction or has an exponent.
const MAX_LIMIT: f64 = 1e30;

/// A limit for a cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// One of [`Amounts::NAMES`], or `peak`.
    pub name: &'static str,
    pub limit: i128,
    /// As the user wrote it.
    pub text: String,
}

/// The reason why a budget cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    #[error("`{text}` is not a budget: write for example `flops<=4.2e9` or `peak<=64MB`")]
    Syntax { text: String },
    #[error("`{name}` is not a cost: a budget is for {}", names())]
    Name { name: String },
    #[error("`{limit}` is not a limit for `{name}`: write a number, and one of the units {}", units(.name))]
    Limit { name: &'static str, limit: String },
    #[error("the budget `{text}` needs numbers: give a size for {}", .open.join(", "))]
    Open { text: String, open: Vec<String> },
    #[error("the budget `{text}` cannot be checked: {name} is not known")]
    NotKnown { text: String, name: &'static str },
}

fn names() -> String {
    let names: Vec<String> = all_names().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

fn all_names() -> impl Iterator<Item = &'static str> {
    Amounts::NAMES.into_iter().chain([PEAK])
}

fn units_of(name: &str) -> &'static [(&'static str, i128)] {
    if is_memory(name) { SIZES } else { COUNTS }
}

fn units(name: &str) -> String {
    let units: Vec<String> = units_of(name).iter().map(|(unit, _)| format!("`{unit}`")).collect();
    units.join(", ")
}

fn is_memory(name: &str) -> bool {
    name == PEAK || name == "weights" || name.starts_with("bytes")
}

impl FromStr for Budget {
    type Err = BudgetError;

    fn from_str(text: &str) -> Result<Budget, BudgetError> {
        let syntax = || BudgetError::Syntax { text: text.to_owned() };
        let (name, limit) = text.split_once("<=").ok_or_else(syntax)?;
        let (name, limit) = (name.trim(), limit.trim());
        let unknown = || BudgetError::Name { name: name.to_owned() };
        let name = all_names().find(|known| *known == name).ok_or_else(unknown)?;
        let wrong = || BudgetError::Limit { name, limit: limit.to_owned() };
        let limit = read_limit(limit, units_of(name)).ok_or_else(wrong)?;
        Ok(Budget { name, limit, text: text.trim().to_owned() })
    }
}

/// Reads a number with a unit, such as `4.2e9`, `64 MB` or `3G`. Fractions of a unit are rounded down.
pub(super) fn read_limit(text: &str, units: &[(&str, i128)]) -> Option<i128> {
    let unit = units.iter().filter(|(unit, _)| text.ends_with(unit));
    let (digits, factor) = match unit.max_by_key(|(unit, _)| unit.len()) {
        Some((unit, factor)) => (text.strip_suffix(unit)?.trim_end(), *factor),
        None => (text, 1),
    };
    if let Ok(whole) = digits.parse::<u64>() {
        return i128::from(whole).checked_mul(factor);
    }
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    let limit = digits.parse::<f64>().ok().filter(|_| is_number)? * factor as f64;
    (0.0..=MAX_LIMIT).contains(&limit).then_some(limit as i128)
}

/// A budget and what it limits.
#[derive(Debug)]
pub struct Verdict<'d> {
    pub budget: Budget,
    pub value: i128,
    /// The lines that contribute most, with their parts.
    pub lines: Vec<(String, Option<Frame<'d>>, i128)>,
    /// A node of the first of the lines.
    pub node: Option<usize>,
}

impl<'d> Verdict<'d> {
    /// Compares a cost with its budget.
    pub fn of(
        budget: Budget,
        document: &'d Document<'_>,
        lines: &Lines<'d>,
        costs: &Costs<'d>,
        peak: &Peak<'d>,
    ) -> Result<Verdict<'d>, BudgetError> {
        let place = Amounts::NAMES.iter().position(|name| *name == budget.name);
        let total = |amounts: &Amounts| -> Option<i128> { amounts.all().get(place?)?.known() };
        let value = match place {
            Some(_) => total(&costs.total.numbers),
            None => peak.memory.bytes,
        };
        let Some(value) = value else {
            let open = costs.symbols.iter().filter(|symbol| symbol.size.is_none());
            let open: Vec<String> = open.map(|symbol| format!("`{}`", symbol.name)).collect();
            let text = budget.text;
            return Err(match open.is_empty() {
                true => BudgetError::NotKnown { text, name: budget.name },
                false => BudgetError::Open { text, open },
            });
        };
        let mut parts: Vec<(String, Option<Frame<'d>>, i128)> = if place.is_some() {
            let part = |row: &super::Row<'d>| {
                Some((row.key.clone().unwrap_or_default(), row.frame, total(&row.numbers)?))
            };
            costs.lines.iter().filter_map(part).collect()
        } else {
            let part = |line: &super::memory::PeakLine<'d>| {
                Some((line.key.clone(), line.frame, peak.number(&line.size)?))
            };
            peak.lines.iter().filter_map(part).collect()
        };
        parts.retain(|(_, _, part)| *part > 0);
        parts.sort_by_key(|(_, _, part)| std::cmp::Reverse(*part));
        parts.truncate(MAX_LINES);
        let node = parts.first().and_then(|(key, _, _)| {
            let key_of = |node: usize| match lines.origin(node).and_then(|it| it.callsite) {
                Some(frame) => frame.to_string(),
                None => document.node_name(node),
            };
            (0..document.scan.nodes.len()).find(|&node| key_of(node) == *key)
        });
        Ok(Verdict { budget, value, lines: parts, node })
    }

    pub fn is_met(&self) -> bool {
        self.value <= self.budget.limit
    }

    fn shown(&self, amount: i128) -> String {
        match is_memory(self.budget.name) {
            true => bytes(u64::try_from(amount).unwrap_or(u64::MAX)),
            false => number(amount).trim_end().to_owned(),
        }
    }

    /// Describes the budget in one line: `flops<=4.2e9: 1.2 G, 28.6 % of the budget`.
    pub fn text(&self) -> String {
        let share = match self.budget.limit {
            0 => String::new(),
            limit => {
                let share = self.value as f64 * 100.0 / limit as f64;
                // A budget that is exceeded is never shown as 100 %.
                let share = if self.is_met() { share.min(100.0) } else { share.max(100.1) };
                format!(", {share:.1} % of the budget")
            }
        };
        format!("{}: {}{share}", self.budget.text, self.shown(self.value))
    }

    /// Returns the finding for a budget that is exceeded.
    pub fn finding(&self) -> Option<Finding> {
        if self.is_met() {
            return None;
        }
        let lines: Vec<String> = self
            .lines
            .iter()
            .map(|(key, _, part)| format!("{key} ({})", self.shown(*part)))
            .collect();
        let most = match &lines[..] {
            [] => String::new(),
            lines => format!("; most of it is at {}", lines.join(", ")),
        };
        let message = format!("the budget is exceeded: {}{most}", self.text());
        Some(Finding { severity: Severity::Error, rule: "budget", message, node: self.node })
    }

    pub fn json(&self) -> Value {
        let lines = self.lines.iter().map(|(key, frame, part)| {
            json!({
                "key": key,
                "file": frame.filter(Frame::has_file).map(|frame| frame.file),
                "line": frame.map(|frame| frame.line),
                "value": integer(*part),
            })
        });
        json!({
            "budget": self.budget.text,
            "name": self.budget.name,
            "limit": integer(self.budget.limit),
            "value": integer(self.value),
            "is_met": self.is_met(),
            "lines": lines.collect::<Vec<Value>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(text: &str) -> Option<(&'static str, i128)> {
        text.parse::<Budget>().ok().map(|budget| (budget.name, budget.limit))
    }

    #[test]
    fn a_budget_is_a_name_and_a_limit_with_a_unit() {
        assert_eq!(limit("flops<=4.2e9"), Some(("flops", 4_200_000_000)));
        assert_eq!(limit(" flops <= 3 G "), Some(("flops", 3_000_000_000)));
        assert_eq!(limit("peak<=64MB"), Some(("peak", 64_000_000)));
        assert_eq!(limit("peak<=1.5MiB"), Some(("peak", 1_572_864)));
        assert_eq!(limit("weights<=100"), Some(("weights", 100)));
        assert_eq!(limit("bytes_read<=9007199254740993"), Some(("bytes_read", (1 << 53) + 1)));
        assert_eq!(limit("operations<=0"), Some(("operations", 0)));
    }

    #[test]
    fn what_is_not_a_budget_is_refused_with_what_to_write() {
        let error = |text: &str| text.parse::<Budget>().unwrap_err().to_string();
        assert!(error("flops").contains("write for example `flops<=4.2e9`"));
        assert!(error("flops<4").contains("is not a budget"));
        assert!(error("speed<=4").contains("`speed` is not a cost: a budget is for `flops`"));
        for text in
            ["flops<=", "flops<=many", "flops<=64MB", "flops<=-1", "flops<=inf", "flops<=nan"]
        {
            assert!(error(text).contains("is not a limit for `flops`"), "{text}");
        }
        assert!(error("peak<=64G").contains("`GiB`"));
        assert!(error("flops<=1e99").contains("is not a limit"));
    }
}
