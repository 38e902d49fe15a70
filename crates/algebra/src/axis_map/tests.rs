//! Compares [`AxisMap`] with an evaluation on arrays of indices, for random chains and for examples.

use onnx::Dim;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::{AxisMap, Step, cost};
use crate::axis_order::AxisOrder;

fn known(sizes: &[i64]) -> Vec<Dim> {
    sizes.iter().copied().map(Dim::from).collect()
}

/// Returns the shape `[B, T]`.
fn named() -> Vec<Dim> {
    vec![Dim::symbol("B"), Dim::symbol("T")]
}

/// An array whose elements are indices of elements of another array. Symbolic sizes have numbers.
#[derive(Clone, Debug, PartialEq)]
struct Array {
    shape: Vec<Dim>,
    sizes: Vec<usize>,
    elements: Vec<usize>,
}

/// Returns the number for a size.
fn number(dim: &Dim) -> usize {
    if let Some(size) = dim.known() {
        return size as usize;
    }
    let mut symbols = named().into_iter().zip([5, 7]);
    let quotient = symbols.find_map(|(symbol, size)| Some((dim.divide_exact(&symbol)?, size)));
    quotient.map(|(rest, size)| size * number(&rest)).expect("a product of `named` and a number")
}

impl Array {
    fn indices(shape: Vec<Dim>) -> Array {
        let sizes: Vec<usize> = shape.iter().map(number).collect();
        Array { elements: (0..sizes.iter().product()).collect(), shape, sizes }
    }

    fn reshaped(&self, shape: Vec<Dim>) -> Array {
        let sizes: Vec<usize> = shape.iter().map(number).collect();
        assert_eq!(sizes.iter().product::<usize>(), self.elements.len(), "it is a reshape");
        Array { shape, sizes, elements: self.elements.clone() }
    }

    /// Rearranges the array: `place_before` returns the position in this array of each element of the result.
    fn gathered(&self, shape: Vec<Dim>, place_before: impl Fn(&[usize]) -> Vec<usize>) -> Array {
        let whole = Array::indices(shape);
        let elements = whole.elements.iter().map(|&number| {
            let mut left = number;
            let mut place = vec![0; whole.sizes.len()];
            for (axis, size) in whole.sizes.iter().enumerate().rev() {
                (place[axis], left) = (left % size, left / size);
            }
            let before = place_before(&place);
            let offset = before.iter().zip(&self.sizes).fold(0, |offset, (i, n)| offset * n + i);
            self.elements[offset]
        });
        Array { elements: elements.collect(), ..whole }
    }

    fn transposed(&self, perm: &[usize]) -> Array {
        let shape = perm.iter().map(|&axis| self.shape[axis].clone()).collect();
        self.gathered(shape, |place| {
            let mut before = vec![0; place.len()];
            perm.iter().zip(place).for_each(|(&axis, &i)| before[axis] = i);
            before
        })
    }

    fn broadcast(&self, shape: Vec<Dim>) -> Array {
        let missing = shape.len() - self.shape.len();
        self.gathered(shape, |place| {
            let own = place[missing..].iter().zip(&self.sizes);
            own.map(|(&i, &size)| if size == 1 { 0 } else { i }).collect()
        })
    }

    fn then(&self, step: &Step) -> Array {
        match step {
            Step::Reshape(shape) => self.reshaped(shape.clone()),
            Step::Transpose(perm) => self.transposed(perm),
            Step::Broadcast(shape) => self.broadcast(shape.clone()),
        }
    }

    fn after(&self, steps: &[Step]) -> Array {
        steps.iter().fold(self.clone(), |array, step| array.then(step))
    }
}

fn then(map: AxisMap, step: &Step) -> Option<AxisMap> {
    match step {
        Step::Reshape(shape) => map.reshaped(shape),
        Step::Transpose(perm) => map.transposed(perm),
        Step::Broadcast(shape) => map.broadcast(shape),
    }
}

fn map_of(shape: &[Dim], chain: &[Step]) -> Option<AxisMap> {
    chain.iter().try_fold(AxisMap::identity(shape), then)
}

/// A shape, and a chain of layout ops and broadcasts that begins with it.
#[derive(Clone, Debug)]
struct Chain {
    shape: Vec<Dim>,
    steps: Vec<Step>,
}

