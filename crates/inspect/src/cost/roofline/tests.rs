//! Rates of models whose times are written by hand.

use onnx::names::assign_names;
use onnx::proto::Message;
use onnx::sized::Sizes;
use onnx::text::parse_graph;

use super::*;
use crate::ModelFile;
use crate::cost::{Lines, Sizing, costs};

const MODEL: &str = "graph g(x:f32[B,1000], w:f32[1000,500]) -> (z)
y:f32[B,500] = MatMul(x, w)
z:f32[B,500] = Neg(y)";

/// 100 Gflop/s and 10 GB/s.
const MACHINE: Machine = Machine { flops: 100e9, bytes: 10e9 };

fn file(text: &str) -> ModelFile {
    let mut model = parse_graph(text).unwrap();
    assign_names(&mut model);
    let message = Message::new(&model, &mut |_| Vec::new()).unwrap();
    let mut bytes = vec![0; message.size()];
    message.write_into(&mut bytes).unwrap();
    ModelFile::from_bytes(bytes)
}

fn kernel(node: &str, start: u64, micros: u64, provider: &str, shape: &str) -> String {
    format!(
        r#"{{"cat":"Node","tid":1,"ts":{start},"dur":{micros},"name":"{node}_kernel_time","args":{{
        "op_name":"X","provider":"{provider}","input_type_shape":[{{"float":[{shape}]}}]}}}}"#
    )
}

fn profile(events: &[String]) -> Profile {
    Profile::read(format!("[{}]", events.join(",")).as_bytes()).unwrap()
}

fn names(file: &ModelFile) -> Vec<String> {
    let document = file.read(None).unwrap();
    document.scan.nodes.iter().map(|node| node.name.to_owned()).collect()
}

