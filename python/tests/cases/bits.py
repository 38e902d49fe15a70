"""Operations on bits and on flags."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jax import lax

from .case import Case
from .values import BOOL, INTS, array, case, integers, numbers, pairs

LOGIC = {"and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor}
COUNTS = {"clz": lax.clz, "population_count": lax.population_count}
SHIFTS = {
    "shift_left": lax.shift_left,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "shift_right_logical": lax.shift_right_logical,
}
I32 = np.dtype(np.int32)


def logic() -> Iterator[Case]:
    for dtype in (*INTS, BOOL):
        x = numbers(dtype)
        for name, fn in LOGIC.items():
            yield case(name, dtype, fn, *pairs(x, x))
        yield case("not", dtype, lax.bitwise_not, x)
    for name, fn in LOGIC.items():
        yield case(name, I32, fn, np.int32(12), np.int32(-10), about="scalar")
        yield case(name, I32, fn, np.zeros((0,), I32), np.zeros((0,), I32), about="empty")


def counts() -> Iterator[Case]:
    for dtype in INTS:
        width = 8 * dtype.itemsize
        powers = array([1 << bit for bit in range(width)], dtype)
        x = np.concatenate([integers(dtype), powers, powers - dtype.type(1), ~powers])
        for name, fn in COUNTS.items():
            yield case(name, dtype, fn, x)
    for name, fn in COUNTS.items():
        yield case(name, I32, fn, np.int32(12345), about="scalar")
        yield case(name, I32, fn, np.zeros((2, 0), I32), about="empty")


def shifts() -> Iterator[Case]:
    for dtype in INTS:
        width = 8 * dtype.itemsize
        distances = [0, 1, 2, width // 2, width - 1, width, width + 1, 100, -1, -7]
        for name, fn in SHIFTS.items():
            yield case(name, dtype, fn, *pairs(integers(dtype), array(distances, dtype)))
            for distance in (3, width):
                by = np.full_like(integers(dtype), distance)
                yield case(
                    name, dtype, lambda x, fn=fn, by=by: fn(x, by), integers(dtype),
                    about=f"by_{distance}",
                )  # fmt: skip
    for name, fn in SHIFTS.items():
        yield case(name, I32, fn, np.int32(-5), np.int32(1), about="scalar")
        yield case(name, I32, fn, np.zeros((0,), I32), np.zeros((0,), I32), about="empty")


CASES = [*logic(), *counts(), *shifts()]
