"""Put the paths of nnx and equinox modules, which JAX does not record, into its name stack.

JAX traces the user's own objects. Meanwhile, Python reports the calls of their methods: a call
opens a `jax.named_scope` with the path of the object, and the scope closes when the call returns or
fails. `sys.monitoring` reports the calls. Python 3.11 does not have it; there, Python reports them
to a profile function of the core.
"""

import contextlib
import inspect
import sys
import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import jax

from .. import _core
from .modules import Modules, Place

Methods: TypeAlias = dict[int, list[types.FunctionType]]
"""Functions by the identity of their code, which decorated functions may share."""

#: The reader in the core uses the same separator.
_SEPARATOR: Final = "\x1f"
_MAX_WRAPPERS: Final = 100
_SUSPENDS: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@contextlib.contextmanager
def naming(modules: Modules) -> Iterator[None]:
    """Tell JAX the paths of the modules whose methods run in this thread, inside the block.

    If another tool uses the mechanism that reports calls, the modules have no names.
    """
    namer = _Namer(modules)
    with _profiled(namer) if _monitoring is None else _monitored(namer):
        try:
            yield
        finally:
            namer.close()


@dataclass(frozen=True)
class _Running:
    """A call of a method, and the scopes that it opened."""

    frame: types.FrameType | None
    place: Place
    #: If the path of a module is unknown, the paths inside it are too.
    is_known: bool
    scopes: list[Any] = field(default_factory=list)


