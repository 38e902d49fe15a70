//! Adds axes, removes axes, and reorders parts of axes.

use onnx::Dim;

use super::{Axis, AxisMap};
use crate::rewrite::require;

impl AxisMap {
    /// Returns the map that splits axes into the given parts, and reorders the parts as in `to`. Each part in `to` is
    /// an axis before and the index of a part.
    pub fn rearrange(parts: &[Vec<Dim>], to: &[Vec<(usize, usize)>]) -> Option<AxisMap> {
        let mut map = AxisMap::identity_of_parts(parts.iter().cloned());
        let has_atom = |dim: &&Dim| !dim.is(1);
        let reordered = |axis: &Vec<(usize, usize)>| {
            let mut atoms = Axis::new();
            for &(axis, part) in axis {
                let (earlier, rest) = parts.get(axis)?.split_at_checked(part)?;
                let atom = earlier.iter().filter(has_atom).count();
                atoms.extend(rest.first().filter(has_atom).map(|_| map.before[axis][atom]));
            }
            Some(atoms)
        };
        map.after = to.iter().map(reordered).collect::<Option<_>>()?;
        Some(map)
    }

    /// Returns the same map for arrays with an additional last axis.
    #[must_use]
    pub fn with_last_axis(mut self, size: &Dim) -> AxisMap {
        let mut atoms = Axis::new();
        if !size.is(1) {
            atoms.push(self.sizes.len());
            self.sizes.push(size.clone());
        }
        self.before.push(atoms.clone());
        self.after.push(atoms);
        self
    }

    /// Returns the same map without an axis, which has the indices `before` and `after`.
    pub fn without_axis(mut self, before: usize, after: usize) -> Option<AxisMap> {
        let is_there = before < self.before.len() && after < self.after.len();
        is_there.then(|| {
            self.before.remove(before);
            self.after.remove(after);
            self
        })
    }

    /// Returns the same map for an array in which an axis before is a unit axis.
    pub fn with_unit_axis(mut self, axis: usize) -> Option<AxisMap> {
        let gone = std::mem::take(self.before.get_mut(axis)?);
        self.after.iter_mut().for_each(|atoms| atoms.retain(|atom| !gone.contains(atom)));
        Some(self)
    }

    /// Returns the same map without the innermost repeats of an axis after, and their number.
    pub fn without_repeats(mut self, axis: usize) -> Option<(AxisMap, i64)> {
        let atoms = self.after.get(axis)?;
        let own = atoms.iter().rposition(|&atom| self.is_own(atom)).map_or(0, |last| last + 1);
        let repeats = Axis::from_slice(&atoms[own..]);
        let times = self.size_of(&repeats)?.known().filter(|_| !repeats.is_empty())?;
        self.after[axis].truncate(own);
        Some((self, times))
    }

    /// True if the array is repeated along an atom.
    pub fn is_broadcast(&self) -> bool {
        !self.after.iter().flatten().all(|&atom| self.is_own(atom))
    }

    /// True if an atom is part of the array before, and not a repeat.
    pub(super) fn is_own(&self, atom: usize) -> bool {
        self.before.iter().any(|axis| axis.contains(&atom))
    }

    /// True if an axis after consists only of repeats.
    pub fn is_repeated_along(&self, axis: usize) -> bool {
        self.after.get(axis).is_some_and(|atoms| !atoms.iter().any(|&atom| self.is_own(atom)))
    }

    /// True if no other axis after has repeats.
    pub fn repeats_only_along(&self, axis: usize) -> bool {
        let others = self.after.iter().enumerate().filter(|(other, _)| *other != axis);
        others.flat_map(|(_, atoms)| atoms).all(|&atom| self.is_own(atom))
    }

    /// Returns the same map with another number of repeats along an axis that consists only of repeats.
    pub fn with_repeats(mut self, axis: usize, times: &Dim) -> Option<AxisMap> {
        require(self.is_repeated_along(axis))?;
        self.after[axis].clear();
        if !times.is(1) {
            self.after[axis].push(self.sizes.len());
            self.sizes.push(times.clone());
        }
        Some(self)
    }

    /// Returns the map for one entry of an axis after, which must be one part of an axis before.
    ///
    /// Also returns the shape of the whole array before, in which an axis begins with the entries, and that axis.
    pub fn pick(mut self, after: usize) -> Option<(Vec<Dim>, AxisMap, usize)> {
        let &[entries] = &self.after.get(after)?[..] else { return None };
        let place = |atoms: &Axis| atoms.iter().position(|&atom| atom == entries);
        let (mut axis, place) =
            self.before.iter().enumerate().find_map(|(axis, atoms)| Some((axis, place(atoms)?)))?;
        if place > 0 {
            let rest = self.before[axis].drain(place..).collect();
            axis += 1;
            self.before.insert(axis, rest);
        }
        let whole = self.shape_before()?;
        self.before[axis].remove(0);
        self.after.remove(after);
        Some((whole, self, axis))
    }

    /// True if an axis before and an axis after have the same atoms, and are not unit axes.
    pub fn keeps_axis(&self, before: usize, after: usize) -> bool {
        self.axis_after(before) == Some(after)
    }

    /// Returns the sizes of the parts of an axis before.
    pub fn parts_before(&self, axis: usize) -> Vec<Dim> {
        self.parts(self.before.get(axis))
    }

    /// Returns the sizes of the parts of an axis after.
    pub fn parts_after(&self, axis: usize) -> Vec<Dim> {
        self.parts(self.after.get(axis))
    }

    fn parts(&self, axis: Option<&Axis>) -> Vec<Dim> {
        axis.into_iter().flatten().map(|&atom| self.sizes[atom].clone()).collect()
    }

    /// True if the results of two maps of one array broadcast in the same way: they differ only in leading unit axes.
    pub fn broadcasts_as(&self, other: &AxisMap) -> bool {
        let without_leading_unit_axes = |map: &AxisMap| {
            let mut map = map.canonical();
            let unit_axes = map.after.iter().take_while(|axis| axis.is_empty()).count();
            map.after.drain(..unit_axes);
            map
        };
        without_leading_unit_axes(self) == without_leading_unit_axes(other)
    }

    /// True if both maps split the axes before into the same numbers of parts.
    pub fn has_parts_of(&self, other: &AxisMap) -> bool {
        let counts = |map: &AxisMap| map.before.iter().map(|axis| axis.len()).collect::<Vec<_>>();
        counts(self) == counts(other)
    }

    /// Sorts the parts of an axis after by their places before. Returns their former order.
    pub fn sort_parts_after(&mut self, axis: usize) -> Vec<usize> {
        let atoms = self.after[axis].clone();
        let place = |part: &usize| self.before.iter().flatten().position(|&a| a == atoms[*part]);
        let mut order: Vec<usize> = (0..atoms.len()).collect();
        order.sort_by_key(place);
        self.after[axis] = order.iter().map(|&part| atoms[part]).collect();
        order
    }

    /// Reorders the parts of an axis before.
    pub fn reorder_parts_before(&mut self, axis: usize, order: &[usize]) {
        self.before[axis] = order.iter().map(|&part| self.before[axis][part]).collect();
    }
}
