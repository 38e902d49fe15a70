//! Sums of many sizes, which may be larger than a size.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::dim::{Dim, Symbol};
use crate::polynomial::{Atom, Factors, MAX_WEIGHT, Operation, Term};

/// The value of each symbol that decides which of two sums is larger for large sizes.
const LARGE: f64 = 1e6;

/// The maximum number of terms of a sum.
const MAX_TERMS: usize = 1 << 14;

/// The maximum number of pairs of terms to compare.
const MAX_COMPARED: usize = 1 << 10;

/// The maximum number of terms in the text of a sum.
const MAX_SHOWN: usize = 1 << 9;

/// A polynomial with coefficients of 128 bits. Adding to it takes time for the terms that are added, not for those
/// that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Total {
    terms: BTreeMap<Factors, i128>,
}

impl Total {
    /// Returns a sum with one summand; `None` if it is too large.
    pub fn of(dim: &Dim) -> Option<Total> {
        let mut total = Total::default();
        total.add(dim)?;
        Some(total)
    }

    /// Adds a size; `None` if the sum is too large.
    pub fn add(&mut self, dim: &Dim) -> Option<()> {
        match dim {
            Dim::Known(number) => self.add_term(&Factors::new(), (*number).into()),
            Dim::Symbolic(polynomial) => polynomial
                .terms()
                .iter()
                .try_for_each(|term| self.add_term(&term.factors, term.coefficient.into())),
        }
    }

    /// Adds a size times a sum; `None` if the result is too large.
    pub fn add_product(&mut self, dim: &Dim, times: &Total) -> Option<()> {
        let terms = dim.to_terms();
        if terms.len().checked_mul(times.terms.len())? > MAX_WEIGHT {
            return None;
        }
        for term in &terms {
            for (factors, count) in &times.terms {
                let other = Term { coefficient: 1, factors: factors.clone() };
                let product =
                    Term { coefficient: 1, factors: term.factors.clone() }.times(&other)?;
                let coefficient = i128::from(term.coefficient).checked_mul(*count)?;
                self.add_term(&product.factors, coefficient)?;
            }
        }
        Some(())
    }

    /// Adds another sum; `None` if the result is too large.
    pub fn add_total(&mut self, other: &Total) -> Option<()> {
        let mut terms = other.terms.iter();
        terms.try_for_each(|(factors, count)| self.add_term(factors, *count))
    }

    /// Subtracts a size; `None` if the difference is too large.
    pub fn subtract(&mut self, dim: &Dim) -> Option<()> {
        match dim {
            Dim::Known(number) => self.add_term(&Factors::new(), -i128::from(*number)),
            Dim::Symbolic(polynomial) => polynomial
                .terms()
                .iter()
                .try_for_each(|term| self.add_term(&term.factors, -i128::from(term.coefficient))),
        }
    }

    /// True if the sum is at least as large as the other one for all symbols that are at least 1. May be false although
    /// it is.
    pub fn is_never_less_than(&self, other: &Total) -> bool {
        let (mut more, mut less) = (Vec::new(), Vec::new());
        let others = other.terms.keys().filter(|factors| !self.terms.contains_key(*factors));
        for factors in self.terms.keys().chain(others) {
            let of = |total: &Total| total.terms.get(factors).copied().unwrap_or(0);
            match of(self).checked_sub(of(other)) {
                None => return false,
                Some(0) => {}
                Some(difference @ 1..) => more.push((factors, difference)),
                Some(difference) => less.push((factors, difference)),
            }
        }
        if less.len().saturating_mul(more.len()) > MAX_COMPARED {
            return false;
        }
        // A term that is larger for all symbols can make up for a term that is missing.
        less.into_iter().all(|(factors, mut missing)| {
            for (larger, rest) in &mut more {
                if missing < 0 && is_multiple(larger, factors) {
                    let taken = (*rest).min(missing.saturating_neg());
                    *rest -= taken;
                    missing += taken;
                }
            }
            missing >= 0
        })
    }

    fn add_term(&mut self, factors: &Factors, coefficient: i128) -> Option<()> {
        if coefficient == 0 {
            return Some(());
        }
        if self.terms.len() >= MAX_TERMS && !self.terms.contains_key(factors) {
            return None;
        }
        let sum = self.terms.entry(factors.clone()).or_default();
        *sum = sum.checked_add(coefficient)?;
        if *sum == 0 {
            self.terms.remove(factors);
        }
        Some(())
    }

    /// Returns the number of terms.
    pub fn terms(&self) -> usize {
        self.terms.len()
    }

