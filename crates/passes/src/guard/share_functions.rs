//! `share-functions`: merges functions with the same title and equal bodies.

use onnx::{Attr, Dim, Function, Graph, Model, Node, Operator, Tensor, Type, ValueId};
use rustc_hash::FxHashMap;

/// Functions come after the functions that they call, so a call of a dropped function is already a call of the function
/// that replaces it.
pub(crate) fn run(model: &mut Model) {
    let mut known: FxHashMap<Vec<u8>, usize> = FxHashMap::default();
    let mut same: FxHashMap<Operator, usize> = FxHashMap::default();
    let mut pairs = Vec::new();
    for (index, function) in model.functions.iter().enumerate() {
        let kept = *known.entry(Form::of(model, function, &same)).or_insert(index);
        same.insert(function.operator(), kept);
        if kept != index {
            pairs.push((kept, index));
        }
    }
    model.share_functions(&pairs);
    model.tidy_functions();
}

/// The bytes of a function. They are equal if and only if two functions differ only in names and origins. Every list is
/// preceded by its length.
struct Form<'a> {
    model: &'a Model,
    same: &'a FxHashMap<Operator, usize>,
    /// The number of each value, in the order of definition.
    numbers: FxHashMap<ValueId, usize>,
    bytes: Vec<u8>,
}

impl<'a> Form<'a> {
    fn of(model: &'a Model, function: &Function, same: &'a FxHashMap<Operator, usize>) -> Vec<u8> {
        let mut form = Form { model, same, numbers: FxHashMap::default(), bytes: Vec::new() };
        form.text(&function.domain);
        form.text(&function.title);
        form.graph(&function.body);
        form.bytes
    }

    fn graph(&mut self, graph: &Graph) {
        self.number(graph.inputs.len());
        graph.inputs.iter().for_each(|&id| self.define(id));
        self.number(graph.nodes.len());
        graph.nodes.iter().for_each(|node| self.node(node));
        self.number(graph.outputs.len());
        graph.outputs.iter().for_each(|&id| self.read(Some(id)));
    }

    fn node(&mut self, node: &Node) {
        self.text(node.op.domain());
        if let Some(&function) = self.same.get(&node.op) {
            self.tag(0).number(function);
        } else {
            self.tag(1).text(node.op.name());
        }
        self.number(node.inputs.len());
        node.inputs.iter().for_each(|&id| self.read(id));
        self.number(node.attrs.len());
        for (name, attr) in &node.attrs {
            self.text(name);
            self.attr(attr);
        }
        self.number(node.outputs.len());
        node.outputs.iter().for_each(|&id| self.define(id));
    }

    fn define(&mut self, id: ValueId) {
        let next = self.numbers.len();
        self.numbers.insert(id, next);
        self.ty(self.model.values[id].ty.as_ref());
    }

    /// Writes the contents of a constant, and the number of any other value.
    fn read(&mut self, id: Option<ValueId>) {
        let Some(id) = id else {
            return self.bytes.push(0);
        };
        match (&self.model.values[id].tensor, self.numbers.get(&id)) {
            (Some(tensor), _) => self.tag(1).tensor(tensor),
            (None, Some(&number)) => self.tag(2).number(number),
            // No function reads a value from outside. If one did, it would differ from all others.
            (None, None) => self.tag(3).number(id.index()),
        }
    }

    fn attr(&mut self, attr: &Attr) {
        match attr {
            Attr::Int(value) => self.tag(0).bytes.extend(value.to_le_bytes()),
            Attr::Float(value) => self.tag(1).bytes.extend(value.to_le_bytes()),
            Attr::Str(value) => self.tag(2).text(value),
            Attr::Ints(values) => {
                self.tag(3).number(values.len());
                self.bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            }
            Attr::Floats(values) => {
                self.tag(4).number(values.len());
                self.bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            }
            Attr::Strs(values) => {
                self.tag(5).number(values.len());
                values.iter().for_each(|value| self.text(value));
            }
            Attr::Tensor(tensor) => self.tag(6).tensor(tensor),
            Attr::Graph(graph) => self.tag(7).graph(graph),
        }
    }

    fn tensor(&mut self, tensor: &Tensor) {
        self.text(&tensor.dtype.to_string());
        self.number(tensor.shape.len());
        self.bytes.extend(tensor.shape.iter().flat_map(|size| size.to_le_bytes()));
        self.number(tensor.byte_len());
        self.bytes.extend_from_slice(&tensor.bytes());
    }

