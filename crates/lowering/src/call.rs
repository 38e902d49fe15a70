//! Calls, whose bodies are lowered in place, and primitives that only concern transformations.

use std::sync::Arc;

use jaxpr::Jaxpr;
use onnx::Expr;

use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// `jit(f)`: the equations of `f`
pub(crate) fn jit<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("jaxpr")?;
    let name: Arc<str> = eqn.param("name")?;
    // Where arrays live and how the call is compiled does not change the numbers.
    eqn.ignore(&[
        "in_shardings",
        "out_shardings",
        "in_layouts",
        "out_layouts",
        "donated_invars",
        "resource_env",
        "ctx_mesh",
        "keep_unused",
        "inline",
        "compiler_options_kvs",
    ]);
    ctx.inline(&format!("jit({name})"), &body, &eqn.inputs)
}

/// A call of a body without a transformation of its own
pub(crate) fn call<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("call_jaxpr")?;
    eqn.ignore(&["name"]);
    ctx.inline(eqn.primitive, &body, &eqn.inputs)
}

/// The function itself; its derivative is not part of what is exported
pub(crate) fn custom_jvp_call<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("call_jaxpr")?;
    eqn.ignore(&["jvp_jaxpr_fun", "jvp_jaxpr_thunk", "num_consts", "symbolic_zeros"]);
    ctx.inline("custom_jvp", &body, &eqn.inputs)
}

/// The function itself; its derivative is not part of what is exported
pub(crate) fn custom_vjp_call<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    // `custom_vjp_call_jaxpr` of older versions has another name for the body.
    let body: Arc<Jaxpr> = match eqn.optional("call_jaxpr")? {
        Some(body) => body,
        None => eqn.param("fun_jaxpr")?,
    };
    eqn.ignore(&["fwd_jaxpr_thunk", "bwd", "num_consts", "out_trees", "symbolic_zeros"]);
    ctx.inline("custom_vjp", &body, &eqn.inputs)
}

/// `jax.checkpoint`: what is kept for a backward pass does not concern the forward one
pub(crate) fn remat<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let body: Arc<Jaxpr> = eqn.param("jaxpr")?;
    eqn.ignore(&["prevent_cse", "differentiated", "policy"]);
    ctx.inline("checkpoint", &body, &eqn.inputs)
}

/// The operands themselves
pub(crate) fn pass_through<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    eqn.ignore(&["name", "impl"]);
    Ok(eqn.inputs.clone())
}
