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
