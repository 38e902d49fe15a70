//! No line of the user that still counts is lost, whatever the passes do.

use std::collections::BTreeSet;
use std::fmt::Write;

use onnx::{Model, Node, ValueId};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use provenance::OriginId;

/// One node: which operator, and which earlier values it reads.
type Step = (u8, usize, usize);

/// A graph over `f32[2]` values: copies, broadcasts, equal nodes and constants among others. Every node
/// stands on a line of its own.
fn text(steps: &[Step]) -> String {
    let mut text = String::from("graph g(x:f32[2], s:f32[1]) -> (y)\n");
    let wide = |i: usize, made: usize| match i % (made + 2) {
        0 => "x".to_owned(),
        1 => "[0.5, 2.0]".to_owned(),
        other => format!("%{}", other - 2),
    };
    for (made, &(op, a, b)) in steps.iter().enumerate() {
        let (a, b) = (wide(a, made), wide(b, made));
        let node = match op % 7 {
            0 => format!("Identity({a})"),
            1 => format!("Sin({a})"),
            2 => format!("Add({a}, {b})"),
            3 => format!("Mul({a}, {b})"),
            4 => "Expand(s, [2]:i64)".to_owned(),
            5 => "Expand([3.0], [2]:i64)".to_owned(),
            _ => format!("Reshape({a}, [2]:i64)"),
        };
        let _ = writeln!(text, "%{made}:f32[2] = {node}");
    }
    let last = steps.len() - 1;
    let _ = write!(text, "y:f32[2] = Exp(%{last})");
    text
}

fn lines(model: &Model, origin: OriginId) -> impl Iterator<Item = u32> + '_ {
    let table = &model.provenance;
    table.get_origin(origin).sites().filter_map(|site| {
        let stack = table.get_site(site).stack?;
        Some(table.get_location(table.get_frame(stack).location).line)
    })
}

/// The lines of every node and constant that the output depends on.
fn lines_that_count(model: &Model) -> BTreeSet<u32> {
    let producer = |id: ValueId| model.graph.nodes.iter().find(|node| node.outputs.contains(&id));
    let mut found = BTreeSet::new();
    let mut open: Vec<ValueId> = model.graph.outputs.clone();
    while let Some(id) = open.pop() {
        found.extend(model.origin_of_value(id).into_iter().flat_map(|origin| lines(model, origin)));
        let node: Option<&Node> = producer(id);
        found.extend(node.into_iter().flat_map(|node| lines(model, model.origin_of(node))));
        open.extend(node.into_iter().flat_map(|node| node.inputs.iter().flatten()));
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        rng_seed: RngSeed::Fixed(0),
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_line_that_counts_before_counts_after(
        steps in proptest::collection::vec((any::<u8>(), 0..50usize, 0..50usize), 1..12)
    ) {
        let text = text(&steps);
        let mut model = onnx::text::parse_graph(&text).expect("a graph of ours can be parsed");
        let before = lines_that_count(&model);
        passes::optimize(&mut model, &passes::Options::default());
        onnx::names::assign_names(&mut model);
        onnx::check::check(&model).expect("the passes leave a valid model");
        prop_assert_eq!(before, lines_that_count(&model), "\n{}\nbecame\n{}", text, model.text());
    }
}
