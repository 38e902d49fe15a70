"""States that leave their loop while others stay, and numbers of steps that are symbolic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from testkit import bench
from testkit.recurrences import check, draw, gates, has_chunks

STEPS, SIZE = 150, 6
SPECIAL = [0.0, 1.5, -0.7, 1e30, np.nan, np.inf, -np.inf]

X, Y, A = draw(STEPS, SIZE), draw(STEPS, SIZE, seed=1), gates(STEPS, SIZE, seed=2)
H, W = draw(SIZE, seed=3), -np.exp(draw(SIZE, seed=4))


def weighted(k: jax.Array, v: jax.Array) -> Any:
    """The average of RWKV-4, whose sums are scaled by the largest exponent so far."""

    def step(state: Any, x: Any) -> Any:
        a, b, top = state
        k, v = x
        high = jnp.maximum(top, H + k)
        old, new = jnp.exp(top - high), jnp.exp(H + k - high)
        y = (old * a + new * v) / (old * b + new)
        high = jnp.maximum(top + W, k)
        old, new = jnp.exp(top + W - high), jnp.exp(k - high)
        return (old * a + new * v, old * b + new, high), y

    zeros = jnp.zeros(SIZE)
    return lax.scan(step, (zeros, zeros, zeros - 1e38), (k, v))


def filtered(y: jax.Array, rates: jax.Array) -> Any:
    """A Kalman filter of numbers: the gain does not depend on the data."""

    def step(state: Any, x: Any) -> Any:
        mean, spread = state
        y, rate = x
        spread = spread + rate
        gain = spread / (spread + 0.1)
        mean = mean + gain * (y - mean)
        return (mean, (1 - gain) * spread), mean

    return lax.scan(step, (jnp.zeros(SIZE), jnp.ones(SIZE)), (y, rates))


def gated_by_a_cell(x: jax.Array, y: jax.Array) -> Any:
    """An average whose gate is another recurrent state."""

    def step(state: Any, x: Any) -> Any:
        h, mean = state
        x, y = x
        h = jnp.tanh(0.5 * h + x)
        gate = jax.nn.sigmoid(h)
        mean = gate * mean + (1 - gate) * y
        return (h, mean), (mean * h, h)

    return lax.scan(step, (H, jnp.zeros(SIZE)), (x, y))


APART: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "weighted": (weighted, (X, Y)),
    "filtered": (filtered, (Y, A)),
    "gated-by-a-cell": (gated_by_a_cell, (X, Y)),
}


# The state that stays keeps the largest number so far, and leaves its loop afterwards.
PEAKS = {"weighted"}


@pytest.mark.parametrize("name", APART)
def test_a_state_that_no_other_state_reads_leaves_its_loop(name: str) -> None:
    fn, inputs = APART[name]
    model = bench.convert(fn, inputs)
    check(model, fn, *inputs)
    assert has_chunks(model)
    assert name in PEAKS or any(node.op_type == "Scan" for node in model.graph.node)


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("name", APART)
def test_special_numbers_give_the_same_results_apart(name: str, special: float) -> None:
    fn, (x, y) = APART[name]
    model = bench.convert(fn, (x, y))
    for place in range(2):
        inputs = [x.copy(), y.copy()]
        inputs[place][40, :3] = special
        check(model, fn, *inputs)


def test_a_state_stays_in_a_short_loop_with_another_state() -> None:
    fn, inputs = APART["filtered"]
    assert not has_chunks(bench.convert(fn, tuple(x[:100] for x in inputs)))


def decayed(x: jax.Array, a: jax.Array, *, reverse: bool = False) -> Any:
    return lax.scan(lambda h, x: (x[1] * h + x[0],) * 2, H, (x, a), reverse=reverse)


def average(x: jax.Array, _: jax.Array, *, reverse: bool = False) -> Any:
    return lax.scan(lambda h, x: (0.9 * h + 0.1 * x,) * 2, H, x, reverse=reverse)


SYMBOLIC: dict[str, Callable[..., Any]] = {
    "decayed": decayed,
    "decayed-backwards": lambda *x: decayed(*x, reverse=True),
    "one-decay-for-each-step": lambda x, a: decayed(x, a[:, :1]),
    "average": average,
    "average-backwards": lambda *x: average(*x, reverse=True),
    "weighted": weighted,
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_the_number_of_steps_may_be_symbolic(name: str) -> None:
    fn = SYMBOLIC[name]
    model = bench.convert(fn, [("T", SIZE)] * 2)
    assert has_chunks(model)
    for steps in (0, 1, 31, 32, 33, 127, 128, 150):
        check(model, fn, X[:steps], A[:steps])
    many = draw(1000, SIZE, seed=5), gates(1000, SIZE, seed=6)
    check(model, fn, *many)


@pytest.mark.parametrize("derivative", [jax.jacfwd, jax.jacrev, jax.hessian])
def test_a_derivative_may_have_a_symbolic_number_of_steps(
    derivative: Any,
) -> None:
    def fn(x: jax.Array) -> jax.Array:
        return lax.scan(lambda c, t: (c * t + 1, c), jnp.float32(1), x)[1].sum()

    model = bench.convert(derivative(fn), [("T",)])
    for steps in (0, 1, 3, 40):
        check(model, derivative(fn), X[:steps, 0] * 0.1)
