"""Name the weights: find the path of each array that the function holds.

The search starts at the closure of the function, its defaults, the globals that its code names and
the object that it is bound to, and follows their attributes and entries. It runs none of the
user's code, and imports no library.
"""

import functools
import os
import sys
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, ParamSpec, TypeAlias, TypeVar, cast

import jax
import numpy as np
from jax import tree_util

from .. import _core, _tiers

Path: TypeAlias = tuple[str, ...]
_Waiting: TypeAlias = list[tuple[Any, Path, Path]]
"""Objects to search, each with the variable that leads to it and the path from there."""
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
    found = [(array, array.short) for array in _arrays(fn)]
    owners: dict[str, set[Path]] = {}
    for array, short in found:
        owners.setdefault(short, set()).add(array.root)
    crowded = {root for roots in owners.values() if len(roots) > 1 for root in roots}
    weights = Weights()
    for array, short in found:
        weights.held.append(array.array)
        name = array.long if array.root in crowded else short
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


class _Found(NamedTuple):
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
    waiting: _Waiting = [(fn, (), ())]
    while waiting and len(seen) < _MAX_OBJECTS:
        held, root, path = waiting.pop()
        if id(held) in seen:
            continue
        seen.add(id(held))
        kept.append(held)
        if _is_array(type(held)):
            yield _Found(held, root, path)
        else:
            waiting += _open(type(held))(held, root, path)[::-1]


def _cached(function: Callable[P, T]) -> Callable[P, T]:
    """Remember the answers of a function of classes, which mypy does not take for hashable."""
    return cast("Callable[P, T]", functools.lru_cache(maxsize=4096)(function))


@_cached
def is_plain(kind: type) -> bool:
    """Return whether objects of a class hold nothing, or nothing of the user's."""
    return issubclass(kind, (*_PLAIN, jax.core.Tracer))


_parts: Final = _core.Parts(is_plain, _NO_PARTS)


@_cached
def _is_array(kind: type) -> bool:
    return issubclass(kind, jax.Array | np.ndarray)


@_cached
def _open(kind: type) -> Callable[[Any, Path, Path], _Waiting]:
    """Return the function that opens objects of a class: it returns what to search in them."""
    if is_plain(kind):
        return lambda _held, _root, _path: []
    if is_variable(kind):
        return lambda held, root, path: [(raw_value(held), root, path)]
    if _is_of(kind, "keras", "Variable"):
        # The array of a variable whose initialization is deferred is `None`.
        return lambda held, _root, _path: [(held._value, (), (str(held.path),))]
    if issubclass(kind, types.MethodType):
        return lambda held, root, path: [(held.__self__, root, path), (held.__func__, root, path)]
    if issubclass(kind, types.FunctionType | functools.partial):
        return _open_call
    if issubclass(kind, tuple | list):
        names = getattr(kind, "_fields", None)
        return lambda held, root, path: _named(
            zip(names or map(str, range(len(held))), held, strict=False), root, path
        )
    return _open_object


def _open_call(held: Any, root: Path, path: Path) -> _Waiting:
    inner = [(part, root, path) for part in _inner(held)]
    if path:
        return inner + _named(variables(held), root, path)
    read = [(part, (*root, name), ()) for name, part in variables(held)]
    return inner + [each for each in read if not is_plain(type(each[0]))]


def _open_object(held: Any, root: Path, path: Path) -> _Waiting:
    kind = type(held)
    inner = [(part, root, path) for part in _inner(held)]
    if _is_mapping(kind) and not tree_util.all_leaves((held,)):
        named: Iterable[tuple[str, Any]] = ((str(key), value) for key, value in held.items())
    else:
        named = parts(held)
    # All objects of a class read the same variables when they are called.
    return [*inner, *_named(named, root, path), (_call_of(kind), root, path)]


def _named(parts: Iterable[tuple[str, Any]], root: Path, path: Path) -> _Waiting:
    """Return the parts of an object with their paths; most of them hold nothing."""
    return [(part, root, (*path, name)) for name, part in parts if not is_plain(type(part))]


@_cached
def _is_mapping(kind: type) -> bool:
    return issubclass(kind, Mapping)


def parts(held: Any) -> list[tuple[str, Any]]:
    """Return the attributes of an object that may hold something, without running a property."""
    return [*_parts.of(_dict(held)), *_parts.of(_slot_values(held))]


def attributes(held: Any) -> dict[str, Any]:
    """Return all attributes of an object, without running a property."""
    return {**_dict(held), **_slot_values(held)}


def _dict(held: Any) -> dict[str, Any]:
    if not type(held).__dictoffset__:
        # An exception would take ten times as long.
        return {}
    try:
        named = object.__getattribute__(held, "__dict__")
    except AttributeError:
        return {}
    return named if isinstance(named, dict) else {}


def _slot_values(held: Any) -> dict[str, Any]:
    values = {}
    for name, slot in _slots(type(held)):
        try:
            values[name] = slot.__get__(held)
        except AttributeError:
            continue
    return values


@_cached
def _slots(kind: type) -> list[tuple[str, types.MemberDescriptorType]]:
    """Return the attributes of a class that are in slots.

    A compiled class also describes its members so. Those may be raw memory, such as `__weakref__`
    of mypyc's classes: to read it ends the process.
    """
    return [
        (name, slot)
        for known in kind.__mro__
        if "__slots__" in vars(known)
        for name, slot in vars(known).items()
        if isinstance(slot, types.MemberDescriptorType)
    ]


def _inner(held: Any) -> Iterator[Any]:
    """Yield the values that an object only wraps; they have the path of the object."""
    if isinstance(held, functools.partial):
        yield held.func
    elif _is_of(type(held), "flax.linen", "Module") and getattr(held, "scope", None) is not None:
        yield held.variables
    else:
        try:
            yield object.__getattribute__(held, "__wrapped__")
        except AttributeError:
            return


@_cached
def is_variable(kind: type) -> bool:
    """Return whether a class is one of nnx variables; the array has the path of the variable.

    Before flax 0.11, a state holds objects of another class.
    """
    return _is_of(kind, "flax.nnx", "Variable") or _is_of(
        kind, "flax.nnx.variablelib", "VariableState"
    )


def is_random_state(kind: type) -> bool:
    """Return whether a class is one of nnx variables that belong to a random stream."""
    return _is_of(kind, "flax.nnx", "RngState")


def raw_value(variable: Any) -> Any:
    """Return the array of an nnx variable."""
    read = getattr(variable, "get_raw_value", None)
    return read() if read is not None else getattr(variable, "raw_value", None)


@_cached
def _is_of(kind: type, module: str, name: str) -> bool:
    """Return whether a class derives from a library's class.

    If the library is not loaded yet, the class cannot derive from it later.
    """
    base = getattr(sys.modules.get(module), name, None)
    return isinstance(base, type) and issubclass(kind, base)


def variables(
    held: "types.FunctionType | functools.partial[Any]",
) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a function reads, by name."""
    if isinstance(held, functools.partial):
        yield from zip(_argument_names(held), held.args, strict=False)
        yield from held.keywords.items()
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


@_cached
def _call_of(kind: type) -> types.FunctionType | None:
    """Return the function that runs when an object of a class is called."""
    call = getattr(kind, "__call__", None)  # noqa: B004
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
        function, bound = _call_of(type(function)), 1
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
    # A `.pth` file or PYTHONPATH may add the packages of another environment.
    return file.startswith(_library_folders()) or _tiers.installed_package(file) is not None
