//! Builds the data of the page of `jax2onnx view`, as one JSON document. `docs/view-format.md` specifies it.

mod cost;
mod explorer;
mod files;
mod graph;
mod limits;
mod overlay;
mod page;
mod places;
mod sensitivity;
mod statistics;

use std::path::Path;

use onnx::sized::Sizes;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use crate::profile::Profile;
use crate::{Document, Sources};
use graph::{Graph, Node, Value as GraphValue, Weight};
pub use limits::Extent;
use limits::{Limits, MAX_JSON};
pub use overlay::ReportError;
pub use page::page;
use places::Places;

/// The version of the format.
pub const VERSION: u32 = 1;

/// Further contents of a view.
#[derive(Debug, Default)]
pub struct Options<'o, 'a> {
    /// The source files to include; `None` omits all source text.
    pub sources: Option<&'o Sources<'o, 'a>>,
    /// A profile of ONNX Runtime.
    pub profile: Option<&'o Profile>,
    /// The report of `jax2onnx compare`, as JSON.
    pub report: Option<&'o str>,
    /// The report of `jax2onnx sensitivity`, as JSON.
    pub sensitivity: Option<&'o str>,
    /// The sizes with which the page first shows costs; `None` omits all costs.
    pub cost: Option<&'o Sizes>,
    /// An earlier version of the model to compare with.
    pub against: Option<&'o Document<'a>>,
    /// The extent of the model in the view.
    pub extent: Extent,
}

/// The data of a page. Serializes to the format of `docs/view-format.md`.
#[derive(Debug)]
pub struct View<'d> {
    model: Value,
    graphs: Vec<Graph<'d>>,
    nodes: Vec<Node<'d>>,
    /// The name, the type and the path of each value.
    values: Vec<GraphValue<'d>>,
    weights: Vec<Weight>,
    files: Vec<Value>,
    places: Places<'d>,
    profile: Option<Value>,
    compare: Option<Value>,
    sensitivity: Option<Value>,
    cost: Option<Value>,
    against: Option<Value>,
    /// The view of the earlier model, without source.
    earlier: Option<Value>,
    left_out: Vec<String>,
}

/// Builds the data of a page. If the page would be too large, it contains less and says so.
pub fn view<'d>(
    document: &'d Document<'_>,
    options: &Options<'_, '_>,
) -> Result<View<'d>, ReportError> {
    let mut attempt = 0;
    loop {
        let view = within(document, options, Limits::new(options.extent, attempt))?;
        if options.extent == Extent::Whole || attempt == MAX_ATTEMPTS || size(&view) <= MAX_JSON {
            return Ok(view);
        }
        attempt += 1;
    }
}

/// The last attempt has room for a few dozen entries in each list.
const MAX_ATTEMPTS: u32 = 6;

/// Returns the size of a view as JSON, in bytes.
fn size(view: &View<'_>) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, view) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

fn within<'d>(
    document: &'d Document<'_>,
    options: &Options<'_, '_>,
    mut limits: Limits,
) -> Result<View<'d>, ReportError> {
    let earlier = options.against.map(|it| earlier(it, options.extent, limits.clone()));
    let limits = &mut limits;
    let mut places = Places::new(document);
    let contents = graph::read(document, &mut places, limits);
    let graph::Contents { graphs, nodes, values, weights } = contents;
    let profile = options.profile.map(|it| overlay::profile(document, it, &mut places, limits));
    let compare = options.report.map(|it| overlay::compare(document, it, &mut places, limits));
    let sensitivity =
        options.sensitivity.map(|it| sensitivity::sensitivity(document, it, &mut places, limits));
    let cost = options.cost.map(|it| cost::cost(document, it, &mut places, limits));
    let against = options.against.map(|it| overlay::against(it, document, &mut places, limits));
    let files = files::describe(document, options.sources, &places, limits);
    let (compare, sensitivity) = (compare.transpose()?, sensitivity.transpose()?);
    Ok(View {
        model: model(document, limits),
        left_out: left_out(document, options, limits),
        graphs,
        nodes,
        values,
        weights,
        files,
        places,
        profile,
        compare,
        sensitivity,
        cost,
        against,
        earlier: earlier.transpose()?,
    })
}

