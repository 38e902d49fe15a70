"""Mark where the body of an ONNX function begins and ends, with a primitive."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .onnx_function import OnnxFunction

_mark: Final[Any] = Primitive("onnx_function")
_numbers: Final = itertools.count()


def call(
    function: OnnxFunction,
    body: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Call `body` between two markers, which are the identity.

    The markers are bound in every trace, not only in that of an export: JAX caches traces, and a
    later export may reuse one. Values that are computed at once, outside a trace, have no markers.
    """
    params = {"id": next(_numbers), "domain": function.domain, "name": function.name}
    names = tuple(kwargs)
    args, values = _marked((args, tuple(kwargs.values())), edge="enter", **params)
    result = body(*args, **dict(zip(names, values, strict=True)))
    return _marked(result, edge="leave", **params)


def _marked(tree: Any, **params: Any) -> Any:
    """Return a tree whose traced arrays are marked.

    The arrays are looked for in tuples, lists and dictionaries. A list or dictionary may belong to
    the caller, who expects to see what the body writes into it. It therefore stays as it is, and so
    does every other object. The core finds what else a body reads, and what is read from it later.
    """
    arrays: list[Any] = []
    _replaced(tree, arrays.append)
    marked = iter(_mark.bind(*arrays, **params))
    return _replaced(tree, lambda _: next(marked))


def _replaced(tree: Any, replace: Callable[[Any], Any]) -> Any:
    """Return a tree in which the given arrays replace the traced ones, in order."""
    if isinstance(tree, jax.core.Tracer):
        return replace(tree)
    if isinstance(tree, list):
        for item in tree:
            _replaced(item, replace)
    elif isinstance(tree, dict):
        for item in tree.values():
            _replaced(item, replace)
    elif isinstance(tree, tuple):
        items = [_replaced(item, replace) for item in tree]
        if type(tree) is tuple:
            return tuple(items)
        if hasattr(tree, "_fields"):
            return type(tree)(*items)
    return tree


def _is_itself(*arrays: Any, **_: Any) -> Sequence[Any]:
    return arrays


def _lowered(_: Any, *arrays: Any, **params: Any) -> Sequence[Any]:
    return arrays


def _batched(arrays: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
    return _mark.bind(*arrays, **params), axes


def _differentiated(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """Let derivatives bypass the marker."""
    return _mark.bind(*primals, **params), tangents


def _transposed(cotangents: Sequence[Any], *arrays: Any, **_: Any) -> Sequence[Any]:
    is_linear: Any = ad.is_undefined_primal
    pairs = zip(cotangents, arrays, strict=True)
    return [cotangent if is_linear(array) else None for cotangent, array in pairs]


_mark.multiple_results = True
_mark.def_impl(_is_itself)
_mark.def_abstract_eval(_is_itself)
mlir.register_lowering(_mark, _lowered)
batching.primitive_batchers[_mark] = _batched
ad.primitive_jvps[_mark] = _differentiated
ad.primitive_transposes[_mark] = _transposed
