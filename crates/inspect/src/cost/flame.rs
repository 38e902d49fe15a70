//! Groups costs by the call paths of the user.

use onnx::cost::Cost;
use rustc_hash::FxHashMap;

use super::{Amounts, Lines, Sizing, runs};
use crate::profile::{Level, level};

/// Returns the call paths, outermost first and the operator last, with the number of their operations. `None` if a
/// number is not known.
pub fn stacks(sizing: &Sizing<'_, '_>) -> Option<Vec<(Vec<Level>, u64)>> {
    let (document, model) = (sizing.document, sizing.numbers());
    let lines = Lines::of(document);
    let mut of_node: Vec<Amounts> = vec![Amounts::default(); document.scan.nodes.len()];
    for (instance, runs) in model.instances.iter().zip(&runs(model)) {
        for step in &instance.steps {
            if let (Ok(cost), Some(runs)) = (&step.cost, runs) {
                let Cost { flops, transcendentals, operations, .. } = cost;
                let amounts = &mut of_node[step.node].operations;
                for dim in [flops, transcendentals, operations] {
                    amounts.add_product(dim, runs)?;
                }
            }
        }
    }
    let mut numbers: FxHashMap<Vec<Level>, usize> = FxHashMap::default();
    let mut stacks: Vec<(Vec<Level>, u64)> = Vec::new();
    for (node, amounts) in of_node.iter().enumerate() {
        let frames = lines.origin(node).map(|origin| origin.shown_frames(false));
        let mut path: Vec<Level> = match &frames {
            Some(frames) if !frames.is_empty() => frames.iter().rev().map(level).collect(),
            _ => vec![Level { name: "(not known)".to_owned(), file: None, line: 0 }],
        };
        let op = document.scan.nodes[node].op_with_domain().into_owned();
        path.push(Level { name: op, file: None, line: 0 });
        let operations = u64::try_from(amounts.operations.known()?).ok()?;
        if let Some(&number) = numbers.get(&path) {
            stacks[number].1 = stacks[number].1.saturating_add(operations);
        } else {
            numbers.insert(path.clone(), stacks.len());
            stacks.push((path, operations));
        }
    }
    Some(stacks)
}
