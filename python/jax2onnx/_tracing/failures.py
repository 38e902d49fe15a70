"""Add the traced shapes, the user's line and a hint to an exception during tracing."""

import inspect
import re
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jax import tree_util

from .. import _cells
from .._tiers import is_own, shown_path
from .._words import quoted
from .conditions import advice
from .names import input_names
from .weights import is_of_library

_MAX_INPUTS: Final = 6

_UNKNOWN_VALUE: Final = (
    "JAX traces the function without values; "
    "if this value never changes, bind it with functools.partial"
)
_UNKNOWN_SIZE: Final = (
    "JAX traces the function without a value for a named size; "
    "if the size never changes, export with a number instead of the name"
)
_SIZE_OF_VALUES: Final = "a shape cannot depend on values: use the largest size and a mask"

#: Shapes that do not fit, such as `(A, 3), (B, 3)`.
_OF_NAMED_SIZES: Final = re.compile(r"incompatible shapes for broadcasting: .*\([^()]*[A-Za-z]")
_EQUAL_SIZES: Final = "if two named sizes are always equal, give both the same name"

_NOT_AN_INTEGER: Final = "'_DimExpr' object cannot be interpreted as an integer"
_RANGE: Final = "instead of range, use jax.lax.fori_loop or jax.lax.scan: " + _UNKNOWN_SIZE

#: Hints by the class of the exception and a part of its message. The first match wins.
_HINTS: Final = (
    (
        "TracerArrayConversionError",
        "",
        "instead of functions of numpy, use those of jax.numpy, and index an array of numpy as "
        "jnp.asarray(array)[index]",
    ),
    (
        "TracerIntegerConversionError",
        "",
        "instead of range or an index into a list, use jax.lax.fori_loop, jnp.take or "
        "jax.lax.dynamic_slice: " + _UNKNOWN_VALUE,
    ),
    (
        "NonConcreteBooleanIndexError",
        "",
        "the size of the result depends on values: use jnp.where(mask, x, 0), "
        "or jnp.nonzero(mask, size=...) with the largest size",
    ),
    (
        "ConcretizationTypeError",
        "`float` function",
        "instead of float(x), use x.astype(float): " + _UNKNOWN_VALUE,
    ),
    (
        "ConcretizationTypeError",
        "`int` function",
        "instead of int(x), use x.astype(int): " + _UNKNOWN_VALUE,
    ),
    (
        "ConcretizationTypeError",
        "size argument",
        "the size of the result depends on values: pass size=... with the largest size, and "
        "fill_value=... for the rest",
    ),
    (
        "ConcretizationTypeError",
        "item() method",
        "leave out .item(): an array with one element works like a number in jnp; "
        + _UNKNOWN_VALUE,
    ),
    ("ConcretizationTypeError", "jnp.arange", _SIZE_OF_VALUES),
    ("ConcretizationTypeError", "'num' argument", _SIZE_OF_VALUES),
    (
        "ConcretizationTypeError",
        "total_repeat_length",
        "the size of the result depends on values: pass total_repeat_length=... with the largest "
        "size",
    ),
    (
        "ConcretizationTypeError",
        "static `length`",
        "the size of the result depends on values: pass length=... with the largest size",
    ),
    ("ConcretizationTypeError", "", _UNKNOWN_VALUE),
    (
        "IndexError",
        "Slice entries must be static",
        "a slice has a fixed size: use jax.lax.dynamic_slice_in_dim with the largest size, or a "
        "mask",
    ),
    (
        "TypeError",
        "unsupported format string",
        "a traced value cannot be formatted: use jax.debug.print, which the model leaves out",
    ),
    (
        "UnexpectedTracerError",
        "",
        "an earlier call stored a traced value in an attribute or a global: return it instead",
    ),
    (
        "TypeError",
        _NOT_AN_INTEGER,
        "this function needs a number for the size: compute the result with jnp.arange, or use "
        "another function; " + _UNKNOWN_SIZE,
    ),
    (
        "TypeError",
        "Shapes must be 1D sequences of concrete values",
        _SIZE_OF_VALUES,
    ),
    (
        "InconclusiveDimensionOperation",
        "comparison",
        "if the comparison always has the same result, state a bound: for `L >= 4`, pass a size of "
        "`jax.export.symbolic_shape('L', constraints=['L >= 4'])` as in docs/symbolic-shapes.md; "
        + _UNKNOWN_SIZE,
    ),
    (
        "InconclusiveDimensionOperation",
        "Cannot divide evenly",
        "if the named size is always a multiple, say so in the spec: for example `4*B` instead of "
        "`B`; " + _UNKNOWN_SIZE,
    ),
    ("InconclusiveDimensionOperation", "", _UNKNOWN_SIZE),
    (
        "CallCompactUnboundModuleError",
        "",
        "bind the weights: export functools.partial(model.apply, variables)",
    ),
    (
        "AttributeError",
        "is unbound",
        "bind the weights: export functools.partial(model.apply, variables)",
    ),
    (
        "TypeError",
        "returned a value of type",
        "a model returns arrays and numbers: export a function that returns only those",
    ),
    (
        "ValueError",
        "Non-hashable static arguments",
        "a static argument must be hashable: pass a tuple instead of a list, "
        "or a frozen dataclass instead of a dictionary",
    ),
)


