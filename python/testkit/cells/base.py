"""The shared parts of the programs with cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Fn = Callable[..., Any]

STEPS, BATCH, DEPTH, SIZE = 6, 3, 4, 5


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)


def sequence(*shape: int) -> np.ndarray:
    return np.random.default_rng(9).normal(size=shape).astype(np.float32)


@dataclass(frozen=True)
class Cell:
    """A program, the operator that it becomes (none for a near miss), and example inputs."""

    name: str
    fn: Fn
    operator: str | None
    inputs: tuple[np.ndarray, ...] = (sequence(STEPS, BATCH, DEPTH),)
    count: int = 1
    """Return the number of these operators."""


CELLS: dict[str, Cell] = {}


def cell(operator: str | None, *inputs: np.ndarray, count: int = 1) -> Any:
    def register(fn: Fn) -> Fn:
        name = fn.__name__
        given = inputs or (sequence(STEPS, BATCH, DEPTH),)
        CELLS[name] = Cell(name, fn, operator, given, count)
        return fn

    return register


W3, U3 = weights(DEPTH, 3 * SIZE, seed=1), weights(SIZE, 3 * SIZE, seed=2)
W4, U4 = weights(DEPTH, 4 * SIZE, seed=3), weights(SIZE, 4 * SIZE, seed=4)
B3, C3 = weights(3 * SIZE, seed=5), weights(3 * SIZE, seed=6)
B4 = weights(4 * SIZE, seed=7)
V3, V4 = weights(DEPTH + SIZE, 3 * SIZE, seed=8), weights(DEPTH + SIZE, 4 * SIZE, seed=9)
W1, U1, B1 = weights(DEPTH, SIZE, seed=10), weights(SIZE, SIZE, seed=11), weights(SIZE, seed=12)


def split(x: jax.Array, parts: int) -> list[jax.Array]:
    return jnp.split(x, parts, axis=-1)


def zeros(x: jax.Array) -> jax.Array:
    return jnp.zeros((x.shape[1], SIZE), x.dtype)


def over(step: Fn, xs: jax.Array, start: Any = None, **options: Any) -> Any:
    return lax.scan(step, zeros(xs) if start is None else start, xs, **options)


def memories(xs: jax.Array) -> tuple[jax.Array, jax.Array]:
    return zeros(xs), zeros(xs)


def gru_step(h: jax.Array, x: jax.Array) -> jax.Array:
    (xr, xz, xn), (hr, hz, hn) = split(x @ W3 + B3, 3), split(h @ U3 + C3, 3)
    r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
    return (1 - z) * jnp.tanh(xn + r * hn) + z * h


LENGTHS = np.array([6, 2, 0], np.int32)
