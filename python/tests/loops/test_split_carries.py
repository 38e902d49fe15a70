"""Loops carry the entries of a stacked state apart."""

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
from testkit.accuracy import all_nodes

STEPS, SIZE = 40, 300


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


X = draw(STEPS, SIZE)
POLES = np.exp(-0.05 + 0.1j * np.arange(4)).astype(np.complex64)


def diagonal(x: jax.Array) -> Any:
    """A complex state that is too large for chunks of steps."""

    def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = POLES[:, None] * h + x
        return h, 2 * h.sum(0).real

    return lax.scan(step, jnp.zeros((4, SIZE), jnp.complex64), x)


def squared(x: jax.Array) -> Any:
    """A complex state that is not linear."""

    def step(z: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        z = z * z / (1 + jnp.abs(z) ** 2) + x
        return z, z.imag

    return lax.scan(step, jnp.full(SIZE, 0.1 - 0.2j, jnp.complex64), x)[1]


def pendulum(x: jax.Array) -> Any:
    """A position and a velocity in one array, without a scan's inputs."""

    def step(_: int, state: jax.Array) -> jax.Array:
        angle, speed = state
        speed = speed - 0.1 * jnp.sin(angle)
        return jnp.stack([angle + 0.1 * speed, speed])

    return lax.fori_loop(0, 50, step, jnp.stack([x[0], x[1]]))


def exchanged(x: jax.Array) -> Any:
    """Entries that a step only moves."""

    def step(state: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = jnp.stack([state[1], jnp.tanh(state[0] + x), state[1]])
        return state, state[2]

    return lax.scan(step, jnp.stack([x[0], x[1], x[2]]), x)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "diagonal": diagonal,
    "squared": squared,
    "pendulum": pendulum,
    "exchanged": exchanged,
}


def in_loops(model: onnx.ModelProto) -> list[str]:
    loops = [node for node in all_nodes(model.graph) if node.op_type in ("Scan", "Loop")]
    bodies = [attr.g for node in loops for attr in node.attribute if attr.HasField("g")]
    return [node.op_type for body in bodies for node in all_nodes(body)]


@pytest.mark.parametrize("special", [0.5, np.nan, np.inf, -0.0])
@pytest.mark.parametrize("name", PROGRAMS)
def test_entries_of_a_state_are_carried_apart(name: str, special: float) -> None:
    fn, x = PROGRAMS[name], X.copy()
    x[1, :3] = special
    model = bench.convert(fn, (x,))
    operators = in_loops(model)
    assert operators
    assert not {"Concat", "Gather", "Slice", "Split"} & set(operators)
    for found, want in zip(bench.run(model, (x,)), bench.expected(fn, (x,)), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


def test_a_state_that_a_product_reads_stays_whole() -> None:
    def run(x: jax.Array) -> Any:
        def step(_: int, state: jax.Array) -> jax.Array:
            turned = jnp.array([[0.0, 1.0], [-1.0, 0.0]]) @ state
            return jnp.stack([jnp.tanh(state[0]), turned[1]])

        return lax.fori_loop(0, 50, step, jnp.stack([x[0], x[1]]))

    model = bench.convert(run, (X,))
    assert "Concat" in in_loops(model)
    np.testing.assert_allclose(bench.run(model, (X,))[0], run(X), rtol=1e-5, atol=1e-5)
