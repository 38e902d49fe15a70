"""Bessel functions, and what belongs to the gamma and beta functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax import lax

from .case import Case
from .values import F16, F32, F64, FLOATS, ULPS, array, case, decades, pairs, spread

ENDS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan]
#: A few units in the last place, many times over: the factors are exponentials of large numbers.
LOOSE = {dtype: 20 * tolerance for dtype, tolerance in ULPS.items()} | {F16: 4e-3}


def bessel() -> Iterator[Case]:
    for name, fn in {"bessel_i0e": lax.bessel_i0e, "bessel_i1e": lax.bessel_i1e}.items():
        for dtype in FLOATS:
            rtol = 4 * ULPS[dtype]
            yield case(name, dtype, fn, spread(dtype, -40, 40, 161), rtol=rtol)
            yield case(name, dtype, fn, array(ENDS, dtype), about="ends", rtol=rtol)
            sizes = decades(dtype, -3, 4 if dtype == F16 else 30)
            yield case(name, dtype, fn, sizes, about="sizes", rtol=rtol)
        yield case(name, F32, fn, np.float32(1.5), about="scalar", rtol=4e-6)
        yield case(name, F32, fn, np.zeros((2, 0), F32), about="empty", rtol=4e-6)


def zetas() -> Iterator[Case]:
    for dtype in FLOATS:
        rtol = LOOSE[dtype]
        x, q = pairs(
            array([1.25, 1.5, 2, 3, 4.5, 7], dtype), array([0.25, 0.5, 1, 3, 9, 40], dtype)
        )
        yield case("zeta", dtype, lax.zeta, x, q, rtol=rtol)
        values = [*ENDS, -2.0, -3.0, 3.0, 4.0, 1.5, -1.5]
        x, q = pairs(array(values, dtype), array(values, dtype))
        # Between the poles the terms nearly cancel.
        yield case("zeta", dtype, lax.zeta, x, q, about="ends", rtol=rtol, atol=rtol)
        n, x = pairs(array([0, 1, 2, 3, 5], dtype), array([0.25, 0.5, 1, 1.5, 3, 9, 40], dtype))
        yield case("polygamma", dtype, lax.polygamma, n, x, rtol=rtol, atol=rtol)
        n, x = pairs(array(values, dtype), array(values, dtype))
        yield case("polygamma", dtype, lax.polygamma, n, x, about="ends", rtol=rtol, atol=10 * rtol)
    large = array([20, 40, 80, 200], F32), array([0.5, 1, 1, 2], F32)
    yield case("zeta", F32, lax.zeta, *large, about="large", rtol=1e-5)
    trigamma = jax.vmap(jax.grad(lax.digamma))
    yield case("polygamma", F32, trigamma, spread(F32, 0.3, 9), about="trigamma", rtol=1e-5)


GAMMAS: dict[str, Callable[..., Any]] = {
    "igamma": lax.igamma,
    "igammac": lax.igammac,
    "igamma_grad_a": lax.igamma_grad_a,
    "random_gamma_grad": lax.random_gamma_grad,
}


def incomplete_gamma() -> Iterator[Case]:
    for name, fn in GAMMAS.items():
        for dtype in FLOATS:
            rtol = LOOSE[dtype]
            # What is left of one has an absolute error.
            atol = rtol / 20 if name != "random_gamma_grad" else rtol
            a, x = pairs(
                array([0.1, 0.5, 1, 2.5, 7, 30], dtype),
                array([0.01, 0.3, 0.9, 1, 1.5, 4, 8, 25, 40], dtype),
            )
            yield case(name, dtype, fn, a, x, rtol=rtol, atol=atol)
            a, x = pairs(array(ENDS, dtype), array(ENDS, dtype))
            yield case(name, dtype, fn, a, x, about="ends", rtol=rtol, atol=atol)
        yield case(
            name, F32, fn, np.float32(2), np.float32(1.5), about="scalar", rtol=2e-5, atol=1e-6
        )
        yield case(name, F32, fn, *np.ones((2, 3, 0), F32), about="empty", rtol=2e-5)


def incomplete_beta() -> Iterator[Case]:
    name, fn = "regularized_incomplete_beta", lax.betainc
    for dtype in FLOATS:
        rtol = LOOSE[dtype]
        a, b = pairs(array([0.1, 0.5, 1, 2.5, 20], dtype), array([0.2, 1, 3, 15], dtype))
        for at in (0.01, 0.25, 0.5, 0.9):
            x = np.full(a.shape, at).astype(dtype)
            about = f"at_{at}"
            yield case(name, dtype, fn, a, b, x, about=about, rtol=rtol, atol=rtol / 20)
        a, b = pairs(array(ENDS, dtype), array(ENDS, dtype))
        ab, x = pairs(np.arange(len(a)), array([*ENDS, 1.5], dtype))
        yield case(name, dtype, fn, a[ab], b[ab], x, about="ends", rtol=rtol, atol=rtol / 20)
    half = np.float32(0.5)
    yield case(name, F32, fn, half, half, half, about="scalar", rtol=2e-5)
    yield case(name, F32, fn, *np.ones((3, 2, 0), F32), about="empty", rtol=2e-5)
    large = array([100, 300, 50], F64), array([120, 280, 2], F64), array([0.4, 0.5, 0.97], F64)
    yield case(name, F64, fn, *large, about="large", rtol=1e-11)


def without_covers(case: Case) -> Case:
    """`random_gamma_grad` is a primitive in older versions only."""
    is_gradient = case.name.startswith("random_gamma_grad")
    return dataclasses.replace(case, covers=()) if is_gradient else case


CASES = [*bessel(), *zetas(), *map(without_covers, incomplete_gamma()), *incomplete_beta()]
CASES.append(
    Case(
        "device_put", lambda x: jax.device_put(x) + 1, (spread(F32, -1, 1),), covers=("device_put",)
    )
)
