//! The words of the text, and the constants in it.

use std::sync::Arc;

use half::{bf16, f16};
use provenance::Table;
use rustc_hash::FxHashMap;

use super::{RESERVED, is_plain};
use crate::check::holds_its_contents;
use crate::dtype::DType;
use crate::proto::{OMITTED, pack_strings};
use crate::tensor::Tensor;
use crate::value::{Dim, Type, ValueId, Values};

/// Where a text is not a graph, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}")]
pub struct ParseError {
    /// 1-based.
    pub line: usize,
    /// 1-based, in bytes.
    pub column: usize,
    pub expected: String,
}

pub(super) type Result<T> = std::result::Result<T, ParseError>;

/// A place in a text, and what was found before it.
pub(super) struct Parser<'a> {
    pub text: &'a str,
    pub at: usize,
    pub values: Values,
    pub provenance: Table,
    /// Values by what they are called in the text.
    pub names: FxHashMap<String, ValueId>,
    pub domains: Vec<Arc<str>>,
}

/// An element of a constant, as it is written.
pub(super) enum Element {
    Number(String),
    Bool(bool),
    Text(String),
}

/// Constants that are shown by their type have at most this many elements.
const LARGEST: i64 = 1 << 24;

impl<'a> Parser<'a> {
    pub fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    pub fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.rest().is_empty()
    }

    pub fn is_next(&mut self, token: &str) -> bool {
        self.skip_space();
        self.rest().starts_with(token)
    }

    pub fn accept(&mut self, token: &str) -> bool {
        let is_next = self.is_next(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    pub fn expect(&mut self, token: &str) -> Result<()> {
        if self.accept(token) {
            return Ok(());
        }
        Err(self.expected(&format!("`{token}`")))
    }

    pub fn expected(&self, what: &str) -> ParseError {
        let before = &self.text[..self.at];
        ParseError {
            line: before.matches('\n').count() + 1,
            column: before.len() - before.rfind('\n').map_or(0, |newline| newline + 1) + 1,
            expected: what.into(),
        }
    }

    /// The characters from here on that can be in a plain name.
    fn peek_word(&mut self) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        &rest[..rest.find(|character| !is_plain(character)).unwrap_or(rest.len())]
    }

    pub fn accept_word(&mut self, word: &str) -> bool {
        let is_next = self.peek_word() == word;
        if is_next {
            self.at += word.len();
        }
        is_next
    }

    pub fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.accept_word(word) {
            return Ok(());
        }
        Err(self.expected(&format!("`{word}`")))
    }

    /// Items up to `end`, with commas between them.
    pub fn list<T>(&mut self, end: &str, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        if self.accept(end) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.accept(end) {
                return Ok(items);
            }
            self.expect(",")?;
        }
    }

    /// A name of anything.
    pub fn name(&mut self) -> Result<String> {
        if self.is_next("`") {
            return self.quoted('`');
        }
        let word = self.peek_word();
        if word.is_empty() || RESERVED.contains(&word) {
            return Err(self.expected("a name"));
        }
        self.at += word.len();
        Ok(word.into())
    }

    /// The name of a value, `%0` where it has none, and nothing where it is left out.
    pub fn reference(&mut self) -> Result<String> {
        if self.accept_word("_") {
            return Ok(OMITTED.into());
        }
        if self.accept("%") {
            return Ok(format!("%{}", self.name()?));
        }
        self.name()
    }

    fn quoted(&mut self, quote: char) -> Result<String> {
        let mut text = String::new();
        let mut characters = self.rest().char_indices().skip(1);
        while let Some((offset, character)) = characters.next() {
            if character == quote {
                self.at += offset + 1;
                return Ok(text);
            }
            if character != '\\' {
                text.push(character);
                continue;
            }
            match characters.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, 'r')) => text.push('\r'),
                Some((_, '0')) => text.push('\0'),
                Some((_, 'u')) => {
                    let code = characters.by_ref().map(|(_, digit)| digit).skip(1);
                    let code: String = code.take_while(|&digit| digit != '}').collect();
                    let code = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                    text.push(code.ok_or_else(|| self.expected("a character's code"))?);
                }
                Some((_, other)) => text.push(other),
                None => break,
            }
        }
        Err(self.expected(&format!("a text that ends with {quote}")))
    }

    /// `f32[2,B]`
    pub fn ty(&mut self) -> Result<Type> {
        let dtype = self.dtype()?;
        self.expect("[")?;
        let Some(end) = self.rest().find(']') else {
            return Err(self.expected("`]`"));
        };
        let dims = &self.rest()[..end];
        self.at += end + 1;
        let (mut shape, mut depth, mut start) = (Vec::new(), 0, 0);
        let mut push = |dim: &str| {
            let dim = dim.trim();
            shape.push(dim.parse().map_or_else(|_| Dim::Named(dim.into()), Dim::Known));
        };
        for (offset, character) in dims.char_indices() {
            match character {
                '(' => depth += 1,
                ')' => depth -= 1,
                ',' if depth == 0 => {
                    push(&dims[start..offset]);
                    start = offset + 1;
                }
                _ => {}
            }
        }
        if !dims.trim().is_empty() {
            push(&dims[start..]);
        }
        Ok(Type::new(dtype, shape))
    }

    fn dtype(&mut self) -> Result<DType> {
        let word = self.peek_word();
        let Some(dtype) = DType::from_short(word) else {
            return Err(self.expected("an element type"));
        };
        self.at += word.len();
        Ok(dtype)
    }

    pub fn is_literal(&mut self) -> bool {
        let word = self.peek_word();
        matches!(word, "const" | "inf" | "nan" | "true" | "false")
            || self
                .rest()
                .starts_with(|first: char| first.is_ascii_digit() || "-[\"".contains(first))
    }

    /// A number, `true`, or a text.
    pub fn element(&mut self) -> Result<Element> {
        if self.is_next("\"") {
            return Ok(Element::Text(self.quoted('"')?));
        }
        for flag in [true, false] {
            if self.accept_word(if flag { "true" } else { "false" }) {
                return Ok(Element::Bool(flag));
            }
        }
        let rest = self.rest();
        let is_part = |character: char| is_plain(character) || "+-".contains(character);
        let number = &rest[..rest.find(|character| !is_part(character)).unwrap_or(rest.len())];
        if number.parse::<f64>().is_err() {
            return Err(self.expected("a constant"));
        }
        self.at += number.len();
        Ok(Element::Number(number.into()))
    }

    /// `2.0`, `[1, 2]:i64`, `const f32[3,4]`, `const u4[2] 0x21`
    pub fn literal(&mut self) -> Result<Tensor> {
        if self.accept_word("const") {
            return self.const_literal();
        }
        let (mut shape, mut elements) = (Vec::new(), Vec::new());
        self.nested(0, &mut shape, &mut elements)?;
        let dtype = if self.accept(":") {
            self.dtype()?
        } else {
            match elements.first() {
                Some(Element::Text(_)) => DType::String,
                Some(Element::Bool(_)) => DType::Bool,
                Some(Element::Number(number)) if number.parse::<i64>().is_err() => DType::F32,
                _ => return Err(self.expected("`:` and an element type")),
            }
        };
        let mut data = Vec::new();
        for element in &elements {
            self.push_element(&mut data, dtype, element)?;
        }
        let tensor = Tensor { dtype, shape, data: data.into() };
        if !holds_its_contents(&tensor) {
            return Err(self.expected("rows of one length"));
        }
        Ok(tensor)
    }

    fn const_literal(&mut self) -> Result<Tensor> {
        let ty = self.ty()?;
        let sizes = ty.shape.iter().map(|dim| dim.known().filter(|&size| size >= 0));
        let shape: Option<Vec<i64>> = sizes.collect();
        let count =
            |shape: &Vec<i64>| shape.iter().try_fold(1_i64, |count, &size| count.checked_mul(size));
        let known = shape.and_then(|shape| Some((count(&shape)?, shape)));
        let Some((count, shape)) = known.filter(|(count, _)| *count <= LARGEST) else {
            return Err(self.expected("a constant of known and reasonable size"));
        };
        let dtype = ty.dtype;
        if self.accept("0x") {
            let digits = self.peek_word();
            self.at += digits.len();
            let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
            let data: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
            let tensor = data.map(|data| Tensor { dtype, shape, data: data.into() });
            let tensor = tensor.filter(holds_its_contents);
            return tensor.ok_or_else(|| self.expected("as many bytes as the type asks for"));
        }
        let counting: Vec<i64> = (0..count).map(|i| i % 128).collect();
        Ok(Tensor::of_ints(dtype, shape.clone(), &counting).unwrap_or_else(|| {
            let data = match dtype {
                DType::String => pack_strings((0..count).map(|_| &b""[..])),
                _ => vec![0; (count as usize * dtype.bits()).div_ceil(8)].into(),
            };
            Tensor { dtype, shape, data }
        }))
    }

    fn nested(
        &mut self,
        depth: usize,
        shape: &mut Vec<i64>,
        elements: &mut Vec<Element>,
    ) -> Result<()> {
        if !self.accept("[") {
            elements.push(self.element()?);
            return Ok(());
        }
        let is_first = shape.len() == depth;
        if is_first {
            shape.push(0);
        }
        let mut count = 0;
        while !self.accept("]") {
            if count > 0 {
                self.expect(",")?;
            }
            self.nested(depth + 1, shape, elements)?;
            count += 1;
        }
        if is_first {
            shape[depth] = count;
        } else if shape[depth] != count {
            return Err(self.expected("rows of one length"));
        }
        Ok(())
    }

    fn push_element(&self, data: &mut Vec<u8>, dtype: DType, element: &Element) -> Result<()> {
        match (dtype, element) {
            (DType::String, Element::Text(text)) => data.extend(pack_strings([text.as_bytes()])),
            (DType::Bool, Element::Bool(flag)) => data.push(u8::from(*flag)),
            (_, Element::Number(number)) => match dtype {
                DType::F64 => data.extend(self.number::<f64>(number)?.to_le_bytes()),
                DType::F32 => data.extend(self.number::<f32>(number)?.to_le_bytes()),
                DType::F16 => data.extend(f16::from_f32(self.number(number)?).to_le_bytes()),
                DType::Bf16 => data.extend(bf16::from_f32(self.number(number)?).to_le_bytes()),
                DType::I8 => data.extend(self.number::<i8>(number)?.to_le_bytes()),
                DType::I16 => data.extend(self.number::<i16>(number)?.to_le_bytes()),
                DType::I32 => data.extend(self.number::<i32>(number)?.to_le_bytes()),
                DType::I64 => data.extend(self.number::<i64>(number)?.to_le_bytes()),
                DType::U8 => data.push(self.number(number)?),
                DType::U16 => data.extend(self.number::<u16>(number)?.to_le_bytes()),
                DType::U32 => data.extend(self.number::<u32>(number)?.to_le_bytes()),
                DType::U64 => data.extend(self.number::<u64>(number)?.to_le_bytes()),
                _ => return Err(self.expected("`const`, a type and `0x` for this element type")),
            },
            _ => return Err(self.expected(&format!("elements of `{dtype}`"))),
        }
        Ok(())
    }

    pub fn number<T: std::str::FromStr>(&self, number: &str) -> Result<T> {
        number.parse().map_err(|_| self.expected("a number of this type"))
    }
}
