"""Name the weights: find the path of each array that the function holds.

The search starts at the closure of the function, its defaults, the globals that its code names and
the object that it is bound to, and follows their attributes and entries. It runs none of the
user's code, and imports no library.
"""

import contextlib
import functools
import os
import sys
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, cast

import jax
import numpy as np
from jax import tree_util

from .. import _tiers

Path: TypeAlias = tuple[str, ...]
P = ParamSpec("P")
T = TypeVar("T")

#: A function may hold a data set. Arrays beyond this many objects have no name.
_MAX_OBJECTS: Final = 200_000
#: Types that hold nothing, or nothing of the user's.
_PLAIN: Final = (
    *(str, bytes, int, float, complex, bool, type(None), type),
    *(np.dtype, types.ModuleType, types.BuiltinFunctionType),
)
#: What nnx records about an object, and what an object wraps, which `_inner` yields.
_NO_PARTS: Final = ("_pytree__", "_object__", "__wrapped__")


@dataclass
class Weights:
    """The names of arrays, and the arrays themselves, so that their identities stay unique."""

    names: dict[Hashable, str] = field(default_factory=dict)
    held: list[Any] = field(default_factory=list)


def weights_of(fn: Callable[..., Any]) -> Weights:
    """Return the arrays that a function holds, named by the path from the variable that holds them.

    The name includes the variable if two variables have an array at the same path, or if the
    variable is a list or the array itself.
    """
    found = list(_arrays(fn))
    owners: dict[str, set[Path]] = {}
    for array in found:
        owners.setdefault(array.short, set()).add(array.root)
    crowded = {root for roots in owners.values() if len(roots) > 1 for root in roots}
    weights = Weights()
    for array in found:
        weights.held.append(array.array)
        name = array.long if array.root in crowded else array.short
        weights.names.setdefault(identity(array.array), name)
    return weights


def identity(array: Any) -> Hashable:
    """Return what identifies an array: JAX keeps its own arrays, but only views of NumPy's.

    The reader in the core uses the same identity.
    """
    if isinstance(array, np.ndarray):
        memory = array.__array_interface__["data"][0]
        return (memory, array.dtype, array.shape, array.strides)
    return id(array)


@dataclass(frozen=True)
class _Found:
    array: Any
    root: Path
    path: Path

    @property
    def short(self) -> str:
        """Drop the variable from a path, unless the rest is empty or starts with a number."""
        if self.root and (not self.path or self.path[0].isdecimal()):
            return ".".join((self.root[-1], *self.path))
        return ".".join(self.path)

    @property
    def long(self) -> str:
        return ".".join((*self.root, *self.path))


def _arrays(fn: Callable[..., Any]) -> Iterator[_Found]:
    """Yield every array once, depth first, in the order of attributes, entries and variables."""
    seen: set[int] = set()
    # Keep the objects that are created on the way, so that no later object reuses their identity.
    kept: list[Any] = []
    waiting: list[tuple[Any, Path, Path]] = [(fn, (), ())]
    while waiting and len(seen) < _MAX_OBJECTS:
        held, root, path = waiting.pop()
        kind: type = type(held)
        if is_plain(kind) or id(held) in seen:
            continue
        seen.add(id(held))
        kept.append(held)
        if _is_array(kind):
            yield _Found(held, root, path)
            continue
        if is_variable(held):
            waiting.append((raw_value(held), root, path))
            continue
        if _is_of(held, "keras", "Variable"):
            # The array of a variable whose initialization is deferred is `None`.
            waiting.append((held._value, (), (str(held.path),)))
            continue
        inner = [(part, root, path) for part in _inner(held)]
        # Most parts hold nothing.
        parts = [
            (part, root, (*path, name)) for name, part in _parts(held) if not is_plain(type(part))
        ]
        named = [(name, part) for name, part in variables(held) if not is_plain(type(part))]
        read: list[tuple[Any, Path, Path]]
        if path:
            read = [(part, root, (*path, name)) for name, part in named]
        else:
            read = [(part, (*root, name), ()) for name, part in named]
        waiting += [*inner, *parts, *read][::-1]


def _cached(function: Callable[P, T]) -> Callable[P, T]:
    """Remember the answers of a function of classes, which mypy does not take for hashable."""
    return cast("Callable[P, T]", functools.lru_cache(maxsize=4096)(function))


@_cached
def is_plain(kind: type) -> bool:
    """Return whether objects of a class hold nothing, or nothing of the user's."""
    return issubclass(kind, (*_PLAIN, jax.core.Tracer))


@_cached
def _is_array(kind: type) -> bool:
    return issubclass(kind, jax.Array | np.ndarray)


def _parts(held: Any) -> Iterable[tuple[str, Any]]:
    """Return the parts of a container or an object, by name."""
    if isinstance(held, Mapping) and not tree_util.all_leaves((held,)):
        return [(str(key), value) for key, value in held.items()]
    if isinstance(held, tuple | list):
        names = getattr(held, "_fields", None) or map(str, range(len(held)))
        return zip(names, held, strict=False)
    return () if isinstance(held, _CALLS) else attributes(held)


