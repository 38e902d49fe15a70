"""Linear algebra: factorizations and systems, alone and in batches."""

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
from jax._src.lax.linalg import geqp3, geqrf
from jax.lax import linalg

from .case import Case, Limit

RNG = np.random.default_rng(11)
#: Loops over columns add up some roundings.
CLOSE = {"rtol": 2e-5, "atol": 2e-5}
CLOSE_DOUBLE = {"rtol": 1e-12, "atol": 1e-12, "double": True}


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    """Symmetric matrices with positive eigenvalues."""
    x = normal(*shape)
    return (x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])).astype(np.float32)


def triangular(*shape: int) -> np.ndarray:
    """Matrices both of whose triangles can be solved."""
    return (normal(*shape) * 0.5 + 3 * np.eye(shape[-1])).astype(np.float32)


def both(name: str, fn: Callable[..., Any], inputs: tuple[Any, ...], *covers: str) -> list[Case]:
    """The case in single and in double precision."""
    doubles = tuple(x.astype(np.float64) if x.dtype == np.float32 else x for x in inputs)
    return [
        Case(f"{name}.f32", fn, inputs, covers=covers, **CLOSE),
        Case(f"{name}.f64", fn, doubles, covers=covers, **CLOSE_DOUBLE),
    ]


def solve(left: bool, lower: bool, transpose: bool, unit: bool) -> Callable[..., Any]:
    return lambda a, b: linalg.triangular_solve(
        a, b, left_side=left, lower=lower, transpose_a=transpose, unit_diagonal=unit
    )


def triangular_cases() -> list[Case]:
    cases = []
    for flags in itertools.product((False, True), repeat=4):
        right = normal(2, 4, 3) if flags[0] else normal(2, 3, 4)
        names = ("left", "lower", "transpose", "unit")
        on = [word for word, flag in zip(names, flags, strict=True) if flag]
        name = "triangular_solve." + ("_".join(on) or "plain")
        cases += both(name, solve(*flags), (triangular(2, 4, 4), right), "triangular_solve")
    return cases


def without_signs(fn: Callable[..., Any]) -> Callable[..., Any]:
    """What of a factorization does not depend on the signs of vectors."""

    def symmetric(a: jax.Array) -> tuple[jax.Array, ...]:
        vectors, values = fn(a)
        rebuilt = (vectors * values[..., None, :]) @ jnp.swapaxes(vectors, -1, -2)
        return values, rebuilt, jnp.swapaxes(vectors, -1, -2) @ vectors, jnp.abs(vectors)

    return symmetric


def parts(full: bool, vectors: bool = True) -> Callable[..., Any]:
    """The values, the matrix again, and the products of vectors with each other."""

    def general(a: jax.Array) -> tuple[jax.Array, ...]:
        u, s, vt = linalg.svd(a, full_matrices=full)
        k = s.shape[-1]
        rebuilt = (u[..., :, :k] * s[..., None, :]) @ vt[..., :k, :]
        products = jnp.swapaxes(u, -1, -2) @ u, vt @ jnp.swapaxes(vt, -1, -2)
        sizes = (jnp.abs(u[..., :, :k]), jnp.abs(vt[..., :k, :])) if vectors else ()
        return s, rebuilt, *products, *sizes

    return general


def qr(full: bool, pivoting: bool = False) -> Callable[..., Any]:
    return lambda a: linalg.qr(a, full_matrices=full, pivoting=pivoting)


def qr_cases() -> list[Case]:
    shapes = ((3, 3), (5, 3), (3, 5), (1, 1), (2, 4, 3), (4, 1), (1, 4))
    cases = []
    for shape, full, pivoting in itertools.product(shapes, (False, True), (False, True)):
        size = "x".join(map(str, shape))
        kind = ("full" if full else "reduced") + ("_pivoted" if pivoting else "")
        cases += both(f"qr.{size}.{kind}", qr(full, pivoting), (normal(*shape),), "qr")
    return cases


