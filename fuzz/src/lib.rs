//! Asks every question of any bytes, with every name that they contain. No question may panic, take long
//! or take much memory. The fuzz targets call these functions, and so does a test of `inspect`.

mod structured;

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::PathBuf;

use inspect::blame::blame;
use inspect::check::check;
use inspect::cost::memory::{Order, Peak};
use inspect::cost::{self, Side, Sizing};
use inspect::diff::diff;
use inspect::find::{Matches, Target, find};
use inspect::placement::{Evidence, Placement};
use inspect::show::{Style, traceback};
use inspect::summary::summary;
use inspect::where_::where_;
use inspect::{Document, ModelFile, Sources, Target as Runtimes, explain, json, profile};
use provenance::clean::json_text;
use provenance::resolve::{Resolver, Sure};
use provenance::{Level, SourceMap, codec};
use structured::Choices;

/// The number of nodes that are asked for one by one.
const MAX_ASKED: usize = 16;

/// Reads bytes as a model.
pub fn model(data: &[u8]) {
    let _ = onnx::proto::locations(Cursor::new(data));
    let _ = onnx::proto::load::without_weights(&mut Cursor::new(data), data.len());
    let _ = onnx::strip::strip(data, Level::Off, false);
    if let Ok(apart) = onnx::strip::take_apart(data) {
        assert!(onnx::strip::attach(&apart.model, &apart.map).is_ok_and(|model| model == data));
    }
    let file = ModelFile::from_bytes(data.to_vec());
    let Ok(document) = file.read(None) else { return };
    let sources = Sources::new(vec![PathBuf::from("/nonexistent")], &document);
    let _ = summary(&document);
    let _ = blame(&document);
    let _ = check(&document, &sources, Some(Runtimes::default()));
    let _ = diff(&document, &document);
    costs(&document, &sources);
    for number in 0..document.scan.nodes.len().min(MAX_ASKED) {
        let answer = where_(&document, &Target::Node(number));
        if let Some(provenance) = &answer.provenance {
            let _ = traceback(provenance, true, &sources, Style { color: true, width: 40 });
            let _ = json::provenance(provenance, &sources);
        }
        let _ = document.resolve_name(&answer.name);
        if let Matches::One(target) = find(&document.scan, &answer.name) {
            let _ = where_(&document, &target);
        }
    }
    let _ = find(&document.scan, "dot_genral");
}

/// Asks what a model costs, for all sizes and for some.
fn costs<'d, 'a>(document: &'d Document<'a>, sources: &Sources<'d, 'a>) {
    let Ok(open) = Sizing::of(document, &BTreeMap::new()) else { return };
    let given = open.open.symbols.iter().take(MAX_ASKED);
    let given = given.map(|symbol| (symbol.name.to_string(), 3)).collect();
    for sizing in [Ok(open), Sizing::of(document, &given)].into_iter().flatten() {
        let lines = cost::Lines::of(document);
        let costs = cost::costs(&sizing, &lines, cost::By::Module);
        let _ = cost::text(&costs, document, 3, sources, Style { color: true, width: 40 });
        let orders = [Order::OnnxRuntime, Order::File, Order::Early];
        let [peak, ..] = orders.map(|order| Peak::of(&sizing, &lines, order));
        let _ = peak.text(document, 3, sources, Style { color: true, width: 40 });
        if let Ok(verdict) = "peak<=1kB".parse().map_err(drop).and_then(|budget| {
            cost::Verdict::of(budget, document, &lines, &costs, &peak).map_err(drop)
        }) {
            let _ = (verdict.text(), verdict.finding(), verdict.json());
        }
        let change = cost::CostChange { before: Side::of(&sizing), after: Side::of(&sizing) };
        assert!(change.totals().is_empty());
        let _ = change.json();
        let json =
            cost::Json { costs: &costs, peak: &peak, roofline: None, document, name: "", sources };
        let _ = json_text(&json);
        let _ = cost::stacks(&sizing);
    }
}

/// Reads bytes as the log of a runtime that ran a model.
pub fn log(model: &[u8], data: &[u8]) {
    let file = ModelFile::from_bytes(model.to_vec());
    let Ok(document) = file.read(None) else { return };
    let sources = Sources::new(vec![PathBuf::from("/nonexistent")], &document);
    let explanation = explain::explain(&document, data);
    let _ = explain::text(&explanation, &document, &sources, Style { color: true, width: 40 });
    let _ = explain::json(&explanation, &document, &sources);
}

/// Reads bytes as a profile of a model.
pub fn profile(model: &[u8], data: &[u8]) {
    let Ok(profile) = profile::Profile::read(data) else { return };
    let file = ModelFile::from_bytes(model.to_vec());
    let Ok(document) = file.read(None) else { return };
    let sources = Sources::new(vec![PathBuf::from("/nonexistent")], &document);
    let summary = profile::summarize(&document, &profile, profile::By::Line, None);
    let evidence = Evidence { profile: Some(&profile), ..Evidence::default() };
    let placement = &Placement::new(&document, evidence);
    let _ = profile::text(&summary, placement, 3, &sources, Style { color: true, width: 40 });
    let json = profile::Json { summary: &summary, placement, name: "", sources: &sources };
    let _ = json_text(&json);
    let stacks = profile::stacks(&document, &profile, summary.warmup.len());
    let _ = profile::flamegraph(&stacks, "", "");
    let _ = profile::speedscope(&stacks, "");
    let Ok(open) = Sizing::of(&document, &BTreeMap::new()) else { return };
    let sizes = cost::sizes_in(&document, &open.open, &profile);
    let Ok(sizing) = Sizing::of(&document, &sizes) else { return };
    let costs = cost::costs(&sizing, &cost::Lines::of(&document), cost::By::Line);
    let machine = "1G,1GB".parse().ok();
    if let Ok(rates) = cost::Roofline::of(&costs, &document, &profile, None, machine) {
        let _ = rates.text(3, &sources, Style { color: true, width: 40 });
        let _ = rates.json(&sources);
    }
}

/// Reads bytes as the table of a model.
pub fn table(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(decoded) = codec::decode(text) else { return };
    let callsites = decoded.table.callsites();
    for &origin in decoded.origins.iter().take(MAX_ASKED) {
        let _ = inspect::Provenance::of(&decoded.table, &callsites, Sure::Exact, &[origin]);
    }
}

/// Reads bytes as a source map.
pub fn map(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(map) = SourceMap::read(text) else { return };
    let outline = map.outline.clone();
    let resolver = Resolver::new(map);
    let _ = resolver.resolve_model(&outline);
    for node in outline.nodes.iter().take(MAX_ASKED) {
        let _ = resolver.resolve(&node.name);
    }
}

/// Reads a model, a table and a map that are made of the bytes.
pub fn structured(data: &[u8]) {
    model(&structured::model(&mut Choices(data)));
    table(structured::table(&mut Choices(data)).as_bytes());
    map(structured::map(&mut Choices(data)).as_bytes());
}
