"""Trace a function to a closed jaxpr."""

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from .. import _core
from .._errors import InputSpecError, Jax2OnnxError, UnsupportedError
from .._words import counted, did_you_mean, quoted
from . import call, failures
from .compat import double_precision_kept
from .modules import Modules, changing, modules_of, restored_on_failure
from .names import input_names, output_names
from .scopes import naming
from .specs import Specs
from .writes import Dropped, Writes

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr

_MAX_WRAPPERS = 100


class Traced(NamedTuple):
    """The jaxpr of a function, and the names of its inputs and outputs."""

    closed_jaxpr: "ClosedJaxpr"
    input_names: list[str]
    output_names: list[str]
    #: The nnx variables that the function wrote and did not return.
    written: Sequence[str] = ()
    #: The state of other libraries that the function wrote and probably did not return.
    dropped: Sequence[Dropped] = ()


def trace(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    *,
    double_precision: bool,
    inputs_as_nchw: Sequence[int] = (),
    outputs_as_nchw: Sequence[int] = (),
    module_scopes: bool = True,
) -> Traced:
    """Trace `fn` with inputs of the given specs, and name the scopes of its modules."""
    modules = modules_of(fn)
    writes = Writes(modules)

    def traced() -> Traced:
        read = Specs(inputs, input_params or {}, double_precision=double_precision)
        read.warn_if_narrowed()
        specs = read.arguments
        watched = writes.watching(fn, (specs, read.keywords))
        if inputs_as_nchw or outputs_as_nchw:
            watched, specs = call.with_nchw_images(watched, specs, inputs_as_nchw, outputs_as_nchw)
        return _explained(fn, watched, modules, specs, read.keywords)

    # The core enters and leaves these blocks, so that an interrupt cannot come in between.
    managers = [*writes.managers(), double_precision_kept(double_precision)]
    inside = functools.partial(_core.inside, managers, traced)
    restored = functools.partial(_core.restoring, inside, writes.restore)
    result: Traced = naming(modules if module_scopes else None, restored)
    written = modules.written if modules is not None else ()
    outputs = result.closed_jaxpr.out_avals
    call.check_images(outputs, outputs_as_nchw, "outputs_as_nchw", "output")
    return result._replace(written=written, dropped=writes.dropped)


def _explained(
    fn: Callable[..., Any],
    watched: Callable[..., Any],
    modules: Modules | None,
    specs: Sequence[Any],
    keywords: Mapping[str, Any],
) -> Traced:
    """Trace a form of the user's function, and explain why it fails."""
    try:
        return _traced(watched, modules, specs, keywords)
    except TypeError as error:
        flags = [name for name, spec in keywords.items() if call.is_flag(spec)]
        if flags and isinstance(error, jax.errors.ConcretizationTypeError):
            return _trace_both_values(watched, modules, specs, keywords, flags)
        _check_signature(fn, specs, keywords)
        failures.annotate(error, _name(fn), fn, specs, keywords)
        raise
    except Jax2OnnxError:
        raise
    except Exception as error:
        failures.annotate(error, _name(fn), fn, specs, keywords)
        raise


def _traced(
    fn: Callable[..., Any],
    modules: Modules | None,
    specs: Sequence[Any],
    keywords: Mapping[str, Any],
    flags: Sequence[str] = (),
) -> Traced:
    """Trace a function; if nnx refuses to change its modules, trace again so that it may."""

    def once(fn: Callable[..., Any]) -> Traced:
        deciding = call.branching_on_flags(fn, flags)
        return _traced_once(deciding, specs, keywords, has_modules=modules is not None)

    try:
        return restored_on_failure(modules, functools.partial(once, fn))
    except Exception as error:
        if not _is_about_changed_modules(error):
            raise
        refused = error
    result = changing(fn, modules, once)
    if result is None:
        raise refused
    return result


def _is_about_changed_modules(error: Exception) -> bool:
    """Return whether nnx refused to change a module, or to split it for a transformation."""
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
    traced = _with_name(fn)
    if has_modules:
        # JAX would reuse a trace without module names. It has no trace of a new partial.
        traced = functools.partial(traced)
    closed_jaxpr, result = jax.make_jaxpr(traced, return_shape=True)(*specs, **keywords)
    if not closed_jaxpr.out_avals:
        shown = "nothing" if result is None else f"{result!r}, which contains no array"
        raise UnsupportedError(f"`{_name(fn)}` returns {shown}: did you forget `return`?")
    _check_for_leaks(fn, closed_jaxpr.consts)
    names = input_names(fn, specs, keywords)
    return Traced(closed_jaxpr, names, output_names(result))


def _check_for_leaks(fn: Any, consts: Sequence[Any]) -> None:
    """Raise an error about an array that an earlier trace left behind, which has no value."""
    for const in consts:
        if isinstance(const, jax.core.Tracer):
            aval: Any = const.aval
            raise UnsupportedError(
                f"`{_name(fn)}` uses {aval.str_short()}, which an earlier `jax.jit` of the "
                "same model left in its state, and which has no value: create the model again"
            )


def _name(fn: Any) -> str:
    name = getattr(fn, "__name__", None)
    return name if isinstance(name, str) else type(fn).__name__


def _with_name(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the `__call__` of an object without a name, whose `repr` JAX would take for its name.

    The `repr` of a module contains all of its arrays, and takes as long as tracing. The name of
    `filter_jit(filter_vmap(module))` of equinox is not a text, and JAX refuses it.
    """
    method = type(fn).__call__
    has_name = isinstance(getattr(fn, "__name__", None), str)
    if has_name or not isinstance(method, FunctionType):
        return fn
    return MethodType(method, fn)


def _trace_both_values(
    fn: Callable[..., Any],
    modules: Modules | None,
    specs: Sequence[Any],
    keywords: Mapping[str, Any],
    flags: Sequence[str],
) -> Traced:
    """Trace a function that branches on flags, once for each value of each flag."""
    try:
        return _traced(fn, modules, specs, keywords, flags)
    except Exception as error:
        names = ", ".join(quoted(name) for name in flags)
        raise UnsupportedError(
            f"{names} cannot become an input, because JAX cannot trace the function for "
            f"every value of it ({type(error).__name__}): bind the value with functools.partial"
        ) from error


def definition(fn: Any) -> tuple[str, int, str] | None:
    """Return the file, line and qualified name of the Python function behind `fn`, if any."""
    for _ in range(_MAX_WRAPPERS):
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
    """Return the folders of JAX."""
    import jaxlib

    return [os.path.dirname(module.__file__) for module in (jax, jaxlib) if module.__file__]


def _shape_hint(specs: Sequence[Any], signature: inspect.Signature) -> str:
    """Return how to write a shape, if its sizes were taken for inputs."""
    is_shape = len(specs) > 1 and all(type(spec) is int for spec in specs)
    if not is_shape or len(signature.parameters) != 1:
        return ""
    return f"; for one input of this shape, use [{tuple(specs)}]"


def _check_signature(fn: Any, specs: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Raise an error about too few or too many inputs, if that is why the call failed."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*specs, **keywords)
    except TypeError as reason:
        count = counted(len(specs), "input")
        unknown = [name for name in keywords if name not in signature.parameters]
        if keywords:
            count += " and " + ", ".join(quoted(name) for name in sorted(keywords))
        raise InputSpecError(
            f"`{_name(fn)}{signature}` cannot be called with {count}: {reason}"
            + "".join(did_you_mean(name, signature.parameters, "; ") for name in unknown[:1])
            + _shape_hint(specs, signature)
            + ("" if signature.parameters else f"; if it returns the model, export {_name(fn)}()")
        ) from None
