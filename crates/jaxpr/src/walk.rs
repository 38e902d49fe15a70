//! Visiting what is inside.

use std::sync::Arc;

use crate::jaxpr::{Eqn, Jaxpr};
use crate::param::Param;

/// Returns the jaxprs that an equation calls, in the order of its parameters.
pub fn called(eqn: &Eqn) -> Vec<&Arc<Jaxpr>> {
    let mut found = Vec::new();
    for (_, param) in eqn.params.entries() {
        collect(param, &mut |param| {
            if let Param::Jaxpr(jaxpr) = param {
                found.push(jaxpr);
            }
        });
    }
    found
}

/// Visits a parameter and everything inside it, jaxprs excepted: they are visited, not entered.
pub fn collect<'a>(param: &'a Param, visit: &mut impl FnMut(&'a Param)) {
    visit(param);
    match param {
        Param::Seq(items) => items.iter().for_each(|item| collect(item, visit)),
        Param::Record(_, fields) => fields.iter().for_each(|(_, field)| collect(field, visit)),
        _ => {}
    }
}
