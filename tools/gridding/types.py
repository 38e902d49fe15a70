"""The element types of the grid, and the special values of each."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import ml_dtypes
import numpy as np

#: The columns of the page, and the types that each one covers.
FAMILIES: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed": ("int4", "int8", "int16", "int32", "int64"),
    "unsigned": ("uint4", "uint8", "uint16", "uint32", "uint64"),
    "float8": ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    "half": ("float16", "bfloat16"),
    "float32": ("float32",),
    "float64": ("float64",),
    "complex": ("complex64", "complex128"),
}
TYPES = tuple(name for names in FAMILIES.values() for name in names)


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def is_double(name: str) -> bool:
    """Return whether JAX needs 64-bit types for it."""
    return name in ("int64", "uint64", "float64", "complex128")


@dataclasses.dataclass(frozen=True)
class Kind:
    """An element type as a program and ONNX Runtime take it."""

    name: str

    @property
    def dtype(self) -> np.dtype:
        return dtype_of(self.name)

    @property
    def carrier(self) -> np.dtype:
        """The type of the model's input: arrays of four bits have no buffers in Python."""
        return np.dtype({"int4": "int8", "uint4": "uint8"}.get(self.name) or self.dtype)

    @property
    def is_float(self) -> bool:
        return self.name.startswith(("float", "bfloat"))

    @property
    def is_complex(self) -> bool:
        return self.name.startswith("complex")

    @property
    def is_double(self) -> bool:
        return is_double(self.name)


@functools.cache
def values(name: str, count: int) -> tuple[np.ndarray, ...]:
    """The special values of a type for a function of `count` arguments: all combinations."""
    kind = Kind(name)
    few = count > 1
    if kind.name == "bool":
        chosen = np.array([False, True])
    elif kind.is_complex:
        parts = _floats("float32" if name == "complex64" else "float64", few=True)
        chosen = _pairs(parts, name)
        chosen = _some(chosen, 26) if few else chosen
    elif kind.is_float:
        chosen = _floats(name, few)
    else:
        chosen = _integers(name, few)
    if count > 2:
        chosen = _some(chosen, 9)
    grid = itertools.product(chosen, repeat=count)
    columns = list(zip(*grid, strict=True))
    return tuple(np.array(column, dtype=kind.carrier) for column in columns)


def _some(values: np.ndarray, count: int) -> np.ndarray:
    """At most so many of the values, spread over all of them."""
    if values.size <= count:
        return values
    return values[np.linspace(0, values.size - 1, count).astype(int)]


def _pairs(parts: np.ndarray, name: str) -> np.ndarray:
    found = np.empty(parts.size**2, name)
    real, imaginary = np.meshgrid(parts, parts)
    found.real, found.imag = real.reshape(-1), imaginary.reshape(-1)
    return found


def _floats(name: str, few: bool) -> np.ndarray:
    dtype = dtype_of(name)
    info: Any = ml_dtypes.finfo(dtype)
    ends = [float(info.max), float(info.tiny), float(info.smallest_subnormal)]
    plain = [0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 100.0, np.inf]
    if not few:
        plain += [
            *(0.25, 0.75, 0.999, 1.001, 1.5, 1.25, 3.5, 4.0, 5.0, 6.0, 7.5, 10.0, 12.5, 16.5, 17.0),
            *(18.5, 20.0, 30.0, 33.5, 50.0, 87.0, 88.5, 89.0, 103.0, 105.0, 127.0, 128.0, 150.0),
            *(170.5, 172.0, 255.0, 256.0, 708.0, 710.0, 745.5, 1e3, 32767.0, 32768.0, 65504.0),
            *(1e5, 2.0**24, 2.0**31, 2.0**32, 2.0**53, 2.0**63, 2.0**64, 1e10, 1e20, 1e38, 1e300),
            *(1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-10, 1e-20, 1e-30, 1e-38, 1e-300),
            *(np.pi / 2, np.pi, 2 * np.pi, np.e, float(info.eps), 1 + float(info.eps)),
            1 - float(info.eps),
        ]
    both = [sign * number for number in [*plain, *ends] for sign in (1, -1)]
    with np.errstate(over="ignore"):
        found = np.array([*both, np.nan], np.float64).astype(dtype)
    # A number that the type does not have becomes another one of the list.
    bits = found.view(f"u{dtype.itemsize}")
    return found[np.sort(np.unique(bits, return_index=True)[1])]


def _integers(name: str, few: bool) -> np.ndarray:
    info: Any = ml_dtypes.iinfo(dtype_of(name))
    low, high = int(info.min), int(info.max)
    plain = [0, 1, 2, 3, 7, 8, 31, 32, 64, -1, -2, -3, -8, low, low + 1, high, high - 1]
    if not few:
        plain += [4, 5, 6, 9, 15, 16, 17, 33, 63, 100, 127, 128, 255, 256, 1000, 32767, 32768]
        plain += [46340, 46341, 65535, 65536, 2**31, 2**32, 2**53 + 1, -4, -5, -7, -16, -100, -127]
        plain += [high // 2, high // 2 + 1, low // 2, high // 3]
    chosen = list(dict.fromkeys(number for number in plain if low <= number <= high))
    return np.array(chosen, Kind(name).carrier)
