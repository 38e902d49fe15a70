//! Adds the cost of each node, and the memory over the schedule, to a view.
//!
//! Costs are formulas, which the page evaluates for the sizes that its reader chooses.

use onnx::cost::Cost;
use onnx::sized::{Sizes, SymbolOf};
use onnx::{Dim, Total};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::limits::Limits;
use super::places::Places;
use crate::Document;
use crate::cost::memory::{Order, Peak};
use crate::cost::{Amounts, Lines, Sizing, runs};

/// The maximum number of terms to add up, so that no file takes long.
const MAX_WORK: usize = 1 << 22;

/// The formulas of a view, each once.
#[derive(Default)]
struct Formulas {
    numbers: FxHashMap<String, usize>,
    texts: Vec<String>,
}

impl Formulas {
    /// Returns the number of a formula. -1 stands for a formula that is very long.
    fn number(&mut self, total: &Total) -> i64 {
        let Some(formula) = total.formula() else { return -1 };
        let next = self.texts.len();
        let number = *self.numbers.entry(formula.clone()).or_insert(next);
        if number == next {
            self.texts.push(formula);
        }
        number as i64
    }
}

/// Describes what each node costs in a run of the model, and the memory while each node of the main graph runs.
pub(super) fn cost(
    document: &Document<'_>,
    sizes: &Sizes,
    places: &mut Places<'_>,
    limits: &mut Limits,
) -> Value {
    let Ok(sizing) = Sizing::of(document, &Sizes::new()) else { return Value::Null };
    let lines = Lines::of(document);
    let mut formulas = Formulas::default();
    let costs = costs(&sizing);
    let kept = limits.rows.take(costs.len().min(limits.nodes.used()));
    let nodes = costs.iter().enumerate().take(kept).map(|(node, amounts)| {
        let frame = lines.origin(node).and_then(|origin| origin.callsite);
        let place = frame.and_then(|frame| Some((places.file_named(frame.file)?, frame.line)));
        let (file, line) = place.map_or((-1, 0), |(file, line)| (i64::from(file), line));
        let [operations, moved] = amounts;
        json!([file, line, formulas.number(operations), formulas.number(moved)])
    });
    let nodes: Vec<Value> = nodes.collect();
    let memory = memory(&sizing, &lines, &mut formulas, limits);
    let symbols = sizing.open.symbols.iter().map(|symbol| {
        let given = match &symbol.of {
            SymbolOf::Axis(text) => sizes.get(&**text),
            _ => None,
        };
        let size = sizes.get(&*symbol.name).or(given);
        json!({ "name": limits.cut(&*symbol.name), "size": size })
    });
    let symbols: Vec<Value> = symbols.collect();
    json!({ "symbols": symbols, "formulas": formulas.texts, "nodes": nodes, "memory": memory })
}

/// Returns the operations and the bytes of each node in all of its runs.
fn costs(sizing: &Sizing<'_, '_>) -> Vec<[Total; 2]> {
    let model = &sizing.open;
    let mut costs = vec![<[Total; 2]>::default(); sizing.document.scan.nodes.len()];
    let mut work = MAX_WORK;
    for (instance, runs) in model.instances.iter().zip(runs(model)) {
        let Some(runs) = runs else { continue };
        for step in &instance.steps {
            let (Ok(cost), true) = (&step.cost, work > 0) else { continue };
            let mut amounts = Amounts::default();
            let Cost { flops, transcendentals, operations, bytes_read, bytes_written } = cost;
            let parts = [flops, transcendentals, operations, bytes_read, bytes_written];
            let terms: usize = parts.into_iter().map(Dim::weight).sum();
            work = work.saturating_sub(terms.saturating_mul(runs.terms()));
            if amounts.add(cost, &runs).is_none() {
                continue;
            }
            let Amounts { flops, transcendentals, operations, bytes_read, bytes_written, .. } =
                &amounts;
            let [computed, moved] = &mut costs[step.node];
            for part in [flops, transcendentals, operations] {
                let _ = computed.add_total(part);
            }
            for part in [bytes_read, bytes_written] {
                let _ = moved.add_total(part);
            }
        }
    }
    costs
}

/// Describes the schedule: its nodes, the buffers with their first and last step and the nodes that write them, and
/// the memory that nodes need while they run.
fn memory<'d>(
    sizing: &Sizing<'d, '_>,
    lines: &Lines<'d>,
    formulas: &mut Formulas,
    limits: &mut Limits,
) -> Value {
    let peak = Peak::of(sizing, lines, Order::default());
    let memory = &peak.memory;
    let kept = limits.rows.take(memory.steps.len() + memory.buffers.len());
    if kept < memory.steps.len() + memory.buffers.len() {
        return Value::Null;
    }
    let steps = memory.steps.iter().map(|step| {
        let extra: Vec<i64> = step.extra.iter().map(|extra| formulas.number(extra)).collect();
        json!([step.node, extra])
    });
    let steps: Vec<Value> = steps.collect();
    let buffers = memory.buffers.iter().map(|buffer| {
        json!([formulas.number(&buffer.size), buffer.first, buffer.last, buffer.writers])
    });
    json!({
        "steps": steps,
        "buffers": buffers.collect::<Vec<_>>(),
        "inputs": formulas.number(&memory.inputs),
        "weights": formulas.number(&memory.weights),
    })
}
