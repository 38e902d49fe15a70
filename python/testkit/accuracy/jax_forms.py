"""Transformations, and functions that JAX itself jits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from . import sample

Traced = tuple[Callable[..., Any], list[Any]]


@sample
def where_on_two_lines() -> Traced:
    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        a = jnp.where(x > 0, x, 0.0)  # <- gt:1 select_n:1 *
        b = jnp.where(y > 0, y, 0.0)  # <- gt:1 select_n:1 *
        return a + b  # <- add:1

    return fn, [(2,), (2,)]


@sample
def var_on_two_lines() -> Traced:
    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        a = jnp.var(x)  # <- reduce_sum sub *
        b = jnp.var(y)  # <- reduce_sum sub *
        return a - b  # <- sub:1

    return fn, [(5,), (5,)]


@sample
def std_and_mean_on_two_lines() -> Traced:
    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        a = x - jnp.mean(x)  # <- sub reduce_sum *
        b = jnp.std(y)  # <- sqrt *
        c = jnp.std(a)  # <- sqrt *
        return b / c  # <- div:1

    return fn, [(5,), (5,)]


@sample
def clip_on_two_lines() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        a = jnp.clip(x, 0.0, 1.0)  # <- max min *
        b = jnp.clip(x, -1.0, 2.0)  # <- max min *
        return a * b  # <- mul:1

    return fn, [(2,)]


@sample
def linspace_of_an_input() -> Traced:
    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        a = jnp.linspace(x, y, 4)  # <- *
        b = jnp.linspace(y, x, 4)  # <- *
        return a * b  # <- mul:1

    return fn, [(), ()]


@sample
def shapes_on_two_lines() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        a = jnp.tile(x, (2, 1))  # <- *
        b = jnp.concatenate([x, x + 1.0])  # <- concatenate add
        c = jnp.pad(a, 1)  # <- *
        d = jnp.pad(b, 1)  # <- *
        return c @ d.T  # <- dot_general transpose *

    return fn, [(2, 3)]


@sample
def nan_to_num_and_isclose() -> Traced:
    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        a = jnp.nan_to_num(x)  # <- select_n *
        b = jnp.nan_to_num(y)  # <- select_n *
        return jnp.isclose(a, b)  # <- *

    return fn, [(2,), (2,)]


@sample
def products() -> Traced:
    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        a = jnp.einsum("ij,kj->ik", x, y)  # <- dot_general *
        b = jnp.matmul(x, y.T)  # <- dot_general *
        c = jnp.tensordot(x, y, axes=([0], [0]))  # <- dot_general *
        return a.sum() + b.max() + c.prod()  # <- reduce_sum reduce_max reduce_prod add

    return fn, [(2, 3), (2, 3)]


@sample
def gelu_on_two_lines() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        y = jax.nn.gelu(x)  # <- tanh *
        z = jax.nn.gelu(y, approximate=False)  # <- *
        return z + x  # <- add:1

    return fn, [(2,)]


@sample
def softmax_on_two_lines() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        y = jax.nn.softmax(x)  # <- exp reduce_sum *
        z = jax.nn.log_softmax(y)  # <- exp log *
        return jax.nn.softmax(z, axis=0)  # <- exp reduce_sum *

    return fn, [(2, 3)]


@sample
def silu_and_relu_on_two_lines() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        y = jax.nn.silu(x)  # <- logistic mul
        z = jax.nn.relu(y)  # <- max *
        w = jax.nn.silu(z)  # <- logistic mul
        return jax.nn.relu(w - 1.0)  # <- sub max *

    return fn, [(2,)]


@sample
def logsumexp_and_standardize() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        y = jax.nn.standardize(x)  # <- rsqrt *
        z = jax.nn.standardize(y, axis=0)  # <- rsqrt *
        a = jax.nn.logsumexp(z)  # <- exp log *
        return a + jax.nn.logsumexp(y, axis=-1)  # <- exp log add *

    return fn, [(2, 3)]


@sample
def a_jitted_helper_called_twice() -> Traced:
    @jax.jit
    def helper(x: jax.Array) -> jax.Array:
        y = jnp.sin(x)  # <- sin:2
        return y * 2.0  # <- mul:2

    def fn(x: jax.Array) -> jax.Array:
        first = helper(x)
        second = helper(first)
        return first + second  # <- add:1

    return fn, [(2,)]


@sample
def a_jitted_function() -> Traced:
    @functools.partial(jax.jit, static_argnames="power")
    def fn(x: jax.Array, power: int = 3) -> jax.Array:
        return x**power  # <- integer_pow

    return fn, [(2,)]


@sample
def jit_of_jit() -> Traced:
    @jax.jit
    def inner(x: jax.Array) -> jax.Array:
        return jnp.tanh(x)  # <- tanh:2

    @jax.jit
    def outer(x: jax.Array) -> jax.Array:
        y = inner(x)
        return inner(y) - 1.0  # <- sub:1

    return jax.jit(jax.jit(outer)), [(2,)]


@sample
def a_jitted_method() -> Traced:
    class Net:
        @functools.partial(jax.jit, static_argnums=0)
        def __call__(self, x: jax.Array) -> jax.Array:
            return self.twice(x) + 1.0  # <- add

        @functools.partial(jax.jit, static_argnums=0)
        def twice(self, x: jax.Array) -> jax.Array:
            return x * 2.0  # <- mul

    return Net(), [(2,)]


@sample
def vmap() -> Traced:
    """What `vmap` does to the results belongs to the function as a whole."""

    def one(x: jax.Array, w: jax.Array) -> jax.Array:  # <- transpose
        y = jnp.dot(w, x)  # <- dot_general *
        return jnp.sin(y)  # <- sin

    return jax.vmap(one, in_axes=(0, None)), [(4, 3), (2, 3)]


@sample
def vmap_inside() -> Traced:
    """Called inside a function, it belongs to the line of the call."""

    def one(x: jax.Array, w: jax.Array) -> jax.Array:
        y = jnp.dot(w, x)  # <- dot_general *
        return jnp.sin(y)  # <- sin

    def fn(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.vmap(one, in_axes=(0, None))(x, w)  # <- transpose

    return fn, [(4, 3), (2, 3)]


@sample
def vmap_of_jit_of_vmap() -> Traced:
    def scalar(x: jax.Array) -> jax.Array:
        return jnp.where(x > 0, jnp.sin(x), x)  # <- gt sin select_n

    @jax.jit
    def row(x: jax.Array) -> jax.Array:
        return jax.vmap(scalar)(x) + 1.0  # <- add

    return jax.vmap(row), [(2, 3)]


@sample
def grad() -> Traced:
    """Forward and backward nodes both have the line of the forward operation."""

    def loss(x: jax.Array) -> jax.Array:
        y = jnp.sin(x)  # <- sin cos mul
        return jnp.sum(y * y)  # <- mul *

    return jax.grad(loss), [(3,)]


@sample
def value_and_grad() -> Traced:
    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        y = jnp.tanh(x @ w)  # <- dot_general tanh *
        return jnp.sum(jnp.exp(y))  # <- exp reduce_sum *

    def fn(w: jax.Array, x: jax.Array) -> jax.Array:
        value, slope = jax.value_and_grad(loss)(w, x)
        return w - value * slope  # <- sub mul

    return fn, [(3,), (2, 3)]


@sample
def grad_of_a_jitted_function() -> Traced:
    @jax.jit
    def loss(x: jax.Array) -> jax.Array:
        y = jnp.sin(x)  # <- cos *
        return y.sum()  # <- *

    return jax.grad(loss), [(3,)]


@sample
def jvp() -> Traced:
    def wave(x: jax.Array) -> jax.Array:
        return jnp.sin(x)  # <- sin cos mul

    def fn(x: jax.Array, t: jax.Array) -> jax.Array:
        value, slope = jax.jvp(wave, (x,), (t,))
        return value + slope  # <- add

    return fn, [(2,), (2,)]


@sample
def custom_jvp() -> Traced:
    @jax.custom_jvp
    def wave(x: jax.Array) -> jax.Array:
        return jnp.sin(x)  # <- sin:2

    @wave.defjvp
    def wave_jvp(primals: Any, tangents: Any) -> Any:
        return wave(*primals), tangents[0] * jnp.cos(primals[0])

    def fn(x: jax.Array) -> jax.Array:
        y = wave(x)
        return wave(y) * 2.0  # <- mul:1

    return fn, [(2,)]


@sample
def grad_of_custom_jvp() -> Traced:
    @jax.custom_jvp
    def wave(x: jax.Array) -> jax.Array:
        return jnp.sin(x)  # <- sin

    @wave.defjvp
    def wave_jvp(primals: Any, tangents: Any) -> Any:
        slope = jnp.tanh(primals[0])  # <- tanh
        return wave(*primals), tangents[0] * slope  # <- mul *

    def loss(x: jax.Array) -> jax.Array:
        return wave(x) * x  # <- *

    return jax.grad(loss), [()]


@sample
def custom_vjp() -> Traced:
    @jax.custom_vjp
    def wave(x: jax.Array) -> jax.Array:
        return jnp.cos(x)  # <- cos:2

    wave.defvjp(lambda x: (wave(x), x), lambda x, g: (g * jnp.sin(x),))

    def fn(x: jax.Array) -> jax.Array:
        y = wave(x)
        return wave(y) * 2.0  # <- mul:1

    return fn, [(2,)]


@sample
def grad_of_custom_vjp() -> Traced:
    """JAX keeps the line of the call for what the backward rule computes, not the rule's own."""

    @jax.custom_vjp
    def wave(x: jax.Array) -> jax.Array:
        return jnp.cos(x)  # <- cos:1 dead

    def forward(x: jax.Array) -> Any:
        return wave(x), jnp.exp(x)  # <- exp

    def backward(residual: jax.Array, cotangent: jax.Array) -> Any:
        return (cotangent * residual,)

    wave.defvjp(forward, backward)

    def loss(x: jax.Array) -> jax.Array:
        return wave(x) * 3.0  # <- mul:3

    return jax.grad(loss), [()]


