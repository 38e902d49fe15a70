"""The only place that imports JAX: from a function and input specs to a closed jaxpr."""

import contextlib
import functools
import importlib
import inspect
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jax import tree_util

from . import _call, _config, _modules, _names, _scopes
from ._errors import InputSpecError, UnsupportedError

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr

_HELP = (
    'a shape such as (2, 3) or ("B", 3), a jax.ShapeDtypeStruct, an array, a number, '
    "or a container of these"
)

_NO_NUMBERS = frozenset("OSUMm")
"""The kinds of NumPy's types whose elements are objects, texts and times."""

_LARGEST = 2**63 - 1
_MOST_WRAPPERS = 100

_struct: Any = jax.ShapeDtypeStruct


class Traced(NamedTuple):
    """What JAX made of a function, and what its inputs and outputs are called."""

    closed_jaxpr: "ClosedJaxpr"
    input_names: list[str]
    output_names: list[str]


def trace(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    *,
    double_precision: bool,
    inputs_as_nchw: Sequence[int] = (),
    outputs_as_nchw: Sequence[int] = (),
) -> Traced:
    """Trace `fn` on inputs that have the given specs, with the names of its modules."""
    modules = _modules.modules_of(fn)
    with _naming(modules), keeping_double_precision(double_precision):
        read = _Specs(inputs, input_params or {}, double_precision=double_precision)
        specs, keywords = read.arguments, read.keywords
        traced = fn
        if inputs_as_nchw or outputs_as_nchw:
            traced, specs = _call.in_other_layout(fn, specs, inputs_as_nchw, outputs_as_nchw)
        try:
            result = _traced(traced, modules, specs, keywords)
        except TypeError as error:
            flags = [name for name, spec in keywords.items() if _call.is_flag(spec)]
            if flags and isinstance(error, jax.errors.ConcretizationTypeError):
                result = _trace_both_ways(traced, modules, specs, keywords, flags)
            else:
                _check_signature(fn, specs, keywords, error)
                raise
    outputs = result.closed_jaxpr.out_avals
    _call.check_images(outputs, outputs_as_nchw, "outputs_as_nchw", "output")
    return result


def _naming(modules: _modules.Modules | None) -> contextlib.AbstractContextManager[None]:
    if modules is None or not _config.module_scopes():
        return contextlib.nullcontext()
    return _scopes.naming(modules)


def _traced(
    fn: Callable[..., Any],
    modules: _modules.Modules | None,
    specs: Sequence[Any],
    keywords: Mapping[str, Any],
    flags: Sequence[str] = (),
) -> Traced:
    """Trace a function; if nnx refuses to change its modules, once more so that it may."""
    try:
        with _modules.unharmed(modules):
            deciding = _call.deciding_by_flags(fn, flags)
            return _traced_once(deciding, specs, keywords, has_modules=modules is not None)
    except Exception as error:
        if not _is_about_changed_modules(error):
            raise
        with _modules.changeable(fn, modules) as changing:
            if changing is None:
                raise
            deciding = _call.deciding_by_flags(changing, flags)
            return _traced_once(deciding, specs, keywords, has_modules=True)


def _is_about_changed_modules(error: Exception) -> bool:
    """Whether nnx refused to change a module, or to take one apart for a transformation of its."""
    return type(error).__name__ == "TraceContextError" or (
        isinstance(error, ValueError) and "different trace level" in str(error)
    )


def _traced_once(
    fn: Callable[..., Any],
    specs: Sequence[Any],
    keywords: Mapping[str, Any],
    *,
    has_modules: bool,
) -> Traced:
    # JAX would reuse a trace that it made without the names of modules; a new partial has none.
    traced = functools.partial(fn) if has_modules else fn
    closed_jaxpr, result = jax.make_jaxpr(traced, return_shape=True)(*specs, **keywords)
    names = _names.input_names(fn, specs, keywords)
    return Traced(closed_jaxpr, names, _names.output_names(result))


def _trace_both_ways(
    fn: Callable[..., Any],
    modules: _modules.Modules | None,
    specs: Sequence[Any],
    keywords: Mapping[str, Any],
    flags: Sequence[str],
) -> Traced:
    """Trace a function that Python steers by flags, once for each value of each."""
    try:
        return _traced(fn, modules, specs, keywords, flags)
    except Exception as error:
        names = ", ".join(f"`{name}`" for name in flags)
        raise UnsupportedError(
            f"{names} cannot become an input, because the function cannot be traced for every "
            f"value of it ({type(error).__name__}): bind the value with functools.partial"
        ) from error


def arguments(inputs: Sequence[Any], *, double_precision: bool = False) -> list[Any]:
    """Turn input specs into what JAX can trace with."""
    return _Specs(inputs, {}, double_precision=double_precision).arguments


class _Specs:
    """What JAX traces with, for the positional inputs and those by keyword."""

    def __init__(
        self, inputs: Sequence[Any], params: Mapping[str, Any], *, double_precision: bool
    ) -> None:
        _check_inputs(inputs)
        _call.check_params(params)
        self._symbols = _Symbols([inputs, list(params.values())])
        self._dtype = np.dtype("float64" if double_precision else "float32")
        self.arguments = [self._argument(f"inputs[{i}]", spec) for i, spec in enumerate(inputs)]
        self.keywords = _call.param_specs(params, self._leaf, double_precision=double_precision)

    def _argument(self, where: str, spec: Any) -> Any:
        def named(path: Any, part: Any) -> Any:
            return self._leaf(where + tree_util.keystr(path), part)

        return tree_util.tree_map_with_path(named, spec, is_leaf=is_shape)

    def _leaf(self, where: str, spec: Any) -> Any:
        if is_shape(spec):
            return _struct(_shape(spec, self._symbols, where), self._dtype)
        if isinstance(spec, bool | int | float | complex):
            return spec
        shape, element = getattr(spec, "shape", None), getattr(spec, "dtype", None)
        if isinstance(shape, tuple) and element is not None:
            if getattr(element, "kind", None) in _NO_NUMBERS:
                raise InputSpecError(
                    f"{where} has elements of type {element}, which are no numbers"
                )
            weak = bool(getattr(spec, "weak_type", False))
            return _struct(_shape(shape, self._symbols, where), element, weak_type=weak)
        raise InputSpecError(f"{where} is {_shown(spec)}, which is no input spec: use {_HELP}")


