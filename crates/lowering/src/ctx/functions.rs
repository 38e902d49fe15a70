//! The user's functions with `@onnx_function`: the equations between two markers become an ONNX
//! function.
//!
//! The Python package binds one marker to the arguments of a call and another to its results. Both
//! are the identity. Equations are in program order, so the equations between the markers are the
//! body. Any sequence of equations is a correct function of the values that it reads, so these
//! markers need no validation: if a transformation dropped the partner of a marker, the remaining
//! marker does nothing.

use std::ops::Range;
use std::sync::Arc;

use jaxpr::{Atom, Jaxpr, Param, VarId};
use onnx::Expr;
use onnx::build::{Results, SourceContext};
use onnx::pairs::Definition;
use provenance::{Site, SiteId};
use rustc_hash::FxHashMap;

use super::Ctx;
use crate::bodies::own_results;
use crate::error::{LoweringError, Result, Stop};

/// The primitive of the marker.
const MARKER: &str = "onnx_function";

/// The equations of a jaxpr, with the bodies of functions among them.
pub(crate) struct Equations<'a> {
    jaxpr: &'a Jaxpr,
    /// The location of the equation that encloses the jaxpr.
    enclosing: SourceContext,
    /// Maps the index of the first marker of a function to that of the last one.
    ends: FxHashMap<usize, usize>,
    /// For each variable, the index of the last equation that reads it. Empty if there are no
    /// functions.
    last_use: Vec<usize>,
}

impl<'a> Equations<'a> {
    pub fn new(jaxpr: &'a Jaxpr, enclosing: SourceContext) -> Equations<'a> {
        let ends = ends(jaxpr);
        let last_use = if ends.is_empty() { Vec::new() } else { last_use(jaxpr) };
        Equations { jaxpr, enclosing, ends, last_use }
    }

    /// Returns the variables that these equations define and later equations read.
    fn escaping(&self, equations: &Range<usize>) -> Vec<VarId> {
        let defined = self.jaxpr.eqns[equations.clone()].iter().flat_map(|eqn| &eqn.outputs);
        defined.copied().filter(|var| self.last_use[var.index()] > equations.end).collect()
    }
}

impl<'g> Ctx<'g> {
    /// Lowers some equations of a jaxpr. If they are in a function, `call` is the location of its
    /// call.
    pub(crate) fn equations(
        &self,
        all: &Equations<'_>,
        some: Range<usize>,
        call: Option<SourceContext>,
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
                    let place = self.place(all.jaxpr.eqns[next].place, all.enclosing);
                    self.equation(all.jaxpr, next, self.within(place, call), values)?;
                    next += 1;
                }
            }
        }
        Ok(())
    }

    /// Lowers the equations between two markers to a function, and calls it.
    fn function(
        &self,
        all: &Equations<'_>,
        body: Range<usize>,
        outer: Option<SourceContext>,
        values: &mut [Option<Expr<'g>>],
    ) -> Result<()> {
        let (enter, leave) = (&all.jaxpr.eqns[body.start], &all.jaxpr.eqns[body.end]);
        let call = self.call(all, &body);
        let shown = self.within(call, outer);
        let escaping = all.escaping(&body);
        let refused = self.refused.borrow().len();
        let noted = self.noted_variables();
        let entered = self.builder.enter_plugin(shown, &enter.primitive);
        let results = (|| {
            let arguments = self.atoms(all.jaxpr, &enter.inputs, values)?;
            self.builder.function(
                &text(enter, "domain"),
                &text(enter, "name"),
                &arguments,
                |inputs| {
                    for (position, (&var, &input)) in enter.outputs.iter().zip(inputs).enumerate() {
                        values[var.index()] = Some(input);
                        let definition = (Definition::Equation(body.start), position);
                        self.note_variable(all.jaxpr, var, definition, input, None);
                    }
                    self.equations(all, body.start + 1..body.end, Some(call), values)?;
                    let outputs = self.atoms(all.jaxpr, &leave.inputs, values)?;
                    let escaped: Vec<Atom> = escaping.iter().copied().map(Atom::Var).collect();
                    let escaped = self.atoms(all.jaxpr, &escaped, values)?;
                    Ok(Results { outputs: own_results(self.builder, outputs), escaped })
                },
            )
        })();
        self.builder.leave(entered);
        for error in &mut self.refused.borrow_mut()[refused..] {
            error.site = self.called_from(error.site, shown);
        }
        let Results { outputs, escaped } = results.map_err(|stop| match stop {
            Stop::Inside(LoweringError { why, site }) => {
                Stop::Inside(LoweringError { why, site: self.called_from(site, shown) })
            }
            here @ Stop::Here(_) => here,
        })?;
        self.note_call(noted, outputs.first().copied());
        for (position, (&var, &value)) in leave.outputs.iter().zip(&outputs).enumerate() {
            let definition = (Definition::Equation(body.end), position);
            self.note_variable(all.jaxpr, var, definition, value, None);
        }
        let vars = leave.outputs.iter().chain(&escaping);
        for (var, value) in vars.zip(outputs.into_iter().chain(escaped)) {
            values[var.index()] = Some(value);
        }
        Ok(())
    }

    /// Returns the line that calls a function, and the innermost name scope that contains its whole
    /// body.
    fn call(&self, all: &Equations<'_>, body: &Range<usize>) -> SourceContext {
        let enter = &all.jaxpr.eqns[body.start];
        let inside = &all.jaxpr.eqns[body.start + 1..body.end];
        let scope = self.builder.table(|table| {
            let scopes = inside.iter().map(|eqn| eqn.place.scope);
            scopes.reduce(|a, b| table.common_scope(a, b)).unwrap_or(enter.place.scope)
        });
        let SourceContext { stack, scope } =
            self.place(jaxpr::SourceInfo { stack: enter.place.stack, scope }, all.enclosing);
        let caller = |stack| self.builder.table(|table| table.without_internal(stack));
        SourceContext { stack: stack.and_then(caller).or(stack), scope }
    }

    /// Returns the part of a location that is inside a call.
    fn within(&self, place: SourceContext, call: Option<SourceContext>) -> SourceContext {
        let Some(call) = call else { return place };
        self.builder.table(|table| SourceContext {
            stack: match (place.stack, call.stack) {
                (Some(stack), Some(call)) => Some(table.stack_within(stack, call)),
                (stack, _) => stack,
            },
            scope: table.scope_within(place.scope, call.scope),
        })
    }

    /// Adds the call of a function to the site of a refusal inside the function.
    fn called_from(&self, site: SiteId, call: SourceContext) -> SiteId {
        self.builder.table(|table| {
            let inner = table.get_site(site);
            let stack = table.stack_called_from(inner.stack, call.stack);
            let scope = table.scope_inside(inner.scope, call.scope);
            table.site(Site { stack, scope, ..inner })
        })
    }
}

