"""Bind input specs that are written as text, such as `x=f32[B,784]`, to parameters."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _core
from .._errors import ConfigError, InputSpecError
from .._words import did_you_mean, quoted


def from_text(fn: Callable[..., Any], inputs: Any) -> tuple[Any, dict[str, Any], list[str] | None]:
    """Replace the texts among input specs by arrays, and sort the named ones.

    Returns:
        The positional inputs, the keyword inputs, and names for the positional inputs if the
        function does not name them.
    """
    if not isinstance(inputs, list | tuple) or not any(map(is_text, inputs)):
        return inputs, {}, None
    return bound(fn, [named(spec) if is_text(spec) else (None, spec) for spec in inputs])


def is_text(spec: Any) -> bool:
    """Return whether a spec is a type with a shape, as text. The name of a size has no bracket."""
    return isinstance(spec, str) and "[" in spec


def named(text: str) -> tuple[str | None, Any]:
    """Read a text: the name, if any, and what JAX traces with."""
    try:
        name, (dtype, shape) = _core.read_input(text)
    except ValueError as error:
        raise InputSpecError(f"{quoted(text)} is not an input spec: {error}") from None
    return name, Array(shape, dtype)


def bound(
    fn: Any, inputs: Sequence[tuple[str | None, Any]]
) -> tuple[list[Any], dict[str, Any], list[str] | None]:
    """Sort inputs by the parameters that they name.

    An input whose name has dots is a part of a parameter: `cache.0.k` is `cache[0]["k"]`.

    Returns:
        The positional inputs, the keyword inputs, and names for the positional inputs if the
        function does not name them.
    """
    inputs = _joined(inputs)
    names = [name for name, _ in inputs if name is not None]
    if not names:
        return [spec for _, spec in inputs], {}, None
    unnamed = [spec for name, spec in inputs if name is None]
    if any(name is not None for name, _ in inputs[: len(unnamed)]):
        raise ConfigError("an input without a name follows an input with a name")
    named = {name: spec for name, spec in inputs if name is not None}
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return [spec for _, spec in inputs], {}, None
    kinds = inspect.Parameter
    places = [
        p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    if not unnamed and any(p.kind is kinds.VAR_POSITIONAL for p in parameters) and not places:
        return list(named.values()), {}, list(named)
    _check_names(fn, parameters, named, taken=[p.name for p in places[: len(unnamed)]])
    positional = list(unnamed)
    for parameter in places[len(unnamed) :]:
        if parameter.name not in named:
            break
        positional.append(named.pop(parameter.name))
    return positional, named, None


def _check_names(
    fn: Any,
    parameters: Sequence[inspect.Parameter],
    named: Mapping[str, Any],
    taken: Sequence[str],
) -> None:
    kinds = inspect.Parameter
    takes_any = any(p.kind is kinds.VAR_KEYWORD for p in parameters)
    known = [p.name for p in parameters if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
    shown = getattr(fn, "__name__", type(fn).__name__)
    for name in named:
        if name in taken:
            raise ConfigError(
                f"{quoted(name)} of {quoted(shown)} is given twice: by position and by name"
            )
        if name not in known and not takes_any:
            raise ConfigError(
                f"{quoted(shown)} has no parameter {quoted(name)}; its parameters are: "
                f"{', '.join(known) or 'none'}{did_you_mean(name, known, '; ')}"
            )


def _joined(inputs: Sequence[tuple[str | None, Any]]) -> list[tuple[str | None, Any]]:
    """Join the parts of each parameter to a container."""
    joined: dict[str, Any] = {}
    result: list[tuple[str | None, Any]] = []
    for name, spec in inputs:
        if name is None:
            result.append((None, spec))
            continue
        root, *path = name.split(".")
        if root not in joined:
            joined[root] = None
            result.append((root, None))
        joined[root] = _with_part(joined[root], path, spec, name)
    return [(name, spec if name is None else _listed(joined[name])) for name, spec in result]


class _Parts(dict[str, Any]):
    """The parts of a container, by key or position."""


def _with_part(whole: Any, path: Sequence[str], spec: Any, name: str) -> Any:
    """Add a part to a container."""
    if whole is not None and not (path and isinstance(whole, _Parts)):
        raise ConfigError(f"the input {quoted(name)} appears more than once")
    if not path:
        return spec
    parts = _Parts() if whole is None else whole
    parts[path[0]] = _with_part(parts.get(path[0]), path[1:], spec, name)
    return parts


def _listed(whole: Any) -> Any:
    """Return the container of some parts: a list if the keys count from 0, else a dictionary."""
    if not isinstance(whole, _Parts):
        return whole
    positions = [str(place) for place in range(len(whole))]
    if sorted(whole) == sorted(positions):
        return [_listed(whole[place]) for place in positions]
    return {key: _listed(part) for key, part in whole.items()}


class Array:
    """A type and a shape, in which sizes may have names."""

    def __init__(self, shape: tuple[int | str, ...], dtype: str) -> None:
        """Keep the type and the shape."""
        import jax

        self.shape = shape
        self.dtype = jax.numpy.dtype(dtype)
