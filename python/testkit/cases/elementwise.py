"""Arithmetic, rounding, powers, exponentials and logarithms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax import lax

from .case import Case
from .values import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    FLOATS,
    INTS,
    SIGNED,
    ULPS,
    UNSIGNED,
    array,
    case,
    decades,
    floats,
    flushed,
    integers,
    is_float,
    limits,
    numbers,
    pairs,
    positive_zeros,
    spread,
    subnormals,
)

#: Binary primitives that are exact, and the types that JAX has them for.
EXACT_BINARY: dict[str, tuple[Callable[..., Any], tuple[np.dtype, ...]]] = {
    "add": (lax.add, FLOATS + INTS),
    "div": (lax.div, FLOATS + INTS),
    "max": (lax.max, (*FLOATS, *INTS, BOOL)),
    "min": (lax.min, (*FLOATS, *INTS, BOOL)),
    "mul": (lax.mul, FLOATS + INTS),
    "rem": (lax.rem, FLOATS + INTS),
    "sub": (lax.sub, FLOATS + INTS),
}

EXACT_UNARY: dict[str, tuple[Callable[..., Any], tuple[np.dtype, ...]]] = {
    "abs": (lax.abs, FLOATS + SIGNED),
    "neg": (lax.neg, FLOATS + INTS),
    "sign": (lax.sign, FLOATS + INTS),
    "square": (lax.square, FLOATS + INTS),
    "ceil": (lax.ceil, FLOATS),
    "floor": (lax.floor, FLOATS),
}


def operands(name: str, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of numbers whose results are not flushed to zero by JAX."""
    x = numbers(dtype)
    if not is_float(dtype):
        return pairs(x, x)
    if name in ("max", "min"):
        x = positive_zeros(x)
    size = np.abs(x.astype(np.float64))
    x = x[~((size > 0) & (size < 1e-3))]
    x, y = pairs(x, x)
    with np.errstate(all="ignore"):
        kept = ~flushed(np.divide(x, y)) if name == "div" else np.ones(len(x), np.bool_)
    return x[kept], y[kept]


def exact() -> Iterator[Case]:
    for name, (fn, dtypes) in EXACT_BINARY.items():
        for dtype in dtypes:
            yield case(name, dtype, fn, *operands(name, dtype))
        yield case(name, F32, fn, np.float32(2.5), np.float32(-0.75), about="scalar")
        yield case(name, F32, fn, np.zeros((0, 3), F32), np.zeros((0, 3), F32), about="empty")
    for name, (fn, dtypes) in EXACT_UNARY.items():
        for dtype in dtypes:
            yield case(name, dtype, fn, numbers(dtype))
        yield case(name, F32, fn, np.float32(-2.5), about="scalar")
        yield case(name, F32, fn, np.zeros((2, 0), F32), about="empty")
    for name, fn in {"abs": lax.abs, "neg": lax.neg}.items():
        for dtype in FLOATS:
            yield case(name, dtype, fn, subnormals(dtype), about="subnormal")


def divisors() -> Iterator[Case]:
    """Constant divisors, some of which need no guard."""
    for dtype in INTS:
        x = integers(dtype)
        for divisor in (3, 0, -1):
            if divisor < 0 and dtype in UNSIGNED:
                continue
            by = np.full_like(x, divisor)
            about = f"by_{divisor}".replace("-", "minus_")
            yield case("div", dtype, lambda x, by=by: lax.div(x, by), x, about=about)
            yield case("rem", dtype, lambda x, by=by: lax.rem(x, by), x, about=about)


def sums_of_gradients() -> Iterator[Case]:
    def gradient(x: jax.Array) -> jax.Array:
        return jax.vjp(lambda x: lax.mul(lax.sin(x), x), x)[1](x)[0]

    for dtype in FLOATS:
        x = spread(dtype, -2, 2)
        # The two terms have opposite signs for some.
        atol = ULPS[dtype]
        yield case("add_any", dtype, gradient, x, rtol=ULPS[dtype], atol=atol)


def clamps() -> Iterator[Case]:
    for dtype in FLOATS + INTS:
        x = positive_zeros(numbers(dtype))
        low, high = array([1, 3], dtype)
        yield case("clamp", dtype, lambda x, low=low, high=high: lax.clamp(low, x, high), x)
        triples = (*pairs(x, x), np.roll(np.tile(x, len(x)), 1))
        yield case("clamp", dtype, lax.clamp, *triples, about="elementwise")
    yield case("clamp", F32, lax.clamp, *map(np.float32, (0, 2, 1)), about="scalar")