    /// Returns the sum, if it is a number.
    pub fn known(&self) -> Option<i128> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Factors::new()).copied(),
            _ => None,
        }
    }

    /// Returns the sum for these values of the symbols; `None` if it is too large, or if a divisor is 0.
    pub fn value(&self, symbol: &dyn Fn(&Symbol) -> i64) -> Option<i128> {
        self.terms.iter().try_fold(0_i128, |sum, (factors, count)| {
            let product = factors.iter().try_fold(*count, |product, (atom, exponent)| {
                product.checked_mul(atom.value(symbol)?.checked_pow(*exponent)?)
            });
            sum.checked_add(product?)
        })
    }

    /// Returns the sum for large values of all symbols, to compare sums.
    pub fn at_large_sizes(&self) -> f64 {
        let of_term = |(factors, count): (&Factors, &i128)| {
            let powers = factors.iter().map(|(atom, exponent)| atom.large().powi(*exponent as i32));
            *count as f64 * powers.product::<f64>()
        };
        self.terms.iter().map(of_term).sum()
    }

    /// Returns the sum in the notation of Python, with `*`, `+`, `-`, `//`, `%`, `max` and `min`; `None` if it is very long.
    pub fn formula(&self) -> Option<String> {
        if self.terms.len() > MAX_SHOWN {
            return None;
        }
        let mut terms: Vec<(Term, i128)> = self
            .terms
            .iter()
            .map(|(factors, count)| (Term { coefficient: 1, factors: factors.clone() }, *count))
            .collect();
        terms.sort_by(|(a, _), (b, _)| b.cmp_factors(a));
        let mut text = String::new();
        for (term, count) in &terms {
            write_term(&mut text, term, *count);
        }
        Some(if text.is_empty() { "0".to_owned() } else { text })
    }

    /// Calls `f` with each symbol. A symbol may occur several times.
    pub fn for_each_symbol<'a>(&'a self, f: &mut impl FnMut(&'a Symbol)) {
        for (atom, _) in self.terms.keys().flatten() {
            match atom {
                Atom::Symbol(symbol) => f(symbol),
                Atom::Operation(_, operands) => {
                    operands.iter().for_each(|operand| operand.for_each_symbol(f));
                }
            }
        }
    }
}

/// True if a product is another one times symbols.
fn is_multiple(product: &Factors, of: &Factors) -> bool {
    let exponent = |factors: &Factors, atom: &Atom| {
        factors.iter().find(|(other, _)| other == atom).map_or(0, |(_, exponent)| *exponent)
    };
    let is_symbol = |atom: &Atom| matches!(atom, Atom::Symbol(_));
    let fits = |(atom, count): &(Atom, u32)| {
        let needed = exponent(of, atom);
        *count == needed || (*count > needed && is_symbol(atom))
    };
    product.iter().all(fits) && of.iter().all(|(atom, count)| exponent(product, atom) >= *count)
}

impl Dim {
    /// Returns the size with other sizes in place of symbols; `None` if the result is too large, or if a divisor is 0.
    pub fn with(&self, value: &dyn Fn(&Symbol) -> Option<Dim>) -> Option<Dim> {
        let Dim::Symbolic(polynomial) = self else { return Some(self.clone()) };
        polynomial.terms().iter().try_fold(Dim::Known(0), |sum, term| {
            let product =
                term.factors().try_fold(Dim::Known(term.coefficient), |product, factor| {
                    let (atom, exponent) = factor;
                    let factor = atom.with(value)?;
                    (0..exponent).try_fold(product, |product, _| product.checked_mul(&factor))
                });
            sum.checked_add(&product?)
        })
    }

    /// Returns the size for large values of all symbols.
    pub fn at_large_sizes(&self) -> f64 {
        match self {
            Dim::Known(size) => *size as f64,
            Dim::Symbolic(_) => {
                Total::of(self).map_or(f64::INFINITY, |total| total.at_large_sizes())
            }
        }
    }

    /// Returns the number of symbols, numbers and operations in the text of the size.
    pub fn weight(&self) -> usize {
        self.extent().weight
    }
}

impl Atom {
    fn with(&self, value: &dyn Fn(&Symbol) -> Option<Dim>) -> Option<Dim> {
        match self {
            Atom::Symbol(symbol) => Some(value(symbol).unwrap_or_else(|| symbol.clone().into())),
            Atom::Operation(op, operands) => {
                let (a, b) = (operands[0].with(value)?, operands[1].with(value)?);
                match op {
                    Operation::FloorDiv => a.checked_floordiv(&b),
                    Operation::Max => a.checked_max(&b),
                    Operation::Min => a.checked_min(&b),
                    Operation::Mod => a.checked_mod(&b),
                }
            }
        }
    }

    fn large(&self) -> f64 {
        let Atom::Operation(op, operands) = self else { return LARGE };
        let [a, b] = [operands[0].at_large_sizes(), operands[1].at_large_sizes()];
        match op {
            Operation::FloorDiv => (a / b).floor(),
            Operation::Max => a.max(b),
            Operation::Min => a.min(b),
            Operation::Mod => a.rem_euclid(b),
        }
    }
}

/// Appends a term with its sign.
fn write_term(text: &mut String, term: &Term, count: i128) {
    text.push_str(match (text.is_empty(), count < 0) {
        (true, true) => "-",
        (true, false) => "",
        (false, true) => " - ",
        (false, false) => " + ",
    });
    let magnitude = count.unsigned_abs();
    let mut parts: Vec<String> = Vec::new();
    if magnitude != 1 || term.is_number() {
        parts.push(magnitude.to_string());
    }
    for (atom, exponent) in term.factors() {
        let shown = written(atom);
        parts.extend(std::iter::repeat_n(shown, exponent as usize));
    }
    let _ = write!(text, "{}", parts.join("*"));
}

