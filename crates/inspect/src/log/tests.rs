use super::*;

fn node(name: &str, op: &str) -> Clue {
    Clue::Node { name: name.into(), op: Some(op.into()) }
}

#[test]
fn nested_nodes_are_named_from_the_outside_in() {
    let text = "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Scan node. \
        Name:'scan' Status Message: Non-zero status code returned while running Add node. \
        Name:'add' Status Message: /src/element_wise_ops.h:563 void onnxruntime::B::Init(ptrdiff_t) \
        axis == 1 was false. Attempting to broadcast an axis by a dimension other than 1. 3 by 4";
    let log = parse(text.as_bytes());
    let [message] = log.messages.as_slice() else { panic!("{log:?}") };
    assert_eq!(message.clues, [node("scan", "Scan"), node("add", "Add")]);
    assert_eq!(message.class, Some(Class::Shape));
    assert_eq!(message.used, "running Add node. Name:'add'");
    let expected = "Attempting to broadcast an axis by a dimension other than 1. 3 by 4";
    assert_eq!(message.words, expected);
}

#[test]
fn a_repeated_message_is_reported_once() {
    let text = "2026-01-01 00:00:00.0 [E:onnxruntime:, a.cc:1 F] running Add node. Name:'add' Status \
        Message: dimension\n\
        2026-01-01 00:00:00.0 [E:onnxruntime:, a.cc:1 F] running If node. Name:'if' Status Message: \
        running Add node. Name:'add' Status Message: dimension\n\
        \x1b[1;31mo.onnxruntime_pybind11_state.Fail: running If node. Name:'if' Status Message: running \
        Add node. Name:'add' Status Message: dimension\x1b[m\n\
        ValueError: Required inputs (['x']) are missing from input feed (['y']).\n";
    let log = parse(text.as_bytes());
    let clues: Vec<_> = log.messages.iter().map(|message| message.clues.len()).collect();
    assert_eq!(clues, [2, 1]);
    assert_eq!(log.messages[1].class, Some(Class::Call));
}

/// People paste the part of a message that looks important to them.
#[test]
fn a_message_without_its_beginning_is_read() {
    let named = |name: &str| Clue::Node { name: name.into(), op: None };
    let op = |op: &str| Clue::Op { op: op.into(), domain: None };
    for (text, class, clues) in [
        (
            "Unexpected input data type. Actual: (tensor(double)) , expected: (tensor(float))",
            Class::Call,
            &[][..],
        ),
        ("Invalid Feed Input Name:token", Class::Call, &[]),
        ("Model requires 2 inputs. Input Feed contains 1", Class::Call, &[]),
        (
            "Attempting to broadcast an axis by a dimension other than 1. 3 by 4",
            Class::Shape,
            &[Clue::Broadcast { sizes: [3, 4] }],
        ),
        ("error in node 'a/add': shape", Class::Shape, &[named("a/add")]),
        ("Name:'a/add' Status Message: invalid expand shape", Class::Shape, &[named("a/add")]),
        ("MatMul dimension mismatch", Class::Shape, &[op("MatMul")]),
        (
            "Op (MatMul) [ShapeInferenceError] Incompatible dimensions",
            Class::Shape,
            &[op("MatMul")],
        ),
        ("No Op registered for Gelu with domain_version of 17", Class::Operator, &[op("Gelu")]),
        ("indices element out of data bounds, idx=7 must be within", Class::Index, &[]),
        (
            "Failed to find kernel for ai.onnx.Erf(13) (node:'erf' ep:'CPUExecutionProvider'). Kernel not found",
            Class::Kernel,
            &[node("erf", "Erf")],
        ),
    ] {
        let log = parse(text.as_bytes());
        let [message] = log.messages.as_slice() else { panic!("{text}: {log:?}") };
        assert_eq!((message.class, message.clues.as_slice()), (Some(class), clues), "{text}");
    }
}

