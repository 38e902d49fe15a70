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


def measured(inputs: Any, noise: jax.Array) -> Any:
    """Estimate positions and velocities, with covariances that stay in the loop."""

    def step(state: Any, z: jax.Array) -> Any:
        mean, variance = state
        motion = jnp.array([[1.0, 0.1], [0.0, 1.0]])
        mean, variance = motion @ mean, motion @ variance @ motion.T + 0.01 * jnp.eye(2)
        gain = variance[:, 0] / (variance[0, 0] + noise)
        mean = mean + gain * (z - mean[0])
        return (mean, variance - jnp.outer(gain, variance[0])), (mean, gain)

    return lax.scan(step, (jnp.zeros(2), jnp.eye(2)), inputs[:, 0])


def with_gains(x: jax.Array) -> Any:
    def step(mean: jax.Array, x: jax.Array) -> Any:
        mean = jnp.array([mean[0] + 0.1 * mean[1], mean[1]])
        return mean + jax.nn.sigmoid(x[:2]) * (x[2] - mean[0]), mean.sum()

    return lax.scan(step, jnp.ones(2), x, reverse=True)


def turning(x: jax.Array) -> Any:
    def step(state: Any, x: jax.Array) -> Any:
        a, b, total = state
        c, s = jnp.cos(x), jnp.sin(x)
        a, b = 0.95 * (c * a - s * b) + x, 0.95 * (s * a + c * b)
        return (a, b, 0.5 * total + x[0] * total), a * jnp.tanh(b)

    return lax.scan(step, (X[0], X[1], jnp.float32(0.1)), x)


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
    "with-gains": (with_gains, ()),
    "turning": (turning, ()),
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


def test_a_state_that_is_not_linear_stays_in_a_smaller_loop() -> None:
    x, noise = draw(200, 1), np.array(0.5, np.float32)
    model = bench.convert(measured, (x, noise))
    assert has_chunks(model)
    check(model, measured, x, noise)
    for special in (np.nan, np.inf, 1e30):
        numbers = x.copy()
        numbers[70] = special
        check(model, measured, numbers, noise)


@pytest.mark.parametrize("scale", [0.01, 0.5, 1.0, 1.05, 3.0])
def test_a_product_of_matrices_that_vanishes_or_grows_is_right(scale: float) -> None:
    def run(x: jax.Array, a: jax.Array) -> Any:
        return lax.scan(lambda h, xs: (xs[1] @ h + xs[0],) * 2, jnp.ones(3), (x, a))

    x = draw(300, 3)
    a = np.stack([np.linalg.qr(draw(3, 3, seed=seed))[0] for seed in range(300)])
    a = (scale * a).astype(np.float32)
    model = bench.convert(run, (x, a))
    assert has_chunks(model)
    check(model, run, x, a)


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


WIDE = draw(STEPS, 40)
ANGLES = draw(40, seed=1)


def state_space(x: jax.Array, size: jax.Array, angle: jax.Array) -> Any:
    """Add inputs to complex states with poles of their own, as in S4D."""
    poles = jnp.exp(-jnp.exp(size) + 1j * angle)

    def step(h: jax.Array, x: jax.Array) -> Any:
        h = poles * h + (1 - poles) * x
        return h, (h.real.sum(), h)

    return lax.scan(step, jnp.ones(40, jnp.complex64), x, reverse=True)


def turned(x: jax.Array, c: jax.Array, s: jax.Array) -> Any:
    def step(state: Any, x: jax.Array) -> Any:
        a, b = state
        return (c * a - s * b + x, s * a + c * b), a

    return lax.scan(step, (x[0], x[1]), x)


def turned_by_each(x: jax.Array) -> Any:
    def step(h: jax.Array, x: jax.Array) -> Any:
        c, s = jnp.cos(x), jnp.sin(x)
        h = 0.95 * jnp.stack([c * h[0] - s * h[1], s * h[0] + c * h[1]]) + x
        return h, jnp.tanh(h)

    return lax.scan(step, jnp.ones((2, 40)), x)


def constant_poles(x: jax.Array) -> Any:
    poles = (0.95 * np.exp(1j * np.linspace(0, 3, 40))).astype(np.complex64)
    return lax.scan(lambda h, x: (poles * h + x,) * 2, jnp.zeros(40, jnp.complex64), x)


LANES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "state-space": (state_space, (0.1 * ANGLES - 3, ANGLES)),
    "turned": (turned, (np.cos(ANGLES), np.sin(ANGLES))),
    "turned-by-each": (turned_by_each, ()),
    "constant-poles": (constant_poles, ()),
}


@pytest.mark.parametrize("name", LANES)
def test_each_of_many_blocks_may_have_a_matrix_of_its_own(name: str) -> None:
    fn, arguments = LANES[name]
    for steps in (32, 33, 64, STEPS):
        model = bench.convert(fn, (WIDE[:steps], *arguments))
        assert has_chunks(model)
        check(model, fn, WIDE[:steps], *arguments)


@pytest.mark.parametrize("special", [0.0, 1e-40, 1e20, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", LANES)
def test_special_numbers_of_many_blocks_give_the_same_results(name: str, special: float) -> None:
    fn, arguments = LANES[name]
    model = bench.convert(fn, (WIDE, *arguments))
    x = WIDE.copy()
    x[[0, 40, 99], 3] = special
    check(model, fn, x, *arguments)
    # The size of a pole is below one.
    for place in range(len(arguments) if special <= 0 else 0):
        numbers = [argument.copy() for argument in arguments]
        numbers[place][5] = special
        check(model, fn, WIDE, *numbers)


def test_blocks_that_grow_are_right() -> None:
    model = bench.convert(state_space, (WIDE, ANGLES, ANGLES))
    for size in (-1e9, -1.0, 0.0):
        sizes = np.full_like(ANGLES, size)
        check(model, state_space, WIDE, sizes, ANGLES)

    def growing(x: jax.Array, scale: jax.Array) -> Any:
        def step(state: Any, x: jax.Array) -> Any:
            a, b = state
            return (scale * b + x, -scale * a), a

        return lax.scan(step, (x[0], x[1]), x)

    model = bench.convert(growing, (WIDE, ANGLES))
    assert has_chunks(model)
    for number in (0.0, 0.9, 1.0, 1.02, 1.2, 3.0, np.nan):
        scale = np.full_like(ANGLES, 0.5)
        scale[7] = number
        check(model, growing, WIDE, scale)


def test_rates_of_many_blocks_are_not_rounded() -> None:
    def run(x: jax.Array, rate: jax.Array) -> Any:
        def step(state: Any, x: jax.Array) -> Any:
            a, b = state
            return (a + rate * (x - a), b + rate * (a - b)), b

        return lax.scan(step, (x[0], x[1]), x)

    rates = (1e-4 * np.abs(ANGLES)).astype(np.float32)
    model = bench.convert(run, (WIDE, rates))
    assert not has_chunks(model)
    check(model, run, WIDE, rates)