fn written(atom: &Atom) -> String {
    match atom {
        Atom::Symbol(symbol) => symbol.to_string(),
        Atom::Operation(op, operands) => {
            let [a, b] = [&operands[0], &operands[1]]
                .map(|operand| Total::of(operand).and_then(|total| total.formula()))
                .map(Option::unwrap_or_default);
            let (c, d) = (in_parentheses(&a), in_parentheses(&b));
            match op {
                Operation::FloorDiv => format!("({c} // {d})"),
                Operation::Max => format!("max({a}, {b})"),
                Operation::Min => format!("min({a}, {b})"),
                Operation::Mod => format!("({c} % {d})"),
            }
        }
    }
}

/// Returns a formula in parentheses, unless it is a symbol or a number.
fn in_parentheses(formula: &str) -> String {
    let is_word = formula.chars().all(|c| c.is_alphanumeric() || c == '_');
    if is_word { formula.to_owned() } else { format!("({formula})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> Dim {
        text.parse().unwrap()
    }

    fn total(texts: &[&str]) -> Total {
        let mut total = Total::default();
        for text in texts {
            total.add(&size(text)).unwrap();
        }
        total
    }

    #[test]
    fn a_sum_is_written_as_python_reads_it() {
        let check = |texts: &[&str], shown: &str| {
            assert_eq!(total(texts).formula().as_deref(), Some(shown));
        };
        check(&[], "0");
        check(&["b", "-b"], "0");
        check(&["2*b + 1", "3*b*t"], "3*b*t + 2*b + 1");
        check(&["b - 7", "-2*b*b"], "-2*b*b + b - 7");
        check(&["4*floordiv(b + 1, 2)"], "4*((b + 1) // 2)");
        check(&["mod(b, 8)", "max(b - 3, 0)"], "max(b - 3, 0) + (b % 8)");
    }

    #[test]
    fn a_sum_is_never_less_than_one_with_smaller_coefficients() {
        assert!(total(&["2*b*t + 3"]).is_never_less_than(&total(&["2*b*t"])));
        assert!(total(&["4*b"]).is_never_less_than(&total(&["4*b - 4"])));
        assert!(total(&["8*b*t"]).is_never_less_than(&total(&["4*b*t + 3*b + 1"])));
        assert!(!total(&["8*b*t"]).is_never_less_than(&total(&["4*b*t + 3*b + 2"])));
        assert!(!total(&["b*t + t"]).is_never_less_than(&total(&["2*t + b"])));
        assert!(!total(&["8*max(b - 1, 0)"]).is_never_less_than(&total(&["1"])));
        assert!(!total(&["4*b - 4"]).is_never_less_than(&total(&["4*b"])));
        assert!(!total(&["b*t"]).is_never_less_than(&total(&["100*b"])));
    }

    #[test]
    fn what_was_added_can_be_subtracted() {
        let mut sum = total(&["2*b + 1", "t"]);
        sum.subtract(&size("2*b + 1")).unwrap();
        assert_eq!(sum, total(&["t"]));
    }

    #[test]
    fn a_sum_may_exceed_64_bits() {
        let mut sum = Total::of(&size("9223372036854775807*b")).unwrap();
        sum.add(&size("9223372036854775807*b")).unwrap();
        assert_eq!(sum.formula().as_deref(), Some("18446744073709551614*b"));
        assert_eq!(sum.value(&|_| 2), Some(4 * i128::from(i64::MAX)));
    }

    #[test]
    fn a_product_is_added_term_by_term() {
        let mut sum = total(&["t"]);
        sum.add_product(&size("b + 1"), &total(&["2*t - 1"])).unwrap();
        assert_eq!(
            sum.value(&|symbol| if symbol.to_string() == "b" { 5 } else { 7 }),
            Some(7 + 6 * 13)
        );
        assert_eq!(sum.known(), None);
        sum.add_product(&size("-1"), &sum.clone()).unwrap();
        assert_eq!(sum.known(), Some(0));
    }

    #[test]
    fn the_sum_with_the_higher_power_is_larger_for_large_sizes() {
        assert!(total(&["t*t"]).at_large_sizes() > total(&["768*t"]).at_large_sizes());
        assert!(total(&["floordiv(t, 2)"]).at_large_sizes() > total(&["4096"]).at_large_sizes());
    }

    #[test]
    fn values_replace_symbols_also_inside_operations() {
        let with = |text: &str| {
            let value = |symbol: &Symbol| (symbol.to_string() == "b").then_some(Dim::Known(6));
            size(text).with(&value).map(|dim| dim.to_string())
        };
        assert_eq!(with("b*t + floordiv(b, 4)").as_deref(), Some("6*t + 1"));
        assert_eq!(with("max(b - 9, t)").as_deref(), Some("t"));
        assert_eq!(with("floordiv(t, b - 6)"), None);
    }
}
