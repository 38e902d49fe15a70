//! Checks sizes and costs of whole models.

use super::*;
use crate::names::assign_names;
use crate::proto::{no_metadata, to_bytes};
use crate::scan::scan;
use crate::text::parse_graph;

/// Returns the model of a text, with the types of inputs only.
fn sized(text: &str, sizes: &[(&str, i64)]) -> SizedModel {
    let mut model = parse_graph(text).unwrap();
    assign_names(&mut model);
    let bytes = to_bytes(&model, &mut no_metadata).unwrap();
    let sizes: Sizes = sizes.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
    SizedModel::of(&scan(&bytes).unwrap(), &sizes)
}

fn flops(model: &SizedModel) -> Vec<String> {
    let steps = model.main().unwrap().steps.iter();
    steps
        .map(|step| {
            step.cost.as_ref().map_or_else(|why| why.to_string(), |cost| cost.flops.to_string())
        })
        .collect()
}

#[test]
fn a_cost_is_a_polynomial_of_the_symbols() {
    let text = "graph g(x:f32[B,7], w:f32[7,5]) -> (y)
a:f32[B,5] = MatMul(x, w)
y:f32[B,5] = Add(a, a)";
    assert_eq!(flops(&sized(text, &[])), ["70*B", "5*B"]);
    assert_eq!(flops(&sized(text, &[("B", 3)])), ["210", "15"]);
}

#[test]
fn a_loop_runs_its_body_as_often_as_its_limit_says() {
    let text = "graph g(x:f32[3]) -> (y)
y:f32[3] = Loop(5:i64, true, x) {body={
  graph b(i:i64[], c:bool[], a:f32[3]) -> (c, n)
  n:f32[3] = Neg(a)
}}";
    let model = sized(text, &[]);
    let [inner] = &model.main().unwrap().steps[0].inner[..] else { panic!("no body") };
    assert_eq!(inner.times, Dim::Known(5));
    assert_eq!(model.instances[inner.instance].steps.len(), 1);
}

#[test]
fn a_slice_of_an_axis_with_a_negative_size_has_no_type() {
    let text = "graph g(x:f32[3]) -> (y)
a = Pad(x, [-9, 0]:i64)
y = Slice(a, [0]:i64, [2]:i64)";
    let model = sized(text, &[]);
    let types = model.main().unwrap().outputs.iter().map(|&id| model.values[id].ty.clone());
    assert_eq!(types.collect::<Vec<_>>(), [None]);
}

#[test]
fn a_shape_that_an_exporter_computes_with_a_choice_is_known() {
    let text = "graph g(x:f32[1,3], z:f32[B,3]) -> (y)
shape = Shape(z)
wanted = Concat([-1]:i64, [3]:i64) {axis=0}
is_open = Equal(wanted, [-1]:i64)
chosen = Where(is_open, shape, wanted)
y = Expand(x, chosen)";
    let model = sized(text, &[]);
    let [output] = model.main().unwrap().outputs[..] else { panic!("one output") };
    assert_eq!(model.values[output].ty.as_ref().unwrap().to_string(), "f32[B,3]");
}

#[test]
fn a_carried_value_that_grows_has_a_symbol_for_its_size() {
    let text = "graph g(x:f32[2,3]) -> (y)
y = Loop(5:i64, true, x) {body={
  graph b(i:i64[], c:bool[], a:f32[?,3]) -> (c, n)
  n = Concat(a, a) {axis=0}
}}";
    let model = sized(text, &[]);
    let [symbol] = &model.symbols[..] else { panic!("{:?}", model.symbols) };
    assert!(matches!(symbol.of, SymbolOf::Value { axis: 0, .. }));
    let [inner] = &model.main().unwrap().steps[0].inner[..] else { panic!("no body") };
    let cost = model.instances[inner.instance].steps[0].cost.as_ref().unwrap();
    assert!(!cost.bytes_written.is(0));
    assert!(cost.bytes_written.known().is_none());
}

