//! Compares costs with those of formulas that were computed on numbers that count.

use std::fmt::Write;

use super::*;
use crate::model::Model;
use crate::operator::OpType;
use crate::text::parse_graph;

/// Graphs of one node each, with operations, transcendental functions, bytes read and bytes written.
fn cases() -> impl Iterator<Item = (&'static str, Model, [i64; 4])> {
    let texts = include_str!("cases.txt").split("\n\n").skip(1);
    texts.map(|text| {
        let (graph, counts) = text.split_once("\n= ").unwrap();
        let counts: Vec<i64> =
            counts.split_whitespace().map(|count| count.parse().unwrap()).collect();
        (text, parse_graph(graph).unwrap(), counts.try_into().unwrap())
    })
}

fn counted(model: &Model) -> Result<Cost, NotCounted> {
    let node = &model.graph.nodes[0];
    // The operator may be newer than the opset of the text.
    let call = Call::of_node(node, &model.values, 26);
    let types = node.outputs.iter().map(|&id| model.values[id].ty.clone());
    cost(&call, &types.collect::<Vec<_>>())
}

#[test]
fn the_cost_of_a_node_is_what_its_formula_does() {
    let mut wrong = String::new();
    for (text, model, wanted) in cases() {
        let found = counted(&model).map(|cost| {
            let Cost { flops, transcendentals, operations, bytes_read, bytes_written } = &cost;
            let simple = sum(&[flops.clone(), operations.clone()]).unwrap();
            [&simple, transcendentals, bytes_read, bytes_written].map(|dim| dim.known().unwrap())
        });
        if found != Ok(wanted) {
            let _ = writeln!(wrong, "{text}\nfound {found:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn operations_on_integers_are_no_flops() {
    for (text, model, _) in cases() {
        let types = model.values.ids().filter_map(|id| model.values[id].ty.as_ref());
        let has_floats = types.into_iter().any(|ty| ty.dtype.is_float());
        let cost = counted(&model).unwrap();
        let (none, some) =
            if has_floats { (cost.operations, cost.flops) } else { (cost.flops, cost.operations) };
        let is_index = text.contains("Gather") || text.contains("QLinear");
        assert!(is_index || none.is(0), "{text}: {none}, {some}");
    }
}

#[test]
fn every_operator_with_a_rule_has_a_case() {
    let tested: Vec<OpType> =
        cases().filter_map(|(_, model, _)| model.graph.nodes[0].op.onnx()).collect();
    for op in OpType::ALL {
        let rule = op.row().cost;
        let is_plain = rule.is_nothing() || matches!(rule.work, Work::Unknown);
        assert!(is_plain || tested.contains(op), "{op} has no case");
    }
}

/// Replaces the sizes 7 and 11 of inputs and results with symbols.
const SYMBOLS: [(i64, &str); 2] = [(7, "B"), (11, "S")];

fn value(dim: &Dim) -> Option<i128> {
    dim.value(&|symbol| {
        let found = SYMBOLS.iter().find(|(_, name)| symbol.to_string() == *name);
        found.map_or(0, |(size, _)| *size)
    })
}

#[test]
fn a_cost_with_symbols_is_that_of_numbers() {
    let mut unknown = Vec::new();
    for (text, mut model, _) in cases() {
        let Ok(wanted) = counted(&model) else { panic!("{text}") };
        for id in model.values.ids() {
            if model.values[id].tensor.is_some() {
                continue;
            }
            if let Some(ty) = &mut model.values[id].ty {
                let symbol = |dim: &Dim| {
                    let found = SYMBOLS.iter().find(|(size, _)| dim.is(*size));
                    found.map_or_else(|| dim.clone(), |(_, name)| Dim::symbol(*name))
                };
                ty.shape = ty.shape.iter().map(symbol).collect();
            }
        }
        let Ok(found) = counted(&model) else {
            unknown.extend(text.lines().nth(1));
            continue;
        };
        let of = |cost: &Cost| {
            let Cost { flops, transcendentals, operations, bytes_read, bytes_written } = cost;
            [flops, transcendentals, operations, bytes_read, bytes_written].map(value)
        };
        assert_eq!(of(&found), of(&wanted), "{text}");
    }
    expect_test::expect![[r#"
        y0:f32[2,4,4,5] = Conv(x0, x1) {auto_pad="SAME_UPPER", strides=[2, 2]}
        y0:f32[2,4,4,5] = Conv(x0, x1) {auto_pad="SAME_LOWER", strides=[2, 2]}"#]]
    .assert_eq(&unknown.join("\n"));
}
