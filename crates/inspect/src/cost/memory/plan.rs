//! The memory of one graph over time.

use onnx::Total;
use onnx::operator::properties::COPIES;
use onnx::scan::Scan;
use onnx::sized::SizedModel;
use onnx::{Dim, OpType};

use super::Values;
use super::extra::{Body, Extra, extras};
use super::flat::{Flat, Source};
use super::frontier::Frontier;
use super::order::Order;
use super::reuse::{Buffer, buffers};

/// A node at its place in the order.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    /// The number of the node in the model.
    pub node: usize,
    /// The alternatives of what it needs while it runs, besides the values of its graph.
    pub extras: Vec<Extra>,
}

/// A step, and which of its alternatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub step: usize,
    pub extra: usize,
}

/// The plan of one graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub flat: Flat,
    pub moments: Vec<Moment>,
    pub buffers: Vec<Buffer>,
    /// The size of each buffer, if it is known.
    pub sizes: Vec<Option<Dim>>,
    /// The largest sums, with and without the outputs of the graph.
    peaks: [Frontier<Place>; 2],
}

/// Plans one graph after the other, from the inside out.
pub(super) struct Planner<'m, 'a> {
    pub sized: &'m SizedModel,
    pub scan: &'m Scan<'a>,
    pub order: Order,
    pub values: &'m Values,
    /// The plans of the instances so far.
    pub plans: Vec<Option<Plan>>,
}

impl Plan {
    /// Returns the largest sums. Without outputs, those are in memory of the graph around this one.
    pub(super) fn peak(&self, has_outputs: bool) -> &Frontier<Place> {
        &self.peaks[usize::from(has_outputs)]
    }

    /// Returns the buffers that are allocated at a step, with their sizes.
    pub(super) fn alive(
        &self,
        step: usize,
        has_outputs: bool,
    ) -> impl Iterator<Item = (&Buffer, &Dim)> {
        let all = self.buffers.iter().zip(&self.sizes);
        let alive = all.filter(move |(buffer, _)| {
            (buffer.first..=buffer.last).contains(&step) && (has_outputs || !buffer.is_output)
        });
        alive.filter_map(|(buffer, size)| Some((buffer, size.as_ref()?)))
    }

    /// Returns the number of buffers whose size is not known.
    pub(super) fn unknown(&self) -> usize {
        self.sizes.iter().filter(|size| size.is_none()).count()
    }

    /// True if an output of the graph is a value from outside, perhaps as a copy.
    pub(super) fn passes_through(&self, output: usize) -> bool {
        let Some(&value) = self.flat.outputs.get(output) else { return false };
        let is_given = |value: u32| self.flat.values[value as usize].source != Source::Made;
        let copy = self.flat.nodes.iter().find(|node| node.writes.contains(&Some(value)));
        let is_copy = copy.is_some_and(|node| {
            node.op.is_some_and(|op| op.is(COPIES)) && node.reads.iter().all(|&it| is_given(it))
        });
        is_given(value) || is_copy
    }
}

impl Planner<'_, '_> {
    /// Plans a graph. The bodies of its nodes must be planned before.
    pub(super) fn plan(&self, flat: Flat) -> Plan {
        let order = self.order.of(&flat);
        let mut buffers = buffers(&flat, &order);
        let node = |number: &usize| Moment {
            node: flat.nodes[*number].number,
            extras: extras(self, &flat, &flat.nodes[*number]),
        };
        let moments: Vec<Moment> = order.iter().map(node).collect();
        // The results of a loop or a branch are in memory that its bodies allocated.
        let is_late =
            |step: usize| matches!(flat.nodes[order[step]].op, Some(OpType::Loop | OpType::If));
        buffers.iter_mut().filter(|buffer| is_late(buffer.first)).for_each(|it| it.first += 1);
        let end = order.len();
        let at_end = buffers.iter_mut().filter(|buffer| buffer.is_output);
        at_end.for_each(|buffer| buffer.last = end);
        let size = |buffer: &Buffer| flat.ty(buffer.value).and_then(onnx::Type::bytes);
        let sizes = buffers.iter().map(size).collect();
        let mut plan = Plan { flat, moments, buffers, sizes, peaks: Default::default() };
        plan.peaks = [self.sweep(&plan, false), self.sweep(&plan, true)];
        plan
    }

    /// Returns the largest sums over all steps. At the last one, after all nodes, only outputs are left.
    fn sweep(&self, plan: &Plan, has_outputs: bool) -> Frontier<Place> {
        let end = plan.moments.len();
        let mut born: Vec<Vec<usize>> = vec![Vec::new(); end + 1];
        let mut dead: Vec<Vec<usize>> = vec![Vec::new(); end + 1];
        for (number, buffer) in plan.buffers.iter().enumerate() {
            if buffer.first <= buffer.last && (has_outputs || !buffer.is_output) {
                born[buffer.first].push(number);
                dead[buffer.last].push(number);
            }
        }
        let mut frontier = Frontier::default();
        let mut live = Total::default();
        let nothing = [Extra::default()];
        for step in 0..=end {
            for size in born[step].iter().filter_map(|&number| plan.sizes[number].as_ref()) {
                frontier.is_complete &= live.add(size).is_some();
            }
            let extras = plan.moments.get(step).map_or(&nothing[..], |moment| &moment.extras);
            for (number, extra) in extras.iter().enumerate() {
                let place = Place { step, extra: number };
                frontier.is_complete &= self.add(&mut frontier, &live, extra, place).is_some();
            }
            for size in dead[step].iter().filter_map(|&number| plan.sizes[number].as_ref()) {
                frontier.is_complete &= live.subtract(size).is_some();
            }
        }
        frontier
    }

    /// Adds the sums of what is alive and of an alternative of a step.
    fn add(
        &self,
        frontier: &mut Frontier<Place>,
        live: &Total,
        extra: &Extra,
        place: Place,
    ) -> Option<()> {
        let mut sum = live.clone();
        sum.add_total(&extra.own)?;
        let Some(body) = extra.body.and_then(|body| self.peak_of(body)) else {
            frontier.add(sum, place);
            return Some(());
        };
        frontier.is_complete &= body.is_complete;
        for (inner, _) in &body.sums {
            let mut sum = sum.clone();
            sum.add_total(inner)?;
            frontier.add(sum, place);
        }
        Some(())
    }

    /// Returns the largest sums of a body.
    pub(super) fn peak_of(&self, body: Body) -> Option<&Frontier<Place>> {
        Some(self.plans.get(body.instance)?.as_ref()?.peak(body.has_outputs))
    }
}
