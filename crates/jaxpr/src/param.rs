//! Reads the parameters of an equation by name and type, and remembers which ones were not read.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use crate::Dim;
use crate::aval::{Aval, DType};
use crate::constant::Constant;
use crate::jaxpr::Jaxpr;

/// The value of a parameter.
#[derive(Clone, Debug)]
pub enum Param {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Arc<str>),
    DType(DType),
    /// A size that depends on symbols; a plain number is a [`Param::Int`].
    Dim(Dim),
    Aval(Aval),
    /// A tuple, a list, or a set in a fixed order.
    Seq(Arc<[Param]>),
    /// A named tuple, a dataclass or a mapping: the name of its type, and the fields in order.
    Record(Arc<str>, Arc<[(Arc<str>, Param)]>),
    /// A member of an enumeration: the name of the type and the name of the member.
    Enum(Arc<str>, Arc<str>),
    Jaxpr(Arc<Jaxpr>),
    Array(Constant),
    /// Anything else (a callable, a mesh, a sharding), by the name of its type.
    Opaque(Arc<str>),
}

/// The name of a parameter for a primitive whose definition cannot be used. It is the only parameter of the
/// equation, and its value is the reason.
pub const NO_DEFINITION: &str = "no_definition";

impl Param {
    /// True if the value contains a symbolic size.
    pub fn is_symbolic(&self) -> bool {
        match self {
            Param::Dim(_) => true,
            Param::Seq(items) => items.iter().any(Param::is_symbolic),
            Param::Record(_, fields) => fields.iter().any(|(_, field)| field.is_symbolic()),
            _ => false,
        }
    }

    /// Calls `take` with the jaxprs that only this value refers to.
    fn take_jaxprs(&mut self, take: &mut impl FnMut(Arc<Jaxpr>)) {
        match self {
            Param::Jaxpr(_) => {
                if let Param::Jaxpr(jaxpr) = std::mem::replace(self, Param::None) {
                    take(jaxpr);
                }
            }
            Param::Seq(items) => {
                for item in Arc::get_mut(items).into_iter().flatten() {
                    item.take_jaxprs(take);
                }
            }
            Param::Record(_, fields) => {
                for (_, field) in Arc::get_mut(fields).into_iter().flatten() {
                    field.take_jaxprs(take);
                }
            }
            _ => {}
        }
    }
}

/// The parameters of one equation, in the order of JAX.
#[derive(Clone, Debug, Default)]
pub struct Params {
    entries: Arc<[(Arc<str>, Param)]>,
}

/// A reader of [`Params`] that remembers which parameters were read.
#[derive(Debug)]
pub struct Reading<'a> {
    params: &'a Params,
    /// One bit per entry, set if it was read or ignored.
    seen: Cell<u64>,
}

/// The reason why a parameter cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParamError {
    #[error("`{primitive}` has no parameter `{name}`")]
    Missing { primitive: Arc<str>, name: String },
    #[error("`{name}={found}` of `{primitive}` is not {wanted}")]
    Kind { primitive: Arc<str>, name: String, found: String, wanted: &'static str },
    /// The plugin needs a number.
    #[error("`{name}={found}` of `{primitive}` depends on a symbolic size")]
    Symbolic { primitive: Arc<str>, name: String, found: String },
}

impl Params {
    pub fn new(entries: impl Into<Arc<[(Arc<str>, Param)]>>) -> Params {
        Params { entries: entries.into() }
    }

    /// Calls `take` with the jaxprs that only these parameters refer to.
    pub(crate) fn take_jaxprs(&mut self, take: &mut impl FnMut(Arc<Jaxpr>)) {
        for (_, param) in Arc::get_mut(&mut self.entries).into_iter().flatten() {
            param.take_jaxprs(take);
        }
    }

    /// Returns every parameter in order.
    pub fn entries(&self) -> &[(Arc<str>, Param)] {
        &self.entries
    }

    /// Returns the parameter `name`.
    pub fn get(&self, name: &str) -> Option<&Param> {
        self.entries.iter().find(|(key, _)| &**key == name).map(|(_, value)| value)
    }

    /// Starts a reading. No parameter counts as read.
    pub fn reading(&self) -> Reading<'_> {
        Reading { params: self, seen: Cell::new(0) }
    }
}

impl<'a> Reading<'a> {
    /// Returns the parameter `name`, and counts it as read.
    ///
    /// No primitive has more than 64 parameters. Further ones would never count as read.
    pub fn get(&self, name: &str) -> Option<&'a Param> {
        let index = self.params.entries.iter().position(|(key, _)| &**key == name)?;
        self.seen.set(self.seen.get() | bit(index));
        Some(&self.params.entries[index].1)
    }

    /// Counts all parameters as read.
    pub fn ignore_all(&self) {
        self.seen.set(u64::MAX);
    }

    /// Returns the first parameter that was neither read nor ignored.
    pub fn unread(&self) -> Option<&'a str> {
        let entries = self.params.entries.iter().enumerate();
        let mut unread = entries.filter(|(index, _)| self.seen.get() & bit(*index) == 0);
        unread.next().map(|(_, (name, _))| &**name)
    }
}

