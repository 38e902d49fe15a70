"""Run the function in JAX."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import tree_util

from .arrays import Array


def leaves(tree: Any) -> list[Any]:
    """Return the arrays in a container, in the order of the inputs of the model."""
    return list(tree_util.tree_leaves(tree))


def evaluate(
    fn: Callable[..., Any], arguments: Sequence[Any], params: Mapping[str, Any]
) -> list[Array]:
    """Return what JAX computes, with full precision for products on every device."""
    with jax.default_matmul_precision("highest"):
        results = fn(*arguments, **params)
    return [in_parts(result, complex_too=False) for result in leaves(results)]


def in_parts(array: Any, *, complex_too: bool = True) -> Array:
    """Return an array as the model has it: keys and complex numbers have an axis of parts."""
    is_known = isinstance(array, np.ndarray | jax.Array)
    if is_known and jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(array))
    known = np.asarray(array if isinstance(array, jax.Array) else jax.numpy.asarray(array))
    if complex_too and known.dtype.kind == "c":
        return np.stack([known.real, known.imag], axis=-1)
    return known


def mapped(change: Callable[[Any], Any], tree: Any) -> Any:
    """Return a container with other arrays."""
    return tree_util.tree_map(change, tree)
