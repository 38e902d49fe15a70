"""Put the paths of nnx and equinox modules, which JAX does not record, into its name stack.

JAX traces the user's own objects. Meanwhile, Python reports the calls of their methods: a call
opens a `jax.named_scope` with the path of the object, and the scope closes when the call returns or
fails. `sys.monitoring` reports the calls. Python 3.11 does not have it; there, `sys.setprofile`
reports all calls of the thread, which takes longer than the trace itself. So on Python 3.11 the
setting `module_scopes` is off by default.
"""

import functools
import inspect
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import jax

from .. import _core
from .modules import Modules, Place

_Result = TypeVar("_Result")

Methods: TypeAlias = dict[int, list[types.FunctionType]]
"""Functions by the identity of their code, which decorated functions may share."""

#: The reader in the core uses the same separator.
_SEPARATOR: Final = "\x1f"
_MAX_WRAPPERS: Final = 100
_SUSPENDS: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def naming(modules: Modules | None, body: Callable[[], _Result]) -> _Result:
    """Call `body`. Meanwhile, tell JAX the paths of the modules whose methods run in this thread.

    If another tool uses the mechanism that reports calls, the modules have no names.
    """
    if modules is None or not modules.holders:
        return body()
    namer = _Namer(modules)
    reporter: Any = _profiler if _monitoring is None else _monitor

    def run() -> _Result:
        reporter.start(namer)
        return body()

    def restore() -> None:
        reporter.stop(namer)
        namer.close()

    result: _Result = _core.restoring(run, restore)
    return result


class _Running(NamedTuple):
    """A call of a method, and the scopes that it opened."""

    frame: types.FrameType | None
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
        self._running = [_Running(None, None, is_known=True, scopes=[])]

    @property
    def codes(self) -> list[types.CodeType]:
        """Return the code of all methods."""
        functions = (each for methods in self._methods.values() for each in methods.values())
        codes = {
            id(function.__code__): function.__code__ for each in functions for function in each
        }
        return list(codes.values())

    def enter(self, frame: types.FrameType) -> None:
        """Open the scopes of a module if a frame that starts is a call of one of its methods."""
        module, code = _first_argument(frame), frame.f_code
        place, running = id(module), self._running[-1]
        if place not in self._modules.holders or place == running.place:
            return
        methods = self._methods[type(module)].get(id(code), ())
        if not any(_is_call_of(frame, method) for method in methods):
            return
        chain = self._modules.chain(running.place, place) if running.is_known else None
        scopes: list[Any] = []
        self._running.append(_Running(frame, place, chain is not None, scopes))
        for name in _scope_names(running.place, chain or [], place):
            scope: Any = jax.named_scope(name)
            scopes.append(scope)
            scope.__enter__()

    def leave(self, frame: types.FrameType) -> None:
        """Close the scopes that a call opened, and those inside that are still open."""
        if self._running[-1].frame is not frame:
            if all(running.frame is not frame for running in self._running):
                return
            while self._running[-1].frame is not frame:
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


class _Profiler:
    """Reports the calls of methods to a namer with `sys.setprofile`, which is about one thread."""

    def start(self, namer: _Namer) -> None:
        before = sys.getprofile()
        if before is None or isinstance(before, _Profile):
            sys.setprofile(_Profile(namer, before))

    def stop(self, namer: _Namer) -> None:
        """Stop the reports, unless the user's code has replaced them."""
        profile = sys.getprofile()
        if isinstance(profile, _Profile) and profile.namer is namer:
            sys.setprofile(profile.before)


class _Profile:
    """Reports the calls of methods to a namer."""

    def __init__(self, namer: _Namer, before: Any) -> None:
        self.namer = namer
        #: Reports to another namer: the function that one export traces may run another export.
        self.before = before
        self._codes = set(namer.codes)

    def __call__(self, frame: types.FrameType, event: str, _: Any) -> None:
        if frame.f_code in self._codes:
            if event == "call":
                self.namer.enter(frame)
            elif event == "return":
                self.namer.leave(frame)


_profiler: Final = _Profiler()

_monitoring: Any = getattr(sys, "monitoring", None)
_TOOLS: Final = (4, 3, 5, 2)
"""The ids of monitoring tools, without those of debuggers and coverage."""


_NAME: Final = "jax2onnx"


class _Monitor:
    """Reports the calls of methods to the namers of the threads that export.

    Signal handlers may interrupt `start` and `stop` anywhere, and `stop` may be called again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._tool: int | None = None
        #: By thread; the function that one export traces may run another export.
        self._namers: dict[int, list[_Namer]] = {}

    def start(self, namer: _Namer) -> None:
        self._forget_other_process()
        _core.inside([self._lock], functools.partial(self._start, namer))

    def stop(self, namer: _Namer) -> None:
        self._forget_other_process()
        _core.inside([self._lock], functools.partial(self._stop, namer))

    def _forget_other_process(self) -> None:
        """Forget the other threads in a copy of the process, which has only the current one."""
        if os.getpid() != self._process:
            mine = threading.get_ident()
            self._lock = threading.Lock()
            self._namers = {thread: it for thread, it in self._namers.items() if thread == mine}
            self._process = os.getpid()

    def _start(self, namer: _Namer) -> None:
        self._namers.setdefault(threading.get_ident(), []).append(namer)
        if not self._has_tool():
            self._take_tool()
        self._watch(namer)

    def _stop(self, namer: _Namer) -> None:
        namers = self._namers.get(threading.get_ident(), [])
        if namer in namers:
            namers.remove(namer)
        if not namers:
            self._namers.pop(threading.get_ident(), None)
        self._unwatch(namer)
        if not self._namers and self._has_tool():
            _monitoring.set_events(self._tool, 0)
            for event, _ in self._callbacks():
                _monitoring.register_callback(self._tool, event, None)
            _monitoring.free_tool_id(self._tool)
            self._tool = None

    def _callbacks(self) -> list[tuple[int, Any]]:
        events = _monitoring.events
        return [
            (events.PY_START, self._started),
            (events.PY_RETURN, self._ended),
            (events.PY_UNWIND, self._ended),
        ]

    def _has_tool(self) -> bool:
        return self._tool is not None and _monitoring.get_tool(self._tool) == _NAME

    def _take_tool(self) -> None:
        for tool in _TOOLS:
            if _monitoring.get_tool(tool) is None:
                # If an interrupt follows, `_stop` knows which tool to free.
                self._tool = tool
                _monitoring.use_tool_id(tool, _NAME)
                for event, callback in self._callbacks():
                    _monitoring.register_callback(tool, event, callback)
                # Python reports exceptions for all code, or for none.
                _monitoring.set_events(tool, _monitoring.events.PY_UNWIND)
                return

    def _watch(self, namer: _Namer) -> None:
        events = _monitoring.events.PY_START | _monitoring.events.PY_RETURN
        for code in namer.codes if self._has_tool() else ():
            _monitoring.set_local_events(self._tool, code, events)

    def _unwatch(self, namer: _Namer) -> None:
        others = [other for namers in self._namers.values() for other in namers]
        watched = {id(code) for other in others for code in other.codes}
        for code in namer.codes if self._has_tool() else ():
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


_monitor: Final = _Monitor()
