"""Write files. No other module of the package opens a file for writing outside of `Scratch`.

The core refuses an output that would replace an input, another output, or the weights of a model,
and replaces a file in one step.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from . import _core, _project
from ._errors import ConfigError, SourceMapError, WriteError, errors_of_core
from ._types import StrPath
from ._words import quoted

Named: TypeAlias = tuple[str, str]
"""The name of a file in messages, and its path."""


class Output(NamedTuple):
    """A file to write."""

    #: What the file is called in messages.
    what: str
    path: StrPath
    contents: bytes


class ModelInput(NamedTuple):
    """A model that an answer comes from. The paths are absolute."""

    what: str
    path: str
    source_map: str | None
    source_roots: tuple[str, ...]

    def files(self) -> list[Named]:
        """Return the model, its weights, its source map and its source files."""
        named = [(self.what, self.path)]
        if self.source_map is not None:
            named.append((f"the source map of {self.what}", self.source_map))
        try:
            with errors_of_core():
                return named + _core.model_inputs(
                    self.path,
                    what=self.what,
                    source_map=self.source_map,
                    source_roots=list(self.source_roots),
                )
        except SourceMapError:
            # The model was removed or replaced after the answer.
            return named


def model_input(
    what: str,
    path: StrPath,
    source_map: StrPath | None = None,
    source_roots: Iterable[StrPath] = (),
) -> ModelInput:
    """Return a model as it is found from the current directory."""
    return ModelInput(
        what,
        os.path.abspath(path),
        None if source_map is None else os.path.abspath(source_map),
        tuple(os.path.abspath(root) for root in (*source_roots, "")),
    )


def program_inputs(outputs: Iterable[StrPath]) -> list[Named]:
    """Return the files that the running program consists of, if an output exists."""
    if not any(os.path.lexists(path) for path in outputs):
        return []
    named = [
        (f"the file of the module {quoted(name)}", file)
        for name, module in list(sys.modules.items())
        if isinstance(file := getattr(module, "__dict__", {}).get("__file__"), str)
    ]
    settings = _project.file()
    return named if settings is None else [*named, ("the file with the settings", str(settings))]


def check(outputs: Sequence[tuple[str, Any]], inputs: Sequence[Named] = ()) -> None:
    """Refuse outputs that may not be written, before the work that leads to them."""
    named = [(what, path_of(what, path)) for what, path in outputs]
    known = [*inputs, *program_inputs(path for _, path in named)]
    with errors_of_core():
        _core.check_outputs(named, known)


def write(*outputs: Output, inputs: Sequence[Named] = ()) -> None:
    """Write files, none of which may be an input. Replace either all of them or none.

    Raises:
        ConfigError: An output may not be written.
        WriteError: The system cannot write a file.
    """
    named = [(each.what, path_of(each.what, each.path), each.contents) for each in outputs]
    known = [*inputs, *program_inputs(path for _, path, _ in named)]
    with errors_of_core():
        _core.write_files(named, known)


def write_text(what: str, path: StrPath, text: str, inputs: Sequence[Named] = ()) -> None:
    """Write a text. A character that UTF-8 does not have becomes a question mark."""
    write(Output(what, path, text.encode("utf-8", "replace")), inputs=inputs)


def path_of(what: str, path: Any) -> str:
    """Return a path as text."""
    try:
        return os.fsdecode(path)
    except TypeError as error:
        raise ConfigError(f"the path of {what} is {path!r}, which is not a path") from error


class Scratch:
    """A temporary folder, removed with the object or at the end of a `with` block."""

    def __init__(self) -> None:
        """Create the folder."""
        import tempfile

        self._folder = tempfile.TemporaryDirectory(prefix="jax2onnx-")
        self.path = Path(self._folder.name)

    def __enter__(self) -> "Scratch":
        """Return the folder."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the folder."""
        self._folder.cleanup()

    def save(self, model: Any) -> Path:
        """Write an `onnx_ir.Model` with its weights beside it. Returns the path of the model."""
        import onnx_ir

        path = self.path / "model.onnx"
        onnx_ir.save(model, path, external_data="model.onnx.data")
        return path

    def open(self, name: str) -> IO[bytes]:
        """Open a new file in the folder for writing."""
        return open(self.path / name, "xb")


def write_page(text: str) -> Path:
    """Write a page to a new temporary file, which is kept."""
    import tempfile

    file, path = tempfile.mkstemp(prefix="jax2onnx-", suffix=".html")
    with os.fdopen(file, "w", encoding="utf-8", errors="replace") as stream:
        stream.write(text)
    return Path(path)


@contextmanager
def folder(path: str) -> Iterator[None]:
    """Create a folder for what the block writes. If the block fails, remove a new folder again."""
    is_new = not os.path.exists(path)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise WriteError(error.errno, error.strerror, path) from None
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):
                os.rmdir(path)
        raise
