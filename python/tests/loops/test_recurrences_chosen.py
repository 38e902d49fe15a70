"""Updates that a condition chooses, products of decays, and several recurrences in one scan."""

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
SPECIAL = [0.0, 1e30, np.nan, np.inf, -np.inf]

X, Y, A = draw(STEPS, SIZE), draw(STEPS, SIZE, seed=1), gates(STEPS, SIZE, seed=2)
H, W = draw(SIZE, seed=3), jnp.asarray(draw(SIZE, SIZE, seed=4) / 3)


def over(step: Callable[..., Any], start: Any = H, *, reverse: bool = False) -> Callable[..., Any]:
    """The scan of a step whose state is also its result."""

    def run(*xs: jax.Array) -> Any:
        return lax.scan(lambda h, x: (step(h, *x),) * 2, jnp.asarray(start), xs, reverse=reverse)

    return run


def restarted(h: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """The average of an episode, which begins where `y` is large."""
    return 0.9 * jnp.where(y > 1, 0.0, h) + 0.1 * x


def restarted_from(h: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.where(y[0] > 0.5, H, h) * jax.nn.sigmoid(y) + x


def masked(h: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """A step that padding skips."""
    return jnp.where(y[0] > 0, jax.nn.sigmoid(x) * h + x, h)


def nested(h: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    h = jnp.where(y > 1.0, 0.0, h)
    return jnp.where(y < -1, 0.5 * h + x, jnp.where(x > 0, h + 0.1 * x, h - 0.1 * y))


CHOSEN: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "restarted": (over(restarted), (X, Y)),
    "restarted-backwards": (over(restarted, reverse=True), (X, Y)),
    "restarted-from": (over(restarted_from), (X, Y)),
    "masked": (over(masked), (X, Y)),
    "nested": (over(nested), (X, Y)),
    "last-valid": (over(lambda h, x: jnp.where(x > 0, x, h)), (X,)),
    "steps-since": (over(lambda h, x: jnp.where(x > 1, 0.0, h + 1)), (X,)),
    "a-constant-choice": (over(lambda h, x: jnp.where(H > 0, 0.5 * h, 0.0) + x), (X,)),
}


def returns(h: jax.Array, x: jax.Array) -> jax.Array:
    return h * (1 + 0.01 * x)


PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "returns": (over(returns), (X,)),
    "returns-backwards": (over(returns, reverse=True), (X,)),
    "a-price": (over(lambda h, x: h * jnp.exp(0.02 * x - 1e-4)), (X,)),
    "powers": (over(lambda h, x: 0.95 * h), (X,)),
}


def drawdown(x: jax.Array) -> Any:
    """A price, and its largest value so far."""

    def step(state: Any, x: jax.Array) -> Any:
        price, peak = state
        price = price * (1 + 0.01 * x)
        peak = jnp.maximum(peak, price)
        return (price, peak), price / peak - 1

    return lax.scan(step, (jnp.ones(SIZE), jnp.ones(SIZE)), x)


def layers(x: jax.Array, *, reverse: bool = False) -> Any:
    """Two layers of minGRU, in one loop over the steps."""

    def layer(h: jax.Array, x: jax.Array, w: jax.Array) -> jax.Array:
        z = jax.nn.sigmoid(x @ w)
        return (1 - z) * h + z * (x @ w.T)

    def step(state: Any, x: jax.Array) -> Any:
        low, high = state
        low = layer(low, x, W)
        high = layer(high, jnp.tanh(low), 2 * W)
        return (low, high), (high, low)

    return lax.scan(step, (H, jnp.zeros(SIZE)), x, reverse=reverse)


def cell_after_average(x: jax.Array) -> Any:
    """A cell that reads an average before its step."""

    def step(state: Any, x: jax.Array) -> Any:
        mean, h = state
        h = jnp.tanh(mean @ W + 0.5 * h)
        mean = jax.nn.sigmoid(x) * mean + x
        return (mean, h), h

    return lax.scan(step, (jnp.zeros(SIZE), H), x)


SEVERAL: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "drawdown": (drawdown, (X,)),
    "layers": (layers, (X,)),
    "layers-backwards": (lambda x: layers(x, reverse=True), (X,)),
    "cell-after-average": (cell_after_average, (X,)),
}

PROGRAMS = CHOSEN | PRODUCTS | SEVERAL
# The rest is no recurrence.
SCANS = {"cell-after-average": 1}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_states_are_computed_in_chunks(name: str) -> None:
    fn, inputs = PROGRAMS[name]
    model = bench.convert(fn, inputs)
    check(model, fn, *inputs)
    assert has_chunks(model) == (name not in ("steps-since", "powers"))
    assert [node.op_type for node in model.graph.node].count("Scan") == SCANS.get(name, 0)


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("name", PROGRAMS)
def test_special_numbers_give_the_same_results(name: str, special: float) -> None:
    fn, inputs = PROGRAMS[name]
    model = bench.convert(fn, inputs)
    for place in range(len(inputs)):
        changed = [x.copy() for x in inputs]
        changed[place][[0, 40, -1], :3] = special
        check(model, fn, *changed)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 0.5, 2.0, 1e3])
@pytest.mark.parametrize("steps", [64, 1000])
def test_a_product_of_any_decays_is_right(scale: float, steps: int) -> None:
    """The smallest and the largest decays give products that are not normal numbers."""
    fn = over(lambda h, x: h * x)
    model = bench.convert(fn, [(steps, SIZE)])
    assert has_chunks(model)
    check(model, fn, scale * (1 + 0.1 * draw(steps, SIZE)))


@pytest.mark.parametrize("name", ["restarted", "returns", "drawdown", "layers", "layers-backwards"])
def test_the_number_of_steps_may_be_symbolic(name: str) -> None:
    fn, inputs = PROGRAMS[name]
    model = bench.convert(fn, [("T", SIZE)] * len(inputs))
    assert has_chunks(model)
    for steps in (0, 1, 31, 32, 33, 100, 150):
        check(model, fn, *(x[:steps] for x in inputs))


def test_a_loop_whose_first_state_grows_stays_whole() -> None:
    """A decay above one is not computed in chunks, and another loop would only cost time."""

    def fn(x: jax.Array) -> Any:
        def step(state: Any, x: jax.Array) -> Any:
            grown, h = state
            grown = 1.5 * grown + x
            h = jnp.tanh(h + grown)
            return (grown, h), h

        return lax.scan(step, (jnp.zeros(SIZE), H), x)

    model = bench.convert(fn, (X[:60],))
    check(model, fn, X[:60])
    assert [node.op_type for node in model.graph.node].count("Scan") == 1
    assert not has_chunks(model)
