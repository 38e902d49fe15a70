"""Convert input specs to what JAX traces with."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import tree_util

from .._errors import ConfigError, InputSpecError
from .._warn import warn
from .._words import quoted
from . import call
from .binding import is_text, named
from .compat import export_module

_HELP = (
    'a shape such as (2, 3) or ("B", 3), a text such as "f32[B,3]", a jax.ShapeDtypeStruct, '
    "an array, a number, "
    "or a container of these"
)

_NON_NUMERIC_KINDS = frozenset("OSUMm")
"""The kinds of NumPy types whose elements are not numbers: objects, strings and times."""

_MAX_SIZE = 2**63 - 1

_struct: Any = jax.ShapeDtypeStruct


def arguments(inputs: Sequence[Any], *, double_precision: bool = False) -> list[Any]:
    """Return what JAX traces with for each input spec."""
    return Specs(inputs, {}, double_precision=double_precision).arguments


class Specs:
    """What JAX traces with, for positional inputs and keyword inputs."""

    def __init__(
        self, inputs: Sequence[Any], params: Mapping[str, Any], *, double_precision: bool
    ) -> None:
        _check_inputs(inputs)
        call.check_params(params)
        self._symbols = _Symbols([inputs, list(params.values())])
        #: Inputs with 64-bit types, which JAX narrows.
        self._narrowed: list[tuple[str, str, str]] = []
        self._dtype = np.dtype("float64" if double_precision else "float32")
        self.arguments = [self._argument(f"inputs[{i}]", spec) for i, spec in enumerate(inputs)]
        self.keywords = call.param_specs(params, self._leaf, double_precision=double_precision)

    def _argument(self, where: str, spec: Any) -> Any:
        def named(path: Any, part: Any) -> Any:
            return self._leaf(where + tree_util.keystr(path), part)

        return tree_util.tree_map_with_path(named, spec, is_leaf=shapes_of(spec))

    def _leaf(self, where: str, spec: Any) -> Any:
        if is_shape(spec):
            return _struct(_shape(spec, self._symbols, where), self._dtype)
        if isinstance(spec, bool | int | float | complex):
            return spec
        if is_text(spec):
            name, spec = named(spec)
            if name is not None:
                raise InputSpecError(
                    f"{where} has the name {quoted(name)}: only whole inputs have names"
                )
        shape, element = getattr(spec, "shape", None), getattr(spec, "dtype", None)
        if isinstance(shape, tuple) and element is not None:
            if getattr(element, "kind", None) in _NON_NUMERIC_KINDS:
                raise InputSpecError(
                    f"{where} has elements of type {element}, which are not numbers"
                )
            element = self._kept(where, element)
            weak = bool(getattr(spec, "weak_type", False))
            return _struct(_shape(shape, self._symbols, where), element, weak_type=weak)
        raise InputSpecError(f"{where} is {_shown(spec)}, which is not an input spec: use {_HELP}")

    def _kept(self, where: str, element: Any) -> Any:
        """Return the type that JAX keeps of a type. From version 0.12 on, JAX warns of others."""
        if not isinstance(element, np.dtype):
            return element
        kept = jax.dtypes.canonicalize_dtype(element)
        if kept != element:
            self._narrowed.append((where, element.name, kept.name))
        return kept

    def warn_if_narrowed(self) -> None:
        """Warn if JAX narrows 64-bit types."""
        if not self._narrowed:
            return
        where, given, kept = self._narrowed[0]
        others = len(self._narrowed) - 1
        more = f", and {others} more {'input' if others == 1 else 'inputs'}" if others else ""
        warn(
            f"{where} is {given}, but the model takes {kept}{more}: JAX keeps 64-bit types only "
            "with `enable_double_precision=True`"
        )


def is_shape(spec: Any) -> bool:
    """Return whether a container is a shape: its entries are sizes.

    A float or None among sizes is probably meant as a size. It counts, and is refused as a size
    later.
    """
    if type(spec) not in (tuple, list):
        return False
    sizes = [_is_size(size) for size in spec]
    others = [size is None or isinstance(size, float | complex | bool) for size in spec]
    return all(sizes) or (any(sizes) and all(map(operator.or_, sizes, others)))


def shapes_of(spec: Any) -> Callable[[Any], bool]:
    """Return how to find the shapes in an input spec.

    `()` alone is the shape of a number. Beside arrays, such as in the state of an optimizer, it is
    a container without entries.
    """
    if any(hasattr(leaf, "dtype") for leaf in tree_util.tree_leaves(spec)):
        return lambda part: is_shape(part) and len(part) > 0
    return is_shape


def _is_size(size: Any) -> bool:
    if isinstance(size, bool) or is_text(size):
        return False
    return isinstance(size, int | str | np.integer) or _is_symbolic(size)


def _is_symbolic(size: Any) -> bool:
    """Return whether a size is a symbolic expression that the user made with `jax.export`."""
    return not isinstance(size, int | str | np.integer) and hasattr(size, "scope")


class _Symbols:
    """Symbolic sizes by name: the same name is the same size in all inputs.

    Only a named size imports `jax.export`.
    """

    def __init__(self, inputs: Any) -> None:
        self._scope: Any = None
        for spec in tree_util.tree_leaves(inputs, is_leaf=is_shape):
            sizes = spec if is_shape(spec) else getattr(spec, "shape", ())
            for size in sizes if isinstance(sizes, list | tuple) else ():
                if _is_symbolic(size):
                    self._scope = size.scope
                    return

    def size(self, name: str) -> Any:
        export = export_module()
        if self._scope is None:
            self._scope = export.SymbolicScope()
        (size,) = export.symbolic_shape(name, scope=self._scope)
        return size


def _shape(sizes: Sequence[Any], symbols: _Symbols, where: str) -> tuple[Any, ...]:
    return tuple(_size(size, symbols, f"{where}, {_shown(sizes)},") for size in sizes)


def _size(size: Any, symbols: _Symbols, where: str) -> Any:
    if _is_symbolic(size):
        return size
    if isinstance(size, str):
        try:
            return symbols.size(size)
        except ConfigError:
            raise
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise InputSpecError(
                f"{where} has the size {size!r}, which is not a symbolic size: {reason}"
            ) from error
    if size is None:
        raise InputSpecError(f"{where} has the size None: give an unknown size a name, such as 'B'")
    if not _is_size(size):
        raise InputSpecError(
            f"{where} has the size {_shown(size)}: a size is a whole number or a name"
        )
    known = operator.index(size)
    if known > _MAX_SIZE:
        raise InputSpecError(
            f"{where} has the size {known}: the largest size in ONNX is {_MAX_SIZE}"
        )
    if known < 0:
        raise InputSpecError(
            f"{where} has the size {known}: give an unknown size a name, such as 'B'"
        )
    return known


def _shown(value: Any) -> str:
    text = repr(value)
    if len(text) > 60 or "\n" in text:
        return f"of type {type(value).__name__}"
    return text


def _check_inputs(inputs: Any) -> None:
    if not isinstance(inputs, list | tuple):
        raise InputSpecError(
            f"`inputs` is {_shown(inputs)}, but should be a list with one spec per argument: "
            f"{_HELP}"
        )
    if isinstance(inputs, tuple) and inputs and is_shape(inputs):
        raise InputSpecError(
            f"`inputs` is the shape {inputs!r}, but should be a list with one spec per argument: "
            f"use [{inputs!r}]"
        )
