//! Prints a model as text.

use std::cell::RefCell;
use std::fmt::{self, Display, Formatter};

use cursor::quoted;
use half::{bf16, f16};
use rustc_hash::FxHashMap;

use super::is_plain_name;
use crate::attr::Attr;
use crate::check::{constants_of, holds_its_contents, type_of};
use crate::dtype::DType;
use crate::model::{Graph, Model, Node};
use crate::proto::{OMITTED, unpack_strings};
use crate::tensor::Tensor;
use crate::value::ValueId;

/// A model that can be displayed.
pub struct Text<'a> {
    model: &'a Model,
    is_typed: bool,
    /// The numbers of values without a name.
    numbers: RefCell<FxHashMap<ValueId, usize>>,
}

/// Larger constants are printed as their type.
const SHOWN_ELEMENTS: usize = 8;

impl<'a> Text<'a> {
    pub(super) fn new(model: &'a Model, is_typed: bool) -> Text<'a> {
        Text { model, is_typed, numbers: RefCell::default() }
    }

    fn graph(
        &self,
        f: &mut Formatter<'_>,
        title: &str,
        graph: &Graph,
        depth: usize,
    ) -> fmt::Result {
        write!(f, "{:indent$}{title}(", "", indent = 2 * depth)?;
        separated(f, &graph.inputs, |f, &id| self.definition(f, id, true))?;
        f.write_str(") -> (")?;
        // The outputs are defined below, so values without a name get their numbers here.
        for node in &graph.nodes {
            for &id in &node.outputs {
                self.number(id);
            }
        }
        separated(f, &graph.outputs, |f, &id| self.operand(f, Some(id)))?;
        f.write_str(")\n")?;
        if depth == 0 {
            self.declarations(f, graph)?;
        }
        for node in &graph.nodes {
            write!(f, "{:indent$}", "", indent = 2 * depth)?;
            self.node(f, graph, node, depth)?;
            f.write_str("\n")?;
        }
        Ok(())
    }

    /// Writes the named constants.
    fn declarations(&self, f: &mut Formatter<'_>, graph: &Graph) -> fmt::Result {
        for id in constants_of(self.model, graph) {
            let value = &self.model.values[id];
            if let (Some(name), Some(tensor)) = (&value.name, &value.tensor) {
                writeln!(f, "{} = {}", Name(name), Literal(tensor))?;
            }
        }
        Ok(())
    }

    fn node(&self, f: &mut Formatter<'_>, graph: &Graph, node: &Node, depth: usize) -> fmt::Result {
        separated(f, &node.outputs, |f, &id| self.definition(f, id, graph.outputs.contains(&id)))?;
        f.write_str(" = ")?;
        if !node.op.domain().is_empty() {
            write!(f, "{}::", Name(node.op.domain()))?;
        }
        write!(f, "{}(", Name(node.op.name()))?;
        separated(f, &node.inputs, |f, &id| self.operand(f, id))?;
        f.write_str(")")?;
        if node.attrs.is_empty() {
            return Ok(());
        }
        let mut attrs: Vec<_> = node.attrs.iter().collect();
        attrs.sort_by(|left, right| left.0.cmp(&right.0));
        f.write_str(" {")?;
        separated(f, attrs, |f, (name, attr)| {
            write!(f, "{}=", Name(name))?;
            self.attr(f, attr, depth)
        })?;
        f.write_str("}")
    }

    fn attr(&self, f: &mut Formatter<'_>, attr: &Attr, depth: usize) -> fmt::Result {
        match attr {
            Attr::Int(value) => value.fmt(f),
            Attr::Float(value) => Float(value).fmt(f),
            Attr::Str(value) => f.write_str(&quoted(value, '"')),
            Attr::Ints(values) => list(f, values.iter()),
            Attr::Floats(values) if values.is_empty() => f.write_str("[]:floats"),
            Attr::Floats(values) => list(f, values.iter().map(Float)),
            Attr::Strs(values) if values.is_empty() => f.write_str("[]:strings"),
            Attr::Strs(values) => list(f, values.iter().map(|value| quoted(value, '"'))),
            Attr::Tensor(tensor) => write!(f, "tensor {}", Literal(tensor)),
            Attr::Graph(graph) => {
                f.write_str("{\n")?;
                self.graph(f, &format!("graph {}", Name(&graph.name)), graph, depth + 1)?;
                write!(f, "{:indent$}}}", "", indent = 2 * depth)
            }
        }
    }

    fn definition(&self, f: &mut Formatter<'_>, id: ValueId, is_interface: bool) -> fmt::Result {
        self.reference(f, id)?;
        match &self.model.values[id].ty {
            Some(ty) if self.is_typed || is_interface => write!(f, ":{ty}"),
            _ => Ok(()),
        }
    }

    fn operand(&self, f: &mut Formatter<'_>, id: Option<ValueId>) -> fmt::Result {
        let Some(id) = id else {
            return f.write_str("_");
        };
        let value = &self.model.values[id];
        match (&value.tensor, &value.name) {
            (Some(tensor), None) => Literal(tensor).fmt(f),
            _ => self.reference(f, id),
        }
    }

    fn reference(&self, f: &mut Formatter<'_>, id: ValueId) -> fmt::Result {
        match self.model.values[id].name.as_deref() {
            Some(OMITTED) => f.write_str("_"),
            Some(name) => Name(name).fmt(f),
            None => write!(f, "%{}", self.number(id)),
        }
    }

    fn number(&self, id: ValueId) -> usize {
        if self.model.values[id].name.is_some() {
            return 0;
        }
        let mut numbers = self.numbers.borrow_mut();
        let next = numbers.len();
        *numbers.entry(id).or_insert(next)
    }
}

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.numbers.borrow_mut().clear();
        let graph = &self.model.graph;
        self.graph(f, &format!("graph {}", Name(&graph.name)), graph, 0)?;
        for function in &self.model.functions {
            let title = format!("function {}::{}", Name(&function.domain), Name(&function.name));
            self.graph(f, &title, &function.body, 0)?;
        }
        Ok(())
    }
}

