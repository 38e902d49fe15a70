//! Source maps, for Python.

use std::path::Path;

use jax2onnx::{skim, source_map};
use provenance::codec::encode;
use provenance::resolve::{Answer, Resolver as Answers};
use provenance::{FileId, PathPolicy, Paths, SourceMap, keys};
use pyo3::prelude::*;

use crate::error;

/// A source map that resolves names.
#[pyclass(frozen, module = "jax2onnx._core")]
pub(crate) struct Resolver(Answers);

/// The certainty of an answer, and the numbers of the origins.
type Resolution = (&'static str, Vec<u32>);

/// A node: its name, its operator, its outputs, and the answer.
type NodeResolution = (String, String, Vec<String>, &'static str, Vec<u32>);

#[pymethods]
impl Resolver {
    #[staticmethod]
    fn of_map(py: Python<'_>, text: &str) -> PyResult<Resolver> {
        let read = || SourceMap::read(text).map_err(|error| error::source_map(&error));
        error::without_panic(|| Ok(Resolver(Answers::new(py.detach(read)?))))
    }

    #[staticmethod]
    fn of_model(model: &[u8]) -> PyResult<Resolver> {
        let map = || source_map::of_model(model);
        error::without_panic(|| {
            let map = map().map_err(|error| error::source_map(&error))?;
            Ok(Resolver(Answers::new(map)))
        })
    }

    #[getter]
    fn debug_id(&self) -> &str {
        &self.0.map().debug_id
    }

    /// Returns the provenance table, as JSON.
    fn table(&self) -> PyResult<String> {
        let provenance = &self.0.map().provenance;
        let nothing_there = |_: &Path| false;
        // The map already contains the final names of files.
        let mut paths = Paths::new(PathPolicy::Absolute, &nothing_there);
        error::without_panic(|| Ok(encode(&provenance.table, &provenance.origins, &mut paths).text))
    }

    #[getter]
    fn sources(&self) -> Vec<(&str, Option<&str>, Option<&str>)> {
        let map = self.0.map();
        let table = &map.provenance.table;
        let files = (0..table.file_count() as u32).map(|id| &*table.get_file(FileId(id)).path);
        let sources = map.sources.iter();
        let texts = sources.map(|source| (source.sha256.as_deref(), source.text.as_deref()));
        files.zip(texts).map(|(path, (sha256, text))| (path, sha256, text)).collect()
    }

    fn nodes(&self) -> Vec<(&str, &str, Option<u32>)> {
        let map = self.0.map();
        let nodes = map.outline.nodes.iter().zip(&map.origins);
        nodes.map(|(node, origin)| (&*node.name, &*node.op, *origin)).collect()
    }

    fn resolve(&self, name: &str) -> PyResult<Resolution> {
        error::without_panic(|| Ok(found(self.0.resolve(name))))
    }

    fn resolve_model(&self, model: &[u8]) -> PyResult<Vec<NodeResolution>> {
        error::without_panic(|| {
            let later = skim(model);
            let later = later.map_err(|error| error::source_map(&error))?;
            if let Some(id) = source_map::model_value(&later, keys::DEBUG_ID) {
                let paired = self.0.map().check(id);
                paired.map_err(|error| error::source_map(&error))?;
            }
            let answers = self.0.resolve_model(&later.outline).into_iter();
            let nodes = later.outline.nodes.iter().zip(answers).map(|(node, answer)| {
                let outputs = node.outputs.iter().map(ToString::to_string).collect();
                let (sure, origins) = found(answer);
                (node.name.to_string(), node.op.to_string(), outputs, sure, origins)
            });
            Ok(nodes.collect())
        })
    }
}

fn found(answer: Answer) -> Resolution {
    (answer.sure.word(), answer.origins)
}
