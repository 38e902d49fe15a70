//! Describes the effect of layout ops and broadcasts on the axes of an array.
//!
//! A chain of `Transpose`, `Reshape`, `Squeeze`, `Unsqueeze` and `Expand` splits the axes of an array and
//! reorders the parts, as in `[a, b*c] -> [c, a, b]`. The parts are *atoms*: no node splits them further.
//! A unit axis has no atoms. The array is repeated along an atom that is only in the result. Chains with the
//! same effect have the same [`AxisMap`], and [`AxisMap::steps`] returns the shortest one.

mod compose;
mod emit;
mod parts;
mod steps;

use std::fmt;

use onnx::operator::properties::RESHAPES;
use onnx::{Dim, Edit, OpType, ValueId};
use smallvec::SmallVec;

use crate::rewrite::require;

pub use emit::{added_units, emit, emit_after, emit_last, plan, transpose};
pub use steps::{Step, cost, transposes};

/// The atoms of an axis, the outermost first.
type Axis = SmallVec<[usize; 2]>;

/// A map from the axes of one array (*before*) to the axes of another array (*after*).
#[derive(Clone, Debug)]
pub struct AxisMap {
    /// The size of each atom.
    sizes: Vec<Dim>,
    /// The atoms of each axis before.
    before: Vec<Axis>,
    /// The atoms of each axis after.
    after: Vec<Axis>,
}

impl AxisMap {
    /// Returns the map that changes nothing.
    pub fn identity(shape: &[Dim]) -> AxisMap {
        AxisMap::identity_of_parts(shape.iter().map(|dim| vec![dim.clone()]))
    }

    /// Returns the map that changes nothing, for axes that consist of the given parts.
    pub fn identity_of_parts(axes: impl IntoIterator<Item = Vec<Dim>>) -> AxisMap {
        let mut sizes = Vec::new();
        let axes = axes.into_iter().map(|parts| {
            let first = sizes.len();
            sizes.extend(parts.into_iter().filter(|part| !part.is(1)));
            (first..sizes.len()).collect()
        });
        let before: Vec<Axis> = axes.collect();
        AxisMap { sizes, after: before.clone(), before }
    }

    /// Returns the map of a chain of nodes that begins with a value, the last node first. `None` if a node
    /// is not a layout op or broadcast, or splits an axis into unknown parts.
    pub fn of_chain(edit: &Edit<'_>, source: ValueId, chain: &[usize]) -> Option<AxisMap> {
        let start = AxisMap::identity(edit.shape(source)?);
        chain.iter().rev().try_fold(start, |map, &node| map.then_node(edit, node))
    }

    /// Returns this map followed by a node. `None` as in [`AxisMap::of_chain`].
    pub fn then_node(self, edit: &Edit<'_>, index: usize) -> Option<AxisMap> {
        let node = edit.node(index);
        let shape = edit.shape(node.outputs[0])?;
        match node.op.onnx()? {
            OpType::Transpose => self.transposed(&edit.perm(index)?),
            OpType::Expand => self.broadcast(shape),
            OpType::Identity => Some(self),
            op => op.is(RESHAPES).then(|| self.reshaped(shape))?,
        }
    }

    /// Returns this map followed by a transpose.
    pub fn transposed(mut self, perm: &[usize]) -> Option<AxisMap> {
        self.after =
            perm.iter().map(|&axis| self.after.get(axis).cloned()).collect::<Option<_>>()?;
        Some(self)
    }

    /// Returns this map followed by a swap of the last two axes.
    pub fn with_last_axes_swapped(mut self) -> Option<AxisMap> {
        let rank = self.after.len();
        self.after.swap(rank.checked_sub(2)?, rank - 1);
        Some(self)
    }

    /// Returns this map followed by a reshape. `None` if the reshape splits an axis into unknown parts.
    pub fn reshaped(mut self, shape: &[Dim]) -> Option<AxisMap> {
        let mut atoms: Vec<usize> = self.after.iter().flatten().rev().copied().collect();
        let mut after = Vec::with_capacity(shape.len());
        for dim in shape {
            let mut axis = Axis::new();
            let mut left = dim.clone();
            while !left.is(1) {
                let atom = atoms.pop()?;
                let size = self.sizes[atom].clone();
                if let Some(rest) = cut_off(&left, &size) {
                    left = rest;
                } else {
                    let rest = cut_off(&size, &left)?;
                    atoms.extend(self.split(atom, &[left, rest]));
                    left = Dim::Known(1);
                }
                axis.push(atom);
            }
            after.push(axis);
        }
        self.after = after;
        atoms.is_empty().then_some(self)
    }

    /// Returns this map followed by a broadcast to a shape. `None` if the shapes do not broadcast.
    pub fn broadcast(mut self, shape: &[Dim]) -> Option<AxisMap> {
        let missing = shape.len().checked_sub(self.after.len())?;
        self.after.splice(0..0, vec![Axis::new(); missing]);
        for (axis, dim) in shape.iter().enumerate() {
            if self.after[axis].is_empty() && !dim.is(1) {
                self.after[axis].push(self.sizes.len());
                self.sizes.push(dim.clone());
            } else if self.size_after(axis).as_ref() != Some(dim) {
                return None;
            }
        }
        Some(self)
    }