/// Returns sentences that say what the page does not show, and why.
fn left_out(document: &Document<'_>, options: &Options<'_, '_>, limits: &Limits) -> Vec<String> {
    let missing = document.missing().filter(|_| options.extent == Extent::Page);
    let sentence = |missing: &str| format!("{}.", missing.replacen("the ", "The ", 1));
    missing.map(sentence).into_iter().chain(limits.left_out()).collect()
}

/// Returns the view of an earlier model: its graph and its weights.
fn earlier(document: &Document<'_>, extent: Extent, limits: Limits) -> Result<Value, ReportError> {
    let view = within(document, &Options { extent, ..Options::default() }, limits)?;
    Ok(serde_json::to_value(&view).unwrap_or_default())
}

fn model(document: &Document<'_>, limits: &mut Limits) -> Value {
    let scan = &document.scan;
    let kept = limits.rows.take(scan.opsets.len());
    let opsets =
        scan.opsets.iter().take(kept).map(
            |(domain, version)| json!({ "domain": limits.cut(&**domain), "version": version }),
        );
    let opsets: Vec<Value> = opsets.collect();
    let notes: Vec<_> = document.notes.iter().take(1000).map(|note| limits.cut(&**note)).collect();
    json!({
        "name": name(document),
        "bytes": document.size,
        "nodes": scan.nodes.len(),
        "producer": limits.cut(scan.producer),
        "producer_version": limits.cut(scan.producer_version),
        "ir_version": scan.ir_version,
        "opsets": opsets,
        "provenance": document.level.word(),
        "notes": notes,
    })
}

/// Returns the name of the file, without its folders.
fn name(document: &Document<'_>) -> String {
    let file = document.path.as_deref().and_then(Path::file_name);
    file.map_or_else(|| document.name.clone(), |file| file.to_string_lossy().into_owned())
}

impl View<'_> {
    /// Returns the name of the model.
    pub fn name(&self) -> &str {
        self.model["name"].as_str().unwrap_or_default()
    }

    /// Returns sentences that say what the page omits.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Returns the number of nodes, and how many of them have a line.
    pub fn nodes(&self) -> (usize, usize) {
        let with_line = self.nodes.iter().filter(|node| node.has_line).count();
        (self.nodes.len(), with_line)
    }
}

impl Serialize for View<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", &VERSION)?;
        map.serialize_entry("model", &self.model)?;
        map.serialize_entry("graphs", &self.graphs)?;
        map.serialize_entry("nodes", &self.nodes)?;
        map.serialize_entry("values", &self.values)?;
        map.serialize_entry("weights", &self.weights)?;
        map.serialize_entry("files", &self.files)?;
        map.serialize_entry("functions", &self.places.functions.list)?;
        map.serialize_entry("locations", &self.places.locations.list)?;
        map.serialize_entry("frames", &self.places.frames.list)?;
        map.serialize_entry("scopes", &self.places.scopes.list)?;
        map.serialize_entry("plugins", &self.places.plugins.list)?;
        map.serialize_entry("sites", &self.places.sites.list)?;
        map.serialize_entry("origins", &self.places.origins.list)?;
        map.serialize_entry("profile", &self.profile)?;
        map.serialize_entry("compare", &self.compare)?;
        map.serialize_entry("sensitivity", &self.sensitivity)?;
        map.serialize_entry("cost", &self.cost)?;
        map.serialize_entry("against", &self.against)?;
        map.serialize_entry("earlier", &self.earlier)?;
        map.serialize_entry("left_out", &self.left_out)?;
        map.end()
    }
}
