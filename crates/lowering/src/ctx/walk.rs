//! Lowers the equations of a jaxpr, and those of nested jaxprs.

use std::rc::Rc;
use std::sync::Arc;

use jaxpr::{Atom, Aval, Jaxpr, Param};
use onnx::build::SourceContext;
use onnx::pairs::Definition;
use onnx::{Dim, Expr, Problem};
use provenance::ScopeKind;

use super::equation::SHARDINGS;
use super::functions::Equations;
use super::{Body, Ctx, Eqn};
use crate::error::{LoweringError, Refused, Result, Stop};

impl<'g> Ctx<'g> {
    /// Lowers the equations of a body in place and returns its results.
    ///
    /// `label` names the construct in the path of transformations, for example `jit(f)` or `cond`.
    #[track_caller]
    pub fn inline(
        &self,
        label: &str,
        body: Body,
        jaxpr: &Jaxpr,
        arguments: &[Expr<'g>],
    ) -> Result<Vec<Expr<'g>>> {
        let entered = self.builder.enter_call();
        let results = self.in_body(body, || self.jaxpr(jaxpr, arguments, self.enclosing(label)));
        self.builder.leave(entered);
        results
    }

    /// Returns the location of a body of the current equation.
    fn enclosing(&self, label: &str) -> SourceContext {
        let SourceContext { stack, scope } = self.builder.place();
        let scope = self.builder.table(|table| table.scope(scope, ScopeKind::Transform, label));
        SourceContext { stack, scope: Some(scope) }
    }

    /// Lowers a body of scalars, applied to each element of arrays of the same shape. The body must
    /// be [elementwise](Ctx::is_elementwise).
    #[track_caller]
    pub fn inline_on_each(
        &self,
        label: &str,
        jaxpr: &Jaxpr,
        arguments: &[Expr<'g>],
        shape: &Arc<[Dim]>,
    ) -> Result<Vec<Expr<'g>>> {
        let before = self.on_each.replace(Some(shape.clone()));
        let entered = self.builder.enter_call();
        let results = self.jaxpr(jaxpr, arguments, self.enclosing(label));
        self.builder.leave(entered);
        self.on_each.replace(before);
        results
    }

    /// True if all values of a body are scalars, and every equation is an elementwise formula.
    pub fn is_elementwise(&self, jaxpr: &Jaxpr) -> bool {
        let is_scalar =
            |var: &jaxpr::Var| matches!(&var.aval, Aval::Array { shape, .. } if shape.is_empty());
        let is_formula = |eqn: &jaxpr::Eqn| {
            let body = ["jaxpr", "call_jaxpr"].iter().find_map(|name| eqn.params.get(name));
            match (&*eqn.primitive, body) {
                ("jit" | "pjit" | "custom_jvp_call", Some(Param::Jaxpr(body))) => {
                    self.is_elementwise(body)
                }
                (
                    "clamp"
                    | "convert_element_type"
                    | "integer_pow"
                    | "onnx_function"
                    | "round"
                    | "select_n",
                    _,
                ) => true,
                (primitive, _) => {
                    self.primitives.get(primitive).is_some_and(|primitive| primitive.is_formula())
                }
            }
        };
        // An equation without variables would remain a scalar.
        let reads_a_variable =
            |eqn: &jaxpr::Eqn| eqn.inputs.iter().any(|atom| matches!(atom, Atom::Var(_)));
        jaxpr.constants.is_empty()
            && jaxpr.vars.iter().all(is_scalar)
            && jaxpr.eqns.iter().all(|eqn| reads_a_variable(eqn) && is_formula(eqn))
    }

