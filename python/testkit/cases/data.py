"""Arrays for cases: every element type, and values in which a wrong type or order shows."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

FLOATS: tuple[Any, ...] = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
SIGNED: tuple[Any, ...] = (np.int8, np.int16, np.int32, np.int64)
UNSIGNED: tuple[Any, ...] = (np.uint8, np.uint16, np.uint32, np.uint64)
INTS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTS
TYPES = (*NUMBERS, np.bool_)

NAN, INF = float("nan"), float("inf")


def name_of(dtype: Any) -> str:
    """`f32`, `bf16`, `u8`, `bool`."""
    dtype = np.dtype(dtype)
    if dtype == np.dtype(ml_dtypes.bfloat16):
        return "bf16"
    return "bool" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"


def is_wide(dtype: Any) -> bool:
    """Return whether JAX has the type only with 64 bits enabled."""
    return np.dtype(dtype) in (np.float64, np.int64, np.uint64)


def array(dtype: Any, *shape: int) -> np.ndarray:
    """Values that differ from their neighbours, in no order, the extremes of the type first."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    steps = (np.arange(count) * 7) % 23
    if dtype.kind == "b":
        return (steps % 3 == 0).reshape(shape)
    if dtype.kind == "i":
        values = (steps - 11).astype(dtype)
    elif dtype.kind == "u":
        values = steps.astype(dtype)
    else:
        return ((steps - 11) / 4).astype(dtype).reshape(shape)
    limits = [np.iinfo(dtype).max, np.iinfo(dtype).min][:count]
    values[: len(limits)] = limits
    return values.reshape(shape)


def small(dtype: Any, *shape: int) -> np.ndarray:
    """Small numbers, whose sums and products are exact in every type, or wrap in few bits."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    steps = (np.arange(count) * 5) % 7
    if dtype.kind == "b":
        return (steps % 2 == 0).reshape(shape)
    return (steps if dtype.kind == "u" else steps - 3).astype(dtype).reshape(shape)
