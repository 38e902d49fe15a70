//! Checks what a rewrite is worth.

use options::Options;
use passes::{Worth, names, worth};

const GRAPH: &str = "graph g(x:f32[3]) -> (y)
%0:f32[3] = Identity(x)
%1:f32[3] = Max(%0, 0.0)
y:f32[3] = Neg(%1)";

#[test]
fn a_rewrite_is_worth_the_nodes_that_a_model_has_more_without_it() {
    let model = onnx::text::parse_graph(GRAPH).expect("the graph can be parsed");
    let (nodes, rewrites) = worth(&model, &Options::default(), true);
    assert_eq!(nodes, 2);
    let saved = |name: &str| {
        rewrites.iter().find(|worth| worth.name == name).map(|worth| (worth.applied, worth.saved))
    };
    assert_eq!(saved("drop-identity"), Some((1, 1)));
    assert_eq!(saved("fuse-relu"), Some((1, 0)));
    assert_eq!(saved("fuse-activations"), Some((1, 0)));
    assert_eq!(saved("fuse-softmax"), None);
    let is_known = |worth: &Worth| names().any(|name| name == worth.name);
    assert!(rewrites.iter().all(is_known));
}
