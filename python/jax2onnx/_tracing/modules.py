"""Find the nnx and equinox modules that a function holds, and the path to each of them.

The search starts at the closure of the function, its defaults, the globals that its code names and
the object that it is bound to. It runs and replaces none of the user's code.
"""

import functools
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from jax import tree_util

from .. import _core
from .weights import (
    attributes,
    is_plain,
    is_random_state,
    is_variable,
    parts,
    raw_value,
    variables,
)

_Result = TypeVar("_Result")

Place: TypeAlias = int | None
"""The identity of a module, or the place outside of all modules."""

_Look: TypeAlias = Callable[[Any, Place, str], None]
"""Looks through a value that a place holds under a name."""

_MAX_VALUES: Final = 200_000


class _TooLargeError(Exception):
    """The function holds too many objects to look through."""


@dataclass
class Modules:
    """The modules, and under which name one holds another."""

    #: The base classes of all modules.
    bases: tuple[type, ...]
    holders: dict[int, list[tuple[Place, str]]] = field(default_factory=dict)
    #: The modules, and the other nnx objects and variables, by identity.
    kept: dict[int, Any] = field(default_factory=dict)
    chains: dict[tuple[Place, int], list[str] | None] = field(default_factory=dict)
    #: The module that holds each nnx variable, and the name of the variable there.
    variables: dict[int, tuple[Place, str]] = field(default_factory=dict)
    #: The names of the variables that the traced function wrote and did not return.
    written: list[str] = field(default_factory=list)
    #: The states of equinox models, by identity.
    states: dict[int, Any] = field(default_factory=dict)

    def variable_name(self, variable: int) -> str:
        """Return the path of an nnx variable, without the class of the outermost module."""
        holder, name = self.variables[variable]
        chain = None if holder is None else self.chain(None, holder)
        return ".".join([*(chain or [])[1:], name])

    def chain(self, start: Place, module: int) -> list[str] | None:
        """Return the names on the shortest path from one module to another.

        Returns None if there is no path, or more than one of that length.
        """
        key = (start, module)
        if key not in self.chains:
            self.chains[key] = self._chain(start, module)
        return self.chains[key]

    def _chain(self, start: Place, module: int) -> list[str] | None:
        level: list[tuple[Place, list[str]]] = [(module, [])]
        seen: set[Place] = set()
        while level:
            found = [names for place, names in level if place == start]
            if found:
                return found[0] if len(found) == 1 else None
            seen.update(place for place, _ in level)
            level = [
                (holder, [name, *names])
                for place, names in level
                if place is not None
                for holder, name in self.holders[place]
                if holder not in seen
            ]
        return None


def modules_of(fn: Callable[..., Any]) -> Modules | None:
    """Return the modules of a function; None if it has none, or holds too many objects."""
    nnx, equinox = sys.modules.get("flax.nnx"), sys.modules.get("equinox")
    if nnx is None and equinox is None:
        return None
    walk = _Walk(nnx, equinox)
    try:
        walk.held(fn)
    except (_TooLargeError, RecursionError):
        return None
    return walk.modules if walk.modules.holders or walk.modules.states else None