fn bit(index: usize) -> u64 {
    1u64.checked_shl(index as u32).unwrap_or(0)
}

/// A Rust type that a parameter can be read as.
pub trait FromParam: Sized {
    /// A phrase for the expected value in messages: "a list of integers".
    const WANTED: &'static str;

    fn from_param(param: &Param) -> Option<Self>;
}

/// The types that a parameter is read as directly.
macro_rules! from_param {
    ($($type:ty, $wanted:literal, $pattern:pat => $value:expr;)*) => {$(
        impl FromParam for $type {
            const WANTED: &'static str = $wanted;

            fn from_param(param: &Param) -> Option<Self> {
                match param {
                    $pattern => Some($value),
                    _ => None,
                }
            }
        }
    )*};
}

from_param! {
    bool, "a flag", Param::Bool(flag) => *flag;
    i64, "an integer", Param::Int(value) => *value;
    Arc<str>, "a text", Param::Str(text) => text.clone();
    DType, "an element type", Param::DType(dtype) => dtype.clone();
    Arc<Jaxpr>, "a jaxpr", Param::Jaxpr(jaxpr) => jaxpr.clone();
    Constant, "an array", Param::Array(array) => array.clone();
}

impl FromParam for Param {
    const WANTED: &'static str = "anything";

    fn from_param(param: &Param) -> Option<Self> {
        Some(param.clone())
    }
}

impl FromParam for f64 {
    const WANTED: &'static str = "a number";

    fn from_param(param: &Param) -> Option<Self> {
        match param {
            Param::Float(value) => Some(*value),
            Param::Int(value) => Some(*value as f64),
            _ => None,
        }
    }
}

impl FromParam for usize {
    const WANTED: &'static str = "an index";

    fn from_param(param: &Param) -> Option<Self> {
        i64::from_param(param)?.try_into().ok()
    }
}

impl FromParam for Dim {
    const WANTED: &'static str = "a size";

    fn from_param(param: &Param) -> Option<Self> {
        match param {
            Param::Int(size) => Some(Dim::Known(*size)),
            Param::Dim(dim) => Some(dim.clone()),
            _ => None,
        }
    }
}

impl<T: FromParam> FromParam for Vec<T> {
    const WANTED: &'static str = "a list";

    fn from_param(param: &Param) -> Option<Self> {
        match param {
            Param::Seq(items) => items.iter().map(T::from_param).collect(),
            _ => None,
        }
    }
}

impl<T: FromParam> FromParam for Option<T> {
    const WANTED: &'static str = T::WANTED;

    fn from_param(param: &Param) -> Option<Self> {
        match param {
            Param::None => Some(None),
            other => T::from_param(other).map(Some),
        }
    }
}

impl<A: FromParam, B: FromParam> FromParam for (A, B) {
    const WANTED: &'static str = "a pair";

    fn from_param(param: &Param) -> Option<Self> {
        match param {
            Param::Seq(items) => match &**items {
                [a, b] => Some((A::from_param(a)?, B::from_param(b)?)),
                _ => None,
            },
            _ => None,
        }
    }
}

impl<A: FromParam, B: FromParam, C: FromParam> FromParam for (A, B, C) {
    const WANTED: &'static str = "a triple";

    fn from_param(param: &Param) -> Option<Self> {
        match param {
            Param::Seq(items) => match &**items {
                [a, b, c] => Some((A::from_param(a)?, B::from_param(b)?, C::from_param(c)?)),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Param {
    /// Returns the field `name` of a record.
    pub fn field(&self, name: &str) -> Option<&Param> {
        match self {
            Param::Record(_, fields) => {
                fields.iter().find(|(key, _)| &**key == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }
}

/// Prints a short form for messages. [`crate::text`] prints the complete form.
impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Param::None => f.write_str("None"),
            Param::Bool(true) => f.write_str("True"),
            Param::Bool(false) => f.write_str("False"),
            Param::Int(value) => value.fmt(f),
            Param::Float(value) => write!(f, "{value:?}"),
            Param::Str(text) => write!(f, "{text:?}"),
            Param::DType(dtype) => dtype.fmt(f),
            Param::Dim(dim) => dim.fmt(f),
            Param::Aval(aval) => aval.fmt(f),
            Param::Seq(items) => {
                f.write_str("(")?;
                for (i, item) in items.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{item}")?;
                }
                f.write_str(")")
            }
            Param::Record(name, _) | Param::Opaque(name) => write!(f, "{name}(…)"),
            Param::Enum(_, member) => f.write_str(member),
            Param::Jaxpr(jaxpr) => write!(f, "jaxpr {}", jaxpr.name),
            Param::Array(array) => write!(f, "{}{:?}", array.dtype, array.shape),
        }
    }
}
