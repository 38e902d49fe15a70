"""Comparison and selection."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
from jax import lax
from jax._src.lax import lax as internal

from .case import Case
from .values import (
    BOOL,
    F32,
    FLOATS,
    INTS,
    case,
    floats,
    numbers,
    pairs,
    positive_zeros,
    subnormals,
)

COMPARISONS = {
    "eq": lax.eq,
    "ge": lax.ge,
    "gt": lax.gt,
    "le": lax.le,
    "lt": lax.lt,
    "ne": lax.ne,
}
TOTAL_ORDER = {"le_to": internal.le_to_p.bind, "lt_to": internal.lt_to_p.bind}


def comparisons() -> Iterator[Case]:
    for name, fn in COMPARISONS.items():
        for dtype in (*FLOATS, *INTS, BOOL):
            x = numbers(dtype)
            yield case(name, dtype, fn, *pairs(x, x))
        yield case(name, F32, fn, np.float32(2), np.float32(2), about="scalar")
        yield case(name, F32, fn, np.zeros((0,), F32), np.zeros((0,), F32), about="empty")


def total_order() -> Iterator[Case]:
    for name, fn in TOTAL_ORDER.items():
        for dtype in (*FLOATS, *INTS):
            x = numbers(dtype)
            if dtype in FLOATS:
                x = np.concatenate([x, subnormals(dtype)])
            yield case(name, dtype, fn, *pairs(x, x))
        yield case(name, F32, fn, np.float32(-0.0), np.float32(0.0), about="scalar")


def finiteness() -> Iterator[Case]:
    for dtype in FLOATS:
        x = np.concatenate([floats(dtype), subnormals(dtype)])
        yield case("is_finite", dtype, lax.is_finite, x)
    yield case("is_finite", F32, lax.is_finite, np.float32(np.inf), about="scalar")
    yield case("is_finite", F32, lax.is_finite, np.zeros((0, 2), F32), about="empty")


def selections() -> Iterator[Case]:
    def select(which: jax.Array, *cases: jax.Array) -> jax.Array:
        return lax.select_n(which, *cases)

    for dtype in (*FLOATS, *INTS, BOOL):
        x = numbers(dtype)
        # In any case but the first ONNX Runtime makes a negative zero positive.
        y, z = (np.roll(positive_zeros(x), by) for by in (1, 2))
        flags = np.arange(len(x)) % 2 == 0
        yield case("select_n", dtype, select, flags, x, y)
        which = (np.arange(len(x)) % 3).astype(np.int32)
        yield case("select_n", dtype, select, which, x, y, z, about="of_three")
        four = (np.arange(len(x)) % 4).astype(np.int32)
        yield case("select_n", dtype, select, four, x, y, z, y, about="of_four")
        yield case("select_n", dtype, select, np.int32(1), x, y, about="scalar_number")
        yield case("select_n", dtype, select, np.bool_(True), x, y, about="scalar_flag")
        yield case("select_n", dtype, select, np.zeros_like(which), x, about="of_one")
    empty = np.zeros((0,), F32)
    yield case("select_n", F32, select, np.zeros((0,), np.bool_), empty, empty, about="empty")


CASES = [*comparisons(), *total_order(), *finiteness(), *selections()]
