//! Moves: what `Transpose`, `Reshape`, `Squeeze` and `Unsqueeze` do to an array, and any chain of them.
//!
//! A chain takes an array apart into atoms, runs of elements that stay together, and puts these in
//! another order. What it does is known by that order alone, however many nodes spell it, so that the
//! shortest spelling can be written down: at most a `Reshape`, a `Transpose` and a `Reshape`.

pub(crate) mod batches;
pub(crate) mod blocks;
pub(crate) mod columns;
mod compose;
pub(crate) mod merge;
pub(crate) mod products;
pub(crate) mod sink;

use onnx::{DType, Dim, Edit, Op, OpType, Tensor, Type, ValueId};

use crate::access::Access;
use crate::eval::transposed;
use crate::operators::LAYOUT_OPS;

/// How the axes of one array become those of another. Axes of size one have no atoms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    /// The size of each atom.
    sizes: Vec<Dim>,
    /// The atoms of each axis before.
    from: Vec<Vec<usize>>,
    /// The atoms of each axis after.
    to: Vec<Vec<usize>>,
}

/// One node of the shortest spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Reshape(Vec<Dim>),
    Transpose(Vec<usize>),
}

/// Whether the node is a move.
pub(crate) fn is_move(edit: &Edit<'_>, index: usize) -> bool {
    edit.node(index).op.is_one_of(LAYOUT_OPS)
}

impl Move {
    /// The move that changes nothing.
    pub(crate) fn none(shape: &[Dim]) -> Move {
        Move::none_of_parts(shape.iter().map(|dim| vec![dim.clone()]))
    }

    /// The move that changes nothing, of axes that are known to be made of parts.
    fn none_of_parts(axes: impl Iterator<Item = Vec<Dim>>) -> Move {
        let mut sizes = Vec::new();
        let from: Vec<Vec<usize>> = axes
            .map(|parts| {
                let first = sizes.len();
                sizes.extend(parts.into_iter().filter(|part| !part.is(1)));
                (first..sizes.len()).collect()
            })
            .collect();
        Move { sizes, to: from.clone(), from }
    }

    /// This move and then that of a node. `None` where the node takes the array apart in a way that
    /// is not known, or is no move.
    pub(crate) fn then(self, edit: &Edit<'_>, index: usize) -> Option<Move> {
        let node = edit.node(index);
        if node.op == OpType::Transpose {
            return self.ordered(&edit.perm(index)?);
        }
        let shape = edit.ty(node.outputs[0])?.shape.clone();
        (is_move(edit, index)).then(|| self.reshaped(&shape))?
    }

    /// This move and then one where axis `i` is what was axis `order[i]`.
    pub(crate) fn ordered(mut self, order: &[usize]) -> Option<Move> {
        self.to = order.iter().map(|&axis| self.to.get(axis).cloned()).collect::<Option<_>>()?;
        Some(self)
    }

    /// This move and then a change of the shape. `None` where it cuts through what stays together in a
    /// way that is not known.
    pub(crate) fn reshaped(mut self, shape: &[Dim]) -> Option<Move> {
        let mut atoms: Vec<usize> = self.to.concat();
        atoms.reverse();
        let mut to = Vec::with_capacity(shape.len());
        for dim in shape {
            let mut axis = Vec::new();
            match dim {
                Dim::Named(_) => {
                    let atom = atoms.pop().filter(|&atom| self.sizes[atom] == *dim)?;
                    axis.push(atom);
                }
                Dim::Known(0) => return None,
                Dim::Known(size) => {
                    let mut left = *size;
                    while left > 1 {
                        let atom = atoms.pop()?;
                        let found = self.sizes[atom].known().filter(|&found| found > 0)?;
                        if left % found == 0 {
                            left /= found;
                        } else if found % left == 0 {
                            atoms.push(self.split(atom, left, found / left));
                            left = 1;
                        } else {
                            return None;
                        }
                        axis.push(atom);
                    }
                }
            }
            to.push(axis);
        }
        // Splitting changed what stood before, and `to` is new.
        self.to = to;
        atoms.is_empty().then_some(self)
    }

