use super::*;

fn read(text: &str) -> Result<Profile, String> {
    Profile::read(text.as_bytes()).map_err(|error| error.to_string())
}

fn kernel(name: &str, op: &str, start: u64, length: u64) -> String {
    format!(
        r#"{{"cat":"Node","pid":1,"tid":1,"dur":{length},"ts":{start},"ph":"X",
        "name":"{name}_kernel_time","args":{{"op_name":"{op}","provider":"CPU","x":[{{"a":[1]}}]}}}}"#
    )
}

fn run(start: u64, length: u64) -> String {
    format!(
        r#"{{"cat":"Session","tid":1,"dur":{length},"ts":{start},"name":"model_run","args":{{}}}}"#
    )
}

#[test]
fn a_loop_has_the_time_that_its_body_does_not_have() {
    let events = [
        kernel("add", "Add", 12, 5),
        kernel("add", "Add", 20, 6),
        kernel("scan", "Scan", 10, 30),
        kernel("neg", "Neg", 45, 7),
        run(9, 50),
        kernel("neg", "Neg", 105, 9),
        run(100, 20),
    ];
    let profile = read(&format!("[{}]", events.join(","))).unwrap();
    let times: Vec<_> =
        profile.kernels.iter().map(|it| (&*it.node, it.times.clone(), it.calls.clone())).collect();
    let expected = [
        ("scan", vec![19, 0], vec![1, 0]),
        ("add", vec![11, 0], vec![2, 0]),
        ("neg", vec![7, 9], vec![1, 1]),
    ];
    assert_eq!(times, expected);
    assert_eq!(profile.total(), 30 + 7 + 9);
    let runs = [Run { wall: Some(50), kernels: 37 }, Run { wall: Some(20), kernels: 9 }];
    assert_eq!(profile.runs, runs);
    assert_eq!(
        Spread::of(&[7, 9]),
        Spread { median: 8.0, median_deviation: 1.0, mean: 8.0, deviation: 2f64.sqrt() }
    );
    let slow = Spread::of(&[10, 11, 1000, 12, 9]);
    assert_eq!((slow.median, slow.median_deviation), (11.0, 1.0));
}

#[test]
fn a_profile_without_runs_is_one_run() {
    let profile =
        read(&format!(r#"{{"a":1,"traceEvents":[{}]}}"#, kernel("a", "Add", 1, 2))).unwrap();
    assert_eq!(profile.runs, [Run { wall: None, kernels: 2 }]);
}

#[test]
fn a_profile_of_very_many_nodes_and_runs_takes_no_more_than_its_size() {
    let profile = |nodes: u64, runs: u64| {
        let kernels = (0..nodes).map(|i| kernel(&format!("n{i}"), "Add", i * 10 + 1, 5));
        let runs = (0..runs).map(|i| run(i * 10, 9));
        read(&format!("[{}]", kernels.chain(runs).collect::<Vec<_>>().join(",")))
    };
    assert_eq!(profile(2000, 400).unwrap().kernels.len(), 2000);
    let error = profile(2000, 2000).unwrap_err();
    assert!(
        error.starts_with("the profile has 2000 runs, but most nodes are in only a few"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_not_a_profile_is_refused() {
    let refused = |text: &str, expected: &str| {
        let error = read(text).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    };
    let one = kernel("a", "Add", 1, 2);
    refused("", "this is not an ONNX Runtime profile: EOF");
    refused("hello", "this is not an ONNX Runtime profile: expected value");
    refused("3", "this is not an ONNX Runtime profile: invalid type");
    refused("[1]", "this is not an ONNX Runtime profile: invalid type");
    refused("[]", "the profile contains no times of nodes");
    refused(&format!("[{one},"), "the profile is incomplete, because it ends after 1 events");
    refused(&format!("[{one}, x"), "the profile is corrupt after 1 events: expected value");
    refused(&"[".repeat(100_000), "this is not an ONNX Runtime profile: ");
    refused(
        &format!("[{{\"args\":{}", "{\"a\":".repeat(100_000)),
        "this is not an ONNX Runtime profile",
    );
}

mod hostile {
    use proptest::prelude::*;

    use super::*;

    fn any_event() -> impl Strategy<Value = String> {
        let number = prop_oneof![0u64..100, Just(u64::MAX), Just(1 << 40)];
        let names =
            prop::sample::select(vec!["a", "gemm_input_reshape", "Gelu", "x/MatMulAddFusion"]);
        (names, number.clone(), number, any::<bool>()).prop_map(|(name, start, length, is_run)| {
            if is_run { run(start, length) } else { kernel(name, "Gelu", start, length) }
        })
    }

    proptest! {
        #[test]
        fn times_add_up_whatever_the_events(events in prop::collection::vec(any_event(), 0..30)) {
            if let Ok(profile) = read(&format!("[{}]", events.join(","))) {
                let of_runs: u64 = profile.runs.iter().map(|run| run.kernels).sum();
                prop_assert_eq!(profile.total(), of_runs);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Profile::read(bytes.as_slice());
        }

        #[test]
        fn a_profile_that_is_cut_anywhere_is_refused(at in 1usize..200) {
            let whole = format!("[{}]", [kernel("a", "Add", 1, 2), run(0, 9)].join(","));
            let cut: String = whole.chars().take(at.min(whole.len() - 1)).collect();
            prop_assert!(read(&cut).is_err());
        }
    }
}
