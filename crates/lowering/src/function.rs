//! Functions of the user, `@onnx_function`: the equations between two markers become an ONNX function.
//!
//! The package binds a marker on the arguments of a call and another on its results; both are the
//! identity. Equations are in the order of the program, so what stands between them is the body. Any
//! run of equations is a correct function of what it reads, so nothing has to be trusted here: a
//! marker without its partner, which a transformation may have dropped, only copies.

use std::ops::Range;
use std::sync::Arc;

use jaxpr::{Atom, Jaxpr, Param, VarId};
use onnx::Expr;
use onnx::build::{Place, Results};
use provenance::Site;
use rustc_hash::FxHashMap;

use crate::control::own_results;
use crate::ctx::{Ctx, Eqn};
use crate::error::{LoweringError, Result, Stop};

/// The name of the marker.
const MARKER: &str = "onnx_function";

/// A marker without its partner: the operands themselves
#[expect(clippy::unnecessary_wraps, reason = "a plugin of the table may fail")]
pub(crate) fn onnx_function<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    eqn.ignore(&["edge", "id", "domain", "name"]);
    Ok(eqn.inputs.clone())
}

/// The equations of a jaxpr, and which of them are the bodies of functions.
pub(crate) struct Equations<'a> {
    jaxpr: &'a Jaxpr,
    /// What encloses the jaxpr.
    enclosing: Place,
    /// From the marker at the head of a function to that at its end.
    ends: FxHashMap<usize, usize>,
    /// The last equation that reads each variable; none is listed where there are no functions.
    last_use: Vec<usize>,
}