#[test]
fn a_branch_that_a_constant_chooses_is_the_one_that_counts() {
    let text = "graph g(x:f32[3]) -> (y)
y = If(false) {else_branch={
  graph no() -> (a)
  a = Neg(x)
}, then_branch={
  graph yes() -> (b)
  b = MatMul(x, x)
}}";
    let model = sized(text, &[]);
    let kinds: Vec<(InnerKind, Dim)> =
        model.main().unwrap().steps[0].inner.iter().map(|it| (it.kind, it.times.clone())).collect();
    let wanted = [(InnerKind::Alternative, Dim::Known(0)), (InnerKind::Taken, Dim::Known(1))];
    assert_eq!(kinds, wanted);
}

/// Returns how often the loop of a model runs its body.
fn iterations(limit: &str, first: &str, start: &str, body: &str) -> String {
    let text = format!(
        "graph g(x:f32[T,3]) -> (y)
shape = Shape(x)
t = Gather(shape, 0:i64)
less = Sub(t, 1:i64)
test = Less(0:i64, less)
n, y = Loop({limit}, {first}, {start}, x) {{body={{
  graph b(i:i64[], c:bool[], n:i64[], a:f32[T,3]) -> (d, m, z)
  z = Neg(a)
  {body}
}}}}"
    );
    let model = sized(&text, &[]);
    let [inner] = &model.main().unwrap().steps.last().unwrap().inner[..] else { panic!("no body") };
    inner.times.to_string()
}

#[test]
fn a_counter_that_ends_a_loop_tells_how_often_it_runs() {
    let up = "m = Add(n, 3:i64)
  d = Less(m, 17:i64)";
    assert_eq!(iterations("_", "true", "0:i64", up), "6");
    assert_eq!(iterations("_", "true", "16:i64", up), "1");
    assert_eq!(iterations("_", "true", "100:i64", up), "1");
    assert_eq!(iterations("4:i64", "true", "0:i64", up), "4");
    assert_eq!(iterations("9:i64", "true", "0:i64", up), "6");
    let down = "m = Sub(n, 2:i64)
  d = GreaterOrEqual(m, 0:i64)";
    assert_eq!(iterations("_", "true", "20:i64", down), "11");
    assert_eq!(iterations("_", "true", "21:i64", down), "11");
    assert_eq!(iterations("_", "true", "t", down), "floordiv(T + 2, 2)");
    let until = "m = Add(2:i64, n)
  e = Equal(m, 12:i64)
  d = Not(e)";
    assert_eq!(iterations("_", "true", "0:i64", until), "6");
    assert_eq!(iterations("_", "true", "1:i64", until), "steps");
}

#[test]
fn a_counter_that_ends_a_loop_at_a_size_has_a_formula() {
    let body = "m = Add(n, 1:i64)
  d = Less(m, t)";
    assert_eq!(iterations("_", "true", "0:i64", body), "max(T, 1)");
    let before_the_last = "m = Add(n, 1:i64)
  d = Less(m, less)";
    assert_eq!(iterations("_", "true", "0:i64", before_the_last), "max(T - 1, 1)");
    assert_eq!(iterations("_", "test", "0:i64", before_the_last), "max(T - 1, 0)");
    // The test is not that of a loop from 1 on.
    assert_eq!(iterations("_", "test", "1:i64", before_the_last), "steps");
}

#[test]
fn a_condition_that_is_not_only_a_counter_gives_a_symbol() {
    let multiplied = "m = Mul(n, 2:i64)
  d = Less(m, 17:i64)";
    assert_eq!(iterations("_", "true", "1:i64", multiplied), "steps");
    let endless = "m = Sub(n, 1:i64)
  d = Less(m, 17:i64)";
    assert_eq!(iterations("_", "true", "1:i64", endless), "steps");
    let two = "m = Add(n, 1:i64)
  e = Less(m, 17:i64)
  s = ReduceMax(z) {keepdims=0}
  f = Less(s, 1.0)
  d = And(e, f)";
    assert_eq!(iterations("_", "true", "1:i64", two), "steps");
}

#[test]
fn a_node_that_reads_only_weights_costs_nothing() {
    let text = "graph g(x:f32[B,7]) -> (y)
a = Cast([1, 2, 3, 4, 5, 6, 7]:f16) {to=1}
b = Mul(a, a)
c = Mul(x, b)
w = DequantizeLinear([1, 2, 3, 4, 5, 6, 7]:i8, 0.5)
y = Add(c, w)";
    assert_eq!(flops(&sized(text, &[])), ["0", "0", "7*B", "7", "7*B"]);
}
