//! Checks that a written model is read back as the same model.

use std::fmt::Write;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use provenance::{Level, SourceMap, keys};

use crate::check::check;
use crate::names::assign_names;
use crate::proto::{no_metadata, read, skim, to_bytes};
use crate::strip::{attach, strip, take_apart};
use crate::text::parse_graph;
use crate::{Attr, Model, Node};

/// A node or a body of a generated graph.
#[derive(Clone, Debug)]
enum Step {
    Node { operands: Vec<Operand>, attrs: Vec<usize>, outputs: usize, is_typed: bool },
    Branch(Vec<Step>),
}

#[derive(Clone, Debug)]
enum Operand {
    Before(usize),
    Literal(usize),
    Omitted,
}

const LITERALS: &[&str] = &[
    "2.0",
    "-1e-5:f64",
    "[1, 2]:i64",
    "[[1], [255]]:u8",
    "0.5:bf16",
    "true",
    "[\"a\", \"\"]",
    "const f32[3,4]",
    "const i8[0,2]",
    "const u4[3] 0x2103",
    "nan:f16",
    "-9223372036854775808:i64",
    "18446744073709551615:u64",
];

const ATTRS: &[&str] = &[
    "a=1",
    "b=-0.5",
    "c=\"text \\\"with\\\" `quotes`\"",
    "d=[1, -2]",
    "e=[1.0, inf]",
    "f=[\"x\", \"\"]",
    "g=[]",
    "h=[]:floats",
    "i=[]:strings",
    "j=tensor [1, 2]:i32",
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let operand = prop_oneof![
        4 => any::<usize>().prop_map(Operand::Before),
        2 => (0..LITERALS.len()).prop_map(Operand::Literal),
        1 => Just(Operand::Omitted),
    ];
    let attrs = proptest::sample::subsequence((0..ATTRS.len()).collect::<Vec<_>>(), 0..4);
    let node = (vec(operand, 0..4), attrs, 1..3_usize, any::<bool>()).prop_map(
        |(operands, attrs, outputs, is_typed)| Step::Node { operands, attrs, outputs, is_typed },
    );
    let step = node.prop_recursive(3, 16, 4, |inner| vec(inner, 1..4).prop_map(Step::Branch));
    vec(step, 1..6)
}

/// Writes the lines of a graph that can read `visible`. The graph defines the last value in it.
fn lines(text: &mut String, steps: &[Step], visible: &mut Vec<String>, count: &mut usize) {
    for step in steps {
        let mut fresh = |ty: &str| {
            *count += 1;
            (format!("%{count}"), ty.to_owned())
        };
        match step {
            Step::Node { operands, attrs, outputs, is_typed } => {
                let ty = if *is_typed { ":f32[2,B]" } else { "" };
                let defined: Vec<_> = (0..*outputs).map(|_| fresh(ty)).collect();
                let operands: Vec<&str> = operands
                    .iter()
                    .map(|operand| match operand {
                        Operand::Before(index) => &*visible[index % visible.len()],
                        Operand::Literal(index) => LITERALS[*index],
                        Operand::Omitted => "_",
                    })
                    .collect();
                let attrs: Vec<&str> = attrs.iter().map(|&index| ATTRS[index]).collect();
                let outputs: Vec<String> =
                    defined.iter().map(|(name, ty)| format!("{name}{ty}")).collect();
                let (outputs, operands) = (outputs.join(", "), operands.join(", "));
                writeln!(text, "{outputs} = my.domain::Op({operands}) {{{}}}", attrs.join(", "))
                    .unwrap();
                visible.extend(defined.into_iter().map(|(name, _)| name));
            }
            Step::Branch(inner) => {
                let (name, _) = fresh("");
                let mut body = String::new();
                let mut inside = visible.clone();
                lines(&mut body, inner, &mut inside, count);
                let last = inside.last().unwrap();
                writeln!(text, "{name} = If(x) {{body={{\ngraph b() -> ({last})\n{body}}}}}")
                    .unwrap();
                visible.push(name);
            }
        }
    }
}