def definition(fn: Any) -> tuple[str, int, str] | None:
    """The file, line and qualified name of the function behind `fn`, where it is Python's."""
    for _ in range(_MOST_WRAPPERS):
        code = getattr(fn, "__code__", None)
        inner = getattr(fn, "__wrapped__", None) or getattr(fn, "__func__", None)
        if inner is None and isinstance(fn, functools.partial):
            inner = fn.func
        if inner is None and isinstance(code, CodeType):
            return code.co_filename, code.co_firstlineno, code.co_qualname
        if inner is None and code is None and callable(fn):
            inner = type(fn).__call__
        if inner is None:
            return None
        fn = inner
    return None


def folders() -> list[str]:
    """The folders that hold JAX."""
    import jaxlib

    return [os.path.dirname(module.__file__) for module in (jax, jaxlib) if module.__file__]


def leaves(tree: Any) -> list[Any]:
    """The arrays of a container, in the order in which they are inputs of the model."""
    return list(tree_util.tree_leaves(tree))


def evaluate(
    fn: Callable[..., Any], arguments: Sequence[Any], params: Mapping[str, Any]
) -> list["np.ndarray[Any, Any]"]:
    """What JAX computes, with products of full precision on every device."""
    with jax.default_matmul_precision("highest"):
        results = fn(*arguments, **params)
    return [in_parts(result, complex_too=False) for result in leaves(results)]


def in_parts(array: Any, *, complex_too: bool = True) -> "np.ndarray[Any, Any]":
    """An array as the model has it: keys, and complex numbers, have an axis of parts."""
    if jax.numpy.issubdtype(getattr(array, "dtype", np.bool_), jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(array))
    known = np.asarray(jax.numpy.asarray(array))
    if complex_too and known.dtype.kind == "c":
        return np.stack([known.real, known.imag], axis=-1)
    return known


def keeping_double_precision(wanted: bool) -> contextlib.AbstractContextManager[Any]:
    """A block in which 64-bit types are kept, if wanted; JAX 0.6 has it among the experiments."""
    if not wanted:
        return contextlib.nullcontext()
    enable: Any = getattr(jax, "enable_x64", None)
    if enable is None:
        enable = importlib.import_module("jax.experimental").enable_x64
    manager: contextlib.AbstractContextManager[Any] = enable(True)
    return manager


def _check_inputs(inputs: Any) -> None:
    if not isinstance(inputs, list | tuple):
        raise InputSpecError(
            f"`inputs` is {_shown(inputs)}, and should be a list with one spec an argument: {_HELP}"
        )
    if isinstance(inputs, tuple) and inputs and is_shape(inputs):
        raise InputSpecError(
            f"`inputs` is the shape {inputs!r}, and should be a list with one spec an argument: "
            f"use [{inputs!r}]"
        )


def _check_signature(
    fn: Any, specs: Sequence[Any], keywords: Mapping[str, Any], error: TypeError
) -> None:
    """Say that the inputs are too few or too many, where that is why the call failed."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*specs, **keywords)
    except TypeError as reason:
        name = getattr(fn, "__name__", type(fn).__name__)
        count = "1 input" if len(specs) == 1 else f"{len(specs)} inputs"
        if keywords:
            count += " and " + ", ".join(f"`{name}`" for name in sorted(keywords))
        raise InputSpecError(
            f"`{name}{signature}` cannot be called with {count}: {reason}"
        ) from error


def is_shape(spec: Any) -> bool:
    """Whether a container is a shape: its entries are sizes.

    A number among sizes was meant to be one, and is refused as such.
    """
    if type(spec) not in (tuple, list):
        return False
    sizes = [_is_size(size) for size in spec]
    numbers = [isinstance(size, float | complex | bool) for size in spec]
    return all(sizes) or (any(sizes) and all(map(operator.or_, sizes, numbers)))


def _is_size(size: Any) -> bool:
    if isinstance(size, bool):
        return False
    return isinstance(size, int | str | np.integer) or _is_symbolic(size)


def _is_symbolic(size: Any) -> bool:
    """Whether a size is an expression of symbols that the user made with `jax.export`."""
    return not isinstance(size, int | str | np.integer) and hasattr(size, "scope")


class _Symbols:
    """Symbolic sizes by name: the same name is the same size in all inputs.

    `jax.export` is imported when a name is met, and not before: it is slow, and JAX 0.6 does not
    install all that it needs.
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
        from jax import export

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
        except ImportError:
            raise
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise InputSpecError(
                f"{where} has the size {size!r}, which is no symbolic size: {reason}"
            ) from error
    if not _is_size(size):
        raise InputSpecError(
            f"{where} has the size {_shown(size)}: a size is a whole number, or a name"
        )
    known = operator.index(size)
    if known > _LARGEST:
        raise InputSpecError(f"{where} has the size {known}: ONNX has none above {_LARGEST}")
    if known < 0:
        raise InputSpecError(
            f"{where} has the size {known}: a size that is not known has a name, such as 'B'"
        )
    return known


def _shown(value: Any) -> str:
    text = repr(value)
    if len(text) > 60 or "\n" in text:
        return f"of type {type(value).__name__}"
    return text
