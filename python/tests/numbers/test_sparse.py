"""Sparse arrays of `jax.experimental.sparse`, as weights and as arguments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import sparse

import jax2onnx
from testkit import bench

RNG = np.random.default_rng(3)


def mostly_zero(*shape: int) -> np.ndarray:
    return (RNG.normal(size=shape) * (RNG.random(shape) > 0.5)).astype(np.float32)


DENSE = mostly_zero(5, 6)
M = sparse.BCOO.fromdense(DENSE)
PADDED = sparse.BCOO.fromdense(DENSE, nse=25)
BATCHED = sparse.BCOO.fromdense(mostly_zero(2, 5, 6), n_batch=1)
ROWS = sparse.BCSR.fromdense(DENSE)
V = RNG.normal(size=6).astype(np.float32)
B = RNG.normal(size=(6, 3)).astype(np.float32)


def of_data(data: Any) -> Any:
    return sparse.BCOO((data, M.indices), shape=M.shape)


PROGRAMS: dict[str, tuple[Any, np.ndarray]] = {
    "matvec": (lambda v: M @ v, V),
    "matmat": (lambda b: M @ b, B),
    "from the left": (lambda x: x @ M, B.T[:, :5].copy()),
    "padded": (lambda v: PADDED @ v, V),
    "rows": (lambda v: ROWS @ v, V),
    "batched": (
        lambda v: sparse.bcoo_dot_general(
            BATCHED, jnp.stack([v, v * 2]), dimension_numbers=(([2], [1]), ([0], [0]))
        ),
        V,
    ),
    "todense": (lambda d: of_data(d).todense(), np.asarray(M.data)),
    "fromdense": (lambda d: sparse.BCOO.fromdense(d, nse=20) @ V, DENSE),
    "extract": (lambda d: sparse.bcoo_extract(M, d).data, DENSE),
    "sum": (lambda v: sparse.bcoo_reduce_sum(M, axes=(0,)).todense() * v, V),
    "transpose": (lambda v: M.T.todense().sum(1) * v, V),
    "sparse product": (lambda v: (M @ M.T).todense() * v[0], V),
    "elementwise": (lambda v: (M * v).todense(), V),
    "sorted": (lambda v: M.sort_indices().data * v[0], V),
    "grad": (lambda v: jax.grad(lambda v: jnp.sum((M @ v) ** 2))(v), V),
    "grad of the data": (
        lambda d: jax.grad(lambda d: jnp.sum((of_data(d) @ V) ** 2))(d),
        np.asarray(M.data),
    ),
    "vmap": (lambda b: jax.vmap(lambda v: M @ v)(b), B.T.copy()),
    "scan": (lambda v: lax.scan(lambda c, _: (jnp.tanh(M.T @ (M @ c)), c), v, None, length=3), V),
    "sparsify": (lambda v: sparse.sparsify(lambda m, v: jnp.sum(m * 2 @ v))(M, v), V),
}


@pytest.mark.parametrize(("fn", "x"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_of_sparse_arrays_has_the_numbers_of_jax(fn: Any, x: np.ndarray) -> None:
    bench.check(fn, [x], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("matrix", [M, ROWS], ids=["bcoo", "bcsr"])
def test_a_sparse_array_may_be_an_argument(matrix: Any) -> None:
    model = jax2onnx.to_onnx(lambda m, v: m @ v, [matrix, V])
    inputs = [np.asarray(leaf) for leaf in jax.tree.leaves((matrix, V))]
    np.testing.assert_allclose(bench.run(model, inputs)[0], DENSE @ V, rtol=1e-5, atol=1e-5)


def test_a_product_with_a_constant_matrix_is_a_gather_and_a_scatter() -> None:
    model = jax2onnx.to_onnx(lambda v: M @ v, [V])
    assert [node.op_type for node in model.graph.node] == ["Gather", "Mul", "ScatterElements"]
