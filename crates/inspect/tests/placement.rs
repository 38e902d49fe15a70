//! Finds where lines run, from a recorded run of ONNX Runtime on two devices; `tools/profiles.py` records it.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

use inspect::placement::{Evidence, Placement, Source, json, sentence, text};
use inspect::profile::{By, Profile, summarize};
use inspect::{Document, ModelFile, Sources, Style, Weights};

const CPU: &str = "CPUExecutionProvider";
const GPU: &str = "WebGpuExecutionProvider";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profiles").join(name)
}

fn model(name: &str) -> ModelFile {
    ModelFile::open(&path(name), Weights::Skipped).unwrap()
}

fn events() -> String {
    fs::read_to_string(path("devices.json")).unwrap()
}

fn profile(events: &str) -> Profile {
    Profile::read(events.as_bytes()).unwrap()
}

/// Returns an assignment of all nodes of a profile that run on some providers.
fn assignment(profile: &Profile, providers: &[&str]) -> Profile {
    let kernels = profile.kernels.iter().filter(|kernel| !kernel.op.starts_with("Memcpy"));
    let kernels = kernels.filter(|kernel| providers.contains(&&*kernel.provider));
    let entry = |text: &str| text.to_owned();
    Profile::of_assignment(kernels.map(|it| [entry(&it.provider), entry(&it.node), entry(&it.op)]))
}

/// Describes the lines that need copies, and all copies.
fn described(placement: &Placement<'_>) -> String {
    let mut lines = vec![sentence(placement)];
    for line in placement.lines.iter().filter(|line| !line.copies.is_empty()) {
        let mut ops: Vec<&str> = line.elsewhere(placement.main()).map(|node| &*node.op).collect();
        ops.sort_unstable();
        lines.push(format!("{} {}", line.frame.unwrap().line, ops.join(" ")));
        for copy in &line.copies {
            let from = copy.from.map_or(0, |frame| frame.line);
            let to: Vec<String> = copy.to.iter().map(|frame| frame.line.to_string()).collect();
            lines.push(format!(
                "  {} {} {} from {from} to {}: {} B, {:?} times",
                copy.direction.word(),
                copy.value.as_deref().unwrap_or("?"),
                copy.ty.as_deref().unwrap_or("?"),
                to.join(" "),
                copy.bytes.unwrap(),
                copy.calls,
            ));
        }
    }
    lines.join("\n")
}

fn of_profile<'d>(document: &'d Document<'_>, profile: &Profile) -> Placement<'d> {
    Placement::new(document, Evidence { profile: Some(profile), ..Evidence::default() })
}

const FOUND: &str = "\
16 of 29 nodes run on WebGpuExecutionProvider; 4 lines run on the CPU and cost 8 copies (3.6 KiB in each run)
111 Scan
  to_cpu gather_1 f32[8,8] from 109 to 111: 256 B, Some(1) times
  from_cpu scan:1 f32[3,8,8] from 111 to 102: 768 B, Some(1) times
  from_cpu scan:0 f32[8,8] from 111 to 112: 256 B, Some(1) times
108 Cast IsNaN Min TopK Where
  to_cpu gather f32[8] from 108 to 108: 32 B, Some(1) times
  from_cpu sort_4:1 i64[8] from 108 to 109: 64 B, Some(1) times
101 Cast IsNaN Min TopK Where
  to_cpu add f32[8,8] from 100 to 101: 256 B, Some(3) times
  from_cpu sort_9:1 i64[8,8] from 101 to 101: 512 B, Some(3) times
110 Min Relu
  from_cpu min i32[8] from 110 to 112: 32 B, Some(1) times";

/// Sorts the copies, whose order in a profile is that of the run.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn the_form_of_the_runtime_shows_the_line_and_the_value_of_each_copy() {
    let (model, profile) = (model("devices.optimized.onnx"), profile(&events()));
    let document = model.read(Some(&path("devices.onnx"))).unwrap();
    assert_eq!(sorted(&described(&of_profile(&document, &profile))), sorted(FOUND));
}

