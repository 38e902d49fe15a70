//! The binary search of `jnp.searchsorted`, which JAX writes as a scan over two bounds of 32 unsigned bits.
//!
//! Few runtimes choose between such numbers, and a comparison with all entries is faster than a search if there are
//! few. The results are the same for every array, sorted or not.

use std::convert::Infallible;

use jaxpr::{Atom, Aval, Eqn, Jaxpr, Param, VarId};
use onnx::{Attr, DType, Dim, Expr, OpType, Tensor, Type};
use rustc_hash::FxHashMap;

use crate::bodies::{own_results, types};
use crate::element::{self, guards_nan};

/// A search compares with all entries of a sorted constant if there are at most so many of them,
const MAX_COUNTED: i64 = 64;
/// or if there are at most so many comparisons.
const MAX_COMPARISONS: i64 = 1 << 14;
/// A search compares with all entries of any other array if there are at most so many of them.
const MAX_DECIDED: i64 = 32;
/// The bounds are numbers of 31 bits, and so is the sum of two of them.
const MAX_SEARCHED: i64 = 1 << 30;

/// The entries that are left of what is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// Smaller entries: the search goes left if `v ≤ a`.
    Left,
    /// Smaller entries and equal ones: the search goes left if `v < a`.
    Right,
}

/// A search for each entry of `v` among the entries of `a`.
pub(super) struct Search<'g> {
    a: Expr<'g>,
    v: Expr<'g>,
    side: Side,
    entries: i64,
    rounds: i64,
}

impl<'g> Search<'g> {
    /// Returns the search that a scan without arrays does from these bounds, if it does one.
    pub fn of(
        body: &Jaxpr,
        consts: &[Expr<'g>],
        initial: &[Expr<'g>],
        length: &Dim,
    ) -> Option<Search<'g>> {
        let (&[a, v], &[low, high]) = (consts, initial) else {
            return None;
        };
        let found = Body::of(body).search()?;
        let (a, v) = if found.a == body.inputs[0] { (a, v) } else { (v, a) };
        let ([entries], rounds) = (&a.shape()[..], length.known()?) else {
            return None;
        };
        let entries = entries.known().filter(|entries| (1..MAX_SEARCHED).contains(entries))?;
        let is_long_enough = rounds == i64::from(64 - entries.leading_zeros());
        let starts_whole = number(low)? == 0 && number(high)? == entries;
        let is_number = a.dtype() != DType::Bool && a.dtype() == v.dtype();
        let search = Search { a, v, side: found.side, entries, rounds };
        (is_long_enough && starts_whole && is_number).then_some(search)
    }

    /// Returns the number of entries on the left of each `v`.
    pub fn result(&self) -> Expr<'g> {
        let searched = self
            .v
            .shape()
            .iter()
            .try_fold(1i64, |all, size| size.known().map(|size| all.saturating_mul(size)));
        let comparisons = searched.map(|count| count.saturating_mul(self.entries));
        if searched == Some(0) {
            return self.bound(0);
        }
        let compares_all = self.entries <= MAX_COUNTED
            || comparisons.is_some_and(|comparisons| comparisons <= MAX_COMPARISONS);
        if compares_all && self.a.tensor().is_some_and(|a| is_sorted(&a)) {
            return self.counted();
        }
        if self.entries <= MAX_DECIDED { self.decided() } else { self.searched() }
    }

