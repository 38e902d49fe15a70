"""The public functions of the swept modules, found by asking JAX."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import jax.extend.core
import numpy as np

#: The swept modules, in the order of the page.
MODULES = (
    "jax.numpy",
    "jax.numpy.fft",
    "jax.numpy.linalg",
    "jax.nn",
    "jax.lax",
    "jax.lax.linalg",
    "jax.image",
    "jax.scipy.cluster.vq",
    "jax.scipy.fft",
    "jax.scipy.integrate",
    "jax.scipy.interpolate",
    "jax.scipy.linalg",
    "jax.scipy.ndimage",
    "jax.scipy.optimize",
    "jax.scipy.signal",
    "jax.scipy.sparse.linalg",
    "jax.scipy.spatial.transform",
    "jax.scipy.special",
    "jax.scipy.stats",
)


def functions() -> dict[str, Callable[..., Any]]:
    """Returns every public function and class of the modules by its full name."""
    return {name: value for module in MODULES for name, value in _public(module)}


def module_of(name: str) -> str:
    """Returns the swept module that a full name belongs to."""
    return max((m for m in MODULES if name.startswith(m + ".")), key=len)


def _public(module: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    loaded = importlib.import_module(module)
    for name in sorted(dir(loaded)):
        value = getattr(loaded, name)
        full = f"{module}.{name}"
        if name.startswith("_") or _is_dtype(value):
            continue
        if isinstance(value, types.ModuleType):
            # `jax.scipy.stats` has a module per distribution.
            if module == "jax.scipy.stats":
                yield from _public(full)
        elif isinstance(value, jax.extend.core.Primitive) or not callable(value):
            continue
        else:
            yield full, value


def _is_dtype(value: Any) -> bool:
    """True for `jnp.float32`, `jnp.floating` and the like."""
    if isinstance(getattr(value, "dtype", None), np.dtype):
        return True
    return isinstance(value, type) and issubclass(value, np.generic | np.dtype | Warning)
