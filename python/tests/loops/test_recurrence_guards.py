"""Models run the loop if chunks of steps would compute other numbers.

Each program has a mode that doubles in each step and that no input excites. All numbers of the
loop are small integers, so that the loop is exact. The powers in chunks cancel, and their rounding
excites the mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from testkit import bench
from testkit.recurrences import always_in_chunks, check, has_chunks

STEPS, BLOCKS = 200, 40
PAIR = np.array([[1.5, 0.5], [0.5, 1.5]], np.float32)
"""A matrix that doubles sums of two numbers, and keeps their differences."""
SIGNS = np.array([1, -1], np.float32)
INPUT = np.random.default_rng(0).integers(-3, 4, STEPS).astype(np.float32)
PAIRS = INPUT[:, None] * SIGNS


def decayed(x: jax.Array, a: jax.Array) -> Any:
    """A state that stays one: it is doubled, and one is subtracted."""
    return lax.scan(lambda h, xs: (xs[1] * h + xs[0],) * 2, jnp.ones(3), (x, a))


def mixed(x: jax.Array, a: jax.Array) -> Any:
    return lax.scan(lambda h, x: (a @ h + x,) * 2, jnp.zeros(2), x)


def mixed_by_each(x: jax.Array, a: jax.Array) -> Any:
    return lax.scan(lambda h, xs: (xs[1] @ h + xs[0],) * 2, jnp.zeros(2), (x, a))


def blocks(x: jax.Array, a: jax.Array) -> Any:
    def step(state: Any, x: jax.Array) -> Any:
        p, q = state
        p, q = a[0] * p + a[1] * q + x, a[1] * p + a[0] * q - x
        return (p, q), p

    return lax.scan(step, (jnp.zeros(BLOCKS),) * 2, x)


def blocks_by_each(inputs: jax.Array, a: jax.Array) -> Any:
    def step(state: Any, xs: Any) -> Any:
        (p, q), (x, a) = state, xs
        p, q = a[0] * p + a[1] * q + x, a[1] * p + a[0] * q - x
        return (p, q), p

    return lax.scan(step, (jnp.zeros(BLOCKS),) * 2, (inputs, a))


def each(array: np.ndarray) -> np.ndarray:
    """Return the array for all steps."""
    return np.broadcast_to(array, (STEPS, *array.shape)).copy()


WIDE = np.broadcast_to(INPUT[:, None], (STEPS, BLOCKS)).copy()
COLUMNS = np.broadcast_to(PAIR[0][:, None], (2, BLOCKS)).copy()
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, np.ndarray]]] = {
    "decay": (decayed, (np.full((STEPS, 3), -1, np.float32), np.full((STEPS, 3), 2, np.float32))),
    "matrix": (mixed, (PAIRS, PAIR)),
    "matrix-of-each-step": (mixed_by_each, (PAIRS, each(PAIR))),
    "blocks": (blocks, (WIDE, COLUMNS)),
    "blocks-of-each-step": (blocks_by_each, (WIDE, each(COLUMNS))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_loop_runs_if_powers_would_cancel(name: str) -> None:
    fn, (x, a) = PROGRAMS[name]
    model = bench.convert(fn, (x, a))
    assert has_chunks(model)
    check(model, fn, x, a)
    # Chunks compute the numbers of a small matrix, and wrong numbers of this one.
    chunks = always_in_chunks(model)
    check(chunks, fn, x, a / 4)
    with pytest.raises(AssertionError):
        check(chunks, fn, x, a)
