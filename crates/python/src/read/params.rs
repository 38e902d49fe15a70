//! Reads parameters. The kind of a value is decided once per type.

use std::cmp::Ordering;
use std::sync::Arc;

use jaxpr::Param;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyComplex, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PyNone, PyRange, PySet,
    PyString, PyTuple, PyType,
};

use super::Reader;
use super::avals::symbolic_size;
use crate::compat::Jax;

/// The kind of parameter for the values of a Python type.
#[derive(Clone)]
pub(super) enum ParamKind<'py> {
    None,
    Bool,
    Int,
    Float,
    Text,
    DType,
    /// A class, which may be a scalar type of NumPy or JAX.
    Class,
    SymbolicSize,
    Sequence,
    Set,
    Mapping,
    /// The name of the type, and the names of its fields.
    NamedTuple(Arc<str>, Arc<[Arc<str>]>),
    Dataclass(Arc<str>, Arc<[Bound<'py, PyString>]>),
    Enum(Arc<str>),
    Jaxpr,
    Aval,
    Array,
    Primitive,
    /// The devices of a program: named axes with sizes.
    Mesh,
    Opaque(Arc<str>),
}

/// The maximum depth of values in a parameter. Deeper values are not read.
const MAX_NESTED: usize = 12;

impl<'py> Reader<'py> {
    pub(super) fn param(&mut self, value: &Bound<'py, PyAny>) -> PyResult<Param> {
        let kind = self.kind_of(value)?;
        if self.nested == MAX_NESTED {
            return Ok(Param::Opaque(value.get_type().name()?.to_str()?.into()));
        }
        self.nested += 1;
        let read = self.param_of(kind, value);
        self.nested -= 1;
        read
    }

    fn param_of(&mut self, kind: ParamKind<'py>, value: &Bound<'py, PyAny>) -> PyResult<Param> {
        Ok(match kind {
            ParamKind::None => Param::None,
            ParamKind::Bool => Param::Bool(value.is_truthy()?),
            ParamKind::Int => match value.extract() {
                Ok(number) => Param::Int(number),
                // Unsigned 64-bit integers above the signed range.
                Err(_) if value.extract::<u64>().is_ok() => Param::Array(self.constant(value)?),
                Err(_) => Param::Opaque("int".into()),
            },
            ParamKind::Float => Param::Float(value.extract()?),
            ParamKind::Text => Param::Str(self.text(value)?),
            ParamKind::DType => Param::DType(self.dtype(value)?),
            ParamKind::Class => self.class(value)?,
            ParamKind::SymbolicSize => Param::Dim(symbolic_size(value)?),
            ParamKind::Sequence => Param::Seq(self.items(value)?.into()),
            ParamKind::Set => {
                let mut items = self.items(value)?;
                items.sort_by(in_order);
                Param::Seq(items.into())
            }
            ParamKind::Mapping => self.mapping(value.cast::<PyDict>()?)?,
            ParamKind::NamedTuple(name, fields) => {
                let values = self.items(value)?;
                Param::Record(name, fields.iter().cloned().zip(values).collect())
            }
            ParamKind::Dataclass(name, _) if value.is_callable() => Self::callable(value, name)?,
            ParamKind::Dataclass(name, fields) => self.dataclass(value, name, &fields)?,
            ParamKind::Enum(name) => {
                Param::Enum(name, self.text(&value.getattr(intern!(value.py(), "name"))?)?)
            }
            ParamKind::Jaxpr => {
                let known = self.known(value)?;
                if known.is_none() {
                    self.unread.push(value.clone());
                }
                known.map_or(Param::None, Param::Jaxpr)
            }
            ParamKind::Aval => Param::Aval(self.aval(value)?),
            ParamKind::Array => Param::Array(self.constant(value)?),
            ParamKind::Primitive => {
                Param::Str(self.text(&value.getattr(intern!(value.py(), "name"))?)?)
            }
            ParamKind::Mesh => Self::mesh(value)?,
            ParamKind::Opaque(name) => Param::Opaque(name),
        })
    }

    /// Returns the kind of a value, by its type.
    fn kind_of(&mut self, value: &Bound<'py, PyAny>) -> PyResult<ParamKind<'py>> {
        let class = value.get_type();
        if let Some(known) = self.kinds.get(&class) {
            return Ok(known);
        }
        let kind = self.kind(&class)?;
        Ok(self.kinds.keep(&class, kind))
    }

    /// Determines the kind of the values of a type. Enumerations and named tuples come first, because they may also
    /// be numbers and tuples.
    fn kind(&self, class: &Bound<'py, PyType>) -> PyResult<ParamKind<'py>> {
        let py = class.py();
        let name: Arc<str> = class.name()?.to_str()?.into();
        let jax = &self.jax;
        let is = |other: &Bound<'py, PyType>| class.is_subclass(other);
        Ok(if class.is_subclass_of::<PyNone>()? {
            ParamKind::None
        } else if is(&jax.enumeration)? {
            ParamKind::Enum(name)
        } else if class.is_subclass_of::<PyBool>()? || is(&jax.numpy_bool)? {
            ParamKind::Bool
        } else if class.is_subclass_of::<PyInt>()? || is(&jax.integer)? {
            ParamKind::Int
        } else if class.is_subclass_of::<PyFloat>()? || is(&jax.floating)? {
            ParamKind::Float
        } else if class.is_subclass_of::<PyComplex>()? {
            ParamKind::Array
        } else if class.is_subclass_of::<PyString>()? {
            ParamKind::Text
        } else if is(&jax.dtype)? || Jax::is_extended_dtype(class)? {
            ParamKind::DType
        } else if class.is_subclass_of::<PyType>()? {
            ParamKind::Class
        } else if Jax::is_symbolic_size(class)? {
            ParamKind::SymbolicSize
        } else if let Some(fields) = named_tuple_fields(class)? {
            ParamKind::NamedTuple(name, fields)
        } else if class.is_subclass_of::<PyTuple>()?
            || class.is_subclass_of::<PyList>()?
            || class.is_subclass_of::<PyRange>()?
        {
            ParamKind::Sequence
        } else if class.is_subclass_of::<PyFrozenSet>()? || class.is_subclass_of::<PySet>()? {
            ParamKind::Set
        } else if class.is_subclass_of::<PyDict>()? {
            ParamKind::Mapping
        } else if is(&jax.jaxpr)? || is(&jax.closed_jaxpr)? {
            ParamKind::Jaxpr
        } else if &*name == "Primitive" {
            ParamKind::Primitive
        } else if is(&jax.shaped_array)? {
            ParamKind::Aval
        } else if jax.is_array_type(class)?
            || is(&jax.generic)?
            || class.is_subclass_of::<PyComplex>()?
        {
            ParamKind::Array
        } else if matches!(&*name, "Mesh" | "AbstractMesh") {
            ParamKind::Mesh
        } else if class.hasattr(intern!(py, "__dataclass_fields__"))? {
            ParamKind::Dataclass(name, dataclass_fields(class)?)
        } else {
            ParamKind::Opaque(name)
        })
    }

    fn items(&mut self, values: &Bound<'py, PyAny>) -> PyResult<Vec<Param>> {
        values.try_iter()?.map(|item| self.param(&item?)).collect()
    }

    /// Reads the axes of a mesh with their sizes.
    fn mesh(mesh: &Bound<'py, PyAny>) -> PyResult<Param> {
        let mut axes = Vec::new();
        for axis in mesh.getattr(intern!(mesh.py(), "shape"))?.call_method0("items")?.try_iter()? {
            let (name, size): (Bound<'py, PyAny>, i64) = axis?.extract()?;
            axes.push((name.str()?.to_str()?.into(), Param::Int(size)));
        }
        Ok(Param::Record("Mesh".into(), axes.into()))
    }

    /// Reads a callable: the module and the qualified name of its function, if it has one.
    fn callable(value: &Bound<'py, PyAny>, name: Arc<str>) -> PyResult<Param> {
        let Some(function) = value.getattr_opt(intern!(value.py(), "callback_func"))? else {
            return Ok(Param::Opaque(name));
        };
        let part = |attribute: &str| -> PyResult<String> {
            Ok(function
                .getattr_opt(attribute)?
                .map(|text| text.extract())
                .transpose()?
                .unwrap_or_default())
        };
        Ok(Param::Opaque(format!("{}.{}", part("__module__")?, part("__qualname__")?).into()))
    }

    fn mapping(&mut self, values: &Bound<'py, PyDict>) -> PyResult<Param> {
        let mut entries = Vec::with_capacity(values.len());
        for (key, value) in values {
            entries.push((key.str()?.to_str()?.into(), self.param(&value)?));
        }
        Ok(Param::Record("dict".into(), entries.into()))
    }

    fn dataclass(
        &mut self,
        value: &Bound<'py, PyAny>,
        name: Arc<str>,
        fields: &[Bound<'py, PyString>],
    ) -> PyResult<Param> {
        let mut entries = Vec::with_capacity(fields.len());
        for field in fields {
            if let Some(member) = value.getattr_opt(field)? {
                entries.push((self.text(field)?, self.param(&member)?));
            }
        }
        Ok(Param::Record(name, entries.into()))
    }

    /// Reads a class: a scalar class becomes its element type, any other class has no contents.
    fn class(&mut self, class: &Bound<'py, PyAny>) -> PyResult<Param> {
        let is_scalar = class.cast::<PyType>()?.is_subclass(&self.jax.generic)?;
        if is_scalar {
            return Ok(Param::DType(self.dtype(&self.jax.dtype.call1((class,))?)?));
        }
        match class.getattr_opt(intern!(class.py(), "dtype"))? {
            Some(dtype) if dtype.is_instance(&self.jax.dtype)? => {
                Ok(Param::DType(self.dtype(&dtype)?))
            }
            _ => Ok(Param::Opaque(class.cast::<PyType>()?.name()?.to_str()?.into())),
        }
    }
}

fn named_tuple_fields(class: &Bound<'_, PyType>) -> PyResult<Option<Arc<[Arc<str>]>>> {
    if !class.is_subclass_of::<PyTuple>()? {
        return Ok(None);
    }
    let Some(fields) = class.getattr_opt(intern!(class.py(), "_fields"))? else {
        return Ok(None);
    };
    let fields: Vec<String> = fields.extract()?;
    Ok(Some(fields.into_iter().map(Into::into).collect()))
}

fn dataclass_fields<'py>(class: &Bound<'py, PyType>) -> PyResult<Arc<[Bound<'py, PyString>]>> {
    let fields = class.getattr(intern!(class.py(), "__dataclass_fields__"))?;
    fields.try_iter()?.map(|field| Ok(field?.cast_into::<PyString>()?)).collect()
}

/// Compares numbers by value and everything else by its text, because sets have no stable order.
fn in_order(a: &Param, b: &Param) -> Ordering {
    match (a, b) {
        (Param::Int(a), Param::Int(b)) => a.cmp(b),
        _ => a.to_string().cmp(&b.to_string()),
    }
}
