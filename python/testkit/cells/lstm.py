"""Ways of writing an LSTM."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .base import (
    B3,
    B4,
    BATCH,
    DEPTH,
    LENGTHS,
    SIZE,
    STEPS,
    U3,
    U4,
    V4,
    W3,
    W4,
    cell,
    memories,
    over,
    sequence,
    split,
)


@cell("LSTM")
def lstm_of_one_product(xs: jax.Array) -> Any:
    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(jnp.concatenate([x, h], -1) @ V4 + B4, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return over(step, xs, memories(xs))


@cell("LSTM")
def lstm_with_a_forget_bias(xs: jax.Array) -> Any:
    """The gates of TensorFlow's basic cell."""

    def step(state: Any, x: jax.Array) -> Any:
        c, h = state
        i, g, f, o = split(jnp.concatenate([x, h], -1) @ V4 + B4, 4)
        c = c * jax.nn.sigmoid(f + 1.0) + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jnp.tanh(c) * jax.nn.sigmoid(o)
        return (c, h), h

    return over(step, xs, memories(xs))[1]


@cell("LSTM")
def lstm_of_one_sigmoid(xs: jax.Array) -> Any:
    """One sigmoid computes three gates."""

    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        z = x @ W4 + h @ U4 + B4
        i, f, o = split(jax.nn.sigmoid(z[:, : 3 * SIZE]), 3)
        c = f * c + i * jnp.tanh(z[:, 3 * SIZE :])
        h = o * jnp.tanh(c)
        return (h, c), h

    return over(step, xs, memories(xs))[1]


@cell("LSTM")
def lstm_of_one_tanh(xs: jax.Array) -> Any:
    """The sigmoids are written with the tangent."""

    def sigmoid(x: jax.Array) -> jax.Array:
        return jnp.tanh(x * 0.5) * 0.5 + 0.5

    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
        h = sigmoid(o) * jnp.tanh(c)
        return (h, c), c

    return over(step, xs, memories(xs))[0]


@cell("LSTM")
def lstm_of_eight_products(xs: jax.Array) -> Any:
    (wi, wf, wg, wo), (ui, uf, ug, uo) = np.split(W4, 4, -1), np.split(U4, 4, -1)
    bi, bf, bg, bo = np.split(B4, 4)

    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i = jax.nn.sigmoid(bi + x @ wi + h @ ui)
        f = jax.nn.sigmoid(bf + x @ wf + h @ uf)
        g = jnp.tanh(bg + x @ wg + h @ ug)
        o = jax.nn.sigmoid(bo + x @ wo + h @ uo)
        c = f * c + i * g
        h = o * jnp.tanh(c)
        return (h, c), h

    return over(step, xs, memories(xs))


@cell("LSTM")
def lstm_with_projected_inputs(xs: jax.Array) -> Any:
    def step(state: Any, gx: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(gx + h @ U4, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(step, memories(xs), xs @ W4 + B4)


@cell("LSTM", sequence(STEPS, BATCH, DEPTH), LENGTHS)
def lstm_masked_by_length(xs: jax.Array, lengths: jax.Array) -> Any:
    def step(state: Any, given: Any) -> Any:
        t, x = given
        h, c = state
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        new_c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        new_h = jax.nn.sigmoid(o) * jnp.tanh(new_c)
        is_valid = (t < lengths)[:, None]
        h, c = jnp.where(is_valid, new_h, h), jnp.where(is_valid, new_c, c)
        return (h, c), jnp.where(is_valid, new_h, 0.0)

    return over(step, (jnp.arange(STEPS), xs), memories(xs))  # type: ignore[arg-type]


@cell("LSTM", sequence(BATCH, STEPS, DEPTH))
def lstm_by_vmap(xs: jax.Array) -> Any:
    w, u = W4.T.copy(), U4.T.copy()

    def run(x: jax.Array) -> Any:
        def step(state: Any, x: jax.Array) -> Any:
            h, c = state
            i, f, g, o = jnp.split(w @ x + u @ h + B4, 4)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return lax.scan(step, (jnp.zeros(SIZE), jnp.zeros(SIZE)), x)

    return jax.vmap(run)(xs)


@cell("LSTM")
def lstm_with_peepholes(xs: jax.Array) -> Any:
    pi, pf, po = np.split(B4[: 3 * SIZE], 3)

    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        i, f = jax.nn.sigmoid(i + pi * c), jax.nn.sigmoid(f + pf * c)
        c = f * c + i * jnp.tanh(g)
        h = jax.nn.sigmoid(o + po * c) * jnp.tanh(c)
        return (h, c), h

    return over(step, xs, memories(xs))


@cell("LSTM")
def lstm_with_coupled_gates(xs: jax.Array) -> Any:
    """The input gate is what the forget gate leaves."""

    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        f, g, o = split(x @ W3 + h @ U3 + B3, 3)
        f = jax.nn.sigmoid(f)
        c = f * c + (1 - f) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return over(step, xs, memories(xs))


@cell(None)
def lstm_state_as_one_array(xs: jax.Array) -> Any:
    def step(state: jax.Array, x: jax.Array) -> Any:
        h, c = split(state, 2)
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return jnp.concatenate([h, c], -1), h

    return over(step, xs, jnp.zeros((xs.shape[1], 2 * SIZE)))


@cell(None)
def lstm_with_both_states_stacked(xs: jax.Array) -> Any:
    """The memory of each step is a result too: ONNX's operator only has the last one."""

    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), (h, c)

    return over(step, xs, memories(xs))
