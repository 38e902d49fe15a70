//! `RotaryEmbedding`: pairs of elements of each head rotated by the angle of its row.
//!
//! A pair is an element of each half, or two that stand side by side. The kernel takes one cosine and sine
//! for each row and pair, and rounds as the formula does but for a fused product and sum. It is three
//! times as fast as the parts, and more.

mod layout;
mod parts;
mod table;

use onnx::{Edit, OpType, ValueId};

use crate::access::Access;
use crate::axis_map::AxisMap;
use crate::pattern::uniform;
use crate::rewrite::Declined;
use layout::fuse;

pub(super) fn run(edit: &mut Edit<'_>) {
    for index in 0..edit.len() {
        let found = match edit.node(index).op.onnx() {
            Some(OpType::Concat | OpType::Reshape) => by_parts(edit, index),
            Some(OpType::Add) => by_swapping(edit, index),
            _ => None,
        };
        let Some(found) = found else {
            continue;
        };
        let declined = fuse(edit, index, &found).err().map(|Declined(why)| why);
        if declined.is_some() {
            parts::write(edit, index, &found);
        }
        edit.note("fuse-rotary-embedding", index, declined);
    }
}

/// What is rotated, by which tables, and the nodes that do it.
struct Rotation {
    x: ValueId,
    cos: ValueId,
    sin: ValueId,
    /// Whether the tables have a number for each element, the same for both of a pair.
    is_doubled: bool,
    /// Whether the elements of a pair stand side by side.
    is_interleaved: bool,
    fused: Vec<usize>,
}

/// The node that makes a value which is read once.
fn own(edit: &Edit<'_>, op: OpType, value: ValueId) -> Option<usize> {
    let node = edit.producer(value).filter(|_| edit.reads(value) == 1)?;
    (edit.node(node).op == op).then_some(node)
}

/// The other factor of a product with `x`, and the node.
fn factor(edit: &Edit<'_>, value: ValueId, x: ValueId) -> Option<(ValueId, usize)> {
    let node = own(edit, OpType::Mul, value)?;
    let (a, b) = (edit.input(node, 0)?, edit.input(node, 1)?);
    let other = if a == x { b } else { a };
    (a == x || b == x).then_some((other, node))
}

/// One element of each pair of an array.
struct Half {
    x: ValueId,
    is_second: bool,
    is_interleaved: bool,
    nodes: Vec<usize>,
    /// How the axes of `x` are transposed; the last one stays the last.
    order: AxisMap,
}

impl Half {
    fn of(edit: &Edit<'_>, value: ValueId) -> Option<Half> {
        let node = edit.producer(value)?;
        match edit.node(node).op.onnx() {
            Some(OpType::Split) => Half::of_split(edit, node, value),
            Some(OpType::Slice) => Half::of_slice(edit, node),
            Some(OpType::Gather) => {
                Half::of_gather(edit, node).or_else(|| Half::of_axis(edit, node))
            }
            Some(OpType::Transpose) => Half::of(edit, edit.input(node, 0)?)?.then(edit, node),
            _ => None,
        }
    }

    /// As [`Half::of`], behind a change of the sign.
    fn negated(edit: &Edit<'_>, value: ValueId) -> Option<Half> {
        if let Some(node) = own(edit, OpType::Neg, value) {
            let mut half = Half::of(edit, edit.input(node, 0)?)?;
            half.nodes.push(node);
            return Some(half);
        }
        let node = own(edit, OpType::Transpose, value)?;
        Half::negated(edit, edit.input(node, 0)?)?.then(edit, node)
    }

    fn new(
        edit: &Edit<'_>,
        x: ValueId,
        is_second: bool,
        is_interleaved: bool,
        nodes: &[usize],
    ) -> Option<Half> {
        let order = AxisMap::identity_of_rank(edit.ty(x)?.rank());
        Some(Half { x, is_second, is_interleaved, nodes: nodes.to_vec(), order })
    }

    /// One of the two results of a node.
    fn of_split(edit: &Edit<'_>, node: usize, value: ValueId) -> Option<Half> {
        let &[first, second] = &edit.node(node).outputs[..] else {
            return None;
        };
        let is_half = is_along_last(edit, node)? && edit.ty(first)? == edit.ty(second)?;
        is_half.then(|| Half::new(edit, edit.input(node, 0)?, value == second, false, &[node]))?
    }

