"""Operations on bits and on flags."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import jax.numpy as jnp
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
    yield from four_bits()


def four_bits() -> Iterator[Case]:
    """Shifts of 4-bit integers, which a model reads as bytes and converts."""
    for four, carrier in ((jnp.int4, np.int8), (jnp.uint4, np.uint8)):
        x, by = pairs(np.arange(16, dtype=carrier), np.arange(6, dtype=carrier))
        for name, fn in SHIFTS.items():
            yield case(
                name, np.dtype(carrier),
                lambda x, by, fn=fn, four=four: fn(x.astype(four), by.astype(four)).astype(x.dtype),
                x, by, about=np.dtype(four).name,
                reference=functools.partial(_shifted_nibbles, name),
                because="XLA keeps the bits above the fourth if it fuses the shift and the cast",
            )  # fmt: skip


def _shifted_nibbles(name: str, x: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Return the 4 bits that are left after a shift, as the byte of the same sign."""
    is_negative = ((x & 8) > 0) & (name == "shift_right_arithmetic")
    bits = np.where(is_negative, x.astype(int) | -16, x.astype(int))
    shifted = (bits << by if name == "shift_left" else bits >> by) & 15
    past = np.where(is_negative, 15, 0)
    shifted = np.where(by < 4, shifted, past)
    is_signed = x.dtype == np.int8
    return np.where((shifted > 7) & is_signed, shifted - 16, shifted).astype(x.dtype)


CASES = [*logic(), *counts(), *shifts()]
