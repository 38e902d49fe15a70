//! Formats the data of nodes for Model Explorer, <https://github.com/google-ai-edge/model-explorer>.

use serde_json::{Map, Value, json};

use super::View;

/// The colors from the smallest to the largest number.
const COLORS: [&str; 2] = ["#ffffff", "#d73a00"];

impl View<'_> {
    /// Returns the error of each node, or its loss in a shorter type, or its time, or else its line.
    ///
    /// Nodes are identified by the names of their outputs, which every adapter for ONNX keeps.
    pub fn node_data(&self) -> Value {
        let overlay = |overlay: &Option<Value>, key: &str| {
            let nodes = overlay.as_ref()?["nodes"].as_array()?.iter();
            let number = |row: &Value| Some((row["node"].as_u64()? as usize, row[key].clone()));
            Some(nodes.filter_map(number).collect::<Vec<_>>())
        };
        let errors = overlay(&self.compare, "error").map(|rows| ("error", rows));
        let lost = overlay(&self.sensitivity, "error").map(|rows| ("loss", rows));
        let times = overlay(&self.profile, "microseconds").map(|rows| ("microseconds", rows));
        let (name, rows) = errors.or(lost).or(times).unwrap_or_else(|| ("line", self.lines()));
        let mut results = Map::new();
        for (node, value) in rows.into_iter().filter(|(_, value)| !value.is_null()) {
            for output in self.nodes.get(node).map_or(&[][..], |node| &node.outputs) {
                let known = usize::try_from(*output).ok().and_then(|at| self.values.get(at));
                if let Some((output, ..)) = known {
                    results.insert(output.to_string(), json!({ "value": value }));
                }
            }
        }
        let mut data = json!({ "results": results, "name": format!("jax2onnx: {name}") });
        if name != "line" {
            let stop = |(at, color): (usize, &&str)| json!({ "stop": at, "bgColor": color });
            data["gradient"] = COLORS.iter().enumerate().map(stop).collect();
        }
        data
    }

    /// Returns the line of each node: `model.py:12`.
    fn lines(&self) -> Vec<(usize, Value)> {
        let line = |(number, node): (usize, &super::Node<'_>)| {
            let location = self.places.callsite(node.origin)?;
            let (file, _, line, ..) = self.places.locations.list.get(location)?;
            let path = self.files.get(*file as usize)?["path"].as_str();
            let text = path.map_or_else(|| format!("line {line}"), |path| format!("{path}:{line}"));
            Some((number, text.into()))
        };
        self.nodes.iter().enumerate().filter_map(line).collect()
    }
}
