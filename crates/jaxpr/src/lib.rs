//! A jaxpr as plain data, with its text form. This crate knows no Python.

pub mod aval;
pub mod constant;
pub mod dim;
pub mod jaxpr;
pub mod param;

pub use aval::{Aval, DType};
pub use constant::Constant;
pub use dim::{Dim, DimExpr};
pub use jaxpr::{Atom, Eqn, Jaxpr, Place, Program, Var, VarId};
pub use param::{FromParam, Param, ParamError, Params, Reading};
