"""States that keep the largest or the smallest number so far are computed in chunks of steps."""

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

STEPS, SIZE = 100, 6
SPECIAL = [0.0, -0.0, 1e-40, 1e30, -1e30, np.nan, np.inf, -np.inf]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


X, D, H = draw(STEPS, SIZE), -np.abs(draw(STEPS, SIZE, seed=1)), draw(SIZE, seed=2)


def over(
    step: Callable[..., jax.Array], start: Any = H, *, reverse: bool = False
) -> Callable[..., Any]:
    def run(*xs: jax.Array) -> Any:
        def both(state: jax.Array, x: Any) -> Any:
            after = step(state, *x)
            return after, (after, jnp.exp(state - after))

        return lax.scan(both, jnp.asarray(start), xs, reverse=reverse)

    return run


def stabilizer(m: jax.Array, x: jax.Array, d: jax.Array) -> jax.Array:
    """The largest exponent so far of xLSTM."""
    return jnp.maximum(m + d, x)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "running-maximum": (over(jnp.maximum), (X,)),
    "running-minimum": (over(lambda m, x: jnp.minimum(x, m)), (X,)),
    "stabilizer": (over(stabilizer), (X, D)),
    "from-minus-infinity": (over(stabilizer, np.full(SIZE, -np.inf, np.float32)), (X, D)),
    "backwards": (over(stabilizer, reverse=True), (X, D)),
    "a-falling-peak": (over(lambda m, x: jnp.maximum(m - 0.1, x)), (X,)),
    "a-decay-of-each-channel": (over(lambda m, x: jnp.maximum(D[0] + m, x)), (X,)),
    "a-decay-of-each-step": (over(lambda m, x, d: jnp.minimum(x, m - d)), (X, D[:, :1])),
    "numbers": (over(stabilizer, 0.5), (X[:, 0], D[:, 0])),
    "an-input-of-one-number": (over(lambda m, x, d: jnp.maximum(m + d, x[0])), (X, D)),
}


def check(fn: Callable[..., Any], *inputs: np.ndarray) -> onnx.ModelProto:
    model = bench.convert(fn, inputs)
    compare(model, fn, *inputs)
    return model


def compare(model: onnx.ModelProto, fn: Callable[..., Any], *inputs: np.ndarray) -> None:
    for found, want in zip(bench.run(model, inputs), bench.expected(fn, inputs), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=2e-6)


def is_chunked(model: onnx.ModelProto) -> bool:
    return any(graph.name == "recurrence/chunks" for graph in graphs_of(model))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_peak_is_computed_in_chunks(name: str) -> None:
    fn, inputs = PROGRAMS[name]
    assert is_chunked(check(fn, *inputs))


@pytest.mark.parametrize("steps", [32, 37, 64, 97])
def test_the_last_chunk_of_a_peak_may_be_shorter(steps: int) -> None:
    for name in ("running-maximum", "stabilizer", "backwards"):
        fn, inputs = PROGRAMS[name]
        assert is_chunked(check(fn, *(x[:steps] for x in inputs)))


@pytest.mark.parametrize("special", SPECIAL)
def test_special_numbers_give_the_same_peaks(special: float) -> None:
    for name in ("running-maximum", "stabilizer", "from-minus-infinity", "backwards"):
        fn, inputs = PROGRAMS[name]
        model = bench.convert(fn, inputs)
        for place in range(len(inputs)):
            changed = [x.copy() for x in inputs]
            changed[place][20:23, :3] = changed[place][70, 4] = special
            compare(model, fn, *changed)


def test_the_number_of_steps_of_a_peak_may_be_symbolic() -> None:
    fn, _ = PROGRAMS["stabilizer"]
    model = bench.convert(fn, [("T", SIZE)] * 2)
    assert is_chunked(model)
    for steps in (0, 1, 31, 32, 33, 100):
        compare(model, fn, X[:steps], D[:steps])


@pytest.mark.parametrize(
    "step",
    [
        lambda m, x: jnp.maximum(m * 0.9, x),
        lambda m, x: jnp.maximum(m + jnp.tanh(m), x),
        lambda m, x: jnp.maximum(x - m, 0.5),
        lambda m, x: jnp.maximum(m, m - x),
    ],
)
def test_other_peaks_stay_in_their_loops(step: Callable[..., jax.Array]) -> None:
    assert not is_chunked(check(over(step), X))