def annotate(
    error: Exception,
    name: str,
    fn: Callable[..., Any],
    specs: Sequence[Any],
    keywords: Mapping[str, Any],
) -> None:
    """Add a note to an exception that was raised while a function was traced."""
    lines = [f"jax2onnx traced {quoted(name)} with {_inputs(fn, specs, keywords)}"]
    place = _users_line(error) or _definition(fn)
    if place is not None:
        lines += place
    hint = _hint(error)
    if hint is not None:
        lines += ["", f"hint: {hint}"]
    error.add_note("\n".join(lines))


def _inputs(fn: Callable[..., Any], specs: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    leaves = tree_util.tree_leaves([list(specs), dict(sorted(keywords.items()))])
    names = input_names(fn, specs, keywords)
    if not leaves:
        return "no inputs"
    shown = [f"{quoted(name)} {_type(leaf)}" for name, leaf in zip(names, leaves, strict=False)]
    more = f" and {len(shown) - _MAX_INPUTS} more" if len(shown) > _MAX_INPUTS else ""
    return ", ".join(shown[:_MAX_INPUTS]) + more


def _type(leaf: Any) -> str:
    if not hasattr(leaf, "shape"):
        return type(leaf).__name__
    return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"


def _users_frame(error: Exception) -> types.TracebackType | None:
    """Return the innermost frame of the user's code."""
    found, each = None, error.__traceback__
    while each is not None:
        file = each.tb_frame.f_code.co_filename
        if not (is_own(file) or is_of_library(file) or file.startswith("<frozen")):
            found = each
        each = each.tb_next
    return found


def _users_line(error: Exception) -> list[str] | None:
    """Return the innermost line of the user's code, as text."""
    found = _users_frame(error)
    if found is None:
        return None
    return _shown(found.tb_frame.f_code, found.tb_lineno, found.tb_frame.f_globals)


def _definition(fn: Callable[..., Any]) -> list[str] | None:
    """Return the first line of a function of the user, as text."""
    function = inspect.unwrap(getattr(fn, "__func__", fn))
    code = getattr(function, "__code__", None)
    if code is None or is_own(code.co_filename) or is_of_library(code.co_filename):
        return None
    return _shown(code, code.co_firstlineno, function.__globals__)


def _shown(code: types.CodeType, number: int, namespace: dict[str, Any]) -> list[str]:
    """Return a line of a function, as text."""
    text = _cells.source_line(code, number, namespace).rstrip()
    file, number = _cells.place(code, number)
    lines = [f"  --> {shown_path(file)}:{number}, in {code.co_qualname}"]
    if text:
        shown = f"{number:>2}"
        lines += [f"{'':{len(shown)}} |", f"{shown} | {text}"]
    return lines


def _raised_by_user(error: Exception) -> bool:
    """Return whether the innermost frame is the user's: a function of Python raised the error."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    file = frames[-1].f_code.co_filename if frames else ""
    return bool(file) and not is_own(file) and not is_of_library(file)


def _hint(error: Exception) -> str | None:
    classes = {kind.__name__ for kind in type(error).__mro__}
    message = str(error)
    if message == _NOT_AN_INTEGER and _raised_by_user(error):
        return _RANGE
    frame = _users_frame(error)
    if "TracerBoolConversionError" in classes and frame is not None:
        names = frame.tb_frame.f_globals
        said = advice(frame.tb_frame.f_code, frame.tb_lasti, frame.tb_lineno, names)
        return f"{said}: {_UNKNOWN_VALUE}"
    if _OF_NAMED_SIZES.search(message):
        return _EQUAL_SIZES
    for kind, part, hint in _HINTS:
        if kind in classes and part in message:
            return hint
    return None