/// Returns a permutation, chosen by a number.
fn permutation(rank: usize, mut seed: usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..rank).collect();
    let mut perm = Vec::new();
    while !left.is_empty() {
        perm.push(left.remove(seed % left.len()));
        seed /= 3;
    }
    perm
}

/// Returns a valid reshape of a shape, chosen by numbers.
fn step(shape: &[Dim], kind: u8, seed: usize, is_broadcast: bool) -> Step {
    let rank = shape.len();
    let mut next = shape.to_vec();
    let place = seed % (rank + 1);
    let size = shape.get(place);
    match kind % 6 {
        0 => return Step::Transpose(permutation(rank, seed)),
        // Split an axis.
        1 => {
            let factors = [&known(&[2, 3])[..], &named()].concat();
            let factor = factors[seed / 7 % factors.len()].clone();
            if let Some(rest) = size.and_then(|size| size.divide_exact(&factor)) {
                next.splice(place..=place, [factor, rest]);
            }
        }
        // Merge two axes.
        2 => {
            if let Some(product) = shape.get(place..place + 2).and_then(Dim::checked_product) {
                next.splice(place..=place + 1, [product]);
            }
        }
        3 => next.insert(place, 1.into()),
        4 => {
            let unit = (0..rank).map(|axis| (axis + place) % rank).find(|&axis| shape[axis].is(1));
            unit.map(|axis| next.remove(axis));
        }
        _ if is_broadcast => {
            let sizes = [&known(&[2, 3])[..], &named()].concat();
            let size = sizes[seed / 5 % sizes.len()].clone();
            match (0..rank).map(|axis| (axis + place) % rank).find(|&axis| shape[axis].is(1)) {
                Some(axis) => next[axis] = size,
                None => next.insert(0, size),
            }
            return Step::Broadcast(next);
        }
        _ => {}
    }
    Step::Reshape(next)
}

