"""From an exception of a runtime to the line of the user that it is about."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .. import _core
from .._config import StrPath
from .._errors import ConfigError, errors_of_core

if TYPE_CHECKING:
    import onnx

    Model: TypeAlias = onnx.ModelProto | bytes | StrPath

#: How sure an answer is: one line that the message names, one line that it leads to, one of several
#: lines, none.
Certainty: TypeAlias = Literal["certain", "likely", "one-of", "unknown"]


@dataclass(frozen=True)
class Line:
    """A line of Python."""

    #: As the model names it; none where the model does not say.
    file: str | None
    line: int | None
    function: str
    #: The text of the line, where it can be found and has not changed since the export.
    text: str | None

    def __str__(self) -> str:
        """As in `model.py:12, in forward`."""
        place = f"{self.file}:{self.line}" if self.file else f"line {self.line}"
        return f"{place}, in {self.function}" if self.function else place


@dataclass(frozen=True)
class Finding:
    """What one message is about."""

    #: What the runtime says, in one line.
    message: str
    #: What kind of error it is: `"shape"`, `"index"`, `"kernel"` ...
    kind: str | None
    sure: Certainty
    #: How the lines were found, in words.
    how: str
    #: The lines that it may be, the best first.
    lines: tuple[Line, ...]
    #: The name and the operator of the node in the model.
    node: tuple[str, str] | None
    #: What usually helps.
    advice: str | None

    @property
    def line(self) -> Line | None:
        """The line to show first."""
        return self.lines[0] if self.lines else None


@dataclass(frozen=True)
class Explanation:
    """What the messages of a runtime are about."""

    findings: tuple[Finding, ...]
    _text: str

    @property
    def line(self) -> Line | None:
        """The first line that is known."""
        return next((finding.line for finding in self.findings if finding.lines), None)

    def __str__(self) -> str:
        """The lines with their source, and what usually helps."""
        return self._text


class explain:  # noqa: N801 - it is used as a statement
    """Shows, with every exception of a runtime, the line of the user that it is about.

    Around whatever runs the model::

        with jax2onnx.explain("model.onnx"):
            session.run(None, feeds)

    The exception stays what it is, and gets a note with the line. `explain(model).message(text)`
    explains a text.

    Args:
        model: The path of the model, a model, or its bytes.
        source_map: The source map of the model, where it is not `<model>.map`.
        source_roots: Where to look for source files, beside the current directory.
    """

    def __init__(
        self,
        model: "Model",
        *,
        source_map: StrPath | None = None,
        source_roots: Sequence[StrPath] = (),
    ) -> None:
        """Nothing is read before something fails."""
        self._model = model
        self._source_map = None if source_map is None else os.fspath(source_map)
        self._source_roots = [os.fspath(root) for root in source_roots]
        #: What the last exception was about.
        self.explanation: Explanation | None = None

    def message(self, text: str) -> Explanation:
        """Explain a text: an exception, the lines of a log, or several messages at once.

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
        """Start watching."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Add the line to an exception; it goes on as what it is."""
        if isinstance(error, Exception):
            self._annotate(error)

    def _annotate(self, error: Exception) -> None:
        kind = type(error)
        is_runtimes = kind.__module__.partition(".")[0] in ("onnxruntime", "onnx")
        try:
            found = self.message(f"{kind.__module__}.{kind.__qualname__}: {error}")
        except Exception as failure:
            # The error of the runtime is what matters.
            if is_runtimes:
                error.add_note(f"jax2onnx cannot explain this: {failure}")
            return
        if found.line is None and not (is_runtimes and found.findings):
            return
        self.explanation = found
        error.add_note("\n" + str(found).rstrip())


def path_or_bytes(model: "Model") -> str | bytes:
    """A model as the core takes it."""
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
    """A frame of the core's answers."""
    return Line(frame["file"], frame["line"], frame["function"], frame["text"])
