//! Quotients and remainders of sizes.

use crate::arithmetic::operation;
use crate::dim::Dim;
use crate::order::cmp_degrees;
use crate::polynomial::{Factors, Operation, Term};

impl Dim {
    /// Returns the size whose product with `divisor` is this one. `None` if there is none, or if `divisor` is 0.
    ///
    /// As in JAX, a symbolic divisor counts as positive: `6*B` divided by `B` is 6.
    pub fn divide_exact(&self, divisor: &Dim) -> Option<Dim> {
        match (self, divisor) {
            (_, Dim::Known(0)) => None,
            (_, Dim::Known(1)) => Some(self.clone()),
            (Dim::Known(0), _) => Some(Dim::Known(0)),
            (Dim::Known(a), Dim::Known(b)) => {
                (a.checked_rem(*b)? == 0).then(|| a.checked_div(*b))?.map(Dim::Known)
            }
            _ => divide_polynomial(self, divisor),
        }
    }

    /// Returns the quotient, rounded down.
    pub fn checked_floordiv(&self, divisor: &Dim) -> Option<Dim> {
        match self.quotient_and_remainder(divisor) {
            Some((quotient, _)) => Some(quotient),
            None => self.operation_by(Operation::FloorDiv, divisor),
        }
    }

    /// Returns the remainder, which has the sign of the divisor.
    pub fn checked_mod(&self, divisor: &Dim) -> Option<Dim> {
        match self.quotient_and_remainder(divisor) {
            Some((_, remainder)) => Some(remainder),
            None => self.operation_by(Operation::Mod, divisor),
        }
    }

    /// Returns an operation on operands that are not both numbers, with a divisor other than 0.
    fn operation_by(&self, op: Operation, divisor: &Dim) -> Option<Dim> {
        let is_number = self.known().is_some() && divisor.known().is_some();
        if is_number || divisor.is(0) { None } else { operation(op, self, divisor) }
    }

    /// Returns the quotient and the remainder if they are polynomials: a number divides all terms except the
    /// constant one, or a polynomial divides without a remainder.
    fn quotient_and_remainder(&self, divisor: &Dim) -> Option<(Dim, Dim)> {
        let Some(by) = divisor.known() else {
            return Some((self.divide_exact(divisor)?, Dim::Known(0)));
        };
        let number = self.number();
        let multiple = self.checked_sub(&Dim::Known(number))?.divide_exact(divisor)?;
        let rounded = floor_division(number, by)?;
        let remainder = number.checked_sub(rounded.checked_mul(by)?)?;
        Some((multiple.checked_add(&Dim::Known(rounded))?, Dim::Known(remainder)))
    }

    /// Returns the constant term.
    pub(crate) fn number(&self) -> i64 {
        match self {
            Dim::Known(number) => *number,
            Dim::Symbolic(polynomial) => {
                let last = polynomial.terms().last().filter(|term| term.is_number());
                last.map_or(0, |term| term.coefficient)
            }
        }
    }
}

/// Returns the quotient, rounded down. `None` if it does not fit into 64 bits, or if the divisor is 0.
pub(crate) fn floor_division(a: i64, b: i64) -> Option<i64> {
    let (quotient, remainder) = (a.checked_div(b)?, a.checked_rem(b)?);
    let is_below = remainder != 0 && (remainder < 0) != (b < 0);
    Some(if is_below { quotient - 1 } else { quotient })
}

/// Divides the leading term of the rest by the leading term of the divisor, until the rest is 0.
fn divide_polynomial(dividend: &Dim, divisor: &Dim) -> Option<Dim> {
    let by = leading(divisor)?;
    let (mut rest, mut quotient) = (dividend.clone(), Dim::Known(0));
    while !rest.is(0) {
        let term = Dim::from_terms(vec![leading(&rest)?.divided(&by)?])?;
        rest = rest.checked_sub(&term.checked_mul(divisor)?)?;
        quotient = quotient.checked_add(&term)?;
    }
    Some(quotient)
}

fn leading(dim: &Dim) -> Option<Term> {
    dim.to_terms().into_iter().max_by(|a, b| cmp_degrees(&a.factors, &b.factors))
}

impl Term {
    /// Returns the term whose product with `divisor` is this one.
    fn divided(&self, divisor: &Term) -> Option<Term> {
        if self.coefficient.checked_rem(divisor.coefficient)? != 0 {
            return None;
        }
        let coefficient = self.coefficient.checked_div(divisor.coefficient)?;
        let mut divisors = divisor.factors.iter().peekable();
        let mut factors = Factors::new();
        for (atom, exponent) in &self.factors {
            let taken = divisors.next_if(|(other, _)| other == atom).map_or(0, |(_, by)| *by);
            let left = exponent.checked_sub(taken)?;
            if left > 0 {
                factors.push((atom.clone(), left));
            }
        }
        divisors.next().is_none().then_some(Term { coefficient, factors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(dividend: &str, divisor: &str, expected: Option<&str>) {
        let (dividend, divisor): (Dim, Dim) = (dividend.parse().unwrap(), divisor.parse().unwrap());
        let quotient = dividend.divide_exact(&divisor);
        assert_eq!(quotient.map(|quotient| quotient.to_string()).as_deref(), expected);
    }

    #[test]
    fn merged_axes_are_split_by_exact_division() {
        check("6*B", "6", Some("B"));
        check("6*B", "B", Some("6"));
        check("6*B*T", "2*T", Some("3*B"));
        check("B*T + B", "T + 1", Some("B"));
        check("B*B - 1", "B + 1", Some("B - 1"));
        check("3*floordiv(B, 2)", "floordiv(B, 2)", Some("3"));
        check("0", "B", Some("0"));
    }

    #[test]
    fn a_quotient_with_a_remainder_is_not_exact() {
        check("6*B", "4", None);
        check("6*B", "T", None);
        check("B", "2*B", None);
        check("B + 1", "B", None);
        check("7", "2", None);
        check("B", "0", None);
        check("-9223372036854775808", "-1", None);
    }

    #[test]
    fn quotients_and_remainders_are_simplified_if_the_divisor_divides_all_terms_but_the_number() {
        let check = |text: &str, shown: &str| {
            assert_eq!(text.parse::<Dim>().unwrap().to_string(), shown);
        };
        check("floordiv(6*B + 5, 3)", "2*B + 1");
        check("mod(6*B + 5, 3)", "2");
        check("floordiv(-7, 2)", "-4");
        check("mod(-7, 2)", "1");
        check("mod(7, -2)", "-1");
        check("floordiv(B*T, T)", "B");
        check("mod(B*T, T)", "0");
        check("floordiv(2*B + T, 2)", "floordiv(T + 2*B, 2)");
        assert!("floordiv(-9223372036854775808, -1)".parse::<Dim>().is_err());
        assert!("mod(B, 0)".parse::<Dim>().is_err());
    }
}
