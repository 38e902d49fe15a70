"""Find the values that a function writes to the state of its model, while JAX traces it.

Linen, haiku and Keras report reads and writes to those who ask: with a context manager of the
library, in one thread, and without replacing anything. A value that linen or haiku writes gets a
name in the jaxpr, and whoever reads the state gets it without the name. So if no output needs the
named value, the model drops the new state, and `training.py` warns about it.

Keras collects what a function writes, and leaves its variables as they are. Equinox reports
nothing, but it invalidates a state that a function has changed. jax2onnx makes it valid again.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

import jax
from jax import tree_util
from jax.ad_checkpoint import checkpoint_name

from .modules import Modules
from .weights import attributes

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


class Dropped(NamedTuple):
    """State that a function writes and does not return."""

    #: How to return it.
    example: str
    path: str


def written(name: Any) -> Dropped | None:
    """Return what the name of a value says about it; `None` for the names of others."""
    parts = name.split(_SEPARATOR) if isinstance(name, str) else ()
    return Dropped(parts[1], parts[2]) if len(parts) == 3 and parts[0] == _WRITTEN else None


class Writes:
    """The values that a function writes to the state of its model while JAX traces it."""

    def __init__(self, modules: Modules | None) -> None:
        self._libraries = [_Linen(), _Haiku()]
        self._keras = _keras_scope()
        #: The states of equinox that the function holds, and their attributes.
        states = modules.states.values() if modules is not None else ()
        self._states = [(state, attributes(state)) for state in states]
        self._is_state_type = getattr(sys.modules.get("equinox.nn"), "State", ())
        #: What the function writes and does not return.
        self.dropped: list[Dropped] = []

    def managers(self) -> list[AbstractContextManager[Any]]:
        """Return the context managers in which the libraries report what they write."""
        keras = [self._keras] if self._keras is not None else []
        return [*keras, *(each for library in self._libraries for each in library.managers())]

    def restore(self) -> None:
        """Make the states of equinox valid again. Forget what this thread writes from now on."""
        for library in self._libraries:
            library.is_open = False
        for state, named in self._states:
            for name, value in named.items():
                object.__setattr__(state, name, value)

    def watching(self, fn: Callable[..., Any], inputs: Any) -> Callable[..., Any]:
        """Wrap a function so that its results are compared with what it writes, if necessary."""
        if self._keras is None and not self._states and not self._held_states(inputs):
            return fn

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = [*self._held_states((args, kwargs)), *(state for state, _ in self._states)]
            before = [(state, attributes(state)) for state in given]
            result = fn(*args, **kwargs)
            self.dropped = [*self._dropped_by_equinox(before, result)]
            self.dropped += self._dropped_by_keras(result)
            return result

        return call

    def _held_states(self, tree: Any) -> list[Any]:
        def is_state(value: Any) -> bool:
            return bool(self._is_state_type) and isinstance(value, self._is_state_type)

        return [leaf for leaf in tree_util.tree_leaves(tree, is_leaf=is_state) if is_state(leaf)]

    def _dropped_by_equinox(self, before: list[Any], result: Any) -> Iterator[Dropped]:
        """Yield the state if the function changed one, and returns none."""
        changed = (state for state, named in before if not _are_same(attributes(state), named))
        if any(True for _ in changed) and not self._held_states(result):
            yield Dropped(EQUINOX, "state")

    def _dropped_by_keras(self, result: Any) -> Iterator[Dropped]:
        returned = {id(leaf) for leaf in tree_util.tree_leaves(result)}
        for variable, value in self._keras.updates.values() if self._keras is not None else ():
            # The state of a random stream is not a value that anyone misses.
            is_seed = str(variable.path).endswith(_SEED)
            if isinstance(value, jax.core.Tracer) and id(value) not in returned and not is_seed:
                yield Dropped(KERAS, str(variable.path))


def _are_same(these: Mapping[str, Any], those: Mapping[str, Any]) -> bool:
    return all(value is those.get(name) for name, value in these.items())


def _keras_scope() -> Any:
    """Return a block in which the variables of Keras keep their values; `None` without Keras.

    `updates` of the block are the variables that were written inside it, with their values.
    """
    keras: Any = sys.modules.get("keras")
    if getattr(getattr(keras, "config", None), "backend", str)() != "jax":
        return None

    return _recording(keras.StatelessScope)()


@functools.cache
def _recording(base: Any) -> Any:
    """Return a class of blocks that know the variables, and not only their identities."""

    class Scope(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.updates: dict[int, tuple[Any, Any]] = {}

        def add_update(self, update: tuple[Any, Any]) -> None:
            self.updates[id(update[0])] = update
            super().add_update(update)

    return Scope


class _Names:
    """The names of values that a function writes with one library."""

    def __init__(self) -> None:
        #: Whether the export still runs; an interrupt may keep a library reporting.
        self.is_open = True
        #: By the identity of a named value, the value and what it was before.
        self._named: dict[int, tuple[Any, Any]] = {}

    def managers(self) -> list[AbstractContextManager[Any]]:
        raise NotImplementedError

    def named(self, value: Any, example: str, path: str) -> Any:
        """Name the values of a trace that are written to a path."""
        name = _SEPARATOR.join((_WRITTEN, example, path))

        def mark(leaf: Any) -> Any:
            if not isinstance(leaf, jax.core.Tracer):
                return leaf
            named = _named(leaf, name)
            self._named[id(named)] = (named, leaf)
            return named

        return tree_util.tree_map(mark, value)

    def unnamed(self, value: Any) -> Any:
        """Return the values as they were before they got names."""
        if not self._named:
            return value
        return tree_util.tree_map(lambda leaf: self._named.get(id(leaf), (leaf, leaf))[1], value)


class _Linen(_Names):
    """Names the values that a method of a linen module leaves in the variables of the module."""

    def __init__(self) -> None:
        super().__init__()
        #: The scopes whose methods run.
        self._running: set[int] = set()

    def managers(self) -> list[AbstractContextManager[Any]]:
        intercept = getattr(sys.modules.get("flax.linen"), "intercept_methods", None)
        return [intercept(self._call)] if intercept is not None else []

    def _call(self, method: Any, args: Any, kwargs: Any, context: Any) -> Any:
        module = context.module
        scope = module.scope
        if not self.is_open or scope is None or id(scope) in self._running:
            return method(*args, **kwargs)
        before = {(col, name): self.unnamed(value) for col, name, value in self._variables(module)}
        self._put(module, before)
        self._running.add(id(scope))
        try:
            result = method(*args, **kwargs)
        finally:
            self._running.discard(id(scope))
        # The model does not keep the state that `sow` creates.
        changed = [
            (col, name, value)
            for col, name, value in self._variables(module)
            if (col, name) in before and value is not before[col, name]
        ]
        paths = {col: (col, *map(str, scope.path)) for col, _, _ in changed}
        self._put(
            module,
            {
                (col, name): self.named(value, LINEN, ".".join((*paths[col], name)))
                for col, name, value in changed
            },
        )
        return result

    def _variables(self, module: Any) -> list[tuple[str, str, Any]]:
        """Return the variables of a module that it may write, without those inside it."""
        if module.is_initializing():
            return []
        return [
            (col, name, value)
            for col, values in module.scope.mutable_variables().items()
            for name, value in values.items()
            if not isinstance(value, Mapping)
        ]

    def _put(self, module: Any, variables: Mapping[tuple[str, str], Any]) -> None:
        for (col, name), value in variables.items():
            if module.get_variable(col, name) is not value:
                module.put_variable(col, name, value)


class _Haiku(_Names):
    """Names the values that `hk.set_state` is given, and `hk.get_state` returns them without."""

    def __init__(self) -> None:
        super().__init__()
        #: The value that was last read, by its path.
        self._read: dict[str, Any] = {}

    def managers(self) -> list[AbstractContextManager[Any]]:
        # `hk.custom_setter` can only be called inside a transformed function.
        base: Any = sys.modules.get("haiku._src.base")
        setters = getattr(base, "state_setter_stack", None)
        getters = getattr(base, "state_getter_stack", None)
        if not callable(setters) or not callable(getters):
            return []
        return [setters(self._set), getters(self._get)]

    def _set(self, next_setter: Any, value: Any, context: Any) -> Any:
        value = next_setter(value)
        path = context.full_name
        is_running_init = sys.modules["haiku"].running_init()
        if not self.is_open or is_running_init or value is self._read.get(path):
            return value
        return self.named(value, HAIKU, ".".join(path.rsplit("/", 1)))

    def _get(self, next_getter: Any, value: Any, context: Any) -> Any:
        if self.is_open:
            value = self.unnamed(value)
            self._read[context.full_name] = value
        return next_getter(value)