    /// A half, or every other element.
    fn of_slice(edit: &Edit<'_>, node: usize) -> Option<Half> {
        let x = edit.input(node, 0)?;
        let number = |operand| match &edit.tensor(edit.input(node, operand)?)?.ints()?[..] {
            &[number] => Some(number),
            _ => None,
        };
        let (start, end) = (number(1)?, number(2)?);
        let step = if edit.input(node, 4).is_some() { number(4)? } else { 1 };
        let size = edit.ty(x)?.shape.last()?.known()?;
        if edit.axes(node)? != [edit.ty(x)?.rank() - 1] || size % 2 != 0 {
            return None;
        }
        match (start, step) {
            (0, 1) if end == size / 2 => Half::new(edit, x, false, false, &[node]),
            (_, 1) if start == size / 2 && end >= size => Half::new(edit, x, true, false, &[node]),
            (0 | 1, 2) if end >= size - 1 + start => Half::new(edit, x, start == 1, true, &[node]),
            _ => None,
        }
    }

    /// Every other element, by a list.
    fn of_gather(edit: &Edit<'_>, node: usize) -> Option<Half> {
        let (x, list) = (edit.input(node, 0)?, edit.tensor(edit.input(node, 1)?)?);
        let places = list.ints().filter(|_| list.shape.len() == 1)?;
        let first = *places.first()?;
        let is_other = |(place, &other): (usize, &i64)| other == first + 2 * place as i64;
        let is_whole = edit.ty(x)?.shape.last()?.is(2 * places.len() as i64);
        let is_half = is_along_last(edit, node)?
            && is_whole
            && (0..2).contains(&first)
            && places.iter().enumerate().all(is_other);
        is_half.then(|| Half::new(edit, x, first == 1, true, &[node]))?
    }

    /// One entry of an axis of pairs.
    fn of_axis(edit: &Edit<'_>, node: usize) -> Option<Half> {
        let pairs = edit.input(node, 0)?;
        let reshape = edit.producer(pairs).filter(|&node| edit.node(node).op == OpType::Reshape)?;
        let x = edit.input(reshape, 0)?;
        let (pair, rest) = edit.ty(pairs)?.shape.split_last()?;
        let whole = &edit.ty(x)?.shape;
        let (_, lead) = rest.split_last()?;
        let is_paired = pair.is(2) && rest.len() == whole.len() && whole[..lead.len()] == *lead;
        let entry = edit.tensor(edit.input(node, 1)?)?;
        let entry = uniform(entry).filter(|_| entry.shape.is_empty())?;
        let is_second = entry == 1.0 || entry == -1.0;
        let is_half = is_along_last(edit, node)? && is_paired && (is_second || entry == 0.0);
        is_half.then(|| Half::new(edit, x, is_second, true, &[reshape, node]))?
    }

    /// Returns the same half behind a transpose that leaves the last axis where it is.
    fn then(mut self, edit: &Edit<'_>, transpose: usize) -> Option<Half> {
        self.order = self.order.then(&AxisMap::transpose(&edit.perm(transpose)?))?;
        self.nodes.push(transpose);
        self.order.keeps_last_axis().then_some(self)
    }
}

/// True if the axis of a node is the last one of what it reads.
fn is_along_last(edit: &Edit<'_>, node: usize) -> Option<bool> {
    Some(edit.axis(node)? + 1 == edit.ty(edit.input(node, 0)?)?.rank())
}

/// What is put together of the first and the second elements of pairs.
struct Joined {
    parts: [ValueId; 2],
    is_interleaved: bool,
    nodes: Vec<usize>,
}

/// What a node joins, itself aside: `Concat` along the last axis, or a `Reshape` of such a one along an axis
/// of its own.
fn joined(edit: &Edit<'_>, node: usize) -> Option<Joined> {
    let result = &edit.ty(edit.node(node).outputs[0])?.shape;
    let parts_of = |concat: usize| {
        let is_pair = edit.node(concat).inputs.len() == 2;
        (is_pair && is_along_last(edit, concat)?).then_some(())?;
        Some([edit.input(concat, 0)?, edit.input(concat, 1)?])
    };
    if edit.node(node).op == OpType::Concat {
        return Some(Joined { parts: parts_of(node)?, is_interleaved: false, nodes: Vec::new() });
    }
    let concat = own(edit, OpType::Concat, edit.input(node, 0)?)?;
    let mut nodes = vec![concat];
    let mut part = |value: ValueId| {
        let unsqueeze =
            own(edit, OpType::Unsqueeze, value).or_else(|| own(edit, OpType::Reshape, value))?;
        let source = edit.input(unsqueeze, 0)?;
        let (own, wide) = (&edit.ty(source)?.shape, &edit.ty(value)?.shape);
        let (last, rest) = wide.split_last()?;
        nodes.push(unsqueeze);
        (last.is(1) && *rest == own[..]).then_some(source)
    };
    let [first, second] = parts_of(concat)?;
    let parts = [part(first)?, part(second)?];
    let own = &edit.ty(parts[0])?.shape;
    let (last, lead) = result.split_last()?;
    let is_joined = own.len() == result.len()
        && own[..own.len() - 1] == *lead
        && last.known()? == 2 * own.last()?.known()?;
    is_joined.then_some(Joined { parts, is_interleaved: true, nodes })
}

