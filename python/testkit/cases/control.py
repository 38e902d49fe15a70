"""Branches and loops."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .case import Case

X = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(4, 3)
CLOSE = {"rtol": 1e-6, "atol": 1e-6}


def running_sum(reverse: bool):  # noqa: ANN201
    return lambda x: lax.scan(lambda c, y: (c + y, c * y), jnp.zeros(3), x, reverse=reverse)


def scan_without_inputs(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lax.scan(lambda c, _: (c * 0.5, c.sum()), x, None, length=5, reverse=True)


def scan_closes_over(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    factor = jnp.tanh(x.sum())
    table = jnp.asarray(X)
    return lax.scan(lambda c, y: (c + factor * y, (y @ table.T, c)), x[0], x)


def nested(x: jax.Array) -> jax.Array:
    def outer(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        inner, _ = lax.scan(lambda c, y: (c * 0.9 + y, None), carry, row)
        doubled = lax.while_loop(lambda c: c < 3, lambda c: c * 2 + 1, inner * 0 + 1)
        return inner + doubled, inner

    return lax.scan(outer, jnp.float32(0), x)


def integer_carry(x: jax.Array) -> tuple[jax.Array, ...]:
    def body(carry: tuple[jax.Array, ...], y: jax.Array) -> tuple[tuple[jax.Array, ...], jax.Array]:
        count, flag, total = carry
        return (count + 1, ~flag, total + y.sum()), count

    return lax.scan(body, (jnp.int32(0), jnp.bool_(False), jnp.float32(0)), x)


def collatz(n: jax.Array) -> jax.Array:
    def step(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        value, steps = state
        return lax.cond(value % 2 == 0, lambda v: v // 2, lambda v: 3 * v + 1, value), steps + 1

    return lax.while_loop(lambda s: s[0] != 1, step, (n, jnp.int32(0)))


def batch_of_loops(n: jax.Array) -> jax.Array:
    return jax.vmap(lambda k: lax.while_loop(lambda s: s < 100, lambda s: s * k, k))(n)


def choice(index: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    branches = [
        lambda v: (v, v.sum()),
        lambda v: (v * 2, jnp.float32(7)),
        lambda v: (jnp.ones_like(v), v.max()),
        lambda v: (jnp.sin(v), v[0, 0]),
    ]
    return lax.switch(index, branches, x)


def cond_that_returns_what_it_got(x: jax.Array) -> tuple[jax.Array, ...]:
    return lax.cond(x[0, 0] > 0, lambda v: (v, v, X), lambda v: (v + 1, v, v), x)


def counted(n: jax.Array, x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, n, lambda i, c: c + i * 0.5, x)


def squared_thrice(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, 3, lambda _, c: c * c, x).sum()


W = np.linspace(-0.5, 0.5, 12, dtype=np.float32).reshape(3, 4)


def projected(reverse: bool):  # noqa: ANN201
    def step(c: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        scaled = jnp.tanh(y @ W + 0.5) * y.sum()
        return c * 0.5 + scaled, c.max() + scaled.max()

    return lambda x: lax.scan(step, jnp.ones(4), x, reverse=reverse)


def rows_by_number(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    def step(i: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        total, kept = state
        total = total + jnp.where(x[i] > 0, x[i], i * 0.25)
        return total, kept.at[i, 0].set(total.sum())

    return lax.fori_loop(0, 4, step, (jnp.zeros(3), x))


def backwards_by_number(x: jax.Array) -> jax.Array:
    def step(state: tuple[jax.Array, jax.Array], y: jax.Array) -> tuple[Any, jax.Array]:
        i, total = state
        return (i - 2, total * 0.5 + i * y), total + (i - 2)

    return lax.scan(step, (jnp.int32(9), jnp.zeros(3)), x, reverse=True)


def flags_by_number(x: jax.Array) -> jax.Array:
    def step(i: jax.Array, keep: jax.Array) -> jax.Array:
        return jnp.where(keep[i] & (x[i] > 0.1).any() & (jnp.arange(4) > i), False, keep)

    return lax.fori_loop(0, 4, step, jnp.ones(4, bool))


def branches_of_constants(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Calls a function with many branches, loops and captured values, all of constants."""
    number = np.float32(0.75)
    chosen = lax.cond(jnp.sin(number) > 0.9, jnp.sin, lambda y: jnp.tanh(y) * 2, x)
    return chosen, x, x + jax.scipy.special.exp1(number)


CASES = [
    Case("scan.forward", running_sum(False), (X,), covers=("scan",), **CLOSE),
    Case("scan.every_result_is_forwarded", lambda x: lax.map(lambda row: row.reshape(-1), x), (X,)),
    Case(
        "cond.every_result_is_forwarded",
        lambda x: lax.cond(x.sum() > 0, lambda y: y, lambda y: y.reshape(y.shape), x),
        (X,),
    ),
    Case("scan.reverse", running_sum(True), (X,), **CLOSE),
    Case("scan.without_inputs", scan_without_inputs, (X,), **CLOSE),
    Case("scan.closes_over", scan_closes_over, (X,), **CLOSE),
    Case("scan.nested", nested, (X,), **CLOSE),
    Case("scan.integer_carry", integer_carry, (X,), **CLOSE),
    Case("scan.no_rounds", running_sum(False), (X[:0],)),
    Case("scan.associative", lambda x: lax.associative_scan(jnp.multiply, x), (X,), **CLOSE),
    Case("while.collatz", collatz, (np.int32(27),), covers=("while", "cond")),
    Case("while.of_none", batch_of_loops, (np.zeros((0,), np.int32),)),
    Case("while.never", collatz, (np.int32(1),)),
    Case("while.batch", batch_of_loops, (np.array([2, 3, 50, 200], np.int32),)),
    Case("while.counted", counted, (np.int32(4), X), **CLOSE),
    *(Case(f"cond.switch_{i}", choice, (np.int32(i), X), **CLOSE) for i in (-1, 0, 1, 2, 3, 9)),
    Case("cond.true", cond_that_returns_what_it_got, (-X,)),
    Case("cond.of_constants", branches_of_constants, (X,), **CLOSE),
    Case("cond.false", cond_that_returns_what_it_got, (X,)),
    Case("scan.projected", projected(False), (X,), **CLOSE),
    Case("scan.projected_reverse", projected(True), (X,), **CLOSE),
    Case("scan.projected_nan", projected(False), (np.where(X > 0.9, np.nan, X),), **CLOSE),
    Case("scan.counts_backwards", backwards_by_number, (X,), **CLOSE),
    Case("fori.rows_by_number", rows_by_number, (X,), **CLOSE),
    Case("fori.flags_by_number", flags_by_number, (X,)),
    Case("fori.grad", jax.grad(squared_thrice), (X,), **CLOSE),
]
