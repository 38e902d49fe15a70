use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use super::hostile::Folder;
use super::{fixtures, run};

#[track_caller]
fn json(line: &str) -> Value {
    let output = run(line, &fixtures());
    let has_answered = matches!(output.status.code(), Some(0 | 1));
    assert!(has_answered, "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the answer is JSON")
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

fn number(value: &Value) -> usize {
    value.as_u64().expect("a number") as usize
}

/// Returns for each line of a page's data the nodes that show it first, and the other nodes that came from it.
fn lines(data: &Value) -> BTreeMap<(String, usize), [BTreeSet<String>; 2]> {
    let mut lines: BTreeMap<_, [BTreeSet<String>; 2]> = BTreeMap::new();
    for node in list(&data["nodes"]) {
        let Some(origin) = node[5].as_u64() else { continue };
        let sites = list(&data["origins"][origin as usize]).iter();
        let callsites = sites.filter_map(|site| data["sites"][number(site)][1].as_u64());
        for (at, location) in callsites.enumerate() {
            let location = &data["locations"][location as usize];
            let file = data["files"][number(&location[0])]["path"].as_str().unwrap_or_default();
            let line = lines.entry((file.to_owned(), number(&location[2]))).or_default();
            let name = node[0].as_str().expect("a name").to_owned();
            line[usize::from(at > 0)].insert(name);
        }
    }
    for [own, fused] in lines.values_mut() {
        fused.retain(|node| !own.contains(node));
    }
    lines
}

#[test]
fn the_lines_of_a_page_are_those_of_blame() {
    for model in [
        "full.onnx",
        "indexed.onnx",
        "mapped.onnx",
        "second.onnx",
        "pool.onnx",
        "foreign/torch.onnx",
    ] {
        let data = json(&format!("view {model} --format json"));
        let found = lines(&data);
        let blame = json(&format!("blame {model} --format json"));
        let mut expected: BTreeMap<_, [BTreeSet<String>; 2]> = BTreeMap::new();
        for file in list(&blame["files"]) {
            let path = file["file"].as_str().unwrap_or_default();
            for line in list(&file["lines"]) {
                let entry = expected.entry((path.to_owned(), number(&line["line"]))).or_default();
                for (at, key) in ["nodes", "fused"].iter().enumerate() {
                    let nodes = list(&line[*key]).iter();
                    entry[at].extend(nodes.filter_map(|it| Some(it["node"].as_str()?.to_owned())));
                }
            }
        }
        assert!(!found.is_empty(), "{model}");
        assert_eq!(found, expected, "{model}");
    }
}

#[test]
fn a_page_is_one_file_that_allows_only_its_own_script() {
    let folder = Folder::new("page");
    let page = folder.0.join("page.html");
    let output = run(&format!("view indexed.onnx -o {}", page.display()), &fixtures());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("page.html: 11 nodes, all linked to source, "), "{said}");
    let page = fs::read_to_string(page).expect("the page");
    assert!(page.contains("default-src 'none'; script-src 'sha256-"), "{}", &page[..600]);
    assert!(!page.contains("unsafe-inline") && !page.contains("unsafe-eval"));
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("<link").count(), 0);
}

#[test]
fn a_page_without_source_contains_no_text_of_a_file() {
    let with = json("view indexed.onnx --format json");
    assert!(with.to_string().contains("jnp.tanh(carry)"));
    let without = json("view indexed.onnx --format json --no-source");
    assert!(!without.to_string().contains("jnp.tanh(carry)"));
    for file in list(&without["files"]) {
        assert_eq!(file["source"], "omitted");
    }
}

#[test]
fn a_source_outside_of_the_folders_is_left_out() {
    let folder = Folder::new("elsewhere");
    let model = fixtures().join("indexed.onnx");
    let output = run(&format!("view {} --format json", model.display()), &folder.0);
    let data: Value = serde_json::from_slice(&output.stdout).expect("the answer is JSON");
    assert_eq!(data["files"][0]["path"], "mlp.py");
    assert_eq!(data["files"][0]["source"], "missing");
    assert!(data["files"][0]["text"].is_null());
    let root = fixtures();
    let line = format!("view {} --format json --source-root {}", model.display(), root.display());
    let output = run(&line, &folder.0);
    let data: Value = serde_json::from_slice(&output.stdout).expect("the answer is JSON");
    assert!(data["files"][0]["text"].is_string());
}