/// Maps the first marker of each function to its last one: the last marker belongs to the nearest
/// first marker before it with the same id.
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

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{check, check_places};

    /// Calls `f` on two lines, and reads a value of its body after the call.
    const TWO_CALLS: &str = r#"jaxpr main(a:f32[3], w:f32[3]) {
        b:f32[3] = onnx_function{edge="enter"; id=0; domain="my"; name="f"} a @ internal "mark.py":1 in mark < "model.py":10 in main
        c:f32[3] = sin b @ "model.py":3 in f < internal "mark.py":2 in mark < "model.py":10 in main
        d:f32[3] = mul c w @ "model.py":4 in f < internal "mark.py":2 in mark < "model.py":10 in main
        e:f32[3] = onnx_function{edge="leave"; id=0; domain="my"; name="f"} d @ internal "mark.py":3 in mark < "model.py":10 in main
        g:f32[3] = onnx_function{edge="enter"; id=1; domain="my"; name="f"} e @ internal "mark.py":1 in mark < "model.py":11 in main
        h:f32[3] = sin g @ "model.py":3 in f < internal "mark.py":2 in mark < "model.py":11 in main
        i:f32[3] = onnx_function{edge="leave"; id=1; domain="my"; name="f"} h @ internal "mark.py":3 in mark < "model.py":11 in main
        j:f32[3] = add i c @ "model.py":12 in main
        return j
    }"#;

    #[test]
    fn equations_between_two_markers_become_a_function() {
        check(
            TWO_CALLS,
            expect![[r#"
                graph test(in_0:f32[3], in_1:f32[3]) -> (out_0)
                %0, %1 = my::f(in_0, in_1)
                %2 = my::f_2(%0)
                out_0:f32[3] = Add(%2, %1)
                function my::f(%3:f32[3], %4:f32[3]) -> (%6, %5)
                %5:f32[3] = Sin(%3)
                %6:f32[3] = Mul(%5, %4)
                function my::f_2(%7:f32[3]) -> (%8)
                %8:f32[3] = Sin(%7)
            "#]],
        );
    }

    #[test]
    fn the_outer_part_of_a_call_path_belongs_to_the_call() {
        check_places(
            TWO_CALLS,
            expect![[r#"
                f @ main:10 #
                f_2 @ main:11 #
                Add @ main:12 #
                Sin @ f:3 < mark:2 #
                Mul @ f:4 < mark:2 #
                Sin @ f:3 < mark:2 #
            "#]],
        );
    }

    #[test]
    fn nested_functions_copy_values_that_they_only_pass_on() {
        check(
            r#"jaxpr main(a:f32[3]) {
                b:f32[3] = onnx_function{edge="enter"; id=0; domain="my"; name="f"} a
                c:f32[3] = onnx_function{edge="enter"; id=1; domain="my"; name="g"} b
                d:f32[3] = sin c
                e:f32[3] = mul d a
                g:f32[3] = onnx_function{edge="leave"; id=1; domain="my"; name="g"} e
                h:f32[3] i:f32[3] = onnx_function{edge="leave"; id=0; domain="my"; name="f"} g b
                return h, i
            }"#,
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0, out_1)
                out_0:f32[3], out_1:f32[3] = my::f(in_0)
                function my::g(%0:f32[3], %1:f32[3]) -> (%3)
                %2 = Sin(%0)
                %3:f32[3] = Mul(%2, %1)
                function my::f(%4:f32[3]) -> (%5, %6)
                %5:f32[3] = my::g(%4, %4)
                %6:f32[3] = Identity(%4)
            "#]],
        );
    }

    #[test]
    fn a_marker_without_its_partner_is_ignored() {
        check(
            r#"jaxpr main(a:f32[3]) {
                b:f32[3] = onnx_function{edge="enter"; id=0; domain="my"; name="f"} a
                c:f32[3] = sin b
                d:f32[3] = onnx_function{edge="leave"; id=1; domain="my"; name="f"} c
                return d
            }"#,
            expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                out_0:f32[3] = Sin(in_0)
            "#]],
        );
    }

    #[test]
    fn a_loop_body_passes_an_outer_value_to_a_function() {
        check(
            r#"jaxpr main(a:f32[2,3], w:f32[3]) {
                b:f32[3] = scan{length=2; reverse=False; num_consts=1; num_carry=1; linear=[False, False, False]; unroll=1; _split_transpose=False; jaxpr=jaxpr body(w:f32[3], c:f32[3], x:f32[3]) {
                    b:f32[3] = onnx_function{edge="enter"; id=0; domain="my"; name="f"} c
                    d:f32[3] = mul b w
                    e:f32[3] = onnx_function{edge="leave"; id=0; domain="my"; name="f"} d
                    return e
                }} w w a
                return b
            }"#,
            expect![[r#"
                graph test(in_0:f32[2,3], in_1:f32[3]) -> (out_0)
                out_0:f32[3] = Scan(in_1, in_0) {body={
                  graph scan/body(%0:f32[3], %1:f32[3]) -> (%2)
                  %2:f32[3] = my::f(%0, in_1)
                }, num_scan_inputs=1}
                function my::f(%3:f32[3], %4:f32[3]) -> (%5)
                %5:f32[3] = Mul(%3, %4)
            "#]],
        );
    }

    #[test]
    fn a_size_is_computed_from_an_input_of_the_function() {
        check(
            r#"jaxpr main(a:f32[B,3], s:f32[]) {
                b:f32[B,3] = onnx_function{edge="enter"; id=0; domain="my"; name="f"} a
                c:f32[3*B] = reshape{new_sizes=[3*B]; dimensions=None; sharding=None} b
                d:f32[B] = broadcast_in_dim{shape=[B]; broadcast_dimensions=[]; sharding=None} s
                e:f32[3*B] g:f32[B] = onnx_function{edge="leave"; id=0; domain="my"; name="f"} c d
                h:f32[] = onnx_function{edge="enter"; id=1; domain="my"; name="g"} s
                i:f32[B] = broadcast_in_dim{shape=[B]; broadcast_dimensions=[]; sharding=None} h
                j:f32[B] = onnx_function{edge="leave"; id=1; domain="my"; name="g"} i
                return e, g, j
            }"#,
            expect![[r#"
                graph test(in_0:f32[B,3], in_1:f32[]) -> (out_0, out_1, out_2)
                out_0:f32[3*B], out_1:f32[B] = my::f(in_0, in_1)
                %0 = Shape(in_0) {end=1, start=0}
                %1 = Squeeze(%0, [0]:i64)
                out_2:f32[B] = my::g(in_1, %1)
                function my::f(%2:f32[B,3], %3:f32[]) -> (%4, %8)
                %4:f32[3*B] = Reshape(%2, [-1]:i64)
                %5 = Shape(%2) {end=1, start=0}
                %6 = Squeeze(%5, [0]:i64)
                %7 = Unsqueeze(%6, [0]:i64)
                %8:f32[B] = Expand(%3, %7)
                function my::g(%9:f32[], %10:i64[]) -> (%12)
                %11 = Unsqueeze(%10, [0]:i64)
                %12:f32[B] = Expand(%9, %11)
            "#]],
        );
    }
}