def neighbours() -> Iterator[Case]:
    for dtype in FLOATS:
        x = np.concatenate([floats(dtype), subnormals(dtype), array([2, 4, 0.25, 1 / 3], dtype)])
        towards = array([0.0, -0.0, 1.0, -3.0, np.inf, -np.inf, np.nan], dtype)
        x, y = pairs(x, towards)
        # JAX takes a subnormal number for equal to zero; a result of zero has no sign to rely on.
        with np.errstate(all="ignore"):
            kept = ~(flushed(x) & (y == 0)) & (np.nextafter(x, y) != 0) | (x == y)
        yield case("nextafter", dtype, lax.nextafter, x[kept], y[kept])
        yield case("nextafter", dtype, lax.nextafter, floats(dtype), floats(dtype), about="same")
        for about, end in ("up", np.inf), ("down", -np.inf):
            with np.errstate(all="ignore"):
                moved = x[np.nextafter(x, array([end], dtype)) != 0]
            ends = np.full_like(moved, end)
            yield case(
                "nextafter", dtype, lambda x, y=ends: lax.nextafter(x, y), moved, about=about
            )
    yield case("nextafter", F32, lax.nextafter, np.float32(1), np.float32(2), about="scalar")


def rounding() -> Iterator[Case]:
    for method in lax.RoundingMethod:
        for dtype in FLOATS:
            halves = spread(dtype, -4.5, 4.5, 19)
            below_half = np.nextafter(array([0.5, -0.5, 1.5, 2.5], dtype), array([0], dtype))
            # From here on every number of the type is whole, or just before.
            whole = array([2.0**p + q for p in (7, 8, 10, 11, 23, 24, 52) for q in (0, 1)], dtype)
            x = np.concatenate([floats(dtype), halves, below_half, whole, -whole])
            yield case(
                "round",
                dtype,
                lambda x, method=method: lax.round(x, method),
                x,
                about=method.name.lower(),
            )


def powers() -> Iterator[Case]:
    for dtype in FLOATS:
        narrow = dtype in (F16, BF16)
        x = array([0.0, -0.0, 0.3, -0.7, 1.0, -1.0, 1.9, -2.1, 5.0, np.inf, -np.inf, np.nan], dtype)
        for n in (0, 1, 2, 3, 5, 7, -1, -2, -3):
            # A product of n factors is rounded that often in the narrow types.
            rtol = abs(n) * ULPS[dtype]
            yield case(
                "integer_pow",
                dtype,
                lambda x, n=n: lax.integer_pow(x, n),
                x,
                about=f"{n}".replace("-", "minus_"),
                rtol=rtol,
                covers=() if n in (0, 1) else ("integer_pow",),
            )
        exponents = array([0, -0.0, 1, -1, 2, 3, 0.5, -1.5, 1 / 3, np.inf, -np.inf, np.nan], dtype)
        yield case("pow", dtype, lax.pow, *pairs(x, exponents), rtol=ULPS[dtype])
        whole = np.array([0, 1, 2, 3, -1, -2, 9, 100], np.int32)
        yield case("pow", dtype, lax.pow, *pairs(x, whole), about="int", rtol=ULPS[dtype])
        small = array([0, 1, 2, 3, -1, -2, 9, 100], np.dtype(np.int8))
        yield case("pow", dtype, lax.pow, *pairs(x, small), about="int8", rtol=ULPS[dtype])
        if not narrow:
            large, y = pairs(np.abs(decades(dtype, -30, 30)), exponents[:6])
            with np.errstate(all="ignore"):
                kept = ~flushed(np.power(large, y))
            large, y = large[kept], y[kept]
            yield case("pow", dtype, lax.pow, large, y, about="large", rtol=ULPS[dtype])
    for dtype in INTS:
        x = integers(dtype)
        for n in (0, 2, 3, 10):
            yield case(
                "integer_pow",
                dtype,
                lambda x, n=n: lax.integer_pow(x, n),
                x,
                about=str(n),
            )


