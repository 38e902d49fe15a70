"""Calls, and primitives that only concern transformations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src import core
from jax.ad_checkpoint import checkpoint_name

from jax2onnx._tracing.compat import bind_params

from .case import Case

X = np.linspace(-2.0, 2.0, 12, dtype=np.float32).reshape(3, 4)
Y = np.linspace(1.0, 3.0, 12, dtype=np.float32).reshape(3, 4)
WEIGHTS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
ROUNDED = 1e-5


def case(
    use: str, fn: Callable[..., Any], *inputs: Any, covers: tuple[str, ...] = (), rtol: float = 0.0
) -> Case:
    return Case(f"call.{use}", fn, inputs, rtol=rtol, atol=rtol, covers=covers)


@jax.jit
def double(x: Any) -> Any:
    return x + x


@jax.jit
def sum_and_difference(x: Any, y: Any) -> Any:
    return x + y, x - y


@jax.jit
def affine(x: Any) -> Any:
    return x @ jnp.asarray(WEIGHTS)


def nested(x: Any) -> Any:
    return jax.jit(lambda x: jax.jit(lambda y: double(y) * 3)(x) + 1)(x)


def called_twice(x: Any, y: Any) -> Any:
    return double(x) * double(y), double(double(x))


def unused_results(x: Any, y: Any) -> Any:
    total, _ = sum_and_difference(x, y)
    return total


def jit_of_nothing_used(x: Any, y: Any) -> Any:
    return jax.jit(lambda x, y: x * 2, keep_unused=True)(x, y)


def static_argument(x: Any) -> Any:
    return jax.jit(lambda x, n: x * n, static_argnums=1)(x, 3)


def closed_over_tracer(x: Any, y: Any) -> Any:
    return jax.jit(lambda z: z + y)(x)


def bound(primitive: Any, fn: Callable[..., Any], closed: bool) -> Callable[..., Any]:
    """`fn` as the body of a call primitive."""

    def call(*args: Any) -> Any:
        jaxpr = jax.make_jaxpr(fn)(*args)
        body = jaxpr if closed else jaxpr.jaxpr
        functions, params = bind_params(primitive, {"call_jaxpr": body})
        return primitive.bind(*functions, *args, **params)

    return call


@jax.custom_jvp
def safe_log(x: Any) -> Any:
    return jnp.where(x > 0, x * 2, 0.0)


@safe_log.defjvp
def _safe_log_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    return safe_log(x), 5.0 * dx


@jax.custom_vjp
def clipped(x: Any, y: Any) -> Any:
    return x * y, x - y


def _clipped_forward(x: Any, y: Any) -> Any:
    return clipped(x, y), (x, y)


def _clipped_backward(kept: Any, cotangents: Any) -> Any:
    x, y = kept
    return jnp.clip(cotangents[0] * y, -1, 1), cotangents[1] * x


clipped.defvjp(_clipped_forward, _clipped_backward)


def loss(x: Any, y: Any) -> Any:
    return jnp.sum(jnp.tanh(x * y) ** 2)


def named(x: Any) -> Any:
    return checkpoint_name(x * 2, "kept") + 1


CALLS = [
    case("jit", double, X, covers=("jit",)),
    case("jit nested", nested, X, covers=("jit",)),
    case("jit called twice", called_twice, X, Y, covers=("jit",)),
    case("jit with unused results", unused_results, X, Y, covers=("jit",)),
    case("jit with an unused argument", jit_of_nothing_used, X, Y, covers=("jit",)),
    case("jit with a static argument", static_argument, X, covers=("jit",)),
    case("jit over a tracer", closed_over_tracer, X, Y, covers=("jit",)),
    case("jit over a constant", affine, X, covers=("jit",), rtol=ROUNDED),
    case("jit of the identity", jax.jit(lambda x: x), X),
    case("jit of a swap", lambda x, y: jax.jit(lambda a, b: (b, a))(x, y), X, Y),
    case("jit of a constant", lambda x: jax.jit(lambda x: (x, jnp.float32(3)))(x), X),
    case("jit inline", lambda x: jax.jit(lambda x: x * 2, inline=True)(x), X),
    case(
        "jit of a dictionary", jax.jit(lambda t: {"b": t["a"] * 2, "a": t["b"]}), {"a": X, "b": Y}
    ),
    case(
        "closed_call",
        bound(core.closed_call_p, lambda x: x * 2 + 1, closed=True),
        X,
        covers=("closed_call",),
    ),
    case(
        "closed_call over a constant",
        lambda x: bound(core.closed_call_p, lambda x: x @ jnp.asarray(WEIGHTS), closed=True)(x),
        X,
        covers=("closed_call",),
        rtol=ROUNDED,
    ),
    case("call", bound(core.call_p, lambda x: x * 2 + 1, closed=False), X, covers=("call",)),
    case("named_call", lambda x: jax.named_call(lambda x: x * 2, name="f")(x), X),
]

DERIVATIVES = [
    case("custom_jvp", safe_log, X, covers=("custom_jvp_call",)),
    case("custom_jvp differentiated", jax.grad(lambda x: safe_log(x).sum()), X),
    case("custom_jvp of a library", jax.nn.relu, X, covers=("custom_jvp_call",)),
    case("custom_jvp in jit, twice", lambda x: jax.jit(lambda x: safe_log(safe_log(x)))(x), X),
    case("custom_vjp", clipped, X, Y, covers=("custom_vjp_call",)),
    case("custom_vjp differentiated", jax.grad(lambda x, y: clipped(x, y)[0].sum()), X, Y),
    case("grad", jax.grad(loss), X, Y, rtol=ROUNDED),
    case("value and grad", jax.value_and_grad(loss, argnums=(0, 1)), X, Y, rtol=ROUNDED),
    case("jvp", lambda x, y: jax.jvp(loss, (x, y), (y, x)), X, Y, rtol=ROUNDED),
    case("vmap of grad", jax.vmap(jax.grad(loss)), X, Y, rtol=ROUNDED),
    case("hessian", jax.hessian(lambda x: jnp.sum(x**3)), X[0], rtol=ROUNDED),
    case(
        "checkpoint", jax.checkpoint(lambda x: jnp.sin(x) * 2), X, covers=("remat2",), rtol=ROUNDED
    ),
    case(
        "checkpoint differentiated",
        jax.grad(lambda x: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x).sum()),
        X,
        covers=("remat2",),
        rtol=ROUNDED,
    ),
    case(
        "checkpoint with a policy",
        jax.checkpoint(named, policy=jax.checkpoint_policies.save_only_these_names("kept")),
        X,
        covers=("remat2", "name"),
    ),
]

PASSED_ON = [
    case("stop_gradient", lambda x: lax.stop_gradient(x) + 1, X, covers=("stop_gradient",)),
    case("stop_gradient differentiated", jax.grad(lambda x: jnp.sum(x * lax.stop_gradient(x))), X),
    case(
        "optimization_barrier",
        lambda x: lax.optimization_barrier(x * 2),
        X,
        covers=("optimization_barrier",),
    ),
    case(
        "optimization_barrier of several",
        lambda x, y: lax.optimization_barrier((x, y, x + y)),
        X,
        Y,
        covers=("optimization_barrier",),
    ),
    case("name", named, X, covers=("name",)),
    case("name of an input", lambda x: checkpoint_name(x, "x"), X, covers=("name",)),
    case("copy in jit", lambda x: jax.jit(jnp.copy)(x), X, covers=("copy",)),
]

ENDS = [
    case("an input as it is", lambda x: x, X),
    case("an input twice", lambda x: (x, x), X),
    case("a value twice", lambda x: (x * 2, x * 2), X),
    case("the same value twice", lambda x: (lambda y: (y, y))(x * 2), X),
    case("a value that is also used on", lambda x: (lambda y: (y, y + 1))(x * 2), X),
    case("a constant", lambda x: jnp.asarray(WEIGHTS), X),
    case("a constant twice", lambda x: (lambda w: (w, w))(jnp.asarray(WEIGHTS)), X),
    case("a literal", lambda x: 3.0, X),
    case("a literal among others", lambda x: (x + 1, 2, True), X),
    case("an input and a value", lambda x, y: (y, x + y, x), X, Y),
    case("an unused input", lambda x, y: x * 2, X, Y),
    case("unused work", lambda x: (jnp.sin(x), x + 1)[1], X),
    case("no input", lambda: jnp.arange(4.0) * 2),
    case("a tree", lambda t: {"sum": t["x"] + t["y"][0], "rest": t["y"]}, {"x": X, "y": [Y, X]}),
]

CASES = [*CALLS, *DERIVATIVES, *PASSED_ON, *ENDS]