/// `[a·cos − b·sin, b·cos + a·sin]` of the elements `a` and `b` of pairs
fn by_parts(edit: &Edit<'_>, index: usize) -> Option<Rotation> {
    let Joined { parts: [left, right], is_interleaved, nodes } = joined(edit, index)?;
    let (left, right) = (own(edit, OpType::Sub, left)?, own(edit, OpType::Add, right)?);
    let first = own(edit, OpType::Mul, edit.input(left, 0)?)?;
    let first_half = |operand| {
        let value = edit.input(first, operand)?;
        Half::of(edit, value).filter(|half| !half.is_second).map(|half| (value, half))
    };
    let (a, of_a) = first_half(0).or_else(|| first_half(1))?;
    let (cos, _) = factor(edit, edit.input(left, 0)?, a)?;
    let second = own(edit, OpType::Mul, edit.input(left, 1)?)?;
    let second_half = |operand| {
        let value = edit.input(second, operand)?;
        let half = Half::of(edit, value)?;
        (half.is_second && half.x == of_a.x).then_some((value, half))
    };
    let (b, of_b) = second_half(0).or_else(|| second_half(1))?;
    let (sin, _) = factor(edit, edit.input(left, 1)?, b)?;
    let (mut third, mut fourth) = (edit.input(right, 0)?, edit.input(right, 1)?);
    if factor(edit, third, b).is_none() {
        std::mem::swap(&mut third, &mut fourth);
    }
    let (third, fourth) = (factor(edit, third, b)?, factor(edit, fourth, a)?);
    let halves = [&of_a, &of_b];
    let fits =
        halves.iter().all(|half| half.is_interleaved == is_interleaved && half.order.is_identity());
    if third.0 != cos || fourth.0 != sin || !fits {
        return None;
    }
    let mut fused = vec![left, right, first, second, third.1, fourth.1];
    fused.extend([nodes, of_a.nodes, of_b.nodes].concat());
    Some(Rotation { x: of_a.x, cos, sin, is_doubled: false, is_interleaved, fused })
}

/// `x·cos + [−b, a]·sin` of the elements `a` and `b` of the pairs of `x`
fn by_swapping(edit: &Edit<'_>, index: usize) -> Option<Rotation> {
    let operand = |operand| edit.input(index, operand);
    [(operand(0)?, operand(1)?), (operand(1)?, operand(0)?)].into_iter().find_map(
        |(plain, rotated)| {
            let product = own(edit, OpType::Mul, rotated)?;
            let swapped = |operand: usize| {
                let value = edit.input(product, operand)?;
                let join = own(edit, OpType::Concat, value)
                    .or_else(|| own(edit, OpType::Reshape, value))?;
                let Joined { parts: [negated, kept], is_interleaved, nodes } = joined(edit, join)?;
                let (b, a) = (Half::negated(edit, negated)?, Half::of(edit, kept)?);
                let is_swapped = b.is_second && !a.is_second && a.x == b.x && a.order == b.order;
                let is_alike = [&a, &b].iter().all(|half| half.is_interleaved == is_interleaved);
                let sin = edit.input(product, 1 - operand)?;
                let nodes = [nodes, vec![join], a.nodes.clone(), b.nodes].concat();
                (is_swapped && is_alike).then_some((a.x, a.order, is_interleaved, sin, nodes))
            };
            let (source, order, is_interleaved, sin, nodes) = swapped(0).or_else(|| swapped(1))?;
            let scaled = own(edit, OpType::Mul, plain)?;
            let is_x = |&operand: &usize| {
                edit.input(scaled, operand).is_some_and(|x| is_transposed(edit, x, source, &order))
            };
            let operand = [0, 1].into_iter().find(is_x)?;
            let (x, cos) = (edit.input(scaled, operand)?, edit.input(scaled, 1 - operand)?);
            let fused = [&nodes[..], &[product, scaled]].concat();
            Some(Rotation { x, cos, sin, is_doubled: true, is_interleaved, fused })
        },
    )
}

/// True if `x` is the source, transposed in that way.
fn is_transposed(edit: &Edit<'_>, x: ValueId, source: ValueId, order: &AxisMap) -> bool {
    let found = || {
        let chain = edit.chain_to(x, source, &[OpType::Transpose])?;
        let identity = AxisMap::identity_of_rank(order.rank_before());
        chain.iter().rev().try_fold(identity, |map, &node| map.then_node(edit, node))
    };
    found().is_some_and(|found| found == *order)
}

#[cfg(test)]
mod tests;
