//! Reads input specs from text: `x=f32[B,784]`.

use std::fmt;

use inspect::show::clean;

/// An input: `x=f32[B,784]`, `cache.0.k=f32[B,8]` for a part of one, or `f32[B,784]` for a positional one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputSpec {
    /// The name of a parameter; after a dot, the path of a part of it.
    pub name: Option<String>,
    pub array: ArraySpec,
}

/// A type and a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArraySpec {
    /// The name of the type in NumPy and JAX.
    pub dtype: &'static str,
    pub shape: Vec<Size>,
}

/// The size of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    Known(i64),
    /// A name or an expression of names, in the notation of `jax.export`.
    Named(String),
}

/// A keyword input: a number or a boolean with a value, or an array.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamValue {
    Flag(bool),
    Whole(i64),
    Number(f64),
    Array(ArraySpec),
}

/// An error in the text of an input, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    text: String,
    /// The position and the length of the error, in characters.
    start: usize,
    length: usize,
    why: String,
}

impl std::error::Error for SpecError {}

impl fmt::Display for SpecError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (blank, marks) = (" ".repeat(self.start), "^".repeat(self.length.max(1)));
        write!(out, "{}\n\n  {}\n  {blank}{marks}", self.why, clean(&self.text))
    }
}

/// Every type with its names.
const TYPES: &[(&str, &[&str])] = &[
    ("bool", &["bool"]),
    ("int4", &["i4", "s4", "int4"]),
    ("int8", &["i8", "s8", "int8"]),
    ("int16", &["i16", "s16", "int16"]),
    ("int32", &["i32", "s32", "int32"]),
    ("int64", &["i64", "s64", "int64"]),
    ("uint4", &["u4", "uint4"]),
    ("uint8", &["u8", "uint8"]),
    ("uint16", &["u16", "uint16"]),
    ("uint32", &["u32", "uint32"]),
    ("uint64", &["u64", "uint64"]),
    ("float8_e4m3fn", &["f8e4m3fn", "float8_e4m3fn"]),
    ("float8_e5m2", &["f8e5m2", "float8_e5m2"]),
    ("bfloat16", &["bf16", "bfloat16"]),
    ("float16", &["f16", "float16"]),
    ("float32", &["f32", "float32"]),
    ("float64", &["f64", "float64"]),
    ("complex64", &["c64", "complex64"]),
    ("complex128", &["c128", "complex128"]),
];

/// Reads `[name=]type[size,…]`.
pub fn input(text: &str) -> Result<InputSpec, SpecError> {
    let mut reader = Reader { text, at: 0 };
    let name = reader.name(is_path)?;
    let array = reader.array()?;
    Ok(InputSpec { name, array })
}

/// Reads `name=value`. The value is a number, a boolean, or a type with a shape.
pub(crate) fn param(text: &str) -> Result<(String, ParamValue), SpecError> {
    let mut reader = Reader { text, at: 0 };
    let Some(name) = reader.name(is_name)? else {
        return Err(reader.wrong(0, text.len(), "a keyword input needs a name: `scale=1.0`"));
    };
    let value = match reader.rest() {
        "true" | "True" => ParamValue::Flag(true),
        "false" | "False" => ParamValue::Flag(false),
        rest => match (rest.parse(), rest.parse()) {
            (Ok(whole), _) => ParamValue::Whole(whole),
            (_, Ok(number)) => ParamValue::Number(number),
            _ if rest.contains('[') => ParamValue::Array(reader.array()?),
            _ => {
                let why = "a value is `true`, `false`, a number, or an array such as `f32[B,3]`; \
                           bind anything else in Python, with functools.partial";
                return Err(reader.wrong(reader.at, text.len(), why));
            }
        },
    };
    Ok((name, value))
}