    /// `Σⱼ aⱼ < v`, or `Σⱼ aⱼ ≤ v`, for entries in order without NaN
    fn counted(&self) -> Expr<'g> {
        let (a, v) = (self.a, self.v.unsqueeze(&[self.v.rank()]));
        let is_left = match (self.side, guards_nan(v)) {
            (Side::Left, true) => v.less_equal(a).logical_not(),
            (Side::Left, false) => a.less(v),
            (Side::Right, true) => v.less(a).logical_not(),
            (Side::Right, false) => a.less_equal(v),
        };
        is_left.cast(DType::I32).reduce_sum(&[self.v.rank()], false)
    }

    /// Compares with all entries, and returns the end at which the search arrives that meets these comparisons.
    ///
    /// An end gets a point for each comparison on the way to it that leads to it, and loses one for each that leads away.
    /// One end alone gets all of its points.
    fn decided(&self) -> Expr<'g> {
        let (entries, ends) = (self.entries as usize, self.entries as usize + 1);
        let (flags, is_right) = self.compared(self.a, self.v.unsqueeze(&[self.v.rank()]));
        let mut weights = vec![0.0; entries * ends];
        let mut wrong = vec![0.0; ends];
        for (end, wrong) in wrong.iter_mut().enumerate() {
            for (entry, goes_right) in way(self.entries, end as i64) {
                let is_set = goes_right == is_right;
                weights[entry as usize * ends + end] = if is_set { 1.0 } else { -1.0 };
                *wrong += f64::from(u8::from(is_set));
            }
        }
        let wrong: Vec<f64> = wrong.into_iter().map(|count| -count).collect();
        let builder = self.v.builder;
        let shape = [self.entries, self.entries + 1];
        let weights = builder.constant(DType::F32, &shape, &weights);
        let wrong = builder.constant(DType::F32, &shape[1..], &wrong);
        let points = flags.cast(DType::F32).matmul(weights) + wrong;
        if self.v.shape().iter().all(Dim::is_positive) {
            let attrs = vec![("axis", Attr::Int(-1)), ("keepdims", Attr::Int(0))];
            return builder.node(OpType::ArgMax, &[points], attrs);
        }
        // ONNX Runtime keeps the axis of an empty array.
        let numbers: Vec<f64> = (0..=self.entries).map(|end| end as f64).collect();
        let numbers = builder.constant(DType::F32, &shape[1..], &numbers);
        let found = (points + 1.0).unary(OpType::Relu) * numbers;
        found.reduce_sum(&[self.v.rank()], false)
    }

    /// Halves the range of each `v` until nothing is left of it.
    fn searched(&self) -> Expr<'g> {
        let builder = self.v.builder;
        let bounds = [self.bound(0), self.bound(self.entries)];
        let counter = [Type::new(DType::I64, []), Type::new(DType::Bool, [])];
        let inputs = [&counter[..], &types(&bounds)].concat();
        let body = builder.body::<Infallible>("search/body", &inputs, |inputs| {
            let (goes_on, low, high) = (inputs[1], inputs[2], inputs[3]);
            let middle = (low + high) / low.constant(2.0);
            let (low, high) = match self.compared(self.a.gather(middle, 0), self.v) {
                (is_set, true) => (is_set.select(middle, low), is_set.select(high, middle)),
                (is_set, false) => (is_set.select(low, middle), is_set.select(middle, high)),
            };
            Ok(own_results(builder, vec![goes_on, low, high]))
        });
        let Ok(body) = body;
        let rounds = builder.constant_ints(DType::I64, &[], &[self.rounds]);
        let goes_on = builder.constant_ints(DType::Bool, &[], &[1]);
        let operands = [rounds, goes_on, bounds[0], bounds[1]].map(Some);
        builder.nodes(OpType::Loop, &operands, vec![("body", Attr::from(body))], 2)[1]
    }

    fn bound(&self, value: i64) -> Expr<'g> {
        let bound = self.v.builder.constant_ints(DType::I32, &[], &[value]);
        bound.expand(&self.v.shape())
    }

    /// Compares in the order in which NaN is the largest number. Returns the flag, and whether the search goes to the right
    /// of `a` if it is set.
    fn compared(&self, a: Expr<'g>, v: Expr<'g>) -> (Expr<'g>, bool) {
        match (self.side, guards_nan(v)) {
            (Side::Left, true) => (v.less_equal(a).or(a.is_nan()), false),
            (Side::Left, false) => (v.less_equal(a), false),
            (Side::Right, true) => (a.less_equal(v).or(v.is_nan()), true),
            (Side::Right, false) => (a.less_equal(v), true),
        }
    }
}

/// Returns the comparisons of a search that ends at `end`, and whether each leads to the right.
fn way(entries: i64, end: i64) -> Vec<(i64, bool)> {
    let (mut low, mut high) = (0, entries);
    let mut way: Vec<(i64, bool)> = Vec::new();
    while low < high {
        let middle = i64::midpoint(low, high);
        let is_right = middle < end;
        if way.contains(&(middle, is_right)) {
            break;
        }
        way.push((middle, is_right));
        (low, high) = if is_right { (middle, high) } else { (low, middle) };
    }
    way
}

/// True if the entries are numbers in order.
fn is_sorted(tensor: &Tensor) -> bool {
    match tensor.ints() {
        Some(ints) => ints.is_sorted(),
        None => tensor.floats().is_some_and(|floats| {
            floats.is_sorted() && !floats.iter().any(|number| number.is_nan())
        }),
    }
}

