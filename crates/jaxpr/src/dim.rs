//! Sizes: numbers, and expressions of symbols.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The size of an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    Known(i64),
    Symbolic(Arc<DimExpr>),
}

/// A size that depends on symbols. JAX keeps its expressions in a normal form, so two that are equal
/// have the same tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DimExpr {
    Const(i64),
    Symbol(Arc<str>),
    Add(Box<DimExpr>, Box<DimExpr>),
    Sub(Box<DimExpr>, Box<DimExpr>),
    Mul(Box<DimExpr>, Box<DimExpr>),
    Neg(Box<DimExpr>),
    FloorDiv(Box<DimExpr>, Box<DimExpr>),
    Mod(Box<DimExpr>, Box<DimExpr>),
    Max(Box<DimExpr>, Box<DimExpr>),
    Min(Box<DimExpr>, Box<DimExpr>),
}

impl Dim {
    /// The size, where it is a number.
    pub fn known(&self) -> Option<i64> {
        match self {
            Dim::Known(size) => Some(*size),
            Dim::Symbolic(_) => None,
        }
    }
}

impl From<i64> for Dim {
    fn from(size: i64) -> Dim {
        Dim::Known(size)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Known(size) => size.fmt(f),
            Dim::Symbolic(expr) => expr.fmt(f),
        }
    }
}

/// As JAX writes it, with the brackets that the tree needs: reading it back gives the same tree.
impl fmt::Display for DimExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DimExpr::Const(value) => value.fmt(f),
            DimExpr::Symbol(name) => f.write_str(name),
            DimExpr::Add(a, b) => write!(f, "{a} + {}", Bracketed(b, Strength::Product)),
            DimExpr::Sub(a, b) => write!(f, "{a} - {}", Bracketed(b, Strength::Product)),
            DimExpr::Mul(a, b) => {
                let left = Bracketed(a, Strength::Product);
                write!(f, "{left}*{}", Bracketed(b, Strength::Atom))
            }
            DimExpr::Neg(a) if matches!(**a, DimExpr::Const(_)) => write!(f, "-({a})"),
            DimExpr::Neg(a) => write!(f, "-{}", Bracketed(a, Strength::Atom)),
            DimExpr::FloorDiv(a, b) => write!(f, "floordiv({a}, {b})"),
            DimExpr::Mod(a, b) => write!(f, "mod({a}, {b})"),
            DimExpr::Max(a, b) => write!(f, "max({a}, {b})"),
            DimExpr::Min(a, b) => write!(f, "min({a}, {b})"),
        }
    }
}

/// How tightly an expression holds together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Sum,
    Product,
    Atom,
}

/// An operand, in brackets where it is weaker than its place asks for.
struct Bracketed<'a>(&'a DimExpr, Strength);

impl fmt::Display for Bracketed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bracketed(expr, wanted) = self;
        let strength = match expr {
            DimExpr::Add(..) | DimExpr::Sub(..) | DimExpr::Neg(..) => Strength::Sum,
            DimExpr::Mul(..) => Strength::Product,
            _ => Strength::Atom,
        };
        if strength < *wanted { write!(f, "({expr})") } else { write!(f, "{expr}") }
    }
}

/// Why a text is no size.
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
        let (dim, length) = Dim::prefix(text)?;
        if length < text.trim_end().len() {
            return Err(DimError { at: length, wanted: "the end" });
        }
        Ok(dim)
    }
}

impl Dim {
    /// The size that `text` starts with, and how many bytes it takes.
    pub(crate) fn prefix(text: &str) -> Result<(Dim, usize), DimError> {
        let mut reader = Reader { text, at: 0, depth: 0 };
        let dim = match reader.sum()? {
            DimExpr::Const(size) => Dim::Known(size),
            expr => Dim::Symbolic(Arc::new(expr)),
        };
        Ok((dim, reader.at))
    }
}

/// Brackets deeper than this are refused, so that no text exhausts the stack.
const MAX_DEPTH: usize = 64;

