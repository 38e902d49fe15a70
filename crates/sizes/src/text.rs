//! Sizes as text, in the notation of JAX: `2*b + 1`, `floordiv(b, 2)`.

use std::fmt;
use std::str::FromStr;

use cursor::{Cursor, Parse, ParseError, Result};

use crate::dim::{Dim, Symbol};
use crate::polynomial::{Atom, Operation, Polynomial, Term};

/// The maximum length of the text of a size, because the time to read a text grows faster than its length.
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

/// If the names of all symbols are words, reading the text returns the same polynomial.
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
                // The magnitude does not fit into 64 bits.
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

/// Reads `3`, `2*b + 1`, `-1*a + b`, `a^2` or `floordiv(b, 2)`.
impl FromStr for Dim {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Dim> {
        let mut cursor = Cursor::new(text);
        let dim = Dim::read(&mut cursor)?;
        if cursor.is_at_end() { Ok(dim) } else { Err(cursor.expected("the end")) }
    }
}

impl Dim {
    /// Reads a size.
    pub fn read(cursor: &mut Cursor<'_>) -> Result<Dim> {
        let start = cursor.position();
        Reader { cursor, start }.sum()
    }

    /// Returns the size with the name `text` in a model file.
    ///
    /// If jax2onnx would write the size differently, the text is the name of a symbol, so that it stays unchanged.
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

struct Reader<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    start: usize,
}

impl<'a> Parse<'a> for Reader<'_, 'a> {
    fn cursor(&mut self) -> &mut Cursor<'a> {
        self.cursor
    }
}

impl Reader<'_, '_> {
    fn sum(&mut self) -> Result<Dim> {
        self.nested(|reader| {
            let mut sum = reader.product()?;
            loop {
                let next = if reader.cursor.eat("+") {
                    sum.checked_add(&reader.product()?)
                } else if reader.cursor.eat("-") {
                    sum.checked_sub(&reader.product()?)
                } else {
                    return Ok(sum);
                };
                sum = next.ok_or_else(|| reader.cursor.expected("a smaller sum"))?;
            }
        })
    }

    fn product(&mut self) -> Result<Dim> {
        let mut product = self.signed()?;
        while self.cursor.eat("*") {
            let next = product.checked_mul(&self.signed()?);
            product = next.ok_or_else(|| self.cursor.expected("a smaller product"))?;
        }
        Ok(product)
    }

    fn signed(&mut self) -> Result<Dim> {
        if !self.cursor.eat("-") {
            return self.power();
        }
        self.cursor.skip_space();
        if self.cursor.peek().is_some_and(|c| c.is_ascii_digit()) {
            return self.number("-").map(Dim::Known);
        }
        let negated = self.power()?.checked_mul(&Dim::Known(-1));
        negated.ok_or_else(|| self.cursor.expected("a smaller number"))
    }

    fn power(&mut self) -> Result<Dim> {
        let base = self.atom()?;
        if !self.cursor.eat("^") {
            return Ok(base);
        }
        self.cursor.skip_space();
        let exponent = self.number("")?;
        let power = (1..=MAX_EXPONENT).contains(&exponent).then(|| {
            let factors = std::iter::repeat_n(&base, exponent as usize);
            Dim::checked_product(factors)
        });
        power.flatten().ok_or_else(|| self.cursor.expected("a small positive power"))
    }

    fn atom(&mut self) -> Result<Dim> {
        if self.cursor.position() - self.start > MAX_LENGTH {
            return Err(self.cursor.expected("a shorter text"));
        }
        if self.cursor.eat("(") {
            let inner = self.sum()?;
            self.cursor.expect(")")?;
            return Ok(inner);
        }
        if self.cursor.peek().is_some_and(|c| c.is_ascii_digit()) {
            return self.number("").map(Dim::Known);
        }
        let word = self.cursor.take(|c| c.is_alphanumeric() || c == '_');
        let operation: fn(&Dim, &Dim) -> Option<Dim> = match word {
            "" => return Err(self.cursor.expected("a number or a symbol")),
            "floordiv" => Dim::checked_floordiv,
            "mod" => Dim::checked_mod,
            "max" => Dim::checked_max,
            "min" => Dim::checked_min,
            _ => return Ok(Dim::symbol(word)),
        };
        if !self.cursor.eat("(") {
            return Ok(Dim::symbol(word));
        }
        let first = self.sum()?;
        self.cursor.expect(",")?;
        let second = self.sum()?;
        self.cursor.expect(")")?;
        let result = operation(&first, &second);
        result.ok_or_else(|| self.cursor.expected("smaller operands and no divisor 0"))
    }

    fn number(&mut self, sign: &str) -> Result<i64> {
        let digits = self.cursor.take(|c| c.is_ascii_digit());
        let number = format!("{sign}{digits}").parse();
        number.map_err(|_| self.cursor.expected("a number of 64 bits"))
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
        assert_eq!(error(""), "line 1, column 1: expected a number or a symbol");
        assert_eq!(error("2*"), "line 1, column 3: expected a number or a symbol");
        assert_eq!(error("a b"), "line 1, column 3: expected the end");
        assert_eq!(error("max(a)"), "line 1, column 6: expected `,`");
        assert_eq!(
            error("99999999999999999999"),
            "line 1, column 21: expected a number of 64 bits"
        );
    }

    #[test]
    fn a_text_of_a_size_that_is_too_large_is_refused() {
        let error = |text: &str| text.parse::<Dim>().unwrap_err().message;
        assert_eq!(error("((a^99)^99)^99"), "expected a small positive power");
        assert_eq!(error("a^0"), "expected a small positive power");
        assert_eq!(error(&"(".repeat(9999)), "this is nested too deeply");
        assert_eq!(error(&format!("{}a", "max(1,".repeat(80))), "this is nested too deeply");
        let sums = (0..4).map(|i| format!("(a{i} + b{i} + c{i} + d{i} + e{i} + f{i} + g{i})"));
        assert_eq!(error(&sums.collect::<Vec<_>>().join("*")), "expected a smaller product");
        assert_eq!(error(&format!("a{}", " + a*b - a*b".repeat(9999))), "expected a shorter text");
        assert_eq!(error("9223372036854775807 + 1"), "expected a smaller sum");
        assert_eq!(error("9223372036854775807*a*2"), "expected a smaller product");
        assert_eq!(error("floordiv(a, 0)"), "expected smaller operands and no divisor 0");
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
