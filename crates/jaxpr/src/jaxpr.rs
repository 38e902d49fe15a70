//! Jaxprs, equations, variables.

use std::sync::Arc;

use provenance::{ScopeId, StackId, Table};

use crate::aval::{Aval, DType};
use crate::constant::Constant;
use crate::param::Params;
use crate::recipe::Recipe;
use crate::walk;

/// A jaxpr with the table that its call paths and name scopes refer to.
#[derive(Clone, Debug)]
pub struct Program {
    pub table: Table,
    pub main: Arc<Jaxpr>,
}

/// A function: equations in order, from inputs to outputs.
///
/// It contains its constants, so that it is complete (JAX calls that a closed jaxpr).
#[derive(Clone, Debug, Default)]
pub struct Jaxpr {
    /// The name of the Python function.
    pub name: Arc<str>,
    /// Every variable; a [`VarId`] is an index into this.
    pub vars: Vec<Var>,
    pub constants: Vec<(VarId, Constant)>,
    pub inputs: Vec<VarId>,
    /// The names of the arguments that the inputs belong to, if JAX knows them.
    pub input_names: Vec<Arc<str>>,
    pub eqns: Vec<Eqn>,
    pub outputs: Vec<Atom>,
    /// The source location of the function's definition.
    pub place: SourceInfo,
    /// The depth of other jaxprs in its equations, as the reader counts it.
    pub depth: usize,
    /// The number of equations, including those of nested jaxprs, as the reader counts it. A jaxpr that is called
    /// twice counts twice.
    pub equations: usize,
}

/// A variable of one jaxpr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VarId(pub u32);

impl VarId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Debug)]
pub struct Var {
    pub aval: Aval,
}

/// An operand of an equation.
#[derive(Clone, Debug)]
pub enum Atom {
    Var(VarId),
    Literal(Constant),
}

/// `outputs = primitive[params] inputs`
#[derive(Clone, Debug)]
pub struct Eqn {
    pub primitive: Arc<str>,
    pub inputs: Vec<Atom>,
    pub outputs: Vec<VarId>,
    pub params: Params,
    pub place: SourceInfo,
    /// The nodes that a plugin written in Python recorded. They take precedence over the table.
    pub recipe: Option<Arc<Recipe>>,
}

/// The call path and the name scope of an equation, relative to the jaxpr that contains it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceInfo {
    pub stack: Option<StackId>,
    pub scope: Option<ScopeId>,
}

/// Drops nested jaxprs one after the other, so that deep nesting does not exhaust the stack.
impl Drop for Jaxpr {
    fn drop(&mut self) {
        let mut open = std::mem::take(&mut self.eqns);
        while let Some(mut eqn) = open.pop() {
            eqn.params.take_jaxprs(&mut |inner| {
                if let Some(mut inner) = Arc::into_inner(inner) {
                    open.append(&mut inner.eqns);
                }
            });
        }
    }
}

impl Eqn {
    /// Returns the depth of nested jaxprs in the equation.
    pub fn depth(&self) -> usize {
        let called = walk::called(self).into_iter().map(|inner| inner.depth + 1);
        called.chain(self.recipe.iter().map(|recipe| recipe.depth())).max().unwrap_or(0)
    }

    /// Returns the number of equations, including those of nested jaxprs.
    pub fn equations(&self) -> usize {
        let called = walk::called(self).into_iter().map(|inner| inner.equations);
        called.fold(1, usize::saturating_add)
    }
}

impl Jaxpr {
    pub fn aval(&self, var: VarId) -> &Aval {
        &self.vars[var.index()].aval
    }

    /// Returns the element type of an operand, if it is an array.
    pub fn atom_dtype(&self, atom: &Atom) -> Option<DType> {
        match atom {
            Atom::Var(var) => self.aval(*var).dtype(),
            Atom::Literal(literal) => Some(literal.dtype.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::param::Param;

    fn around(inner: Arc<Jaxpr>) -> Jaxpr {
        let param = Param::Seq([Param::Jaxpr(inner)].into());
        let eqn = Eqn {
            primitive: "cond".into(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            params: Params::new([("branches".into(), param)]),
            place: SourceInfo::default(),
            recipe: None,
        };
        let mut outer = Jaxpr::default();
        outer.depth = eqn.depth();
        outer.eqns.push(eqn);
        outer
    }

    #[test]
    fn jaxprs_that_are_nested_deeply_are_dropped_on_a_small_stack() {
        let nested = (0..100_000).fold(Jaxpr::default(), |inner, _| around(Arc::new(inner)));
        assert_eq!(nested.depth, 100_000);
        drop(nested);
    }

    #[test]
    fn a_jaxpr_that_is_shared_is_not_taken_apart() {
        let inner = Arc::new(around(Arc::default()));
        drop(around(inner.clone()));
        assert_eq!(inner.eqns.len(), 1);
        assert_eq!(inner.eqns[0].depth(), 1);
    }
}
