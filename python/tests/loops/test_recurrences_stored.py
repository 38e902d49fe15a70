"""States that only constants determine are stored for all steps of a loop."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from testkit import bench
from testkit.accuracy import graphs_of
from testkit.recurrences import check, draw

X = draw(100, 2)
MOTION = np.array([[1.0, 0.1], [0.0, 1.0]], np.float32)


def has_loop(model: Any) -> bool:
    """Return whether a loop runs if all numbers are finite."""
    loops = [graph for graph in graphs_of(model) if not graph.name.startswith("recurrent/")]
    return any(node.op_type in ("Scan", "Loop") for graph in loops for node in graph.node)


def kalman(state: Any, z: jax.Array) -> Any:
    """Estimate a position from measurements, with the gain of each step."""
    mean, variance = state
    variance = variance + 0.01
    gain = variance / (variance + 0.5)
    mean = mean + gain * (z - mean)
    return (mean, (1 - gain) * variance), (mean, gain)


def riccati(state: Any, z: jax.Array) -> Any:
    mean, variance = state
    variance = MOTION @ variance @ MOTION.T + 0.01 * jnp.eye(2)
    gain = variance[:, 0] / (variance[0, 0] + 0.5)
    mean = jnp.tanh(MOTION @ mean)
    mean = mean + gain * (z[0] - mean[0])
    return (mean, variance - jnp.outer(gain, variance[0])), mean


def moments(state: Any, g: jax.Array) -> Any:
    """Take steps of Adam."""
    x, m, v, a, b = state
    m, v, a, b = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g, 0.9 * a, 0.99 * b
    x = x - 0.1 * (m / (1 - a)) / (jnp.sqrt(v / (1 - b)) + 1e-8)
    return (x, m, v, a, b), x


ONE = jnp.float32(1)
PROGRAMS: dict[str, tuple[Any, Any]] = {
    "kalman": (kalman, (jnp.zeros(2), ONE)),
    "riccati": (riccati, (jnp.zeros(2), jnp.eye(2))),
    "moments": (moments, (X[0], X[1], X[2] ** 2, ONE, ONE)),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_states_that_constants_determine_are_stored(name: str, reverse: bool) -> None:
    step, start = PROGRAMS[name]

    def run(x: jax.Array) -> Any:
        return lax.scan(step, start, x, reverse=reverse)

    for steps in (1, 2, 33, 100):
        check(bench.convert(run, (X[:steps],)), run, X[:steps])
    x = X.copy()
    x[40, 0], x[60, 1] = np.nan, np.inf
    model = bench.convert(run, (X,))
    check(model, run, x)
    carries = [
        len(node.input) - attr.i
        for graph in graphs_of(model)
        for node in graph.node
        if node.op_type == "Scan"
        for attr in node.attribute
        if attr.name == "num_scan_inputs"
    ]
    assert max(carries) == (1 if name != "moments" else 3)


def test_no_loop_is_left_if_the_other_states_are_linear() -> None:
    def run(x: jax.Array) -> Any:
        return lax.scan(kalman, (jnp.zeros(2), ONE), x)

    assert not has_loop(bench.convert(run, (X,)))


def test_a_state_that_an_argument_determines_is_carried() -> None:
    def run(x: jax.Array, noise: jax.Array) -> Any:
        def step(state: Any, z: jax.Array) -> Any:
            mean, variance = state
            gain = variance / (variance + noise)
            return (mean + gain * (z - mean), (1 - gain) * variance + 0.01), mean

        return lax.scan(step, (jnp.zeros(2), ONE), x)

    noise = np.array(0.5, np.float32)
    model = bench.convert(run, (X, noise))
    assert has_loop(model)
    check(model, run, X, noise)


def test_a_loop_of_constants_is_not_exported() -> None:
    def run(x: jax.Array) -> jax.Array:
        return x + lax.fori_loop(0, 9, lambda _, a: 0.5 * jnp.tril(a) + 1, jnp.ones((2, 2)))

    model = bench.convert(run, (np.eye(2, dtype=np.float32),))
    assert not has_loop(model)
    check(model, run, np.eye(2, dtype=np.float32))
