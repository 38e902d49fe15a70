//! The memory that a node needs while it runs, besides the values of its graph.
//!
//! The rules of loops were measured with ONNX Runtime 1.31:
//!
//! * `Loop` keeps the state of one iteration for the next one, and the entries that all iterations have added to its
//!   results. At the end, it copies the state, and joins the entries to arrays.
//! * `Scan` allocates its results first, and its body writes to them. It keeps the state in two buffers in turn.
//! * A branch of `If` allocates the results.

use onnx::Total;
use onnx::memory::Kernel;
use onnx::scan::{Attribute, AttributeValue};
use onnx::sized::InnerKind;
use onnx::{OpType, Type};

use super::flat::{Flat, Node};
use super::plan::Planner;

/// A body that runs as part of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Body {
    pub instance: usize,
    /// False if its outputs are in memory of the graph around it.
    pub has_outputs: bool,
}

/// One alternative of what a node needs.
#[derive(Clone, Debug, Default)]
pub(super) struct Extra {
    /// Its own memory.
    pub own: Total,
    /// The body that runs at the same time.
    pub body: Option<Body>,
}

/// Returns the alternatives of what a node needs. Sizes that are not known are left out.
pub(super) fn extras(planner: &Planner<'_, '_>, flat: &Flat, node: &Node) -> Vec<Extra> {
    let bodies = node.bodies.iter().filter(|inner| inner.kind != InnerKind::Call);
    let mut bodies = bodies.map(|inner| inner.instance);
    match node.op {
        Some(OpType::If) => {
            let branch = |instance| Extra {
                own: Total::default(),
                body: Some(Body { instance, has_outputs: true }),
            };
            bodies.map(branch).collect()
        }
        Some(OpType::Loop) => {
            bodies.next().map_or_else(Vec::new, |body| of_loop(planner, flat, node, body))
        }
        Some(OpType::Scan) => {
            let Some(instance) = bodies.next() else { return Vec::new() };
            let own = of_scan(planner, flat, node);
            vec![Extra { own, body: Some(Body { instance, has_outputs: false }) }]
        }
        Some(op) => vec![Extra { own: workspace(planner, flat, node, op), body: None }],
        None => vec![Extra::default()],
    }
}

/// A sum of sizes in which those that are not known are left out.
#[derive(Clone, Default)]
struct Sum(Total);

impl Sum {
    fn add(&mut self, ty: Option<&Type>) {
        if let Some(size) = ty.and_then(Type::bytes) {
            let _ = self.0.add(&size);
        }
    }

    fn subtract(&mut self, ty: Option<&Type>) {
        if let Some(size) = ty.and_then(Type::bytes) {
            let _ = self.0.subtract(&size);
        }
    }
}

fn of_loop(planner: &Planner<'_, '_>, flat: &Flat, node: &Node, instance: usize) -> Vec<Extra> {
    let states = node.operands.len().saturating_sub(2);
    let body = planner.plans.get(instance).and_then(Option::as_ref);
    let ty = |place: usize| flat.ty(node.writes.get(place).copied().flatten()?);
    let (mut during, mut end) = (Sum::default(), Sum::default());
    for place in 0..states {
        end.add(ty(place));
        // The first output of the body is the condition.
        if !body.is_some_and(|body| body.passes_through(place + 1)) {
            during.add(ty(place));
            end.add(ty(place));
            end.add(ty(place));
        }
    }
    for place in states..node.writes.len() {
        let entry = body.and_then(|body| body.flat.ty(*body.flat.outputs.get(place + 1)?));
        during.add(ty(place));
        during.subtract(entry.filter(|_| ty(place).is_some()));
        end.add(ty(place));
        end.add(ty(place));
    }
    let body = Some(Body { instance, has_outputs: true });
    vec![Extra { own: during.0, body }, Extra { own: end.0, body: None }]
}

fn of_scan(planner: &Planner<'_, '_>, flat: &Flat, node: &Node) -> Total {
    let attribute =
        |name: &str| planner.scan.nodes.get(node.number)?.attribute(name).map(Attribute::value);
    let scanned = match attribute("num_scan_inputs") {
        Some(AttributeValue::Int(count)) => usize::try_from(count).unwrap_or(0),
        _ => 0,
    };
    let states = node.operands.len().saturating_sub(scanned);
    let axes = |name: &str| match attribute(name) {
        Some(AttributeValue::Ints(axes)) => axes,
        _ => Vec::new(),
    };
    let mut sum = Sum::default();
    let result = |place: usize| flat.ty(node.writes.get(place).copied().flatten()?);
    for place in 0..states {
        sum.add(result(place));
        sum.add(result(place));
    }
    // An array that is scanned along another axis is transposed.
    for (place, _) in axes("scan_input_axes").into_iter().enumerate().filter(|it| it.1 != 0) {
        let operand = node.operands.get(states + place).copied().flatten();
        sum.add(operand.and_then(|value| flat.ty(value)));
    }
    for (place, _) in axes("scan_output_axes").into_iter().enumerate().filter(|it| it.1 != 0) {
        sum.add(result(states + place));
    }
    sum.0
}

fn workspace(planner: &Planner<'_, '_>, flat: &Flat, node: &Node, op: OpType) -> Total {
    let ty = |value: &Option<u32>| value.and_then(|value| flat.ty(value));
    let operands: Vec<Option<&Type>> = node.operands.iter().map(ty).collect();
    let results: Vec<Option<&Type>> = node.writes.iter().map(ty).collect();
    let int = |name: &str| match planner.scan.nodes.get(node.number)?.attribute(name)?.value() {
        AttributeValue::Int(value) => Some(value),
        _ => None,
    };
    let kernel = Kernel { op, operands: &operands, results: &results, int: &int };
    kernel.workspace().and_then(|size| Total::of(&size)).unwrap_or_default()
}
