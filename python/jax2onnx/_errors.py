"""The exceptions, one class per kind of error, and the warnings."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from . import _core


class Jax2OnnxError(Exception):
    """The base class of all errors that jax2onnx raises."""

    __module__ = "jax2onnx"


@dataclass(frozen=True)
class UnsupportedOperation:
    """An operation on one line that cannot be converted to ONNX."""

    message: str
    #: The number of times that the line asks for it.
    count: int
    #: Advice, if there is any.
    hint: str | None
    file: str | None
    line: int | None
    function: str | None


class UnsupportedError(Jax2OnnxError):
    """jax2onnx cannot convert a primitive, a parameter or a type to ONNX."""

    __module__ = "jax2onnx"

    #: Every operation that cannot be converted.
    operations: tuple[UnsupportedOperation, ...]

    def __init__(self, message: str, operations: Iterable[tuple[Any, ...]] = ()) -> None:
        """Take the message, and the fields of each operation."""
        super().__init__(message)
        self.operations = tuple(UnsupportedOperation(*fields) for fields in operations)


class PluginError(Jax2OnnxError):
    """A plugin registered with `jax2onnx.plugin` raised an exception or returned a wrong result."""

    __module__ = "jax2onnx"


class InputSpecError(Jax2OnnxError, ValueError):
    """An input spec is not valid, or does not match the function or the model."""

    __module__ = "jax2onnx"


class ConfigError(Jax2OnnxError, ValueError):
    """A setting or an option has an invalid value."""

    __module__ = "jax2onnx"


class SourceMapError(Jax2OnnxError, ValueError):
    """A source map cannot be read, or belongs to another model."""

    __module__ = "jax2onnx"


class WriteError(Jax2OnnxError, OSError):
    """The model could not be written. An existing file at the path is unchanged."""

    __module__ = "jax2onnx"


class InternalError(Jax2OnnxError):
    """There is a bug in jax2onnx. Please report it."""

    __module__ = "jax2onnx"


class Jax2OnnxWarning(UserWarning):
    """The export works, but is probably not what you meant."""

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
    """Raise the errors of the core as the classes that they name."""
    try:
        yield
    except _core.CoreError as error:
        kind, *arguments = error.args
        if isinstance(arguments[0], str):
            # Python shows the class of an exception before its message.
            arguments[0] = arguments[0].removeprefix("error: ")
        (wanted,) = (known for known in _KINDS if known.__name__ == kind)
        raised = wanted(*arguments)
        for note in getattr(error, "__notes__", ()):
            raised.add_note(note)
        raise raised from error.__cause__