#[test]
fn the_exported_model_and_a_profile_show_the_same_copies() {
    let (model, profile) = (model("devices.onnx"), profile(&events()));
    let document = model.read(None).unwrap();
    assert_eq!(sorted(&described(&of_profile(&document, &profile))), sorted(FOUND));
}

#[test]
fn the_time_of_a_copy_is_on_the_line_that_needs_it() {
    let (model, profile) = (model("devices.onnx"), profile(&events()));
    let document = model.read(None).unwrap();
    let summary = summarize(&document, &profile, By::Line, None);
    assert!(summary.users > 0.999, "{}", summary.users);
    let copies = |row: &&inspect::profile::Row<'_>| row.ops.iter().any(|op| op.contains("Memcpy"));
    let mut lines: Vec<u32> =
        summary.rows.iter().filter(copies).map(|row| row.frame.unwrap().line).collect();
    lines.sort_unstable();
    assert_eq!(lines, [101, 108, 110, 111]);
}

/// Without the numbers of runs, several values of the type fit: those of the loop, and those around it.
#[test]
fn a_copy_of_one_of_several_values_has_no_line() {
    let model = model("devices.onnx");
    let document = model.read(None).unwrap();
    let mut profile = profile(&events());
    for kernel in &mut profile.kernels {
        kernel.calls = vec![1];
    }
    let placement = of_profile(&document, &profile);
    let unknown = placement.lines.iter().find(|line| line.frame.is_none()).unwrap();
    assert_eq!(unknown.copies.len(), 3);
    for copy in &unknown.copies {
        assert_eq!((copy.value.as_deref(), copy.ty.as_deref()), (None, Some("f32[8,8]")));
    }
    assert_eq!(placement.copies().count(), 8);
}

#[test]
fn an_assignment_of_all_nodes_needs_no_run() {
    let (model, profile) = (model("devices.optimized.onnx"), profile(&events()));
    let document = model.read(Some(&path("devices.onnx"))).unwrap();
    let assigned = assignment(&profile, &[CPU, GPU]);
    let placement = Placement::new(
        &document,
        Evidence { assigned: Some(&assigned), profile: None, is_optimized: true },
    );
    assert_eq!(placement.source, Source::Assignment);
    assert_eq!(
        sentence(&placement),
        "16 of 29 nodes run on WebGpuExecutionProvider; 4 lines run on the CPU and cost 8 copies"
    );
    assert!(placement.copies().all(|copy| copy.calls.is_none() && copy.value.is_some()));
}

#[test]
fn an_assignment_that_lacks_nodes_says_so_or_yields_to_a_profile() {
    let (model, profile) = (model("devices.optimized.onnx"), profile(&events()));
    let document = model.read(Some(&path("devices.onnx"))).unwrap();
    let assigned = assignment(&profile, &[CPU]);
    let evidence = Evidence { assigned: Some(&assigned), profile: None, is_optimized: true };
    let placement = Placement::new(&document, evidence);
    assert_eq!(
        sentence(&placement),
        "13 of 29 nodes run on CPUExecutionProvider, with 8 copies; for 16 nodes, ONNX Runtime does not say \
         where: profile the model"
    );
    let placement = Placement::new(&document, Evidence { profile: Some(&profile), ..evidence });
    assert_eq!(placement.source, Source::Profile);
    assert_eq!(sentence(&placement), FOUND.lines().next().unwrap());
}

#[test]
fn one_provider_has_no_table() {
    let model = model("loop.onnx");
    let document = model.read(None).unwrap();
    let file = fs::File::open(path("loop.json")).unwrap();
    let placement = of_profile(&document, &Profile::read(file).unwrap());
    assert!(placement.is_whole());
    assert_eq!(sentence(&placement), "8 of 8 nodes run on CPUExecutionProvider");
    let sources = Sources::new(Vec::new(), &document);
    assert_eq!(text(&placement, 20, &sources, Style::plain()), "");
}

