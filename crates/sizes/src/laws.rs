//! Checks that sizes have the same values as random expressions, for random values of the symbols.

use proptest::prelude::*;

use crate::polynomial::Operation;
use crate::{Dim, Symbol};

const SYMBOLS: [&str; 3] = ["a", "B", "max"];

/// An expression as a tree.
#[derive(Clone, Debug)]
enum Tree {
    Number(i64),
    Symbol(usize),
    Node(Node, Box<[Tree; 2]>),
}

#[derive(Clone, Copy, Debug)]
enum Node {
    Add,
    Sub,
    Mul,
    Operation(Operation),
}

fn trees() -> impl Strategy<Value = Tree> {
    let nodes = prop::sample::select(vec![
        Node::Add,
        Node::Sub,
        Node::Mul,
        Node::Operation(Operation::FloorDiv),
        Node::Operation(Operation::Max),
        Node::Operation(Operation::Min),
        Node::Operation(Operation::Mod),
    ]);
    let leaves = prop_oneof![
        (-4..=9i64).prop_map(Tree::Number),
        (0..SYMBOLS.len()).prop_map(Tree::Symbol),
        (0..SYMBOLS.len()).prop_map(Tree::Symbol),
    ];
    leaves.prop_recursive(4, 16, 2, move |inner| {
        (nodes.clone(), inner.clone(), inner)
            .prop_map(|(node, a, b)| Tree::Node(node, Box::new([a, b])))
    })
}

type Sizes = [i64; SYMBOLS.len()];

fn sizes() -> impl Strategy<Value = Sizes> {
    let size = prop_oneof![Just(0), Just(1), 0..=9i64, 0..=100i64];
    prop::array::uniform3(size)
}

impl Tree {
    fn dim(&self) -> Option<Dim> {
        match self {
            Tree::Number(number) => Some(Dim::Known(*number)),
            Tree::Symbol(symbol) => Some(Dim::symbol(SYMBOLS[*symbol])),
            Tree::Node(node, operands) => {
                let [a, b] = [operands[0].dim()?, operands[1].dim()?];
                match node {
                    Node::Add => a.checked_add(&b),
                    Node::Sub => a.checked_sub(&b),
                    Node::Mul => a.checked_mul(&b),
                    Node::Operation(Operation::FloorDiv) => a.checked_floordiv(&b),
                    Node::Operation(Operation::Max) => a.checked_max(&b),
                    Node::Operation(Operation::Min) => a.checked_min(&b),
                    Node::Operation(Operation::Mod) => a.checked_mod(&b),
                }
            }
        }
    }

    /// Returns the value. `None` if a divisor is 0.
    fn value(&self, sizes: &Sizes) -> Option<i128> {
        match self {
            Tree::Number(number) => Some((*number).into()),
            Tree::Symbol(symbol) => Some(sizes[*symbol].into()),
            Tree::Node(node, operands) => {
                let [a, b] = [operands[0].value(sizes)?, operands[1].value(sizes)?];
                match node {
                    Node::Add => Some(a + b),
                    Node::Sub => Some(a - b),
                    Node::Mul => Some(a * b),
                    Node::Operation(op) => op.value(a, b),
                }
            }
        }
    }
}

fn value_of(dim: &Dim, sizes: &Sizes) -> Option<i128> {
    let is =
        |name: &str, symbol: &Symbol| matches!(symbol, Symbol::Named(other) if **other == *name);
    dim.value(&|symbol| {
        SYMBOLS.iter().zip(sizes).find(|(name, _)| is(name, symbol)).map_or(0, |(_, &size)| size)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_size_has_the_value_of_the_expression(tree in trees(), sizes in sizes()) {
        if let (Some(dim), Some(value)) = (tree.dim(), tree.value(&sizes)) {
            prop_assert_eq!(value_of(&dim, &sizes), Some(value), "{}", dim);
        }
    }

    #[test]
    fn reading_the_text_of_a_size_returns_the_size(tree in trees()) {
        if let Some(dim) = tree.dim() {
            let text = dim.to_string();
            prop_assert_eq!(text.parse(), Ok(dim.clone()), "{}", &text);
            if dim.known().is_none() {
                prop_assert_eq!(Dim::from_param(&text), dim);
            }
        }
    }

    #[test]
    fn facts_are_true_of_all_values(tree in trees(), sizes in sizes(), by in -4..=9i64) {
        let Some(dim) = tree.dim() else { return Ok(()) };
        let Some(value) = value_of(&dim, &sizes) else { return Ok(()) };
        prop_assert!(dim.lower_bound().is_none_or(|low| i128::from(low) <= value), "{}", dim);
        prop_assert!(dim.upper_bound().is_none_or(|high| value <= i128::from(high)), "{}", dim);
        prop_assert!(!dim.is_positive() || value > 0, "{}", dim);
        prop_assert!(!dim.is_divisible_by(by) || value % i128::from(by) == 0, "{}", dim);
    }

    #[test]
    fn sizes_are_a_ring(a in trees(), b in trees(), c in trees()) {
        let (Some(a), Some(b), Some(c)) = (a.dim(), b.dim(), c.dim()) else { return Ok(()) };
        prop_assert_eq!(a.checked_add(&b), b.checked_add(&a));
        prop_assert_eq!(a.checked_mul(&b), b.checked_mul(&a));
        let together = b.checked_add(&c).and_then(|sum| a.checked_mul(&sum));
        let apart = a.checked_mul(&b).zip(a.checked_mul(&c));
        if let (Some(together), Some((x, y))) = (together, apart) {
            prop_assert_eq!(Some(together), x.checked_add(&y));
        }
        prop_assert_eq!(a.checked_sub(&a), Some(Dim::Known(0)));
    }

    #[test]
    fn an_exact_quotient_undoes_a_product(a in trees(), b in trees(), c in trees()) {
        let (Some(a), Some(b), Some(c)) = (a.dim(), b.dim(), c.dim()) else { return Ok(()) };
        if let Some(product) = a.checked_mul(&b).filter(|_| !b.is(0)) {
            prop_assert_eq!(product.divide_exact(&b), Some(a.clone()), "{} by {}", product, b);
        }
        if let Some(quotient) = a.divide_exact(&c) {
            prop_assert_eq!(quotient.checked_mul(&c), Some(a));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[ab2 9+*^,()-]{0,60}|[a-z(), ]{0,40}") {
        if let Ok(dim) = text.parse::<Dim>() {
            prop_assert_eq!(dim.to_string().parse(), Ok(dim));
        }
        prop_assert_eq!(Dim::from_param(&text).to_string(), text);
    }
}
