//! Reads the types of values.

use std::sync::Arc;

use jaxpr::{Aval, DType, Dim};
use pyo3::intern;
use pyo3::prelude::*;

use super::Reader;

impl<'py> Reader<'py> {
    pub(super) fn aval(&mut self, aval: &Bound<'py, PyAny>) -> PyResult<Aval> {
        if let Some(known) = self.avals.get(aval) {
            return Ok(known);
        }
        let read = if aval.is_instance(&self.jax.shaped_array)? {
            let dtype = self.dtype(&aval.getattr(intern!(aval.py(), "dtype"))?)?;
            Aval::array(dtype, shape(&aval.getattr(intern!(aval.py(), "shape"))?)?)
        } else {
            Aval::Other(aval.str()?.to_str()?.into())
        };
        Ok(self.avals.keep(aval, read))
    }

    pub(super) fn dtype(&mut self, dtype: &Bound<'py, PyAny>) -> PyResult<DType> {
        if let Some(known) = self.dtypes.get(dtype) {
            return Ok(known);
        }
        let read = if dtype.eq(&self.jax.float0)? {
            DType::Other("float0".into())
        } else {
            DType::from_numpy(dtype.getattr(intern!(dtype.py(), "name"))?.str()?.to_str()?)
        };
        Ok(self.dtypes.keep(dtype, read))
    }
}

fn shape(sizes: &Bound<'_, PyAny>) -> PyResult<Arc<[Dim]>> {
    sizes.try_iter()?.map(|entry| size(&entry?)).collect()
}

/// Reads a size: an integer of Python or NumPy, or an expression of symbols.
fn size(size: &Bound<'_, PyAny>) -> PyResult<Dim> {
    match size.extract::<i64>() {
        Ok(known) => Ok(Dim::Known(known)),
        Err(_) => symbolic_size(size),
    }
}

/// Reads a size that depends on symbols, from its text in JAX.
///
/// If the text is too long or nested too deeply, it becomes a symbol. No input has that symbol, so the lowering
/// refuses it.
pub(super) fn symbolic_size(size: &Bound<'_, PyAny>) -> PyResult<Dim> {
    let text = size.str()?;
    let text = text.to_str()?;
    Ok(text.parse().unwrap_or_else(|_| Dim::symbol(text)))
}