/// Reads a text from left to right. Positions are in bytes.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn wrong(&self, start: usize, end: usize, why: impl Into<String>) -> SpecError {
        let count = |range: std::ops::Range<usize>| {
            self.text.get(range).map_or(0, |part| part.chars().count())
        };
        SpecError {
            text: self.text.to_owned(),
            start: count(0..start),
            length: count(start..end),
            why: why.into(),
        }
    }

    /// Reads a name and the `=` after it.
    fn name(&mut self, is_valid: fn(&str) -> bool) -> Result<Option<String>, SpecError> {
        let Some((name, _)) = self.text.split_once('=') else { return Ok(None) };
        let trimmed = name.trim();
        if !is_valid(trimmed) {
            return Err(self.wrong(0, name.len(), "the text before `=` is not a parameter name"));
        }
        self.at = name.len() + 1;
        Ok(Some(trimmed.to_owned()))
    }

    fn array(&mut self) -> Result<ArraySpec, SpecError> {
        let dtype = self.dtype()?;
        let open = self.at;
        let inner_start = open + 1;
        let rest = self.text.trim_end();
        if rest.get(open..inner_start) != Some("[") {
            let why =
                "a shape must follow the type, in brackets: `f32[B,784]`, or `f32[]` for a number";
            return Err(self.wrong(open, open, why));
        }
        if !rest.ends_with(']') {
            return Err(self.wrong(rest.len(), rest.len(), "a `]` is missing at the end"));
        }
        let inner = rest.get(inner_start..rest.len() - 1).unwrap_or_default();
        let shape = self.shape(inner, inner_start)?;
        Ok(ArraySpec { dtype, shape })
    }

    fn dtype(&mut self) -> Result<&'static str, SpecError> {
        let blanks = self.rest().len() - self.rest().trim_start().len();
        self.at += blanks;
        let word: &str =
            self.rest().split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or("");
        let end = self.at + word.len();
        if let Some((dtype, _)) = TYPES.iter().find(|(_, names)| names.contains(&word)) {
            self.at = end;
            return Ok(dtype);
        }
        // `x:f32[B]` is how Python annotates a parameter.
        let after = self.text.get(end..).unwrap_or_default().strip_prefix(':');
        if let Some(spec) = after.filter(|_| self.at == blanks && is_name(word)) {
            let why = format!("write `=` after the name: `{word}={}`", spec.trim());
            return Err(self.wrong(end, end + 1, why));
        }
        let known: Vec<&str> = TYPES.iter().map(|(_, names)| names[0]).collect();
        let what = match word {
            "" => "a type is missing".to_owned(),
            _ => format!("`{word}` is not a type"),
        };
        Err(self.wrong(self.at, end, format!("{what}: use {}", known.join(", "))))
    }

    fn shape(&self, inner: &str, start: usize) -> Result<Vec<Size>, SpecError> {
        if inner.trim().is_empty() {
            return Ok(Vec::new());
        }
        let mut sizes = Vec::new();
        let mut from = 0;
        for (end, _) in cuts(inner) {
            let text = inner.get(from..end).unwrap_or_default();
            sizes.push(self.size(text, start + from)?);
            from = end + 1;
        }
        Ok(sizes)
    }

    fn size(&self, text: &str, start: usize) -> Result<Size, SpecError> {
        let size = text.trim();
        let start = start + (text.len() - text.trim_start().len());
        let end = start + size.len();
        if size.is_empty() {
            return Err(self.wrong(start, end, "a size is missing"));
        }
        if size.chars().all(|c| c.is_ascii_digit()) {
            let known = size.parse().map(Size::Known);
            return known.map_err(|_| self.wrong(start, end, "the size is too large"));
        }
        if size == "?" || size == "None" || size.starts_with('-') {
            let why = "an unknown size needs a name, such as `B`";
            return Err(self.wrong(start, end, why));
        }
        for (place, c) in size.char_indices() {
            let place = start + place;
            let why = match c {
                '/' => "write `floordiv(B, 2)` to divide sizes",
                '%' => "write `mod(B, 2)` for the remainder of sizes",
                _ if c.is_alphanumeric() || "_ +-*^(),".contains(c) => continue,
                _ => "a size is a number, a name, or an expression of names such as `2*B + 1`",
            };
            return Err(self.wrong(place, place + c.len_utf8(), why));
        }
        Ok(Size::Named(size.to_owned()))
    }
}

/// True if a text is the name of a parameter.
fn is_name(text: &str) -> bool {
    let is_first = |c: char| c.is_alphabetic() || c == '_';
    text.starts_with(is_first) && text.chars().all(|c| is_first(c) || c.is_alphanumeric())
}

/// True if a text is the name of a parameter and the path of a part of it: `cache.0.k`.
fn is_path(text: &str) -> bool {
    let mut parts = text.split('.');
    let is_index = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    parts.next().is_some_and(is_name) && parts.all(|part| is_name(part) || is_index(part))
}

