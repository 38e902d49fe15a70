//! Checks the invariants of a jaxpr.

use std::sync::Arc;

use crate::aval::DType;
use crate::constant::Constant;
use crate::element;
use crate::jaxpr::{Atom, Jaxpr, VarId};
use crate::param::Param;
use crate::walk;

/// A violated invariant, and the jaxpr that violates it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("jaxpr `{jaxpr}`: {why}")]
pub struct CheckError {
    pub jaxpr: Arc<str>,
    pub why: Broken,
}

/// A violated invariant of a jaxpr.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    #[error("variable {} does not exist", .0.0)]
    NoSuchVariable(VarId),
    #[error("variable {} is defined twice", .0.0)]
    DefinedTwice(VarId),
    #[error("variable {} is read before it is defined", .0.0)]
    Undefined(VarId),
    #[error("an array `{dtype}{shape:?}` has {found} bytes")]
    DataSize { dtype: DType, shape: Arc<[i64]>, found: usize },
}

/// Checks that every variable exists and is defined once, before it is read, and that every array has the bytes
/// that its type needs. Checks nested jaxprs too.
pub fn check(jaxpr: &Jaxpr) -> Result<(), CheckError> {
    let at = |why| CheckError { jaxpr: jaxpr.name.clone(), why };
    let mut scope = Scope { defined: vec![false; jaxpr.vars.len()] };
    for &input in &jaxpr.inputs {
        scope.define(input).map_err(at)?;
    }
    for (var, constant) in &jaxpr.constants {
        scope.define(*var).map_err(at)?;
        data_size(constant).map_err(at)?;
    }
    for eqn in &jaxpr.eqns {
        for atom in &eqn.inputs {
            scope.read(atom).map_err(at)?;
        }
        for (_, param) in eqn.params.entries() {
            arrays(param).map_err(at)?;
        }
        for inner in walk::called(eqn) {
            check(inner)?;
        }
        for &output in &eqn.outputs {
            scope.define(output).map_err(at)?;
        }
    }
    jaxpr.outputs.iter().try_for_each(|atom| scope.read(atom)).map_err(at)
}

/// The variables that are defined so far.
struct Scope {
    defined: Vec<bool>,
}

impl Scope {
    fn define(&mut self, var: VarId) -> Result<(), Broken> {
        let defined = self.defined.get_mut(var.index()).ok_or(Broken::NoSuchVariable(var))?;
        if *defined {
            return Err(Broken::DefinedTwice(var));
        }
        *defined = true;
        Ok(())
    }

    fn read(&self, atom: &Atom) -> Result<(), Broken> {
        match atom {
            Atom::Literal(literal) => data_size(literal),
            Atom::Var(var) => match self.defined.get(var.index()) {
                Some(true) => Ok(()),
                Some(false) => Err(Broken::Undefined(*var)),
                None => Err(Broken::NoSuchVariable(*var)),
            },
        }
    }
}

fn arrays(param: &Param) -> Result<(), Broken> {
    let mut result = Ok(());
    walk::collect(param, &mut |param| {
        if let (Param::Array(array), Ok(())) = (param, &result) {
            result = data_size(array);
        }
    });
    result
}

/// Checks the number of bytes of an array, unless its type has no fixed size.
fn data_size(constant: &Constant) -> Result<(), Broken> {
    let Some(size) = element::size(&constant.dtype) else {
        return Ok(());
    };
    let found = constant.data.len();
    if constant.elements().and_then(|count| count.checked_mul(size)) == Some(found) {
        return Ok(());
    }
    Err(Broken::DataSize { dtype: constant.dtype.clone(), shape: constant.shape.clone(), found })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a valid jaxpr after `breaking` it. Returns the error.
    fn broken(text: &str, breaking: impl FnOnce(&mut Jaxpr)) -> String {
        let mut jaxpr = Jaxpr::clone(&crate::parse(text).unwrap().main);
        assert_eq!(check(&jaxpr), Ok(()));
        breaking(&mut jaxpr);
        check(&jaxpr).unwrap_err().to_string()
    }

    const ADD: &str = "x:f32[] -> y:f32[] = add x 1.0:f32[]";

    #[test]
    fn a_variable_is_defined_before_it_is_read() {
        let error = broken(ADD, |jaxpr| jaxpr.eqns[0].inputs[0] = Atom::Var(VarId(1)));
        assert_eq!(error, "jaxpr `main`: variable 1 is read before it is defined");
        let error = broken(ADD, |jaxpr| jaxpr.eqns.clear());
        assert_eq!(error, "jaxpr `main`: variable 1 is read before it is defined");
    }

    #[test]
    fn a_variable_exists() {
        let error = broken(ADD, |jaxpr| jaxpr.outputs[0] = Atom::Var(VarId(7)));
        assert_eq!(error, "jaxpr `main`: variable 7 does not exist");
    }

    #[test]
    fn a_variable_is_defined_once() {
        let error = broken(ADD, |jaxpr| jaxpr.eqns[0].outputs[0] = VarId(0));
        assert_eq!(error, "jaxpr `main`: variable 0 is defined twice");
    }

    #[test]
    fn an_array_has_the_bytes_of_its_type() {
        let short = |jaxpr: &mut Jaxpr| {
            let Atom::Literal(literal) = &mut jaxpr.eqns[0].inputs[1] else { unreachable!() };
            literal.data.truncate(3);
        };
        assert_eq!(broken(ADD, short), "jaxpr `main`: an array `f32[]` has 3 bytes");
    }

    #[test]
    fn a_jaxpr_inside_is_checked_too() {
        let text = "x:f32[] -> y:f32[] = pjit{jaxpr=jaxpr inner(a:f32[]) { return a }} x";
        let error = broken(text, |jaxpr| {
            let mut inner = crate::parse("jaxpr inner(a:f32[]) { return a }").unwrap().main;
            Arc::make_mut(&mut inner).vars.clear();
            Arc::make_mut(&mut inner).inputs.clear();
            let param = Param::Seq([Param::Jaxpr(inner)].into());
            jaxpr.eqns[0].params = crate::Params::new([("jaxpr".into(), param)]);
        });
        assert_eq!(error, "jaxpr `inner`: variable 0 does not exist");
    }
}
