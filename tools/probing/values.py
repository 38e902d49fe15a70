"""Numbers that show how a runtime computes, by what is special about them."""

from __future__ import annotations

import math
from typing import Final

import ml_dtypes
import numpy as np

#: What is special about the numbers of an input, the most ordinary first.
KINDS: Final = (
    "ordinary",
    "zero",
    "negative",
    "ties",
    "large",
    "high",
    "ends",
    "infinite",
    "nan",
    "negative_zero",
    "subnormal",
    "precise",
)

#: The types that NumPy lacks.
EXTENDED: Final = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "int4": ml_dtypes.int4,
    "uint4": ml_dtypes.uint4,
}


def dtype_of(name: str) -> np.dtype:
    """Returns the type of NumPy with this name of ONNX."""
    return np.dtype(EXTENDED.get(name, name))


def is_float(name: str) -> bool:
    return "float" in name


def bits(name: str) -> int:
    digits = "".join(c for c in name.replace("e4m3fn", "").replace("e5m2", "") if c.isdigit())
    return int(digits or 8)


def numbers(kind: str, name: str) -> list[float] | list[int] | None:
    """Returns numbers of a kind, or of all kinds; `None` if the type has no such numbers."""
    if kind == "all":
        lists = [found for found in (numbers(each, name) for each in KINDS) if found]
        rounds = range(max(map(len, lists)))
        return [found[at] for at in rounds for found in lists if at < len(found)]
    if name == "bool":
        return [1, 0, 0, 1, 1, 0, 1] if kind == "ordinary" else None
    return _floats(kind, name) if is_float(name) else _integers(kind, name)


def _floats(kind: str, name: str) -> list[float] | None:
    small = bits(name) <= 8
    return {
        "ordinary": [0.5, 1.0, 2.0, 3.25, 0.75, 1.5, 7.0, 0.125, 5.0, 2.5],
        "zero": [0.0, 1.0, 0.0, 2.0, 3.0, 0.0, 0.5],
        "negative": [-0.5, 1.5, -2.0, -3.25, 4.0, -7.0, 0.25, -1.0, 3.0],
        "ties": [0.5, 1.5, 2.5, -0.5, -1.5, 1.0, 1.0, -2.5, 3.5, 1.0],
        "large": None if small else _large(name),
        "infinite": None if name == "float8e4m3fn" else [np.inf, 1.0, -np.inf, -2.0, 0.5, 3.0, 0.0],
        "nan": [np.nan, 1.0, -2.0, np.nan, 0.5, 3.0, 0.0, -1.0],
        "negative_zero": [-0.0, 0.0, 1.0, -0.0, -1.0, -0.0, 0.0],
        "subnormal": [1e-40, -1e-39, 1.4e-45, 3e-42, 1.0] if name == "float32" else None,
        "precise": [1 + 2.0**-40, 1 / 3, np.pi, -2 / 7, 1e-9, 7.1] if name == "float64" else None,
    }.get(kind)


def _large(name: str) -> list[float]:
    if name == "float16":
        return [1e3, -3e4, 2e3, 6e4, -6e4, 1.0, -100.0]
    return [1e3, -3e4, 1e10, -3e20, 1e38, -2e38, 16777217.0, 88.0, -104.0]


def _integers(kind: str, name: str) -> list[int] | None:
    signed = not name.startswith("u")
    size = bits(name)
    low, high = (-(2 ** (size - 1)), 2 ** (size - 1) - 1) if signed else (0, 2**size - 1)
    if size == 4:
        ordinary = {"ordinary": [1, 2, 3, 5, 7, 4, 6], "zero": [0, 1, 0, 2]}
        return ordinary.get(kind) or ([low, high, 1, high - 1] if kind == "ends" else None)
    sign = -1 if signed else 1
    large = [2**24 + 1, sign * (2**25 + 3), 2**30 + 7, sign * (2**30 + 1), 3, 2**24 + 3]
    above = {
        "uint32": [2**31, 2**31 + 5, 2**32 - 7, 3, 2**31 + 1000, 17],
        "int64": [2**33 + 1, -(2**40) - 3, 2**31 + 5, 7, -(2**35) - 1, 2**32 + 2],
        "uint64": [2**33 + 1, 2**40 + 3, 2**31 + 5, 7, 2**35 + 1, 2**32 + 2],
    }
    return {
        "ordinary": [1, 2, 3, 5, 7, 4, 6, 11, 9],
        "zero": [0, 1, 0, 2, 3, 0],
        "negative": [-1, 2, -3, -5, 7, -4, 6, -11] if signed else None,
        "ties": [3, 1, 3, 3, 1, 2, 2],
        "large": large if size >= 32 else None,
        "high": above.get(name),
        "ends": [low, high, high - 1, low + 1, 1, high // 2 + 3, 2],
    }.get(kind)


def fill(kind: str, name: str, shape: tuple[int, ...], operand: int, domain: str) -> np.ndarray:
    """Returns an array of numbers of a kind, another one for each operand."""
    found = numbers(kind, name) or numbers("ordinary", name)
    assert found is not None
    size = int(np.prod(shape))
    steps = [step for step in range(1, 2 * len(found)) if math.gcd(step, len(found)) == 1]
    step = steps[(operand * 3) % len(steps)]
    chosen = [found[(operand + i * step + i // len(found)) % len(found)] for i in range(size)]
    chosen = [_within(domain, value, name, i + operand) for i, value in enumerate(chosen)]
    return np.array(chosen, dtype=object).astype(_base(name)).astype(dtype_of(name)).reshape(shape)


def _base(name: str) -> str:
    if name in EXTENDED:
        return "float32" if is_float(name) else "int32"
    return name


def _within(domain: str, value: float, name: str, at: int) -> float:
    if domain == "divisor":
        return _within_divisors(value, name, at)
    if domain == "shift":
        return at % bits(name)
    if domain == "moderate":
        return value if not abs(value) > 1e5 or math.isinf(value) else math.copysign(1e3, value)
    if domain == "spread":
        # Positive, and far from zero and infinity.
        return (1.0, 0.5, 2.0, 1.5, 0.25)[at % 5] if is_float(name) else (1, 2, 3)[at % 3]
    return value


def _within_divisors(value: float, name: str, at: int) -> float:
    if is_float(name):
        return value
    # The smallest number divided by -1 does not fit into its type.
    return value if value not in (0, -1) else (3, 2, 7)[at % 3]
