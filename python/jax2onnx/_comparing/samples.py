"""Replace shapes with random arrays, the same in every call."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jax
import numpy as np

from .._errors import InputSpecError
from .._tracing.specs import shapes_of
from .._words import quoted
from .reference import leaves

#: Sizes with different names differ, so that a mix-up is noticed. They are even, because programs
#: often halve a size.
_FIRST_SIZE: Final = 4
_SIZE_STEP: Final = 2

#: Whole numbers stay below this, because they are often indices.
_LARGEST_NUMBER: Final = 4


def filled(inputs: Sequence[Any], specs: Sequence[Any], known: Mapping[str, int]) -> list[Any]:
    """Return the inputs with an array of random numbers in place of each shape and struct.

    `known` contains the named sizes that are known. Other names get small sizes.
    """
    sizes = Sizes(known)
    random = np.random.default_rng(0)

    def array(given: Any, spec: Any) -> Any:
        if isinstance(given, bool | int | float | complex):
            return given
        if hasattr(given, "__array__") or isinstance(given, jax.Array):
            return jax.numpy.asarray(given)
        shape = tuple(sizes.size(size) for size in spec.shape)
        return _numbers(random, shape, spec.dtype)

    trees = [jax.tree_util.tree_flatten(one, is_leaf=shapes_of(one)) for one in inputs]
    given = [leaf for own, _ in trees for leaf in own]
    arrays = [array(leaf, spec) for leaf, spec in zip(given, leaves(specs), strict=True)]
    parts = iter(arrays)
    unflatten = jax.tree_util.tree_unflatten
    return [unflatten(tree, [next(parts) for _ in own]) for own, tree in trees]


def _numbers(random: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    if jax.numpy.issubdtype(dtype, jax.dtypes.prng_key):
        keys = jax.random.split(jax.random.key(0, impl=_key_kind(dtype)), max(_product(shape), 1))
        return keys[: _product(shape)].reshape(shape)
    if jax.numpy.issubdtype(dtype, np.bool_):
        return jax.numpy.asarray(random.random(shape) < 0.5)
    if jax.numpy.issubdtype(dtype, np.integer):
        return jax.numpy.asarray(random.integers(0, _LARGEST_NUMBER, shape)).astype(dtype)
    numbers = random.standard_normal(shape)
    if jax.numpy.issubdtype(dtype, np.complexfloating):
        return jax.numpy.asarray(numbers + 1j * random.standard_normal(shape), dtype=dtype)
    return jax.numpy.asarray(numbers, dtype=dtype)


def _key_kind(dtype: Any) -> str:
    """Return the generator of a type of random keys, which its text names: `key<fry>`."""
    kinds = {"fry": "threefry2x32", "rbg": "rbg", "unsafe_rbg": "unsafe_rbg"}
    return kinds.get(str(dtype).removeprefix("key<").removesuffix(">"), "threefry2x32")


def _product(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


class Sizes(dict[str, Any]):
    """The sizes by name. An unknown name gets the next small size."""

    def __init__(self, known: Mapping[str, int]) -> None:
        super().__init__(
            {"floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min}
        )
        self.update(known)
        self._next = _FIRST_SIZE

    def __missing__(self, name: str) -> int:
        self[name] = self._next
        self._next += _SIZE_STEP
        found: int = self[name]
        return found

    def size(self, size: Any) -> int:
        """Return a size, or evaluate an expression that JAX wrote."""
        if isinstance(size, int):
            return size
        text = str(size).replace("^", "**")
        try:
            found = int(eval(text, {"__builtins__": {}}, self))
        except Exception as error:
            raise InputSpecError(
                f"cannot choose a value for the size {quoted(size)}: pass arrays instead of shapes"
            ) from error
        if found < 0:
            raise InputSpecError(
                f"the size {quoted(size)} would be {found}: pass arrays instead of shapes"
            )
        return found
