"""The function around copies of the nnx and equinox modules that it holds; see `_scopes`.

A function is made anew with the same code, so that every line stays what it is. Nothing is copied
where that could be noticed: where the user's code asks for the exact class of an object.
"""

import contextlib
import dis
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

from ._scopes import Modules, Place, named_class
from ._weights import is_of_library, variables

_MOST_FUNCTIONS: Final = 10_000
_MOST_VALUES: Final = 200_000
#: What tells a copy from its original: functions, and attributes. The structure of a tree has the
#: classes of its modules.
_TELLING_FUNCTIONS: Final = frozenset({"type", "id", "tree_equal", "tree_structure"})
_TELLING_ATTRIBUTES: Final = frozenset({"__class__", "tree_equal", "tree_structure", "structure"})


class NoticeableError(Exception):
    """A copy would be noticed."""


def with_copies(fn: Callable[..., Any]) -> tuple[Callable[..., Any], Modules] | None:
    """The function around copies, and which is which; none where there is no module.

    Raises:
        Exception: The modules cannot be copied.
    """
    nnx, equinox = sys.modules.get("flax.nnx"), sys.modules.get("equinox")
    if nnx is None and equinox is None:
        return None
    copier = _Copier(nnx, equinox)
    copied = copier.held(fn)
    if not copier.modules.kept:
        return None
    copier.check(fn)
    return copied, copier.modules


def on_fresh_modules(fn: Callable[..., Any]) -> Callable[..., Any] | None:
    """The function, on clones of its nnx modules that are made whenever it is called.

    nnx lets a module be changed only in the trace that it was made in: the count of a random
    stream, the statistics of a norm. A clone that is made while JAX traces may change; what does is
    no result of the function. None where there is no module of nnx.
    """
    nnx = sys.modules.get("flax.nnx")
    if nnx is None or _Cloner(nnx).held(fn) is fn:
        return None

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _Cloner(nnx).held(fn)(*args, **kwargs)

    return call


@contextlib.contextmanager
def unharmed(fn: Callable[..., Any]) -> Iterator[None]:
    """A block after which the nnx modules of a function are as they were, where it fails.

    A transformation of nnx empties a module before it writes back what it cannot write.
    """
    nnx = sys.modules.get("flax.nnx")
    keeper = _Keeper(nnx) if nnx is not None else None
    if keeper is not None:
        with contextlib.suppress(NoticeableError):
            keeper.held(fn)
    try:
        yield
    except BaseException:
        for module, attributes in keeper.kept if keeper is not None else ():
            vars(module).clear()
            vars(module).update(attributes)
        raise


