//! A jaxpr as plain data, with its text form. This crate does not depend on Python.

pub mod aval;
pub mod check;
pub mod constant;
mod element;
pub mod jaxpr;
pub mod param;
pub mod parse;
pub mod recipe;
pub mod text;
pub mod walk;
mod word;

pub use aval::{Aval, DType};
pub use check::{Broken, CheckError, check};
pub use constant::Constant;
pub use jaxpr::{Atom, Eqn, Jaxpr, Program, SourceInfo, Var, VarId};
pub use param::{FromParam, NO_DEFINITION, Param, ParamError, Params, Reading};
pub use parse::{ParseError, parse};
pub use recipe::{Action, Recipe, RecipeAttr, RecipeFrame, Slot, Step};
pub use sizes::Dim;
