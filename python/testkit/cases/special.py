"""Trigonometric, hyperbolic and special functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jax import lax

from .case import Case
from .values import F16, F32, FLOATS, ULPS, array, case, decades, flushed, limits, pairs, spread

#: The function, the range of it to look at, and whether it is zero at zero with a slope.
CURVES: dict[str, tuple[Callable[..., Any], float, float, bool]] = {
    "acos": (lax.acos, -1, 1, False),
    "acosh": (lax.acosh, 1, 100, False),
    "asin": (lax.asin, -1, 1, True),
    "asinh": (lax.asinh, -100, 100, True),
    "atan": (lax.atan, -20, 20, True),
    "atanh": (lax.atanh, -0.99, 0.99, True),
    "cos": (lax.cos, -20, 20, False),
    "cosh": (lax.cosh, -10, 10, False),
    "sin": (lax.sin, -20, 20, True),
    "sinh": (lax.sinh, -10, 10, True),
    "tan": (lax.tan, -1.5, 1.5, True),
    "tanh": (lax.tanh, -10, 10, True),
    "digamma": (lax.digamma, 0.1, 30, False),
    "erf": (lax.erf, -5, 5, True),
    "erf_inv": (lax.erf_inv, -0.999, 0.999, True),
    "erfc": (lax.erfc, -5, 5, False),
    "lgamma": (lax.lgamma, 0.1, 30, False),
}

#: What is near a zero of the function keeps an absolute error: the argument is rounded too.
CROSSES_ZERO = ("acos", "cos", "sin", "tan", "digamma", "lgamma")


def curves() -> Iterator[Case]:
    for name, (fn, low, high, is_odd) in CURVES.items():
        for dtype in FLOATS:
            # Several operators of the narrow types round in a row; JAX may round once.
            rtol = 4 * ULPS[dtype]
            atol = rtol if name in CROSSES_ZERO else 0.0
            yield case(name, dtype, fn, spread(dtype, low, high), rtol=rtol, atol=atol)
            ends = array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], dtype)
            yield case(name, dtype, fn, ends, about="ends", rtol=rtol, atol=atol)
            if is_odd:
                small = decades(dtype, -3 if dtype == F16 else -12, -1)
                yield case(name, dtype, fn, small, about="near_zero", rtol=rtol)
        yield case(name, F32, fn, np.float32(1.0), about="scalar", rtol=4e-6, atol=1e-6)
        yield case(name, F32, fn, np.zeros((2, 0), F32), about="empty", rtol=4e-6)


def large() -> Iterator[Case]:
    for dtype in FLOATS:
        rtol = 4 * ULPS[dtype]
        sizes = decades(dtype, 0, 4 if dtype == F16 else 30)
        for name in ("asinh", "atan", "tanh", "erf"):
            yield case(name, dtype, CURVES[name][0], sizes, about="large", rtol=rtol)
        for name in ("acosh", "lgamma", "digamma"):
            atol = rtol if name in CROSSES_ZERO else 0.0
            x = np.abs(sizes)
            yield case(name, dtype, CURVES[name][0], x, about="large", rtol=rtol, atol=atol)
    for name in ("lgamma", "digamma"):
        negative = spread(F32, -7.3, -0.2, 37)
        # Between its poles the function crosses zero.
        yield case(name, F32, CURVES[name][0], negative, about="negative", rtol=1e-5, atol=1e-5)
    tails = spread(F32, 1, 9, 33)
    yield case("erfc", F32, lax.erfc, tails, about="tail", rtol=1e-5)
    close = np.float32(1) - np.float32(2) ** -np.arange(2, 24, dtype=F32)
    yield case(
        "erf_inv", F32, lax.erf_inv, np.concatenate([close, -close]), about="tail", rtol=1e-5
    )
    yield case("atanh", F32, lax.atanh, np.concatenate([close, -close]), about="tail", rtol=4e-6)
    yield case("acosh", F32, lax.acosh, 2 - close, about="near_one", rtol=4e-6)


def angles() -> Iterator[Case]:
    for dtype in FLOATS:
        values = [0.0, -0.0, 1.0, -1.0, 0.5, -3.0, np.inf, -np.inf, np.nan, limits(dtype)[2]]
        values += [-limits(dtype)[2], 1e-3, -1e-3]
        y, x = pairs(array(values, dtype), array(values, dtype))
        kept = ~flushed(np.arctan2(y, x))
        yield case("atan2", dtype, lax.atan2, y[kept], x[kept], rtol=4 * ULPS[dtype])
    yield case("atan2", F32, lax.atan2, np.float32(-1), np.float32(-1), about="scalar", rtol=4e-6)


CASES = [*curves(), *large(), *angles()]
