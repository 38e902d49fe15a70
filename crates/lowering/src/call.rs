//! Calls, whose bodies are lowered in place, and primitives that only concern transformations.

use std::sync::Arc;

use jaxpr::{Jaxpr, Param};
use onnx::{DType, Expr, OpType, Type};

use crate::ctx::{Body, Ctx, Eqn};
use crate::error::Result;

/// `jit(f)`: the equations of `f`
pub(crate) fn jit<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("jaxpr")?;
    let name: Arc<str> = eqn.param("name")?;
    // Where arrays live and how the call is compiled does not change the numbers.
    eqn.ignore(&[
        "in_layouts",
        "out_layouts",
        "donated_invars",
        "resource_env",
        "keep_unused",
        "inline",
        "compiler_options_kvs",
    ]);
    ctx.inline(&format!("jit({name})"), Body::of("jaxpr"), &body, &eqn.inputs)
}

/// Returns the operands of a marker without its partner
#[expect(clippy::unnecessary_wraps, reason = "a plugin of the table may fail")]
pub(crate) fn onnx_function<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    eqn.ignore(&["edge", "id", "domain", "name"]);
    Ok(eqn.inputs.clone())
}

/// Lowers a call of a body without a transformation of its own
pub(crate) fn call<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("call_jaxpr")?;
    let name: Option<Arc<str>> = eqn.optional("name")?;
    let label = name.as_ref().unwrap_or(eqn.primitive);
    ctx.inline(label, Body::of("call_jaxpr"), &body, &eqn.inputs)
}

/// Lowers a call whose other parameters say how it is compiled, and on which devices
pub(crate) fn any_call<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    eqn.ignore_all();
    for param in ["jaxpr", "call"] {
        if let Some(Param::Jaxpr(body)) = eqn.optional(param)? {
            return ctx.inline(eqn.primitive, Body::of(param), &body, &eqn.inputs);
        }
    }
    Err(eqn.broken("it has no body").into())
}

/// Returns the function itself; its derivative is not part of what is exported
pub(crate) fn custom_jvp_call<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("call_jaxpr")?;
    eqn.ignore(&["jvp_jaxpr_fun", "jvp_jaxpr_thunk", "num_consts", "symbolic_zeros"]);
    ctx.inline("custom_jvp", Body::of("call_jaxpr"), &body, &eqn.inputs)
}

/// Returns the function itself; its derivative is not part of what is exported
pub(crate) fn custom_vjp_call<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    // `custom_vjp_call_jaxpr` of older versions has another name for the body.
    let (param, body): (_, Arc<Jaxpr>) = match eqn.optional("call_jaxpr")? {
        Some(body) => ("call_jaxpr", body),
        None => ("fun_jaxpr", eqn.param("fun_jaxpr")?),
    };
    eqn.ignore(&["fwd_jaxpr_thunk", "bwd", "num_consts", "out_trees", "symbolic_zeros"]);
    ctx.inline("custom_vjp", Body::of(param), &body, &eqn.inputs)
}

/// `jax.checkpoint`: what is kept for a backward pass does not concern the forward one
pub(crate) fn remat<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("jaxpr")?;
    eqn.ignore(&["prevent_cse", "differentiated", "policy"]);
    ctx.inline("checkpoint", Body::of("jaxpr"), &body, &eqn.inputs)
}

/// `shard_map(f)` over a mesh of one device: the equations of `f`
pub(crate) fn shard_map<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("jaxpr")?;
    let mesh: Option<Param> = eqn.optional("mesh")?;
    eqn.ignore(&[
        "in_specs",
        "out_specs",
        "in_names",
        "out_names",
        "auto",
        "rewrite",
        "check_rep",
        "check_vma",
        "manual_axes",
        "newly_manual_axes",
    ]);
    let mut axes = Vec::new();
    if let Some(Param::Record(_, sizes)) = &mesh {
        for (name, size) in sizes.iter() {
            if !matches!(size, Param::Int(1)) {
                let what = format!("`shard_map` over {size} devices");
                return Err(crate::Refused::Devices { what }.into());
            }
            axes.push(name.clone());
        }
    }
    // On more devices than one a shard is smaller than the array.
    let types: std::result::Result<Vec<_>, _> =
        body.inputs.iter().map(|&var| ctx.ty(body.aval(var))).collect();
    let is_whole = types?.iter().zip(&eqn.inputs).all(|(ty, input)| *ty == input.ty());
    if !is_whole {
        let what = "`shard_map`".into();
        return Err(crate::Refused::Devices { what }.into());
    }
    ctx.on_one_device(axes, || ctx.inline("shard_map", Body::of("jaxpr"), &body, &eqn.inputs))
}

/// `pmap(f)` over an axis of one device: the equations of `f`, without that axis
pub(crate) fn pmap<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("call_jaxpr")?;
    let size: i64 = eqn.param("global_axis_size")?;
    let (from, to): (Vec<Option<usize>>, Vec<Option<usize>>) =
        (eqn.param("in_axes")?, eqn.param("out_axes")?);
    // An axis that the user did not name is an object.
    let axis = match eqn.param("axis_name")? {
        Param::Str(name) => vec![name],
        _ => Vec::new(),
    };
    eqn.ignore(&[
        "axis_size",
        "backend",
        "devices",
        "donated_invars",
        "is_explicit_global_axis_size",
        "name",
    ]);
    if size != 1 {
        let what = format!("`pmap` over {size} devices");
        return Err(crate::Refused::Devices { what }.into());
    }
    let without =
        |(x, axis): (&Expr<'g>, &Option<usize>)| axis.map_or(*x, |axis| x.squeeze(&[axis]));
    let operands: Vec<_> = eqn.inputs.iter().zip(&from).map(without).collect();
    let results =
        ctx.on_one_device(axis, || ctx.inline("pmap", Body::of("call_jaxpr"), &body, &operands))?;
    let with = |(x, axis): (Expr<'g>, &Option<usize>)| axis.map_or(x, |axis| x.unsqueeze(&[axis]));
    Ok(results.into_iter().zip(&to).map(with).collect())
}

/// True if any flag of the whole array is set
pub(crate) fn unvmap_any<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [flags] = eqn.operands()?;
    Ok(over_all(flags.cast(DType::U8), OpType::ReduceMax).cast(DType::Bool))
}