#[test]
fn differences_from_another_model_are_beside_their_lines() {
    let data = json("view second.onnx --against indexed.onnx --format json");
    let diff = json("diff indexed.onnx second.onnx --format json");
    let lines = |value: &Value| -> Vec<Value> {
        let line =
            |line: &Value| serde_json::json!([line["before"], line["after"], line["gained"]]);
        list(&value["lines"]).iter().map(line).collect()
    };
    assert!(!lines(&data["against"]).is_empty());
    assert_eq!(lines(&data["against"]), lines(&diff));
}

#[test]
fn model_explorer_gets_the_line_of_each_node() {
    let data = json("view indexed.onnx --format model-explorer");
    assert_eq!(data["results"]["tanh"]["value"], "mlp.py:17");
    assert_eq!(data["name"], "jax2onnx: line");
    let profiles = "../../../inspect/tests/profiles";
    let line = format!("{profiles}/transformer.onnx --profile {profiles}/transformer.json");
    let data = json(&format!("view {line} --format model-explorer"));
    assert_eq!(data["name"], "jax2onnx: microseconds");
    let results = data["results"].as_object().expect("results");
    assert!(results.values().all(|result| result["value"].is_number()));
    assert!(!results.is_empty());
}

#[test]
fn the_events_of_a_profile_name_their_lines() {
    let profiles = "../../../inspect/tests/profiles";
    let line = format!("{profiles}/transformer.onnx {profiles}/transformer.json");
    let events = json(&format!("profile {line} --format perfetto"));
    let kernels: Vec<&Value> =
        list(&events).iter().filter(|event| event["cat"] == "Node").collect();
    let named = kernels.iter().filter(|event| event["args"]["callsite"].is_string()).count();
    assert!(named * 10 > kernels.len() * 9, "{named} of {}", kernels.len());
    let callsite = kernels.iter().find_map(|event| event["args"]["callsite"].as_str());
    assert!(callsite.is_some_and(|it| it.contains("tools/profiles.py:")), "{callsite:?}");
    // Everything else is unchanged.
    let path = fixtures().join(profiles).join("transformer.json");
    let before: Value =
        serde_json::from_slice(&fs::read(path).expect("the profile")).expect("it is JSON");
    assert_eq!(list(&before).len(), list(&events).len());
    for (before, after) in list(&before).iter().zip(list(&events)) {
        for key in ["name", "ts", "dur", "cat", "ph", "pid", "tid"] {
            assert_eq!(before[key], after[key]);
        }
    }
}

#[test]
fn errors_of_a_report_are_beside_their_lines() {
    let folder = Folder::new("report");
    let report = folder.0.join("report.json");
    let text = r#"{"version": 1, "agrees": false, "reference": "JAX", "later": {},
        "first": {"node": "tanh", "nodes": []},
        "rows": [
            {"line": {"file": "mlp.py", "line": 17}, "nodes": ["tanh", "mul"], "max_absolute_error": 0.25,
             "elements": 8, "elements_wrong": 3},
            {"line": {"file": "mlp.py", "line": 25}, "nodes": ["neg"], "max_absolute_error": "nan"},
            {"line": {"file": "mlp.py", "line": 22}, "nodes": ["sin"], "max_absolute_error": 0.0, "loss": "inf",
             "elements": 8, "elements_wrong": 7, "nans_born": 6, "infinities_born": 1},
            {"line": {"file": "other.py", "line": 1}, "nodes": ["gone"], "max_absolute_error": 1.0},
            {"line": null, "nodes": []}
        ]}"#;
    fs::write(&report, text).expect("the report");
    let data = json(&format!("view indexed.onnx --compare {} --format json", report.display()));
    let lines = list(&data["compare"]["lines"]);
    let shown: Vec<Value> = lines
        .iter()
        .map(|line| {
            serde_json::json!([line["line"], line["error"], line["is_wrong"], line["what"]])
        })
        .collect();
    let expected = serde_json::json!([
        [17, 0.25, true, "3 of 8 elements wrong, max error 0.25"],
        [25, null, false, "max error nan"],
        [22, null, false, "7 of 8 elements wrong, 6 NaN, 1 inf"],
    ]);
    assert_eq!(Value::Array(shown), expected);
    assert_eq!(data["compare"]["verdict"], "`tanh` computes the first wrong number");
    assert_eq!(list(&data["compare"]["nodes"]).len(), 2);
}