/// A name, in backticks if it needs them.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if is_plain_name(self.0) {
            return f.write_str(self.0);
        }
        f.write_str(&quoted(self.0, '`'))
    }
}

/// A float that is printed with a decimal point or an exponent.
struct Float<T>(T);

impl<T: fmt::Debug> Display for Float<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = format!("{:?}", self.0);
        f.write_str(if text == "NaN" { "nan" } else { &text })
    }
}

/// The contents of a tensor, or its type if it is large.
struct Literal<'a>(&'a Tensor);

impl Display for Literal<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let tensor = self.0;
        let is_listed = holds_its_contents(tensor) && (!tensor.is_empty() || tensor.shape == [0]);
        if is_listed && tensor.len() <= SHOWN_ELEMENTS {
            if let Some(elements) = elements(tensor) {
                nested(f, &tensor.shape, &elements)?;
                let says_its_type =
                    matches!(tensor.dtype, DType::F32 | DType::Bool | DType::String);
                if !says_its_type || elements.is_empty() {
                    write!(f, ":{}", tensor.dtype)?;
                }
                return Ok(());
            }
            write!(f, "const {} 0x", type_of(tensor))?;
            return tensor.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"));
        }
        write!(f, "const {}", type_of(tensor))
    }
}

/// Returns the elements of a tensor as text, if the text is exact.
fn elements(tensor: &Tensor) -> Option<Vec<String>> {
    fn each<T: Display, const N: usize>(
        data: &[u8],
        element: impl Fn([u8; N]) -> T,
    ) -> Vec<String> {
        data.as_chunks().0.iter().map(|&bytes| element(bytes).to_string()).collect()
    }
    let data = &tensor.bytes();
    Some(match tensor.dtype {
        DType::F64 => each(data, |bytes| Float(f64::from_le_bytes(bytes))),
        DType::F32 => each(data, |bytes| Float(f32::from_le_bytes(bytes))),
        DType::F16 => each(data, |bytes| Float(f16::from_le_bytes(bytes).to_f32())),
        DType::Bf16 => each(data, |bytes| Float(bf16::from_le_bytes(bytes).to_f32())),
        DType::Bool => each(data, |[byte]| byte != 0),
        DType::I8 => each(data, i8::from_le_bytes),
        DType::I16 => each(data, i16::from_le_bytes),
        DType::I32 => each(data, i32::from_le_bytes),
        DType::I64 => each(data, i64::from_le_bytes),
        DType::U8 => each(data, u8::from_le_bytes),
        DType::U16 => each(data, u16::from_le_bytes),
        DType::U32 => each(data, u32::from_le_bytes),
        DType::U64 => each(data, u64::from_le_bytes),
        DType::String => {
            let shown = |bytes: &[u8]| Some(quoted(str::from_utf8(bytes).ok()?, '"'));
            unpack_strings(data)?.into_iter().map(shown).collect::<Option<_>>()?
        }
        _ => return None,
    })
}

/// Writes elements in as many levels of brackets as there are axes.
fn nested(f: &mut Formatter<'_>, shape: &[i64], elements: &[String]) -> fmt::Result {
    let Some((&size, inner)) = shape.split_first() else {
        return elements.iter().try_for_each(|element| f.write_str(element));
    };
    let each = elements.len() / size.max(1) as usize;
    f.write_str("[")?;
    separated(f, elements.chunks(each.max(1)), |f, part| nested(f, inner, part))?;
    f.write_str("]")
}

fn list(f: &mut Formatter<'_>, items: impl Iterator<Item = impl Display>) -> fmt::Result {
    f.write_str("[")?;
    separated(f, items, |f, item| item.fmt(f))?;
    f.write_str("]")
}

fn separated<T>(
    f: &mut Formatter<'_>,
    items: impl IntoIterator<Item = T>,
    mut show: impl FnMut(&mut Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        show(f, item)?;
    }
    Ok(())
}
