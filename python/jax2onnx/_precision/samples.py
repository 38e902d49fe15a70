"""Read the data that a model is tried with: one set of inputs, or several."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from .._comparing.arrays import Array
from .._comparing.inputs import feeds_of
from .._comparing.judging import has_nan, is_floating
from .._comparing.models import Loaded
from .._comparing.runtime import sizes_of
from .._errors import InputSpecError
from .._words import quoted

Feeds = dict[str, Array]


def samples_of(model: Loaded, data: Any) -> list[Feeds]:
    """Return the sets of inputs in some data.

    Args:
        model: The model.
        data: The inputs as a sequence or by name; several of them, one after another; or arrays
            with one more axis in front, or a multiple of the batch, which contain several.

    Raises:
        InputSpecError: The data does not fit the model, contains NaN, or has no elements.
    """
    given = _sets(data)
    if not given:
        taken = ", ".join(quoted(value.name) for value in _taken(model))
        raise InputSpecError(f"the data is empty: the model takes {taken}")
    found = [feeds for each in given for feeds in _split(model, each)]
    for number, feeds in enumerate(found):
        if feeds and all(array.size == 0 for array in feeds.values()):
            raise InputSpecError(f"{place_of(number, found)} have no elements")
        for name, array in feeds.items():
            if isinstance(array, np.ndarray) and has_nan(array):
                where = f" of sample {number}" if len(found) > 1 else ""
                raise InputSpecError(f"the input {quoted(name)}{where} contains NaN")
    return found


def place_of(number: int, samples: Sequence[Feeds]) -> str:
    """Return which set of inputs one is, in words."""
    return f"the inputs of sample {number}" if len(samples) > 1 else "the inputs"


def check_outputs(outputs: Mapping[str, Array], place: str) -> None:
    """Refuse inputs whose outputs show no error, whatever is rounded.

    Args:
        outputs: The outputs of the model.
        place: Which inputs they belong to, in words.

    Raises:
        InputSpecError: An output contains only NaN, no output contains a finite number, or no
            output has elements.
    """
    arrays = [array for array in outputs.values() if isinstance(array, np.ndarray)]
    if arrays and not any(array.size for array in arrays):
        raise InputSpecError(f"for {place}, the outputs have no elements")
    numbers = {
        name: array
        for name, array in outputs.items()
        if isinstance(array, np.ndarray) and array.size and is_floating(array.dtype)
    }
    for name, array in numbers.items():
        if np.isnan(array).all():
            raise InputSpecError(f"for {place}, the output {quoted(name)} contains only NaN")
    if numbers and not any(np.isfinite(array).any() for array in numbers.values()):
        raise InputSpecError(f"for {place}, no output contains a finite number")


def _taken(model: Loaded) -> list[onnx.ValueInfoProto]:
    """Return the inputs of a model that are no weights."""
    weights = {tensor.name for tensor in model.proto.graph.initializer}
    return [value for value in model.proto.graph.input if value.name not in weights]


def _sets(data: Any) -> list[Any]:
    """Return the sets of inputs: `data` itself, or its items."""
    if isinstance(data, Mapping):
        return [data]
    if hasattr(data, "__array__"):
        return [[data]]
    if not isinstance(data, Iterable) or isinstance(data, str | bytes):
        raise InputSpecError(
            f"the data is of type {type(data).__name__}: use inputs as a sequence or by name, or a "
            "list of them"
        )
    items = list(data)
    if items and all(isinstance(item, Mapping | list | tuple) for item in items):
        return items
    return [items] if items else []


def _split(model: Loaded, given: Mapping[str, Any] | Sequence[Any]) -> list[Feeds]:
    """Return the sets of inputs in arrays that may contain several."""
    try:
        return [feeds_of(model, given)]
    except InputSpecError:
        parts = _parts(model, given)
        if parts is None:
            raise
        return [feeds_of(model, part) for part in parts]


def _parts(model: Loaded, given: Mapping[str, Any] | Sequence[Any]) -> list[Any] | None:
    """Return the arrays in pieces along their first axis; None if they do not contain several."""
    taken = _taken(model)
    if isinstance(given, Mapping):
        if set(given) != {value.name for value in taken}:
            return None
        arrays = [given[value.name] for value in taken]
    else:
        arrays = list(given)
    if len(arrays) != len(taken) or not all(hasattr(array, "shape") for array in arrays):
        return None
    pieces: list[list[Any]] = []
    for value, array in zip(taken, map(np.asarray, arrays), strict=True):
        sizes = sizes_of(value)
        if array.ndim == len(sizes) + 1:
            pieces.append(list(array))
        elif (
            sizes
            and array.ndim == len(sizes)
            and isinstance(sizes[0], int)
            and sizes[0] > 0
            and array.shape[0] >= sizes[0]
            and array.shape[0] % sizes[0] == 0
        ):
            pieces.append(list(array.reshape(-1, sizes[0], *array.shape[1:])))
        else:
            return None
    count = len(pieces[0]) if pieces else 0
    if not count or any(len(each) != count for each in pieces):
        return None
    return [
        {value.name: each[number] for value, each in zip(taken, pieces, strict=True)}
        for number in range(count)
    ]