fn chain(is_broadcast: bool) -> impl Strategy<Value = Chain> {
    let sizes = prop_oneof![
        2 => Just(1.into()),
        6 => prop_oneof![Just(2), Just(3), Just(4), Just(6)].prop_map(Dim::from),
        2 => (0..2_usize).prop_map(|name| named()[name].clone()),
    ];
    let shape = prop::collection::vec(sizes, 0..5);
    let choices = prop::collection::vec((any::<u8>(), 0..2000_usize), 0..7);
    (shape, choices).prop_map(move |(shape, choices)| {
        let mut array = Array::indices(shape.clone());
        let mut steps = Vec::new();
        for (kind, seed) in choices {
            let step = step(&array.shape, kind, seed, is_broadcast);
            let size: usize = match &step {
                Step::Broadcast(shape) => shape.iter().map(number).product(),
                _ => 0,
            };
            if size < 4000 && array.shape.len() < 7 {
                array = array.then(&step);
                steps.push(step);
            }
        }
        Chain { shape, steps }
    })
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 1500, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn steps_do_what_the_chain_does(Chain { shape, steps } in chain(true)) {
        let Some(map) = map_of(&shape, &steps) else {
            return Ok(());
        };
        let array = Array::indices(shape.clone());
        let after = array.after(&steps);
        prop_assert_eq!(map.shape_before(), Some(shape));
        prop_assert_eq!(map.shape_after(), Some(after.shape.clone()));
        let shortest = map.steps().expect("all sizes are known");
        prop_assert_eq!(array.after(&shortest), after, "{} in {:?}", map, shortest);
    }

    #[test]
    fn no_chain_of_layout_ops_is_cheaper_than_the_steps(Chain { shape, steps } in chain(false)) {
        if let Some(map) = map_of(&shape, &steps) {
            let shortest = map.steps().expect("all sizes are known");
            prop_assert!(shortest.len() <= steps.len(), "{} in {:?}", map, shortest);
            prop_assert!(cost(&shortest) <= cost(&steps), "{} in {:?}", map, shortest);
        }
    }

    #[test]
    fn a_composition_of_maps_is_the_map_of_both_chains(Chain { shape, steps } in chain(true), cut in 0..7_usize) {
        let (first, second) = steps.split_at(cut.min(steps.len()));
        let array = Array::indices(shape.clone());
        let between = array.after(first).shape;
        let (Some(first), Some(second)) = (map_of(&shape, first), map_of(&between, second)) else {
            return Ok(());
        };
        let joined = first.then(&second);
        if let Some(shortest) = joined.as_ref().and_then(AxisMap::steps) {
            prop_assert_eq!(array.after(&shortest), array.after(&steps), "{}, {}", first, second);
        }
        if let Some(whole) = map_of(&shape, &steps) {
            prop_assert_eq!(joined, Some(whole), "{} and then {}", first, second);
        }
    }

    #[test]
    fn an_inverse_undoes_a_map(Chain { shape, steps } in chain(true)) {
        let Some(map) = map_of(&shape, &steps) else {
            return Ok(());
        };
        let inverse = map.clone().inverse();
        prop_assert_eq!(map.then(&inverse), Some(AxisMap::identity(&shape)), "{}", map);
        prop_assert_eq!(&inverse.clone().inverse(), &map);
        if map.is_broadcast() {
            prop_assert_eq!(inverse.steps(), None);
            return Ok(());
        }
        let array = Array::indices(shape);
        let back = inverse.steps().expect("all sizes are known");
        prop_assert_eq!(array.after(&steps).after(&back), array, "{}", map);
    }

    #[test]
    fn axes_are_found_on_both_sides(Chain { shape, steps } in chain(true)) {
        let Some(map) = map_of(&shape, &steps) else {
            return Ok(());
        };
        for axis in 0..map.rank_before() {
            if let Some(after) = map.axis_after(axis) {
                prop_assert_eq!(map.axis_before(after), Some(axis));
                prop_assert!(map.keeps_axis(axis, after));
                prop_assert_eq!(map.size_after(after), shape.get(axis).cloned());
            }
        }
        if let Some(perm) = map.perm() {
            let array = Array::indices(shape);
            prop_assert_eq!(array.transposed(&perm), array.after(&steps), "{}", map);
        }
    }

    #[test]
    fn an_operand_broadcasts_after_a_map_as_it_did_before(
        Chain { shape, steps } in chain(false),
        units in any::<u8>(),
        leading in 0..4_usize,
    ) {
        let own = shape.iter().enumerate().skip(leading.min(shape.len()));
        let operand: Vec<Dim> = own
            .map(|(axis, dim)| if units >> axis & 1 == 1 { 1.into() } else { dim.clone() })
            .collect();
        let map = map_of(&shape, &steps).and_then(|map| map.on_operand(&operand));
        let Some(on_operand) = map.and_then(|map| map.steps()) else {
            return Ok(());
        };
        let operand = Array::indices(operand);
        let whole = operand.broadcast(shape).after(&steps);
        let moved = operand.after(&on_operand);
        prop_assert_eq!(moved.broadcast(whole.shape.clone()), whole, "{:?}", on_operand);
    }

    #[test]
    fn an_order_is_a_transpose_of_each_size(
        shape in prop::collection::vec(1..4_i64, 0..6),
        seeds in (0..2000_usize, 0..2000_usize),
    ) {
        let first = AxisOrder::new(permutation(shape.len(), seeds.0));
        let second = AxisOrder::new(permutation(shape.len(), seeds.1));
        let identity = AxisMap::identity(&known(&shape));
        let one = transposed(identity.clone(), first.perm());
        let both = first.then(&second).expect("the ranks are equal");
        prop_assert_eq!(&transposed(one.clone(), second.perm()), &transposed(identity.clone(), both.perm()));
        prop_assert_eq!(&transposed(one.clone(), first.inverse().perm()), &identity);
        prop_assert_eq!(first.is_identity(), first.perm().is_sorted());
        for axis in 0..shape.len() {
            let after = first.axis_after(axis).expect("an order has every axis");
            prop_assert_eq!(first.perm()[after], axis);
        }
        let last = shape.len().saturating_sub(1);
        prop_assert_eq!(first.keeps_last_axis(), first.axis_after(last).unwrap_or(last) == last);
    }
}

fn transposed(map: AxisMap, perm: &[usize]) -> AxisMap {
    map.transposed(perm).expect("the permutation is one of the axes")
}

fn reshaped(map: AxisMap, sizes: &[i64]) -> AxisMap {
    map.reshaped(&known(sizes)).expect("the reshape can be followed")
}

