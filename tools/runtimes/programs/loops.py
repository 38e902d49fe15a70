"""Recurrences, loops and branches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .program import floats, program, weights, whole


@program(floats(6, 2, 4))
def plain_rnn(xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(x @ weights(4, 8) + h @ weights(8, 8, seed=1))
        return h, h

    return lax.scan(step, jnp.zeros((2, 8)), xs)


@program(floats(5, 2, 4))
def lstm(xs: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ weights(4, 32) + h @ weights(8, 32, seed=1), 4, -1)
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((2, 8))
    return lax.scan(step, (zeros, zeros), xs)[1]


@program(floats(5, 2, 4))
def gru(xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        r, z, n = jnp.split(x @ weights(4, 24), 3, -1)
        hr, hz, hn = jnp.split(h @ weights(8, 24, seed=1), 3, -1)
        r, z = jax.nn.sigmoid(r + hr), jax.nn.sigmoid(z + hz)
        h = (1 - z) * jnp.tanh(n + r * hn) + z * h
        return h, h

    return lax.scan(step, jnp.zeros((2, 8)), xs)[0]


@program(floats(6, 3))
def reversed_scan(xs: Any) -> Any:
    return lax.scan(lambda c, x: (0.5 * c + x, c * x), jnp.zeros(3), xs, reverse=True)


@program(floats(6, 3), floats(3, seed=1))
def scan_that_captures(xs: Any, scale: Any) -> Any:
    return lax.scan(lambda c, x: (jnp.sin(c) * scale + x, c), jnp.zeros(3), xs)


@program(floats(4))
def scan_without_inputs(x: Any) -> Any:
    return lax.scan(lambda c, _: (c * 0.9 + 0.1, c), x, None, length=5)


@program(floats(4))
def repeated_squares(x: Any) -> Any:
    return lax.fori_loop(0, 5, lambda _, y: jnp.cos(y * y), x)


@program(floats(8))
def loop_over_indices(x: Any) -> Any:
    return lax.fori_loop(1, 8, lambda i, y: y.at[i].set(y[i - 1] * 0.5 + y[i]), x)


@program(np.asarray(7.0, np.float32))
def newton_iteration(x: Any) -> Any:
    def body(state: Any) -> Any:
        y, _ = state
        better = 0.5 * (y + x / y)
        return better, jnp.abs(better - y)

    return lax.while_loop(lambda s: s[1] > 1e-4, body, (x, jnp.float32(1)))[0]


@program(whole(50, 1, 3))
def greedy_decoding(tokens: Any) -> Any:
    table = weights(50, 50)

    def step(carry: Any) -> Any:
        last, out, i = carry
        following = jnp.argmax(table[last], -1)
        return following, lax.dynamic_update_index_in_dim(out, following, i, 1), i + 1

    start = (tokens[:, -1], jnp.zeros((1, 6), jnp.int32), 0)
    return lax.while_loop(lambda c: c[2] < 6, step, start)[1]


@program(floats(5), np.asarray(True))
def branches(x: Any, flag: Any) -> Any:
    return lax.cond(flag, lambda v: jnp.sin(v) + 1, lambda v: v * 2, x)


@program(floats(5), np.asarray(2, np.int32))
def switch_between_three(x: Any, which: Any) -> Any:
    return lax.switch(which, [jnp.sin, jnp.cos, jnp.tanh], x)


@program(floats(3))
def nested_loops(x: Any) -> Any:
    def outer(y: Any, i: Any) -> Any:
        inner = lax.fori_loop(0, 3, lambda _, z: z * 0.5 + i, y)
        return lax.cond(inner.sum() > 2, lambda: inner, lambda: y + 1), inner.sum()

    return lax.scan(outer, x, jnp.arange(4.0))


@program(floats(2))
def runge_kutta(y: Any) -> Any:
    def slope(y: Any) -> Any:
        return jnp.stack([y[1], -y[0] - 0.1 * y[1]])

    def step(y: Any, _: Any) -> Any:
        k1 = slope(y)
        k2 = slope(y + 0.05 * k1)
        return y + 0.1 * k2, y

    return lax.scan(step, y, None, length=10)


@program(floats(8, 2))
def associative_recurrence(x: Any) -> Any:
    decay = jax.nn.sigmoid(x)

    def join(a: Any, b: Any) -> Any:
        return a[0] * b[0], b[0] * a[1] + b[1]

    return lax.associative_scan(join, (decay, x))[1]


@program(floats(7, 3))
def running_totals(x: Any) -> Any:
    return jnp.cumsum(x, 0), jnp.cumprod(x, 0), lax.cummax(x), lax.cumsum(x, reverse=True)
