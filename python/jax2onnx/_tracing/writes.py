"""Mark the values that a function writes to the state of its model, while JAX traces it.

A value that is written gets a name in the jaxpr, and whoever reads the state gets it without the
name. So if no output needs the named value, the model drops the new state, and `training.py` warns
about it.
"""

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import jax
from jax import tree_util
from jax.ad_checkpoint import checkpoint_name

from .modules import Modules

LINEN: Final = "y, updates = model.apply(variables, x, mutable={collections!r})"
EQUINOX: Final = "y, state = model(x, state)"
KERAS: Final = "y, state = model.stateless_call(weights, state, x, training=True)"
HAIKU: Final = "y, state = model.apply(params, state, rng, x)"
"""How a function returns what it writes."""

#: Between the parts of the name of a value: that it is written, how to return it, its path.
_SEPARATOR: Final = "\x1f"
_WRITTEN: Final = "jax2onnx.written"
#: The end of the path of the variable of a random stream of Keras.
_SEED: Final = "seed_generator_state"

_named: Any = checkpoint_name


def written(name: Any) -> tuple[str, str] | None:
    """Return how to return a value that is written, and its path; `None` for other names."""
    parts = name.split(_SEPARATOR) if isinstance(name, str) else ()
    return (parts[1], parts[2]) if len(parts) == 3 and parts[0] == _WRITTEN else None


@contextlib.contextmanager
def marked_writes(modules: Modules | None) -> Iterator[None]:
    """Mark what is written to the state of linen, equinox, haiku and Keras models in this thread.

    The end of the block restores the variables of Keras, which would keep values of the trace.
    """
    _writers.enter(modules)
    try:
        yield
    finally:
        _writers.leave()


class _Writers:
    """Replaces the methods that read and write state, as long as one export wants it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By thread, the modules of each export; a function that is traced may run an export.
        self._exports: dict[int, list[_Export]] = {}
        self._replaced: list[tuple[type, str, Any]] = []

    def enter(self, modules: Modules | None) -> None:
        with self._lock:
            if not self._exports:
                self._replace()
            self._exports.setdefault(threading.get_ident(), []).append(_Export(modules))

    def leave(self) -> None:
        with self._lock:
            exports = self._exports[threading.get_ident()]
            exports.pop().restore()
            if not exports:
                del self._exports[threading.get_ident()]
            if not self._exports:
                for kind, name, method in self._replaced:
                    setattr(kind, name, method)
                self._replaced.clear()

    def _replace(self) -> None:
        wrappers: tuple[tuple[str, str, str, Callable[[Any], Any]], ...] = (
            ("flax.core.scope", "Scope", "put_variable", self._writing_linen),
            ("flax.core.scope", "Scope", "get_variable", self._reading),
            ("equinox.nn", "State", "set", self._writing_equinox),
            ("equinox.nn", "State", "get", self._reading),
            ("haiku._src.base", "HaikuContext", "collect_state", self._collecting_haiku),
            ("keras.src.backend.common.variables", "Variable", "assign", self._writing_keras),
        )
        for module, class_name, name, wrapper in wrappers:
            kind = getattr(sys.modules.get(module), class_name, None)
            method = getattr(kind, name, None)
            if isinstance(kind, type) and method is not None:
                self._replaced.append((kind, name, method))
                setattr(kind, name, wrapper(method))

    def _current(self) -> "_Export | None":
        exports = self._exports.get(threading.get_ident())
        return exports[-1] if exports else None

    def _writing_linen(self, put_variable: Any) -> Any:
        @functools.wraps(put_variable)
        def put(scope: Any, col: str, name: str, value: Any) -> Any:
            export = self._current()
            # What `init` and `sow` create is not state that the model keeps.
            is_new = scope.get_flag("initializing", False) or not scope.has_variable(col, name)
            if export is not None and not is_new:
                value = export.marked(value, LINEN, ".".join((col, *map(str, scope.path), name)))
            return put_variable(scope, col, name, value)

        return put

    def _writing_equinox(self, set_value: Any) -> Any:
        @functools.wraps(set_value)
        def write(state: Any, item: Any, value: Any) -> Any:
            export = self._current()
            if export is not None:
                value = export.marked(value, EQUINOX, export.path(item))
            return set_value(state, item, value)

        return write

    def _collecting_haiku(self, collect_state: Any) -> Any:
        @functools.wraps(collect_state)
        def collect(context: Any) -> Any:
            state, export = collect_state(context), self._current()
            if export is None:
                return state
            before = context.collect_initial_state()
            for module, values in state.items():
                for name, value in values.items():
                    if value is not before[module][name]:
                        values[name] = export.marked(value, HAIKU, f"{module}.{name}")
            return state

        return collect

    def _writing_keras(self, assign: Any) -> Any:
        @functools.wraps(assign)
        def write(variable: Any, value: Any) -> Any:
            export = self._current()
            if export is not None:
                export.keep(variable)
                # The state of a random stream is not a value that anyone misses.
                if not str(variable.path).endswith(_SEED):
                    value = export.marked(value, KERAS, str(variable.path))
            return assign(variable, value)

        return write

    def _reading(self, get_value: Any) -> Any:
        @functools.wraps(get_value)
        def read(*args: Any, **kwargs: Any) -> Any:
            value, export = get_value(*args, **kwargs), self._current()
            return value if export is None else export.unmarked(value)

        return read


class _Export:
    """The values that one export marked."""

    def __init__(self, modules: Modules | None) -> None:
        self._modules = modules
        #: By the identity of a marked value, the value and what it was before.
        self._marked: dict[int, tuple[Any, Any]] = {}
        #: By identity, the variables of Keras that were written, and their values before.
        self._kept: dict[int, tuple[Any, Any]] = {}

    def keep(self, variable: Any) -> None:
        """Note the value of a Keras variable before the first write."""
        self._kept.setdefault(id(variable), (variable, variable._value))

    def restore(self) -> None:
        """Restore the values of Keras variables."""
        for variable, value in self._kept.values():
            variable._value = value

    def marked(self, value: Any, example: str, path: str) -> Any:
        """Name the values of a trace that are written to a path."""
        name = _SEPARATOR.join((_WRITTEN, example, path))

        def mark(leaf: Any) -> Any:
            if not isinstance(leaf, jax.core.Tracer):
                return leaf
            named = _named(leaf, name)
            self._marked[id(named)] = (named, leaf)
            return named

        return tree_util.tree_map(mark, value)

    def unmarked(self, value: Any) -> Any:
        """Return the values as they were before they got names."""
        if not self._marked:
            return value
        return tree_util.tree_map(lambda leaf: self._marked.get(id(leaf), (leaf, leaf))[1], value)

    def path(self, index: Any) -> str:
        """Return the path of the index of an equinox state in its model.

        JAX may have copied the index. Its marker is the same object in every copy.
        """
        modules = self._modules
        for place, kept in modules.kept.items() if modules is not None else ():
            if type(kept) is type(index) and kept.marker is index.marker and modules is not None:
                return ".".join((modules.chain(None, place) or [])[1:]) or "state"
        return "state"


_writers: Final = _Writers()