/// Returns the number that fills an array.
fn number(value: Expr<'_>) -> Option<i64> {
    let ints = value.builder.repeated(value.id)?.ints()?;
    let first = *ints.first()?;
    ints.iter().all(|&int| int == first).then_some(first)
}

/// The body of a scan that searches.
struct Body<'a> {
    jaxpr: &'a Jaxpr,
    makers: FxHashMap<VarId, &'a Eqn>,
}

/// The search in the body of a scan.
struct ScanSearch {
    a: VarId,
    side: Side,
}

impl<'a> Body<'a> {
    fn of(jaxpr: &'a Jaxpr) -> Body<'a> {
        let made = |eqn: &'a Eqn| eqn.outputs.iter().map(move |&output| (output, eqn));
        Body { jaxpr, makers: jaxpr.eqns.iter().flat_map(made).collect() }
    }

    fn maker(&self, atom: &Atom, primitive: &str) -> Option<&'a Eqn> {
        let eqn = self.makers.get(&var(atom)?).filter(|eqn| eqn.recipe.is_none())?;
        (&*eqn.primitive == primitive).then_some(*eqn)
    }

    fn is_one_of(&self, atom: &Atom, primitives: &[&str]) -> Option<&'a Eqn> {
        primitives.iter().find_map(|primitive| self.maker(atom, primitive))
    }

    /// Finds `low, high = (low, middle) if v ≤ a[middle] else (middle, high)`.
    fn search(&self) -> Option<ScanSearch> {
        let (&[first, second, low, high], [new_low, new_high]) =
            (&self.jaxpr.inputs[..], &self.jaxpr.outputs[..])
        else {
            return None;
        };
        let [which, if_right, if_left] = &self.maker(new_low, "select_n")?.inputs[..] else {
            return None;
        };
        let [same, right_high, left_high] = &self.maker(new_high, "select_n")?.inputs[..] else {
            return None;
        };
        let middle = var(if_right)?;
        let is_choice = var(which)? == var(same)?
            && var(if_left)? == low
            && var(right_high)? == high
            && var(left_high)? == middle;
        if !is_choice || !self.is_middle(if_right, low, high) {
            return None;
        }
        let compared = self.is_one_of(which, &["le_to", "le", "lt_to", "lt"])?;
        let side = if compared.primitive.starts_with("le") { Side::Left } else { Side::Right };
        let [looked_for, entry] = &compared.inputs[..] else {
            return None;
        };
        let (v, a) = (self.plain(looked_for)?, self.entry(self.plain(entry)?, middle)?);
        ((a, v) == (first, second) || (a, v) == (second, first)).then_some(ScanSearch { a, side })
    }

    /// True for `low + (high − low) / 2` and for `(low + high) / 2`.
    fn is_middle(&self, atom: &Atom, low: VarId, high: VarId) -> bool {
        let is = |eqn: Option<&Eqn>, a: VarId, b: VarId| {
            eqn.is_some_and(
                |eqn| matches!(&eqn.inputs[..], [Atom::Var(x), Atom::Var(y)] if (*x, *y) == (a, b)),
            )
        };
        if let Some(sum) = self.halved(atom) {
            return is(self.maker(sum, "add"), low, high);
        }
        let Some([first, half]) = self.maker(atom, "add").map(|eqn| &eqn.inputs[..]) else {
            return false;
        };
        let distance = self.halved(half);
        var(first) == Some(low) && distance.is_some_and(|it| is(self.maker(it, "sub"), high, low))
    }

    /// Returns the dividend of a division by two, which may be a call of `jnp.floor_divide`.
    fn halved(&self, atom: &Atom) -> Option<&'a Atom> {
        let eqn = self.is_one_of(atom, &["div", "jit", "pjit"])?;
        let [dividend, two] = &eqn.inputs[..] else {
            return None;
        };
        if self.constant(two)?.ints()? != [2] {
            return None;
        }
        if &*eqn.primitive == "div" {
            return Some(dividend);
        }
        let Some(Param::Jaxpr(called)) = eqn.params.get("jaxpr") else {
            return None;
        };
        let ([x, y], [result]) = (&called.inputs[..], &called.outputs[..]) else {
            return None;
        };
        let body = Body::of(called);
        let [of, by] = &body.maker(result, "div")?.inputs[..] else {
            return None;
        };
        let by = body.maker(by, "convert_element_type").map_or(by, |eqn| &eqn.inputs[0]);
        (var(of) == Some(*x) && var(by) == Some(*y)).then_some(dividend)
    }

    /// Returns the number of which another one is made that has neither a sign of zero nor of NaN.
    fn plain(&self, atom: &Atom) -> Option<VarId> {
        let Some(choice) = self.maker(atom, "select_n") else {
            return var(atom);
        };
        let [which, number, instead] = &choice.inputs[..] else {
            return None;
        };
        let (number, instead) = (self.plain(number)?, *self.constant(instead)?.floats()?.first()?);
        let condition = self.is_one_of(which, &["eq", "ne"])?;
        let [x, y] = &condition.inputs[..] else {
            return None;
        };
        let is_same = match &*condition.primitive {
            "eq" => instead == 0.0 && self.constant(y)?.floats()?.first() == Some(&0.0),
            _ => instead.is_nan() && var(y)? == number,
        };
        (is_same && var(x)? == number).then_some(number)
    }

    /// Returns the array of which a value is the entries at `middle`.
    fn entry(&self, value: VarId, middle: VarId) -> Option<VarId> {
        let squeezed = self.is_one_of(&Atom::Var(value), &["squeeze", "reshape"])?;
        let picked = squeezed.inputs.first()?;
        if let Some(slice) = self.maker(picked, "dynamic_slice") {
            let [Atom::Var(array), Atom::Var(start)] = slice.inputs[..] else {
                return None;
            };
            let picks_entry = start == middle && self.shape(array)?.len() == 1;
            return (picks_entry && self.shape(value)?.is_empty()).then_some(array);
        }
        let gather = self.maker(picked, "gather")?;
        let [Atom::Var(array), indices] = &gather.inputs[..] else {
            return None;
        };
        let index = self.is_one_of(indices, &["broadcast_in_dim", "reshape"])?;
        let (of_value, of_indices) = (self.shape(value)?, self.shape(var(indices)?)?);
        // A list whose entries are picked one by one has one way to be read.
        let picks_entries = var(index.inputs.first()?)? == middle
            && self.shape(*array)?.len() == 1
            && self.shape(middle)? == of_value
            && of_indices.strip_suffix(&[Dim::Known(1)]) == Some(of_value)
            && is_in_order(index, of_value.len());
        picks_entries.then_some(*array)
    }

    fn shape(&self, var: VarId) -> Option<&'a [Dim]> {
        match self.jaxpr.aval(var) {
            Aval::Array { shape, .. } => Some(shape),
            Aval::Other(_) => None,
        }
    }

    /// Returns a number that is written in the program.
    fn constant(&self, atom: &Atom) -> Option<Tensor> {
        match atom {
            Atom::Literal(literal) => element::tensor(literal).ok(),
            Atom::Var(_) => self.constant(self.maker(atom, "broadcast_in_dim")?.inputs.first()?),
        }
    }
}

