"""Special values at which JAX itself does not return, or ends the process."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

import numpy as np


def _is_lowest(array: np.ndarray) -> np.ndarray:
    """Which elements are the lowest integer, whose absolute value is itself."""
    if array.dtype.kind != "i":
        return np.zeros(array.shape, bool)
    return np.asarray(array == np.iinfo(array.dtype).min)


#: Patterns of names, what is left out of the arguments, and why.
AVOIDED: tuple[tuple[str, Callable[[np.ndarray], np.ndarray], str], ...] = (
    ("*.gcd", _is_lowest, "JAX does not return: the absolute value of the lowest integer wraps"),
    ("*.lcm", _is_lowest, "JAX does not return: the absolute value of the lowest integer wraps"),
)


def without_avoided(name: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Returns the inputs without the places at which an argument is avoided."""
    for pattern, is_avoided, _ in AVOIDED:
        if fnmatchcase(name, pattern):
            kept = ~np.any([is_avoided(array) for array in inputs], axis=0)
            inputs = [array[kept] for array in inputs]
    return inputs
