//! Reads types and constants.

use cursor::{Parse, Result};
use half::{bf16, f16};

use super::Parser;
use crate::check::holds_its_contents;
use crate::dtype::DType;
use crate::proto::pack_strings;
use crate::tensor::Tensor;
use crate::text::is_plain;
use crate::value::{Dim, Type};

/// An element of a constant in the text.
pub(super) enum Element {
    Number(String),
    Bool(bool),
    Text(String),
}

/// The maximum number of elements of a constant of which the text contains only the type.
const MAX_ELEMENTS: i64 = 1 << 24;

impl Parser<'_> {
    /// `f32[2,B]`
    pub(super) fn ty(&mut self) -> Result<Type> {
        let dtype = self.dtype()?;
        self.cursor.expect("[")?;
        let Some(end) = self.cursor.rest().find(']') else {
            return Err(self.cursor.expected("`]`"));
        };
        let dims = &self.cursor.rest()[..end];
        self.cursor.advance(end + 1);
        let (mut shape, mut depth, mut start) = (Vec::new(), 0, 0);
        let mut push = |dim: &str| {
            let dim = dim.trim();
            shape.push(dim.parse().map_or_else(|_| Dim::from_param(dim), Dim::Known));
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
            return Err(self.cursor.expected("an element type"));
        };
        self.cursor.advance(word.len());
        Ok(dtype)
    }

    /// True if a constant comes next.
    pub(super) fn is_literal(&mut self) -> bool {
        let word = self.peek_word();
        matches!(word, "const" | "inf" | "nan" | "true" | "false")
            || self
                .cursor
                .rest()
                .starts_with(|first: char| first.is_ascii_digit() || "-[\"".contains(first))
    }

    /// Reads a number, `true`, `false` or a text.
    pub(super) fn element(&mut self) -> Result<Element> {
        if self.cursor.is_next("\"") {
            return Ok(Element::Text(self.cursor.quoted('"')?));
        }
        for flag in [true, false] {
            if self.eat_word(if flag { "true" } else { "false" }) {
                return Ok(Element::Bool(flag));
            }
        }
        let is_part = |character: char| is_plain(character) || "+-".contains(character);
        let number = self.cursor.peek_while(is_part);
        if number.parse::<f64>().is_err() {
            return Err(self.cursor.expected("a constant"));
        }
        self.cursor.advance(number.len());
        Ok(Element::Number(number.into()))
    }

    /// `2.0`, `[1, 2]:i64`, `const f32[3,4]`, `const u4[2] 0x21`
    pub(super) fn literal(&mut self) -> Result<Tensor> {
        if self.eat_word("const") {
            return self.const_literal();
        }
        let (mut shape, mut elements) = (Vec::new(), Vec::new());
        self.rows(0, &mut shape, &mut elements)?;
        let dtype = if self.cursor.eat(":") {
            self.dtype()?
        } else {
            match elements.first() {
                Some(Element::Text(_)) => DType::String,
                Some(Element::Bool(_)) => DType::Bool,
                Some(Element::Number(number)) if number.parse::<i64>().is_err() => DType::F32,
                _ => return Err(self.cursor.expected("`:` and an element type")),
            }
        };
        let mut data = Vec::new();
        for element in &elements {
            self.push_element(&mut data, dtype, element)?;
        }
        let tensor = Tensor::new(dtype, shape, data);
        if !holds_its_contents(&tensor) {
            return Err(self.cursor.expected("rows of one length"));
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
        let Some((count, shape)) = known.filter(|(count, _)| *count <= MAX_ELEMENTS) else {
            return Err(self.cursor.expected("a constant of known and reasonable size"));
        };
        let dtype = ty.dtype;
        if self.cursor.eat("0x") {
            let digits = self.peek_word();
            self.cursor.advance(digits.len());
            let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
            let data: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
            let tensor = data.map(|data| Tensor::new(dtype, shape, data));
            let tensor = tensor.filter(holds_its_contents);
            return tensor
                .ok_or_else(|| self.cursor.expected("as many bytes as the type asks for"));
        }
        let counting: Vec<i64> = (0..count).map(|i| i % 128).collect();
        Ok(Tensor::of_ints(dtype, shape.clone(), &counting).unwrap_or_else(|| {
            let data = match dtype {
                DType::String => pack_strings((0..count).map(|_| &b""[..])),
                _ => vec![0; (count as usize * dtype.bits()).div_ceil(8)].into(),
            };
            Tensor::new(dtype, shape, data)
        }))
    }

    /// Reads the brackets of an array from axis `depth` on. Returns its elements and the sizes of its axes.
    fn rows(
        &mut self,
        depth: usize,
        shape: &mut Vec<i64>,
        elements: &mut Vec<Element>,
    ) -> Result<()> {
        if !self.cursor.eat("[") {
            elements.push(self.element()?);
            return Ok(());
        }
        let is_first = shape.len() == depth;
        if is_first {
            shape.push(0);
        }
        let mut count = 0;
        while !self.cursor.eat("]") {
            if count > 0 {
                self.cursor.expect(",")?;
            }
            self.nested(|parser| parser.rows(depth + 1, shape, elements))?;
            count += 1;
        }
        if is_first {
            shape[depth] = count;
        } else if shape[depth] != count {
            return Err(self.cursor.expected("rows of one length"));
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
                _ => {
                    return Err(self
                        .cursor
                        .expected("`const`, a type and `0x` for this element type"));
                }
            },
            _ => return Err(self.cursor.expected(&format!("elements of `{dtype}`"))),
        }
        Ok(())
    }

    pub(super) fn number<T: std::str::FromStr>(&self, number: &str) -> Result<T> {
        number.parse().map_err(|_| self.cursor.expected("a number of this type"))
    }
}
