"""How the traced call differs from the plain one: keyword inputs, and images in another layout."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import tree_util

from .._errors import ConfigError, UnsupportedError

TO_NHWC = (0, 2, 3, 1)
TO_NCHW = (0, 3, 1, 2)

_struct: Any = jax.ShapeDtypeStruct


def check_params(params: Any) -> None:
    """Refuse what is no dictionary of keyword inputs."""
    if not isinstance(params, Mapping):
        raise ConfigError(f"`input_params` is {params!r}, and should be a dictionary")
    for name in params:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"`input_params` has the key {name!r}: a key is the name of an input")


def param_specs(
    params: Mapping[str, Any], array: Callable[[str, Any], Any], *, double_precision: bool
) -> dict[str, Any]:
    """What JAX traces the keyword inputs with; `array` turns a spec into it."""
    number = np.dtype("float64" if double_precision else "float32")
    whole = np.dtype("int64" if double_precision else "int32")

    def spec(name: str, value: Any) -> Any:
        match value:
            case bool():
                return _struct((), np.dtype("bool"))
            case int():
                return _struct((), whole)
            case float():
                return _struct((), number)
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            return array(f"input_params[{name!r}]", value)
        raise UnsupportedError(
            f"`input_params[{name!r}]` is {value!r}, which no model has as an input: bind it with "
            "functools.partial"
        )

    return {name: spec(name, value) for name, value in params.items()}


def is_flag(spec: Any) -> bool:
    """Whether an input is one flag, which Python can decide by."""
    return bool(spec.shape == () and spec.dtype == np.dtype("bool"))


def deciding_by_flags(fn: Callable[..., Any], flags: Sequence[str]) -> Callable[..., Any]:
    """The function with flags that Python itself decides by: both ways, and a branch between."""
    if not flags:
        return fn
    name, *rest = flags

    @functools.wraps(fn)
    def branch(*args: Any, **params: Any) -> Any:
        flag = params.pop(name)

        def way(value: bool) -> Callable[..., Any]:
            return deciding_by_flags(functools.partial(fn, **{name: value}), rest)

        return jax.lax.cond(
            flag,
            lambda: way(True)(*args, **params),
            lambda: way(False)(*args, **params),
        )

    return branch


def positions(places: Sequence[int] | None, argument: str) -> tuple[int, ...]:
    """The positions of images that an argument names: whole numbers from 0 on, none twice."""
    if places is None:
        return ()
    if isinstance(places, str | bytes) or not isinstance(places, Iterable):
        raise ConfigError(f"`{argument}` is {places!r}, and should be a list of positions")
    found = []
    for place in places:
        if isinstance(place, bool) or not isinstance(place, int | np.integer) or place < 0:
            raise ConfigError(f"`{argument}` has {place!r}: a position is a number from 0 on")
        if place in found:
            raise ConfigError(f"`{argument}` has {place} more than once")
        found.append(int(place))
    return tuple(found)


def check_images(values: Sequence[Any], places: Sequence[int], argument: str, what: str) -> None:
    """Refuse positions at which there is no image."""
    for place in places:
        if place >= len(values):
            count = len(values)
            raise ConfigError(f"`{argument}` names {what} {place}, and there are {count}")
        shape = getattr(values[place], "shape", None)
        if shape is None:
            raise ConfigError(f"`{argument}` names {what} {place}, which is no array")
        if len(shape) != 4:
            raise ConfigError(
                f"`{argument}` names {what} {place}, which has {len(shape)} axes and not 4"
            )


def to_nhwc(image: Any) -> Any:
    """An image with its channels last."""
    return image.transpose(TO_NHWC)


def to_nchw(image: Any) -> Any:
    """An image with its channels second."""
    return image.transpose(TO_NCHW)


def in_other_layout(
    fn: Callable[..., Any],
    specs: list[Any],
    inputs_as_nchw: Sequence[int],
    outputs_as_nchw: Sequence[int],
) -> tuple[Callable[..., Any], list[Any]]:
    """The function on images whose channels come second, and what to trace it with.

    Whether its outputs are images is to be checked on what was traced.
    """
    specs = list(specs)
    check_images(specs, inputs_as_nchw, "inputs_as_nchw", "input")
    for place in inputs_as_nchw:
        turned = tuple(specs[place].shape[axis] for axis in TO_NCHW)
        specs[place] = _struct(turned, specs[place].dtype)

    @functools.wraps(fn)
    def call(*args: Any, **params: Any) -> Any:
        images = [
            to_nhwc(arg) if place in inputs_as_nchw else arg for place, arg in enumerate(args)
        ]
        leaves, tree = tree_util.tree_flatten(fn(*images, **params))
        for place in outputs_as_nchw:
            if place < len(leaves) and len(jax.numpy.shape(leaves[place])) == 4:
                leaves[place] = to_nchw(jax.numpy.asarray(leaves[place]))
        return tree_util.tree_unflatten(tree, leaves)

    return call, specs
