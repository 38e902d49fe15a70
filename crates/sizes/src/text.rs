//! Sizes as text, in the notation of JAX: `2*b + 1`, `floordiv(b, 2)`.

use std::fmt;
use std::str::FromStr;

use crate::dim::{Dim, Symbol};
use crate::polynomial::{Atom, Operation, Polynomial, Term};

/// Brackets deeper than this are refused, so that no text exhausts the stack.
const MAX_BRACKETS: usize = 64;

/// The longest text of a size. The time to read a text grows faster than its length.
const MAX_LENGTH: usize = 8192;

const MAX_EXPONENT: i64 = 256;

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Known(size) => size.fmt(f),
            Dim::Symbolic(polynomial) => polynomial.fmt(f),
        }
    }
}

/// Reading the text returns the same polynomial, if the names of its symbols are words.
impl fmt::Display for Polynomial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(symbol) = self.as_symbol() {
            return symbol.fmt(f);
        }
        for (i, term) in self.terms().iter().enumerate() {
            let coefficient = term.coefficient();
            match (i, coefficient) {
                (0, 0..) => {}
                (0, _) => f.write_str("-")?,
                // The magnitude alone is not a number of 64 bits.
                (_, i64::MIN) => f.write_str(" + -")?,
                (_, 0..) => f.write_str(" + ")?,
                _ => f.write_str(" - ")?,
            }
            fmt_magnitude(term, f)?;
        }
        Ok(())
    }
}

/// Writes a term without its sign.
fn fmt_magnitude(term: &Term, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let magnitude = term.coefficient().unsigned_abs();
    let has_number = magnitude != 1 || term.is_number();
    if has_number {
        write!(f, "{magnitude}")?;
    }
    let factors =
        term.factors().flat_map(|(atom, exponent)| std::iter::repeat_n(atom, exponent as usize));
    for (i, atom) in factors.enumerate() {
        if has_number || i > 0 {
            f.write_str("*")?;
        }
        match atom {
            Atom::Symbol(Symbol::Named(name)) if !is_word(name) => write!(f, "({name})")?,
            Atom::Symbol(symbol) => write!(f, "{symbol}")?,
            Atom::Operation(op, operands) => {
                let [a, b] = &**operands;
                write!(f, "{}({a}, {b})", op.name())?;
            }
        }
    }
    Ok(())
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Symbol::Named(name) => f.write_str(name),
            Symbol::Unknown(number) => write!(f, "?{number}"),
        }
    }
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::FloorDiv => "floordiv",
            Operation::Max => "max",
            Operation::Min => "min",
            Operation::Mod => "mod",
        }
    }
}

