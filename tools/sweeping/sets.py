"""Sets of arguments, and the arrays that they are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

F32, I32, C64 = np.float32, np.int32, np.complex64


@dataclasses.dataclass(frozen=True)
class ArgumentSet:
    """One call of a function: every NumPy array in it is an input of the model, the rest is static.

    A float may differ from JAX's by `atol + rtol * |x|`; NaN and infinities have to be the same.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    rtol: float = 1e-5
    atol: float = 1e-6
    #: Calls the function in another way than `function(*args, **kwargs)`.
    via: Callable[..., Any] | None = None

    @property
    def label(self) -> str:
        """The call as the page and the messages show it."""
        shown = [_shown(arg) for arg in self.args]
        shown += [f"{name}={_shown(value)}" for name, value in self.kwargs.items()]
        return f"({', '.join(shown)})"

    @property
    def inputs(self) -> list[np.ndarray]:
        """The arrays, in the order of the model's inputs."""
        return [leaf for leaf in self._leaves() if isinstance(leaf, np.ndarray)]

    def program(self, function: Callable[..., Any]) -> Callable[..., list[Any]]:
        """Returns the call as a function of its arrays that returns the arrays of its result."""
        leaves, tree = jax.tree.flatten((self.args, self.kwargs))

        def run(*arrays: Any) -> list[Any]:
            given = iter(arrays)
            filled = [next(given) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
            args, kwargs = jax.tree.unflatten(tree, filled)
            call = function if self.via is None else lambda *a, **k: self.via(function, *a, **k)
            return [one for one in jax.tree.leaves(call(*args, **kwargs)) if _is_array(one)]

        return run

    def near(self, rtol: float, atol: float | None = None) -> ArgumentSet:
        """Returns the same set with another tolerance."""
        return dataclasses.replace(self, rtol=rtol, atol=rtol / 10 if atol is None else atol)

    def _leaves(self) -> list[Any]:
        return jax.tree.leaves((self.args, self.kwargs))


def call(*args: Any, **kwargs: Any) -> ArgumentSet:
    """Returns the set `function(*args, **kwargs)`."""
    return ArgumentSet(args, kwargs)


def use(via: Callable[..., Any], *args: Any, **kwargs: Any) -> ArgumentSet:
    """Returns the set `via(function, *args, **kwargs)`."""
    return ArgumentSet(args, kwargs, via=via)


def up_to_sign(*args: Any, **kwargs: Any) -> ArgumentSet:
    """Returns a set whose results are compared by absolute value.

    The sign of an eigenvector or of a singular vector is arbitrary; LAPACK's is not reproduced.
    """
    return ArgumentSet(args, kwargs, via=_absolute)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Returns numbers of both signs."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(F32)


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    """Returns numbers between 0.1 and 3."""
    return np.random.default_rng((seed, *shape)).uniform(0.1, 3, shape).astype(F32)


def unit(*shape: int, seed: int = 0) -> np.ndarray:
    """Returns numbers between 0.05 and 0.95."""
    return np.random.default_rng((seed, *shape)).uniform(0.05, 0.95, shape).astype(F32)


def ints(*shape: int, low: int = -9, high: int = 10, seed: int = 0) -> np.ndarray:
    """Returns whole numbers."""
    return np.random.default_rng((seed, *shape)).integers(low, high, shape).astype(I32)


def flags(*shape: int, seed: int = 0) -> np.ndarray:
    """Returns booleans."""
    return np.random.default_rng((seed, *shape)).integers(0, 2, shape).astype(bool)


def complexes(*shape: int, seed: int = 0) -> np.ndarray:
    """Returns complex numbers."""
    return (floats(*shape, seed=seed) + 1j * floats(*shape, seed=seed + 7)).astype(C64)


def spd(*shape: int) -> np.ndarray:
    """Returns symmetric positive definite matrices that are far from singular."""
    a = floats(*shape)
    eye = np.eye(shape[-1], dtype=F32)
    return (a @ np.swapaxes(a, -1, -2) / shape[-1] + 2 * eye).astype(F32)


def square(*shape: int) -> np.ndarray:
    """Returns matrices that are far from singular."""
    return floats(*shape) + 3 * np.eye(shape[-1], dtype=F32)


def array(*values: Any, dtype: Any = F32) -> np.ndarray:
    """Returns the array of the values."""
    return np.array(values, dtype)


SPECIAL = array(np.nan, np.inf, -np.inf, -0.0, 0.0, 1, -1, 0.5, -2.5, 3, 1e-6, 1e6)


def _absolute(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return jax.tree.map(abs, function(*args, **kwargs))


def _is_array(value: Any) -> bool:
    return isinstance(value, jax.Array | np.ndarray | np.generic | bool | int | float | complex)


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        name = {"float32": "f32", "int32": "i32", "complex64": "c64"}.get(value.dtype.name)
        return f"{name or value.dtype.name}[{','.join(map(str, value.shape))}]"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(item)}" for key, item in value.items()) + "}"
    if callable(value):
        return getattr(value, "__name__", "function").replace("<lambda>", "lambda")
    return repr(value)
