"""Turn what the user passes as inputs into the arrays that a model takes."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx

from .._errors import ConfigError, InputSpecError
from .._words import counted, did_you_mean, quoted
from .arrays import Array
from .models import Loaded
from .runtime import dtype_of, sizes_of


def feeds_of(model: Loaded, inputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, Array]:
    """Return the arrays that a model takes, by name.

    Raises:
        InputSpecError: An input is missing, unknown, or of another type or shape.
    """
    weights = {tensor.name for tensor in model.proto.graph.initializer}
    taken = {value.name: value for value in model.proto.graph.input if value.name not in weights}
    given = _by_name(taken, inputs)
    missing = [name for name in taken if name not in given]
    for name in given:
        if name not in taken:
            hint = did_you_mean(name, missing or list(taken), ": ")
            raise InputSpecError(f"{model.name} has no input {quoted(name)}{hint}")
    if missing:
        raise InputSpecError(f"the input {described(taken[missing[0]])} is missing")
    feeds = {name: _fitting(value, given[name]) for name, value in taken.items()}
    sizes: dict[str, tuple[int, str]] = {}
    for name, value in taken.items():
        shape = feeds[name].shape if _is_tensor(value) else ()
        for size, actual in zip(sizes_of(value), shape, strict=True):
            if isinstance(size, str) and size:
                known, where = sizes.setdefault(size, (actual, name))
                if known != actual:
                    raise InputSpecError(
                        f"{quoted(size)} is {known} in {quoted(where)} and {actual} in "
                        f"{quoted(name)}"
                    )
    return feeds


def arguments_of(
    fn: Callable[..., Any], inputs: Mapping[str, Any] | Sequence[Any], names: Sequence[str]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional arguments and the keyword arguments of a function.

    Args:
        fn: The function.
        inputs: The arguments in order, by the name of a parameter or of a part of it, or by the
            name of an input of the model.
        names: The inputs of the model.

    Raises:
        ConfigError: A name is neither a parameter nor an input.
    """
    from .._tracing.binding import bound

    if not isinstance(inputs, Mapping):
        return list(inputs), {}
    try:
        positional, keywords, _ = bound(fn, list(inputs.items()))
    except ConfigError:
        if set(inputs) != set(names):
            raise
        return [inputs[name] for name in names], {}
    return list(positional), dict(keywords)


def described(value: onnx.ValueInfoProto) -> str:
    """Return the name and the type of an input: `x` float32[B,3]."""
    sizes = ",".join(str(size or "?") for size in sizes_of(value))
    return f"{quoted(value.name)} {dtype_of(value).name}[{sizes}]"


def _by_name(taken: Mapping[str, Any], inputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    if isinstance(inputs, Mapping):
        named = _named(taken, inputs)
        if len(inputs) != 1 or all(name in taken for name in named):
            return named
        # The model may have other names for the parts of its only argument.
        if len(named) != len(taken) or next(iter(inputs)) in named:
            return named
    if isinstance(inputs, str | os.PathLike):
        raise InputSpecError(
            f"`inputs` is the path {inputs!s}, not arrays: read the file first, for example with "
            "numpy.load; for a profile of ONNX Runtime, use `jax2onnx profile MODEL PROFILE`"
        )
    if _is_array(inputs):
        raise InputSpecError("`inputs` is an array, not a list of arrays: use [array]")
    leaves = _leaves(inputs)
    check_count(list(taken.values()), len(leaves))
    return dict(zip(taken, leaves, strict=True))


def _named(taken: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays in containers by the names that an export gives them: `params.w`."""
    named: dict[str, Any] = {}
    for name, value in inputs.items():
        if name in taken or _is_array(value):
            named[name] = value
        else:
            from .._tracing.names import parts

            named.update(parts(name, value))
    return named


def _is_tensor(value: onnx.ValueInfoProto) -> bool:
    return value.type.WhichOneof("value") in (None, "tensor_type")


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or hasattr(value, "dtype") or np.isscalar(value)


def check_count(taken: Sequence[onnx.ValueInfoProto], count: int) -> None:
    """Refuse too few or too many inputs.

    Raises:
        InputSpecError: An input is missing, or there are too many.
    """
    if count < len(taken):
        raise InputSpecError(f"the input {described(taken[count])} is missing")
    if count > len(taken):
        expected = ", ".join(map(described, taken)) or "none"
        number = counted(len(taken), "input")
        raise InputSpecError(f"the model takes {number} ({expected}), but `inputs` has {count}")


def _leaves(tree: Any) -> list[Any]:
    """Return the arrays in nested containers, in the order of the inputs of a model."""
    flat = list(tree.values()) if isinstance(tree, Mapping) else list(tree)
    if all(map(_is_array, flat)):
        return flat
    from .reference import leaves

    return leaves(tree)


def _fitting(value: onnx.ValueInfoProto, given: Any) -> Array:
    """Return an array of the type of an input, or say why it does not fit."""
    if not _is_tensor(value):
        return cast("Array", given)
    if not hasattr(given, "__array__") and callable(getattr(given, "numpy", None)):
        given = given.numpy()
    try:
        array = np.asarray(given)
    except TypeError:
        from .reference import in_parts

        array = in_parts(given)
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1)
    dtype, sizes = dtype_of(value), sizes_of(value)
    fits = len(sizes) == array.ndim and all(
        isinstance(size, str) or size == actual
        for size, actual in zip(sizes, array.shape, strict=True)
    )
    has_type = array.dtype == dtype or np.can_cast(array.dtype, dtype, "same_kind")
    if not fits or not has_type:
        shown = f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
        raise InputSpecError(f"the model takes {described(value)}, but got {shown}")
    return np.asarray(array.astype(dtype, copy=False), order="C")