fn models() -> impl Strategy<Value = Model> {
    (steps(), steps()).prop_map(|(main, function)| {
        let mut text = String::new();
        let mut visible = vec!["x".to_owned(), "w".to_owned()];
        let mut count = 0;
        lines(&mut text, &main, &mut visible, &mut count);
        let last = visible.pop().unwrap();
        text = format!(
            "graph main(x:f32[2,B]) -> ({last})\nw = const f32[16]\n{text}{last}_:f32[] = Neg({last})\n"
        );
        text = text.replacen(&format!("-> ({last})"), &format!("-> ({last}_)"), 1);
        let mut body = String::new();
        let mut visible = vec!["x".to_owned()];
        lines(&mut body, &function, &mut visible, &mut count);
        let last = visible.pop().unwrap();
        write!(text, "function my.domain::f(x:f32[2,B]) -> ({last})\n{body}").unwrap();
        parse_graph(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    })
}

/// Returns a text that describes everything in a model except ids.
fn described(model: &Model) -> String {
    let mut text = model.typed_text().to_string();
    for graph in model.graphs() {
        for node in &graph.nodes {
            writeln!(text, "{:?} {:?}", node.name, node.metadata).unwrap();
            for tensor in
                node.inputs.iter().flatten().filter_map(|&id| model.values[id].tensor.as_ref())
            {
                writeln!(text, "{tensor:?}").unwrap();
            }
            for (name, attr) in &node.attrs {
                if !matches!(attr, Attr::Graph(_)) {
                    writeln!(text, "{name}={attr:?}").unwrap();
                }
            }
        }
    }
    let Model { ir_version, opsets, producer_name, producer_version, metadata, .. } = model;
    writeln!(text, "{ir_version} {opsets:?} {producer_name} {producer_version} {metadata:?}")
        .unwrap();
    text
}

fn bytes_of(model: &Model) -> Bytes {
    to_bytes(model, &mut no_metadata).unwrap().into()
}

/// Adds metadata of jax2onnx and of others to the nodes and the model.
fn annotated(model: &mut Model, entries: &[(usize, usize, String)]) {
    const KEYS: [&str; 8] = [
        keys::CALLSITE,
        keys::PLUGIN,
        keys::STACKTRACE,
        keys::JAX_TRACEBACK,
        keys::FUSED_FROM,
        keys::DEBUG_ID,
        "other.key",
        "pkg.other",
    ];
    // Every model has metadata on its first node.
    let first = (0, 0, "Net.__call__:12".to_owned());
    for (node, key, value) in std::iter::once(&first).chain(entries) {
        let key = KEYS[key % KEYS.len()].to_owned();
        let mut open: Vec<&mut Node> = model.graph.nodes.iter_mut().collect();
        open.extend(model.functions.iter_mut().flat_map(|function| &mut function.body.nodes));
        let count = open.len() + 1;
        match open.into_iter().nth(node % count) {
            Some(node) => node.metadata.push((key, value.clone())),
            None => model.metadata.push((key, value.clone())),
        }
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn reading_undoes_writing(mut model in models(), key in "[a-z.]{1,8}") {
        model.producer_name = "jax2onnx".into();
        model.metadata = vec![(key.clone(), "v".into())];
        model.graph.nodes[0].metadata = vec![(key, "two\nlines".into())];
        assign_names(&mut model);
        check(&model).unwrap();
        let bytes = bytes_of(&model);
        let again = read(bytes.clone()).unwrap();
        prop_assert_eq!(described(&again), described(&model));
        prop_assert_eq!(bytes_of(&again), bytes);
    }

    #[test]
    fn attaching_undoes_stripping(
        mut model in models(),
        entries in vec((any::<usize>(), any::<usize>(), ".{0,8}:[0-9]{1,3}( \\(f\\))?"), 0..12),
    ) {
        assign_names(&mut model);
        let bare = bytes_of(&model);
        annotated(&mut model, &entries);
        let bytes = bytes_of(&model);
        let apart = take_apart(&bytes).unwrap();
        prop_assert_eq!(&attach(&apart.model, &apart.map).unwrap(), &bytes);
        // Only the id is left.
        let clean = strip(&apart.model, Level::Off, false).unwrap();
        prop_assert_eq!(clean.removed, 1);
        prop_assert!(!contains(&clean.model, keys::PREFIX));
        prop_assert_eq!(&clean.model, &strip(&bytes, Level::Off, false).unwrap().model);
        if entries.iter().all(|(_, key, _)| key % 8 < 6) {
            prop_assert_eq!(&Bytes::from(clean.model), &bare);
        }
        prop_assert!(attach(&apart.model[..apart.model.len() / 2], &apart.map).is_err());
        // The map is complete on its own.
        let map = SourceMap::read(&apart.map).unwrap();
        prop_assert_eq!(map.outline, skim(&bytes).unwrap().outline);
    }

    #[test]
    fn parsing_undoes_printing(mut model in models(), is_named in any::<bool>()) {
        if is_named {
            assign_names(&mut model);
        }
        let text = model.typed_text().to_string();
        let again = parse_graph(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(again.typed_text().to_string(), text);
    }

    #[test]
    fn a_damaged_model_is_refused_or_read_but_never_a_crash(
        mut model in models(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        assign_names(&mut model);
        let mut bytes = bytes_of(&model).to_vec();
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(model) = read(bytes.clone().into()) {
            let _ = check(&model);
            let _ = model.typed_text().to_string();
        }
        bytes.truncate(cut.index(bytes.len()));
        let _ = read(bytes.into());
    }
}

#[test]
fn a_map_belongs_to_one_model() {
    let mut model = parse_graph("graph f(x:f32[]) -> (y)\ny:f32[] = Neg(x)").unwrap();
    assign_names(&mut model);
    annotated(&mut model, &[]);
    let one = take_apart(&bytes_of(&model)).unwrap();
    model.graph.nodes[0].name = Some("other".into());
    let other = take_apart(&bytes_of(&model)).unwrap();
    let refused = |model: &[u8], map: &str| attach(model, map).unwrap_err().to_string();
    let wrong = refused(&one.model, &other.map);
    assert!(
        wrong.starts_with("this is the source map of another model: its debug id is"),
        "{wrong}"
    );
    let bare = strip(&one.model, Level::Off, false).unwrap().model;
    let expected = "the model has no `pkg.jax2onnx.debug_id`, so jax2onnx cannot tell whether this is its source map";
    assert_eq!(refused(&bare, &one.map), expected);
    assert_eq!(
        one.lost,
        [
            "the columns of expressions",
            "name scopes and transformations",
            "call paths",
            "the names of files"
        ]
    );
    let nothing = take_apart(&bare).unwrap_err().to_string();
    assert!(nothing.starts_with("the model contains no provenance"), "{nothing}");
}
