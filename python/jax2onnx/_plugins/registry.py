"""Find the plugins written in Python, and run them on equations."""

import sys
import traceback
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from .._errors import ConfigError
from .._native import imported
from .._words import quoted

if TYPE_CHECKING:
    from .recorder import PluginContext, PluginValue

Results: TypeAlias = "PluginValue | tuple[PluginValue, ...] | list[PluginValue] | Any"


class Plugin(Protocol):
    """Any object with a method `lower`."""

    def lower(self, ctx: "PluginContext", eqn: Any) -> Results:
        """Build the results of an equation, or return `NotImplemented` to leave it to others."""
        ...


_Class = TypeVar("_Class", bound=type)

_GROUP: Final = "jax2onnx.plugins"

#: The plugins of each primitive; the last one comes first.
REGISTERED: dict[str, list[Plugin]] = {}

_loaded = False


def plugin(primitive: Any) -> Callable[[_Class], _Class]:
    """Register a class that converts a JAX primitive to ONNX.

    jax2onnx creates an instance without arguments and calls its `lower(ctx, eqn)` with every
    equation of the primitive, before the plugins that were registered earlier. `lower` returns the
    results, one `PluginValue` or a list of them, or `NotImplemented` to leave the equation to the
    next plugin.

    Args:
        primitive: The name of the primitive, or the primitive itself.

    Returns:
        A decorator that returns the class unchanged.

    Raises:
        ConfigError: The argument is not a primitive, or the class has no method `lower`.

    Examples:
        >>> import jax2onnx
        >>> @jax2onnx.plugin("my_square")
        ... class MySquare:
        ...     def lower(self, ctx, eqn):
        ...         (x,) = ctx.inputs
        ...         return ctx.op.Mul(x, x)
    """
    name = primitive if isinstance(primitive, str) else getattr(primitive, "name", None)
    if not isinstance(name, str) or not name:
        raise ConfigError(
            f"`plugin({primitive!r})` does not name a primitive: use its name, as in "
            '`@jax2onnx.plugin("my_primitive")`'
        )

    def register(cls: _Class) -> _Class:
        if not isinstance(cls, type) or not callable(getattr(cls, "lower", None)):
            raise ConfigError(
                f"the plugin {cls!r} for {quoted(name)} must be a class with a method `lower`"
            )
        REGISTERED.setdefault(name, []).append(cls())
        return cls

    return register


def load_installed() -> None:
    """Load the plugins that installed packages declare, once per process.

    If a package cannot be loaded, warn and continue without it.
    """
    global _loaded
    if _loaded:
        return
    _loaded = True
    from importlib import metadata

    for entry in metadata.entry_points(group=_GROUP):
        try:
            entry.load()
        except Exception as error:
            package = entry.dist.name if entry.dist else entry.value
            warnings.warn(
                f"the plugins of {quoted(package)} cannot be loaded: "
                f"{type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=3,
            )


def for_core(opset: int) -> dict[str, Any] | None:
    """Return what the core calls for equations with plugins; `None` if there are no plugins."""
    if not REGISTERED:
        return None
    return {"primitives": set(REGISTERED), "record": lambda eqn: record(eqn, opset)}


def record(eqn: Any, opset: int) -> Any:
    """Return the recipe of the first plugin that does not decline.

    If a plugin raises, return the text of the error and the exception. If all plugins decline, or
    the equation has complex numbers or random keys, which ONNX lacks, return `None`.
    """
    imported("onnx")
    from .recorder import Recorder, is_for_plugins

    if not is_for_plugins(eqn):
        return None
    for one in reversed(REGISTERED[eqn.primitive.name]):
        try:
            results = Recorder(eqn, opset, type(one).__name__).run(one)
        except Exception as error:
            return _failure(one, error), error
        if results is not NotImplemented:
            return results
    return None


def _failure(one: Plugin, error: Exception) -> str:
    """Describe an exception: `ValueError: no such mode (plugins.py:12, in MyPlugin)`."""
    text = "".join(traceback.format_exception_only(error)).strip()
    frame = _frame_of(one, error.__traceback__)
    place = f" ({frame.filename}:{frame.lineno}, in {type(one).__name__})" if frame else ""
    return f"{text}{place}"


def _frame_of(one: Plugin, trace: TracebackType | None) -> traceback.FrameSummary | None:
    """Return the innermost frame in the file of the plugin."""
    module = sys.modules.get(type(one).__module__)
    file = getattr(getattr(one.lower, "__code__", None), "co_filename", None)
    file = file or getattr(module, "__file__", None)
    frames = [frame for frame in traceback.extract_tb(trace) if frame.filename == file]
    return frames[-1] if frames else None
