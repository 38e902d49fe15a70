"""A program of the matrix, and the arrays that programs share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

Function = Callable[..., Any]


@dataclass(frozen=True)
class Program:
    """A function and the arguments that it is exported and run with."""

    name: str
    function: Function
    arguments: tuple[np.ndarray, ...]


PROGRAMS: Final[list[Program]] = []


def program(*arguments: np.ndarray) -> Callable[[Function], Function]:
    """Adds a function to the programs, under its own name."""

    def add(function: Function) -> Function:
        PROGRAMS.append(Program(function.__name__, function, arguments))
        return function

    return add


def floats(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Returns normally distributed numbers."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def whole(below: int, *shape: int, seed: int = 0, dtype: Any = np.int32) -> np.ndarray:
    """Returns whole numbers from 0 on."""
    return np.random.default_rng(seed).integers(0, below, shape).astype(dtype)


def weights(*shape: int, seed: int = 7) -> jax.Array:
    """Returns weights of a layer: small enough that results stay near 1."""
    return jnp.asarray(floats(*shape, seed=seed, scale=float(np.sqrt(1 / shape[0]))))
