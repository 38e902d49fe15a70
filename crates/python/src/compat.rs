//! The types and functions of JAX and NumPy that the reader needs. Only this module knows how JAX's versions
//! differ.

use jaxpr::Param;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};

/// The objects of JAX and NumPy that are looked up once per export.
pub(crate) struct Jax<'py> {
    pub(crate) literal: Bound<'py, PyType>,
    pub(crate) jaxpr: Bound<'py, PyType>,
    pub(crate) closed_jaxpr: Bound<'py, PyType>,
    pub(crate) shaped_array: Bound<'py, PyType>,
    pub(crate) array: Bound<'py, PyType>,
    pub(crate) ndarray: Bound<'py, PyType>,
    pub(crate) dtype: Bound<'py, PyType>,
    pub(crate) generic: Bound<'py, PyType>,
    pub(crate) numpy_bool: Bound<'py, PyType>,
    pub(crate) integer: Bound<'py, PyType>,
    pub(crate) floating: Bound<'py, PyType>,
    pub(crate) enumeration: Bound<'py, PyType>,
    pub(crate) float0: Bound<'py, PyAny>,
    /// The element type of one byte.
    pub(crate) byte: Bound<'py, PyAny>,
    pub(crate) asarray: Bound<'py, PyAny>,
    pub(crate) ascontiguousarray: Bound<'py, PyAny>,
    pub(crate) key_data: Bound<'py, PyAny>,
    threefry_partitionable: bool,
    version: Version,
    /// The version of jaxlib, which computes the primitives that are not composed of others.
    jaxlib_version: Version,
}

/// The first three numbers of a version.
type Version = [u32; 3];

/// A jaxpr, in any version of JAX.
pub(crate) struct Body<'py> {
    /// The object with `eqns`, `invars`, `outvars`, `constvars`, `debug_info`.
    pub(crate) jaxpr: Bound<'py, PyAny>,
    /// The values of `constvars`; `None` if the jaxpr is open.
    pub(crate) consts: Option<Bound<'py, PyAny>>,
}

impl<'py> Body<'py> {
    /// Splits a jaxpr into its parts. From JAX 0.11.2 on, a closed jaxpr is a jaxpr with `consts`.
    pub(crate) fn of(jaxpr: &Bound<'py, PyAny>) -> PyResult<Body<'py>> {
        let py = jaxpr.py();
        let consts = jaxpr.getattr_opt(intern!(py, "consts"))?;
        let inner = jaxpr.getattr_opt(intern!(py, "jaxpr"))?;
        Ok(Body { jaxpr: inner.unwrap_or_else(|| jaxpr.clone()), consts })
    }
}

impl<'py> Jax<'py> {
    pub(crate) fn new(py: Python<'py>) -> PyResult<Jax<'py>> {
        // The public module of these classes imports more than is needed. The module that defines them is always
        // loaded.
        let core = |name: &str| -> PyResult<Bound<'py, PyType>> {
            let defined = py.import("jax._src.core").and_then(|module| module.getattr(name));
            let class = defined.or_else(|_| py.import("jax.extend.core")?.getattr(name))?;
            Ok(class.cast_into::<PyType>()?)
        };
        let jax = py.import("jax")?;
        let jaxlib = py.import("jaxlib")?;
        let numpy = py.import("numpy")?;
        let class = |module: &Bound<'py, PyModule>, name| -> PyResult<Bound<'py, PyType>> {
            Ok(module.getattr(name)?.cast_into::<PyType>()?)
        };
        Ok(Jax {
            literal: core("Literal")?,
            jaxpr: core("Jaxpr")?,
            closed_jaxpr: core("ClosedJaxpr")?,
            shaped_array: class(&py.import("jax.core")?, "ShapedArray")?,
            array: class(&jax, "Array")?,
            ndarray: class(&numpy, "ndarray")?,
            dtype: class(&numpy, "dtype")?,
            generic: class(&numpy, "generic")?,
            numpy_bool: class(&numpy, "bool_")?,
            integer: class(&numpy, "integer")?,
            floating: class(&numpy, "floating")?,
            enumeration: class(&py.import("enum")?, "Enum")?,
            float0: py.import("jax.dtypes")?.getattr("float0")?,
            byte: numpy.getattr("dtype")?.call1(("u1",))?,
            asarray: numpy.getattr("asarray")?,
            ascontiguousarray: numpy.getattr("ascontiguousarray")?,
            key_data: py.import("jax.random")?.getattr("key_data")?,
            threefry_partitionable: jax
                .getattr("config")?
                .getattr("jax_threefry_partitionable")?
                .is_truthy()?,
            version: version(&jax)?,
            jaxlib_version: version(&jaxlib)?,
        })
    }

    /// Returns the settings of a primitive besides its parameters: a setting of JAX that is read when the primitive
    /// is compiled, or a change of its values between versions.
    pub(crate) fn settings_of(&self, primitive: &str) -> Option<(&'static str, Param)> {
        match primitive {
            "random_bits" | "random_gamma" | "random_split" => {
                Some(("threefry_partitionable", Param::Bool(self.threefry_partitionable)))
            }
            "digamma" | "polygamma" => {
                Some(("infinite_at_zero", Param::Bool(self.jaxlib_version >= [0, 11, 2])))
            }
            "igamma" | "igammac" => {
                Some(("takes_infinity", Param::Bool(self.version >= [0, 11, 0])))
            }
            _ => None,
        }
    }

