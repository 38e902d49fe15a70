//! The only crate that knows Python: reads a jaxpr, calls the façade, raises what went wrong.

mod after;
mod calls;
mod command;
mod compat;
mod error;
mod export;
mod options;
mod pairs;
mod plugins;
mod read;
mod source_map;
mod sources;
mod worker;

/// An export makes and drops some hundred thousand small things, for which the allocator of the system
/// takes a quarter of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The Rust side of `jax2onnx`.
#[pyo3::pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::after::{explain_log, model_lines, profile_summary, view_page};
    #[pymodule_export]
    use crate::calls::Calls;
    #[pymodule_export]
    use crate::command::{main, read_input};
    #[pymodule_export]
    use crate::error::CoreError;
    #[pymodule_export]
    use crate::export::{check_outputs, export, jaxpr_text, recorded_calls};
    #[pymodule_export]
    use crate::plugins::{PluginInfo, plugins};
    #[pymodule_export]
    use crate::source_map::Resolver;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
