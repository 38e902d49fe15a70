"""States that a matrix mixes are computed in chunks of steps, if the model computes the matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from testkit import bench
from testkit.recurrences import check, draw, has_chunks

STEPS, SIZE = 100, 6
X = draw(STEPS, SIZE)


def biquad(x: jax.Array, b: jax.Array, a: jax.Array) -> Any:
    def step(state: Any, x: jax.Array) -> Any:
        x1, x2, y1, y2 = state
        y = b[0] * x + b[1] * x1 + b[2] * x2 - a[0] * y1 - a[1] * y2
        return (x, x1, y, y1), y

    return lax.scan(step, (jnp.zeros(SIZE),) * 4, x)


def transposed_filter(x: jax.Array, b: jax.Array, a: jax.Array) -> Any:
    def step(z: jax.Array, x: jax.Array) -> Any:
        y = b[0] * x + z[0]
        return b[1:] * x - a * y + jnp.concatenate([z[1:], jnp.zeros(1)]), y

    return lax.scan(step, jnp.ones(2), x[:, 0], reverse=True)


def trend(x: jax.Array, level: jax.Array, slope: jax.Array) -> Any:
    """Smooth a series and its trend."""

    def step(state: Any, x: jax.Array) -> Any:
        last, rate = state
        now = level * x + (1 - level) * (last + rate)
        return (now, slope * (now - last) + (1 - slope) * rate), now + rate

    return lax.scan(step, (x[0], x[1] - x[0]), x)


def kalman(x: jax.Array, motion: jax.Array, gain: jax.Array, scale: jax.Array) -> Any:
    def step(mean: jax.Array, x: jax.Array) -> Any:
        mean = motion @ mean / scale
        mean = mean + gain @ (x[:2] - mean[:2])
        return mean, (mean, mean[0] * x[2])

    return lax.scan(step, jnp.arange(4.0), x)


def leaky(x: jax.Array, rate: jax.Array) -> Any:
    return lax.scan(lambda y, x: (y + rate * (x - y),) * 2, jnp.zeros(SIZE), x)


def below(x: jax.Array, decays: jax.Array) -> Any:
    """Two filters, the second one of which reads the first one."""

    def step(state: Any, x: jax.Array) -> Any:
        low, high = state
        low = decays[0] * low + x
        high = decays[1] * high - low.sum()
        return (low, high), high * jnp.tanh(low)

    return lax.scan(step, (X[0], jnp.float32(2)), x)


MOTION = np.eye(4, dtype=np.float32)
MOTION[0, 2] = MOTION[1, 3] = 0.1
GAIN = np.array([[0.3, 0], [0, 0.3], [0.2, 0], [0, 0.2]], np.float32)
NUMBER = np.array(0.3, np.float32)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "biquad": (biquad, (draw(3), np.array([-0.5, 0.3], np.float32))),
    "transposed-filter": (transposed_filter, (draw(3), np.array([-0.5, 0.3], np.float32))),
    "trend": (trend, (NUMBER, NUMBER)),
    "kalman": (kalman, (MOTION, GAIN, np.array(1.1, np.float32))),
    "leaky": (leaky, (NUMBER,)),
    "below": (below, (np.array([0.9, 0.3], np.float32),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_matrix_of_arguments_is_computed_by_the_model(name: str) -> None:
    fn, arguments = PROGRAMS[name]
    for steps in (2, 32, 33, STEPS):
        x = X[:steps]
        model = bench.convert(fn, (x, *arguments))
        assert has_chunks(model) == (steps >= 32)
        check(model, fn, x, *arguments)


@pytest.mark.parametrize("special", [0.0, -1.2, 1.3, 1e-40, 1e20, np.inf, np.nan])
@pytest.mark.parametrize("name", PROGRAMS)
def test_special_numbers_give_the_same_results(name: str, special: float) -> None:
    fn, arguments = PROGRAMS[name]
    model = bench.convert(fn, (X, *arguments))
    # Large factors overflow in another step of JAX, which multiplies and adds with one rounding.
    for place in range(len(arguments) if special != 1e20 else 0):
        numbers = [argument.copy() for argument in arguments]
        numbers[place].flat[-1] = special
        check(model, fn, X, *numbers)
    x = X.copy()
    x[40, 0] = special
    check(model, fn, x, *arguments)


def test_a_small_rate_is_not_rounded() -> None:
    """The loop rounds sums, and the decay would be rounded in the same direction in each step."""
    x, rate = 1 + 0.1 * draw(4096, SIZE), np.array(1e-4, np.float32)
    model = bench.convert(leaky, (x, rate))
    assert has_chunks(model)
    state, wanted = np.zeros(SIZE), []
    for row in x.astype(float):
        state = state + float(rate) * (row - state)
        wanted.append(state)
    found, loop = bench.run(model, (x, rate))[1], bench.expected(leaky, (x, rate))[1]
    errors = [np.abs(one - np.array(wanted)).max() for one in (found, loop)]
    assert errors[0] <= errors[1] + 1e-7


def test_each_of_many_states_keeps_a_matrix_of_its_own_in_the_loop() -> None:
    def turned(x: jax.Array, angles: jax.Array) -> Any:
        def step(state: Any, x: jax.Array) -> Any:
            a, b = state
            c, s = jnp.cos(angles), jnp.sin(angles)
            return (c * a - s * b + x, s * a + c * b), a

        return lax.scan(step, (X[0], X[1]), x)

    model = bench.convert(turned, (X, X[2]))
    assert not has_chunks(model)
    check(model, turned, X, X[2])
