"""Linear solvers of lineax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import lineax
import numpy as np

from .program import Program, floats

MATRIX = floats(4, 4) + 4.0 * np.eye(4, dtype=np.float32)
SYMMETRIC = MATRIX @ MATRIX.T
VECTOR = floats(4, seed=9)


def solved(solver: Any, matrix: np.ndarray, vector: np.ndarray, *tags: Any) -> Any:
    def fn(matrix: Any, vector: Any) -> Any:
        operator = lineax.MatrixLinearOperator(matrix, tags)
        return lineax.linear_solve(operator, vector, solver).value

    return lambda: (fn, (matrix, vector))


def product() -> Any:
    def fn(x: Any, vector: Any) -> Any:
        operator = lineax.JacobianLinearOperator(lambda y, args: jnp.sin(MATRIX @ y), x)
        return operator.mv(vector)

    return fn, (floats(4), VECTOR)


def tridiagonal() -> Any:
    def fn(diagonal: Any, lower: Any, upper: Any, vector: Any) -> Any:
        operator = lineax.TridiagonalLinearOperator(diagonal, lower, upper)
        return lineax.linear_solve(operator, vector).value

    diagonal = np.abs(floats(5)) + 3.0
    return fn, (diagonal, floats(4, seed=1), floats(4, seed=2), floats(5, seed=6))


def gradient() -> Any:
    fn, inputs = solved(lineax.LU(), MATRIX, VECTOR)()
    return jax.grad(lambda *args: jnp.sum(fn(*args) ** 2), (0, 1)), inputs


POSITIVE = lineax.positive_semidefinite_tag
LOWER = lineax.lower_triangular_tag
PROGRAMS = [
    *(
        Program(name, build, 1e-4)
        for name, build in {
            "`LU`": solved(lineax.LU(), MATRIX, VECTOR),
            "`QR` of a tall matrix": solved(lineax.QR(), floats(6, 4), floats(6, seed=9)),
            "`SVD`": solved(lineax.SVD(), MATRIX, VECTOR),
            "`Cholesky`": solved(lineax.Cholesky(), SYMMETRIC, VECTOR, POSITIVE),
            "`CG`": solved(lineax.CG(1e-5, 1e-5), SYMMETRIC, VECTOR, POSITIVE),
            "`Normal(CG)` of a tall matrix": solved(
                lineax.Normal(lineax.CG(1e-5, 1e-5)), floats(6, 4), floats(6, seed=9)
            ),
            "`LSMR` of a tall matrix": solved(
                lineax.LSMR(1e-5, 1e-5), floats(6, 4), floats(6, seed=9)
            ),
            "the gradient of `LU`": gradient,
            "`GMRES`": solved(lineax.GMRES(1e-5, 1e-5), MATRIX, VECTOR),
            "`AutoLinearSolver`": solved(lineax.AutoLinearSolver(True), MATRIX, VECTOR),
            "`Triangular`": solved(lineax.Triangular(), np.tril(MATRIX), VECTOR, LOWER),
            "a tridiagonal operator": tridiagonal,
        }.items()
    ),
    Program("the product of a Jacobian and a vector", product),
]