#: Functions of one number: where to look at them, besides zeros, infinities and NaN.
CURVES: dict[str, tuple[Callable[..., Any], Callable[[np.dtype], np.ndarray]]] = {
    "exp": (lax.exp, lambda dtype: spread(dtype, -80, 80)),
    # JAX multiplies by log 2 and loses digits further out; `Pow` does not.
    "exp2": (lax.exp2, lambda dtype: spread(dtype, *((-1, 1) if dtype.itemsize == 2 else (-9, 9)))),
    "log": (lax.log, lambda dtype: np.abs(decades(dtype, -30, 30))),
    "rsqrt": (lax.rsqrt, lambda dtype: np.abs(decades(dtype, -30, 30))),
    "sqrt": (lax.sqrt, lambda dtype: np.abs(decades(dtype, -30, 30))),
    "cbrt": (lax.cbrt, lambda dtype: decades(dtype, -30, 30)),
    "expm1": (lax.expm1, lambda dtype: spread(dtype, -20, 80)),
    "log1p": (lax.log1p, lambda dtype: spread(dtype, -0.999, 3.0, 101)),
}
NEAR_ZERO = ("exp", "exp2", "expm1", "log1p", "cbrt")
#: Those that keep the sign of a zero.
ODD = ("cbrt", "expm1", "log1p", "rsqrt", "sqrt")


EXACT_ROOT = {"reference": np.cbrt, "because": "XLA of JAX 0.6 is off by 1e-14"}


def without_underflow(x: np.ndarray, base: float) -> np.ndarray:
    """Without numbers whose power is below the least normal one, which JAX flushes to zero."""
    return x[base ** x.astype(np.float64) > 1.5 * limits(x.dtype)[0]]


def curves() -> Iterator[Case]:
    for name, (fn, points) in CURVES.items():
        for dtype in FLOATS:
            # JAX itself is off by 1e-14 here and there.
            rtol = 2e-14 if (name, dtype) == ("log1p", F64) else ULPS[dtype]
            x = points(dtype)
            if dtype == F16:
                x = x[(np.abs(x) > 1e-4) & np.isfinite(x)]
            options: dict[str, Any] = EXACT_ROOT if (name, dtype) == ("cbrt", F64) else {}
            if name in ("exp", "exp2"):
                x = without_underflow(x, 2.0 if name == "exp2" else np.e)
            yield case(name, dtype, fn, x, rtol=rtol, **options)
            ends = array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, limits(dtype)[2]], dtype)
            yield case(name, dtype, fn, ends, about="ends", rtol=rtol, **options)
            if name in NEAR_ZERO:
                low = -3 if dtype == F16 else -12
                near = decades(dtype, low, 0)
                yield case(name, dtype, fn, near, about="near_zero", rtol=rtol, **options)
            if name in ODD:
                yield case(name, dtype, fn, array([0.0, -0.0], dtype), about="zeros")
        yield case(name, F32, fn, np.float32(0.3), about="scalar", rtol=ULPS[F32])
        yield case(name, F32, fn, np.zeros((3, 0), F32), about="empty", rtol=ULPS[F32])
    large = np.abs(decades(F32, 0, 38))
    yield case("log1p", F32, lax.log1p, large, about="large", rtol=ULPS[F32])
    yield case("log", F32, lax.log, spread(F32, 0.9, 1.1, 201), about="near_one", rtol=ULPS[F32])
    yield case("log", F64, lax.log, spread(F64, 0.9, 1.1, 201), about="near_one", rtol=ULPS[F64])
    wide = decades(F64, -300, 300)
    yield case("cbrt", F64, lax.cbrt, wide, about="wide", rtol=ULPS[F64], **EXACT_ROOT)


def logistic() -> Iterator[Case]:
    for dtype in FLOATS:
        # JAX flushes what is below the least normal number.
        x = spread(dtype, -9 if dtype == F16 else -30, 30)
        x = np.concatenate([x, array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)])
        # In float32 ONNX Runtime adds to a half, and gives 0 below -18.
        atol = 0.0 if dtype == F64 else 6e-8
        yield case("logistic", dtype, lax.logistic, x, rtol=ULPS[dtype], atol=atol)
    yield case("logistic", F32, lax.logistic, np.float32(0.3), about="scalar", rtol=ULPS[F32])
    yield case("logistic", F32, lax.logistic, np.zeros((0,), F32), about="empty", rtol=ULPS[F32])


CASES = [
    *exact(),
    *divisors(),
    *sums_of_gradients(),
    *clamps(),
    *neighbours(),
    *rounding(),
    *powers(),
    *curves(),
    *logistic(),
]
