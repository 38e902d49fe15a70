//! Finds the fewest nodes that implement a map.

use onnx::Dim;

use super::{Axis, AxisMap};
use crate::rewrite::require;

/// A node of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Reshape(Vec<Dim>),
    Transpose(Vec<usize>),
    /// An `Expand` to this shape.
    Broadcast(Vec<Dim>),
}

impl Step {
    /// Returns the reshape from one shape to another. `None` if they are the same.
    pub fn reshape(before: &[Dim], after: &[Dim]) -> Option<Step> {
        (before != after).then(|| Step::Reshape(after.to_vec()))
    }
}

/// Returns the cost of steps. A transpose and a broadcast write every element. A reshape is only a node.
pub fn cost(steps: &[Step]) -> usize {
    let each = steps.iter().map(|step| match step {
        Step::Reshape(_) => 1,
        Step::Transpose(_) | Step::Broadcast(_) => 3,
    });
    each.sum()
}

/// Returns the number of transposes.
pub fn transposes(steps: &[Step]) -> usize {
    steps.iter().filter(|step| matches!(step, Step::Transpose(_))).count()
}

impl AxisMap {
    /// Returns the shortest chain of nodes that implements the map: at most a reshape, a transpose and a reshape. A
    /// broadcast also needs an `Expand`. `None` if a size is too large, or if the map is the inverse of a broadcast.
    pub fn steps(&self) -> Option<Vec<Step>> {
        let is_after = |atom: &usize| self.after.iter().any(|axis| axis.contains(atom));
        require(self.before.iter().flatten().all(is_after))?;
        if self.is_broadcast() { self.broadcast_steps() } else { self.layout_steps() }
    }

    /// Puts the layout ops before the broadcast, where the array has fewer elements.
    fn broadcast_steps(&self) -> Option<Vec<Step>> {
        let after = self.shape_after()?;
        let is_own = |atom: &usize| self.is_own(*atom);
        // Splits every axis after into runs of own atoms and runs of repeats.
        let mut runs: Vec<Axis> = Vec::new();
        for atoms in &self.after {
            let mut parts: Vec<Axis> = Vec::new();
            for atom in atoms {
                match parts.last_mut().filter(|part| is_own(&part[0]) == is_own(atom)) {
                    Some(part) => part.push(*atom),
                    None => parts.push(Axis::from_slice(&[*atom])),
                }
            }
            if parts.is_empty() { runs.push(Axis::new()) } else { runs.append(&mut parts) }
        }
        let expanded = self.shape_of(&runs)?;
        let mut single = self.clone();
        single.after = runs;
        single.after.iter_mut().for_each(|axis| axis.retain(|atom| is_own(atom)));
        // An `Expand` adds leading axes by itself.
        let leading = single.after.iter().take_while(|axis| axis.is_empty()).count();
        let without_leading = |units: usize| {
            let mut single = single.clone();
            single.after.drain(..units);
            single.layout_steps()
        };
        let mut steps = (0..=leading).filter_map(without_leading).min_by_key(Vec::len)?;
        steps.push(Step::Broadcast(expanded.clone()));
        steps.extend(Step::reshape(&expanded, &after));
        Some(steps)
    }

    fn layout_steps(&self) -> Option<Vec<Step>> {
        let (before, after) = (self.shape_before()?, self.shape_after()?);
        let groups = self.groups();
        if groups.len() <= 1 {
            return Some(Step::reshape(&before, &after).into_iter().collect());
        }
        if let Some(perm) = self.perm() {
            return Some(vec![Step::Transpose(perm)]);
        }
        let in_one_group =
            |axis: &Axis| groups.iter().any(|group| axis.iter().all(|atom| group.contains(atom)));
        if self.before.iter().all(in_one_group) {
            let perm = by_first_atom(&self.before, &self.after);
            return Some(vec![Step::Transpose(perm), Step::Reshape(after)]);
        }
        let inner = if self.after.iter().all(in_one_group) { &self.after } else { &groups };
        let order = by_first_atom(inner, &self.before);
        let reshaped: Vec<Axis> = order.iter().map(|&axis| inner[axis].clone()).collect();
        let mut steps = vec![Step::Reshape(self.shape_of(&reshaped)?)];
        let perm = (0..order.len()).map(|axis| order.iter().position(|&other| other == axis));
        steps.push(Step::Transpose(perm.collect::<Option<_>>()?));
        steps.extend(Step::reshape(&self.shape_of(inner)?, &after));
        Some(steps)
    }

    /// Returns the runs of atoms that are adjacent before and after, in the order after.
    fn groups(&self) -> Vec<Axis> {
        let place = |atom: usize| self.before.iter().flatten().position(|&other| other == atom);
        let mut groups: Vec<Axis> = Vec::new();
        for &atom in self.after.iter().flatten() {
            let follows = |last: &usize| place(*last).map(|place| place + 1) == place(atom);
            match groups.last_mut().filter(|group| group.last().is_some_and(follows)) {
                Some(group) => group.push(atom),
                None => groups.push(Axis::from_slice(&[atom])),
            }
        }
        groups
    }
}

/// Returns the axes in the order in which their atoms appear in `others`. Unit axes come first.
fn by_first_atom(axes: &[Axis], others: &[Axis]) -> Vec<usize> {
    let place = |axis: &usize| {
        let first = axes[*axis].first()?;
        others.iter().flatten().position(|atom| atom == first)
    };
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by_key(place);
    order
}
