//! Reads attributes and short constants from a scan.

use std::sync::Arc;

use crate::attr::Attr;
use crate::check::holds_its_contents;
use crate::dtype::DType;
use crate::scan::{self, AttributeValue, Node};
use crate::tensor::Tensor;
use crate::value::{Dim, Type};

/// Constants with more elements are not read.
const MAX_ELEMENTS: u64 = 1 << 10;

/// The attributes of a node.
#[derive(Default)]
pub(super) struct Attributes<'a> {
    pub values: Vec<(Arc<str>, Attr)>,
    /// The attributes whose values are those of attributes of a call, with the names of these.
    pub references: Vec<(Arc<str>, &'a str)>,
}

/// Returns the type of a constant; `None` if the file has none.
pub(super) fn type_of(tensor: &scan::Tensor<'_>) -> Option<Type> {
    tensor.elements()?;
    let shape: Vec<Dim> = tensor.dims.iter().map(|&size| Dim::Known(size)).collect();
    Some(Type::new(DType::from_code(tensor.element)?, shape))
}

/// Returns a constant with its contents, if it is short and in the file.
pub(super) fn short(tensor: &scan::Tensor<'_>) -> Option<Tensor> {
    let is_short = tensor.elements().is_some_and(|count| count <= MAX_ELEMENTS);
    if !is_short || tensor.is_external || tensor.is_sparse {
        return None;
    }
    let dtype = DType::from_code(tensor.element).filter(|dtype| dtype.bits() > 0)?;
    let bytes = match tensor.raw {
        Some(raw) => bytes::Bytes::copy_from_slice(raw),
        None => tensor.listed().unwrap_or_default(),
    };
    Some(Tensor::new(dtype, tensor.dims.clone(), bytes)).filter(holds_its_contents)
}

/// Returns the attributes of a node.
pub(super) fn attributes<'a>(node: &Node<'a>) -> Attributes<'a> {
    let text = |bytes: &[u8]| -> Arc<str> { String::from_utf8_lossy(bytes).into() };
    let mut found = Attributes::default();
    for attribute in &node.attributes {
        let name: Arc<str> = attribute.name.into();
        let value = match attribute.value() {
            AttributeValue::Int(value) => Attr::Int(value),
            AttributeValue::Float(value) => Attr::Float(value),
            AttributeValue::Text(value) => Attr::Str(text(value)),
            AttributeValue::Ints(values) => Attr::Ints(values.into()),
            AttributeValue::Floats(values) => Attr::Floats(values.into()),
            AttributeValue::Texts(values) => Attr::Strs(values.into_iter().map(text).collect()),
            AttributeValue::Tensor(tensor) => match tensor_attribute(&tensor) {
                Some(tensor) => Attr::Tensor(Arc::new(tensor)),
                None => continue,
            },
            AttributeValue::Reference(of) => {
                found.references.push((name, of));
                continue;
            }
            AttributeValue::Graphs | AttributeValue::Other => continue,
        };
        found.values.push((name, value));
    }
    found
}

/// Returns a tensor whose contents are missing if they are long.
fn tensor_attribute(tensor: &scan::Tensor<'_>) -> Option<Tensor> {
    tensor.elements().filter(|&count| i64::try_from(count).is_ok())?;
    let dtype = DType::from_code(tensor.element)?;
    let missing = || Tensor::new(dtype, tensor.dims.clone(), bytes::Bytes::new());
    Some(short(tensor).unwrap_or_else(missing))
}
