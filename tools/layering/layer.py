"""A layer of a library, with the inputs to call it on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

BATCH = "B"
"""The axis whose size is symbolic in one of the variants."""


@dataclass(frozen=True)
class Spec:
    """An input: its shape, and which numbers it contains."""

    shape: tuple[int | str, ...]
    fill: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
    is_float: bool = False

    def array(self, batch: int, dtype: Any) -> np.ndarray:
        shape = tuple(batch if size == BATCH else int(size) for size in self.shape)
        values = self.fill(np.random.default_rng(5), shape)
        return values.astype(dtype) if self.is_float else values

    def symbolic(self, scope: Any) -> jax.ShapeDtypeStruct:
        """Returns the type of the input with a symbolic batch, in `float32`."""
        shape = tuple(scope if size == BATCH else size for size in self.shape)
        return jax.ShapeDtypeStruct(shape, self.array(1, np.float32).dtype)


def floats(*shape: int | str) -> Spec:
    return Spec(shape, lambda rng, shape: rng.normal(size=shape), is_float=True)


def ints(below: int, *shape: int | str) -> Spec:
    return Spec(shape, lambda rng, shape: rng.integers(0, below, shape).astype(np.int32))


def booleans(*shape: int | str) -> Spec:
    """A mask that leaves the first entry of each row."""

    def fill(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        mask = rng.uniform(size=shape) < 0.7
        mask[..., :1] = True
        return mask

    return Spec(shape, fill)


Build = Callable[["Layer", Any], Callable[..., Any]]
"""Makes a function of a layer, with weights of a type."""


@dataclass(frozen=True)
class Layer:
    """A layer as its library spells it.

    `operator` is the ONNX operator that the layer should become. If ONNX has none, or if its parts
    are faster, `because` says so.
    """

    kind: str
    code: str
    inputs: tuple[Spec, ...]
    build: Build
    operator: str | None = None
    because: str = ""
    named: tuple[str, ...] = ()
    call: Callable[..., Any] | None = None

    def arrays(self, batch: int, dtype: Any) -> tuple[np.ndarray, ...]:
        return tuple(spec.array(batch, dtype) for spec in self.inputs)

    def applied(self, module: Callable[..., Any], arrays: tuple[Any, ...]) -> Any:
        """Calls a module of the library on inputs, the last of which have names."""
        if self.call is not None:
            return self.call(module, *arrays)
        count = len(arrays) - len(self.named)
        return module(*arrays[:count], **dict(zip(self.named, arrays[count:], strict=True)))


def trained(weights: Any, dtype: Any) -> Any:
    """Returns weights of a type that are neither ones nor zeros; what is positive stays so."""
    rng = np.random.default_rng(11)

    def one(leaf: Any) -> Any:
        if not hasattr(leaf, "dtype") or not jnp.issubdtype(leaf.dtype, jnp.floating):
            return leaf
        leaf = np.asarray(leaf, np.float32)
        factors = rng.uniform(0.5, 1.5, leaf.shape)
        moved = np.where(leaf == 0.0, rng.uniform(-0.5, 0.5, leaf.shape), leaf * factors)
        return jnp.asarray(moved, dtype)

    return jax.tree.map(one, weights)