/// True if every flag of the whole array is set
pub(crate) fn unvmap_all<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [flags] = eqn.operands()?;
    Ok(over_all(flags.cast(DType::U8), OpType::ReduceMin).cast(DType::Bool))
}

/// Returns the largest of the whole array
pub(crate) fn unvmap_max<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [x] = eqn.operands()?;
    Ok(over_all(x, OpType::ReduceMax))
}

/// `x` of `(predicate, x, y)`: the choice is made only under `vmap`, which turns it into `select_n`
pub(crate) fn select_if_vmap<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [_, x, _] = eqn.operands()?;
    Ok(x)
}

fn over_all(x: Expr<'_>, op: OpType) -> Expr<'_> {
    let axes: Vec<usize> = (0..x.rank()).collect();
    x.reduce(op, &axes, false)
}

/// Returns the operands in the types of the results
///
/// In JAX 0.6, the operand may be a NumPy array of 64 bits, which JAX narrows.
#[expect(clippy::unnecessary_wraps, reason = "a plugin of the table may fail")]
pub(crate) fn device_put<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    eqn.ignore(&["devices", "srcs", "copy_semantics"]);
    let narrowed = |(x, ty): (&Expr<'g>, &Type)| {
        if x.dtype() == ty.dtype { *x } else { x.cast(ty.dtype) }
    };
    Ok(eqn.inputs.iter().zip(&eqn.outputs).map(narrowed).collect())
}

/// Returns the operands themselves
#[expect(clippy::unnecessary_wraps, reason = "a plugin of the table may fail")]
pub(crate) fn pass_through<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    Ok(eqn.inputs.clone())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{check, check_places};

    /// One body, called on two lines.
    const CALLED_TWICE: &str = r#"jaxpr main(a:f32[3]) {
        b:f32[3] = jit{name="f"; jaxpr=jaxpr f(a:f32[3]) {
            b:f32[3] = sin a @ "model.py":3 in f
            return b
        }} a @ "model.py":10 in main
        c:f32[3] = jit{name="f"; jaxpr=jaxpr f(a:f32[3]) {
            b:f32[3] = sin a @ "model.py":3 in f
            return b
        }} b @ "model.py":11 in main
        return c
    }"#;

    #[test]
    fn a_call_is_the_nodes_of_its_body() {
        check(
            CALLED_TWICE,
            expect![[r"
            graph test(in_0:f32[3]) -> (out_0)
            %0 = Sin(in_0)
            out_0:f32[3] = Sin(%0)
        "]],
        );
    }

    #[test]
    fn a_body_called_on_two_lines_has_nodes_of_two_call_paths() {
        check_places(
            CALLED_TWICE,
            expect![[r"
            Sin @ f:3 < main:10 #jit(f)
            Sin @ f:3 < main:11 #jit(f)
        "]],
        );
    }

    #[test]
    fn a_body_may_return_its_argument_and_a_constant() {
        check(
            r"jaxpr main(a:f32[3]) {
                b:f32[3] c:f32[3] d:f32[] = closed_call{call_jaxpr=jaxpr f(a:f32[3]) {
                    return a, a, 1.0:f32[]
                }} a
                return b, c, d
            }",
            expect![[r"
                graph test(in_0:f32[3]) -> (out_0, out_1, out_2)
                out_0:f32[3] = Identity(in_0)
                out_1:f32[3] = Identity(in_0)
                out_2:f32[] = Identity(1.0)
            "]],
        );
    }

    #[test]
    fn an_unknown_primitive_is_refused_at_the_innermost_place() {
        check_places(
            r#"jaxpr main(a:f32[3]) {
                b:f32[3] = jit{name="outer"; jaxpr=jaxpr outer(a:f32[3]) {
                    b:f32[3] = remat2{jaxpr=jaxpr inner(a:f32[3]) {
                        b:f32[3] = no_such_primitive a @ "model.py":3 in inner
                        return b
                    }; prevent_cse=True; differentiated=False; policy=None} a @ "model.py":7 in outer
                    return b
                }} a @ "model.py":10 in main
                return b
            }"#,
            expect![[r"
                refused @ inner:3 < outer:7 < main:10 #jit(outer)/checkpoint: no plugin for `no_such_primitive`
            "]],
        );
    }

    #[test]
    fn an_unread_parameter_of_a_call_is_refused() {
        check_places(
            r#"jaxpr main(a:f32[3]) {
                b:f32[3] = jit{name="f"; surprise=1; jaxpr=jaxpr f(a:f32[3]) {
                    return a
                }} a @ "model.py":10 in main
                return b
            }"#,
            expect![[r#"
                refused @ main:10 #: the plugin for `jit` does not support the parameter `surprise=1`
            "#]],
        );
    }

    #[test]
    fn primitives_for_derivatives_return_their_operands() {
        check(
            r#"jaxpr main(a:f32[3]) {
                b:f32[3] = stop_gradient a
                c:f32[3] = name{name="kept"} b
                d:f32[3] = optimization_barrier c
                e:f32[3] = neg d
                return e
            }"#,
            expect![[r"
                graph test(in_0:f32[3]) -> (out_0)
                out_0:f32[3] = Neg(in_0)
            "]],
        );
    }
}
