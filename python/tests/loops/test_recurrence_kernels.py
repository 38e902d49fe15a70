"""Few numbers that are read from many states are computed without the states of all steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax

from testkit import bench
from testkit.accuracy import graphs_of
from testkit.recurrences import always_in_chunks, check, draw, has_chunks

STEPS, POLES, COLUMNS = 96, 8, 3
X = draw(STEPS, COLUMNS)
ROTATIONS = (0.95 * np.exp(1j * np.linspace(0, 3, POLES))).astype(np.complex64)
OF_CHANNELS = (ROTATIONS * np.linspace(0.9, 1, COLUMNS)[:, None]).astype(np.complex64)
B, C = draw(2, POLES, seed=1)
DECAYS = np.linspace(-0.9, 0.99, 2 * POLES).astype(np.float32)
DENSE = np.linalg.qr(draw(2 * POLES, 2 * POLES, seed=2))[0].astype(np.float32)
GAINS = draw(COLUMNS, 2 * POLES, seed=3)


def s4d(x: jax.Array, b: jax.Array, c: jax.Array) -> Any:
    """Complex poles, which all columns share."""

    def step(h: jax.Array, x: jax.Array) -> Any:
        h = ROTATIONS[:, None] * h + b[:, None] * x
        return h, 2 * (c @ h).real

    return lax.scan(step, jnp.zeros((POLES, COLUMNS), jnp.complex64), x)[1]


def of_channels(x: jax.Array) -> Any:
    """Poles of each column, and constants alone."""

    def step(h: jax.Array, x: jax.Array) -> Any:
        h = OF_CHANNELS * h + B * x[:, None]
        return h, jnp.tanh((C * h).sum(-1).imag + 0.5 * x)

    return lax.scan(step, jnp.zeros((COLUMNS, POLES), jnp.complex64), x, reverse=True)[1]


def of_channels_computed(x: jax.Array, b: jax.Array, start: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        y = h.real.sum(-1)
        return OF_CHANNELS * h + b * x[:, None], (y, y * x)

    return lax.scan(step, start + 1j * start, x, reverse=True)[1]


def decays(x: jax.Array, c: jax.Array, start: jax.Array) -> Any:
    """A state of one row, which is a result too."""
    return lax.scan(lambda h, x: (DECAYS * h + x[0], c @ h), start, x[:, :1])


def dense(x: jax.Array, start: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        h = 0.9 * DENSE @ h + x @ GAINS
        return h, (h[:2], jax.nn.sigmoid(h[3]))

    return lax.scan(step, start, x, reverse=True)


def projected(x: jax.Array, w: jax.Array, mean: jax.Array, c: jax.Array) -> Any:
    """A step computes the number that enters the states, and adds to the one that it reads."""

    def step(h: jax.Array, x: jax.Array) -> Any:
        u = jax.nn.silu((x - mean) @ w)
        h = DECAYS * h + START * u
        return h, (jnp.tanh(c @ h + mean[0] + 0.3 * u), u)

    return lax.scan(step, jnp.zeros(2 * POLES), x)[1]


START = draw(2 * POLES, seed=4)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "s4d": (s4d, (B, C)),
    "of-channels": (of_channels, ()),
    "of-channels-computed": (of_channels_computed, (B, draw(COLUMNS, POLES))),
    "decays": (decays, (START, draw(2 * POLES, seed=5))),
    "dense": (dense, (START,)),
    "projected": (projected, (draw(COLUMNS), draw(COLUMNS), START)),
}


def has_kernels(model: onnx.ModelProto) -> bool:
    """Return whether a loop runs over chunks, and nothing else has as many nodes as their steps."""
    (chunks,) = [graph for graph in graphs_of(model) if graph.name == "recurrence/chunks"]
    operators = [node.op_type for node in chunks.node]
    return operators.count("Scan") == 1 and len(operators) < 30


@pytest.mark.parametrize("name", PROGRAMS)
def test_reads_are_computed_without_states(name: str) -> None:
    fn, arguments = PROGRAMS[name]
    for steps in (1, 31, 32, 37, 64, STEPS):
        model = bench.convert(fn, (X[:steps], *arguments))
        is_result = name in ("decays", "dense")
        if steps >= 32 and not (is_result and steps == 37):
            assert has_kernels(model), steps
        check(model, fn, X[:steps], *arguments)


@pytest.mark.parametrize("special", [0.0, 1e-40, 1e20, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", PROGRAMS)
def test_special_numbers_give_the_same_results(name: str, special: float) -> None:
    fn, arguments = PROGRAMS[name]
    model = bench.convert(fn, (X, *arguments))
    x = X.copy()
    x[[0, 40, STEPS - 1], 0] = special
    check(model, fn, x, *arguments)
    # The loop multiplies infinities by the zeros of imaginary parts in another order than JAX.
    for place in range(len(arguments) if not np.isinf(special) else 0):
        numbers = [argument.copy() for argument in arguments]
        numbers[place].flat[numbers[place].size // 2] = special
        check(model, fn, X, *numbers)


@pytest.mark.parametrize("size", [1e-23, 1e25])
def test_factors_whose_product_is_not_normal_give_the_same_results(size: float) -> None:
    """The product is part of a table, and the loop multiplies one factor after the other."""
    b, c = (np.full(POLES, size, np.float32) for _ in range(2))
    x = np.zeros((STEPS, COLUMNS), np.float32)
    x[5] = 1e17 if size < 1 else 1e-15
    model = bench.convert(s4d, (X, B, C))
    (wanted,) = bench.expected(s4d, (x, b, c))
    (found,) = bench.run(model, (x, b, c))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=np.abs(wanted).max() * 1e-6)
    (wrong,) = bench.run(always_in_chunks(model), (x, b, c))
    assert not np.allclose(wrong, wanted, rtol=1e-3, atol=np.abs(wanted).max() * 1e-3)


def test_poles_that_grow_stay_in_a_loop() -> None:
    def run(x: jax.Array, c: jax.Array) -> Any:
        grown = 3 * DECAYS
        return lax.scan(lambda h, x: (grown * h + x[0], c @ h), jnp.zeros(2 * POLES), x)[1]

    model = bench.convert(run, (X, START))
    assert not has_chunks(model) or not has_kernels(model)
    check(model, run, X, START)