/// Returns the positions at which a list is split: the commas outside parentheses, and its end.
fn cuts(list: &str) -> Vec<(usize, char)> {
    let mut depth = 0_i32;
    let mut found: Vec<(usize, char)> = list
        .char_indices()
        .filter(|(_, c)| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            *c == ',' && depth == 0
        })
        .collect();
    found.push((list.len(), ','));
    found
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expect: &Expect) {
        let shown = match input(text) {
            Ok(InputSpec { name, array }) => format!("{name:?} {} {:?}", array.dtype, array.shape),
            Err(error) => error.to_string(),
        };
        expect.assert_eq(&shown);
    }

    #[test]
    fn an_input_has_a_name_a_type_and_a_shape() {
        check("x=f32[B,784]", &expect![[r#"Some("x") float32 [Named("B"), Known(784)]"#]]);
        check(
            " image = bfloat16[ 2, 3 ] ",
            &expect![[r#"Some("image") bfloat16 [Known(2), Known(3)]"#]],
        );
        check("i32[]", &expect![[r#"None int32 []"#]]);
        check("cache.0.k=f32[B]", &expect![[r#"Some("cache.0.k") float32 [Named("B")]"#]]);
        check(
            "f16[2*B + 1,floordiv(B, 2),max(B, 3)]",
            &expect![[
                r#"None float16 [Named("2*B + 1"), Named("floordiv(B, 2)"), Named("max(B, 3)")]"#
            ]],
        );
    }

    #[test]
    fn a_mistake_is_pointed_at() {
        check(
            "x=f33[B]",
            &expect![[r#"
            `f33` is not a type: use bool, i4, i8, i16, i32, i64, u4, u8, u16, u32, u64, f8e4m3fn, f8e5m2, bf16, f16, f32, f64, c64, c128

              x=f33[B]
                ^^^"#]],
        );
        check(
            "x: f32[B]",
            &expect![[r#"
            write `=` after the name: `x=f32[B]`

              x: f32[B]
               ^"#]],
        );
        check(
            "x=f32",
            &expect![[r#"
            a shape must follow the type, in brackets: `f32[B,784]`, or `f32[]` for a number

              x=f32
                   ^"#]],
        );
        check(
            "x=f32[2,3",
            &expect![[r#"
            a `]` is missing at the end

              x=f32[2,3
                       ^"#]],
        );
        check(
            "x=f32[2,,3]",
            &expect![[r#"
            a size is missing

              x=f32[2,,3]
                      ^"#]],
        );
        check(
            "x=f32[-1,3]",
            &expect![[r#"
            an unknown size needs a name, such as `B`

              x=f32[-1,3]
                    ^^"#]],
        );
        check(
            "größe=f32[B/2]",
            &expect![[r#"
            write `floordiv(B, 2)` to divide sizes

              größe=f32[B/2]
                         ^"#]],
        );
        check(
            "x=f32[...]",
            &expect![[r#"
            a size is a number, a name, or an expression of names such as `2*B + 1`

              x=f32[...]
                    ^"#]],
        );
        check(
            "2x=f32[3]",
            &expect![[r#"
            the text before `=` is not a parameter name

              2x=f32[3]
              ^^"#]],
        );
        check(
            "",
            &expect![[r#"
            a type is missing: use bool, i4, i8, i16, i32, i64, u4, u8, u16, u32, u64, f8e4m3fn, f8e5m2, bf16, f16, f32, f64, c64, c128

              
              ^"#]],
        );
    }

    #[test]
    fn a_path_has_no_empty_part_and_starts_with_a_name() {
        for text in
            ["cache..k=f32[B]", "0.k=f32[B]", "cache.=f32[B]", ".k=f32[B]", "cache.0k=f32[B]"]
        {
            let error = input(text).unwrap_err().to_string();
            assert!(error.starts_with("the text before `=` is not a parameter name"), "{text}");
        }
        assert!(param("cache.k=1").is_err());
    }

    #[test]
    fn a_keyword_input_is_a_number_a_flag_or_an_array() {
        let read = |text| param(text).map(|(_, value)| value);
        assert_eq!(read("deterministic=true"), Ok(ParamValue::Flag(true)));
        assert_eq!(read("n=3"), Ok(ParamValue::Whole(3)));
        assert_eq!(read("scale=-1e-3"), Ok(ParamValue::Number(-1e-3)));
        let mask = ArraySpec { dtype: "bool", shape: vec![Size::Named("B".into())] };
        assert_eq!(read("mask=bool[B]"), Ok(ParamValue::Array(mask)));
        assert!(read("mode=fast").unwrap_err().to_string().contains("  mode=fast\n       ^^^^"));
        assert!(read("3").unwrap_err().to_string().starts_with("a keyword input needs a name"));
    }
}
