//! Tells Python which value holds each variable of a jaxpr.

use std::sync::Arc;

use jax2onnx::{Definition, Holder, Hop, Pair, Round, ViewStep};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The number of an equation in the record of an input or a constant of a jaxpr.
const INPUT: i64 = -1;
const CONSTANT: i64 = -2;

/// Returns a dictionary for each variable and each value that holds it.
pub(crate) fn records<'py>(
    py: Python<'py>,
    pairs: Vec<Pair<'_>>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    pairs.into_iter().map(|pair| record(py, pair)).collect()
}

fn record<'py>(py: Python<'py>, pair: Pair<'_>) -> PyResult<Bound<'py, PyDict>> {
    let Pair { variable, holder } = pair;
    let path = variable.path.iter().map(|step| (step.eqn, step.param, step.index));
    let eqn = match variable.definition {
        Definition::Constant => CONSTANT,
        Definition::Input => INPUT,
        Definition::Equation(eqn) => eqn as i64,
    };
    let record = PyDict::new(py);
    record.set_item("path", path.collect::<Vec<_>>())?;
    record.set_item("eqn", eqn)?;
    record.set_item("out", variable.position)?;
    record.set_item("parts", variable.has_parts)?;
    match holder {
        Holder::Value { name, graph, rounds, is_ambiguous, view, shape } => {
            record.set_item("how", if view.is_empty() { "same" } else { "view" })?;
            let steps = view.0.into_iter().map(|step| view_step(py, step));
            record.set_item("view", steps.collect::<PyResult<Vec<_>>>()?)?;
            record.set_item("shape", shape)?;
            record.set_item("ambiguous", is_ambiguous)?;
            record.set_item("value", &*name)?;
            let hop =
                |Hop { node, body }: Hop| (node.to_string(), body.map(|body| body.to_string()));
            record.set_item("graph", graph.into_iter().map(hop).collect::<Vec<_>>())?;
            let rounds = rounds.into_iter().map(|round| iteration(py, round));
            record.set_item("iterations", rounds.collect::<PyResult<Vec<_>>>()?)?;
        }
        Holder::Covered { nodes, constants } => {
            let texts =
                |names: Vec<Arc<str>>| names.iter().map(ToString::to_string).collect::<Vec<_>>();
            record.set_item("how", "covered")?;
            record.set_item("nodes", texts(nodes))?;
            record.set_item("constants", texts(constants))?;
        }
        Holder::Unused => record.set_item("how", "unused")?,
    }
    Ok(record)
}

/// Returns the name of a step, and its axes or its shape.
fn view_step(py: Python<'_>, step: ViewStep) -> PyResult<Bound<'_, PyAny>> {
    match step {
        ViewStep::Transpose(axes) => ("transpose", axes).into_bound_py_any(py),
        ViewStep::Reshape(shape) => ("reshape", shape).into_bound_py_any(py),
    }
}

/// Returns the number of an iteration, or a word for several.
fn iteration(py: Python<'_>, round: Round) -> PyResult<Bound<'_, PyAny>> {
    match round {
        Round::Each => "each".into_bound_py_any(py),
        Round::Next => "next".into_bound_py_any(py),
        Round::All => "all".into_bound_py_any(py),
        Round::At(round) => round.into_bound_py_any(py),
    }
}
