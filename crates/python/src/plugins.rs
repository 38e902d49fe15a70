//! Lists the table of plugins for Python.

use jax2onnx::{OpType, properties};
use provenance::render::plugin_name;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A row of the table.
#[pyclass(frozen, get_all, module = "jax2onnx._core")]
pub(crate) struct PluginInfo {
    primitive: &'static str,
    /// The name in `pkg.jax2onnx.plugin`.
    name: String,
    file: &'static str,
    line: u32,
    limits: Vec<&'static str>,
    /// The ONNX operators that it emits.
    ops: Vec<&'static str>,
    /// The operators that it emits only for complex numbers.
    complex_ops: Vec<&'static str>,
}

#[pymethods]
impl PluginInfo {
    /// `sin: SinPlugin at crates/lowering/src/plugins.rs:87`
    fn __str__(&self) -> String {
        let PluginInfo { primitive, name, file, line, limits, .. } = self;
        let place = format!("{primitive}: {name} at {file}:{line}");
        [&[place.as_str()], &limits[..]].concat().join("; ")
    }
}

/// Lists the primitives that jax2onnx converts, with their operators and limits.
#[pyfunction]
pub(crate) fn plugins() -> Vec<PluginInfo> {
    let info = |plugin: &jax2onnx::Plugin| PluginInfo {
        primitive: plugin.primitive,
        name: plugin_name(plugin.primitive),
        file: plugin.line.file(),
        line: plugin.line.line(),
        limits: plugin.limits.to_vec(),
        ops: jax2onnx::emitted_ops(plugin.primitive).real.to_vec(),
        complex_ops: jax2onnx::emitted_ops(plugin.primitive).complex.to_vec(),
    };
    jax2onnx::PLUGINS.iter().map(info).collect()
}

/// Lists the operators of ONNX with a property of the table of operators.
#[pyfunction]
pub(crate) fn operators(property: &str) -> PyResult<Vec<&'static str>> {
    let property = match property {
        "exact" => properties::EXACT,
        "rounds_once" => properties::ROUNDS_ONCE,
        "quantized" => properties::QUANTIZED,
        other => return Err(PyValueError::new_err(format!("no property is called `{other}`"))),
    };
    Ok(OpType::ALL.iter().filter(|op| op.is(property)).map(|op| op.name()).collect())
}