class _Walk:
    def __init__(self, nnx: Any, equinox: Any) -> None:
        libraries = [library for library in (nnx, equinox) if library is not None]
        self.modules = Modules(bases=tuple(library.Module for library in libraries))
        #: Modules that only group their entries, and other objects that hold variables.
        self._containers = _classes(nnx, "List", "Dict")
        self._objects = _classes(nnx, "Pytree", "Object")
        self._states = _classes(getattr(equinox, "nn", None), "State")
        #: How to look through the values of each class that was met.
        self._looks: dict[type, _Look | None] = {}
        self._calls: set[int] = set()
        #: The containers around the current value; a container may contain itself.
        self._around: set[int] = set()
        self._values = 0

    def held(self, held: Any) -> None:
        """Look through an object that a function holds."""
        if isinstance(held, types.MethodType):
            self.held(held.__self__)
        elif isinstance(held, types.FunctionType | functools.partial):
            if id(held) in self._calls:
                return
            self._calls.add(id(held))
            if isinstance(held, functools.partial):
                self.held(held.func)
            for _, value in variables(held):
                self.held(value)
        else:
            self._value(held, None, "")

    def _is_module(self, kind: type) -> bool:
        """Return whether a class is a module of the user; equinox wraps functions in its own."""
        home = kind.__module__
        is_wrapper = home.startswith("equinox.") and not home.startswith("equinox.nn.")
        return issubclass(kind, self.modules.bases) and not is_wrapper

    def _value(self, value: Any, holder: Place, name: str) -> None:
        """Look through a module, or a container of modules."""
        self._values += 1
        if self._values > _MAX_VALUES:
            raise _TooLargeError
        kind = type(value)
        if kind not in self._looks:
            self._looks[kind] = self._look(kind)
        look = self._looks[kind]
        if look is not None:
            look(value, holder, name)

    def _look(self, kind: type) -> "_Look | None":
        """Return how to look through the values of a class; None if they hold no modules."""
        if is_plain(kind):
            return None
        if self._is_module(kind) and not issubclass(kind, self._containers):
            return self._module
        if issubclass(kind, self._objects):
            return self._object
        if issubclass(kind, self._states):
            return self._state
        if kind is dict:
            return self._dict
        if issubclass(kind, types.FunctionType | types.MethodType | functools.partial):
            return self._function
        if kind in (list, tuple) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
            return self._sequence
        return self._variable if is_variable(kind) else None

    def _object(self, value: Any, holder: Place, name: str) -> None:
        self.modules.kept[id(value)] = value
        self._entries(value, parts(value), holder, name)

    def _function(self, value: Any, holder: Place, _name: str) -> None:
        """Look through a function in a container, but not through one that a module holds."""
        if holder is None:
            self.held(value)

    def _state(self, value: Any, _holder: Place, _name: str) -> None:
        self.modules.states[id(value)] = value

    def _dict(self, value: Any, holder: Place, name: str) -> None:
        keyed = ((str(k), v) for k, v in value.items() if isinstance(k, str | int))
        self._entries(value, keyed, holder, name)

    def _sequence(self, value: Any, holder: Place, name: str) -> None:
        names = getattr(type(value), "_fields", None) or map(str, range(len(value)))
        self._entries(value, zip(names, value, strict=False), holder, name)

    def _variable(self, value: Any, holder: Place, name: str) -> None:
        self.modules.kept[id(value)] = value
        self.modules.variables.setdefault(id(value), (holder, name))

    def _entries(
        self, container: Any, entries: Iterable[tuple[str, Any]], holder: Place, name: str
    ) -> None:
        if id(container) in self._around:
            return
        self._around.add(id(container))
        for key, value in entries:
            self._value(value, holder, f"{name}.{key}" if name else key)
        self._around.remove(id(container))

    def _module(self, module: Any, holder: Place, name: str) -> None:
        if holder is None:
            name = type(module).__name__
        is_new = id(module) not in self.modules.holders
        holders = self.modules.holders.setdefault(id(module), [])
        if (holder, name) not in holders:
            holders.append((holder, name))
        if is_new:
            self.modules.kept[id(module)] = module
            for key, value in parts(module):
                self._value(value, id(module), key)


def _classes(library: Any, *names: str) -> tuple[type, ...]:
    """Return the classes with these names; a version of the library may lack some of them."""
    found = (getattr(library, name, None) for name in names)
    return tuple(kind for kind in found if isinstance(kind, type))


def restored_on_failure(modules: Modules | None, body: Callable[[], _Result]) -> _Result:
    """Call a function, and restore the nnx modules if it fails.

    A transformation of nnx empties a module before it fails to write the results back.
    """
    kept = _of_nnx(modules)
    results: list[_Result] = []

    def restore() -> None:
        for each in kept if not results else ():
            each.restore()

    _core.restoring(lambda: results.append(body()), restore)
    return results[0]


