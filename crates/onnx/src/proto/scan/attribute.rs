//! Locates attributes, and decodes them when they are needed.

use super::super::generated::attribute_proto::AttributeType;
use super::super::schema::{Field, Message};
use super::super::wire::{FieldBytes, FormatError, MessageBytes};
use super::Memory;
use super::types::{self, Tensor};

/// An attribute of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attribute<'a> {
    pub name: &'a str,
    /// The number in `AttributeProto.AttributeType`.
    pub kind: i32,
    /// In a function: the name of the attribute of the call that has the value.
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
    /// One or more graphs, which are in [`Scan::graphs`](super::Scan::graphs).
    Graphs,
    /// The value of this attribute of the call of the function.
    Reference(&'a str),
    /// No value, or one of a kind that is not read.
    Other,
}

/// The maximum number of elements to return; the others are left out.
const MAX_NUMBERS: usize = 1 << 20;
/// The largest memory for the parts of one attribute, in bytes.
const MAX_MEMORY: usize = 1 << 26;

/// Returns an attribute and the graphs in it.
pub(super) fn read<'a>(
    memory: &mut Memory,
    field: &FieldBytes<'a>,
) -> Result<(Attribute<'a>, Vec<MessageBytes<'a>>), FormatError> {
    let mut attribute = Attribute { message: field.bytes(), ..Attribute::default() };
    let mut bodies = Vec::new();
    for field in field.message()? {
        let field = field?;
        match field.id() {
            Field::AttributeName => attribute.name = field.text()?,
            Field::AttributeG | Field::AttributeGraphs => {
                if let Some(body) = field.nested()? {
                    memory.push(&mut bodies, body)?;
                }
            }
            Field::AttributeType => attribute.kind = field.int() as i32,
            Field::AttributeRefAttrName => attribute.reference = field.text()?,
            _ => field.check()?,
        }
    }
    Ok((attribute, bodies))
}

impl<'a> Attribute<'a> {
    /// Returns the value; damaged parts are left out.
    pub fn value(&self) -> AttributeValue<'a> {
        if !self.reference.is_empty() {
            return AttributeValue::Reference(self.reference);
        }
        let Ok(kind) = AttributeType::try_from(self.kind) else { return AttributeValue::Other };
        let ints = |field: &FieldBytes<'a>| field.ints().map_while(Result::ok);
        match kind {
            AttributeType::Float => self
                .all(Field::AttributeF)
                .filter_map(|field| field.floats().next())
                .last()
                .map_or(AttributeValue::Other, AttributeValue::Float),
            AttributeType::Int => self
                .all(Field::AttributeI)
                .last()
                .map_or(AttributeValue::Other, |field| AttributeValue::Int(field.int())),
            AttributeType::String => {
                let text = self.all(Field::AttributeS).last();
                AttributeValue::Text(text.map(|field| field.bytes()).unwrap_or_default())
            }
            AttributeType::Tensor => self
                .all(Field::AttributeT)
                .filter_map(|field| types::tensor(&mut Memory(MAX_MEMORY), &field).ok())
                .last()
                .map_or(AttributeValue::Other, AttributeValue::Tensor),
            AttributeType::Graph | AttributeType::Graphs => AttributeValue::Graphs,
            AttributeType::Floats => AttributeValue::Floats(
                self.all(Field::AttributeFloats)
                    .flat_map(|field| field.floats())
                    .take(MAX_NUMBERS)
                    .collect(),
            ),
            AttributeType::Ints => AttributeValue::Ints(
                self.all(Field::AttributeInts)
                    .flat_map(|field| ints(&field))
                    .take(MAX_NUMBERS)
                    .collect(),
            ),
            AttributeType::Strings => AttributeValue::Texts(
                self.all(Field::AttributeStrings)
                    .map(|field| field.bytes())
                    .take(MAX_NUMBERS)
                    .collect(),
            ),
            _ => AttributeValue::Other,
        }
    }

    /// Returns the fields with this id.
    fn all(&self, id: Field) -> impl Iterator<Item = FieldBytes<'a>> + use<'a> {
        let fields = MessageBytes::new(Message::Attribute, self.message).map_while(Result::ok);
        fields.filter(move |field| field.id() == id)
    }
}