#[test]
fn a_map_is_printed_with_a_letter_per_part() {
    let heads = reshaped(AxisMap::identity(&known(&[5, 12])), &[5, 3, 4]);
    let heads = transposed(heads, &[1, 0, 2]);
    assert_eq!(heads.to_string(), "[a, b*c] -> [b, a, c]");
    assert_eq!(heads.inverse().to_string(), "[a, b, c] -> [b, a*c]");
    let repeated = AxisMap::identity(&known(&[2, 1])).broadcast(&known(&[4, 2, 3]));
    assert_eq!(repeated.map(|map| map.to_string()).as_deref(), Some("[a, 1] -> [b, a, c]"));
}

#[test]
fn parts_that_stay_together_are_the_same_map_as_the_whole() {
    let whole = AxisMap::identity(&known(&[6]));
    let parts = reshaped(reshaped(whole.clone(), &[2, 3]), &[6]);
    assert_eq!(parts, whole);
    assert_ne!(AxisMap::identity(&known(&[6, 1])), AxisMap::identity(&known(&[1, 6])));
}

#[test]
fn a_transpose_of_a_unit_axis_is_a_reshape() {
    let chain = transposed(AxisMap::identity(&known(&[2, 1, 3])), &[1, 0, 2]);
    assert_eq!(chain.steps(), Some(vec![Step::Reshape(known(&[1, 2, 3]))]));
}

#[test]
fn heads_are_split_off_and_transposed_in_two_steps() {
    let chain = reshaped(AxisMap::identity(&known(&[2, 5, 12])), &[2, 5, 3, 1, 4]);
    let chain = reshaped(transposed(chain, &[0, 2, 1, 3, 4]), &[2, 3, 5, 4]);
    let steps = vec![Step::Reshape(known(&[2, 5, 3, 4])), Step::Transpose(vec![0, 2, 1, 3])];
    assert_eq!(chain.steps(), Some(steps));
}

#[test]
fn heads_are_transposed_and_joined_in_two_steps() {
    let chain = transposed(AxisMap::identity(&known(&[2, 3, 5, 4])), &[0, 2, 1, 3]);
    let steps = vec![Step::Transpose(vec![0, 2, 1, 3]), Step::Reshape(known(&[10, 12]))];
    assert_eq!(reshaped(chain, &[10, 12]).steps(), Some(steps));
}

#[test]
fn a_square_is_transposed_before_it_is_broadcast() {
    let square = transposed(AxisMap::identity(&known(&[2, 2])), &[1, 0]);
    let steps = square.broadcast(&known(&[3, 2, 2])).and_then(|map| map.steps());
    let expected = [Step::Transpose(vec![1, 0]), Step::Broadcast(known(&[3, 2, 2]))];
    assert_eq!(steps.as_deref(), Some(&expected[..]));
}

#[test]
fn maps_without_common_parts_do_not_compose() {
    let [two_by_three, three_by_two] =
        [[2, 3], [3, 2]].map(|sizes| reshaped(AxisMap::identity(&known(&[6])), &sizes));
    assert_eq!(two_by_three.clone().inverse().then(&three_by_two), None);
    assert_eq!(three_by_two.inverse().then(&two_by_three), None);
}

#[test]
fn a_reshape_that_cuts_through_parts_is_not_followed() {
    assert_eq!(AxisMap::identity(&known(&[4, 3])).reshaped(&known(&[6, 2])), None);
    assert_eq!(AxisMap::identity(&named()).reshaped(&[named(), known(&[2])].concat()), None);
    let joined = AxisMap::identity(&known(&[2, 3]));
    assert_eq!(joined.then(&AxisMap::identity(&known(&[3, 2]))), None);
}

#[test]
fn an_operand_that_differs_between_parts_of_an_axis_has_no_map() {
    let joined = reshaped(AxisMap::identity(&known(&[2, 3])), &[6]);
    assert_eq!(joined.on_operand(&known(&[3])), None);
    let split = joined.inverse();
    assert_eq!(
        split.on_operand(&known(&[6])).and_then(|map| map.steps()).map(|s| s.len()),
        Some(1)
    );
}

#[test]
fn repeats_of_each_entry_are_removed() {
    let heads = AxisMap::identity(&known(&[2, 3, 1, 4])).broadcast(&known(&[2, 3, 5, 4]));
    let heads = reshaped(heads.expect("a unit axis can be broadcast"), &[2, 15, 4]);
    let (once, times) = heads.clone().without_repeats(1).expect("each head is repeated");
    assert_eq!((once.to_string().as_str(), times), ("[a, b, 1, c] -> [a, b, c]", 5));
    assert_eq!(heads.without_repeats(0), None);
}
