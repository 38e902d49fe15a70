//! `share-functions`: merges functions with the same title and equal bodies.

use onnx::{Attr, Function, Graph, Model, Node, Operator, ValueId};
use rustc_hash::FxHashMap;

/// Functions come after the functions that they call, so it is known which of those are equal.
pub(crate) fn run(model: &mut Model) {
    let mut same: FxHashMap<Operator, Operator> = FxHashMap::default();
    let (mut kept, mut pairs) = (Vec::new(), Vec::new());
    for (index, function) in model.functions.iter().enumerate() {
        let is_same = |&other: &usize| {
            let mut pairing = Pairing { model, same: &same, partners: FxHashMap::default() };
            pairing.are_same(&model.functions[other], function)
        };
        if let Some(first) = kept.iter().copied().find(is_same) {
            same.insert(function.operator(), model.functions[first].operator());
            pairs.push((first, index));
        } else {
            kept.push(index);
        }
    }
    model.share_functions(&pairs);
    model.tidy_functions();
}

/// A comparison of two functions. They are the same if they differ only in names and origins.
struct Pairing<'a> {
    model: &'a Model,
    /// The function that replaces a function.
    same: &'a FxHashMap<Operator, Operator>,
    /// The value of the second function that corresponds to a value of the first one.
    partners: FxHashMap<ValueId, ValueId>,
}

impl Pairing<'_> {
    fn are_same(&mut self, a: &Function, b: &Function) -> bool {
        (&a.domain, &a.title) == (&b.domain, &b.title) && self.graphs(&a.body, &b.body)
    }

    fn graphs(&mut self, a: &Graph, b: &Graph) -> bool {
        self.define(&a.inputs, &b.inputs)
            && all(&a.nodes, &b.nodes, |a, b| self.nodes(a, b))
            && all(&a.outputs, &b.outputs, |&a, &b| self.operands(Some(a), Some(b)))
    }

    fn nodes(&mut self, a: &Node, b: &Node) -> bool {
        let replaced = |node: &Node| self.same.get(&node.op).unwrap_or(&node.op).clone();
        replaced(a) == replaced(b)
            && all(&a.inputs, &b.inputs, |&a, &b| self.operands(a, b))
            && all(&a.attrs, &b.attrs, |(a, x), (b, y)| a == b && self.attrs(x, y))
            && self.define(&a.outputs, &b.outputs)
    }

    fn define(&mut self, a: &[ValueId], b: &[ValueId]) -> bool {
        self.partners.extend(a.iter().copied().zip(b.iter().copied()));
        all(a, b, |&a, &b| self.model.values[a].ty == self.model.values[b].ty)
    }

    fn operands(&self, a: Option<ValueId>, b: Option<ValueId>) -> bool {
        let (Some(a), Some(b)) = (a, b) else { return a == b };
        match (&self.model.values[a].tensor, &self.model.values[b].tensor) {
            (Some(a), Some(b)) => {
                (a.dtype, &a.shape) == (b.dtype, &b.shape) && (a == b || a.bytes() == b.bytes())
            }
            (None, None) => self.partners.get(&a) == Some(&b),
            _ => false,
        }
    }

    fn attrs(&mut self, a: &Attr, b: &Attr) -> bool {
        // Unlike numbers, bits tell the two zeros apart.
        let are_same = |a: &f32, b: &f32| a.to_bits() == b.to_bits();
        match (a, b) {
            (Attr::Float(a), Attr::Float(b)) => are_same(a, b),
            (Attr::Floats(a), Attr::Floats(b)) => all(a, b, are_same),
            (Attr::Graph(a), Attr::Graph(b)) => self.graphs(a, b),
            _ => a == b,
        }
    }
}

/// True if two lists have the same length, and `are_same` accepts each pair.
fn all<T>(a: &[T], b: &[T], mut are_same: impl FnMut(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_same(a, b))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_model;

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