    fn ty(&mut self, ty: Option<&Type>) {
        let Some(ty) = ty else {
            return self.bytes.push(0);
        };
        self.tag(1).text(&ty.dtype.to_string());
        self.number(ty.shape.len());
        for dim in ty.shape.iter() {
            match dim {
                Dim::Known(size) => self.tag(0).bytes.extend(size.to_le_bytes()),
                Dim::Symbolic(size) => self.tag(1).text(&size.to_string()),
            }
        }
    }

    /// Writes a byte that tells variants apart.
    fn tag(&mut self, tag: u8) -> &mut Self {
        self.bytes.push(tag);
        self
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, number: usize) {
        self.bytes.extend((number as u64).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check_model;

    #[test]
    fn functions_with_equal_bodies_are_merged_with_all_origins() {
        check_model(
            super::run,
            "graph g(x:f32[3]) -> (y)
%0:f32[3] = my::f(x)
%1:f32[3] = my::f_2(%0)
y:f32[3] = my::f_3(%1)
function my::f(%2:f32[3]) -> (%4)
%3:f32[3] = Sin(%2)
%4:f32[3] = Mul(%3, 2.0)
function my::f_2(%5:f32[3]) -> (%7)
%6:f32[3] = Sin(%5)
%7:f32[3] = Mul(%6, 3.0)
function my::f_3(%8:f32[3]) -> (%10)
%9:f32[3] = Sin(%8)
%10:f32[3] = Mul(%9, 2.0)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                %0 = my::f(x)  # 2
                %1 = my::f_2(%0)  # 3
                y:f32[3] = my::f(%1)  # 4
                function my::f(%2:f32[3]) -> (%4)
                %3 = Sin(%2)  # 6 12
                %4:f32[3] = Mul(%3, 2.0)  # 7 13
                function my::f_2(%5:f32[3]) -> (%7)
                %6 = Sin(%5)  # 9
                %7:f32[3] = Mul(%6, 3.0)  # 10
            "#]],
        );
    }

    #[test]
    fn another_type_or_another_use_of_the_inputs_makes_another_function() {
        check_model(
            super::run,
            "graph g(x:f32[3], z:f32[B]) -> (a, b, c)
a:f32[3] = my::f(x, x)
b:f32[B] = my::f_2(z, z)
c:f32[3] = my::f_3(x, x)
function my::f(%0:f32[3], %1:f32[3]) -> (%2)
%2:f32[3] = Sub(%0, %1)
function my::f_2(%3:f32[B], %4:f32[B]) -> (%5)
%5:f32[B] = Sub(%3, %4)
function my::f_3(%6:f32[3], %7:f32[3]) -> (%8)
%8:f32[3] = Sub(%7, %6)",
            expect![[r#"
                graph g(x:f32[3], z:f32[B]) -> (a, b, c)
                a:f32[3] = my::f(x, x)  # 2
                b:f32[B] = my::f_2(z, z)  # 3
                c:f32[3] = my::f_3(x, x)  # 4
                function my::f(%0:f32[3], %1:f32[3]) -> (%2)
                %2:f32[3] = Sub(%0, %1)  # 6
                function my::f_2(%3:f32[B], %4:f32[B]) -> (%5)
                %5:f32[B] = Sub(%3, %4)  # 8
                function my::f_3(%6:f32[3], %7:f32[3]) -> (%8)
                %8:f32[3] = Sub(%7, %6)  # 10
            "#]],
        );
    }

    #[test]
    fn callers_of_equal_functions_are_equal_and_uncalled_functions_are_dropped() {
        check_model(
            super::run,
            "graph g(x:f32[3]) -> (y)
%0:f32[3] = my::f_3(x)
y:f32[3] = my::f_4(%0)
function my::f(%1:f32[3]) -> (%2)
%2:f32[3] = Sin(%1)
function my::f_2(%3:f32[3]) -> (%4)
%4:f32[3] = Sin(%3)
function my::f_3(%5:f32[3]) -> (%6)
%6:f32[3] = my::f(%5)
function my::f_4(%7:f32[3]) -> (%8)
%8:f32[3] = my::f_2(%7)
function my::f_5(%9:f32[3]) -> (%10)
%10:f32[3] = Cos(%9)",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                %0 = my::f_2(x)  # 2
                y:f32[3] = my::f_2(%0)  # 3
                function my::f(%1:f32[3]) -> (%2)
                %2:f32[3] = Sin(%1)  # 5 7
                function my::f_2(%3:f32[3]) -> (%4)
                %4:f32[3] = my::f(%3)  # 9 11
            "#]],
        );
    }
}
