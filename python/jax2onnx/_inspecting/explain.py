"""Find the line of Python behind an exception of a runtime."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .. import _core
from .._errors import ConfigError, errors_of_core
from .._types import StrPath

if TYPE_CHECKING:
    import onnx

    Model: TypeAlias = onnx.ModelProto | bytes | StrPath

#: How certain an answer is: the message names one line, leads to one line, leads to several lines,
#: or leads to none.
Certainty: TypeAlias = Literal["certain", "likely", "one-of", "unknown"]


@dataclass(frozen=True)
class Line:
    """A line of Python.

    Attributes:
        file: The file as the model names it; None if the model does not contain the name.
        line: The number of the line; None if it is unknown.
        function: The qualified name of the function; empty if it is unknown.
        text: The text of the line; None if the file is missing or changed after the export.
    """

    file: str | None
    line: int | None
    function: str
    text: str | None

    def __str__(self) -> str:
        """Return `model.py:12, in forward`."""
        place = f"{self.file}:{self.line}" if self.file else f"line {self.line}"
        return f"{place}, in {self.function}" if self.function else place


@dataclass(frozen=True)
class Finding:
    """Explains one message of a runtime.

    Attributes:
        message: The message, in one line.
        kind: The kind of error, such as `"shape"`, `"index"` or `"kernel"`; None if it is unknown.
        sure: How certain the answer is: `"certain"`, `"likely"`, `"one-of"` or `"unknown"`.
        how: How the lines were found, as a sentence.
        lines: The possible lines, the best match first.
        node: The name and the operator of the node; None if the message leads to no node.
        advice: A hint that usually helps; None if there is no hint.
    """

    message: str
    kind: str | None
    sure: Certainty
    how: str
    lines: tuple[Line, ...]
    node: tuple[str, str] | None
    advice: str | None

    @property
    def line(self) -> Line | None:
        """The most likely line, if any."""
        return self.lines[0] if self.lines else None


@dataclass(frozen=True)
class Explanation:
    """Explains all messages in a text. Prints like `jax2onnx explain`.

    Attributes:
        findings: One `Finding` per message.
    """

    findings: tuple[Finding, ...]
    _text: str

    @property
    def line(self) -> Line | None:
        """The most likely line of the first message that has one, if any."""
        return next((finding.line for finding in self.findings if finding.lines), None)

    def __str__(self) -> str:
        """Return the lines with their source, and the hints."""
        return self._text

    __repr__ = __str__


class explain:  # noqa: N801 - it is used as a statement
    """Add your source line to exceptions of a runtime.

    Use `explain` in a `with` statement around the code that runs the model. An exception keeps its
    type and message, and gets a note with the line. To explain a message as text, call
    `explain(model).message(text)`.

    Args:
        model: The path of the model, an `onnx.ModelProto`, or bytes.
        source_map: The source map of the model, by default `<model>.map`.
        source_roots: Folders with source files, in addition to the current directory.

    Attributes:
        explanation: The explanation of the last exception; None if there was no exception.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax2onnx
        >>> def half(x):
        ...     return jnp.tanh(x) / 2
        >>> model = jax2onnx.to_onnx(half, [("B",)], provenance="indexed")
        >>> found = jax2onnx.explain(model).message("running Tanh node. Name:'tanh'")
        >>> found.findings[0].sure, found.line.function, found.line.line
        ('certain', 'half', 2)
    """

    def __init__(
        self,
        model: "Model",
        *,
        source_map: StrPath | None = None,
        source_roots: Sequence[StrPath] = (),
    ) -> None:
        """Create an explainer. It reads the model only if an exception occurs."""
        self._model = model
        self._source_map = None if source_map is None else os.fspath(source_map)
        self._source_roots = [os.fspath(root) for root in source_roots]
        self.explanation: Explanation | None = None

    def message(self, text: str) -> Explanation:
        """Explain a text: an exception, lines of a log, or several messages.

        Args:
            text: The text. Lines that are not errors are ignored.

        Raises:
            SourceMapError: The model or its map cannot be read.
        """
        with errors_of_core():
            shown, data, _ = _core.explain_log(
                path_or_bytes(self._model),
                text,
                source_map=self._source_map,
                source_roots=self._source_roots,
            )
        found = json.loads(data)["findings"]
        return Explanation(tuple(_finding(one) for one in found), shown)

    def __enter__(self) -> "explain":
        """Return the explainer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Add the line to an exception, and let the exception propagate."""
        if isinstance(error, Exception):
            self.annotate(error)

    def annotate(self, error: Exception) -> None:
        """Add the line to an exception, as a note."""
        kind = type(error)
        is_runtimes = kind.__module__.partition(".")[0] in ("onnxruntime", "onnx")
        try:
            found = self.message(f"{kind.__module__}.{kind.__qualname__}: {error}")
        except Exception as failure:
            # The error of the runtime matters more than this one.
            if is_runtimes:
                error.add_note(f"jax2onnx cannot explain this error: {failure}")
            return
        if found.line is None and not (is_runtimes and found.findings):
            return
        self.explanation = found
        error.add_note("\n" + str(found).rstrip())


def path_or_bytes(model: "Model") -> str | bytes:
    """Convert a model to what the core accepts: a path or bytes."""
    if isinstance(model, bytes):
        return model
    if isinstance(model, str | os.PathLike):
        return os.fspath(model)
    if hasattr(model, "SerializeToString"):
        data: bytes = model.SerializeToString()
        return data
    raise ConfigError(
        f"the model is of type {type(model).__name__}: use a path, an onnx.ModelProto or bytes"
    )


def _finding(found: dict[str, Any]) -> Finding:
    node = found["node"]
    return Finding(
        message=found["message"],
        kind=found["class"],
        sure=found["sure"],
        how=found["how"],
        lines=tuple(line_of(line) for line in found["lines"]),
        node=None if node is None else (node["name"], node["op"]),
        advice=found["advice"],
    )


def line_of(frame: dict[str, Any]) -> Line:
    """Convert a frame in an answer of the core."""
    return Line(frame["file"], frame["line"], frame["function"], frame["text"])
