"""Measure how far numbers are from those of a reference."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._comparing.arrays import Array
from .._comparing.judging import is_floating

#: From this error on, nothing of an output is left.
LOST = 1.0


def relative_error(expected: Array, got: Array) -> float:
    """Return the error of an array, relative to the array.

    The error is the larger one of two: the largest distance relative to the largest element, and
    the root mean square of the distances relative to that of the elements. It is infinite if an
    element is not finite that should be. For integers and booleans, it is the share that differs.
    """
    if expected.shape != got.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    if expected.dtype.kind != "f" and not is_floating(expected.dtype):
        return float(np.count_nonzero(expected != got) / expected.size)
    with np.errstate(all="ignore"):
        # Distances of float32 numbers are exact enough in float32.
        kind = np.float64 if expected.dtype.itemsize > 4 else np.float32
        wide: Any = expected.astype(kind, copy=False)
        found: Any = got.astype(kind, copy=False)
        distance = np.abs(found - wide)
        largest = float(distance.max())
        if not np.isfinite(largest):
            finite = np.isfinite(wide)
            same = (wide == found) | (np.isnan(wide) & np.isnan(found))
            if not same[~finite].all():
                return float("inf")
            wide, distance = wide[finite], distance[finite]
            if not wide.size:
                return 0.0
            largest = float(distance.max())
            if not np.isfinite(largest):
                return float("inf")
        if largest == 0:
            return 0.0
        size = float(max(wide.max(), -wide.min()))
        if size == 0:
            return largest
        noise, signal = _mean_square(distance / largest), _mean_square(wide / size)
        ratio = largest / size
        return max(ratio, ratio * math.sqrt(noise / signal)) if signal > 0 else ratio


def _mean_square(array: Any) -> float:
    flat = array.ravel()
    square = float(np.vdot(flat, flat))
    size: int = flat.size
    return square / size


def worst_output(
    expected: Mapping[str, Array], got: Mapping[str, Array]
) -> tuple[float, str | None]:
    """Return the largest relative error of the outputs, and the output that has it."""
    worst, where = 0.0, None
    for name, array in expected.items():
        error = relative_error(array, got[name]) if name in got else float("inf")
        if error > worst:
            worst, where = error, name
    return worst, where


def decibels(expected: Mapping[str, Array], got: Mapping[str, Array]) -> float:
    """Return the smallest ratio of signal to noise of the outputs, in decibels."""
    least = float("inf")
    for name, array in expected.items():
        if not is_floating(array.dtype) or not array.size:
            continue
        with np.errstate(all="ignore"):
            wide = array.astype(np.float64).ravel()
            distance = got[name].astype(np.float64).ravel() - wide
            noise, signal = float(distance @ distance), float(wide @ wide)
            if not np.isfinite(noise):
                return float("-inf")
            if noise > 0:
                ratio = 10 * np.log10(signal / noise) if signal > 0 else float("-inf")
                least = min(least, float(ratio))
    return least
