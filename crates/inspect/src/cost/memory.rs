//! Computes how much memory a model needs while it runs: when each value is born and dies, and what is alive at the peak.
//!
//! The plan is that of ONNX Runtime without its arena: the order of nodes, values that share a buffer, and buffers that
//! wait for the next value of the same shape. Inputs and weights are not part of it, because the caller and the session
//! hold them.

mod curve;
mod extra;
mod flat;
mod frontier;
mod fuse;
mod order;
mod plan;
mod reuse;
mod show;
mod sizes;

use onnx::Total;
use onnx::scan::Scan;
use onnx::sized::SizedModel;
use provenance::outline::GraphPlace;

use extra::Body;
use flat::{Flat, Flattener};
use frontier::Frontier;
use fuse::fuse;
pub use order::Order;
use plan::{Place, Plan, Planner};
pub use show::{Peak, PeakLine};
pub use sizes::Values;

/// The memory of a model over time.
#[derive(Debug)]
pub struct Memory {
    /// The nodes of the main graph in the order in which they run. Functions are inlined.
    pub steps: Vec<Step>,
    /// The memory that is allocated for values, in the order in which it is allocated.
    pub buffers: Vec<Buffer>,
    /// The values that are allocated at the peak, largest first.
    pub peak: Vec<Held>,
    /// The number of the node that runs at the peak.
    pub node: Option<usize>,
    /// The size at the peak, for the sizes that are known and large values of the other symbols.
    pub total: Total,
    /// The size at the peak as a number, if all sizes are known.
    pub bytes: Option<i128>,
    /// The size at the peak for all sizes. `None` if it is too long.
    pub formula: Option<String>,
    pub inputs: Total,
    pub outputs: Total,
    pub weights: Total,
    /// Reasons why the sums leave something out.
    pub notes: Vec<String>,
}

/// A node as it runs.
#[derive(Clone, Debug)]
pub struct Step {
    /// The number of the node in the model.
    pub node: usize,
    /// The memory that it needs while it runs, besides the buffers of the main graph: one of these sums.
    pub extra: Vec<Total>,
}

/// Memory for one value, or for several one after the other.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub size: Total,
    /// The first and the last step at which it is allocated.
    pub first: usize,
    pub last: usize,
    /// The nodes that write to it, and the steps at which they do.
    pub writers: Vec<(usize, usize)>,
    pub is_output: bool,
}

/// Memory that is allocated at the peak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The number of the node that it was allocated for.
    pub node: usize,
    pub size: Total,
    pub purpose: Purpose,
}

/// The reason why memory is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// A value that a node still reads, or an output.
    Value,
    /// Nothing reads the value. The runtime keeps the memory for a later value of the same shape.
    Kept,
    /// The node needs it while it runs: the state of a loop, or a buffer of its kernel.
    Working,
}

impl Purpose {
    pub fn word(self) -> &'static str {
        match self {
            Purpose::Value => "value",
            Purpose::Kept => "kept",
            Purpose::Working => "working",
        }
    }
}

/// The maximum number of bodies in bodies at the peak.
const MAX_DEPTH: usize = 64;

/// Plans the memory of a model. The values of symbols choose among the steps that may be the peak.
pub fn memory(scan: &Scan<'_>, sized: &SizedModel, order: Order, values: &Values) -> Memory {
    let mut flattener = Flattener::new(sized, scan);
    let is_graph = |instance: usize| {
        let graph = scan.graphs.get(sized.instances[instance].graph);
        graph.is_some_and(|graph| !matches!(graph.place, GraphPlace::Function(_)))
    };
    // The constants of a graph must be known before its bodies are flattened.
    let count = sized.instances.len();
    let mut flats: Vec<_> = (0..count).map(|_| None).collect();
    for instance in (0..count).rev().filter(|&instance| is_graph(instance)) {
        flats[instance] = flattener.flatten(instance);
    }
    let mut planner = Planner { sized, scan, order, values, plans: Vec::with_capacity(count) };
    for flat in flats {
        let plan = flat.map(|mut flat| {
            fuse(&mut flat, scan);
            planner.plan(flat)
        });
        planner.plans.push(plan);
    }
    describe(&planner)
}

