//! Reads arrays. Read-only arrays, such as those of JAX, are not copied.

use std::sync::Arc;

use bytes::Bytes;
use jaxpr::{Aval, Constant, DType};
use pyo3::buffer::PyBuffer;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::Reader;
use super::held::address;

/// The maximum size of a writable array that is copied, in bytes.
const MAX_COPIED: usize = 1 << 20;

/// The memory of an array, kept alive as long as Rust refers to it.
struct Memory {
    buffer: PyBuffer<u8>,
    _pins: Pins,
}

/// An array and its bases, which are read-only as long as Rust reads their memory.
#[derive(Default)]
struct Pins(Vec<Py<PyAny>>);

impl Pins {
    /// Makes an array and its bases read-only.
    fn of(array: &Bound<'_, PyAny>) -> PyResult<Pins> {
        let py = array.py();
        let mut pins = Pins::default();
        let mut next = Some(array.clone());
        while let Some(array) = next {
            let Some(flags) = array.getattr_opt(intern!(py, "flags"))? else { break };
            if flags
                .getattr_opt(intern!(py, "writeable"))?
                .is_some_and(|it| it.is_truthy().unwrap_or(false))
            {
                set_writeable(&array, false)?;
                pins.0.push(array.clone().unbind());
            }
            next = array.getattr_opt(intern!(py, "base"))?.filter(|base| !base.is_none());
        }
        Ok(pins)
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        if self.0.is_empty() {
            return;
        }
        Python::attach(|py| {
            // A view can become writable only after its base.
            for array in self.0.drain(..).rev() {
                // If the base is gone, the array stays read-only, which does no harm.
                let _ = set_writeable(array.bind(py), true);
            }
        });
    }
}

fn set_writeable(array: &Bound<'_, PyAny>, is_writeable: bool) -> PyResult<()> {
    array.call_method1(intern!(array.py(), "setflags"), (is_writeable,))?;
    Ok(())
}

impl AsRef<[u8]> for Memory {
    #[expect(unsafe_code, reason = "Python buffers have no safe access")]
    fn as_ref(&self) -> &[u8] {
        match self.buffer.as_slice_ptr() {
            // SAFETY: the buffer keeps the memory in place until it is dropped, and Python code cannot write to it:
            // writable arrays are copied, or read-only meanwhile. As with JAX's own arrays, nobody may write to the
            // memory of a read-only array in another way.
            Some(memory) => unsafe { memory.as_ref() },
            None => &[],
        }
    }
}

impl<'py> Reader<'py> {
    /// Reads an array of NumPy or JAX, or a scalar.
    pub(super) fn constant(&mut self, value: &Bound<'py, PyAny>) -> PyResult<Constant> {
        if let Some(known) = self.arrays.get(value) {
            return Ok(known);
        }
        let array = match value.getattr_opt(intern!(value.py(), "dtype"))? {
            Some(_) => value.clone(),
            None => self.jax.asarray.call1((value,))?,
        };
        let dtype = self.dtype(&array.getattr(intern!(array.py(), "dtype"))?)?;
        let name = self.array_name(value)?;
        let shape = array.getattr(intern!(array.py(), "shape"))?.extract::<Vec<i64>>()?;
        let data = self.bytes(&array, &dtype)?;
        let read = Constant { dtype, shape: shape.into(), data, name };
        Ok(self.arrays.keep(value, read))
    }

    /// Returns the name of an array in the user's model.
    fn array_name(&self, value: &Bound<'py, PyAny>) -> PyResult<Option<Arc<str>>> {
        let Some(names) = &self.names else {
            return Ok(None);
        };
        let name = match names.get_item(address(value))? {
            Some(name) => Some(name),
            None => match self.jax.memory_of(value)? {
                Some(memory) => names.get_item(memory)?,
                None => None,
            },
        };
        name.map(|name| Ok(name.cast::<PyString>()?.to_str()?.into())).transpose()
    }

    /// Reads a literal, whose value may be a plain number. `aval` contains its type.
    pub(super) fn literal(
        &mut self,
        value: &Bound<'py, PyAny>,
        aval: &Bound<'py, PyAny>,
    ) -> PyResult<Constant> {
        let Aval::Array { dtype, shape } = self.aval(aval)? else {
            return self.constant(value);
        };
        if !shape.is_empty() {
            return self.constant(value);
        }
        let data = match scalar_bytes(value, &dtype) {
            Some(data) => data,
            None if matches!(dtype, DType::Key(_)) => return self.constant(value),
            None => {
                let numpy_dtype = aval.getattr(intern!(aval.py(), "dtype"))?;
                let array = self.jax.asarray.call1((value, numpy_dtype))?;
                self.bytes(&array, &dtype)?
            }
        };
        Ok(Constant { dtype, shape: Arc::default(), data, name: None })
    }

    /// Returns the memory of an array in row-major order. A random key is read as its words.
    ///
    /// Viewing the array as bytes also works for types that the buffer protocol does not support.
    fn bytes(&self, array: &Bound<'py, PyAny>, dtype: &DType) -> PyResult<Bytes> {
        let py = array.py();
        let array = match dtype {
            DType::Key(_) => self.jax.key_data.call1((array,))?,
            DType::Other(name) if &**name == "float0" => return Ok(Bytes::new()),
            _ => array.clone(),
        };
        let array = self.jax.ascontiguousarray.call1((array,))?;
        let flat = array.call_method1(intern!(py, "reshape"), (-1,))?;
        let flat = flat.call_method1(intern!(py, "view"), (&self.jax.byte,))?;
        let buffer = PyBuffer::get(&flat)?;
        // The interpreter's lock is released later, and then Python code may write to the array.
        let is_small = buffer.len_bytes() <= MAX_COPIED;
        let is_copied = is_small && !buffer.readonly();
        let pins = if is_small { Pins::default() } else { Pins::of(&array)? };
        let memory = Memory { buffer, _pins: pins };
        Ok(if is_copied {
            Bytes::copy_from_slice(memory.as_ref())
        } else {
            Bytes::from_owner(memory)
        })
    }
}

/// Returns the bytes of a number of a common type; `None` for types that NumPy must convert.
fn scalar_bytes(value: &Bound<'_, PyAny>, dtype: &DType) -> Option<Bytes> {
    let integer = || value.extract::<i64>().ok();
    let float = || value.extract::<f64>().ok();
    Some(match dtype {
        DType::F32 => Bytes::copy_from_slice(&(float()? as f32).to_le_bytes()),
        DType::F64 => Bytes::copy_from_slice(&float()?.to_le_bytes()),
        DType::I32 => Bytes::copy_from_slice(&i32::try_from(integer()?).ok()?.to_le_bytes()),
        DType::I64 => Bytes::copy_from_slice(&integer()?.to_le_bytes()),
        DType::U32 => Bytes::copy_from_slice(&u32::try_from(integer()?).ok()?.to_le_bytes()),
        DType::Bool => Bytes::copy_from_slice(&[u8::from(value.is_truthy().ok()?)]),
        _ => return None,
    })
}