/// OpenVINO compiles a loop as a whole, and ONNX Runtime assigns only the node around it.
#[test]
fn the_body_of_a_compiled_loop_runs_where_the_loop_runs() {
    let model = model("loop.onnx");
    let document = model.read(None).unwrap();
    let names = [
        ("scan", "Scan"),
        ("dot_general_2", "MatMul"),
        ("reduce_sum_1", "ReduceSum"),
        ("add_1", "Add"),
    ];
    let placed = |provider: &str| {
        let nodes = names.map(|(name, op)| [provider, name, op].map(str::to_owned));
        let assigned = Profile::of_assignment(nodes);
        let evidence = Evidence { assigned: Some(&assigned), ..Evidence::default() };
        let placement = Placement::new(&document, evidence);
        (placement.nodes(), placement.lines.iter().filter(|line| line.frame.is_some()).count())
    };
    assert_eq!(placed("OpenVINOExecutionProvider"), (9, 4));
    assert_eq!(placed(CPU), (4, 2));
}

#[test]
fn a_target_that_lacks_an_operator_is_advice() {
    let model = model("transformer.onnx");
    let document = model.read(None).unwrap();
    let advice = |provider: &str, op: &str| {
        let nodes = document.scan.nodes.iter().map(|node| {
            let provider = if node.op == op { CPU } else { provider };
            [provider, node.name, node.op].map(str::to_owned)
        });
        let assigned = Profile::of_assignment(nodes);
        let evidence = Evidence { assigned: Some(&assigned), ..Evidence::default() };
        let placement = Placement::new(&document, evidence);
        assert!(!placement.knows_copies);
        placement.lines[0].advice.clone()
    };
    let found = advice("CoreMLExecutionProvider", "Attention").unwrap();
    assert!(found.starts_with("export with `target=\"coreml\"`: Core ML "), "{found}");
    assert!(found.ends_with(" has no `Attention` (by its documentation)"), "{found}");
    let found = advice("CUDAExecutionProvider", "Clip").unwrap();
    assert!(
        found.starts_with("export with `target=\"onnxruntime-cuda\"`: `Clip` of i32 "),
        "{found}"
    );
    assert_eq!(advice("UnheardOfExecutionProvider", "Attention"), None);
}

/// The test pretends that the provider runs `Relu` of floats elsewhere in the model.
#[test]
fn integers_that_stay_on_the_cpu_may_be_computed_as_floats() {
    let (model, profile) = (model("devices.onnx"), profile(&events()));
    let document = model.read(None).unwrap();
    let mut assigned = assignment(&profile, &[CPU, GPU]);
    for kernel in &mut assigned.kernels {
        if &*kernel.node == "add" {
            kernel.op = "Relu".into();
        }
    }
    let evidence = Evidence { assigned: Some(&assigned), ..Evidence::default() };
    let placement = Placement::new(&document, evidence);
    let clip = placement.lines.iter().find(|it| it.frame.is_some_and(|it| it.line == 110)).unwrap();
    assert_eq!(
        clip.advice.as_deref(),
        Some(
            "WebGpuExecutionProvider runs `Relu` of f32 in this model, but not of i32: compute it in f32 if the \
             numbers allow that"
        )
    );
}

#[test]
fn profiles_with_missing_and_strange_fields_are_read() {
    let events = events();
    for (from, to) in [
        (GPU, "SomethingNewExecutionProvider"),
        (GPU, "\\u001b[31m\\nred"),
        (GPU, ""),
        (CPU, ""),
        ("output_type_shape", "other"),
        ("\"int64\": [", "\"unheard of\": ["),
        ("\"float\": [8, 8]", "\"float\": \"8\""),
        ("node_index", "index"),
        ("output_size", "size"),
        ("MemcpyToHost", "MemcpyToNowhere"),
        ("Memcpy_token", "sort"),
    ] {
        let profile = profile(&events.replace(from, to));
        for name in ["devices.onnx", "loop.onnx", "devices.optimized.onnx"] {
            let model = model(name);
            let document = model.read(None).unwrap();
            let placement = of_profile(&document, &profile);
            let sources = Sources::new(Vec::new(), &document);
            let shown = text(&placement, 3, &sources, Style { color: false, width: 40 });
            assert!(!shown.contains('\u{1b}'), "{shown}");
            assert_eq!(json(&placement, &sources)["copies"], placement.copies().count());
            let nodes: usize = placement.lines.iter().map(|line| line.nodes.len()).sum();
            assert_eq!(nodes, placement.nodes(), "{from} {name}");
        }
    }
}
