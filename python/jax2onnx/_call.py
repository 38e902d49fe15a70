"""How the traced call differs from the plain one: keyword inputs, and images in another layout."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import tree_util

from ._errors import ConfigError, UnsupportedError

_TO_NHWC = (0, 2, 3, 1)
_TO_NCHW = (0, 3, 1, 2)

_struct: Any = jax.ShapeDtypeStruct


def param_specs(params: Mapping[str, Any], *, double_precision: bool) -> dict[str, Any]:
    """What JAX traces the keyword inputs with."""
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
            return _struct(value.shape, value.dtype)
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


def in_other_layout(
    fn: Callable[..., Any],
    specs: list[Any],
    inputs_as_nchw: Sequence[int],
    outputs_as_nchw: Sequence[int],
) -> tuple[Callable[..., Any], list[Any]]:
    """The function on images whose channels come second, and what to trace it with."""
    specs = list(specs)
    for index in inputs_as_nchw:
        if not 0 <= index < len(specs):
            raise ConfigError(f"`inputs_as_nchw` names input {index}, and there are {len(specs)}")
        shape = getattr(specs[index], "shape", ())
        if len(shape) != 4:
            raise ConfigError(
                f"`inputs_as_nchw` names input {index}, which has {len(shape)} axes and not 4"
            )
        turned = tuple(shape[axis] for axis in _TO_NCHW)
        specs[index] = _struct(turned, specs[index].dtype)

    @functools.wraps(fn)
    def call(*args: Any, **params: Any) -> Any:
        images = [
            jax.numpy.transpose(arg, _TO_NHWC) if index in inputs_as_nchw else arg
            for index, arg in enumerate(args)
        ]
        leaves, tree = tree_util.tree_flatten(fn(*images, **params))
        for index in outputs_as_nchw:
            if not 0 <= index < len(leaves) or leaves[index].ndim != 4:
                raise ConfigError(
                    f"`outputs_as_nchw` names output {index}, which is no image of 4 axes"
                )
            leaves[index] = jax.numpy.transpose(leaves[index], _TO_NCHW)
        return tree_util.tree_unflatten(tree, leaves)

    return call, specs
