"""What can go wrong, one class per kind."""

from collections.abc import Iterator
from contextlib import contextmanager

from . import _core


class Jax2OnnxError(Exception):
    """Anything that this package raises on purpose."""

    __module__ = "jax2onnx"


class UnsupportedError(Jax2OnnxError):
    """A primitive, a parameter or a type has no counterpart in ONNX, or none yet."""

    __module__ = "jax2onnx"


class PluginError(Jax2OnnxError):
    """A plugin that was registered with `jax2onnx.plugin` raised, or made what it should not."""

    __module__ = "jax2onnx"


class InputSpecError(Jax2OnnxError, ValueError):
    """An input of the function is not described in a way that can be understood."""

    __module__ = "jax2onnx"


class ConfigError(Jax2OnnxError, ValueError):
    """A switch or an option has a value that it cannot have."""

    __module__ = "jax2onnx"


class SourceMapError(Jax2OnnxError, ValueError):
    """A source map cannot be read, or is that of another model."""

    __module__ = "jax2onnx"


class WriteError(Jax2OnnxError, OSError):
    """The model could not be written. What was there before is as it was."""

    __module__ = "jax2onnx"


class InternalError(Jax2OnnxError):
    """An invariant of this package is broken. Please report it."""

    __module__ = "jax2onnx"


_KINDS = (
    UnsupportedError,
    PluginError,
    InputSpecError,
    ConfigError,
    SourceMapError,
    WriteError,
    InternalError,
)


@contextmanager
def errors_of_core() -> Iterator[None]:
    """Raises what the core says went wrong, as the class it names."""
    try:
        yield
    except _core.CoreError as error:
        kind, *arguments = error.args
        (wanted,) = (known for known in _KINDS if known.__name__ == kind)
        raised = wanted(*arguments)
        for note in getattr(error, "__notes__", ()):
            raised.add_note(note)
        raise raised from error.__cause__
