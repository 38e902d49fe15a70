"""Sets of arguments for a function that has none in the tables, guessed from its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .sets import SPECIAL, ArgumentSet, array, call, complexes, flags, floats, ints, positive, unit

#: Values of options, each tried by itself.
OPTIONS: dict[str, tuple[Any, ...]] = {
    "axis": (0, -1, None, (0, 1), -2),
    "axes": ((0,), (-1,), (1, 0)),
    "keepdims": (True,),
    "ddof": (1,),
    "norm": ("ortho", "forward", "backward"),
    "mode": ("full", "same", "valid", "reflect", "wrap", "clip"),
    "side": ("left", "right"),
    "approximate": (True, False),
    "descending": (True,),
    "stable": (False,),
    "where": (flags(3, 4),),
    "initial": (0.5,),
    "dtype": (jnp.float32, jnp.int32),
    "n": (3, 7),
    "s": ((2, 5),),
    "k": (1, -1),
    "offset": (1, -1),
    "b": (positive(3, 4),),
    "lower": (True, False),
    "return_sign": (True,),
    "equal_nan": (True,),
    "include_initial": (True,),
    "correction": (1,),
}
#: Parameters of distributions and special functions: arrays that have a default.
PARAMETERS = {"loc": floats(3, 1), "scale": positive(4), "a": positive(3, 4), "b": positive(4)}


def guesses(function: Callable[..., Any]) -> Iterator[ArgumentSet]:
    """Yields the guessed sets that JAX accepts."""
    return (one for one in _candidates(function) if _is_accepted(function, one))


def _candidates(function: Callable[..., Any]) -> Iterator[ArgumentSet]:
    arity, options = _signature(function)
    if not 1 <= arity <= 6:
        return
    yield call(*(floats(3, 4, seed=i) for i in range(arity)))
    yield call(*(ints(3, 4, seed=i) for i in range(arity)))
    yield call(*(flags(3, 4, seed=i) for i in range(arity)))
    yield call(*(complexes(3, 4, seed=i) for i in range(arity)))
    yield call(*_special(arity))
    yield call(*(positive(2, 3, 4, seed=i) for i in range(arity)))
    yield call(*(unit(5, seed=i) for i in range(arity)))
    yield call(*(array(0.75, dtype=np.float32)[0:1].reshape(()) for _ in range(arity)))
    yield call(*(floats(0, 4) for _ in range(arity)))
    if arity > 1:
        shapes = [(3, 1), (4,), (2, 1, 4), (1,), (), (3, 4)]
        yield call(*(positive(*shape) for shape in shapes[:arity]))
        yield call(ints(3, 4), *(floats(3, 4, seed=i) for i in range(1, arity)))
    base = [floats(3, 4, seed=i) for i in range(arity)]
    for name in options:
        for value in OPTIONS.get(name, ()):
            yield call(*base, **{name: value})
    if "axis" in options and "keepdims" in options:
        yield call(floats(2, 3, 4), axis=(0, -1), keepdims=True)
        yield call(SPECIAL.reshape(3, 4), axis=1)
    given = {name: PARAMETERS[name] for name in options if name in PARAMETERS}
    if given and "axis" not in options:
        yield call(*base, **given)
        yield call(*_special(arity), **{name: array(0.5) for name in given})


def _special(arity: int) -> list[np.ndarray]:
    """Returns every combination of special values, up to two arrays of them."""
    if arity == 1:
        return [SPECIAL]
    # Of two large numbers, functions such as the gamma distribution's leave nothing but rounding.
    values = np.append(SPECIAL[:-1], np.float32(25))
    if arity == 2:
        return [one.reshape(-1) for one in np.meshgrid(values, values)]
    return [np.roll(values, i * 5) for i in range(arity)]


def _signature(function: Callable[..., Any]) -> tuple[int, list[str]]:
    """Returns how many arrays the function needs, and the names of its options."""
    if isinstance(function, jnp.ufunc):
        return function.nin, []
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0, []
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.kind in places and p.default is inspect.Parameter.empty]
    return len(needed), [p.name for p in parameters if p not in needed]


def _is_accepted(function: Callable[..., Any], one: ArgumentSet) -> bool:
    try:
        return bool(jax.eval_shape(one.program(function), *one.inputs))
    except Exception:
        return False
