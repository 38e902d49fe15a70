"""Linear algebra beyond single cases: symbolic sizes, larger matrices, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.lax import linalg

import jax2onnx
from testkit import bench
from testkit.cases.linalg import parts, without_signs

SIZES = (3, 1, 0)
RNG = np.random.default_rng(5)


def matrix(*shape: int) -> np.ndarray:
    """A matrix, or a batch of them, far from singular where it is square."""
    x = RNG.normal(size=shape)
    if len(shape) > 1 and shape[-1] == shape[-2]:
        x = x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])
    return x.astype(np.float32)


def solved(left: bool) -> Callable[..., Any]:
    return lambda a, b: linalg.triangular_solve(a, b, left_side=left, lower=left)


SYMBOLIC: list[tuple[str, Callable[..., Any], list[tuple[Any, ...]]]] = [
    ("cholesky of a batch", linalg.cholesky, [("N", 3, 3)]),
    ("cholesky of any size", linalg.cholesky, [("N", "N")]),
    ("cholesky_update of any size", linalg.cholesky_update, [("N", "N"), ("N",)]),
    ("eigh of a batch of one", linalg.eigh, [("N", 1, 1)]),
    ("eigh of a batch of two", linalg.eigh, [("N", 2, 2)]),
    ("eigh of a batch", without_signs(linalg.eigh), [("N", 3, 3)]),
    ("hessenberg of a batch", linalg.hessenberg, [("N", 4, 4)]),
    ("lu of a batch", linalg.lu, [("N", 4, 3)]),
    ("lu of any size", linalg.lu, [("N", "N")]),
    ("lu of any height", linalg.lu, [("N", 2)]),
    ("qr of a batch", linalg.qr, [("N", 4, 3)]),
    ("qr of a batch, pivoted", lambda a: linalg.qr(a, pivoting=True), [("N", 3, 4)]),
    ("svd of a batch of columns", linalg.svd, [("N", 3, 1)]),
    ("svd of a batch", parts(False), [("N", 4, 3)]),
    ("svd of a batch, values", lambda a: linalg.svd(a, compute_uv=False), [("N", 2, 3)]),
    ("triangular_solve of a batch", solved(True), [("N", 3, 3), ("N", 3, 2)]),
    ("triangular_solve of any size", solved(False), [("N", "N"), (2, "N")]),
    ("tridiagonal of a batch", linalg.tridiagonal, [("N", 4, 4)]),
    (
        "tridiagonal_solve of a batch",
        lambda d, b: linalg.tridiagonal_solve(d, d * 3, d, b),
        [("N", 4), ("N", 4, 2)],
    ),
]


@pytest.mark.parametrize(
    ("fn", "shapes"), [use[1:] for use in SYMBOLIC], ids=[u[0] for u in SYMBOLIC]
)
def test_one_model_serves_every_size(fn: Any, shapes: Any) -> None:
    model = jax2onnx.to_onnx(fn, shapes)
    for size in SIZES:
        sizes = [tuple(size if axis == "N" else axis for axis in shape) for shape in shapes]
        inputs = [matrix(*shape) for shape in sizes]
        want = bench.expected(fn, inputs)
        found = bench.run(model, inputs)
        for one_found, one_want in zip(found, want, strict=True):
            bench.assert_same(one_found, one_want, rtol=5e-5, atol=5e-5)


@pytest.mark.parametrize(
    "fn",
    [linalg.eigh, linalg.hessenberg, linalg.qr, linalg.svd, linalg.tridiagonal],
    ids=lambda fn: fn.__name__,
)
def test_an_operation_that_needs_a_known_size_is_refused(fn: Any) -> None:
    with pytest.raises(jax2onnx.UnsupportedError, match="unknown size"):
        jax2onnx.to_onnx(fn, [("N", "N")])


@pytest.mark.parametrize("double", [False, True], ids=["f32", "f64"])
def test_larger_matrices_are_as_accurate(double: bool) -> None:
    def fn(a: Any) -> Any:
        symmetric = (a + a.T) / 2
        vectors, values = linalg.eigh(symmetric)
        u, s, vt = linalg.svd(a)
        q, r = linalg.qr(a)
        eye = jnp.eye(a.shape[0], dtype=a.dtype)
        return (
            symmetric @ vectors - vectors * values,
            vectors.T @ vectors - eye,
            (u * s) @ vt - a,
            u.T @ u - eye,
            q @ r - a,
            lax.sort(values) - values,
        )

    a = RNG.normal(size=(33, 33)).astype(np.float64 if double else np.float32)
    model = bench.convert(fn, [a], double=double)
    for residual in bench.run(model, [a]):
        assert np.abs(residual).max() < 200 * np.finfo(a.dtype).eps
