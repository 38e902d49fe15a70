use provenance::{Emitter, EmitterKind, Origin, Site};

use super::*;
use crate::dtype::DType;
use crate::operator::OpType;
use crate::text::parse_graph;

/// Runs an edit of the graph, and returns the resulting text.
fn edited(graph: &str, edit: impl Fn(&mut Edit<'_>)) -> String {
    let mut model = parse_graph(graph).unwrap();
    model.edit(&mut |graph| edit(graph));
    crate::check::check(&model).unwrap();
    model.text().to_string()
}

/// Turns a node into another operator. Returns whether that was possible.
fn rewrite(edit: &mut Edit<'_>, index: usize, fused: &[usize], op: Op) -> bool {
    edit.patch(index, |patch| patch.done(fused, op))
}

const CHAIN: &str = "graph g(x:f32[3,3]) -> (y)
%0:f32[3,3] = Sin(x)
%1:f32[3,3] = Cos(%0)
y:f32[3,3] = Add(%1, %1)";

#[test]
fn a_patch_that_fails_leaves_nothing() {
    let before = edited(CHAIN, |_| {});
    let after = edited(CHAIN, |edit| {
        let x = edit.input(0, 0).unwrap();
        let reads = edit.reads(x);
        let (nodes, values) = (edit.len(), edit.values.len());
        edit.note_as(Some(Label { name: "sign", done: "applied" }));
        let is_made = edit.patch(2, |patch| {
            let sign = patch.insert(Op::new(OpType::Sign, &[x]));
            assert_eq!((patch.reads(x), patch.reads(sign)), (reads + 1, 0));
            patch.insert(Op::new(OpType::Neg, &[sign]));
            declined("it cannot be")
        });
        assert!(!is_made);
        assert_eq!(edit.notes.last().unwrap().declined.as_deref(), Some("it cannot be"));
        assert_eq!((edit.reads(x), edit.len(), edit.values.len()), (reads, nodes, values));
        assert!(!edit.is_changed());
    });
    assert_eq!(before, after);
}

#[test]
fn a_node_that_a_patch_adds_is_a_node_as_any_other() {
    let after = edited(CHAIN, |edit| {
        let x = edit.input(0, 0).unwrap();
        let is_made = edit.patch(2, |patch| {
            patch.take(&[1]);
            let sign = patch.insert(Op::new(OpType::Sign, &[x]));
            assert!(patch.producer(sign).is_some_and(|node| patch.is_before(node, 2)));
            patch.done(&[], Op::new(OpType::Neg, &[sign]))
        });
        assert!(is_made);
        edit.drop_unread();
    });
    assert_eq!(after, "graph g(x:f32[3,3]) -> (y)\n%0 = Sign(x)\ny:f32[3,3] = Neg(%0)\n");
}

#[test]
fn reads_are_counted_at_any_time() {
    edited(CHAIN, |edit| {
        let (x, sin, cos) = (edit.input(0, 0), edit.input(1, 0), edit.input(2, 0));
        let (x, sin, cos) = (x.unwrap(), sin.unwrap(), cos.unwrap());
        assert_eq!((edit.reads(x), edit.reads(sin), edit.reads(cos)), (1, 1, 2));
        assert_eq!((edit.sole_reader(sin), edit.sole_reader(cos)), (Some(1), None));
        assert!(rewrite(edit, 2, &[1, 0], Op::new(OpType::Exp, &[x])));
        // Nothing reads the cosine, so its read of the sine no longer counts.
        assert_eq!((edit.reads(x), edit.reads(sin), edit.reads(cos)), (1, 0, 0));
        assert_eq!(edit.sole_reader(x), Some(2));
        // When a node reads the cosine, its read counts again.
        assert!(rewrite(edit, 2, &[], Op::new(OpType::Exp, &[cos])));
        assert_eq!((edit.reads(x), edit.reads(sin), edit.reads(cos)), (1, 1, 1));
        assert_eq!(edit.sole_reader(cos), Some(2));
        assert!(edit.patch(1, |patch| patch.done(&[], sin)));
        assert_eq!((edit.reads(x), edit.reads(sin)), (1, 1));
        assert_eq!(edit.sole_reader(sin), Some(2));
    });
}

#[test]
fn only_the_neighbors_of_a_change_are_revisited() {
    edited(CHAIN, |edit| {
        assert!(edit.take_touched().values.is_empty());
        let (x, sin) = (edit.input(0, 0).unwrap(), edit.input(1, 0).unwrap());
        let result = edit.node(1).outputs[0];
        assert!(rewrite(edit, 1, &[], Op::new(OpType::Exp, &[x])));
        let touched = edit.take_touched().values;
        assert!([sin, result].iter().all(|value| touched.contains(value)), "{touched:?}");
        assert!(edit.take_touched().values.is_empty());
    });
}

#[test]
fn a_value_that_keeps_many_readers_is_not_touched() {
    const FAN: &str = "graph g(x:f32[2]) -> (a, b, c)
a:f32[2] = Sin(x)
b:f32[2] = Cos(x)
%0:f32[2] = Identity(x)
c:f32[2] = Exp(%0)";
    edited(FAN, |edit| {
        let (x, a) = (edit.input(0, 0).unwrap(), edit.node(0).outputs[0]);
        assert_eq!(edit.reads(x), 3);
        assert!(edit.patch(2, |patch| patch.done(&[], x)));
        let touched = edit.take_touched();
        assert_eq!((touched.values, touched.nodes), (vec![], vec![3]));
        assert!(rewrite(edit, 1, &[], Op::new(OpType::Exp, &[a])));
        assert!(rewrite(edit, 3, &[], Op::new(OpType::Tanh, &[a])));
        let touched = edit.take_touched().values;
        assert!(touched.contains(&x), "one node is left that reads x: {touched:?}");
    });
}

/// Edits the graph [`CHAIN`], in which each node has a separate equation, and returns the names of the remaining
/// nodes.
fn names_of_edited(edit: impl Fn(&mut Edit<'_>)) -> Vec<String> {
    let mut model = parse_graph(CHAIN).unwrap();
    for (node, primitive) in model.graph.nodes.iter_mut().zip(["sin", "cos", "add_any"]) {
        let table = &mut model.provenance;
        let plugin = Emitter {
            kind: EmitterKind::Plugin,
            name: primitive.into(),
            file: "plugins.rs".into(),
            line: 1,
            parent: None,
        };
        let emitter = Some(table.emitter(plugin));
        let site = table.site(Site { stack: None, scope: None, emitter });
        node.origin = table.origin(Origin::of(site));
    }
    model.edit(&mut |graph| {
        edit(graph);
        graph.drop_unread();
    });
    crate::names::assign_names(&mut model);
    let name = |node: &Node| node.name.as_deref().unwrap_or_default().to_owned();
    model.graph.nodes.iter().map(name).collect()
}

#[test]
fn an_operator_that_stands_for_several_equations_is_named_after_itself() {
    let names = names_of_edited(|edit| {
        let x = edit.input(0, 0).unwrap();
        assert!(rewrite(edit, 2, &[1, 0], Op::new(OpType::LogSoftmax, &[x])));
    });
    assert_eq!(names, ["log_softmax"]);
}

#[test]
fn a_fused_operator_keeps_its_name_when_another_node_is_folded_into_it() {
    let names = names_of_edited(|edit| {
        let x = edit.input(0, 0).unwrap();
        assert!(rewrite(edit, 1, &[0], Op::new(OpType::Softmax, &[x])));
        assert!(rewrite(edit, 2, &[1], Op::new(OpType::Softmax, &[x]).attr("axis", 0)));
    });
    assert_eq!(names, ["softmax"]);
}

#[test]
fn an_operator_that_one_equation_has_keeps_the_name_of_its_primitive() {
    let names = names_of_edited(|edit| {
        let x = edit.input(0, 0).unwrap();
        assert!(rewrite(edit, 2, &[1, 0], Op::new(OpType::Cos, &[x])));
    });
    assert_eq!(names, ["cos"]);
    let names = names_of_edited(|edit| {
        let x = edit.input(0, 0).unwrap();
        assert!(rewrite(edit, 1, &[], Op::new(OpType::MatMul, &[x, x])));
        assert!(rewrite(edit, 2, &[1], Op::new(OpType::Gemm, &[x, x, x])));
    });
    assert_eq!(names, ["cos"], "a product stays one when it becomes another");
}

#[test]
fn an_operator_that_replaces_one_equation_keeps_the_name_of_its_primitive() {
    let names = names_of_edited(|edit| {
        let sin = edit.input(1, 0).unwrap();
        assert!(rewrite(edit, 1, &[], Op::new(OpType::Tanh, &[sin])));
    });
    assert_eq!(names, ["sin", "cos", "add_any"]);
}

const SHORT_INTEGERS: &str = "graph g(c:bool[3], x:i16[3]) -> (y)
%0:i16[3] = Cast(c) {to=5}
y:i16[3] = Add(%0, x)";

#[test]
fn an_operator_without_a_kernel_is_refused_on_every_way_into_the_graph() {
    let before = edited(SHORT_INTEGERS, |_| {});
    let after = edited(SHORT_INTEGERS, |edit| {
        let (c, x) = (edit.input(0, 0).unwrap(), edit.input(1, 1).unwrap());
        let choice = || Op::new(OpType::Where, &[c, x, x]);
        assert!(!rewrite(edit, 1, &[], choice()));
        let restore = |value| Op::new(OpType::Neg, &[value]);
        let is_done = edit.patch(1, |patch| {
            let why = patch.retype(1, &[], choice(), &restore).unwrap_err();
            assert_eq!(why.0, "ONNX Runtime has no Where for i16");
            patch.finish()
        });
        assert!(!is_done);

        // A node that reads such a result indirectly is refused too.
        let is_done = edit.patch(1, |patch| {
            let chosen = patch.insert(choice());
            let behind = patch.insert(Op::new(OpType::Identity, &[chosen]));
            let sum = Op::new(OpType::Add, &[behind, x]);
            assert!(patch.done(&[], sum).is_some_and(|outcome| outcome.is_err()));
            assert!(patch.done(&[], behind).is_some_and(|outcome| outcome.is_err()));
            let body = patch.branch("body", |patch| vec![patch.insert(choice())]);
            let branches = patch.insert_if(c, body.clone(), body);
            let results = vec![(0, branches[0])];
            assert!(patch.done(&[], results).is_some_and(|outcome| outcome.is_err()));
            patch.done(&[], vec![(0, behind)])
        });
        assert!(!is_done);
        assert_eq!(edit.len(), 2);
    });
    assert_eq!(before, after, "the nodes that nothing may read are gone");
}

#[test]
fn an_operator_that_the_graph_had_before_is_not_refused() {
    let graph = "graph g(c:bool[3], x:i16[3]) -> (y)\ny:i16[3] = Where(c, x, 0:i16)";
    edited(graph, |edit| {
        let (c, x) = (edit.input(0, 0).unwrap(), edit.input(0, 1).unwrap());
        assert!(rewrite(edit, 0, &[], Op::new(OpType::Where, &[c, x, x])));
    });
}

#[test]
fn all_nodes_of_a_patch_are_replaced_or_none() {
    let replace_both = |is_done: bool| {
        edited(CHAIN, |edit| {
            let x = edit.input(0, 0).unwrap();
            let applied = edit.patch(2, |patch| {
                patch.move_to(0);
                let exp = patch.insert(Op::new(OpType::Exp, &[x]));
                patch.replace(0, [], exp).unwrap();
                patch
                    .retype(1, &[], Op::new(OpType::Shape, &[x]), &|sizes| {
                        Op::new(OpType::Expand, &[x, sizes])
                    })
                    .unwrap();
                if is_done { patch.finish() } else { None }
            });
            assert_eq!(applied, is_done);
        })
    };
    assert_eq!(replace_both(false), edited(CHAIN, |_| {}));
    let after = "graph g(x:f32[3,3]) -> (y)
%0 = Exp(x)
%1 = Shape(x)
%2 = Expand(x, %1)
y:f32[3,3] = Add(%2, %2)
";
    assert_eq!(replace_both(true), after);
}

#[test]
fn a_patch_that_replaces_nothing_is_not_done() {
    edited(CHAIN, |edit| {
        assert!(!edit.patch(0, |patch| patch.finish()));
        assert!(!edit.is_changed());
    });
}

#[test]
fn two_outputs_that_become_one_value_stay_two() {
    let graph = "graph g(x:f32[3]) -> (y, z)
%0:f32[3] = Sin(x)
y:f32[3] = Cos(x)
z:f32[3] = Exp(x)";
    let after = edited(graph, |edit| {
        let sin = edit.node(0).outputs[0];
        assert!(edit.patch(1, |patch| {
            patch.replace(2, [], sin).unwrap();
            patch.done(&[], sin)
        }));
    });
    assert_eq!(after, "graph g(x:f32[3]) -> (y, z)\nz:f32[3] = Sin(x)\ny:f32[3] = Identity(z)\n");
}

#[test]
fn a_formula_replaces_a_node_and_casts_around_missing_kernels() {
    let text = edited("graph g(x:f16[2], y:f16[2]) -> (z)\nz:f16[2] = Add(x, y)", |edit| {
        let operands = [0, 1].map(|operand| edit.input(0, operand).unwrap());
        assert!(edit.patch(0, |patch| {
            let made = patch.formula(operands, |[x, y]| x.greater(0.0).select(x, y) * 2.0);
            patch.settle(made)
        }));
    });
    expect_test::expect![[r#"
        graph g(x:f16[2], y:f16[2]) -> (z)
        %0 = Cast(x) {to=1}
        %1 = Cast(0.0:f16) {to=1}
        %2 = Greater(%0, %1)
        %3 = Cast(x) {to=1}
        %4 = Cast(y) {to=1}
        %5 = Where(%2, %3, %4)
        %6 = Cast(%5) {to=10}
        %7 = Cast(%6) {to=1}
        %8 = Cast(2.0:f16) {to=1}
        %9 = Mul(%7, %8)
        z:f16[2] = Cast(%9) {to=10}
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_formula_without_a_kernel_leaves_nothing() {
    let after = edited(CHAIN, |edit| {
        let x = edit.input(0, 0).unwrap();
        let values = edit.values.len();
        assert!(!edit.patch(0, |patch| {
            let made = patch.formula([x], |[x]| x.cast(DType::F8E8M0).cast(DType::F32));
            patch.settle(made)
        }));
        assert_eq!((edit.len(), edit.values.len()), (3, values));
    });
    assert_eq!(after, edited(CHAIN, |_| {}));
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "a Sin of type f32[] replaces f32[3]"))]
fn a_replacement_of_another_type_is_declined() {
    edited("graph g(x:f32[], y:f32[3]) -> (z)\nz:f32[3] = Add(x, y)", |edit| {
        let x = edit.input(0, 0).unwrap();
        assert!(!rewrite(edit, 0, &[], Op::new(OpType::Sin, &[x])));
    });
}