    /// Lowers the equations of a jaxpr. `enclosing` is the location of the equation that contains
    /// the jaxpr.
    pub(crate) fn jaxpr(
        &self,
        jaxpr: &Jaxpr,
        arguments: &[Expr<'g>],
        enclosing: SourceContext,
    ) -> Result<Vec<Expr<'g>>> {
        if arguments.len() != jaxpr.inputs.len() {
            let what = format!("{} arguments for {} inputs", arguments.len(), jaxpr.inputs.len());
            let primitive = jaxpr.name.clone();
            return Err(Refused::Internal { primitive, what }.into());
        }
        let mut values: Vec<Option<Expr<'g>>> = vec![None; jaxpr.vars.len()];
        for (position, (&var, &argument)) in jaxpr.inputs.iter().zip(arguments).enumerate() {
            values[var.index()] = Some(argument);
            self.note_variable(jaxpr, var, (Definition::Input, position), argument, None);
        }
        for (position, (var, constant)) in jaxpr.constants.iter().enumerate() {
            let value = self.constant(constant)?;
            values[var.index()] = Some(value);
            self.note_variable(jaxpr, *var, (Definition::Constant, position), value, None);
        }
        let equations = Equations::new(jaxpr, enclosing);
        self.equations(&equations, 0..jaxpr.eqns.len(), None, &mut values)?;
        self.atoms(jaxpr, &jaxpr.outputs, &values)
    }

    /// Lowers one equation. `place` is its location.
    pub(crate) fn equation(
        &self,
        jaxpr: &Jaxpr,
        index: usize,
        place: SourceContext,
        values: &mut [Option<Expr<'g>>],
    ) -> Result<()> {
        let eqn = &jaxpr.eqns[index];
        self.note_equation(index);
        let entered = self.builder.enter_plugin(place, &eqn.primitive);
        let site = self.builder.site();
        let results = self.eqn(jaxpr, eqn, values);
        self.builder.leave(entered);
        let results = match results {
            Ok(results) => results,
            Err(Stop::Here(why)) => self.placeholders(jaxpr, eqn, LoweringError { why, site })?,
            Err(inside) => return Err(inside),
        };
        for (position, (&var, result)) in eqn.outputs.iter().zip(results).enumerate() {
            let is_operand = eqn.inputs.iter().any(|atom| match atom {
                Atom::Var(var) => values[var.index()].is_some_and(|value| value.id == result.id),
                Atom::Literal(_) => false,
            });
            let value = match is_operand {
                true => result,
                false => self.builder.made_constant(result, site),
            };
            values[var.index()] = Some(value);
            let definition = (Definition::Equation(index), position);
            self.note_variable(jaxpr, var, definition, value, Some(site));
        }
        Ok(())
    }

    /// Stores the refusal of an equation and returns placeholders with the types of its results, so
    /// that one report names all refused equations.
    fn placeholders(
        &self,
        jaxpr: &Jaxpr,
        eqn: &jaxpr::Eqn,
        error: LoweringError,
    ) -> Result<Vec<Expr<'g>>> {
        let types = eqn.outputs.iter().map(|&var| self.ty(jaxpr.aval(var)));
        let types: std::result::Result<Vec<_>, _> = types.collect();
        match types {
            Ok(types) if error.why.is_limit() => {
                self.keep_refusal(error);
                Ok(types.into_iter().map(|ty| self.builder.input("refused", ty)).collect())
            }
            _ => Err(Stop::Inside(error)),
        }
    }

    /// Returns the location of an equation, called from the location of the equation that encloses
    /// it.
    ///
    /// Transformations add equations around the exported function, such as the last transpose of a
    /// `vmap`. Their frames are all from JAX, so they get the location of the definition of the
    /// function.
    pub(crate) fn place(
        &self,
        inner: jaxpr::SourceInfo,
        enclosing: SourceContext,
    ) -> SourceContext {
        self.builder.table(|table| {
            let mut stack = table.stack_called_from(inner.stack, enclosing.stack);
            let is_users = |stack| table.user_frame(stack).is_some();
            if enclosing.stack.is_none() && !stack.is_some_and(is_users) {
                stack = table.stack_called_from(stack, self.definition);
            }
            SourceContext { stack, scope: table.scope_inside(inner.scope, enclosing.scope) }
        })
    }

    /// Returns the values of atoms.
    pub(crate) fn atoms(
        &self,
        jaxpr: &Jaxpr,
        atoms: &[Atom],
        values: &[Option<Expr<'g>>],
    ) -> Result<Vec<Expr<'g>>> {
        atoms.iter().map(|atom| self.atom(jaxpr, atom, values)).collect()
    }