class _Copier:
    def __init__(self, nnx: Any, equinox: Any = None) -> None:
        self.modules = Modules()
        libraries = [library for library in (nnx, equinox) if library is not None]
        self._bases: tuple[type, ...] = tuple(library.Module for library in libraries)
        self._containers = tuple(
            kind for kind in (getattr(nnx, name, None) for name in ("List", "Dict")) if kind
        )
        #: What was met before: what became of it, by identity, and itself.
        self._known: dict[int, tuple[Any, Any]] = {}
        self._classes: dict[type, None] = {}
        self._values = 0

    def held(self, held: Any) -> Any:
        """What stands in place of something that a function holds: itself, or one with copies."""
        if id(held) in self._known and not self._is_module(held):
            return self._known[id(held)][1]
        if self._is_module(held) or type(held) in (list, tuple, dict):
            return self._value(held, None, "")
        if type(held) not in (types.MethodType, functools.partial, types.FunctionType):
            return held
        # A function that is met again while it is copied is itself there.
        self._known[id(held)] = (held, held)
        if isinstance(held, types.MethodType):
            copied = self._method(held)
        elif isinstance(held, types.FunctionType):
            copied = self._function(held)
        else:
            copied = self._partial(held)
        self._known[id(held)] = (held, copied)
        return copied

    def _is_module(self, held: Any) -> bool:
        """Whether something is a module; what equinox wraps functions in is one for itself only."""
        home = type(held).__module__
        is_wrapper = home.startswith("equinox.") and not home.startswith("equinox.nn.")
        return isinstance(held, self._bases) and not is_wrapper

    def _method(self, method: types.MethodType) -> Any:
        owner = self.held(method.__self__)
        if owner is method.__self__:
            return method
        named = getattr(owner, method.__name__, None)
        is_it = isinstance(named, types.MethodType) and named.__self__ is owner
        return named if is_it else types.MethodType(method.__func__, owner)

    def _partial(self, partial: "functools.partial[Any]") -> Any:
        function = self.held(partial.func)
        arguments = [self.held(argument) for argument in partial.args]
        keywords = {name: self.held(value) for name, value in partial.keywords.items()}
        before = [partial.func, *partial.args, *partial.keywords.values()]
        if _same([function, *arguments, *keywords.values()], before):
            return partial
        return functools.partial(function, *arguments, **keywords)

    def _function(self, function: types.FunctionType) -> types.FunctionType:
        cells = function.__closure__ or ()
        closure = tuple(self._cell(cell) for cell in cells)
        defaults = tuple(self.held(value) for value in function.__defaults__ or ())
        keywords = {k: self.held(value) for k, value in (function.__kwdefaults__ or {}).items()}
        changed = self._globals(function)
        before = [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        if _same([*closure, *defaults, *keywords.values()], before) and not changed:
            return function
        namespace = {**function.__globals__, **changed} if changed else function.__globals__
        copied = types.FunctionType(
            function.__code__, namespace, function.__name__, defaults, closure
        )
        copied.__kwdefaults__ = keywords
        copied.__qualname__ = function.__qualname__
        copied.__module__ = function.__module__
        copied.__doc__ = function.__doc__
        copied.__dict__.update(function.__dict__)
        return copied

    def _cell(self, cell: types.CellType) -> types.CellType:
        try:
            contents = cell.cell_contents
        except ValueError:
            return cell
        copied = self.held(contents)
        return cell if copied is contents else types.CellType(copied)

    def _globals(self, function: types.FunctionType) -> dict[str, Any]:
        """The globals that the code names and that have become others."""
        code = function.__code__
        if is_of_library(code.co_filename):
            return {}
        namespace = function.__globals__
        named = {name for inner in _codes(code) for name in inner.co_names if name in namespace}
        copied = {name: self.held(namespace[name]) for name in sorted(named)}
        changed = {name: value for name, value in copied.items() if value is not namespace[name]}
        if changed and any(_writes_globals(inner) for inner in _codes(code)):
            raise NoticeableError("the function writes globals")
        return changed

    def _value(self, value: Any, holder: Place, name: str) -> Any:
        """What stands in place of a module, or of a container of some; the rest is itself."""
        self._values += 1
        if self._values > _MOST_VALUES:
            raise NoticeableError("there is too much to look through")
        if isinstance(value, self._containers):
            attributes = self._attributes(value, holder, name)
            return value if attributes is None else _with_attributes(type(value), attributes)
        if self._is_module(value):
            copied = self._copy(value)
            self.modules.hold(copied, holder, type(value).__name__ if holder is None else name)
            return copied
        inside = f"{name}." if name else ""
        if type(value) is dict:
            if any(self._is_module(key) for key in value):
                raise NoticeableError("a module is a key")
            copies = {k: self._value(v, holder, f"{inside}{k}") for k, v in value.items()}
            return value if _same(copies.values(), value.values()) else copies
        if type(value) in (list, tuple) or (isinstance(value, tuple) and hasattr(value, "_fields")):
            names = getattr(value, "_fields", range(len(value)))
            parts = [
                self._value(v, holder, f"{inside}{k}") for k, v in zip(names, value, strict=True)
            ]
            if _same(parts, value):
                return value
            return type(value)(parts) if type(value) in (list, tuple) else type(value)(*parts)
        return value

    def _copy(self, module: Any) -> Any:
        if id(module) in self._known:
            return self._known[id(module)][1]
        kind: type = type(module)
        self._classes[kind] = None
        base = next(base for base in self._bases if isinstance(module, base))
        copied: Any = object.__new__(named_class(kind, base))
        self._known[id(module)] = (module, copied)
        self.modules.add(copied)
        attributes = self._attributes(module, id(copied), "")
        vars(copied).update(vars(module) if attributes is None else attributes)
        return copied

    def _attributes(self, held: Any, holder: Place, name: str) -> dict[str, Any] | None:
        """The attributes of a module or of a container of nnx; none where all are the same."""
        before = vars(held)
        inside = f"{name}." if name else ""
        after = {key: self._value(value, holder, f"{inside}{key}") for key, value in before.items()}
        for key, value in before.items():
            # What nnx notes of attributes is each object's own.
            if key.startswith(("_pytree__", "_object__")) and type(value) is dict:
                after[key] = dict(value)
        return None if _same(after.values(), before.values()) else after

    def check(self, fn: Callable[..., Any]) -> None:
        """Refuse where code of the user, as far as it can be seen from here, asks for classes."""
        waiting: list[Any] = [fn]
        for kind in self._classes:
            for known in kind.__mro__:
                methods = vars(known).items()
                waiting += [method for name, method in methods if name != "__init__"]
        seen: set[int] = set()
        while waiting and len(seen) < _MOST_FUNCTIONS:
            held = waiting.pop()
            held = getattr(held, "__wrapped__", None) or getattr(held, "__func__", held)
            held = held.func if isinstance(held, functools.partial) else held
            if not isinstance(held, types.FunctionType) or id(held) in seen:
                continue
            seen.add(id(held))
            if is_of_library(held.__code__.co_filename):
                continue
            if any(_asks_for_classes(code) for code in _codes(held.__code__)):
                raise NoticeableError(f"{held.__qualname__} asks for a class")
            waiting += [value for _, value in variables(held)]


class _Cloner(_Copier):
    """Puts a clone, as nnx makes it, in place of each module that the function holds."""

    def __init__(self, nnx: Any) -> None:
        super().__init__(nnx)
        self._clone = nnx.clone

    def _copy(self, module: Any) -> Any:
        if id(module) not in self._known:
            cloned = self._clone(module)
            self.modules.add(cloned)
            self._known[id(module)] = (module, cloned)
        return self._known[id(module)][1]


class _Keeper(_Copier):
    """Notes what each module and container of nnx holds, and leaves all as it is."""

    def __init__(self, nnx: Any) -> None:
        super().__init__(nnx)
        self.kept: list[tuple[Any, dict[str, Any]]] = []

    def _copy(self, module: Any) -> Any:
        if id(module) not in self._known:
            self._known[id(module)] = (module, module)
            self.modules.add(module)
            self._attributes(module, id(module), "")
        return module

    def _attributes(self, held: Any, holder: Place, name: str) -> None:
        self.kept.append((held, dict(vars(held))))
        super()._attributes(held, holder, name)


def _with_attributes(kind: type, attributes: dict[str, Any]) -> Any:
    made: Any = object.__new__(kind)
    vars(made).update(attributes)
    return made


def _same(after: Any, before: Any) -> bool:
    return all(one is other for one, other in zip(after, before, strict=True))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Some code, and all code inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _asks_for_classes(code: types.CodeType) -> bool:
    if not (_TELLING_FUNCTIONS | _TELLING_ATTRIBUTES) & set(code.co_names):
        return False
    return any(
        step.argval in (_TELLING_FUNCTIONS if step.opname == "LOAD_GLOBAL" else _TELLING_ATTRIBUTES)
        for step in dis.Bytecode(code)
        if isinstance(step.argval, str)
    )


def _writes_globals(code: types.CodeType) -> bool:
    return any(step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") for step in dis.Bytecode(code))
