//! Everything that the page of `jax2onnx view` shows, as one JSON document. `docs/view-format.md` specifies it.

mod explorer;
mod files;
mod graph;
mod overlay;
mod page;
mod places;

use std::path::Path;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use crate::profile::Profile;
use crate::{Document, Sources};
use graph::{Graph, Node, Weight};
pub use overlay::ReportError;
pub use page::page;
use places::Places;

/// The version of the format.
pub const VERSION: u32 = 1;

/// Further contents of a view.
#[derive(Debug, Default)]
pub struct Options<'o, 'a> {
    /// The source files to include; `None` leaves all source text out.
    pub sources: Option<&'o Sources<'o, 'a>>,
    /// A profile of ONNX Runtime.
    pub profile: Option<&'o Profile>,
    /// The report of `jax2onnx compare`, as JSON.
    pub report: Option<&'o str>,
    /// An earlier form of the model, which the view compares with.
    pub against: Option<&'o Document<'a>>,
}

/// The data of a page. Serializes to the format of `docs/view-format.md`.
#[derive(Debug)]
pub struct View<'d> {
    model: Value,
    graphs: Vec<Graph<'d>>,
    nodes: Vec<Node<'d>>,
    /// The name, the type and the path of each value.
    values: Vec<(&'d str, Option<String>, Option<String>)>,
    weights: Vec<Weight>,
    files: Vec<Value>,
    places: Places<'d>,
    profile: Option<Value>,
    compare: Option<Value>,
    against: Option<Value>,
}

/// Builds the data of a page.
pub fn view<'d>(
    document: &'d Document<'_>,
    options: &Options<'_, '_>,
) -> Result<View<'d>, ReportError> {
    let mut places = Places::new(document);
    let graph::Contents { graphs, nodes, values, weights } = graph::read(document, &mut places);
    let profile = options.profile.map(|profile| overlay::profile(document, profile, &mut places));
    let compare = options.report.map(|report| overlay::compare(document, report, &mut places));
    let against = options.against.map(|other| overlay::against(other, document, &mut places));
    let files = files::describe(document, options.sources, &places);
    let compare = compare.transpose()?;
    Ok(View {
        model: model(document),
        graphs,
        nodes,
        values,
        weights,
        files,
        places,
        profile,
        compare,
        against,
    })
}

fn model(document: &Document<'_>) -> Value {
    let scan = &document.scan;
    let opsets = scan.opsets.iter();
    let opsets = opsets.map(|(domain, version)| json!({ "domain": domain, "version": version }));
    json!({
        "name": name(document),
        "bytes": document.size,
        "producer": scan.producer,
        "producer_version": scan.producer_version,
        "ir_version": scan.ir_version,
        "opsets": opsets.collect::<Vec<_>>(),
        "provenance": document.level.word(),
        "notes": document.notes,
    })
}

/// Returns the name of the file, without the folders around it.
fn name(document: &Document<'_>) -> String {
    let file = document.path.as_deref().and_then(Path::file_name);
    file.map_or_else(|| document.name.clone(), |file| file.to_string_lossy().into_owned())
}

impl View<'_> {
    /// Returns the name of the model.
    pub fn name(&self) -> &str {
        self.model["name"].as_str().unwrap_or_default()
    }

    /// Returns how many nodes there are, and how many of them have a line.
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
        map.serialize_entry("against", &self.against)?;
        map.end()
    }
}