/// The largest product that a power is written out as.
const MAX_PRODUCT: usize = 256;

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn sum(&mut self) -> Result<DimExpr, DimError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.wanted("fewer brackets"));
        }
        let mut sum = self.product()?;
        loop {
            if self.eat('+') {
                sum = DimExpr::Add(sum.into(), self.product()?.into());
            } else if self.eat('-') {
                sum = DimExpr::Sub(sum.into(), self.product()?.into());
            } else {
                self.depth -= 1;
                return Ok(sum);
            }
        }
    }

    fn product(&mut self) -> Result<DimExpr, DimError> {
        let mut product = self.signed()?;
        while self.eat('*') {
            product = DimExpr::Mul(product.into(), self.signed()?.into());
        }
        Ok(product)
    }

    fn signed(&mut self) -> Result<DimExpr, DimError> {
        if !self.eat('-') {
            return self.power();
        }
        if self.text[self.at..].starts_with(|c: char| c.is_ascii_digit()) {
            return self.number("-").map(DimExpr::Const);
        }
        Ok(DimExpr::Neg(self.power()?.into()))
    }

    fn power(&mut self) -> Result<DimExpr, DimError> {
        let base = self.atom()?;
        if !self.eat('^') {
            return Ok(base);
        }
        self.space();
        let exponent = self.number("")?;
        if exponent < 1 || size(&base).saturating_mul(exponent as usize) > MAX_PRODUCT {
            return Err(self.wanted("a small positive power"));
        }
        let factors = std::iter::repeat_n(base.clone(), exponent as usize - 1);
        Ok(factors.fold(base, |product, factor| DimExpr::Mul(product.into(), factor.into())))
    }

    fn atom(&mut self) -> Result<DimExpr, DimError> {
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
            return self.number("").map(DimExpr::Const);
        }
        let function = match word {
            "floordiv" => DimExpr::FloorDiv,
            "mod" => DimExpr::Mod,
            "max" => DimExpr::Max,
            "min" => DimExpr::Min,
            _ => return Ok(DimExpr::Symbol(word.into())),
        };
        if !self.eat('(') {
            return Ok(DimExpr::Symbol(word.into()));
        }
        let first = self.sum()?;
        self.expect(',')?;
        let second = self.sum()?;
        self.expect(')')?;
        Ok(function(first.into(), second.into()))
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

    /// Takes `symbol` where it is next, and the space before and after it.
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

/// The numbers and symbols of an expression.
fn size(expr: &DimExpr) -> usize {
    match expr {
        DimExpr::Const(_) | DimExpr::Symbol(_) => 1,
        DimExpr::Neg(a) => size(a),
        DimExpr::Add(a, b)
        | DimExpr::Sub(a, b)
        | DimExpr::Mul(a, b)
        | DimExpr::FloorDiv(a, b)
        | DimExpr::Mod(a, b)
        | DimExpr::Max(a, b)
        | DimExpr::Min(a, b) => size(a) + size(b),
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
    }

    #[test]
    fn what_jax_prints_is_read() {
        check("b", "b");
        check("2*b + 1", "2*b + 1");
        check("-1*a + b", "-1*a + b");
        check("a^2*b", "a*a*b");
        check("a^3 - 2", "a*a*a - 2");
        check("floordiv(b, 2) - mod(-1*b, 8)", "floordiv(b, 2) - mod(-1*b, 8)");
        check("max(a,min( b , 3 ))", "max(a, min(b, 3))");
    }

    #[test]
    fn brackets_stay_where_the_tree_needs_them() {
        check("a - (b - c)", "a - (b - c)");
        check("(a - b) - c", "a - b - c");
        check("a*(b + c)", "a*(b + c)");
        check("a*(b*c)", "a*(b*c)");
        check("-(a*b)", "-(a*b)");
        check("-(3)", "-(3)");
        check("-a*b", "(-a)*b");
        check("a + -b", "a + (-b)");
    }

    #[test]
    fn what_is_no_size_is_refused_and_says_where() {
        let error = |text: &str| text.parse::<Dim>().unwrap_err().to_string();
        assert_eq!(error(""), "expected a number or a symbol at byte 0 of a size");
        assert_eq!(error("2*"), "expected a number or a symbol at byte 2 of a size");
        assert_eq!(error("a b"), "expected the end at byte 2 of a size");
        assert_eq!(error("max(a)"), "expected a comma at byte 5 of a size");
        assert_eq!(
            error("99999999999999999999"),
            "expected a number of 64 bits at byte 20 of a size"
        );
        assert_eq!(error("((a^99)^99)^99"), "expected a small positive power at byte 10 of a size");
        assert_eq!(error(&"(".repeat(9999)), "expected fewer brackets at byte 64 of a size");
    }
}