    /// Makes an atom two; it stays the first of them.
    fn split(&mut self, atom: usize, first: i64, second: i64) -> usize {
        let added = self.sizes.len();
        self.sizes[atom] = Dim::Known(first);
        self.sizes.push(Dim::Known(second));
        for axis in &mut self.from {
            if let Some(position) = axis.iter().position(|&other| other == atom) {
                axis.insert(position + 1, added);
            }
        }
        added
    }

    /// The shape of the result.
    pub(crate) fn shape_after(&self) -> Option<Vec<Dim>> {
        self.shape_of(&self.to)
    }

    fn shape_of(&self, axes: &[Vec<usize>]) -> Option<Vec<Dim>> {
        axes.iter().map(|atoms| self.size_of(atoms)).collect()
    }

    fn size_of(&self, atoms: &[usize]) -> Option<Dim> {
        if let [atom] = atoms {
            return Some(self.sizes[*atom].clone());
        }
        let known: Option<i64> = atoms.iter().map(|&atom| self.sizes[atom].known()).product();
        known.map(Dim::Known)
    }

    /// What the move does to an operand that is broadcast against its result, undone: the operand as
    /// it has to be to broadcast against what was there before. `None` where there is no such array.
    pub(crate) fn undone_on(&self, operand: &[Dim]) -> Option<Move> {
        let leading = self.to.len().checked_sub(operand.len())?;
        let mut from = Vec::with_capacity(operand.len());
        for (dim, atoms) in operand.iter().zip(&self.to[leading..]) {
            if dim.is(1) {
                from.push(Vec::new());
            } else if self.size_of(atoms).as_ref() == Some(dim) {
                from.push(atoms.clone());
            } else {
                return None;
            }
        }
        let kept = from.concat();
        let is_kept = |atom: &&usize| kept.contains(atom);
        let mut to = Vec::with_capacity(self.from.len());
        for atoms in &self.from {
            let own: Vec<usize> = atoms.iter().filter(is_kept).copied().collect();
            if !own.is_empty() && own.len() != atoms.len() {
                return None;
            }
            to.push(own);
        }
        Some(Move { sizes: self.sizes.clone(), from, to })
    }

    /// The axis before that is the whole of this axis after, and nothing else.
    pub(crate) fn axis_before(&self, axis: usize) -> Option<usize> {
        let atoms = self.to.get(axis).filter(|atoms| !atoms.is_empty())?;
        self.from.iter().position(|before| before == atoms)
    }

    /// The fewest nodes that make the move. `None` where a size is not known.
    pub(crate) fn steps(&self) -> Option<Vec<Step>> {
        let (before, after) = (self.shape_of(&self.from)?, self.shape_of(&self.to)?);
        let groups = self.groups();
        if groups.len() <= 1 {
            return Some(if before == after { Vec::new() } else { vec![Step::Reshape(after)] });
        }
        if let Some(order) = self.plain_order() {
            return Some(vec![Step::Transpose(order)]);
        }
        let in_one_group = |axis: &Vec<usize>| {
            groups.iter().any(|group| axis.iter().all(|atom| group.contains(atom)))
        };
        if self.from.iter().all(in_one_group) {
            let order = by_first_atom(&self.from, &self.to.concat());
            return Some(vec![Step::Transpose(order), Step::Reshape(after)]);
        }
        let inner = if self.to.iter().all(in_one_group) { &self.to } else { &groups };
        let order = by_first_atom(inner, &self.from.concat());
        let renamed: Vec<Vec<usize>> = order.iter().map(|&axis| inner[axis].clone()).collect();
        let mut steps = vec![Step::Reshape(self.shape_of(&renamed)?)];
        let back = (0..order.len()).map(|axis| order.iter().position(|&other| other == axis));
        steps.push(Step::Transpose(back.collect::<Option<_>>()?));
        if self.shape_of(inner)? != after {
            steps.push(Step::Reshape(after));
        }
        Some(steps)
    }

    /// The order of the axes, where the move is no more than one.
    fn plain_order(&self) -> Option<Vec<usize>> {
        let mut ones = (0..self.from.len()).filter(|&axis| self.from[axis].is_empty());
        let find = |atoms: &Vec<usize>| self.from.iter().position(|before| before == atoms);
        let axis = |atoms: &Vec<usize>| if atoms.is_empty() { ones.next() } else { find(atoms) };
        let order: Vec<usize> = self.to.iter().map(axis).collect::<Option<_>>()?;
        (order.len() == self.from.len()).then_some(order)
    }

