"""A program of a library: the function to export, with the inputs to call it on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Build = Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
"""Returns the function, with random weights, and its inputs."""


@dataclass(frozen=True)
class Program:
    """A program as a user of the library writes it.

    `tolerance` is the largest error relative to the largest element of a result. `refused` is a
    part of the message if jax2onnx does not convert the program. `weights` are names that the model
    must use, because the library does. `specs` are input specs with symbolic sizes to export with,
    and `others` are inputs of other sizes that the model must accept. `options` are other arguments
    of `to_onnx`.
    """

    name: str
    build: Build
    tolerance: float = 2e-5
    refused: str = ""
    weights: tuple[str, ...] = ()
    specs: tuple[Any, ...] = ()
    others: tuple[tuple[Any, ...], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


def floats(*shape: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def ints(below: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(4).integers(0, below, shape).astype(np.int32)
