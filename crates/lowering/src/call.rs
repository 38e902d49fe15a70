//! Lowers calls in place, and primitives that only matter to transformations.

use std::sync::Arc;

use jaxpr::{Jaxpr, Param};
use onnx::{DType, Expr, OpType, Type};

use crate::ctx::{Body, Ctx, Eqn};
use crate::error::{Refused, Result};

/// `jit(f)`: the equations of `f`
pub(crate) fn jit<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("jaxpr")?;
    let name: Arc<str> = eqn.param("name")?;
    // The placement of arrays and the options of the compiler do not change the numbers.
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

/// Returns the operands of a marker that has lost its partner.
#[expect(clippy::unnecessary_wraps, reason = "a plugin of the table may fail")]
pub(crate) fn onnx_function<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    eqn.ignore(&["edge", "id", "domain", "name"]);
    Ok(eqn.inputs.clone())
}

/// Lowers a call of a body.
pub(crate) fn call<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("call_jaxpr")?;
    let name: Option<Arc<str>> = eqn.optional("name")?;
    let label = name.as_ref().unwrap_or(eqn.primitive);
    ctx.inline(label, Body::of("call_jaxpr"), &body, &eqn.inputs)
}

/// Lowers a call whose other parameters only describe devices and compilation.
pub(crate) fn any_call<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    eqn.ignore_all();
    for param in ["jaxpr", "call"] {
        if let Some(Param::Jaxpr(body)) = eqn.optional(param)? {
            return ctx.inline(eqn.primitive, Body::of(param), &body, &eqn.inputs);
        }
    }
    Err(eqn.broken("it has no body").into())
}

/// Lowers the function itself; a model has no derivatives.
pub(crate) fn custom_jvp_call<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("call_jaxpr")?;
    eqn.ignore(&["jvp_jaxpr_fun", "jvp_jaxpr_thunk", "num_consts", "symbolic_zeros"]);
    ctx.inline("custom_jvp", Body::of("call_jaxpr"), &body, &eqn.inputs)
}

/// Lowers the function itself; a model has no derivatives.
pub(crate) fn custom_vjp_call<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    // `custom_vjp_call_jaxpr` of older versions has another name for the body.
    let (param, body): (_, Arc<Jaxpr>) = match eqn.optional("call_jaxpr")? {
        Some(body) => ("call_jaxpr", body),
        None => ("fun_jaxpr", eqn.param("fun_jaxpr")?),
    };
    eqn.ignore(&["fwd_jaxpr_thunk", "bwd", "num_consts", "out_trees", "symbolic_zeros"]);
    ctx.inline("custom_vjp", Body::of(param), &body, &eqn.inputs)
}

/// `jax.checkpoint(f)`: the equations of `f`. Its parameters only matter to the backward pass.
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
                return Err(Refused::Devices { what }.into());
            }
            axes.push(name.clone());
        }
    }
    // With several devices, a shard would be smaller than the array.
    let types: std::result::Result<Vec<_>, _> =
        body.inputs.iter().map(|&var| ctx.ty(body.aval(var))).collect();
    let is_whole = types?.iter().zip(&eqn.inputs).all(|(ty, input)| *ty == input.ty());
    if !is_whole {
        let what = "`shard_map`".into();
        return Err(Refused::Devices { what }.into());
    }
    ctx.on_one_device(axes, || ctx.inline("shard_map", Body::of("jaxpr"), &body, &eqn.inputs))
}

/// `pmap(f)` over an axis of one device: the equations of `f`, without that axis
pub(crate) fn pmap<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("call_jaxpr")?;
    let size: i64 = eqn.param("global_axis_size")?;
    let (from, to): (Vec<Option<usize>>, Vec<Option<usize>>) =
        (eqn.param("in_axes")?, eqn.param("out_axes")?);
    // If the user did not name the axis, the name is not a string.
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
        return Err(Refused::Devices { what }.into());
    }
    let without =
        |(x, axis): (&Expr<'g>, &Option<usize>)| axis.map_or(*x, |axis| x.squeeze(&[axis]));
    let operands: Vec<_> = eqn.inputs.iter().zip(&from).map(without).collect();
    let results =
        ctx.on_one_device(axis, || ctx.inline("pmap", Body::of("call_jaxpr"), &body, &operands))?;
    let with = |(x, axis): (Expr<'g>, &Option<usize>)| axis.map_or(x, |axis| x.unsqueeze(&[axis]));
    Ok(results.into_iter().zip(&to).map(with).collect())
}

/// True if any element of the whole array is true.
pub(crate) fn unvmap_any<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [flags] = eqn.operands()?;
    Ok(over_all(flags.cast(DType::U8), OpType::ReduceMax).cast(DType::Bool))
}

/// True if all elements of the whole array are true.
pub(crate) fn unvmap_all<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [flags] = eqn.operands()?;
    Ok(over_all(flags.cast(DType::U8), OpType::ReduceMin).cast(DType::Bool))
}

/// Returns the largest element of the whole array.
pub(crate) fn unvmap_max<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [x] = eqn.operands()?;
    Ok(over_all(x, OpType::ReduceMax))
}

/// Returns `x` of `(predicate, x, y)`; only `vmap` turns the choice into `select_n`.
pub(crate) fn select_if_vmap<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [_, x, _] = eqn.operands()?;
    Ok(x)
}

fn over_all(x: Expr<'_>, op: OpType) -> Expr<'_> {
    let axes: Vec<usize> = (0..x.rank()).collect();
    x.reduce(op, &axes, false)
}

/// Casts the operands to the types of the results.
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

/// Returns the operands themselves.
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
    fn a_call_becomes_the_nodes_of_its_body() {
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