/// True if an axis is added behind all others, and no axis moves.
fn is_in_order(index: &Eqn, rank: usize) -> bool {
    match index.params.get("broadcast_dimensions") {
        Some(Param::Seq(axes)) => {
            axes.len() == rank
                && axes
                    .iter()
                    .enumerate()
                    .all(|(place, axis)| matches!(axis, Param::Int(axis) if *axis == place as i64))
        }
        _ => &*index.primitive == "reshape",
    }
}

fn var(atom: &Atom) -> Option<VarId> {
    match atom {
        Atom::Var(var) => Some(*var),
        Atom::Literal(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of a search in which the comparison with each entry leads to the right or not.
    fn searched(goes_right: &[bool]) -> i64 {
        let entries = goes_right.len() as i64;
        let (mut low, mut high) = (0, entries);
        for _ in 0..64 - entries.leading_zeros() {
            let middle = low + (high - low) / 2;
            (low, high) = if goes_right[middle as usize] { (middle, high) } else { (low, middle) };
        }
        high
    }

    #[test]
    fn only_the_end_of_a_search_gets_all_of_its_points() {
        for entries in 1..=11usize {
            for bits in 0..1u32 << entries {
                let goes_right: Vec<bool> =
                    (0..entries).map(|entry| bits >> entry & 1 == 1).collect();
                let meets = |end: &i64| {
                    let mut way = way(entries as i64, *end).into_iter();
                    way.all(|(entry, is_right)| goes_right[entry as usize] == is_right)
                };
                let ends: Vec<i64> = (0..=entries as i64).filter(meets).collect();
                assert_eq!(ends, [searched(&goes_right)]);
            }
        }
    }
}
