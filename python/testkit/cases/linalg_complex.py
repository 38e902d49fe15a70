"""Factorizations of complex matrices, alone and in batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax import lax
from jax._src.lax import linalg as private
from jax.lax import linalg

from .case import Case
from .linalg import CLOSE, CLOSE_DOUBLE

RNG = np.random.default_rng(29)


def normal(*shape: int) -> np.ndarray:
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(np.complex64)


def hermitian(*shape: int) -> np.ndarray:
    """Matrices that are their own adjoint."""
    x = normal(*shape)
    return x + np.swapaxes(x.conj(), -1, -2)


def positive(*shape: int) -> np.ndarray:
    x = normal(*shape)
    x = x @ np.swapaxes(x.conj(), -1, -2) + shape[-1] * np.eye(shape[-1])
    return x.astype(np.complex64)


def both(name: str, fn: Callable[..., Any], *inputs: np.ndarray) -> list[Case]:
    """The case in single and in double precision."""
    doubles = tuple(x.astype(np.complex128) for x in inputs)
    return [
        Case(f"{name}.c64", fn, inputs, **CLOSE),
        Case(f"{name}.c128", fn, doubles, **CLOSE_DOUBLE),
    ]


def adjoint(x: jax.Array) -> jax.Array:
    return jnp.swapaxes(x, -1, -2).conj()


def solve(left: bool, lower: bool, transpose: bool, conjugate: bool) -> Callable[..., Any]:
    return lambda a, b: linalg.triangular_solve(
        a, b, left_side=left, lower=lower, transpose_a=transpose, conjugate_a=conjugate
    )


def triangular_cases() -> list[Case]:
    matrix = normal(2, 3, 3) * np.float32(0.5) + 3 * np.eye(3, dtype=np.complex64)
    cases = []
    for flags in itertools.product((False, True), repeat=4):
        names = ("left", "lower", "transpose", "conjugate")
        on = [word for word, flag in zip(names, flags, strict=True) if flag]
        right = normal(2, 3, 2) if flags[0] else normal(2, 2, 3)
        name = "linalg.complex.triangular_solve." + ("_".join(on) or "plain")
        cases += [Case(name, solve(*flags), (matrix, right), **CLOSE)]
    return cases


def eigen(lower: bool) -> Callable[..., Any]:
    """The values, the matrix again, the products of vectors, and that an entry of each is real."""

    def parts(a: jax.Array) -> tuple[jax.Array, ...]:
        vectors, values = linalg.eigh(a, lower=lower, symmetrize_input=False)
        rebuilt = (vectors * values[..., None, :]) @ adjoint(vectors)
        unit = adjoint(vectors) @ vectors
        return values, rebuilt, unit, vectors[..., 0 if lower else -1, :].imag

    return parts


def singular(full: bool) -> Callable[..., Any]:
    """The values, the matrix again, and the products of vectors with each other."""

    def parts(a: jax.Array) -> tuple[jax.Array, ...]:
        u, values, vh = linalg.svd(a, full_matrices=full)
        count = values.shape[-1]
        rebuilt = (u[..., :count] * values[..., None, :]) @ vh[..., :count, :]
        return values, rebuilt, adjoint(u) @ u, vh @ adjoint(vh)

    return parts


def reflected(left: bool, transpose: bool) -> Callable[..., Any]:
    return lambda a, c: private.ormqr(*private.geqrf(a), c, left=left, transpose=transpose)


def gradient(a: jax.Array, b: jax.Array) -> jax.Array:
    return jax.grad(lambda a: jnp.sum(jnp.linalg.solve(a, b).real ** 2))(a)


#: Values that meet more than once.
DEGENERATE = np.stack([np.eye(4), np.diag([1.0, 1.0, 2.0, 2.0]), np.zeros((4, 4))])
SINGULAR = np.array([[0, 1j, 2], [0, 3, 4j], [0, 0, 1]], np.complex64)
#: The imaginary part of its diagonal is rubbish that LAPACK does not look at.
POSITIVE_BUT_FOR_DIAGONAL = positive(3, 3) + 1j * np.eye(3, dtype=np.complex64)

CASES = [
    *triangular_cases(),
    *both("linalg.complex.cholesky", linalg.cholesky, positive(4, 4)),
    Case(
        "linalg.complex.cholesky.batch", linalg.cholesky, (np.stack([positive(3, 3)] * 2),), **CLOSE
    ),
    Case("linalg.complex.cholesky.negative", linalg.cholesky, (-positive(2, 2),), **CLOSE),
    Case(
        "linalg.complex.cholesky.diagonal",
        lambda a: linalg.cholesky(a, symmetrize_input=False),
        (POSITIVE_BUT_FOR_DIAGONAL,),
        **CLOSE,
    ),
    *both("linalg.complex.lu", linalg.lu, normal(4, 4)),
    Case("linalg.complex.lu.wide", linalg.lu, (normal(2, 3, 5),), **CLOSE),
    Case("linalg.complex.lu.tall", linalg.lu, (normal(5, 3),), **CLOSE),
    Case("linalg.complex.lu.singular", linalg.lu, (SINGULAR,), **CLOSE),
    Case("linalg.complex.solve", jnp.linalg.solve, (normal(4, 4), normal(4, 2)), **CLOSE),
    Case("linalg.complex.inv", jnp.linalg.inv, (normal(2, 3, 3),), **CLOSE),
    Case("linalg.complex.det", jnp.linalg.det, (normal(4, 4),), **CLOSE),
    Case("linalg.complex.gradient", gradient, (normal(3, 3), normal(3)), rtol=1e-4, atol=1e-4),
    *both("linalg.complex.qr", linalg.qr, normal(4, 4)),
    Case("linalg.complex.qr.wide", linalg.qr, (normal(2, 3, 5),), **CLOSE),
    Case(
        "linalg.complex.qr.full",
        lambda a: linalg.qr(a, full_matrices=True),
        (normal(4, 2),),
        **CLOSE,
    ),
    Case("linalg.complex.qr.real", linalg.qr, (normal(3, 3).real + 0j,), **CLOSE),
    Case(
        "linalg.complex.qr.pivoted", lambda a: linalg.qr(a, pivoting=True), (normal(3, 4),), **CLOSE
    ),
    Case("linalg.complex.qr.empty", linalg.qr, (normal(2, 0, 3),), **CLOSE),
    *[
        Case(
            f"linalg.complex.ormqr.{left}.{transpose}",
            reflected(left, transpose),
            (normal(4, 3), normal(4, 2) if left else normal(2, 4)),
            **CLOSE,
        )
        for left, transpose in itertools.product((False, True), repeat=2)
    ],
    Case("linalg.complex.hessenberg", linalg.hessenberg, (normal(4, 4),), **CLOSE),
    Case("linalg.complex.tridiagonal", linalg.tridiagonal, (hermitian(4, 4),), **CLOSE),
    Case(
        "linalg.complex.tridiagonal.upper",
        lambda a: linalg.tridiagonal(a, lower=False),
        (hermitian(4, 4),),
        **CLOSE,
    ),
    Case("linalg.complex.eigh.1x1", linalg.eigh, (hermitian(2, 1, 1),), **CLOSE),
    *both("linalg.complex.eigh.2x2", linalg.eigh, hermitian(6, 2, 2)),
    Case(
        "linalg.complex.eigh.2x2.upper",
        lambda a: linalg.eigh(a, lower=False, symmetrize_input=False),
        (hermitian(6, 2, 2),),
        **CLOSE,
    ),
    *both("linalg.complex.eigh", eigen(True), hermitian(2, 5, 5)),
    Case("linalg.complex.eigh.upper", eigen(False), (hermitian(4, 4),), **CLOSE),
    Case(
        "linalg.complex.eigh.degenerate", eigen(True), (DEGENERATE.astype(np.complex64),), **CLOSE
    ),
    *both("linalg.complex.svd", singular(False), normal(2, 4, 3)),
    Case("linalg.complex.svd.wide", singular(True), (normal(3, 4),), **CLOSE),
    Case("linalg.complex.svd.column", singular(False), (normal(3, 1),), **CLOSE),
    Case("linalg.complex.svd.deficient", singular(False), (normal(4, 1) @ normal(1, 3),), **CLOSE),
    Case("linalg.complex.svd.zero", singular(True), (normal(3, 2) * 0,), **CLOSE),
    Case("linalg.complex.svd.empty", singular(True), (normal(2, 0, 3),), **CLOSE),
    Case(
        "linalg.complex.svd.values",
        lambda a: linalg.svd(a, compute_uv=False),
        (normal(3, 3),),
        **CLOSE,
    ),
    Case("linalg.complex.schur.1x1", linalg.schur, (normal(1, 1),), **CLOSE),
    Case("linalg.complex.expm", jsl.expm, (normal(3, 3),), rtol=1e-4, atol=1e-4),
    Case("linalg.complex.pinv", jnp.linalg.pinv, (normal(4, 3),), rtol=1e-4, atol=1e-4),
    Case("linalg.complex.scan", lambda a: lax.map(jnp.linalg.inv, a), (normal(2, 3, 3),), **CLOSE),
]