class _Namer:
    """Opens and closes the scopes of modules, in the order of their calls."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        kinds = {type(module) for module in modules.kept.values() if id(module) in modules.holders}
        self._methods = {kind: methods_of(kind, modules.bases) for kind in kinds}
        self._running = [_Running(None, None, is_known=True)]

    @property
    def codes(self) -> list[types.CodeType]:
        """Return the code of all methods."""
        functions = (each for methods in self._methods.values() for each in methods.values())
        codes = {
            id(function.__code__): function.__code__ for each in functions for function in each
        }
        return list(codes.values())

    def enter(self, frame: types.FrameType) -> None:
        """Open the scopes of a module if the frame is a call of one of its methods."""
        module = _first_argument(frame)
        place, running = id(module), self._running[-1]
        if place not in self._modules.holders or place == running.place:
            return
        functions = self._methods[type(module)].get(id(frame.f_code), ())
        if not any(_is_call_of(frame, function) for function in functions):
            return
        chain = self._modules.chain(running.place, place) if running.is_known else None
        entered = _Running(frame, place, chain is not None)
        self._running.append(entered)
        for name in _scope_names(running.place, chain or [], place):
            scope: Any = jax.named_scope(name)
            entered.scopes.append(scope)
            scope.__enter__()

    def leave(self, frame: types.FrameType) -> None:
        """Close the scopes that the frame opened, and those inside that are still open."""
        if any(running.frame is frame for running in self._running):
            while self._running[-1].frame is not frame:
                self._close_last()
            self._close_last()

    def close(self) -> None:
        """Close every scope that is still open."""
        while len(self._running) > 1:
            self._close_last()

    def _close_last(self) -> None:
        for scope in reversed(self._running[-1].scopes):
            # If an interrupt prevented a scope from opening, there is nothing to restore.
            with contextlib.suppress(AttributeError):
                scope.__exit__(None, None, None)
        self._running.pop()


def _scope_names(start: Place, chain: list[str], module: int) -> Iterator[str]:
    """Return the names on the path from one module to another, each with the two modules around it.

    JAX may reuse a trace in another module or another export. The core drops the names there,
    because they are only true inside the current module.
    """
    places = [str(start or 0), *(f"{module}-{n}" for n in range(1, len(chain))), str(module)]
    for name, caller, called in zip(chain, places, places[1:], strict=False):
        yield _SEPARATOR.join((name, caller, called))


def _first_argument(frame: types.FrameType) -> Any:
    code = frame.f_code
    if code.co_argcount:
        return frame.f_locals.get(code.co_varnames[0])
    if code.co_flags & inspect.CO_VARARGS:
        arguments = frame.f_locals.get(code.co_varnames[code.co_kwonlyargcount])
        return arguments[0] if arguments else None
    return None


def _is_call_of(frame: types.FrameType, function: types.FunctionType) -> bool:
    """Return whether a frame that runs the code of a function also has its free variables."""
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    known = frame.f_locals if names else {}
    try:
        return all(known[n] is cell.cell_contents for n, cell in zip(names, cells, strict=True))
    except (KeyError, ValueError):
        return False


def methods_of(kind: type, bases: tuple[type, ...]) -> Methods:
    """Return the public methods of a module class, without those of the libraries' base classes.

    The result includes functions that decorators wrap. It excludes methods that suspend, such as
    generators, because they run in the scope of the caller that resumes them.
    """
    common = {known for base in bases for known in base.__mro__}
    found: Methods = {}
    for known in kind.__mro__:
        for name, value in vars(known).items() if known not in common else ():
            if name == "__call__" or not name.startswith("_"):
                for function in _functions(value):
                    found.setdefault(id(function.__code__), []).append(function)
    return found


def _functions(value: Any) -> Iterator[types.FunctionType]:
    """Yield the function behind an attribute of a class, and the functions that it wraps."""
    if isinstance(value, staticmethod | classmethod):
        return
    if isinstance(value, property):
        value = value.fget
    for _ in range(_MAX_WRAPPERS):
        if isinstance(value, types.FunctionType) and not value.__code__.co_flags & _SUSPENDS:
            yield value
        try:
            value = object.__getattribute__(value, "__wrapped__")
        except AttributeError:
            return


@contextlib.contextmanager
def _profiled(namer: _Namer) -> Iterator[None]:
    """Report calls to the namer with the profile function of this thread, inside the block."""
    before: Any = sys.getprofile()
    if before is not None and not isinstance(before, _core.Calls):
        yield
        return
    calls = _core.Calls(namer.codes, namer.enter, namer.leave)
    _set_profile(calls)
    try:
        yield
    finally:
        # The traced function may have started another profiler. Keep it.
        after: Any = sys.getprofile()
        if after is calls:
            _set_profile(before)


def _set_profile(calls: "_core.Calls | None") -> None:
    import ctypes

    if calls is None:
        sys.setprofile(None)
    else:
        # Not part of the stable ABI that the core is compiled for.
        set_profile = ctypes.pythonapi.PyEval_SetProfile
        set_profile(ctypes.c_void_p(calls.address), ctypes.py_object(calls))


_monitoring: Any = getattr(sys, "monitoring", None)
_TOOLS: Final = (4, 3, 5, 2)
"""The ids of monitoring tools, without those of debuggers and coverage."""


class _Monitor:
    """Reports the calls of methods to the namers of the threads that export."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tool: int | None = None
        #: By thread; the function that one export traces may run another export.
        self._namers: dict[int, list[_Namer]] = {}

    def start(self, namer: _Namer) -> None:
        with self._lock:
            self._namers.setdefault(threading.get_ident(), []).append(namer)
            if self._tool is None:
                self._tool = self._take_tool()
            self._watch(namer)

    def stop(self, namer: _Namer) -> None:
        with self._lock:
            namers = self._namers[threading.get_ident()]
            namers.remove(namer)
            if not namers:
                del self._namers[threading.get_ident()]
            self._unwatch(namer)
            if not self._namers and self._tool is not None:
                _monitoring.set_events(self._tool, 0)
                _monitoring.free_tool_id(self._tool)
                self._tool = None

    def _take_tool(self) -> int | None:
        events = _monitoring.events
        for tool in _TOOLS:
            try:
                _monitoring.use_tool_id(tool, "jax2onnx")
            except ValueError:
                continue
            _monitoring.register_callback(tool, events.PY_START, self._started)
            _monitoring.register_callback(tool, events.PY_RETURN, self._ended)
            _monitoring.register_callback(tool, events.PY_UNWIND, self._ended)
            # Python reports exceptions for all code, or for none.
            _monitoring.set_events(tool, events.PY_UNWIND)
            return tool
        return None

    def _watch(self, namer: _Namer) -> None:
        events = _monitoring.events.PY_START | _monitoring.events.PY_RETURN
        for code in namer.codes if self._tool is not None else ():
            _monitoring.set_local_events(self._tool, code, events)

    def _unwatch(self, namer: _Namer) -> None:
        others = [other for namers in self._namers.values() for other in namers]
        watched = {id(code) for other in others for code in other.codes}
        for code in namer.codes if self._tool is not None else ():
            if id(code) not in watched:
                _monitoring.set_local_events(self._tool, code, 0)

    def _started(self, _code: types.CodeType, _offset: int) -> None:
        namers = self._namers.get(threading.get_ident())
        if namers:
            namers[-1].enter(sys._getframe(1))

    def _ended(self, _code: types.CodeType, _offset: int, _result: Any) -> None:
        namers = self._namers.get(threading.get_ident())
        if namers:
            namers[-1].leave(sys._getframe(1))


_monitor = _Monitor()


@contextlib.contextmanager
def _monitored(namer: _Namer) -> Iterator[None]:
    """Report calls to the namer with `sys.monitoring`, inside the block."""
    try:
        _monitor.start(namer)
        yield
    finally:
        _monitor.stop(namer)
