//! `profile` on recorded runs of ONNX Runtime; `tools/profiles.py` records them.
#![expect(clippy::unwrap_used, reason = "a test fails where it cannot look")]

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

/// The kernels of a profile as the file has them: name, start, length.
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
    for name in ["transformer", "loop"] {
        let (model, profile) = read(name);
        let document = model.read(None).unwrap();
        let stacks = stacks(&document, &profile, 0);
        let total: u64 = stacks.iter().map(|(_, time)| time).sum();
        assert_eq!(total, profile.total());
        let answer = speedscope(&stacks, name);
        assert_eq!(answer["profiles"][0]["endValue"], total);
        let svg = flamegraph(&stacks, "a < b");
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
        let times: Vec<u64> = summary.rows.iter().map(|row| row.times.iter().sum()).collect();
        assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    }
}