    /// Runs of atoms that stand side by side before and after, in the order after.
    fn groups(&self) -> Vec<Vec<usize>> {
        let before = self.from.concat();
        let place = |atom: usize| before.iter().position(|&other| other == atom);
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for atom in self.to.concat() {
            let follows = |last: &usize| place(*last).map(|place| place + 1) == place(atom);
            match groups.last_mut().filter(|group| group.last().is_some_and(follows)) {
                Some(group) => group.push(atom),
                None => groups.push(vec![atom]),
            }
        }
        groups
    }
}

/// The axes in the order in which their atoms stand in `atoms`; those of size one come first.
fn by_first_atom(axes: &[Vec<usize>], atoms: &[usize]) -> Vec<usize> {
    let place = |axis: &usize| {
        let first = axes[*axis].first()?;
        atoms.iter().position(|atom| atom == first)
    };
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by_key(place);
    order
}

/// What the steps cost: moving elements is work, naming them anew is a node.
pub(crate) fn cost(steps: &[Step]) -> usize {
    let each = steps.iter().map(|step| match step {
        Step::Reshape(_) => 1,
        Step::Transpose(_) => 3,
    });
    each.sum()
}

/// Returns the operator that transposes a value: axis `i` of the result is axis `perm[i]` of `x`.
pub(crate) fn transpose(x: ValueId, perm: &[usize]) -> Op<'static> {
    let perm: Vec<i64> = perm.iter().map(|&axis| axis as i64).collect();
    Op::new(OpType::Transpose, &[x]).attr("perm", &perm[..])
}

/// A step as a node.
pub(crate) struct Planned {
    pub op: OpType,
    /// The sizes that `Reshape` is given.
    sizes: Option<Vec<i64>>,
    order: Vec<usize>,
    pub shape: Vec<Dim>,
}

/// The steps as nodes on an array of this shape. `None` where a shape has too many named sizes to be
/// written down.
pub(crate) fn plan(shape: &[Dim], steps: &[Step]) -> Option<Vec<Planned>> {
    let mut shape = shape.to_vec();
    let mut planned = Vec::with_capacity(steps.len());
    for step in steps {
        match step {
            Step::Reshape(after) => {
                let sizes = Some(sizes_of(&shape, after)?);
                shape.clone_from(after);
                let shape = shape.clone();
                planned.push(Planned { op: OpType::Reshape, sizes, order: Vec::new(), shape });
            }
            Step::Transpose(order) => {
                shape = order.iter().map(|&axis| shape[axis].clone()).collect();
                let (order, shape) = (order.clone(), shape.clone());
                planned.push(Planned { op: OpType::Transpose, sizes: None, order, shape });
            }
        }
    }
    Some(planned)
}

/// A shape as `Reshape` takes it without anything being computed: zero is the size that the operand has
/// there, −1 what is left over.
fn sizes_of(before: &[Dim], after: &[Dim]) -> Option<Vec<i64>> {
    if after.iter().any(|dim| dim.is(0)) {
        return None;
    }
    let named = after.iter().filter(|dim| dim.known().is_none()).count();
    let size = |(axis, dim): (usize, &Dim)| match dim {
        Dim::Known(size) => Some(*size),
        Dim::Named(_) if before.get(axis) == Some(dim) => Some(0),
        // Beside a zero, nothing may be left over: where that is empty, anything would fit.
        Dim::Named(_) if named == 1 => Some(-1),
        Dim::Named(_) => None,
    };
    after.iter().enumerate().map(size).collect()
}

impl Planned {
    /// The node, on `x`.
    pub(crate) fn op(
        &self,
        edit: &mut Edit<'_>,
        index: usize,
        fused: &[usize],
        x: ValueId,
    ) -> Option<Op<'static>> {
        let Some(sizes) = &self.sizes else {
            return Some(transpose(x, &self.order));
        };
        let tensor = Tensor::of_ints(DType::I64, vec![sizes.len() as i64], sizes)?;
        let sizes = edit.constant(index, fused, tensor, &[]);
        Some(Op::new(OpType::Reshape, &[x, sizes]))
    }

    /// What the node makes of a constant.
    pub(crate) fn of_constant(&self, x: &Tensor) -> Option<Tensor> {
        if self.sizes.is_none() {
            return transposed(x, &self.order);
        }
        let shape = self.shape.iter().map(Dim::known).collect::<Option<_>>()?;
        Some(Tensor { shape, ..x.clone() })
    }
}