    /// Returns the parameters of a primitive under their oldest names.
    ///
    /// From JAX 0.11.2 on, `scan` has the trees of its operands and results instead of numbers.
    pub(crate) fn renamed(
        primitive: &str,
        name: &str,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Vec<(&'static str, Param)>>> {
        match (primitive, name) {
            ("scan", "ft_in") => {
                // The tree of a scan that a transformation created must be flattened.
                let groups = match value.getattr_opt("elts")? {
                    Some(groups) => groups,
                    None => value.call_method0("unpack")?,
                };
                let count = |index: usize| -> PyResult<Param> {
                    Ok(Param::Int(groups.get_item(index)?.len()? as i64))
                };
                Ok(Some(vec![("num_consts", count(0)?), ("num_carry", count(1)?)]))
            }
            ("scan", "ft_out") => Ok(Some(Vec::new())),
            _ => Ok(None),
        }
    }

    /// True if a type is an array of NumPy or JAX. Before 0.10, JAX's arrays on the host are not NumPy's.
    pub(crate) fn is_array_type(&self, class: &Bound<'py, PyType>) -> PyResult<bool> {
        Ok(class.is_subclass(&self.ndarray)?
            || class.is_subclass(&self.array)?
            || is_from_jax(class, &["TypedNdArray", "LiteralArray"])?)
    }

    /// Returns the memory of a NumPy view, as `_tracing/weights.py` identifies it. From JAX 0.7 on, a constant is a
    /// view that JAX created. Before 0.10, it is not an array but contains one.
    pub(crate) fn memory_of(
        &self,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let py = value.py();
        let inner = value.getattr_opt(intern!(py, "val"))?;
        let array = inner.as_ref().unwrap_or(value);
        if !array.is_instance(&self.ndarray)? {
            return Ok(None);
        }
        let interface = array.getattr(intern!(py, "__array_interface__"))?;
        let address = interface.get_item(intern!(py, "data"))?.get_item(0)?;
        let part = |name| array.getattr(name);
        let (dtype, shape) = (part(intern!(py, "dtype"))?, part(intern!(py, "shape"))?);
        let strides = part(intern!(py, "strides"))?;
        PyTuple::new(py, [address, dtype, shape, strides]).map(Some)
    }

    /// True if a type represents sizes that depend on symbols.
    pub(crate) fn is_symbolic_size(class: &Bound<'py, PyType>) -> PyResult<bool> {
        is_from_jax(class, &["_DimExpr"])
    }

    /// True if a type represents element types that NumPy does not have, such as random keys.
    pub(crate) fn is_extended_dtype(class: &Bound<'py, PyType>) -> PyResult<bool> {
        is_from_jax(class, &["KeyTy", "float0"])
    }

    /// True if an entry of a name stack is a transformation.
    pub(crate) fn is_transform(entry: &Bound<'py, PyAny>) -> PyResult<bool> {
        Ok(entry.get_type().name()? == "Transform")
    }

    /// True if JAX starts to trace another function in this function.
    ///
    /// Up to JAX 0.9.0, a traceback continues past this function to the outermost caller. From 0.9.1 on, it ends
    /// before. `trace_to_jaxpr_nounits` is not a boundary: the forward pass of `grad` below it belongs to the outer
    /// jaxpr.
    pub(crate) fn is_trace_boundary(function: &str) -> bool {
        function.starts_with("trace_to_jaxpr_dynamic")
    }
}

/// Returns the version of a package. A number such as `2rc1` counts as `2`.
fn version(package: &Bound<'_, PyModule>) -> PyResult<Version> {
    let text: String = package.getattr("__version__")?.extract()?;
    let mut version = [0; 3];
    for (number, part) in version.iter_mut().zip(text.split('.')) {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        *number = digits.parse().unwrap_or(0);
    }
    Ok(version)
}

fn is_from_jax(class: &Bound<'_, PyType>, names: &[&str]) -> PyResult<bool> {
    let name = class.name()?;
    Ok(names.iter().any(|known| name == *known)
        && class.module()?.to_str()?.split('.').next() == Some("jax"))
}

/// Returns the frames of a traceback, innermost first: code objects, and the instruction in each.
pub(crate) fn raw_frames<'py>(
    traceback: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Vec<i64>)> {
    let frames = traceback.call_method0(intern!(traceback.py(), "raw_frames"))?;
    let frames = frames.cast_into::<PyTuple>()?;
    Ok((frames.get_item(0)?, frames.get_item(1)?.extract()?))
}

/// Returns the name of the function that a jaxpr was traced from, and its file and line if they are known.
///
/// JAX writes `fn at /home/me/net.py:7`, or only `fn`.
pub(crate) fn function_source(
    text: &Bound<'_, PyString>,
) -> PyResult<(String, Option<(String, u32)>)> {
    let text = text.to_str()?;
    let Some((name, place)) = text.split_once(" at ") else {
        return Ok((text.split(' ').next().unwrap_or(text).to_owned(), None));
    };
    let place =
        place.rsplit_once(':').and_then(|(file, line)| Some((file.to_owned(), line.parse().ok()?)));
    Ok((name.to_owned(), place))
}
