//! Parses arrays: contents, type and name.

use bytes::Bytes;
use cursor::{Parse, Result};

use super::Parser;
use crate::Dim;
use crate::aval::{Aval, DType};
use crate::constant::Constant;
use crate::element;

/// The numbers of an array, before its type is known.
enum Contents<'a> {
    Bytes(Vec<u8>),
    One(Vec<&'a str>),
    Many(Vec<Vec<&'a str>>),
}

impl<'a> Parser<'a> {
    /// Reads `1.0:f32[]`, `[1, 2]:i32[2] "name"` or `hex"0a0b":u8[2]`. The type may be omitted if it is `known`.
    pub(super) fn constant(&mut self, known: Option<&Aval>) -> Result<Constant> {
        self.cursor.skip_space();
        let start = self.cursor.position();
        let contents = self.contents()?;
        let aval = match known {
            Some(aval) if !self.cursor.rest().starts_with(':') => aval.clone(),
            _ => {
                self.cursor.expect(":")?;
                self.aval()?
            }
        };
        let no_array =
            || self.cursor.error_at(start, "the type of an array must be one of known sizes");
        let Aval::Array { dtype, shape } = aval else {
            return Err(no_array());
        };
        let shape: Vec<i64> =
            shape.iter().map(Dim::known).collect::<Option<_>>().ok_or_else(no_array)?;
        let mut constant = Constant { dtype, shape: shape.into(), data: Bytes::new(), name: None };
        let data = data(&constant, contents);
        constant.data = data.map_err(|message| self.cursor.error_at(start, message))?.into();
        self.cursor.skip_blanks();
        if self.cursor.peek() == Some('"') {
            constant.name = Some(self.cursor.quoted('"')?.into());
        }
        Ok(constant)
    }

    fn contents(&mut self) -> Result<Contents<'a>> {
        if self.cursor.rest().starts_with("hex\"") {
            self.cursor.advance("hex".len());
            let digits = self.cursor.quoted('"')?;
            let bytes = unhex(&digits).ok_or_else(|| self.cursor.expected("hexadecimal digits"));
            return bytes.map(Contents::Bytes);
        }
        if self.cursor.eat("[") {
            return self.list("]", Parser::numbers).map(Contents::Many);
        }
        self.numbers().map(Contents::One)
    }

    /// Reads one element: a number, or the two numbers of a complex one in parentheses.
    fn numbers(&mut self) -> Result<Vec<&'a str>> {
        if self.cursor.eat("(") {
            return self.list(")", Parser::number);
        }
        Ok(vec![self.number()?])
    }

    fn number(&mut self) -> Result<&'a str> {
        self.cursor.skip_space();
        let number = self.cursor.take(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        if number.is_empty() { Err(self.cursor.expected("a number")) } else { Ok(number) }
    }
}

/// Returns the bytes of an array. Their number matches the type, unless the text contains bytes.
fn data(constant: &Constant, contents: Contents<'_>) -> Result<Vec<u8>, String> {
    let elements = match contents {
        Contents::Bytes(bytes) => return Ok(bytes),
        Contents::One(_) if !constant.shape.is_empty() => {
            return Err("an array with axes is written as a list".into());
        }
        Contents::One(element) => vec![element],
        Contents::Many(elements) => elements,
    };
    if Some(elements.len()) != constant.elements() {
        let (found, shape) = (elements.len(), &constant.shape);
        return Err(format!("{found} elements do not fill the shape {shape:?}"));
    }
    let mut data = Vec::new();
    for numbers in elements {
        data.extend(element_bytes(&constant.dtype, &numbers)?);
    }
    Ok(data)
}

fn element_bytes(dtype: &DType, numbers: &[&str]) -> Result<Vec<u8>, String> {
    let (part, parts) = element::parts(dtype).ok_or("an array of this type is written as bytes")?;
    if numbers.len() != parts {
        return Err(format!("an element of `{dtype}` is {parts} numbers"));
    }
    let mut bytes = Vec::new();
    for number in numbers {
        let number = element::read(&part, number);
        bytes.extend(number.ok_or_else(|| format!("`{}` is not a `{part}`", numbers.join(", ")))?);
    }
    Ok(bytes)
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.chars().map(|digit| digit.to_digit(16)).collect::<Option<Vec<_>>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    Some(pairs.iter().map(|[high, low]| (high * 16 + low) as u8).collect())
}