/// The rates of a product that takes `product` microseconds and a negation of 20, for 100 rows.
fn check(product: u64, provider: &str, then: &dyn Fn(&Roofline<'_>)) {
    let file = file(MODEL);
    let names = names(&file);
    let events = [
        kernel(&names[0], 1, product, provider, "100,1000"),
        kernel(&names[1], 100_000, 20, "CPUExecutionProvider", "100,500"),
    ];
    let profile = profile(&events);
    let document = file.read(None).unwrap();
    let open = Sizing::of(&document, &Sizes::new()).unwrap();
    let sizes = sizes_in(&document, &open.open, &profile);
    assert_eq!(sizes, Sizes::from([("B".to_owned(), 100)]));
    let sizing = Sizing::of(&document, &sizes).unwrap();
    let counted = costs(&sizing, &Lines::of(&document), By::Line);
    let rates = Roofline::of(&counted, &document, &profile, None, Some(MACHINE)).unwrap();
    then(&rates);
}

#[test]
fn the_rate_of_a_line_is_its_cost_by_its_time() {
    // 100 Mflop and 2.6 MB, for which the machine needs 1000 µs and 260 µs.
    check(4000, CPU, &|rates| {
        let product = rates.rows[0].rate;
        assert_eq!(product.flops_per_second(), Some(25e9));
        assert_eq!(product.bytes_per_second(), Some(2.6e6 / 4000.0 * 1e6));
        assert_eq!(product.least(MACHINE), (1000.0, Limit::Flops));
        assert_eq!(product.reached(MACHINE), Some(0.25));
        assert_eq!(product.lost(MACHINE), 3000.0);
        // 50 kflop and 400 kB, for which it needs 0.5 µs and 40 µs: the values were in a cache.
        let negation = rates.rows[1].rate;
        assert_eq!(negation.least(MACHINE), (40.0, Limit::Bytes));
        assert_eq!(negation.reached(MACHINE), Some(2.0));
        assert_eq!(negation.lost(MACHINE), 0.0);
        assert_eq!(rates.total.time, 4020.0);
        assert_eq!(rates.untimed, (0, 0.0));
    });
}

#[test]
fn a_machine_is_not_compared_with_another_device() {
    check(4000, "CUDAExecutionProvider", &|rates| {
        assert_eq!(rates.machine, None);
        assert_eq!(rates.devices, ["CUDAExecutionProvider"]);
        assert_eq!(rates.rows[0].rate.flops_per_second(), Some(25e9));
    });
}

#[test]
fn a_row_without_time_is_counted() {
    let file = file(MODEL);
    let events = [kernel(&names(&file)[1], 1, 20, CPU, "100,500")];
    let profile = profile(&events);
    let document = file.read(None).unwrap();
    let sizing = Sizing::of(&document, &Sizes::from([("B".to_owned(), 100)])).unwrap();
    let counted = costs(&sizing, &Lines::of(&document), By::Line);
    let rates = Roofline::of(&counted, &document, &profile, None, None).unwrap();
    assert_eq!(rates.rows.len(), 1);
    assert_eq!(rates.untimed, (1, 100e6 / 100.05e6));
}

#[test]
fn sizes_that_kernels_disagree_about_are_not_taken() {
    let file = file(MODEL);
    let names = names(&file);
    let events = [kernel(&names[0], 1, 9, CPU, "7,1000"), kernel(&names[1], 50, 9, CPU, "8,500")];
    let document = file.read(None).unwrap();
    let sizing = Sizing::of(&document, &Sizes::new()).unwrap();
    assert_eq!(sizes_in(&document, &sizing.open, &profile(&events)), Sizes::new());
    let counted = costs(&sizing, &Lines::of(&document), By::Line);
    let refused = Roofline::of(&counted, &document, &profile(&events), None, None).unwrap_err();
    assert_eq!(refused.to_string(), "the rates need numbers: give a size for `B`");
    // A shape with other known sizes belongs to a node that the runtime rewrote.
    let events = [kernel(&names[0], 1, 9, CPU, "1000,7")];
    assert_eq!(sizes_in(&document, &sizing.open, &profile(&events)), Sizes::new());
}

#[test]
fn the_iterations_of_a_loop_are_those_of_its_body() {
    let file = file(
        "graph g(n:i64[], x:f32[3]) -> (y)
y:f32[3] = Loop(n, true, x) {body={
  graph b(i:i64[], c:bool[], a:f32[3]) -> (c, n)
  n:f32[3] = Neg(a)
}}",
    );
    let names = names(&file);
    let [outer, inner] = ["Loop", "Neg"].map(|op| {
        names.iter().find(|name| name.to_lowercase().starts_with(&op.to_lowercase())).unwrap()
    });
    let mut events = vec![kernel(outer, 1, 900, CPU, "")];
    events.extend((0..3).map(|at| kernel(inner, 10 + 10 * at, 5, CPU, "3")));
    let document = file.read(None).unwrap();
    let sizing = Sizing::of(&document, &Sizes::new()).unwrap();
    let name = sizing.open.symbols[0].name.to_string();
    let found = sizes_in(&document, &sizing.open, &profile(&events));
    assert_eq!(found, Sizes::from([(name, 3)]));
    // Two runs of three iterations in all have no common count.
    events.push(kernel(outer, 2000, 900, CPU, ""));
    assert_eq!(sizes_in(&document, &sizing.open, &profile(&events)), Sizes::new());
}

#[test]
fn a_machine_is_two_rates() {
    let machine = |text: &str| text.parse::<Machine>().map_err(|why| why.to_string());
    assert_eq!(machine("100G, 20GB"), Ok(Machine { flops: 100e9, bytes: 20e9 }));
    assert_eq!(machine("1.5T,1GiB"), Ok(Machine { flops: 1.5e12, bytes: 1_073_741_824.0 }));
    for text in ["", "100G", "0,20GB", "100G,-1", "x,y"] {
        assert!(machine(text).unwrap_err().contains("for example `100G,20GB`"), "{text}");
    }
}
