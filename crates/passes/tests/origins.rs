//! Checks that the passes lose no line of the user that still counts.

use std::collections::BTreeSet;
use std::fmt::Write;

use onnx::{Model, Node, ValueId};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use provenance::OriginId;

/// One step: which formula, and which earlier values it reads.
type Step = (u8, usize, usize);

/// The number of values of type `f32[2]` before the first step.
const GIVEN: usize = 2;

/// A graph over `f32[2]` values: copies, broadcasts, equal nodes, constants, chains of shapes and types,
/// and the formulas that become one operator. Every node has its own line.
fn text(steps: &[Step]) -> String {
    let mut text = String::from("graph g(x:f32[2], s:f32[1], i:i32[2]) -> (y)\n");
    let mut made = 0;
    let mut last = Vec::new();
    for &(op, a, b) in steps {
        let wide = |i: usize| match i % (last.len() + GIVEN) {
            0 => "x".to_owned(),
            1 => "[0.5, 2.0]".to_owned(),
            other => format!("%{}", last[other - GIVEN]),
        };
        let (a, b) = (wide(a), wide(b));
        // `@` stands for the node before, `@@` for the one before that.
        let nodes: Vec<String> = formula(op, &a, &b).lines().map(str::to_owned).collect();
        for node in nodes {
            let node = node.replace("@@", &format!("%{}", made.max(2) - 2));
            let node = node.replace('@', &format!("%{}", made.max(1) - 1));
            let _ = writeln!(text, "%{made}:{node}");
            made += 1;
        }
        last.push(made - 1);
    }
    let _ = write!(text, "y:f32[2] = Exp(%{})", made - 1);
    text
}

/// The nodes of one step, each with the type of its result.
fn formula(op: u8, a: &str, b: &str) -> String {
    match op % 23 {
        0 => format!("f32[2] = Identity({a})"),
        1 => format!("f32[2] = Sin({a})"),
        2 => format!("f32[2] = Add({a}, {b})"),
        3 => format!("f32[2] = Mul({a}, {b})"),
        4 => "f32[2] = Expand(s, [2]:i64)".to_owned(),
        5 => "f32[2] = Expand([3.0], [2]:i64)".to_owned(),
        6 => format!("f32[2] = Reshape({a}, [2]:i64)"),
        7 => format!("f32[1,2] = Reshape({a}, [1, 2]:i64)\nf32[2] = Squeeze(@, [0]:i64)"),
        8 => format!(
            "f32[1,2] = Unsqueeze({a}, [0]:i64)
f32[2,1] = Transpose(@) {{perm=[1, 0]}}
f32[1,2] = Transpose(@) {{perm=[1, 0]}}
f32[2] = Reshape(@, [2]:i64)"
        ),
        9 => format!("f64[2] = Cast({a}) {{to=11}}\nf32[2] = Cast(@) {{to=1}}"),
        10 => format!("f16[2] = Cast({a}) {{to=10}}\nf32[2] = Cast(@) {{to=1}}"),
        11 => format!("f32[2] = Sub({a}, 0.5)\nf32[2] = Mul(@, 3.0)\nf32[2] = Div(@, [2.0, 4.0])"),
        12 => format!("f32[2] = Max({a}, 0.0)\nf32[2] = Min(@, 6.0)"),
        13 => format!("f32[2] = Sqrt({a})\nf32[2] = Reciprocal(@)\nf32[2] = Mul({b}, @)"),
        14 => format!(
            "f32[] = ReduceSum({a}, [0]:i64) {{keepdims=0}}
f32[1] = Unsqueeze(@, [0]:i64)
f32[1] = Div(@, 2.0)
f32[2] = Sub({a}, @)"
        ),
        15 => format!(
            "f32[2] = Mul({a}, {a})
f32[1] = ReduceSum(@, [0]:i64) {{keepdims=1}}
f32[1] = Div(@, 2.0)
f32[1] = Add(@, 0.001)
f32[1] = Sqrt(@)
f32[2] = Div({a}, @)"
        ),
        16 => format!(
            "f32[1] = ReduceMean({a}, [0]:i64) {{keepdims=1}}
f32[2] = Sub({a}, @)
f32[2] = Mul(@, @)
f32[1] = ReduceMean(@, [0]:i64) {{keepdims=1}}
f32[1] = Add(@, 0.001)
f32[1] = Sqrt(@)
f32[2] = Div({b}, @)"
        ),
        17 => format!(
            "f32[2] = Mul({a}, {a})
f32[1] = ReduceSum(@, [0]:i64) {{keepdims=1}}
f32[1] = Sqrt(@)
f32[2] = Mul({b}, @)"
        ),
        18 => format!(
            "bool[2] = Greater({a}, {b})
bool[2] = Equal(@, false)
bool[2] = Not(@)
f32[2] = Where(@, {a}, {b})"
        ),
        19 => format!(
            "bool[2] = Greater(0:i32, i)
i32[2] = Add(i, 2:i32)
i32[2] = Where(@@, @, i)
i32[2] = Clip(@, 0:i32, 1:i32)
f32[2] = Gather({a}, @) {{axis=0}}"
        ),
        20 => format!(
            "f32[4] = Concat({a}, {b}) {{axis=0}}
f32[3] = Slice(@, [1]:i64, [4]:i64, [0]:i64)
f32[2] = Slice(@, [0]:i64, [2]:i64, [0]:i64)"
        ),
        21 => format!("f32[2] = Expand(1.0, [2]:i64)\nf32[2] = Mul({a}, @)"),
        _ => format!(
            "f32[] = ReduceSum({a}, [0]:i64) {{keepdims=0}}
f32[1] = Expand(@, [1]:i64)
f32[2,2] = Expand(@, [2, 2]:i64)
f32[1,2] = Slice(@, [1]:i64, [2]:i64, [0]:i64)
f32[2] = Squeeze(@, [0]:i64)"
        ),
    }
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
        cases: 1000,
        rng_seed: RngSeed::Fixed(0),
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_line_that_counts_before_counts_after(
        steps in proptest::collection::vec((any::<u8>(), 0..50usize, 0..50usize), 1..10)
    ) {
        let text = text(&steps);
        let mut model = onnx::text::parse_graph(&text).expect("a graph of ours can be parsed");
        let before = lines_that_count(&model);
        passes::optimize(&mut model, &options::Options::default(), true, &mut |_| {});
        onnx::names::assign_names(&mut model);
        onnx::check::check(&model).expect("the passes leave a valid model");
        prop_assert_eq!(before, lines_that_count(&model), "\n{}\nbecame\n{}", text, model.text());
    }
}