/// What the planned nodes make of `x`, in front of the node at `index`: a constant of a constant.
pub(crate) fn emit(
    edit: &mut Edit<'_>,
    index: usize,
    fused: &[usize],
    x: ValueId,
    planned: &[Planned],
) -> Option<ValueId> {
    if planned.is_empty() {
        return Some(x);
    }
    if let Some(tensor) = edit.tensor(x) {
        let moved =
            planned.iter().try_fold(tensor.clone(), |tensor, step| step.of_constant(&tensor));
        return Some(edit.constant(index, fused, moved?, &[x]));
    }
    let dtype = edit.ty(x)?.dtype;
    planned.iter().try_fold(x, |x, step| {
        let op = step.op(edit, index, fused, x)?;
        Some(edit.insert(index, fused, op, Type::new(dtype, &step.shape[..])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(sizes: &[i64]) -> Vec<Dim> {
        sizes.iter().map(|&size| Dim::Known(size)).collect()
    }

    fn order(chain: Move, order: &[usize]) -> Move {
        chain.ordered(order).unwrap()
    }

    #[test]
    fn moving_an_axis_of_size_one_is_a_change_of_the_shape() {
        let chain = order(Move::none(&known(&[2, 1, 3])), &[1, 0, 2]);
        assert_eq!(chain.steps(), Some(vec![Step::Reshape(known(&[1, 2, 3]))]));
    }

    #[test]
    fn what_is_put_back_was_never_moved() {
        let chain = order(order(Move::none(&known(&[2, 3, 4])), &[1, 2, 0]), &[2, 0, 1]);
        assert_eq!(chain.steps(), Some(Vec::new()));
    }

    #[test]
    fn heads_are_split_off_and_moved_in_two_steps() {
        let chain = Move::none(&known(&[2, 5, 12])).reshaped(&known(&[2, 5, 3, 1, 4])).unwrap();
        let chain = order(chain, &[0, 2, 1, 3, 4]).reshaped(&known(&[2, 3, 5, 4])).unwrap();
        let steps = vec![Step::Reshape(known(&[2, 5, 3, 4])), Step::Transpose(vec![0, 2, 1, 3])];
        assert_eq!(chain.steps(), Some(steps));
    }

    #[test]
    fn heads_are_moved_and_joined_in_two_steps() {
        let chain = order(Move::none(&known(&[2, 3, 5, 4])), &[0, 2, 1, 3]);
        let chain = chain.reshaped(&known(&[10, 12])).unwrap();
        let steps = vec![Step::Transpose(vec![0, 2, 1, 3]), Step::Reshape(known(&[10, 12]))];
        assert_eq!(chain.steps(), Some(steps));
    }

    #[test]
    fn a_shape_that_cuts_through_the_atoms_is_not_followed() {
        assert_eq!(Move::none(&known(&[4, 3])).reshaped(&known(&[6, 2])), None);
        let named = [Dim::Named("B".into()), Dim::Known(3)];
        assert_eq!(Move::none(&named).reshaped(&[Dim::Named("3*B".into())]), None);
    }

    #[test]
    fn an_operand_is_moved_back_where_it_broadcasts() {
        let chain = order(Move::none(&known(&[2, 3, 4])), &[2, 0, 1]);
        let undone = chain.undone_on(&known(&[4, 1, 3])).unwrap();
        assert_eq!(undone.steps(), Some(vec![Step::Transpose(vec![1, 2, 0])]));
        let joined = Move::none(&known(&[2, 3])).reshaped(&known(&[6])).unwrap();
        assert_eq!(joined.undone_on(&known(&[6])).unwrap().steps().map(|s| s.len()), Some(1));
        let split = Move::none(&known(&[6])).reshaped(&known(&[2, 3])).unwrap();
        assert_eq!(split.undone_on(&known(&[3])), None);
    }
}