    /// Splits an atom. The atom becomes the first part. Returns the other parts.
    fn split(&mut self, atom: usize, parts: &[Dim]) -> Vec<usize> {
        let added: Vec<usize> = (self.sizes.len()..).take(parts.len() - 1).collect();
        self.sizes[atom].clone_from(&parts[0]);
        self.sizes.extend_from_slice(&parts[1..]);
        for axis in self.before.iter_mut().chain(&mut self.after) {
            if let Some(place) = axis.iter().position(|&other| other == atom) {
                axis.insert_many(place + 1, added.iter().copied());
            }
        }
        added
    }

    /// Returns the shape before.
    pub fn shape_before(&self) -> Option<Vec<Dim>> {
        self.shape_of(&self.before)
    }

    /// Returns the shape after.
    pub fn shape_after(&self) -> Option<Vec<Dim>> {
        self.shape_of(&self.after)
    }

    /// Returns the size of an axis before.
    pub fn size_before(&self, axis: usize) -> Option<Dim> {
        self.size_of(self.before.get(axis)?)
    }

    /// Returns the size of an axis after.
    pub fn size_after(&self, axis: usize) -> Option<Dim> {
        self.size_of(self.after.get(axis)?)
    }

    fn shape_of(&self, axes: &[Axis]) -> Option<Vec<Dim>> {
        axes.iter().map(|atoms| self.size_of(atoms)).collect()
    }

    fn size_of(&self, atoms: &[usize]) -> Option<Dim> {
        Dim::checked_product(atoms.iter().map(|&atom| &self.sizes[atom]))
    }

    pub fn rank_before(&self) -> usize {
        self.before.len()
    }

    pub fn rank_after(&self) -> usize {
        self.after.len()
    }

    pub fn is_identity(&self) -> bool {
        self.before == self.after
    }

    /// Returns the axis before that has the same atoms as an axis after. `None` for a unit axis.
    pub fn axis_before(&self, axis: usize) -> Option<usize> {
        same_axis(&self.after, axis, &self.before)
    }

    /// Returns the axis after that has the same atoms as an axis before. `None` for a unit axis.
    pub fn axis_after(&self, axis: usize) -> Option<usize> {
        same_axis(&self.before, axis, &self.after)
    }

    /// Returns the permutation, if the map is a transpose.
    pub fn perm(&self) -> Option<Vec<usize>> {
        let mut units = (0..self.before.len()).filter(|&axis| self.before[axis].is_empty());
        let mut axis_before = |axis: usize| {
            if self.after[axis].is_empty() { units.next() } else { self.axis_before(axis) }
        };
        let perm: Vec<usize> =
            (0..self.after.len()).map(&mut axis_before).collect::<Option<_>>()?;
        (perm.len() == self.before.len()).then_some(perm)
    }

    /// Returns the map of an operand that broadcasts with the array before. The result broadcasts with the array after
    /// in the same way. `None` if there is no such map.
    pub fn on_operand(&self, operand: &[Dim]) -> Option<AxisMap> {
        let leading = self.before.len().checked_sub(operand.len())?;
        let mut before = Vec::with_capacity(operand.len());
        for (dim, atoms) in operand.iter().zip(&self.before[leading..]) {
            if dim.is(1) {
                before.push(Axis::new());
                continue;
            }
            require(self.size_of(atoms).as_ref() == Some(dim))?;
            before.push(atoms.clone());
        }
        let is_kept = |atom: &&usize| before.iter().any(|axis| axis.contains(atom));
        let mut after = Vec::with_capacity(self.after.len());
        for atoms in &self.after {
            let own: Axis = atoms.iter().filter(is_kept).copied().collect();
            require(own.is_empty() || own.len() == atoms.len())?;
            after.push(own);
        }
        Some(AxisMap { sizes: self.sizes.clone(), before, after })
    }
}

/// Divides the size of an axis by the size of its first part. `None` if the division is not exact for all sizes.
///
/// If a symbolic size is 0, the array has no elements, so that any order is correct.
fn cut_off(whole: &Dim, part: &Dim) -> Option<Dim> {
    let is_positive = |size: &Dim| size.known().is_none_or(|size| size > 0);
    whole.divide_exact(part).filter(|rest| is_positive(rest) && is_positive(part))
}

fn same_axis(axes: &[Axis], axis: usize, others: &[Axis]) -> Option<usize> {
    let atoms = axes.get(axis).filter(|atoms| !atoms.is_empty())?;
    others.iter().position(|other| other == atoms)
}

/// `[a, b*c] -> [c, a, b]`, with `1` for a unit axis.
impl fmt::Display for AxisMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let map = self.canonical();
        let letter = |atom: usize| match u8::try_from(atom) {
            Ok(atom) if atom < 26 => char::from(b'a' + atom).to_string(),
            _ => format!("a{atom}"),
        };
        let side = |axes: &[Axis]| {
            let axis = |atoms: &Axis| match &atoms[..] {
                [] => "1".to_owned(),
                atoms => atoms.iter().map(|&atom| letter(atom)).collect::<Vec<_>>().join("*"),
            };
            axes.iter().map(axis).collect::<Vec<_>>().join(", ")
        };
        write!(f, "[{}] -> [{}]", side(&map.before), side(&map.after))
    }
}

#[cfg(test)]
mod tests;