impl<'a> Equations<'a> {
    pub fn new(jaxpr: &'a Jaxpr, enclosing: Place) -> Equations<'a> {
        let ends = ends(jaxpr);
        let last_use = if ends.is_empty() { Vec::new() } else { last_use(jaxpr) };
        Equations { jaxpr, enclosing, ends, last_use }
    }

    /// The variables of these equations that are read after them.
    fn escaping(&self, equations: &Range<usize>) -> Vec<VarId> {
        let defined = self.jaxpr.eqns[equations.clone()].iter().flat_map(|eqn| &eqn.outputs);
        defined.copied().filter(|var| self.last_use[var.index()] > equations.end).collect()
    }
}

impl<'g> Ctx<'g> {
    /// Lowers some equations of a jaxpr, in the function that was called at `call`.
    pub(crate) fn equations(
        &self,
        all: &Equations<'_>,
        some: Range<usize>,
        call: Option<Place>,
        values: &mut [Option<Expr<'g>>],
    ) -> Result<()> {
        let mut next = some.start;
        while next < some.end {
            match all.ends.get(&next) {
                Some(&end) if end < some.end => {
                    self.function(all, next..end, call, values)?;
                    next = end + 1;
                }
                _ => {
                    let eqn = &all.jaxpr.eqns[next];
                    let place = self.place(eqn.place, all.enclosing);
                    self.equation(all.jaxpr, eqn, self.within(place, call), values)?;
                    next += 1;
                }
            }
        }
        Ok(())
    }

    /// Lowers the equations between two markers as a function, and calls it.
    fn function(
        &self,
        all: &Equations<'_>,
        body: Range<usize>,
        outer: Option<Place>,
        values: &mut [Option<Expr<'g>>],
    ) -> Result<()> {
        let (enter, leave) = (&all.jaxpr.eqns[body.start], &all.jaxpr.eqns[body.end]);
        let call = self.call(all, &body);
        let shown = self.within(call, outer);
        let escaping = all.escaping(&body);
        let entered = self.builder.enter_plugin(shown, &enter.primitive);
        let results = (|| {
            let arguments = self.atoms(&enter.inputs, values)?;
            self.builder.function(
                &text(enter, "domain"),
                &text(enter, "name"),
                &arguments,
                |inputs| {
                    for (var, &input) in enter.outputs.iter().zip(inputs) {
                        values[var.index()] = Some(input);
                    }
                    self.equations(all, body.start + 1..body.end, Some(call), values)?;
                    let outputs = self.atoms(&leave.inputs, values)?;
                    let escaped: Vec<Atom> = escaping.iter().copied().map(Atom::Var).collect();
                    let escaped = self.atoms(&escaped, values)?;
                    Ok(Results { outputs: own_results(self.builder, outputs), escaped })
                },
            )
        })();
        self.builder.leave(entered);
        let Results { outputs, escaped } = results.map_err(|stop| self.called_from(stop, shown))?;
        let vars = leave.outputs.iter().chain(&escaping);
        for (var, value) in vars.zip(outputs.into_iter().chain(escaped)) {
            values[var.index()] = Some(value);
        }
        Ok(())
    }

    /// The line that calls a function, and the name scope that all of its body is in.
    fn call(&self, all: &Equations<'_>, body: &Range<usize>) -> Place {
        let enter = &all.jaxpr.eqns[body.start];
        let inside = &all.jaxpr.eqns[body.start + 1..body.end];
        let scope = self.builder.table(|table| {
            let scopes = inside.iter().map(|eqn| eqn.place.scope);
            scopes.reduce(|a, b| table.common_scope(a, b)).unwrap_or(enter.place.scope)
        });
        let Place { stack, scope } =
            self.place(jaxpr::Place { stack: enter.place.stack, scope }, all.enclosing);
        let caller = |stack| self.builder.table(|table| table.without_internal(stack));
        Place { stack: stack.and_then(caller).or(stack), scope }
    }

    /// The part of a place that is inside a call.
    fn within(&self, place: Place, call: Option<Place>) -> Place {
        let Some(call) = call else { return place };
        self.builder.table(|table| Place {
            stack: match (place.stack, call.stack) {
                (Some(stack), Some(call)) => Some(table.stack_within(stack, call)),
                (stack, _) => stack,
            },
            scope: table.scope_within(place.scope, call.scope),
        })
    }

    /// Says of a refusal inside a function from where that was called.
    fn called_from(&self, stop: Stop, call: Place) -> Stop {
        let Stop::Inside(LoweringError { why, site }) = stop else {
            return stop;
        };
        let site = self.builder.table(|table| {
            let inner = table.get_site(site);
            let stack = table.stack_called_from(inner.stack, call.stack);
            let scope = table.scope_inside(inner.scope, call.scope);
            table.site(Site { stack, scope, ..inner })
        });
        Stop::Inside(LoweringError { why, site })
    }
}

/// The markers at the head of functions with those at their ends: each end belongs to the last head
/// before it that has its number.
fn ends(jaxpr: &Jaxpr) -> FxHashMap<usize, usize> {
    let mut open: FxHashMap<i64, Vec<usize>> = FxHashMap::default();
    let mut ends = FxHashMap::default();
    for (index, eqn) in jaxpr.eqns.iter().enumerate() {
        if &*eqn.primitive != MARKER {
            continue;
        }
        let Some(Param::Int(number)) = eqn.params.get("id") else {
            continue;
        };
        if &*text(eqn, "edge") == "enter" {
            open.entry(*number).or_default().push(index);
        } else if let Some(enter) = open.get_mut(number).and_then(Vec::pop) {
            ends.insert(enter, index);
        }
    }
    ends
}

fn last_use(jaxpr: &Jaxpr) -> Vec<usize> {
    let mut last = vec![0; jaxpr.vars.len()];
    let mut read = |atom: &Atom, index: usize| {
        if let Atom::Var(var) = atom {
            last[var.index()] = index;
        }
    };
    for (index, eqn) in jaxpr.eqns.iter().enumerate() {
        eqn.inputs.iter().for_each(|atom| read(atom, index));
    }
    jaxpr.outputs.iter().for_each(|atom| read(atom, usize::MAX));
    last
}

fn text(eqn: &jaxpr::Eqn, name: &str) -> Arc<str> {
    match eqn.params.get(name) {
        Some(Param::Str(text)) => text.clone(),
        _ => "".into(),
    }
}
