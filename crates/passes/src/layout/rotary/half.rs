//! Finds one element of each pair of an array: one of its halves, or every second element.

use algebra::rewrite::require;
use onnx::{Edit, OpType, ValueId};

/// One element of each pair of an array.
pub(super) struct Half {
    pub x: ValueId,
    pub is_second: bool,
    pub is_interleaved: bool,
    pub nodes: Vec<usize>,
}

impl Half {
    pub(super) fn of(edit: &Edit<'_>, value: ValueId) -> Option<Half> {
        let node = edit.producer(value)?;
        match edit.op(node) {
            Some(OpType::Split) => Half::of_split(edit, node, value),
            Some(OpType::Slice) => Half::of_slice(edit, node),
            Some(OpType::Gather) => {
                Half::of_gather(edit, node).or_else(|| Half::of_axis(edit, node))
            }
            _ => None,
        }
    }

    /// Returns a half if a condition holds.
    fn new(
        is_half: bool,
        x: ValueId,
        is_second: bool,
        is_interleaved: bool,
        nodes: &[usize],
    ) -> Option<Half> {
        is_half.then(|| Half { x, is_second, is_interleaved, nodes: nodes.to_vec() })
    }

    /// Reads one of two results of a `Split`.
    fn of_split(edit: &Edit<'_>, node: usize, value: ValueId) -> Option<Half> {
        let &[first, second] = &edit.node(node).outputs[..] else { return None };
        let is_half = edit.is_along_last_axis(node) && edit.ty(first)? == edit.ty(second)?;
        Half::new(is_half, edit.input(node, 0)?, value == second, false, &[node])
    }

    /// Reads a slice: a half, or every second element.
    fn of_slice(edit: &Edit<'_>, node: usize) -> Option<Half> {
        let x = edit.input(node, 0)?;
        let number = |operand| match &edit.tensor(edit.input(node, operand)?)?.ints()?[..] {
            &[number] => Some(number),
            _ => None,
        };
        let (start, end) = (number(1)?, number(2)?);
        let step = if edit.input(node, 4).is_some() { number(4)? } else { 1 };
        let size = edit.shape(x)?.last()?.known()?;
        require(edit.axes(node)? == [edit.rank(x)? - 1] && size % 2 == 0)?;
        let (is_half, is_interleaved) = match step {
            1 => ((start, end) == (0, size / 2) || (start == size / 2 && end >= size), false),
            _ => (step == 2 && (0..2).contains(&start) && end >= size - 1 + start, true),
        };
        Half::new(is_half, x, start > 0, is_interleaved, &[node])
    }

    /// Reads a gather of every second element.
    fn of_gather(edit: &Edit<'_>, node: usize) -> Option<Half> {
        let (x, list) = (edit.input(node, 0)?, edit.tensor(edit.input(node, 1)?)?);
        let places = list.ints().filter(|_| list.shape.len() == 1)?;
        let first = *places.first()?;
        let is_other = |(place, &other): (usize, &i64)| other == first + 2 * place as i64;
        let is_whole = edit.shape(x)?.last()?.is(2 * places.len() as i64);
        let is_half = edit.is_along_last_axis(node)
            && is_whole
            && (0..2).contains(&first)
            && places.iter().enumerate().all(is_other);
        Half::new(is_half, x, first == 1, true, &[node])
    }

    /// Reads one entry of an axis of pairs.
    fn of_axis(edit: &Edit<'_>, node: usize) -> Option<Half> {
        let pairs = edit.input(node, 0)?;
        let reshape = edit.made_by(pairs, OpType::Reshape)?;
        let x = edit.input(reshape, 0)?;
        let (pair, rest) = edit.shape(pairs)?.split_last()?;
        let whole = edit.shape(x)?;
        let (_, lead) = rest.split_last()?;
        let is_paired = pair.is(2) && rest.len() == whole.len() && whole[..lead.len()] == *lead;
        let (_, entry) = edit.entry(node)?;
        let is_second = entry == 1 || entry == -1;
        let is_half = edit.is_along_last_axis(node) && is_paired && (is_second || entry == 0);
        Half::new(is_half, x, is_second, true, &[reshape, node])
    }
}