fn is_word(name: &str) -> bool {
    let is_start = |c: char| !c.is_ascii_digit();
    name.starts_with(is_start) && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Says why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {wanted} at byte {at} of a size")]
pub struct DimError {
    /// The byte where reading stopped.
    pub at: usize,
    pub wanted: &'static str,
}

/// `3`, `2*b + 1`, `-1*a + b`, `a^2`, `floordiv(b, 2)`.
impl FromStr for Dim {
    type Err = DimError;

    fn from_str(text: &str) -> Result<Dim, DimError> {
        let (dim, length) = Dim::parse_prefix(text)?;
        if length < text.trim_end().len() {
            return Err(DimError { at: length, wanted: "the end" });
        }
        Ok(dim)
    }
}

impl Dim {
    /// Reads the size that `text` starts with, and returns how many bytes it takes.
    pub fn parse_prefix(text: &str) -> Result<(Dim, usize), DimError> {
        let mut reader = Reader { text, at: 0, depth: 0 };
        let dim = reader.sum()?;
        Ok((dim, reader.at))
    }

    /// Returns the size that a model file calls `text`, whoever wrote it.
    ///
    /// A text that is not written as jax2onnx writes it is the name of a symbol, so that it is kept as it is.
    pub fn from_param(text: &str) -> Dim {
        match text.parse() {
            Ok(dim @ Dim::Symbolic(_)) if is_text_of(&dim, text) => dim,
            _ => Dim::symbol(text),
        }
    }
}

fn is_text_of(dim: &Dim, text: &str) -> bool {
    dim.to_string() == text
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn sum(&mut self) -> Result<Dim, DimError> {
        self.depth += 1;
        if self.depth > MAX_BRACKETS {
            return Err(self.wanted("fewer brackets"));
        }
        let mut sum = self.product()?;
        loop {
            let next = if self.eat('+') {
                sum.checked_add(&self.product()?)
            } else if self.eat('-') {
                sum.checked_sub(&self.product()?)
            } else {
                self.depth -= 1;
                return Ok(sum);
            };
            sum = next.ok_or_else(|| self.wanted("a smaller sum"))?;
        }
    }

    fn product(&mut self) -> Result<Dim, DimError> {
        let mut product = self.signed()?;
        while self.eat('*') {
            let factor = self.signed()?;
            product =
                product.checked_mul(&factor).ok_or_else(|| self.wanted("a smaller product"))?;
        }
        Ok(product)
    }

    fn signed(&mut self) -> Result<Dim, DimError> {
        if !self.eat('-') {
            return self.power();
        }
        if self.text[self.at..].starts_with(|c: char| c.is_ascii_digit()) {
            return self.number("-").map(Dim::Known);
        }
        let negated = self.power()?.checked_mul(&Dim::Known(-1));
        negated.ok_or_else(|| self.wanted("a smaller number"))
    }

    fn power(&mut self) -> Result<Dim, DimError> {
        let base = self.atom()?;
        if !self.eat('^') {
            return Ok(base);
        }
        self.space();
        let exponent = self.number("")?;
        let power = (1..=MAX_EXPONENT).contains(&exponent).then(|| {
            let factors = std::iter::repeat_n(&base, exponent as usize);
            Dim::checked_product(factors)
        });
        power.flatten().ok_or_else(|| self.wanted("a small positive power"))
    }

    fn atom(&mut self) -> Result<Dim, DimError> {
        if self.at > MAX_LENGTH {
            return Err(self.wanted("a shorter text"));
        }
        if self.eat('(') {
            let inner = self.sum()?;
            self.expect(')')?;
            return Ok(inner);
        }
        let word = self.take(|c| c.is_alphanumeric() || c == '_');
        if word.is_empty() {
            return Err(self.wanted("a number or a symbol"));
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            self.at -= word.len();
            return self.number("").map(Dim::Known);
        }
        let operation: fn(&Dim, &Dim) -> Option<Dim> = match word {
            "floordiv" => Dim::checked_floordiv,
            "mod" => Dim::checked_mod,
            "max" => Dim::checked_max,
            "min" => Dim::checked_min,
            _ => return Ok(Dim::symbol(word)),
        };
        if !self.eat('(') {
            return Ok(Dim::symbol(word));
        }
        let first = self.sum()?;
        self.expect(',')?;
        let second = self.sum()?;
        self.expect(')')?;
        operation(&first, &second).ok_or_else(|| self.wanted("smaller operands and no divisor 0"))
    }

    fn number(&mut self, sign: &str) -> Result<i64, DimError> {
        let digits = self.take(|c| c.is_ascii_digit());
        format!("{sign}{digits}").parse().map_err(|_| self.wanted("a number of 64 bits"))
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let length = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn space(&mut self) {
        self.take(char::is_whitespace);
    }

    /// Takes `symbol` if it is next, and the space before and after it.
    fn eat(&mut self, symbol: char) -> bool {
        self.space();
        let found = self.text[self.at..].starts_with(symbol);
        if found {
            self.at += symbol.len_utf8();
            self.space();
        }
        found
    }

    fn expect(&mut self, symbol: char) -> Result<(), DimError> {
        let wanted = match symbol {
            ',' => "a comma",
            _ => "a closing bracket",
        };
        if self.eat(symbol) { Ok(()) } else { Err(self.wanted(wanted)) }
    }

    fn wanted(&self, wanted: &'static str) -> DimError {
        DimError { at: self.at, wanted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, shown: &str) {
        let dim: Dim = text.parse().unwrap();
        assert_eq!(dim.to_string(), shown);
        assert_eq!(shown.parse(), Ok(dim), "{shown}");
    }

    #[test]
    fn a_number_is_a_known_size() {
        assert_eq!("12".parse(), Ok(Dim::Known(12)));
        assert_eq!(" -1 ".parse(), Ok(Dim::Known(-1)));
        assert_eq!("-9223372036854775808".parse(), Ok(Dim::Known(i64::MIN)));
        assert_eq!("b - b + 3".parse(), Ok(Dim::Known(3)));
    }

    #[test]
    fn texts_of_jax_are_printed_as_jax_prints_them() {
        for text in [
            "b",
            "2*b + 1",
            "b - a",
            "3*b - 2*a",
            "a*b + b + a + 5",
            "max(a, min(b, 3))",
            "max(0, a - 3)",
            "mod(-8*a, b) + floordiv(b, 2) + b",
            "floordiv(a - 1, 2) + 1",
            "floordiv(3*b + 3*a, 2)",
            "a*floordiv(b, 2) + b - 1",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn powers_are_printed_as_products() {
        check("a^2*b", "a*a*b");
        check("a^3 - 2", "a*a*a - 2");
    }

    #[test]
    fn equal_polynomials_are_printed_equally() {
        check("(a + 1)*(a - 1)", "a*a - 1");
        check("a - (b - c)", "c - b + a");
        check("a*(b + c)", "a*c + a*b");
        check("-(a*b)", "-a*b");
        check("-(3)", "-3");
        check("-1*a + b", "b - a");
        check("- b + a", "-b + a");
        check("- 2*b + a", "-2*b + a");
        check("b + b", "2*b");
        check("b + -9223372036854775808*a", "b + -9223372036854775808*a");
    }

    #[test]
    fn a_text_that_is_not_a_size_is_refused_with_the_place() {
        let error = |text: &str| text.parse::<Dim>().unwrap_err().to_string();
        assert_eq!(error(""), "expected a number or a symbol at byte 0 of a size");
        assert_eq!(error("2*"), "expected a number or a symbol at byte 2 of a size");
        assert_eq!(error("a b"), "expected the end at byte 2 of a size");
        assert_eq!(error("max(a)"), "expected a comma at byte 5 of a size");
        assert_eq!(
            error("99999999999999999999"),
            "expected a number of 64 bits at byte 20 of a size"
        );
    }

    #[test]
    fn a_text_of_a_size_that_is_too_large_is_refused() {
        let error = |text: &str| text.parse::<Dim>().unwrap_err().wanted;
        assert_eq!(error("((a^99)^99)^99"), "a small positive power");
        assert_eq!(error("a^0"), "a small positive power");
        assert_eq!(error(&"(".repeat(9999)), "fewer brackets");
        assert_eq!(error(&format!("{}a", "max(1,".repeat(80))), "fewer brackets");
        let sums = (0..4).map(|i| format!("(a{i} + b{i} + c{i} + d{i} + e{i} + f{i} + g{i})"));
        assert_eq!(error(&sums.collect::<Vec<_>>().join("*")), "a smaller product");
        assert_eq!(error(&format!("a{}", " + a*b - a*b".repeat(9999))), "a shorter text");
        assert_eq!(error("9223372036854775807 + 1"), "a smaller sum");
        assert_eq!(error("9223372036854775807*a*2"), "a smaller product");
        assert_eq!(error("floordiv(a, 0)"), "smaller operands and no divisor 0");
    }

    #[test]
    fn a_name_in_a_file_that_is_not_an_expression_is_kept() {
        for name in ["batch size?", "", "12", "B*2", "B+1", "2 * B", "a^2", "(B)*(6)", "-3", "?7"] {
            let dim = Dim::from_param(name);
            assert_eq!(dim.to_string(), name);
            assert!(dim.as_symbol().is_some(), "{name}");
        }
        assert_eq!(Dim::from_param("2*B + 1"), "1 + B*2".parse().unwrap());
        let product = Dim::symbol("batch size?").checked_mul(&Dim::Known(6)).unwrap();
        assert_eq!(product.to_string(), "6*(batch size?)");
    }
}
