"""Calls of functions that are decorated with `@onnx_function`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax2onnx import onnx_function

from .case import Case

X = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(4, 3)
WEIGHT = np.linspace(0.5, 1.5, 9, dtype=np.float32).reshape(3, 3)
CLOSE = {"rtol": 1e-6, "atol": 1e-6}


@onnx_function
def shifted(x: jax.Array, shift: float | jax.Array = 0.25) -> jax.Array:
    return jnp.square(x + shift)


@onnx_function
def dense(x: jax.Array, weight: jax.Array) -> jax.Array:
    return jnp.tanh(x @ weight)


@onnx_function(namespace="nested", type="Outer")
def outer(x: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
    y = shifted(dense(x, WEIGHT))
    return shifted(y, 2.0), {"sum": y.sum(), "input": x}


def twice(x: jax.Array) -> jax.Array:
    return shifted(shifted(x))


def other_constants(x: jax.Array) -> jax.Array:
    return shifted(x, 1.0) + shifted(x, 2.0)


def closes_over(x: jax.Array) -> jax.Array:
    factor = x.sum()
    return onnx_function(lambda y: (y * factor, factor, y))(x)


def in_loops(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        chosen = lax.cond(row.sum() > 0, shifted, lambda r: shifted(r, carry), row)
        return shifted(carry) * 0.5, chosen + carry

    carry, rows = lax.scan(step, x[0], x)
    return lax.fori_loop(0, 2, lambda _, c: shifted(c), carry), rows


def loops_inside(x: jax.Array) -> jax.Array:
    @onnx_function
    def total(y: jax.Array) -> jax.Array:
        return lax.scan(lambda c, row: (c + shifted(row), None), jnp.zeros(3), y)[0]

    return total(x) + total(x * 2)


def nothing_to_do(x: jax.Array) -> tuple[jax.Array, ...]:
    return onnx_function(lambda y: (y, y, 3.0, jnp.float32(2)))(x)


def ignored(x: jax.Array) -> jax.Array:
    shifted(x, 7.0)
    return shifted(x)


@jax.jit
def jitted(x: jax.Array) -> jax.Array:
    return shifted(x)


def complex_numbers(x: jax.Array) -> jax.Array:
    return jnp.abs(onnx_function(lambda z: z * (1 + 2j))(x + 1j))


CASES = [
    Case("onnx_function", shifted, (X,), covers=("onnx_function",)),
    Case("onnx_function.twice", twice, (X,)),
    Case("onnx_function.constants", other_constants, (X,), **CLOSE),
    Case("onnx_function.weights", lambda x: dense(dense(x, WEIGHT), 2 * WEIGHT), (X,), **CLOSE),
    Case("onnx_function.nested", outer, (X,), **CLOSE),
    Case("onnx_function.closes_over", closes_over, (X,), **CLOSE),
    Case("onnx_function.in_loops", in_loops, (X,), **CLOSE),
    Case("onnx_function.loops_inside", loops_inside, (X,), **CLOSE),
    Case("onnx_function.nothing_to_do", nothing_to_do, (X,)),
    Case("onnx_function.ignored", ignored, (X,)),
    Case("onnx_function.jit", lambda x: jitted(x) + jitted(x[:1]), (X,)),
    Case("onnx_function.vmap", jax.vmap(lambda x: outer(x[None])), (X,), **CLOSE),
    Case("onnx_function.grad", jax.grad(lambda x: twice(dense(x, WEIGHT)).sum()), (X,), **CLOSE),
    Case(
        "onnx_function.grad_of_remat",
        jax.grad(lambda x: jax.checkpoint(twice)(x).sum()),
        (X,),
        **CLOSE,
    ),
    Case("onnx_function.jvp", lambda x: jax.jvp(twice, (x,), (x,)), (X,), **CLOSE),
    Case("onnx_function.grad_of_scan", jax.grad(lambda x: in_loops(x)[1].sum()), (X,), **CLOSE),
    Case("onnx_function.complex", complex_numbers, (X,), **CLOSE),
    Case("onnx_function.opset17", twice, (X,), opset=17),
]
