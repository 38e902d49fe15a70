"""Measure how far numbers are from those of a reference."""

from collections.abc import Mapping

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
    if not is_floating(expected.dtype):
        return float(np.count_nonzero(expected != got) / expected.size)
    with np.errstate(all="ignore"):
        wide, found = expected.astype(np.float64), got.astype(np.float64)
        finite = np.isfinite(wide)
        if not finite.all():
            same = (wide == found) | (np.isnan(wide) & np.isnan(found))
            if not same[~finite].all():
                return float("inf")
            wide, found = wide[finite], found[finite]
            if not wide.size:
                return 0.0
        distance = found - wide
        if not np.isfinite(distance).all():
            return float("inf")
        largest, size = float(np.abs(distance).max()), float(np.abs(wide).max())
        if largest == 0:
            return 0.0
        if size == 0:
            return largest
        flat, base = distance.ravel(), wide.ravel()
        noise, signal = float(flat @ flat), float(base @ base)
        return max(largest / size, float(np.sqrt(noise / signal)) if signal > 0 else 0.0)


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
