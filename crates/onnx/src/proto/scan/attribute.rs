//! Locates attributes, and decodes them when they are needed.

use super::super::wire::{Content, Fields};
use super::message::Reader;
use super::types::{self, Tensor};
use super::{Pair2, ScanError, numbers};

/// An attribute of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attribute<'a> {
    pub name: &'a str,
    /// The number in `AttributeProto.AttributeType`.
    pub kind: i32,
    /// In a function: the attribute of the call that gives the value.
    pub reference: &'a str,
    /// The whole message.
    pub message: &'a [u8],
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AttributeValue<'a> {
    Int(i64),
    Float(f32),
    Text(&'a [u8]),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Texts(Vec<&'a [u8]>),
    Tensor(Tensor<'a>),
    /// The bodies are graphs of the scan.
    Graphs,
    /// Taken from the call of the function.
    Reference(&'a str),
    /// Nothing, or what is not known here.
    Other,
}

/// The number of elements of an attribute that are returned.
const MAX_NUMBERS: usize = 1 << 20;
/// The largest memory for the parts of one attribute, in bytes.
const MAX_MEMORY: usize = 1 << 26;

pub(super) fn read<'a>(
    reader: &mut Reader<'a>,
    content: &'a [u8],
    bodies: &mut Vec<Pair2<'a>>,
) -> Result<Attribute<'a>, ScanError> {
    let mut attribute = Attribute { message: content, ..Attribute::default() };
    let first = bodies.len();
    for field in reader.fields("AttributeProto", content) {
        let field = field?;
        match field.number {
            1 => attribute.name = field.text()?,
            6 | 11 => reader.push(bodies, ("", field.message()?))?,
            20 => attribute.kind = field.int()? as i32,
            21 => attribute.reference = field.text()?,
            5 | 10 => drop(field.message()?),
            _ => {}
        }
    }
    // The name may stand behind the bodies.
    bodies[first..].iter_mut().for_each(|body| body.0 = attribute.name);
    Ok(attribute)
}

impl<'a> Attribute<'a> {
    /// Returns the value; damaged parts are left out.
    pub fn value(&self) -> AttributeValue<'a> {
        if !self.reference.is_empty() {
            return AttributeValue::Reference(self.reference);
        }
        let fields = || Fields(self.message).map_while(Result::ok);
        let last = |number: u64| fields().filter(|field| field.number == number).last();
        let all = |number: u64| fields().filter(move |field| field.number == number);
        let texts = |number: u64| all(number).filter_map(|field| field.bytes());
        let float = |bits: u32| f32::from_bits(bits);
        match self.kind {
            1 => match last(2).map(|field| field.content) {
                Some(Content::Fixed32(bits)) => AttributeValue::Float(float(bits)),
                _ => AttributeValue::Other,
            },
            2 => match last(3).map(|field| field.content) {
                Some(Content::Number(number)) => AttributeValue::Int(number as i64),
                _ => AttributeValue::Other,
            },
            3 => AttributeValue::Text(texts(4).last().unwrap_or_default()),
            4 => self.tensors().next().map_or(AttributeValue::Other, AttributeValue::Tensor),
            5 | 10 => AttributeValue::Graphs,
            6 => {
                let packed = all(7).flat_map(|field| floats(field.content));
                AttributeValue::Floats(packed.take(MAX_NUMBERS).collect())
            }
            7 => {
                let ints = all(8).flat_map(|field| numbers(field.content)).map_while(Result::ok);
                AttributeValue::Ints(ints.map(|int| int as i64).take(MAX_NUMBERS).collect())
            }
            8 => AttributeValue::Texts(texts(9).take(MAX_NUMBERS).collect()),
            _ => AttributeValue::Other,
        }
    }

    /// Returns the tensors in it, without damaged ones.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'a>> + use<'a> {
        let message = self.message;
        let fields = Fields(message).map_while(Result::ok);
        let tensors = fields.filter(|field| matches!(field.number, 5 | 10));
        tensors.filter_map(|field| field.bytes()).filter_map(move |content| {
            types::tensor(&mut Reader::new(message, MAX_MEMORY), content).ok()
        })
    }
}

fn floats(content: Content<'_>) -> Vec<f32> {
    match content {
        Content::Fixed32(bits) => vec![f32::from_bits(bits)],
        Content::Bytes(bytes) => {
            let chunks = bytes.as_chunks::<4>().0.iter().take(MAX_NUMBERS);
            chunks.map(|chunk| f32::from_le_bytes(*chunk)).collect()
        }
        _ => Vec::new(),
    }
}
