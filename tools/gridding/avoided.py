"""Special values at which JAX itself does not return, ends the process, or takes too long."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

import numpy as np


def _is_lowest(inputs: list[np.ndarray]) -> np.ndarray:
    """Return where an argument is the lowest integer, whose absolute value is itself."""
    return np.any(
        [one == np.iinfo(one.dtype).min for one in inputs if one.dtype.kind == "i"], axis=0
    )


def _are_equal_and_large(inputs: list[np.ndarray]) -> np.ndarray:
    """Return where two arguments of 32 bits are one large number."""
    a, x = (one.astype(np.float32) for one in inputs)
    is_wide = inputs[0].dtype.itemsize == 4
    return np.asarray(is_wide & (a == x) & (a > 2.0**20) & np.isfinite(a))


#: Patterns of names, where the arguments are left out, and why.
AVOIDED: tuple[tuple[str, Callable[[list[np.ndarray]], np.ndarray], str], ...] = (
    ("*.gcd", _is_lowest, "JAX does not return: the absolute value of the lowest integer wraps"),
    ("*.lcm", _is_lowest, "JAX does not return: the absolute value of the lowest integer wraps"),
    *(
        (
            name,
            _are_equal_and_large,
            "the sum has millions of terms: JAX needs a minute, and ONNX Runtime many",
        )
        for name in ("*.igamma", "*.gammainc")
    ),
)


def without_avoided(name: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Returns the inputs without the places at which the arguments are avoided."""
    for pattern, is_avoided, _ in AVOIDED:
        if fnmatchcase(name, pattern):
            kept = ~np.broadcast_to(is_avoided(inputs), inputs[0].shape)
            inputs = [array[kept] for array in inputs]
    return inputs
