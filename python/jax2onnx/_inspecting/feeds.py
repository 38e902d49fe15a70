"""Compare the inputs that a session is fed with those that its model takes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from .._words import did_you_mean, quoted

#: NumPy's names of ONNX Runtime's types, where they differ.
_TYPES: Final = {
    "float": "float32",
    "double": "float64",
    "string": "str",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e5m2": "float8_e5m2",
}

Array: TypeAlias = tuple[str | None, tuple[int, ...]]
"""A type, if it matters, and a shape."""


class Feeds:
    """The inputs and outputs of a model, and what is wrong with what they are fed.

    Args:
        inputs: The inputs, as `InferenceSession.get_inputs` returns them.
        outputs: The outputs, as `InferenceSession.get_outputs` returns them.
    """

    def __init__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Note where each named size occurs."""
        self._inputs = {each.name: each for each in inputs}
        self._outputs = [each.name for each in outputs]
        axes: dict[str, list[tuple[str, int]]] = {}
        for each in inputs:
            for axis, size in enumerate(each.shape if _element_type(each.type) else ()):
                if isinstance(size, str):
                    axes.setdefault(size, []).append((each.name, axis))
        #: The axes of each named size that occurs more than once.
        self._shared = {size: places for size, places in axes.items() if len(places) > 1}

    def conflict(self, feed: Mapping[str, Any]) -> str | None:
        """Describe the first named size that has two different values, if any.

        A session calls this after every run, so it only looks at arrays.
        """
        for places in self._shared.values():
            size = None
            for name, axis in places:
                value = feed.get(name)
                if type(value) is np.ndarray:
                    if size is None:
                        size = value.shape[axis]
                    elif size != value.shape[axis]:
                        arrays = {name: _array(value) for name, value in feed.items()}
                        return self._conflict(arrays)
        return None

    def _conflict(self, arrays: Mapping[str, Array | None]) -> str | None:
        for size, places in self._shared.items():
            first: tuple[str, int] | None = None
            for name, axis in places:
                _, shape = arrays.get(name) or ("", ())
                if axis >= len(shape):
                    continue
                if first is None:
                    first = (name, shape[axis])
                elif shape[axis] != first[1]:
                    other = f"{first[1]} in {quoted(first[0])}"
                    return f"{quoted(size)} is {other} and {shape[axis]} in {quoted(name)}"
        return None

    def mistakes(self, output_names: Sequence[str] | None, feed: Any) -> list[str]:
        """Describe everything that is wrong with a call."""
        if not isinstance(feed, Mapping):
            return []
        found = [
            f"the model has no output {quoted(name)}{did_you_mean(name, self._outputs, '; ')}"
            for name in output_names or ()
            if name not in self._outputs
        ]
        missing = [name for name in self._inputs if name not in feed]
        arrays = {name: _array(value) for name, value in feed.items()}
        for name, value in feed.items():
            if name in self._inputs:
                found += self._mistakes_of(name, value, arrays[name])
            else:
                known = missing or self._inputs
                found.append(
                    f"the model has no input {quoted(name)}{did_you_mean(name, known, '; ')}"
                )
        found += [
            f"the input {quoted(name)} is missing; the model takes {self._text(name)}"
            for name in missing
            if not self._inputs[name].type.startswith("optional")
        ]
        conflict = None if found else self._conflict(arrays)
        return [conflict] if conflict else found

    def _mistakes_of(self, name: str, value: Any, array: Array | None) -> Iterator[str]:
        wanted = self._inputs[name]
        element = _element_type(wanted.type)
        if element is None:
            return
        if array is None:
            shown = "None" if value is None else f"of type {type(value).__name__}"
            hint = f": use numpy.asarray({name})" if hasattr(value, "__array__") else ""
            yield f"{quoted(name)} is {shown}, but the model takes {self._text(name)}{hint}"
            return
        given, shape = array
        fits = len(shape) == len(wanted.shape) and all(
            not isinstance(size, int) or size == actual
            for size, actual in zip(wanted.shape, shape, strict=True)
        )
        if not fits or (given is not None and given != element):
            is_now = _shown(given or element, shape)
            yield f"{quoted(name)} is {is_now}, but the model takes {self._text(name)}"

    def _text(self, name: str) -> str:
        wanted = self._inputs[name]
        element = _element_type(wanted.type)
        return wanted.type if element is None else _shown(element, wanted.shape)


def _element_type(kind: str) -> str | None:
    """Return NumPy's name of the element type of a tensor; None if the type is not a tensor."""
    if not kind.startswith("tensor(") or not kind.endswith(")"):
        return None
    name = kind[len("tensor(") : -1]
    return _TYPES.get(name, name)


def _array(value: Any) -> Array | None:
    """Return the type and the shape of a value that ONNX Runtime takes for an array."""
    if isinstance(value, np.ndarray):
        return ("str" if value.dtype.kind in "OSU" else value.dtype.name), value.shape
    if isinstance(value, list):
        # ONNX Runtime converts the elements of a list to the type of the input.
        try:
            return None, np.shape(value)
        except ValueError:
            return None
    if callable(getattr(value, "data_type", None)) and callable(getattr(value, "shape", None)):
        return _element_type(value.data_type()), tuple(value.shape())
    return None


def _shown(element: str, shape: Sequence[Any]) -> str:
    return f"{element}[{','.join('?' if size is None else str(size) for size in shape)}]"