def value_cases() -> list[Case]:
    cases = []
    for size in (3, 4, 7):
        fn = without_signs(lambda a: linalg.eigh(a))
        cases += both(f"eigh.{size}", fn, (normal(2, size, size),), "eigh")
    for shape in ((2, 2), (5, 3), (3, 5), (2, 4, 4), (6, 6)):
        size = "x".join(map(str, shape))
        cases += both(f"svd.{size}", parts(False), (normal(*shape),), "svd")
        cases += both(f"svd.{size}.full", parts(True), (normal(*shape),), "svd")
        values = lambda a: linalg.svd(a, compute_uv=False)  # noqa: E731
        cases += both(f"svd.{size}.values", values, (normal(*shape),), "svd")
    return cases


def eig(vectors: bool) -> Callable[..., Any]:
    return lambda a: linalg.eig(
        a, compute_left_eigenvectors=vectors, compute_right_eigenvectors=vectors
    )


def parts_of(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return x.real, x.imag


def systems(size: int) -> list[Case]:
    """What stands on top of factorizations, and its derivatives."""
    a, b = positive(size, size) / size, normal(size)
    linear = jax.grad(lambda a, b: jnp.sum(jnp.linalg.solve(a, b) ** 2), argnums=(0, 1))
    functions = {
        "solve": (jnp.linalg.solve, (a, b)),
        "solve.gradient": (linear, (a, b)),
        "inv": (jnp.linalg.inv, (a,)),
        "det": (jnp.linalg.det, (a,)),
        "slogdet": (jnp.linalg.slogdet, (-a,)),
        "slogdet.gradient": (jax.grad(lambda a: jnp.linalg.slogdet(a)[1]), (a,)),
        "matrix_power": (lambda a: jnp.linalg.matrix_power(a, -3), (a,)),
        "expm": (jsl.expm, (normal(size, size),)),
        "cho_solve": (lambda a, b: jsl.cho_solve(jsl.cho_factor(a), b), (a, b)),
        "lu_solve": (lambda a, b: jsl.lu_solve(jsl.lu_factor(a), b), (a, b)),
        "cond": (jnp.linalg.cond, (a,)),
        "qr.gradient": (jax.grad(lambda a: jnp.sum(jnp.linalg.qr(a)[1] ** 3)), (a,)),
        "eigh.gradient": (jax.grad(lambda a: jnp.sum(jnp.linalg.eigh(a)[0] ** 3)), (a,)),
    }
    return [
        case
        for name, (fn, inputs) in functions.items()
        for case in both(f"{name}.{size}x{size}", fn, inputs)
    ]


def gradient_of_cholesky(a: jax.Array) -> jax.Array:
    return jax.grad(lambda a: jnp.sum(jnp.tril(jnp.linalg.cholesky(a)) ** 3))(a)


def matvec_solve(a: jax.Array, b: jax.Array) -> jax.Array:
    lower = jnp.linalg.cholesky(a)

    def by_factor(_: Any, b: jax.Array) -> jax.Array:
        half = linalg.triangular_solve(lower, b[:, None], left_side=True, lower=True)
        whole = linalg.triangular_solve(lower, half, left_side=True, lower=True, transpose_a=True)
        return whole[:, 0]

    return lax.custom_linear_solve(lambda x: a @ x, b, by_factor, symmetric=True)


#: Matrices with equal, zero and negative eigenvalues.
REPEATED = np.stack(
    [np.ones((4, 4)), np.eye(4), np.zeros((4, 4)), np.diag([3.0, 1.0, 1.0, -2.0])]
).astype(np.float32)
#: Pairs whose closed form divides by nothing, or cancels.
PAIRS = np.array(
    [
        [[1, 0], [0, 2]],
        [[2, 0], [0, 1]],
        [[0, 0], [0, 0]],
        [[0, 1], [1, 0]],
        [[-3, 1e-9], [1e-9, 2]],
        [[1, 1], [1, -1]],
        [[-1, 0.5], [0.5, -1]],
    ],
    np.float32,
)
#: Every matrix of two rows with entries -1, 0 and 1: triangles, equal values, conjugate pairs.
FEW = np.array(list(itertools.product((-1, 0, 1), repeat=4)), np.float32).reshape(-1, 2, 2)
DEFICIENT = np.stack([np.ones((4, 3)), np.zeros((4, 3)), np.outer([1, 2, 3, 4], [0, 1, 1])]).astype(
    np.float32
)
NOT_POSITIVE = np.stack([positive(3, 3), -positive(3, 3), np.zeros((3, 3), np.float32)])
#: Each matrix has one NaN or infinity in its lower triangle, and its mirror image.
NOT_FINITE = np.stack([positive(3, 3)] * 12)
for number, (row, column) in enumerate(itertools.combinations_with_replacement(range(3), 2)):
    NOT_FINITE[number, [row, column], [column, row]] = np.nan
    NOT_FINITE[number + 6, [row, column], [column, row]] = np.inf
SWAPS = np.array([[2, 2, 4], [1, 1, 2]], np.int32)
SINGULAR = (np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32))

