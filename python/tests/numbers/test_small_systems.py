"""Systems of few unknowns, which are solved without a loop."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from testkit import bench
from testkit.accuracy import graphs_of

CASES = {
    "regular": np.random.default_rng(0).normal(size=(4, 4)),
    "all rows exchanged": np.eye(4)[::-1] * [1.0, 2.0, 3.0, 4.0],
    "equal pivots": np.where(np.eye(4) > 0, -1.0, 1.0),
    "singular": np.ones((4, 4)),
    "zeros": np.zeros((4, 4)),
    "NaN": np.where(np.arange(16).reshape(4, 4) == 4, np.nan, np.diag([1.0, 2.0, 3.0, 4.0]) + 1),
    "infinite": np.where(np.arange(16).reshape(4, 4) == 5, np.inf, np.eye(4) + 1),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 2), (3, 3), (4, 4), (2, 4), (4, 2)])
def test_a_small_matrix_is_factored_without_a_loop(name: str, rows: int, columns: int) -> None:
    matrix = CASES[name][:rows, :columns].astype(np.float32)
    for a in (matrix, np.stack([matrix, 2 * matrix + 1])):
        model = bench.convert(lax.linalg.lu, [a.shape])
        for found, want in zip(bench.run(model, (a,)), lax.linalg.lu(a), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
        assert not {"Loop", "Scan"} & {n.op_type for graph in graphs_of(model) for n in graph.node}


def test_a_filter_solves_its_systems_without_an_inner_loop() -> None:
    """The gain of a Kalman filter with two measurements."""
    transition = jnp.array([[1.0, 0.1], [0.0, 1.0]])

    def step(state: Any, z: jax.Array) -> Any:
        mean, spread = state
        mean, spread = transition @ mean, transition @ spread @ transition.T + 0.1 * jnp.eye(2)
        gain = jnp.linalg.solve(spread + 0.2 * jnp.eye(2), spread).T
        mean = mean + gain @ (z - mean)
        return (mean, spread - gain @ spread), mean

    def smooth(zs: jax.Array) -> jax.Array:
        return lax.scan(step, (jnp.zeros(2), jnp.eye(2)), zs)[1]

    zs = np.random.default_rng(1).normal(size=(40, 2)).astype(np.float32)
    model = bench.convert(smooth, [zs.shape])
    np.testing.assert_allclose(bench.run(model, (zs,))[0], smooth(zs), rtol=1e-5, atol=1e-5)
    assert len(list(graphs_of(model))) == 2