#[test]
fn messages_of_other_runtimes_are_read() {
    let named = |name: &str| Clue::Node { name: name.into(), op: None };
    let output = |name: &str, op: &str| Clue::Output { name: name.into(), op: Some(op.into()) };
    let inner = |name: &str| Clue::Inner { name: name.into() };
    for (text, clues) in [
        (
            "Error: Failed analyse for node #7 \"scan\" Scan\n\nCaused by:\n    0: Infering facts\n    \
             1: Failed analyse for node #2 \"mul\" Mul\n    2: Impossible to unify 1 with 0.",
            &[named("scan"), named("mul")][..],
        ),
        (
            "Evaluating #28 \"reduce_or\" Reduce<Max>; caused by: Bool is not a number",
            &[named("reduce_or")],
        ),
        (
            "Failed analyse for node #45 \"equal\" Eq; caused by: Eager eval during inference; caused by: \
             Evaluating #3 \"adhoc\" Eq; caused by: Bool is not a number",
            &[named("equal"), inner("adhoc")],
        ),
        (
            "Error: Failed analyse for node #45 \"equal\" Eq\n\nCaused by:\n    0: Eager eval during inference\n    \
             1: Evaluating #3 \"adhoc\" Eq\n    2: Bool is not a number",
            &[named("equal"), inner("adhoc")],
        ),
        (
            "-- Scan-23 with a message:\nWhile validating ONNX node '<Node(Scan): scan:0>': While validating \
             node 'opset1::Multiply m (…)' with friendly_name 'mul':\n",
            &[output("scan:0", "Scan"), inner("mul")],
        ),
        (
            "in node \"if\": operator error: subgraph error: in node \"scan\": operator error: Scan operator \
             not supported or not enabled",
            &[named("if"), named("scan")],
        ),
        (
            "[01/01/2026-00:00:00] [E] [TRT] ModelImporter.cpp:1012: While parsing node number 3 [Relu -> \
             \"a/relu:0\"]:",
            &[output("a/relu:0", "Relu")],
        ),
        (
            "In node 143 (importResize): UNSUPPORTED_NODE: Assertion failed: scales.is_weights()",
            &[Clue::Numbered { position: 143, op: "Resize".into() }],
        ),
        (
            "RuntimeError: Scan is not implemented for other output input_direction than 0.",
            &[Clue::Other { op: "Scan".into(), attribute: "scan_input_directions" }],
        ),
        (
            "Error: failed to call OrtRun(). ERROR_CODE: 1, ERROR_MESSAGE: Non-zero status code returned while \
             running Add node. Name:'add' Status Message: shape\n    at process.processTicksAndRejections \
             (node:internal/process/task_queues:95:5)",
            &[node("add", "Add")],
        ),
    ] {
        let log = parse(text.as_bytes());
        let [message] = log.messages.as_slice() else { panic!("{text}: {log:?}") };
        assert_eq!(message.clues, clues, "{text}");
    }
}

#[test]
fn each_failure_in_a_report_of_openvino_is_a_message() {
    let text = "RuntimeError: Check 'false' failed at src/report.cpp:151:\n\
        Model wasn't fully converted. Failed operations detailed log:\n\
        -- Scan-23 with a message:\nWhile validating ONNX node '<Node(Scan): a>': wrong\n\
        -- Mul-23 with a message:\nWhile validating ONNX node '<Node(Mul): b>': wrong\n\
        Summary:\n-- No conversion rule found for operations: Mish-23, com.example.Exp\n\
        -- Conversion is failed for: Scan-23, Mul-23\n";
    let log = parse(text.as_bytes());
    let clues: Vec<&Clue> = log.messages.iter().flat_map(|message| &message.clues).collect();
    let expected = [
        Clue::Output { name: "a".into(), op: Some("Scan".into()) },
        Clue::Output { name: "b".into(), op: Some("Mul".into()) },
        Clue::Op { op: "Mish".into(), domain: None },
        Clue::Op { op: "Exp".into(), domain: Some("com.example".into()) },
    ];
    assert_eq!(clues, expected.iter().collect::<Vec<_>>());
}

#[test]
fn a_text_without_an_error_has_no_findings() {
    for text in
        ["", "hello", "the shape of things", "INFO: loaded, shape (3, 4)\n", "\0\0\x1b[", "é\n"]
    {
        assert_eq!(parse(text.as_bytes()).messages, [], "{text:?}");
    }
}

mod hostile {
    use proptest::prelude::*;

    use super::*;

    /// Generates texts that look like messages but are not.
    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let words = prop::sample::select(vec![
            "running Add node. Name:'",
            "' Status Message: ",
            "[ONNXRuntimeError] : 1 : FAIL : ",
            "Node (a) Op (",
            ") [ShapeInferenceError] ",
            "In Node, (\"",
            "2026-01-01 00:00:00.0 [E:onnxruntime:, ",
            "ValueError: ",
            "a.h:1 void onnxruntime::f(int, (",
            " was false. ",
            "\x1b[1;31m",
            "\x1b[",
            "\x1b",
            "\n",
            "{op}",
            "é漢",
            "\0",
        ]);
        let word = words.prop_map(|word| word.as_bytes().to_vec());
        let any = prop::collection::vec(any::<u8>(), 0..12);
        prop::collection::vec(prop_oneof![4 => word, 1 => any], 0..40).prop_map(|all| all.concat())
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_the_same_twice(text in pieces()) {
            let log = parse(&text);
            prop_assert_eq!(&log, &parse(&text));
            for message in &log.messages {
                prop_assert!(message.words.len() <= 4 * 601 + 3 && message.used.len() <= 4 * 241 + 3);
            }
        }

        #[test]
        fn any_bytes_are_read(text in prop::collection::vec(any::<u8>(), 0..400)) {
            parse(&text);
        }
    }

    #[test]
    fn a_log_that_is_too_long_is_cut() {
        assert!(parse_end(b"no error", 7).is_cut);
        assert!(!parse_end(b"no error", 8).is_cut);
    }
}