CASES = [
    *both("cholesky.5x5", linalg.cholesky, (positive(5, 5),), "cholesky"),
    *both("cholesky.1x1", linalg.cholesky, (positive(1, 1),)),
    *both("cholesky.batch", linalg.cholesky, (positive(2, 3, 4, 4),)),
    *both("cholesky.not_positive", linalg.cholesky, (NOT_POSITIVE,)),
    *both("cholesky.not_finite", linalg.cholesky, (NOT_FINITE,)),
    *both(
        "cholesky.lower_only",
        lambda a: linalg.cholesky(a, symmetrize_input=False),
        (positive(4, 4) + np.triu(normal(4, 4), 1),),
    ),
    *both("cholesky.gradient", gradient_of_cholesky, (positive(3, 3),)),
    Case("cholesky.empty", linalg.cholesky, (np.zeros((2, 0, 0), np.float32),)),
    *both(
        "cholesky_update",
        linalg.cholesky_update,
        (np.linalg.cholesky(positive(4, 4)).T.copy(), normal(4)),
        "cholesky_update",
    ),
    *both(
        "cholesky_update.zeros",
        linalg.cholesky_update,
        (np.eye(3, dtype=np.float32), np.array([0, 2, 0], np.float32)),
    ),
    *triangular_cases(),
    Case(
        "triangular_solve.zero_pivot",
        solve(True, True, False, False),
        (np.array([[2, 0, 0], [1, 0, 0], [1, 1, 4]], np.float32), np.ones((3, 1), np.float32)),
    ),
    Case(
        "triangular_solve.empty",
        solve(True, True, False, False),
        (np.zeros((0, 0), np.float32), np.zeros((0, 2), np.float32)),
    ),
    *both("custom_linear_solve", matvec_solve, (positive(4, 4), normal(4)), "custom_linear_solve"),
    *both("lu.3x3", linalg.lu, (normal(3, 3),), "lu"),
    *both("lu.4x3", linalg.lu, (normal(4, 3),)),
    *both("lu.3x5", linalg.lu, (normal(3, 5),)),
    *both("lu.batch", linalg.lu, (normal(2, 3, 4, 4),)),
    *both("lu.7x6", linalg.lu, (normal(7, 6),)),
    *both("lu.batch of large ones", linalg.lu, (normal(2, 5, 6),)),
    *both("lu.singular large one", linalg.lu, (np.ones((5, 5), np.float32),)),
    # On some CPUs, LAPACK chooses a NaN as a pivot. Here none is a candidate before the last one.
    *both(
        "lu.nan in a large one",
        linalg.lu,
        (np.where(np.arange(36).reshape(6, 6) == 5, np.nan, normal(6, 6)).astype(np.float32),),
    ),
    *both("lu.ties", linalg.lu, (np.array([[1, 2], [-1, 3], [1, 0]], np.float32),)),
    *both("lu.singular", linalg.lu, (np.ones((3, 3), np.float32),)),
    *both(
        "lu.nan", linalg.lu, (np.array([[1, np.nan, 2], [3, np.nan, 0], [2, 1, 4]], np.float32),)
    ),
    *both(
        "lu.nan column",
        linalg.lu,
        (np.array([[3, 1, 1], [1, np.nan, 2], [2, np.nan, 0]], np.float32),),
    ),
    Case("lu.empty", linalg.lu, (np.zeros((2, 0, 3), np.float32),)),
    Case(
        "lu_pivots_to_permutation",
        lambda p: linalg.lu_pivots_to_permutation(p, 5),
        (SWAPS,),
        covers=("lu_pivots_to_permutation",),
    ),
    *qr_cases(),
    *both("qr.zeros", qr(True), (np.diag([1, 0, -2]).astype(np.float32),)),
    Case("qr.small", lambda a: linalg.qr(a * 1e-25)[1] * 1e25, (normal(4, 3),), **CLOSE),
    Case("qr.large", lambda a: linalg.qr(a * 1e25)[1] * 1e-25, (normal(4, 3),), **CLOSE),
    Case("qr.no_columns", qr(True), (np.zeros((3, 0), np.float32),)),
    Case("qr.no_rows", qr(True, True), (np.zeros((2, 0, 3), np.float32),)),
    *both("geqrf", geqrf, (normal(2, 5, 3),), "geqrf"),
    *both("geqp3", lambda a: geqp3(a, np.zeros((2, 3), np.int32)), (normal(2, 5, 3),), "geqp3"),
    *both(
        "householder_product",
        linalg.householder_product,
        (normal(2, 5, 3), normal(2, 2)),
        "householder_product",
    ),
    *both("householder_product.none", linalg.householder_product, (normal(3, 2), normal(0))),
    *(
        case
        for left, transpose in itertools.product((False, True), repeat=2)
        # JAX 0.6 lacks it.
        if hasattr(private, "ormqr")
        for case in both(
            f"ormqr.{'left' if left else 'right'}{'.transpose' if transpose else ''}",
            lambda a, taus, c, left=left, transpose=transpose: private.ormqr(
                a, taus, c, left=left, transpose=transpose
            ),
            (normal(5, 3), normal(3), normal(5, 4) if left else normal(4, 5)),
            "ormqr",
        )
    ),
    *both("hessenberg", linalg.hessenberg, (normal(2, 5, 5),), "hessenberg"),
    *both("hessenberg.done", linalg.hessenberg, (np.diag([1, 2, 3]).astype(np.float32),)),
    *both("tridiagonal.lower", linalg.tridiagonal, (normal(2, 5, 5),), "tridiagonal"),
    *both("tridiagonal.upper", lambda a: linalg.tridiagonal(a, lower=False), (normal(5, 5),)),
    *both("tridiagonal.1x1", linalg.tridiagonal, (normal(1, 1),)),
    *both(
        "tridiagonal_solve",
        linalg.tridiagonal_solve,
        (normal(2, 5), normal(2, 5) + 4, normal(2, 5), normal(2, 5, 3)),
        "tridiagonal_solve",
    ),
    *both(
        "tridiagonal_solve.pivots",
        linalg.tridiagonal_solve,
        (np.ones(4, np.float32), np.zeros(4, np.float32), np.ones(4, np.float32), normal(4, 2)),
    ),
    *both(
        "tridiagonal_solve.singular",
        linalg.tridiagonal_solve,
        (SINGULAR[0], SINGULAR[1], SINGULAR[0], normal(2, 3, 1)),
    ),
    *both(
        "tridiagonal_solve.1x1",
        linalg.tridiagonal_solve,
        (normal(1), normal(1) + 4, normal(1), normal(1, 2)),
    ),
    *both(
        "symmetric_product",
        lambda a, c: linalg.symmetric_product(a, c, alpha=2.0, beta=0.5),
        (normal(2, 3, 4), positive(2, 3, 3)),
        "symmetric_product",
    ),
    *both("schur.1x1", linalg.schur, (normal(2, 1, 1),), "schur"),
    *value_cases(),
    *both("eig.1x1", eig(True), (normal(3, 1, 1),), "eig"),
    Case("eig.1x1.complex", eig(True), (normal(3, 1, 1) + 1j * normal(3, 1, 1),), **CLOSE),
    *both("eig.2x2", eig(False), (normal(50, 2, 2),), "eig"),
    *both("eig.2x2.few", eig(False), (FEW,)),
    Case(
        "eig.2x2.small",
        lambda a: [jnp.sort(x * 1e9) for x in parts_of(eig(False)(a * 1e-9)[0])],
        (normal(50, 2, 2),),
        **CLOSE,
    ),
    *both("eigh.1x1", linalg.eigh, (normal(2, 1, 1),)),
    *both("eigh.2x2.lower", lambda a: linalg.eigh(a, symmetrize_input=False), (normal(9, 2, 2),)),
    *both(
        "eigh.2x2.upper",
        lambda a: linalg.eigh(a, lower=False, symmetrize_input=False),
        (normal(9, 2, 2),),
    ),
    *both("eigh.2x2.pairs", linalg.eigh, (PAIRS,)),
    *both("eigh.repeated", lambda a: without_signs(linalg.eigh)(a)[:3], (REPEATED,)),
    *both(
        "eigh.upper",
        without_signs(lambda a: linalg.eigh(a, lower=False, symmetrize_input=False)),
        (normal(5, 5),),
    ),
    Case("eigh.empty", linalg.eigh, (np.zeros((2, 0, 0), np.float32),)),
    *both("svd.1x1", linalg.svd, (np.array([[[-2]], [[3]], [[0]]], np.float32),)),
    *both("svd.4x1", linalg.svd, (normal(2, 4, 1),)),
    *both("svd.1x4", linalg.svd, (normal(2, 1, 4),)),
    *both("svd.deficient", parts(True, vectors=False), (DEFICIENT,)),
    *both("svd.nan", linalg.svd, (np.array([[np.nan, 1], [1, 2]], np.float32),)),
    Case(
        "svd.small",
        lambda a: linalg.svd(a * 1e-25, compute_uv=False) * 1e25,
        (normal(4, 3),),
        **CLOSE,
    ),
    Case("svd.no_columns", linalg.svd, (np.zeros((2, 3, 0), np.float32),)),
    *(case for size in (1, 2, 4) for case in systems(size)),
    *both("solve.batch", jnp.linalg.solve, (positive(3, 2, 2), normal(3, 2, 3))),
    *both(
        "solve.vmap", jax.vmap(jnp.linalg.solve, in_axes=(None, 0)), (positive(3, 3), normal(4, 3))
    ),
    *both("lstsq", jnp.linalg.lstsq, (normal(6, 3), normal(6))),
    *both("polar", jsl.polar, (positive(3, 3),)),
    *both("pinv", jnp.linalg.pinv, (normal(5, 3),)),
    *both("norms", lambda a: (jnp.linalg.norm(a, 2), jnp.linalg.norm(a, "nuc")), (normal(4, 3),)),
    Case("matrix_rank", jnp.linalg.matrix_rank, (DEFICIENT,)),
]

LIMITS = [
    Limit("eig.3x3", eig(False), (normal(3, 3),), "eig of a matrix with more than two rows"),
    Limit("eig.2x2.vectors", eig(True), (normal(2, 2),), "eig with eigenvectors"),
    Limit("schur.2x2", linalg.schur, (normal(2, 2),), "schur of a matrix with more than one row"),
    Limit(
        "eig.2x2.complex",
        eig(False),
        (np.eye(2, dtype=np.complex64),),
        "eig of a matrix with more than two rows, or of a complex matrix with two rows",
    ),
    Limit(
        "tridiagonal_solve.perturbed",
        lambda d, b: linalg.tridiagonal_solve(d, d, d, b, perturb_singular=True),
        (normal(3), normal(3, 1)),
        "perturb_singular=True",
    ),
    Limit(
        "geqp3.kept",
        lambda a: geqp3(a, np.ones(3, np.int32)),
        (normal(5, 3),),
        "columns that are fixed at the front",
    ),
]
