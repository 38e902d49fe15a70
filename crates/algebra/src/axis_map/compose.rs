//! Composes and inverts maps, and compares them.

use onnx::Dim;

use super::{Axis, AxisMap, cut_off};
use crate::rewrite::require;

/// A map with the fewest atoms, which are numbered in the order of appearance. Equal maps have the same canonical map.
#[derive(PartialEq)]
pub(super) struct Canonical {
    /// `None` if the size of an axis is too large to be computed.
    sizes: Vec<Option<Dim>>,
    pub(super) before: Vec<Axis>,
    pub(super) after: Vec<Axis>,
}

impl AxisMap {
    /// Returns this map followed by another one. `None` if the shapes differ, or if the maps split an axis at unrelated
    /// places.
    pub fn then(&self, next: &AxisMap) -> Option<AxisMap> {
        require(self.after.len() == next.before.len())?;
        let (mut first, mut second) = (self.clone(), next.clone());
        for axis in 0..first.after.len() {
            align(&mut first, &mut second, axis)?;
        }
        let mut stands_for = vec![None; second.sizes.len()];
        let pairs = first.after.iter().flatten().zip(second.before.iter().flatten());
        for (&own, &other) in pairs {
            stands_for[other] = Some(own);
        }
        let mut after = Vec::with_capacity(second.after.len());
        for atoms in &second.after {
            let mut axis = Axis::new();
            for &atom in atoms {
                let own = *stands_for[atom].get_or_insert_with(|| {
                    first.sizes.push(second.sizes[atom].clone());
                    first.sizes.len() - 1
                });
                axis.push(own);
            }
            after.push(axis);
        }
        first.after = after;
        Some(first)
    }

    /// Returns the inverse map. The inverse of a broadcast picks one of equal entries. No layout op does that, so it has
    /// no steps.
    #[must_use]
    pub fn inverse(mut self) -> AxisMap {
        std::mem::swap(&mut self.before, &mut self.after);
        self
    }

    pub(super) fn canonical(&self) -> Canonical {
        let follows = |axes: &[Axis], atom: usize| -> Option<Option<usize>> {
            axes.iter().find_map(|axis| {
                let place = axis.iter().position(|&other| other == atom)?;
                Some(axis.get(place + 1).copied())
            })
        };
        // Returns the atom that follows an atom on both sides.
        let next = |atom: usize| match (follows(&self.before, atom), follows(&self.after, atom)) {
            (Some(before), Some(after)) if before != after => None,
            (before, after) => {
                let next = before.or(after)??;
                let is_beside = follows(&self.before, next).is_some() == before.is_some()
                    && follows(&self.after, next).is_some() == after.is_some();
                let have_sizes = self.size_of(&[atom, next]).is_some();
                (is_beside && have_sizes).then_some(next)
            }
        };
        let merged: Vec<usize> = (0..self.sizes.len()).filter_map(next).collect();
        let mut numbers = vec![None; self.sizes.len()];
        let mut sizes = Vec::new();
        for &atom in self.before.iter().chain(&self.after).flatten() {
            if merged.contains(&atom) || numbers[atom].is_some() {
                continue;
            }
            numbers[atom] = Some(sizes.len());
            let run: Vec<usize> = std::iter::successors(Some(atom), |&atom| next(atom)).collect();
            sizes.push(self.size_of(&run));
        }
        let renumbered = |axes: &[Axis]| {
            let axis = |atoms: &Axis| atoms.iter().filter_map(|&atom| numbers[atom]).collect();
            axes.iter().map(axis).collect()
        };
        Canonical { before: renumbered(&self.before), after: renumbered(&self.after), sizes }
    }
}

/// Splits the atoms of an axis between two maps until they are the same in both maps.
fn align(first: &mut AxisMap, second: &mut AxisMap, axis: usize) -> Option<()> {
    let mut place = 0;
    loop {
        let own = first.after[axis].get(place).copied();
        let other = second.before[axis].get(place).copied();
        let (own, other) = match (own, other) {
            (None, None) => return Some(()),
            (own, other) => own.zip(other)?,
        };
        let (a, b) = (first.sizes[own].clone(), second.sizes[other].clone());
        if a == b {
            place += 1;
        } else if let Some(rest) = cut_off(&a, &b) {
            first.split(own, &[b, rest]);
        } else {
            let rest = cut_off(&b, &a)?;
            second.split(other, &[a, rest]);
        }
    }
}

impl PartialEq for AxisMap {
    fn eq(&self, other: &AxisMap) -> bool {
        self.canonical() == other.canonical()
    }
}

impl Eq for AxisMap {}
