"""Module paths in the names of nodes, for nnx and equinox, whose calls leave none in JAX's stack.

What is traced is a copy of the module tree. Each copy is of a class of the same name below the
module's own, whose methods run the original ones in `jax.named_scope`; its variables are the very
same objects. The user's objects and classes stay as they are.
"""

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jax

Place: TypeAlias = int | None
"""A copied module by its identity, or what is outside of all modules."""


@dataclass
class Modules:
    """Which copied module is held by which, and under what name."""

    holders: dict[int, list[tuple[Place, str]]] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)
    chains: dict[tuple[Place, int], list[str] | None] = field(default_factory=dict)

    def add(self, module: Any) -> None:
        self.holders[id(module)] = []
        self.kept.append(module)

    def hold(self, module: Any, holder: Place, name: str) -> None:
        entry = (holder, name)
        if entry not in self.holders[id(module)]:
            self.holders[id(module)].append(entry)

    def chain(self, start: Place, module: int) -> list[str] | None:
        """The names that lead from one module to another by the shortest way.

        None where there is no way, or more than one of that length.
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


@dataclass(frozen=True)
class _Running:
    """The module whose method runs; nothing is known below one whose path is not."""

    modules: Modules
    place: Place = None
    is_known: bool = True


_running: ContextVar[_Running | None] = ContextVar("jax2onnx_running_module", default=None)


@contextlib.contextmanager
def naming(modules: Modules) -> Iterator[None]:
    """A block in which calls of the copies are named."""
    token = _running.set(_Running(modules))
    try:
        yield
    finally:
        _running.reset(token)


@contextlib.contextmanager
def _named(module: Any) -> Iterator[None]:
    """The block in which a method of a copied module runs."""
    running = _running.get()
    place = id(module)
    if running is None or place == running.place or place not in running.modules.holders:
        yield
        return
    chain = running.modules.chain(running.place, place) if running.is_known else None
    token = _running.set(_Running(running.modules, place, chain is not None))
    try:
        with contextlib.ExitStack() as scopes:
            for name in chain or ():
                scopes.enter_context(jax.named_scope(name))
            yield
    finally:
        _running.reset(token)


@functools.cache
def named_class(kind: type, base: type) -> type:
    """A class below `kind` whose calls are named; `base` is the class of all modules.

    It is made once, because JAX and nnx keep every class of modules for good.
    """
    definer = next(known for known in kind.__mro__ if "__init_subclass__" in vars(known))
    for maker in (definer, type(kind)):
        if maker.__module__.partition(".")[0] not in ("flax", "equinox", "builtins"):
            raise TypeError(f"{maker} may do more than to make a class")
    own = (known for known in kind.__mro__ if known not in base.__mro__)
    names = {name for known in own for name in vars(known) if not name.startswith("_")}
    found = {name: inspect.getattr_static(kind, name) for name in names}
    found["__call__"] = inspect.getattr_static(kind, "__call__", None)
    methods: dict[str, Any] = {
        name: _named_method(method)
        for name, method in found.items()
        if isinstance(method, types.FunctionType)
    }
    about = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    options = {} if getattr(kind, "_pytree__is_pytree", True) else {"pytree": False}
    made: type = type(kind)(kind.__name__, (kind,), {**methods, **about}, **options)
    return made


def _named_method(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def named(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _named(self):
            return method(self, *args, **kwargs)

    return named
