"""Put the paths of nnx and equinox modules, which JAX does not record, into its name stack.

JAX traces the user's own objects. Meanwhile, Python reports the calls of their methods: a call
opens a `jax.named_scope` with the path of the object, and the scope closes when the call returns or
fails. `sys.monitoring` reports the calls. Python 3.11 does not have it; there, a function of the
core runs the frames, as PEP 523 provides.
"""

import contextlib
import functools
import inspect
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

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
    with _running(namer) if _monitoring is None else _monitored(namer):
        try:
            yield
        finally:
            namer.close()


class _Running(NamedTuple):
    """A call of a method, and the scopes that it opened."""

    #: Its frame, or another value that no other call has at the same time.
    call: object
    place: Place
    #: If the path of a module is unknown, the paths inside it are too.
    is_known: bool
    scopes: list[Any]


class _Namer:
    """Opens and closes the scopes of modules, in the order of their calls."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        kinds = {type(module) for module in modules.kept.values() if id(module) in modules.holders}
        self._methods = {kind: methods_of(kind, modules.bases) for kind in kinds}
        #: The modules that hold others.
        self._holding = {place for holders in modules.holders.values() for place, _ in holders}
        self._running = [_Running(None, None, is_known=True, scopes=[])]

    @property
    def codes(self) -> list[types.CodeType]:
        """Return the code of all methods."""
        functions = (each for methods in self._methods.values() for each in methods.values())
        codes = {
            id(function.__code__): function.__code__ for each in functions for function in each
        }
        return list(codes.values())

    def enter(
        self,
        call: object,
        module: Any,
        code: types.CodeType,
        is_of: Callable[[types.FunctionType], bool],
    ) -> bool:
        """Open the scopes of a module if the call is one of its methods.

        Returns whether no call inside this one opens a scope: the paths from this module lead to
        no other.
        """
        place, running = id(module), self._running[-1]
        if place not in self._modules.holders or place == running.place:
            return False
        if not any(map(is_of, self._methods[type(module)].get(id(code), ()))):
            return False
        chain = self._modules.chain(running.place, place) if running.is_known else None
        scopes: list[Any] = []
        self._running.append(_Running(call, place, chain is not None, scopes))
        for name in _scope_names(running.place, chain or [], place):
            scope: Any = jax.named_scope(name)
            scopes.append(scope)
            scope.__enter__()
        return place not in self._holding or chain is None

    def leave(self, call: object) -> None:
        """Close the scopes that the call opened, and those inside that are still open."""
        if self._running[-1].call != call:
            if all(running.call != call for running in self._running):
                return
            while self._running[-1].call != call:
                self._close_last()
        self._close_last()

    def close(self) -> None:
        """Close every scope that is still open."""
        while len(self._running) > 1:
            self._close_last()

    def _close_last(self) -> None:
        for scope in reversed(self._running[-1].scopes):
            try:
                scope.__exit__(None, None, None)
            except AttributeError:
                # An interrupt prevented the scope from opening: there is nothing to restore.
                continue
        self._running.pop()


def _scope_names(start: Place, chain: list[str], module: int) -> list[str]:
    """Return the names on the path from one module to another, each with the two modules around it.

    JAX may reuse a trace in another module or another export. The core drops the names there,
    because they are only true inside the current module.
    """
    places = [start or 0, *[f"{module}-{n}" for n in range(1, len(chain))], module]
    steps = zip(chain, places, places[1:], strict=False)
    return [f"{name}{_SEPARATOR}{caller}{_SEPARATOR}{called}" for name, caller, called in steps]


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
def _running(namer: _Namer) -> Iterator[None]:
    """Report calls to the namer with the function that runs frames, inside the block."""
    if sys.version_info[:2] != (3, 11) or sys.implementation.name != "cpython":
        yield
        return

    def enter(call: int, function: types.FunctionType, argument: Any) -> bool:
        return namer.enter(call, argument, function.__code__, lambda each: each is function)

    calls = _core.Calls(namer.codes, enter, namer.leave, _array_code())
    before = calls.start(*_frame_functions())
    try:
        yield
    finally:
        calls.stop(before)


@functools.cache
def _frame_functions() -> tuple[int, ...]:
    """Return the addresses of functions that are not part of the stable ABI of Python.

    The first one runs a frame. The others return and set the function that runs frames.
    """
    import ctypes

    api = ctypes.pythonapi
    functions = (
        api._PyEval_EvalFrameDefault,
        api._PyInterpreterState_GetEvalFrameFunc,
        api._PyInterpreterState_SetEvalFrameFunc,
    )
    return tuple(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)


@functools.cache
def _array_code() -> list[str]:
    """Return the folders of JAX's functions of arrays, which call only what they are given."""
    source = os.path.join(os.path.dirname(jax.__file__ or ""), "_src")
    return [os.path.join(source, folder, "") for folder in ("lax", "nn", "numpy")]


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
            frame = sys._getframe(1)
            argument = _first_argument(frame)
            namers[-1].enter(frame, argument, frame.f_code, functools.partial(_is_call_of, frame))

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