@sample
def remat() -> Traced:
    @jax.checkpoint
    def block(x: jax.Array) -> jax.Array:
        return jnp.sin(jnp.exp(x))  # <- sin:2 exp:2

    def fn(x: jax.Array) -> jax.Array:
        y = block(x)
        return block(y) + 1.0  # <- add:1

    return fn, [(2,)]


@sample
def grad_of_remat() -> Traced:
    @jax.checkpoint
    def block(x: jax.Array) -> jax.Array:
        return jnp.sin(jnp.exp(x))  # <- exp cos *

    def loss(x: jax.Array) -> jax.Array:
        return block(x) * x  # <- *

    return jax.grad(loss), [()]


@sample
def hessian() -> Traced:
    def loss(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(x) ** 3)  # <- *

    def fn(x: jax.Array) -> jax.Array:
        return jax.hessian(loss)(x)  # <- *

    return fn, [(2,)]


@sample
def a_hessian_exported_by_itself() -> Traced:
    def loss(x: jax.Array) -> jax.Array:  # <- *
        return jnp.sum(jnp.sin(x) ** 3)  # <- *

    return jax.hessian(loss), [(2,)]


@sample
def named_scopes() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        with jax.named_scope("outer"):
            y = jnp.sin(x)  # <- sin
            with jax.named_scope("inner"):
                return jnp.exp(y)  # <- exp

    return fn, [(2,)]


@sample
def stop_gradient_and_barrier() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        y = jax.lax.stop_gradient(jnp.sin(x))  # <- sin
        y = jax.lax.optimization_barrier(y)
        return y * 2.0  # <- mul

    return fn, [(2,)]


@sample
def primitives_of_lax() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        y = jax.lax.rsqrt(x)  # <- rsqrt
        z = jax.lax.clamp(0.0, y, 1.0)  # <- clamp
        return jax.lax.select(z > y, z, y)  # <- gt select_n

    return fn, [(2,)]


@sample
def tree_map() -> Traced:
    def fn(params: dict[str, jax.Array], x: jax.Array) -> Any:
        scaled = jax.tree.map(lambda p: p * 2.0, params)  # <- mul:2
        return jax.tree.map(
            lambda p: p + x,  # <- add:2
            scaled,
        )

    return fn, [{"a": (2,), "b": (2,)}, (2,)]


@sample
def symbolic_sizes() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        y = x.reshape(-1, 2)  # <- reshape *
        z = jnp.ones_like(y) + y  # <- *
        return jnp.sum(z)  # <- reduce_sum

    return fn, [("B", 4)]
