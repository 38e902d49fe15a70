"""Transformations of JAX: of each other, in loops, and with rules of the user's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from . import sample

Traced = tuple[Callable[..., Any], list[Any]]


@sample
def jit_in_jit_in_jit_on_two_lines() -> Traced:
    @jax.jit
    def innermost(x: jax.Array) -> jax.Array:
        return jnp.sin(x)  # <- sin:4{jnp.sin(x)}

    @jax.jit
    def inner(x: jax.Array) -> jax.Array:
        y = innermost(x)
        return innermost(y) * 2.0  # <- mul:2{innermost(y) * 2.0}

    @jax.jit
    def fn(x: jax.Array) -> jax.Array:
        y = inner(x)
        return inner(y) + 1.0  # <- add:1{inner(y) + 1.0}

    return fn, [(2,)]


@sample
def jit_with_static_arguments() -> Traced:
    """Two static arguments are two jaxprs of one line."""

    @functools.partial(jax.jit, static_argnames=("kind",))
    def wave(x: jax.Array, kind: str) -> jax.Array:
        if kind == "sine":
            return jnp.sin(x)  # <- sin:1
        return jnp.cos(x)  # <- cos:1

    def fn(x: jax.Array) -> jax.Array:
        return wave(x, "sine") - wave(x, "cosine")  # <- sub:1

    return fn, [(2,)]


@sample
def custom_vjp_with_residuals() -> Traced:
    """Backward, JAX keeps the line of the rule forward and of the call alone."""

    @jax.custom_vjp
    def scaled(x: jax.Array, w: jax.Array) -> jax.Array:
        return x * w  # <- mul:1{x * w} dead

    def forward(x: jax.Array, w: jax.Array) -> Any:
        return scaled(x, w), (jnp.tanh(x), w)  # <- tanh:1{jnp.tanh(x)}

    def backward(residuals: Any, cotangent: jax.Array) -> Any:
        slope, w = residuals
        return cotangent * w * slope, cotangent

    scaled.defvjp(forward, backward)

    def loss(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sum(scaled(x, w))  # <- mul:2 reduce_sum:1 broadcast_in_dim:1

    return jax.grad(loss), [(3,), (3,)]


@sample
def custom_vjp_in_a_scan() -> Traced:
    @jax.custom_vjp
    def wave(x: jax.Array) -> jax.Array:
        return jnp.cos(x)  # <- cos:1{jnp.cos(x)}

    wave.defvjp(lambda x: (wave(x), x), lambda x, g: (-g * jnp.sin(x),))

    def fn(xs: jax.Array) -> Any:
        def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return wave(carry) + x, None  # <- add:1{wave(carry) + x}

        return jax.lax.scan(step, jnp.ones(2), xs)  # <- scan:1 broadcast_in_dim:1{jnp.ones(2)}

    return fn, [(3, 2)]


@sample
def remat_with_a_policy() -> Traced:
    policy = jax.checkpoint_policies.dots_saveable

    @functools.partial(jax.checkpoint, policy=policy)
    def block(x: jax.Array, w: jax.Array) -> jax.Array:
        y = x @ w  # <- dot_general:1{x @ w}
        return jnp.tanh(y)  # <- tanh:1{jnp.tanh(y)}

    def fn(x: jax.Array, w: jax.Array) -> jax.Array:
        return block(x, w) + 1.0  # <- add:1

    return fn, [(2, 3), (3, 3)]


@sample
def checkpoint_in_a_scan() -> Traced:
    @jax.checkpoint
    def block(x: jax.Array) -> jax.Array:
        y = jnp.sin(x)  # <- sin:1{jnp.sin(x)}
        return jnp.exp(y)  # <- exp:1{jnp.exp(y)}

    def fn(xs: jax.Array) -> Any:
        def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return block(carry) * x, None  # <- mul:1{block(carry) * x}

        return jax.lax.scan(step, jnp.ones(2), xs)  # <- scan:1 broadcast_in_dim:1{jnp.ones(2)}

    return fn, [(3, 2)]


@sample
def grad_through_a_checkpoint_in_a_scan() -> Traced:
    """What is computed again backward has the line that computed it forward."""

    @jax.checkpoint
    def block(x: jax.Array) -> jax.Array:
        return jnp.sin(x)  # <- sin:1{jnp.sin(x)} cos:1{jnp.sin(x)} mul:1{jnp.sin(x)}

    def loss(xs: jax.Array) -> jax.Array:
        def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return block(carry) * x, None  # <- mul:3{block(carry) * x}

        carry, _ = jax.lax.scan(step, jnp.ones(2), xs)  # <- scan:3 broadcast_in_dim:2
        return jnp.sum(carry)  # <- reduce_sum:1 broadcast_in_dim:1{jnp.sum(carry)}

    return jax.grad(loss), [(3, 2)]


@sample
def shard_map_on_one_device() -> Traced:
    mesh = Mesh(np.array(jax.devices()[:1]), ("i",))
    spec = PartitionSpec("i")

    def block(x: jax.Array, w: jax.Array) -> jax.Array:
        y = jnp.sin(x)  # <- sin:1{jnp.sin(x)}
        return y * w  # <- mul:1{y * w}

    mapped = jax.shard_map(block, mesh=mesh, in_specs=(spec, spec), out_specs=spec)

    def fn(x: jax.Array, w: jax.Array) -> jax.Array:
        y = mapped(x, w)
        return y + 1.0  # <- add:1{y + 1.0}

    return fn, [(4, 2), (4, 2)]


@sample
def shard_map_in_a_jitted_function_and_a_loop() -> Traced:
    mesh = Mesh(np.array(jax.devices()[:1]), ("i",))
    spec = PartitionSpec("i")

    @jax.jit
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=spec, out_specs=spec)
    def block(x: jax.Array) -> jax.Array:
        return jnp.exp(x)  # <- exp:2{jnp.exp(x)}

    def fn(x: jax.Array) -> jax.Array:
        y = block(x)
        return jax.lax.fori_loop(0, 3, lambda _, z: block(z) - 1.0, y)  # <- scan sub:1 add:1?

    return fn, [(4,)]


@sample
def associative_scan_of_a_pair() -> Traced:
    def combine(a: Any, b: Any) -> Any:
        # It is called four times, once with nothing: a product of nothing is a constant, and a
        # maximum of nothing is dropped.
        return (
            a[0] * b[0],  # <- mul:3{a[0] * b[0]}
            jnp.maximum(a[1], b[1]),  # <- max:4?{jnp.maximum(a[1], b[1])}
        )

    def fn(x: jax.Array, y: jax.Array) -> Any:
        scan = jax.lax.associative_scan
        return scan(combine, (x, y), reverse=True)  # <- rev slice? concatenate pad add

    return fn, [(4,), (4,)]


@sample
def lax_map() -> Traced:
    """A map is a scan, whose line is that of the call."""

    def one(x: jax.Array) -> jax.Array:
        y = jnp.sin(x)  # <- sin:1{jnp.sin(x)}
        return y * y  # <- mul:1{y * y}

    def fn(xs: jax.Array) -> jax.Array:
        ys = jax.lax.map(one, xs)  # <- scan{jax.lax.map(one, xs)}
        return ys + 1.0  # <- add:1{ys + 1.0}

    return fn, [(3, 2)]


@sample
def lax_map_in_batches() -> Traced:
    def one(x: jax.Array) -> jax.Array:
        return jnp.tanh(x)  # <- tanh:1{jnp.tanh(x)}

    def fn(xs: jax.Array) -> jax.Array:
        return jax.lax.map(one, xs, batch_size=2)  # <- scan reshape

    return fn, [(4, 2)]


@sample
def vectorize() -> Traced:
    @functools.partial(jnp.vectorize, signature="(n),(n)->()")
    def inner(x: jax.Array, y: jax.Array) -> jax.Array:
        z = x * y  # <- mul:1{x * y}
        return jnp.sum(z)  # <- reduce_sum:1{jnp.sum(z)}

    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        return -inner(x, y)  # <- neg:1{-inner(x, y)}

    return fn, [(4, 3), (4, 3)]


@sample
def vectorize_without_a_signature() -> Traced:
    @jnp.vectorize
    def wave(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.sin(x) - y  # <- sin:1{jnp.sin(x)} sub:1{jnp.sin(x) - y}

    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        return wave(x, y)

    return fn, [(4, 3), (4, 3)]


@sample
def linearize() -> Traced:
    def wave(x: jax.Array) -> jax.Array:
        y = jnp.sin(x)  # <- sin:1{jnp.sin(x)} cos:1{jnp.sin(x)} mul:1{jnp.sin(x)}
        return jnp.exp(y)  # <- exp:1{jnp.exp(y)} mul:1{jnp.exp(y)}

    def fn(x: jax.Array, t: jax.Array) -> jax.Array:
        value, slope = jax.linearize(wave, x)
        return value + slope(t)  # <- add:1{value + slope(t)}

    return fn, [(2,), (2,)]


@sample
def jvp_of_a_jitted_function() -> Traced:
    @jax.jit
    def wave(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * x  # <- sin:1{jnp.sin(x)} cos:1{jnp.sin(x)} mul:4 add_any:1

    def fn(x: jax.Array, t: jax.Array) -> Any:
        return jax.jvp(wave, (x,), (t,))

    return fn, [(2,), (2,)]


@sample
def vjp_with_two_results() -> Traced:
    def pair(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return (
            jnp.sin(x),  # <- sin:1{jnp.sin(x)} cos:1 mul:1{jnp.sin(x)} add_any:1{jnp.sin(x)}
            x * 3.0,  # <- mul:2{x * 3.0}
        )

    def fn(x: jax.Array, g: jax.Array) -> Any:
        values, back = jax.vjp(pair, x)
        return values, back((g, g))

    return fn, [(2,), (2,)]


@sample
def jacfwd() -> Traced:
    """The unit vectors that it pushes through belong to the line of the call."""

    def wave(x: jax.Array) -> jax.Array:
        return jnp.sin(x)  # <- sin:1 cos:1{jnp.sin(x)} mul:1{jnp.sin(x)} broadcast_in_dim:1

    def fn(x: jax.Array) -> jax.Array:
        return jax.jacfwd(wave)(x)  # <- iota:2 add eq:1 convert_element_type:1 split:2 transpose:1

    return fn, [(3,)]


@sample
def jacrev() -> Traced:
    def wave(x: jax.Array) -> jax.Array:
        return jnp.exp(x)  # <- exp:1{jnp.exp(x)} mul:1{jnp.exp(x)} broadcast_in_dim:1

    def fn(x: jax.Array) -> jax.Array:
        jacobian = jax.jacrev(wave)(x)  # <- split:2{jax.jacrev(wave)(x)} iota:2 add eq:1 *
        return jacobian + 1.0  # <- add:1{jacobian + 1.0}

    return fn, [(3,)]


@sample
def grad_of_grad() -> Traced:
    def loss(x: jax.Array) -> jax.Array:
        return jnp.sin(x)  # <- sin:2{jnp.sin(x)} cos:2{jnp.sin(x)} mul:3{jnp.sin(x)} neg:1

    def fn(x: jax.Array) -> jax.Array:
        return jax.grad(jax.grad(loss))(x) * 2.0  # <- mul:1

    return fn, [()]


@sample
def vmap_of_grad() -> Traced:
    def loss(x: jax.Array) -> jax.Array:
        y = jnp.tanh(x)  # <- tanh:1{jnp.tanh(x)} sub:1 mul:2{jnp.tanh(x)} add_any:1 *
        return jnp.sum(y)  # <- reduce_sum:1 broadcast_in_dim:1

    def fn(xs: jax.Array) -> jax.Array:
        return jax.vmap(jax.grad(loss))(xs) - 1.0  # <- sub:1

    return fn, [(4, 3)]


@sample
def custom_root() -> Traced:
    """Newton's method: the loop and its idle counter have the line of `fori_loop`."""

    def fn(a: jax.Array) -> jax.Array:
        def residual(x: jax.Array) -> jax.Array:
            return x * x - a  # <- mul:1{x * x} sub:1{x * x - a}

        def solve(f: Any, guess: jax.Array) -> jax.Array:
            def step(_: int, x: jax.Array) -> jax.Array:
                return x - f(x) / (2.0 * x)  # <- mul:1{2.0 * x} div:1{f(x) / (2.0 * x)} sub:1

            return jax.lax.fori_loop(0, 5, step, guess)  # <- scan add:1?

        def tangent_solve(g: Any, y: jax.Array) -> jax.Array:
            return y / g(jnp.ones_like(y))

        start = a + 1.0  # <- add:1{a + 1.0}
        return jax.lax.custom_root(residual, start, solve, tangent_solve)

    return fn, [()]


@sample
def custom_linear_solve() -> Traced:
    def fn(a: jax.Array, b: jax.Array) -> jax.Array:
        def product(x: jax.Array) -> jax.Array:
            return a * x

        def solve(_: Any, b: jax.Array) -> jax.Array:
            return b / a  # <- div:1{b / a}

        x = jax.lax.custom_linear_solve(product, b, solve, symmetric=True)
        return x + 1.0  # <- add:1{x + 1.0}

    return fn, [(3,), (3,)]


@sample
def conjugate_gradients() -> Traced:
    """A solver of JAX is a library: its lines are those of the call."""

    def fn(a: jax.Array, b: jax.Array) -> jax.Array:
        def product(x: jax.Array) -> jax.Array:
            return a @ x  # <- dot_general:2{a @ x}

        cg = jax.scipy.sparse.linalg.cg
        x, _ = cg(product, b, maxiter=3)  # <- while dot_general:4 add mul max sub gt lt and div *
        return x

    return fn, [(3, 3), (3,)]
