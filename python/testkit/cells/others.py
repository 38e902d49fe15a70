"""Plain cells, and near misses."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .base import (
    B1,
    B3,
    B4,
    BATCH,
    C3,
    DEPTH,
    LENGTHS,
    SIZE,
    STEPS,
    U1,
    U3,
    U4,
    W1,
    W3,
    W4,
    cell,
    gru_step,
    memories,
    over,
    sequence,
    split,
    weights,
    zeros,
)

# Plain cells: a scan takes less time than `RNN`.


@cell(None)
def rnn_of_tanh(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        h = jnp.tanh(x @ W1 + h @ U1 + B1)
        return h, h

    return over(step, xs)


@cell(None)
def rnn_of_relu(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        h = jax.nn.relu(jnp.concatenate([h, x], -1) @ weights(SIZE + DEPTH, SIZE) + B1)
        return h, h

    return over(step, xs)[1]


# Near misses.


@cell(None)
def gru_with_a_residual(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        h = gru_step(h, x) + h
        return h, h

    return over(step, xs)


@cell(None)
def gru_with_another_activation(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(x @ W3 + B3, 3), split(h @ U3 + C3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - z) * jax.nn.silu(xn + r * hn) + z * h
        return h, h

    return over(step, xs)


@cell(None)
def gru_with_other_mixtures(xs: jax.Array) -> Any:
    """The shares of the old and the new state are of different gates."""

    def step(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(x @ W3 + B3, 3), split(h @ U3 + C3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - r) * jnp.tanh(xn + r * hn) + z * h
        return h, h

    return over(step, xs)


@cell(None)
def gru_with_a_bias_behind_the_reset_gate(xs: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        (xr, xz, xn), (hr, hz, hn) = split(x @ W3 + B3, 3), split(h @ U3 + C3, 3)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - z) * jnp.tanh(r * (xn + hn)) + z * h
        return h, h

    return over(step, xs)


@cell(None)
def gru_of_the_next_input(xs: jax.Array) -> Any:
    """The candidate reads the state of another step."""

    def step(state: Any, x: jax.Array) -> Any:
        before, h = state
        return (h, gru_step(before, x)), h

    return over(step, xs, memories(xs))


@cell(None)
def lstm_with_a_clipped_memory(xs: jax.Array) -> Any:
    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        c = jnp.clip(jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g), -0.5, 0.5)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return over(step, xs, memories(xs))


@cell(None)
def lstm_without_the_last_tanh(xs: jax.Array) -> Any:
    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * c
        return (h, c), h

    return over(step, xs, memories(xs))


@cell(None)
def lstm_of_the_old_memory(xs: jax.Array) -> Any:
    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = split(x @ W4 + h @ U4 + B4, 4)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (h, c), h

    return over(step, xs, memories(xs))


@cell("GRU", sequence(STEPS, BATCH, DEPTH), LENGTHS)
def gru_masked_by_another_order(xs: jax.Array, lengths: jax.Array) -> Any:
    """The first steps are padding, and not the last ones. Where the mask is not one of lengths, the
    scan runs."""

    def step(h: jax.Array, given: Any) -> Any:
        t, x = given
        h = jnp.where((t >= lengths)[:, None], gru_step(h, x), h)
        return h, h

    return over(step, (jnp.arange(STEPS), xs), zeros(xs))  # type: ignore[arg-type]
