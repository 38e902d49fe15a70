"""Source maps: from a node of a model, or of what became of it, back to the line of Python."""

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from .. import _core
from .._config import StrPath
from .._errors import SourceMapError, errors_of_core
from ..provenance_reader import Frame, Origin, Table

if TYPE_CHECKING:
    import onnx

Sure: TypeAlias = Literal["exact", "name", "fused", "neighbour", "unknown"]
SourceState: TypeAlias = Literal["same", "changed", "missing"]


@dataclass(frozen=True)
class Resolution:
    """Where a node came from, and how that was found.

    `sure` is `"exact"` for the node itself, `"name"` where only the name of its result differs,
    `"fused"` for a node that stands for several, `"neighbour"` for a new node between those of the
    origins, `"unknown"` where there are none.
    """

    node: str
    op: str
    outputs: tuple[str, ...]
    sure: Sure
    #: The one to show first at the front.
    origins: tuple[Origin, ...]

    @property
    def callsite(self) -> Frame | None:
        """The line of the user to show first."""
        return self.origins[0].callsite if self.origins else None

    @property
    def callsites(self) -> tuple[Frame, ...]:
        """Every expression of the user that the node may be of, each once."""
        return tuple(dict.fromkeys(line for origin in self.origins for line in origin.callsites))


class SourceMap:
    """Says of every node, also of later forms of the model, which lines of Python asked for it."""

    def __init__(self, resolver: _core.Resolver) -> None:
        """Use `SourceMap.load`."""
        self._resolver = resolver

    @classmethod
    def load(cls, source: "StrPath | onnx.ModelProto") -> "SourceMap":
        """Read a source map, or a model that was exported with `provenance="indexed"`.

        Args:
            source: The path of a map or of a model, or a model.

        Raises:
            SourceMapError: It is neither.
        """
        if not isinstance(source, str | os.PathLike):
            with errors_of_core():
                return cls(_core.Resolver.of_model(_bytes(source)))
        data = _read(source)
        with errors_of_core():
            if data.lstrip()[:1] == b"{":
                try:
                    text = data.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise SourceMapError("this is not a source map: it is not UTF-8") from error
                return cls(_core.Resolver.of_map(text))
            return cls(_core.Resolver.of_model(data))

    @property
    def debug_id(self) -> str:
        """What the model and its map have in common."""
        return self._resolver.debug_id

    @cached_property
    def origins(self) -> Table:
        """Every origin, by its number."""
        return Table(json.loads(self._resolver.table()))

    def resolve(self, name: str) -> Resolution:
        """Where the node or the value of that name came from.

        The name may be one that a runtime made of it: `dot_general/MatMulAddFusion`.
        """
        with errors_of_core():
            sure, numbers = self._resolver.resolve(name)
        return self._resolution(name, "", (), sure, numbers)

    def resolve_model(self, model: "StrPath | bytes | onnx.ModelProto") -> list[Resolution]:
        """Where each node of a later form of the model came from, bodies and functions included.

        Args:
            model: The model after an optimiser, a converter or a quantiser.

        Raises:
            SourceMapError: It is the later form of another model, or no model.
        """
        data = _read(model) if isinstance(model, str | os.PathLike) else _bytes(model)
        with errors_of_core():
            answers = self._resolver.resolve_model(data)
        return [
            self._resolution(name, op, tuple(outputs), sure, numbers)
            for name, op, outputs, sure, numbers in answers
        ]

    def sources(self) -> dict[str, str]:
        """The text of the source files that the map has."""
        return {name: text for name, _, text in self._resolver.sources if text is not None}

    def check_sources(self, *folders: StrPath) -> dict[str, SourceState]:
        """Whether the source files are those of the export.

        Args:
            folders: Where to look for them, by default the current directory. Installed packages
                are found where Python finds them.

        Returns:
            For each file of which the map has the hash: `"same"`, `"changed"` or `"missing"`.
        """
        places = [*map(Path, folders or (".",)), *map(Path, sys.path)]
        return {
            name: _state(name, sha256, places)
            for name, sha256, _ in self._resolver.sources
            if sha256 is not None and not name.startswith("<")
        }

    def _resolution(
        self, name: str, op: str, outputs: tuple[str, ...], sure: str, numbers: Iterable[int]
    ) -> Resolution:
        origins = tuple(self.origins[number] for number in numbers)
        return Resolution(name, op, outputs, cast("Sure", sure), origins)


def _state(name: str, sha256: str, places: Iterable[Path]) -> SourceState:
    state: SourceState = "missing"
    for place in places:
        try:
            data = (place / name).read_bytes()
        except OSError:
            continue
        if hashlib.sha256(data).hexdigest() == sha256:
            return "same"
        state = "changed"
    return state


def _read(path: StrPath) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SourceMapError(f"cannot read `{os.fspath(path)}`: {error.strerror}") from error


def _bytes(model: "bytes | onnx.ModelProto") -> bytes:
    if isinstance(model, bytes):
        return model
    try:
        data: bytes = model.SerializeToString()
    except AttributeError as error:
        raise SourceMapError(f"{type(model).__name__} is not a model") from error
    return data
