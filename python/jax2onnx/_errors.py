"""The exceptions, one class per kind of error, and the warnings."""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from . import _core


class Jax2OnnxError(Exception):
    """The base class of all errors that jax2onnx raises."""

    __module__ = "jax2onnx"

    def __str__(self) -> str:
        """Return the message, without characters of a file that control a terminal."""
        return _core.clean_lines(super().__str__())


@dataclass(frozen=True)
class UnsupportedOperation:
    """An operation on one line that jax2onnx cannot convert to ONNX.

    Attributes:
        message: Why jax2onnx cannot convert the operation.
        count: The number of times that the line uses the operation.
        hint: What to do about it, if there is a hint.
        file: The file of your line; None if it is unknown.
        line: The number of your line; None if it is unknown.
        function: The qualified name of your function; None if it is unknown.
    """

    message: str
    count: int
    hint: str | None
    file: str | None
    line: int | None
    function: str | None


class UnsupportedError(Jax2OnnxError):
    """Raised if jax2onnx cannot convert a primitive, a parameter or a type to ONNX.

    Attributes:
        operations: One `UnsupportedOperation` per line and operation that cannot be converted, with
            its `message`, `hint`, `file`, `line` and `function`.
    """

    __module__ = "jax2onnx"

    operations: tuple[UnsupportedOperation, ...]

    def __init__(self, message: str, operations: Iterable[tuple[Any, ...]] = ()) -> None:
        """Take the message, and the fields of each operation."""
        super().__init__(message)
        self.operations = tuple(UnsupportedOperation(*fields) for fields in operations)


class PluginError(Jax2OnnxError):
    """Raised if a plugin raises an exception or returns a wrong result."""

    __module__ = "jax2onnx"


class InputSpecError(Jax2OnnxError, ValueError):
    """Raised if an input is not valid, or does not match the function or the model."""

    __module__ = "jax2onnx"


class ConfigError(Jax2OnnxError, ValueError):
    """Raised if an option or a setting has an invalid value."""

    __module__ = "jax2onnx"


class SourceMapError(Jax2OnnxError, ValueError):
    """Raised if a source map or a model cannot be read, or if the map belongs to another model."""

    __module__ = "jax2onnx"


class WriteError(Jax2OnnxError, OSError):
    """Raised if a file cannot be written. An existing file at the path is unchanged."""

    __module__ = "jax2onnx"

    def __str__(self) -> str:
        path = self.filename
        if self.strerror is None or path is None:
            return super().__str__()
        folder = os.path.dirname(os.path.abspath(os.fsdecode(path)))
        is_there = self.errno != errno.ENOENT or os.path.isdir(folder)
        why = self.strerror if is_there else f"{self.strerror} (there is no folder {folder!r})"
        return f"cannot write {os.fsdecode(path)!r}: {why}"


class InternalError(Jax2OnnxError):
    """Raised if there is a bug in jax2onnx. Please report it."""

    __module__ = "jax2onnx"


class Jax2OnnxWarning(UserWarning):
    """Issued if the export works, but is probably not what you want."""

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
