//! Visits nested jaxprs.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::jaxpr::{Atom, Eqn, Jaxpr};
use crate::param::Param;

/// The primitives that draw random numbers.
const DRAWS: &[&str] = &["random_bits", "rng_bit_generator", "rng_uniform", "threefry2x32"];

/// True if no equation draws random numbers and every result is read, in nested jaxprs too.
///
/// A layer in training mode violates this: it drops random elements, or it computes statistics that nothing reads.
pub fn is_plain(jaxpr: &Jaxpr) -> bool {
    let mut seen = FxHashSet::default();
    let mut open = vec![jaxpr];
    while let Some(jaxpr) = open.pop() {
        if !has_plain_equations(jaxpr) {
            return false;
        }
        let inner = jaxpr.eqns.iter().flat_map(called);
        open.extend(inner.filter(|inner| seen.insert(Arc::as_ptr(inner))).map(|inner| &**inner));
    }
    true
}

fn has_plain_equations(jaxpr: &Jaxpr) -> bool {
    let mut is_read = vec![false; jaxpr.vars.len()];
    let operands = jaxpr.eqns.iter().flat_map(|eqn| &eqn.inputs);
    for atom in operands.chain(&jaxpr.outputs) {
        if let Atom::Var(var) = atom {
            is_read[var.index()] = true;
        }
    }
    jaxpr.eqns.iter().all(|eqn| {
        !DRAWS.contains(&&*eqn.primitive)
            && eqn.outputs.iter().all(|output| is_read[output.index()])
    })
}

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

/// Visits a parameter and everything inside it. Jaxprs are visited but not entered.
pub fn collect<'a>(param: &'a Param, visit: &mut impl FnMut(&'a Param)) {
    visit(param);
    match param {
        Param::Seq(items) => items.iter().for_each(|item| collect(item, visit)),
        Param::Record(_, fields) => fields.iter().for_each(|(_, field)| collect(field, visit)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        assert_eq!(is_plain(&crate::parse(text).unwrap().main), expected, "{text}");
    }

    #[test]
    fn a_jaxpr_whose_results_are_all_read_is_plain() {
        check("x:f32[] -> y:f32[] = add x 1.0:f32[]", true);
        check("x:f32[] -> y:f32[] = pjit{jaxpr=jaxpr f(a:f32[]) { return a }} x", true);
    }

    #[test]
    fn a_result_that_nothing_reads_counts_wherever_it_is() {
        check("jaxpr f(x:f32[]) {\nz:f32[] = sin x\ny:f32[] = cos x\nreturn y\n}", false);
        let inner = "jaxpr f(a:f32[]) {\nb:f32[] = sin a\nreturn a\n}";
        check(&format!("x:f32[] -> y:f32[] = pjit{{jaxpr={inner}}} x"), false);
    }

    #[test]
    fn an_equation_that_draws_random_numbers_counts() {
        check("x:u32[2] -> y:u32[3] = rng_uniform x", false);
        check("x:u32[2] -> y:u32[3] = random_split x", true);
    }
}
