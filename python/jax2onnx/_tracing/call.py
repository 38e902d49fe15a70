"""Adapt the traced call: keyword inputs, and images in another layout."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import tree_util

from .._errors import ConfigError, UnsupportedError
from .._words import quoted

TO_NHWC = (0, 2, 3, 1)
TO_NCHW = (0, 3, 1, 2)

_struct: Any = jax.ShapeDtypeStruct


def check_params(params: Any) -> None:
    """Refuse anything but a dictionary of keyword inputs."""
    if not isinstance(params, Mapping):
        raise ConfigError(f"`input_params` is {params!r}, which is not a dictionary")
    for name in params:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"`input_params` has the key {name!r}: keys are names of inputs")


def param_specs(
    params: Mapping[str, Any], array: Callable[[str, Any], Any], *, double_precision: bool
) -> dict[str, Any]:
    """Return what JAX traces the keyword inputs with. `array` converts one spec."""
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
            f"`input_params[{name!r}]` is {value!r}, which cannot be an input of a model: "
            "bind it with functools.partial"
        )

    return {name: spec(name, value) for name, value in params.items()}


def is_flag(spec: Any) -> bool:
    """Return whether an input is a single boolean, on which Python code may branch."""
    return bool(spec.shape == () and spec.dtype == np.dtype("bool"))


def branching_on_flags(fn: Callable[..., Any], flags: Sequence[str]) -> Callable[..., Any]:
    """Wrap a function that branches on flags: trace both values, and add a branch between them."""
    if not flags:
        return fn
    name, *rest = flags

    @functools.wraps(fn)
    def branch(*args: Any, **params: Any) -> Any:
        flag = params.pop(name)

        def way(value: bool) -> Callable[..., Any]:
            return branching_on_flags(functools.partial(fn, **{name: value}), rest)

        return jax.lax.cond(
            flag,
            lambda: way(True)(*args, **params),
            lambda: way(False)(*args, **params),
        )

    return branch


def positions(places: Sequence[int] | None, argument: str) -> tuple[int, ...]:
    """Check the positions of images in an argument: whole numbers from 0, each once."""
    if places is None:
        return ()
    if isinstance(places, str | bytes) or not isinstance(places, Iterable):
        raise ConfigError(f"{quoted(argument)} is {places!r}, which is not a list of positions")
    found = []
    for place in places:
        if isinstance(place, bool) or not isinstance(place, int | np.integer) or place < 0:
            raise ConfigError(
                f"{quoted(argument)} contains {place!r}: positions are whole numbers from 0"
            )
        if place in found:
            raise ConfigError(f"{quoted(argument)} contains {place} more than once")
        found.append(int(place))
    return tuple(found)


def check_images(values: Sequence[Any], places: Sequence[int], argument: str, what: str) -> None:
    """Refuse positions without an image."""
    for place in places:
        if place >= len(values):
            count = len(values)
            raise ConfigError(
                f"{quoted(argument)} names {what} {place}, but there are only {count}"
            )
        shape = getattr(values[place], "shape", None)
        if shape is None:
            raise ConfigError(f"{quoted(argument)} names {what} {place}, which is not an array")
        if len(shape) != 4:
            raise ConfigError(
                f"{quoted(argument)} names {what} {place}, which has {len(shape)} axes instead of 4"
            )


def to_nhwc(image: Any) -> Any:
    """Move the channels of an image to the last axis."""
    return image.transpose(TO_NHWC)


def to_nchw(image: Any) -> Any:
    """Move the channels of an image to the second axis."""
    return image.transpose(TO_NCHW)


def with_nchw_images(
    fn: Callable[..., Any],
    specs: list[Any],
    inputs_as_nchw: Sequence[int],
    outputs_as_nchw: Sequence[int],
) -> tuple[Callable[..., Any], list[Any]]:
    """Wrap a function so that it takes and returns NCHW images; return it with its specs.

    The caller checks on the traced outputs that they are images.
    """
    specs = list(specs)
    check_images(specs, inputs_as_nchw, "inputs_as_nchw", "input")
    for place in inputs_as_nchw:
        shape = tuple(specs[place].shape[axis] for axis in TO_NCHW)
        specs[place] = _struct(shape, specs[place].dtype)

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