fn describe(planner: &Planner<'_, '_>) -> Memory {
    let nothing = Plan::default();
    let main = planner.plans.last().and_then(Option::as_ref);
    let mut notes = Vec::new();
    if main.is_none() {
        notes.push("the memory is not known, because the model is too large".to_owned());
    }
    let plan = main.unwrap_or(&nothing);
    let unknown: usize = planner.plans.iter().flatten().map(Plan::unknown).sum();
    if unknown > 0 {
        let values = crate::text::count(unknown, "value");
        notes.push(format!("the memory does not include {values} of unknown size"));
    }
    let flats = planner.plans.iter().flatten().map(|plan| &plan.flat);
    if planner.order == Order::OnnxRuntime && flats.clone().any(Flat::is_blocked) {
        notes.push(
            "ONNX Runtime computes convolutions on blocks of 8 or 16 channels, depending on the CPU, and fuses nodes \
             around them: it may allocate several times as much, or less"
                .to_owned(),
        );
    }
    let frontier = plan.peak(true);
    let mut peak = Vec::new();
    let most = frontier.most(planner.values);
    if let Some((_, place)) = most {
        let body = Body { instance: planner.plans.len() - 1, has_outputs: true };
        hold(planner, body, *place, &mut peak, MAX_DEPTH);
    }
    let large = |held: &Held| planner.values.measure(&held.size);
    peak.sort_by(|a, b| large(b).total_cmp(&large(a)));
    let sum = |values: &mut dyn Iterator<Item = onnx::ValueId>| {
        let mut total = Total::default();
        for size in values.filter_map(|id| planner.sized.values[id].ty.as_ref()?.bytes()) {
            let _ = total.add(&size);
        }
        total
    };
    let instances = &planner.sized.instances;
    let ends = |of: fn(&onnx::sized::Instance) -> &Vec<onnx::ValueId>| {
        sum(&mut instances.last().into_iter().flat_map(|it| of(it).iter().copied()))
    };
    Memory {
        steps: plan.moments.iter().map(|moment| step(planner, moment)).collect(),
        buffers: buffers(plan),
        node: most.and_then(|(_, place)| Some(plan.moments.get(place.step)?.node)),
        bytes: most.map_or(Some(0), |(total, _)| planner.values.number(total)),
        total: most.map(|(total, _)| total.clone()).unwrap_or_default(),
        formula: frontier.formula(),
        peak,
        inputs: ends(|it| &it.inputs),
        outputs: ends(|it| &it.outputs),
        weights: weights(planner.sized),
        notes,
    }
}

/// Returns the size of all initializers. A function that is called several times has them once.
fn weights(sized: &SizedModel) -> Total {
    let mut total = Total::default();
    for &id in sized.instances.iter().flat_map(|instance| &instance.weights) {
        if let Some(size) = sized.values[id].ty.as_ref().and_then(onnx::Type::bytes) {
            let _ = total.add(&size);
        }
    }
    total
}

fn step(planner: &Planner<'_, '_>, moment: &plan::Moment) -> Step {
    let mut sums: Frontier<()> = Frontier::default();
    for extra in &moment.extras {
        match extra.body.and_then(|body| planner.peak_of(body)) {
            None => sums.add(extra.own.clone(), ()),
            Some(body) => {
                for (inner, _) in &body.sums {
                    let mut sum = extra.own.clone();
                    let _ = sum.add_total(inner);
                    sums.add(sum, ());
                }
            }
        }
    }
    let is_something = |total: &Total| total.known() != Some(0);
    let extra = sums.sums.into_iter().map(|(sum, ())| sum).filter(is_something).collect();
    Step { node: moment.node, extra }
}

fn buffers(plan: &Plan) -> Vec<Buffer> {
    let all = plan.buffers.iter().zip(&plan.sizes);
    let alive = all.filter(|(buffer, _)| buffer.first <= buffer.last);
    let described = alive.filter_map(|(buffer, size)| {
        let node = |step: usize| Some((plan.moments.get(step)?.node, step));
        Some(Buffer {
            size: Total::of(size.as_ref()?)?,
            first: buffer.first,
            last: buffer.last,
            writers: buffer.uses.iter().filter_map(|it| node(it.first)).collect(),
            is_output: buffer.is_output,
        })
    });
    let mut buffers: Vec<Buffer> = described.collect();
    buffers.sort_by_key(|buffer| buffer.first);
    buffers
}

/// Lists what is allocated at a place of a body, and of the bodies in it.
fn hold(planner: &Planner<'_, '_>, body: Body, place: Place, held: &mut Vec<Held>, depth: usize) {
    let Some(plan) = planner.plans.get(body.instance).and_then(Option::as_ref) else { return };
    for (buffer, size) in plan.alive(place.step, body.has_outputs) {
        let Some(size) = Total::of(size) else { continue };
        let before = |it: &&reuse::Use| it.first <= place.step;
        let Some(last) = buffer.uses.iter().rev().find(before) else { continue };
        let Some(moment) = plan.moments.get(last.first) else { continue };
        let is_needed = last.last >= place.step || buffer.is_output;
        let purpose = if is_needed { Purpose::Value } else { Purpose::Kept };
        held.push(Held { node: moment.node, size, purpose });
    }
    let Some(moment) = plan.moments.get(place.step) else { return };
    let Some(extra) = moment.extras.get(place.extra) else { return };
    if extra.own.known() != Some(0) {
        let (node, size) = (moment.node, extra.own.clone());
        held.push(Held { node, size, purpose: Purpose::Working });
    }
    let Some(inner) = extra.body.filter(|_| depth > 0) else { return };
    if let Some((_, place)) = planner.peak_of(inner).and_then(|sums| sums.most(planner.values)) {
        hold(planner, inner, *place, held, depth - 1);
    }
}

#[cfg(test)]
mod tests;