    fn atom(&self, jaxpr: &Jaxpr, atom: &Atom, values: &[Option<Expr<'g>>]) -> Result<Expr<'g>> {
        let value = match atom {
            Atom::Literal(literal) => self.constant(literal)?,
            Atom::Var(var) => values[var.index()].ok_or_else(|| {
                let what = format!("variable {} is used before it is defined", var.0);
                let primitive = "jaxpr".into();
                Refused::Internal { primitive, what }
            })?,
        };
        Ok(self.in_computed_type(jaxpr, atom, value)?)
    }

    /// Lowers one equation with its recipe or its plugin, and checks the results.
    fn eqn(
        &self,
        jaxpr: &Jaxpr,
        data: &jaxpr::Eqn,
        values: &[Option<Expr<'g>>],
    ) -> Result<Vec<Expr<'g>>> {
        if self.keeps_halves(data) {
            let results = self.exactly(|| self.eqn(jaxpr, data, values))?;
            let computed = results
                .into_iter()
                .zip(&data.outputs)
                .map(|(result, &var)| self.in_computed_type(jaxpr, &Atom::Var(var), result));
            return Ok(computed.collect::<std::result::Result<_, _>>()?);
        }
        let primitive = &data.primitive;
        if let Some(recipe) = &data.recipe {
            return self.recipe(jaxpr, data, recipe, values);
        }
        let Some(plugin) = self.primitives.get(&**primitive) else {
            let primitive = primitive.clone();
            return Err(match data.params.get(jaxpr::NO_DEFINITION) {
                Some(Param::Str(why)) => Refused::NoDefinition { primitive, why: why.clone() },
                _ => Refused::NoPlugin { primitive },
            }
            .into());
        };
        let inputs = self.atoms(jaxpr, &data.inputs, values)?;
        let outputs = data.outputs.iter().map(|&var| self.ty(jaxpr.aval(var)));
        let computed = |dtypes: Vec<jaxpr::DType>| -> Vec<jaxpr::DType> {
            dtypes.iter().map(|dtype| self.computed(dtype).clone()).collect()
        };
        let eqn = Eqn {
            primitive,
            inputs,
            outputs: outputs.collect::<std::result::Result<_, _>>()?,
            input_dtypes: computed(
                data.inputs.iter().filter_map(|atom| jaxpr.atom_dtype(atom)).collect(),
            ),
            output_dtypes: computed(
                data.outputs.iter().filter_map(|&var| jaxpr.aval(var).dtype()).collect(),
            ),
            params: Rc::new(data.params.reading()),
        };
        eqn.ignore(SHARDINGS);
        let results = plugin.lower(self, &eqn)?;
        if let Some(problem) = self.builder.take_problem() {
            return Err(refusal(problem, primitive, self.builder).into());
        }
        if let Some(param) = eqn.params.unread() {
            let value = data.params.get(param).map(ToString::to_string);
            return Err(Refused::UnreadParam {
                primitive: primitive.clone(),
                param: param.into(),
                value: value.unwrap_or_default(),
            }
            .into());
        }
        check_results(&eqn, &results)?;
        Ok(results)
    }
}

/// Checks that the results of a plugin have the types that JAX states. A wrong shape is then found
/// here, and not by ONNX Runtime.
fn check_results(eqn: &Eqn<'_, '_>, results: &[Expr<'_>]) -> std::result::Result<(), Refused> {
    let broken = |what: String| {
        let primitive = eqn.primitive.clone();
        Err(Refused::Internal { primitive, what })
    };
    if results.len() != eqn.outputs.len() {
        return broken(format!("{} results instead of {}", results.len(), eqn.outputs.len()));
    }
    for (result, expected) in results.iter().zip(&eqn.outputs) {
        let found = result.ty();
        if found != *expected {
            return broken(format!("a result of type `{found}` instead of `{expected}`"));
        }
    }
    Ok(())
}

/// Converts a problem that the builder noted into a refusal.
fn refusal(problem: Problem, primitive: &Arc<str>, builder: &onnx::Builder) -> Refused {
    let opset = builder.opset();
    match problem {
        Problem::NoKernel { op, dtype } => {
            let (runtime, dtype) = (builder.target().spell(), dtype.to_string());
            Refused::NoKernel { runtime, op, dtype }
        }
        Problem::NeedsOpset { op, needed } => Refused::NeedsOpset { op, needed, opset },
        Problem::Internal(what) => Refused::Internal { primitive: primitive.clone(), what },
        other => Refused::Internal { primitive: primitive.clone(), what: format!("{other:?}") },
    }
}
