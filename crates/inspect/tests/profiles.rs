//! Runs `profile` on recorded runs of ONNX Runtime; `tools/profiles.py` records them.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use inspect::profile::{By, Profile, flamegraph, speedscope, stacks, summarize};
use inspect::{ModelFile, Weights};
use serde_json::Value;

const ALL: [By; 6] = [By::Line, By::Function, By::Scope, By::Op, By::Plugin, By::Node];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profiles").join(name)
}

fn read(name: &str) -> (ModelFile, Profile) {
    let model = ModelFile::open(&path(&format!("{name}.onnx")), Weights::Skipped).unwrap();
    let profile = File::open(path(&format!("{name}.json"))).unwrap();
    (model, Profile::read(profile).unwrap())
}

/// Returns the kernels in the file of a profile: name, start, length.
fn kernels(name: &str) -> Vec<(String, u64, u64)> {
    let text = fs::read_to_string(path(&format!("{name}.json"))).unwrap();
    let events: Value = serde_json::from_str(&text).unwrap();
    let is_kernel = |event: &&Value| event["name"].as_str().unwrap().ends_with("_kernel_time");
    let times = |event: &Value| {
        let name = event["name"].as_str().unwrap().to_owned();
        (name, event["ts"].as_u64().unwrap(), event["dur"].as_u64().unwrap())
    };
    events.as_array().unwrap().iter().filter(is_kernel).map(times).collect()
}

#[test]
fn the_time_of_a_transformer_is_that_of_the_profile_and_has_lines_of_the_user() {
    let (model, profile) = read("transformer");
    let document = model.read(None).unwrap();
    let total: u64 = kernels("transformer").iter().map(|(_, _, length)| length).sum();
    assert_eq!(profile.total(), total);
    for by in ALL {
        let summary = summarize(&document, &profile, by, None);
        assert_eq!((summary.warmup.len(), summary.runs.len()), (1, 3));
        let counted: u64 = summary.rows.iter().flat_map(|row| &row.times).sum();
        let warmup = summary.warmup[0].kernels;
        assert_eq!(counted + warmup, total, "{by:?}");
        assert!(summary.users >= 0.95, "{by:?}: {}", summary.users);
        let shares: f64 = summary.rows.iter().map(|row| row.share).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    }
}

/// ONNX Runtime computes convolutions in a blocked layout, and names them after their activations.
#[test]
fn the_time_of_a_convolution_is_on_its_own_line() {
    let (model, profile) = read("images");
    let document = model.read(None).unwrap();
    let summary = summarize(&document, &profile, By::Line, None);
    assert!(summary.users >= 0.98, "{}", summary.users);
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/profiles.py").canonicalize();
    let source = fs::read_to_string(source.unwrap()).unwrap();
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for row in &summary.rows {
        let line = lines[row.frame.unwrap().line as usize - 1];
        let mut ops: Vec<&str> =
            row.ops.iter().map(|op| op.trim_end_matches(char::is_numeric)).collect();
        ops.sort_unstable();
        found.push((line, ops.join(" ")));
    }
    found.sort_by_key(|(line, _)| lines.iter().position(|known| known == line));
    let found: Vec<(&str, &str)> = found.iter().map(|(line, ops)| (*line, ops.as_str())).collect();
    assert_eq!(
        found,
        [
            ("x = convolve(x, w(3, 3, 3, 16))", "Conv Transpose"),
            ("y = convolve(x, w(3, 3, 1, 16), feature_group_count=16)", "Conv"),
            ("y = jax.nn.silu(y)", "QuickGelu"),
            ("y = convolve(y, w(1, 1, 16, 16)) + w(16)", "Conv ReorderOutput"),
            ("x = jax.nn.leaky_relu(x + y)", "LeakyRelu"),
            (
                "x = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), \"VALID\") / 4",
                "AveragePool ReorderInput"
            ),
            ("x = convolve(x, w(3, 3, 16, 32))", "Conv ReorderOutput"),
            ("return x.mean((1, 2)) @ w(32, 4)", "MatMul ReduceMean"),
        ]
    );
}

#[test]
fn a_loop_is_counted_once() {
    let (model, profile) = read("loop");
    let document = model.read(None).unwrap();
    let is_around = |name: &str| name.starts_with("scan_kernel");
    let all = kernels("loop");
    let loops: Vec<_> = all.iter().filter(|(name, _, _)| is_around(name)).collect();
    assert_eq!(loops.len(), 4);
    let is_within =
        |start: u64| loops.iter().any(|(_, from, length)| (*from..from + length).contains(&start));
    let outer = all.iter().filter(|(name, start, _)| is_around(name) || !is_within(*start));
    assert_eq!(profile.total(), outer.map(|(_, _, length)| length).sum::<u64>());
    let summary = summarize(&document, &profile, By::Function, None);
    let functions: Vec<&str> = summary.rows.iter().filter_map(|row| row.key.as_deref()).collect();
    assert!(functions.contains(&"tools/profiles.py, in loop.<locals>.step"), "{functions:?}");
}

#[test]
fn pictures_have_all_the_time() {
    for name in ["transformer", "images", "loop"] {
        let (model, profile) = read(name);
        let document = model.read(None).unwrap();
        let stacks = stacks(&document, &profile, 0);
        let total: u64 = stacks.iter().map(|(_, time)| time).sum();
        assert_eq!(total, profile.total());
        let answer = speedscope(&stacks, name);
        assert_eq!(answer["profiles"][0]["endValue"], total);
        let svg = flamegraph(&stacks, "a < b", "µs");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a &lt; b"), "{svg}");
        assert_eq!(svg.matches("<g>").count(), svg.matches("</g>").count());
    }
}

#[test]
fn rows_are_sorted_and_the_warm_up_can_be_chosen() {
    let (model, profile) = read("loop");
    let document = model.read(None).unwrap();
    for (asked, warmup) in [(None, 1), (Some(0), 0), (Some(2), 2), (Some(99), 3)] {
        let summary = summarize(&document, &profile, By::Op, asked);
        assert_eq!(summary.warmup.len(), warmup);
        assert_eq!(summary.total, profile.total());
        let medians: Vec<f64> = summary.rows.iter().map(|row| row.spread.median).collect();
        assert!(medians.is_sorted_by(|a, b| a >= b), "{medians:?}");
    }
}

/// Multiplies the time of every kernel in one run: a different run for each kernel, as pauses do.
fn with_pauses(profile: &Profile) -> Profile {
    let mut profile = profile.clone();
    let runs = profile.runs.len();
    for (number, kernel) in profile.kernels.iter_mut().enumerate() {
        let run = number % runs;
        let pause = 2000;
        kernel.times[run] += pause;
        profile.runs[run].kernels += pause;
    }
    profile
}

#[test]
fn rows_add_up_to_the_total_also_on_a_busy_machine() {
    let (model, profile) = read("transformer");
    let document = model.read(None).unwrap();
    for (profile, is_busy) in [(profile.clone(), false), (with_pauses(&profile), true)] {
        for by in [By::Line, By::Op, By::Node] {
            let summary = summarize(&document, &profile, by, None);
            let sum: f64 = summary.rows.iter().map(|row| row.spread.median).sum();
            assert!((summary.sum - sum).abs() < 1e-6, "{by:?}");
            assert!(by != By::Node || summary.is_noisy == is_busy);
        }
    }
}
