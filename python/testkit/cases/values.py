"""Types and numbers that the tables of elementwise cases are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from .case import Case

F16 = np.dtype(np.float16)
BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)
BOOL = np.dtype(np.bool_)

FLOATS = (F16, BF16, F32, F64)
SIGNED = tuple(np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
UNSIGNED = tuple(np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
INTS = SIGNED + UNSIGNED

#: A few units in the last place. JAX may compute the 16-bit types in float32 and round once, where
#: ONNX Runtime rounds after each operator.
ULPS = {F16: 2e-3, BF16: 1.6e-2, F32: 1e-6, F64: 4e-15}

SHORT = {F16: "f16", BF16: "bf16", F32: "f32", F64: "f64", BOOL: "bool"} | {
    dtype: dtype.kind + str(8 * dtype.itemsize) for dtype in INTS
}


def is_float(dtype: np.dtype) -> bool:
    return dtype in FLOATS


def array(values: Sequence[float], dtype: np.dtype) -> np.ndarray:
    """Numbers of a type. Too large a float is infinite; an integer out of range is left out."""
    if not is_float(dtype):
        info = np.iinfo(dtype)
        return np.array([v for v in values if info.min <= v <= info.max], dtype)
    with np.errstate(over="ignore"):
        return np.array(values, np.float64).astype(dtype)


def limits(dtype: np.dtype) -> list[float]:
    """The least normal number and the largest, with both signs."""
    info = ml_dtypes.finfo(dtype)
    return [float(v) for v in (info.tiny, -info.tiny, info.max, info.min)]


def floats(dtype: np.dtype) -> np.ndarray:
    """Zeros, infinities, NaN, both ends of the range and numbers between."""
    ordinary = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 3.0, -7.25, 100.0, -1234.5]
    return array([*ordinary, *limits(dtype), np.inf, -np.inf, np.nan], dtype)


def subnormals(dtype: np.dtype) -> np.ndarray:
    """Numbers below the least normal one, down to the smallest."""
    info = ml_dtypes.finfo(dtype)
    tiny, smallest = float(info.tiny), float(info.smallest_subnormal)
    numbers = [smallest, 2 * smallest, 3 * smallest, tiny / 2, tiny - smallest, tiny]
    return array([*numbers, *(-number for number in numbers)], dtype)


def integers(dtype: np.dtype) -> np.ndarray:
    """Both ends of the range and numbers about zero."""
    info = np.iinfo(dtype)
    ends = [info.min, info.min + 1, info.max // 2, info.max - 1, info.max]
    return array([*ends, -100, -7, -2, -1, 0, 1, 2, 3, 7, 100], dtype)


def numbers(dtype: np.dtype) -> np.ndarray:
    """What there is of a type that may go wrong."""
    if dtype == BOOL:
        return np.array([False, True])
    return floats(dtype) if is_float(dtype) else integers(dtype)


def spread(dtype: np.dtype, low: float, high: float, count: int = 41) -> np.ndarray:
    """Evenly spaced numbers."""
    return np.linspace(low, high, count).astype(dtype)


def decades(dtype: np.dtype, low: int, high: int) -> np.ndarray:
    """Powers of ten and a bit, with both signs."""
    sizes = [1.37 * 10.0**exponent for exponent in range(low, high)]
    return array([*sizes, *(-size for size in sizes)], dtype)


def positive_zeros(x: np.ndarray) -> np.ndarray:
    """The same numbers, but for the sign of a zero."""
    return np.where(x == 0, np.zeros_like(x), x)


def flushed(x: np.ndarray) -> np.ndarray:
    """Where JAX gives zero for a number below the least normal one, as it does on a CPU."""
    size = np.abs(x.astype(np.float64))
    return (size > 0) & (size < limits(x.dtype)[0])


def pairs(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every element of one against every element of the other."""
    return np.repeat(x, len(y)), np.tile(y, len(x))


def case(
    primitive: str,
    dtype: np.dtype,
    fn: Callable[..., Any],
    *inputs: np.ndarray,
    about: str = "",
    rtol: float = 0.0,
    **options: Any,
) -> Case:
    """A case named after its primitive, its type and what it is about."""
    name = ".".join(part for part in (primitive, SHORT[dtype], about) if part)
    double = any(np.asarray(value).dtype.itemsize == 8 for value in inputs)
    options = {"double": double, "covers": (primitive,)} | options
    return Case(name, fn, inputs, rtol=rtol, **options)
