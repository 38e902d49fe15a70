"""Recurrent cells written by hand, with random weights, for sequences of any length.

They use plain JAX alone, so that any exporter can be given them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Fn = Callable[..., Any]

DEPTH, SIZE = 64, 128
STEPS = 256


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    scale = 1.0 / np.sqrt(shape[0])
    return (scale * np.random.default_rng(seed).normal(size=shape)).astype(np.float32)


def gru_step(w: Any, u: Any, b: Any, c: Any) -> Fn:
    """The gates in one product, split in three, with the reset gate after the product."""

    def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        (xr, xz, xn), (hr, hz, hn) = jnp.split(x @ w + b, 3, -1), jnp.split(h @ u + c, 3, -1)
        reset, update = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        h = (1 - update) * jnp.tanh(xn + reset * hn) + update * h
        return h, h

    return step


def gru() -> Fn:
    """A GRU of a batch."""
    arrays = (
        weights(DEPTH, 3 * SIZE),
        weights(SIZE, 3 * SIZE, seed=1),
        weights(3 * SIZE, seed=2),
        weights(3 * SIZE, seed=3),
    )
    step = gru_step(*arrays)
    return lambda xs: lax.scan(step, jnp.zeros((xs.shape[1], SIZE)), xs)[1]


def gru_by_exponentials() -> Fn:
    """A GRU that moves its state, with sigmoids written as quotients."""
    w, u = weights(DEPTH + SIZE, 2 * SIZE), weights(DEPTH + SIZE, SIZE, seed=1)

    def sigmoid(x: jax.Array) -> jax.Array:
        return 1.0 / (1.0 + jnp.exp(-x))

    def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        reset, update = jnp.split(sigmoid(jnp.concatenate([x, h], -1) @ w), 2, -1)
        new = jnp.tanh(jnp.concatenate([x, reset * h], -1) @ u)
        h = h + update * (new - h)
        return h, h

    return lambda xs: lax.scan(step, jnp.zeros((xs.shape[1], SIZE)), xs)[1]


def masked_gru() -> Fn:
    """A GRU that keeps its state beyond the length of an example."""
    arrays = (
        weights(DEPTH, 3 * SIZE),
        weights(SIZE, 3 * SIZE, seed=1),
        weights(3 * SIZE, seed=2),
        weights(3 * SIZE, seed=3),
    )
    cell = gru_step(*arrays)

    def run(xs: jax.Array, lengths: jax.Array) -> jax.Array:
        def step(h: jax.Array, given: Any) -> tuple[jax.Array, jax.Array]:
            t, x = given
            h = jnp.where((t < lengths)[:, None], cell(h, x)[0], h)
            return h, h

        times = jnp.arange(xs.shape[0])
        return lax.scan(step, jnp.zeros((xs.shape[1], SIZE)), (times, xs))[1]

    return run


def lstm() -> Fn:
    """An LSTM of one example, with the input and the state in one product."""
    w, b = weights(DEPTH + SIZE, 4 * SIZE), weights(4 * SIZE, seed=1)

    def step(state: Any, x: jax.Array) -> tuple[Any, jax.Array]:
        h, c = state
        i, f, g, o = jnp.split(jnp.concatenate([x, h], -1) @ w + b, 4, -1)
        c = jax.nn.sigmoid(f + 1.0) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lambda xs: lax.scan(step, (jnp.zeros(SIZE), jnp.zeros(SIZE)), xs)[1]


def two_lstms() -> Fn:
    """Two layers in one step, for a batch."""
    layers = [
        (weights(depth, 4 * SIZE, seed=seed), weights(SIZE, 4 * SIZE, seed=seed + 1))
        for depth, seed in ((DEPTH, 0), (SIZE, 2))
    ]

    def step(states: Any, x: jax.Array) -> tuple[Any, jax.Array]:
        new = []
        for (w, u), (h, c) in zip(layers, states, strict=True):
            i, f, g, o = jnp.split(x @ w + h @ u, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            x = jax.nn.sigmoid(o) * jnp.tanh(c)
            new.append((x, c))
        return new, x

    def run(xs: jax.Array) -> jax.Array:
        zeros = jnp.zeros((xs.shape[1], SIZE))
        return lax.scan(step, [(zeros, zeros)] * 2, xs)[1]

    return run


def plain() -> Fn:
    """A plain recurrent cell with biases."""
    w, u, b = weights(DEPTH, SIZE), weights(SIZE, SIZE, seed=1), weights(SIZE, seed=2)

    def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = jnp.tanh(x @ w + h @ u + b)
        return h, h

    return lambda xs: lax.scan(step, jnp.zeros((xs.shape[1], SIZE)), xs)[1]


def batch(size: int) -> Callable[[], list[np.ndarray]]:
    return lambda: [weights(STEPS, size, DEPTH, seed=9)]


CELLS: dict[str, tuple[Callable[[], Fn], Callable[[], list[np.ndarray]]]] = {
    "hand-gru": (gru, batch(1)),
    "hand-gru-8": (gru, batch(8)),
    "moved-gru": (gru_by_exponentials, batch(4)),
    "masked-gru": (masked_gru, lambda: [*batch(4)(), np.array([256, 200, 31, 7], np.int32)]),
    "hand-lstm": (lstm, lambda: [weights(STEPS, DEPTH, seed=9)]),
    "two-lstms": (two_lstms, batch(4)),
    "plain-cell": (plain, batch(1)),
    "plain-cell-8": (plain, batch(8)),
}
