"""Nonlinear solvers of optimistix."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import optimistix

from .program import Program, floats

TARGET = np.abs(floats(3)) + 0.5


def fixed(y: Any, args: Any) -> Any:
    return 0.5 * jnp.cos(y) + 0.1 * args


def root(y: Any, args: Any) -> Any:
    return y**3 + y - args


def residuals(y: Any, args: Any) -> Any:
    return jnp.concatenate([10.0 * (y[1:] - y[:-1] ** 2), 1.0 - y]) * args[0]


def objective(y: Any, args: Any) -> Any:
    return jnp.sum((y - args) ** 2) + 0.1 * jnp.sum(y**4)


def solved(solve: Any, fn: Any, solver: Any) -> Any:
    def program(y0: Any, args: Any) -> Any:
        return solve(fn, solver, y0, args, max_steps=256, throw=False).value

    return lambda: (program, (np.full(3, 0.7, np.float32), TARGET))


def bisected() -> Any:
    def program(target: Any) -> Any:
        solver = optimistix.Bisection(1e-5, 1e-5)
        options = {"lower": 0.0, "upper": 5.0}
        return optimistix.root_find(root, solver, 1.0, target, options=options, throw=False).value

    return program, (np.float32(3.0),)


ROOT = optimistix.root_find
LEAST = optimistix.least_squares
MINIMISE = optimistix.minimise
PROGRAMS = [
    Program(
        "`FixedPointIteration`",
        solved(optimistix.fixed_point, fixed, optimistix.FixedPointIteration(1e-5, 1e-5)),
    ),
    Program("`Bisection`", bisected),
    Program("`BFGS`", solved(MINIMISE, objective, optimistix.BFGS(1e-4, 1e-4)), 1e-4),
    Program("`NelderMead`", solved(MINIMISE, objective, optimistix.NelderMead(1e-3, 1e-3)), 1e-4),
    Program(
        "`GradientDescent`",
        solved(MINIMISE, objective, optimistix.GradientDescent(0.1, 1e-4, 1e-4)),
        1e-4,
    ),
    *(
        Program(name, build, 1e-4)
        for name, build in {
            "`Newton`": solved(ROOT, root, optimistix.Newton(1e-5, 1e-5)),
            "`Chord`": solved(ROOT, root, optimistix.Chord(1e-5, 1e-5)),
            "`Dogleg`": solved(ROOT, root, optimistix.Dogleg(1e-5, 1e-5)),
            "`LBFGS`": solved(MINIMISE, objective, optimistix.LBFGS(1e-4, 1e-4)),
            "`GaussNewton`": solved(LEAST, residuals, optimistix.GaussNewton(1e-4, 1e-4)),
            "`LevenbergMarquardt`": solved(
                LEAST, residuals, optimistix.LevenbergMarquardt(1e-4, 1e-4)
            ),
        }.items()
    ),
]