def attributes(held: Any) -> list[tuple[str, Any]]:
    """Return the attributes of an object itself, without running a property."""
    try:
        named = object.__getattribute__(held, "__dict__")
    except AttributeError:
        named = {}
    found: list[tuple[str, Any]] = []
    if isinstance(named, dict):
        found = [
            (str(name), value)
            for name, value in named.items()
            if not (isinstance(name, str) and name.startswith(_NO_PARTS))
        ]
    for name, slot in _slots(type(held)):
        with contextlib.suppress(AttributeError):
            found.append((name, slot.__get__(held)))
    return found


@_cached
def _slots(kind: type) -> list[tuple[str, types.MemberDescriptorType]]:
    """Return the attributes of a class that are in slots."""
    return [
        (name, slot)
        for known in kind.__mro__
        if known.__module__ != "builtins"
        for name, slot in vars(known).items()
        if isinstance(slot, types.MemberDescriptorType)
    ]


def _inner(held: Any) -> Iterator[Any]:
    """Yield the values that an object only wraps; they have the path of the object."""
    if isinstance(held, types.MethodType):
        yield held.__self__
        yield held.__func__
    elif isinstance(held, functools.partial):
        yield held.func
    elif _is_of(held, "flax.linen", "Module") and getattr(held, "scope", None) is not None:
        yield held.variables
    else:
        try:
            yield object.__getattribute__(held, "__wrapped__")
        except AttributeError:
            return


def is_variable(held: Any) -> bool:
    """Return whether an object is an nnx variable; its array has the path of the variable.

    Before flax 0.11, a state holds objects of another class.
    """
    return _is_of(held, "flax.nnx", "Variable") or _is_of(
        held, "flax.nnx.variablelib", "VariableState"
    )


def is_random_state(held: Any) -> bool:
    """Return whether an object is an nnx variable that belongs to a random stream."""
    return _is_of(held, "flax.nnx", "RngState")


def raw_value(variable: Any) -> Any:
    """Return the array of an nnx variable."""
    read = getattr(variable, "get_raw_value", None)
    return read() if read is not None else getattr(variable, "raw_value", None)


def _is_of(held: Any, module: str, name: str) -> bool:
    """Return whether an object is an instance of a library's class, if the library is loaded."""
    loaded = sys.modules.get(module)
    return loaded is not None and _is_subclass(type(held), getattr(loaded, name, None))


@_cached
def _is_subclass(kind: type, base: Any) -> bool:
    return isinstance(base, type) and issubclass(kind, base)


_CALLS: Final = (types.FunctionType, types.MethodType, functools.partial, types.CodeType)


def variables(held: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a call reads, by name."""
    if isinstance(held, functools.partial):
        yield from zip(_argument_names(held), held.args, strict=False)
        yield from held.keywords.items()
        return
    if not isinstance(held, types.FunctionType):
        held = _call_of(held)
        if held is None:
            return
    code = held.__code__
    for name, cell in zip(code.co_freevars, held.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue
    names = code.co_varnames[: code.co_argcount]
    defaults = held.__defaults__ or ()
    yield from zip(names[len(names) - len(defaults) :], defaults, strict=True)
    yield from (held.__kwdefaults__ or {}).items()
    if not is_of_library(code.co_filename):
        yield from _globals(code, held.__globals__)


def _call_of(held: Any) -> types.FunctionType | None:
    """Return the function that runs when an object is called."""
    call = type(held).__call__ if callable(held) else None
    return call if isinstance(call, types.FunctionType) else None


def _globals(code: types.CodeType, namespace: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the globals that some code and the code inside it name."""
    for name in code.co_names:
        if name in namespace:
            yield name, namespace[name]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals(constant, namespace)


def _argument_names(partial: "functools.partial[Any]") -> Iterator[str]:
    """Yield the names of the positional arguments of a partial call."""
    function: Any = partial.func
    bound = 0
    if isinstance(function, types.MethodType):
        function, bound = function.__func__, 1
    elif not isinstance(function, types.FunctionType):
        function, bound = _call_of(function), 1
    code = getattr(function, "__code__", None)
    known = code.co_varnames[bound : code.co_argcount] if code is not None else ()
    for index in range(len(partial.args)):
        yield known[index] if index < len(known) else f"arg{index}"


@functools.cache
def _library_folders() -> tuple[str, ...]:
    rules = _tiers.rules([os.path.dirname(jax.__file__ or "")])
    return tuple(os.path.join(place, "") for place in [*rules["internal"], *rules["library"]])


@functools.cache
def is_of_library(file: str) -> bool:
    """Return whether code belongs to a library, whose globals are not the user's."""
    return file.startswith(_library_folders())
