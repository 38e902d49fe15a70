//! Connects the core to Python: reads a jaxpr, calls the façade, and raises errors. No other crate depends on Python.

mod after;
mod command;
mod compat;
mod cost;
mod error;
mod export;
mod files;
mod options;
mod pairs;
mod parts;
mod plugins;
mod read;
mod restore;
mod source_map;
mod sources;
mod text;
mod worker;

/// Replaces the system allocator: an export allocates some hundred thousand small objects, which takes a quarter of
/// its time with the system allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The Rust side of `jax2onnx`.
#[pyo3::pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::after::{explain_log, model_lines, placement_summary, profile_summary, view_page};
    #[pymodule_export]
    use crate::command::{main, read_input};
    #[pymodule_export]
    use crate::cost::cost_summary;
    #[pymodule_export]
    use crate::error::{AssumptionError, CoreError};
    #[pymodule_export]
    use crate::export::{export, jaxpr_text, recorded_calls, rewrites, worth};
    #[pymodule_export]
    use crate::files::{check_outputs, locate_weights, model_inputs, write_files};
    #[pymodule_export]
    use crate::options::{options, target_opset};
    #[pymodule_export]
    use crate::parts::Parts;
    #[pymodule_export]
    use crate::plugins::{PluginInfo, operators, plugins};
    #[pymodule_export]
    use crate::restore::{inside, restoring};
    #[pymodule_export]
    use crate::source_map::Resolver;
    #[pymodule_export]
    use crate::text::{clean, clean_lines};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
