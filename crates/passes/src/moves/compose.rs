//! Moves that are made of moves.

use onnx::Dim;

use super::Move;

impl Move {
    /// The move that takes axes apart into the given parts and puts each part, named by its axis and its
    /// place there, where `to` has it.
    pub(crate) fn arranged(parts: &[Vec<Dim>], to: &[Vec<(usize, usize)>]) -> Option<Move> {
        let mut sizes = Vec::new();
        let mut number = |dim: &Dim| {
            sizes.push(dim.clone());
            sizes.len() - 1
        };
        let numbered: Vec<Vec<usize>> =
            parts.iter().map(|axis| axis.iter().map(&mut number).collect()).collect();
        let is_atom = |atom: &usize| !sizes[*atom].is(1);
        let atom = |&(axis, part): &(usize, usize)| numbered.get(axis)?.get(part).copied();
        let to: Option<Vec<Vec<usize>>> =
            to.iter().map(|axis| axis.iter().map(atom).collect()).collect();
        let without_ones = |axes: &[Vec<usize>]| -> Vec<Vec<usize>> {
            axes.iter().map(|axis| axis.iter().copied().filter(is_atom).collect()).collect()
        };
        let (from, to) = (without_ones(&numbered), without_ones(&to?));
        Some(Move { sizes, from, to })
    }

    /// This move and then another one.
    pub(crate) fn then_moves(self, next: &Move) -> Option<Move> {
        let (before, after) = (next.from.concat(), next.to.concat());
        let place = |atom: &usize| before.iter().position(|other| other == atom);
        let order: Vec<usize> = after.iter().map(place).collect::<Option<_>>()?;
        if before.len() != after.len() {
            return None;
        }
        let sizes: Vec<Dim> = before.iter().map(|&atom| next.sizes[atom].clone()).collect();
        self.reshaped(&sizes)?.ordered(&order)?.reshaped(&next.shape_after()?)
    }

    /// The move that undoes this one.
    pub(crate) fn undone(self) -> Move {
        Move { sizes: self.sizes, from: self.to, to: self.from }
    }

    /// The same move of arrays that have one more axis, the last.
    pub(crate) fn beside(mut self, last: &Dim) -> Move {
        let atoms = if last.is(1) { Vec::new() } else { vec![self.sizes.len()] };
        self.sizes.push(last.clone());
        self.from.push(atoms.clone());
        self.to.push(atoms);
        self
    }

    /// The same move of arrays that have not these axes: `axis` before, and `after` after.
    pub(crate) fn without(mut self, axis: usize, after: usize) -> Option<Move> {
        let is_there = axis < self.from.len() && after < self.to.len();
        is_there.then(|| {
            self.from.remove(axis);
            self.to.remove(after);
            self
        })
    }

    /// The same move of an array that is of size one along an axis.
    pub(crate) fn of_single(mut self, axis: usize) -> Option<Move> {
        let gone = std::mem::take(self.from.get_mut(axis)?);
        self.to.iter_mut().for_each(|atoms| atoms.retain(|atom| !gone.contains(atom)));
        Some(self)
    }

    /// The same move of an array that has only one where an axis is repeated which stands innermost in
    /// `after`. Also how often that is.
    pub(crate) fn of_one(mut self, axis: usize, after: usize) -> Option<(Move, i64)> {
        let repeated = self.from.get(axis)?.clone();
        let rest = self.to.get(after)?.strip_suffix(&repeated[..])?.to_vec();
        let times = self.size_of(&repeated)?.known()?;
        self.from[axis].clear();
        self.to[after] = rest;
        Some((self, times))
    }

    /// The same move of one entry of an axis after, which is a part of an axis before. Also the shape of the
    /// whole before, with an axis that begins with the entries, and which one that is.
    pub(crate) fn picked(mut self, after: usize) -> Option<(Vec<Dim>, Move, usize)> {
        let &[entries] = &self.to.get(after)?[..] else {
            return None;
        };
        let place = |atoms: &Vec<usize>| atoms.iter().position(|&atom| atom == entries);
        let (mut axis, place) =
            self.from.iter().enumerate().find_map(|(axis, atoms)| Some((axis, place(atoms)?)))?;
        if place > 0 {
            let rest = self.from[axis].split_off(place);
            axis += 1;
            self.from.insert(axis, rest);
        }
        let whole = self.shape_before()?;
        self.from[axis].remove(0);
        self.to.remove(after);
        Some((whole, self, axis))
    }

    pub(crate) fn shape_before(&self) -> Option<Vec<Dim>> {
        self.shape_of(&self.from)
    }

    /// Whether the axis before is the axis after, and not of size one.
    pub(crate) fn keeps(&self, axis: usize, after: usize) -> bool {
        let (before, after) = (self.from.get(axis), self.to.get(after));
        before == after && before.is_some_and(|atoms| !atoms.is_empty())
    }

    pub(crate) fn rank_before(&self) -> usize {
        self.from.len()
    }

    pub(crate) fn rank_after(&self) -> usize {
        self.to.len()
    }

    /// The sizes that an axis of the result is made of.
    pub(crate) fn parts_after(&self, axis: usize) -> Vec<Dim> {
        self.parts(self.to.get(axis))
    }

    /// The sizes that an axis before is made of.
    pub(crate) fn parts_before(&self, axis: usize) -> Vec<Dim> {
        self.parts(self.from.get(axis))
    }

    fn parts(&self, axis: Option<&Vec<usize>>) -> Vec<Dim> {
        axis.into_iter().flatten().map(|&atom| self.sizes[atom].clone()).collect()
    }
}