def changing(
    fn: Callable[..., Any],
    modules: Modules | None,
    body: Callable[[Callable[..., Any]], _Result],
) -> _Result | None:
    """Call `body` with a form of a function that may change its nnx modules while JAX traces it.

    nnx allows a module to change only in the trace that created it: the count of a random stream,
    the statistics of a norm. Inside `body`, the modules belong to the trace that calls the
    function. Each call starts with the modules as they were before `body`, and the end of `body`
    restores them: the changes are not a result of the function.

    Returns None if the function has no nnx modules.
    """
    kept = _of_nnx(modules)
    if not kept:
        return None

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        restore()
        for each in kept:
            each.enter_trace()
        result = fn(*args, **kwargs)
        if modules is not None:
            modules.written = _written(kept, modules, result)
        return result

    def restore() -> None:
        for each in kept:
            each.restore()

    result: _Result = _core.restoring(lambda: body(call), restore)
    return result


def _written(kept: Sequence["_Kept"], modules: Modules, result: Any) -> list[str]:
    """Return the names of the variables that changed and are not part of the result.

    The state of a random stream is not a value that anyone misses.
    """
    returned = {id(leaf) for leaf in tree_util.tree_leaves(result)}
    changed = [each.held for each in kept if each.has_new_value()]
    return [
        modules.variable_name(id(variable))
        for variable in changed
        if id(raw_value(variable)) not in returned and not is_random_state(type(variable))
    ]


def _of_nnx(modules: Modules | None) -> list["_Kept"]:
    """Return the nnx modules and variables with their current attributes."""
    if modules is None:
        return []
    states = ((held, _trace_state(held)) for held in modules.kept.values())
    return [_Kept(held, state) for held, state in states if state]


class _Kept:
    """An nnx module or variable, and its attributes at one moment."""

    def __init__(self, held: Any, state: Any) -> None:
        is_value = is_variable(type(held))
        self.held = held
        self._value = raw_value(held) if is_value else None
        self._state = state
        self._trace = state._jax_trace
        #: In recent versions of nnx, a variable has slots instead of a dictionary.
        self._has_dict = not is_value and hasattr(held, "__dict__")
        self._attributes = dict(vars(held)) if self._has_dict else attributes(held)
        self._notes = [
            (note, dict(note))
            for name, note in self._attributes.items()
            if type(note) is dict and name[:1] == "_"
        ]

    def has_new_value(self) -> bool:
        """Return whether this is a variable that has another value now."""
        return is_variable(type(self.held)) and raw_value(self.held) is not self._value

    def enter_trace(self) -> None:
        self._state._jax_trace = type(self._state)()._jax_trace

    def restore(self) -> None:
        self._state._jax_trace = self._trace
        for note, entries in self._notes:
            _replace(note, entries)
        if self._has_dict:
            _replace(vars(self.held), self._attributes)
        else:
            for name, value in self._attributes.items():
                object.__setattr__(self.held, name, value)


def _replace(current: dict[str, Any], entries: dict[str, Any]) -> None:
    """Give a dictionary its entries back. Meanwhile, another thread finds all of them in it."""
    current.update(entries)
    for name in list(current):
        if name not in entries:
            del current[name]
    if list(current) != list(entries):
        # The order is different: the function has deleted an entry and added it again.
        current.clear()
        current.update(entries)


def _trace_state(held: Any) -> Any:
    """Return what nnx records about the trace that created an object; None if nothing."""
    if not is_variable(type(held)):
        held = _own(held, "_pytree__state") or _own(held, "_object__state")
    state = _own(held, "_trace_state")
    return state if hasattr(state, "_jax_trace") else None


def _own(held: Any, name: str) -> Any:
    try:
        return object.__getattribute__(held, name)
    except AttributeError:
        return None
