"""Read source maps, which map each node of a model to its line of Python."""

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
from .._errors import SourceMapError, errors_of_core
from .._types import StrPath
from ..provenance_reader import Frame, Origin, Table

if TYPE_CHECKING:
    import onnx

Sure: TypeAlias = Literal["exact", "name", "fused", "neighbour", "unknown"]
SourceState: TypeAlias = Literal["same", "changed", "missing"]


@dataclass(frozen=True)
class Resolution:
    """The origins of a node, and how certain they are.

    Attributes:
        node: The name of the node.
        op: The operator of the node; empty if only the name was resolved.
        outputs: The names of the outputs of the node.
        sure: `"exact"` if the node is unchanged, `"name"` if only the name of its result changed,
            `"fused"` if the node replaces several nodes, `"neighbour"` if a tool inserted the node
            between nodes with these origins, and `"unknown"` if there are no origins.
        origins: The origins, the most relevant one first.
    """

    node: str
    op: str
    outputs: tuple[str, ...]
    sure: Sure
    origins: tuple[Origin, ...]

    @property
    def callsite(self) -> Frame | None:
        """The most relevant line of your code."""
        return self.origins[0].callsite if self.origins else None

    @property
    def callsites(self) -> tuple[Frame, ...]:
        """Every expression in your code that may have created the node, each once."""
        return tuple(dict.fromkeys(line for origin in self.origins for line in origin.callsites))


class SourceMap:
    """Finds the line of Python behind a node, even after other tools changed the model.

    Create one with `SourceMap.load`.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax2onnx
        >>> def half(x):
        ...     return jnp.tanh(x) / 2
        >>> model = jax2onnx.to_onnx(half, [(3,)], provenance="indexed")
        >>> found = jax2onnx.SourceMap.load(model).resolve("tanh")
        >>> found.sure, found.callsite.function, found.callsite.line
        ('exact', 'half', 2)
    """

    def __init__(self, resolver: _core.Resolver) -> None:
        """Wrap a resolver. Use `SourceMap.load` instead."""
        self._resolver = resolver

    @classmethod
    def load(cls, source: "StrPath | onnx.ModelProto") -> "SourceMap":
        """Read a source map, or a model that was exported with `provenance="indexed"`.

        Args:
            source: The path of a source map, the path of a model, or an `onnx.ModelProto`.

        Raises:
            SourceMapError: The source is neither a source map nor such a model.
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
        """The id that the model and its source map share."""
        return self._resolver.debug_id

    @cached_property
    def origins(self) -> Table:
        """All origins, by number."""
        return Table(json.loads(self._resolver.table()))

    def resolve(self, name: str) -> Resolution:
        """Find the origins of a node or a value by its name.

        Args:
            name: The name. It can also be a name that a runtime derived from it, such as
                `dot_general/MatMulAddFusion`.
        """
        with errors_of_core():
            sure, numbers = self._resolver.resolve(name)
        return self._resolution(name, "", (), sure, numbers)

    def resolve_model(self, model: "StrPath | bytes | onnx.ModelProto") -> list[Resolution]:
        """Find the origins of every node of a model that a tool changed.

        Args:
            model: The model after an optimizer, a converter or a quantizer changed it.

        Returns:
            One `Resolution` per node, including the nodes of bodies and functions.

        Raises:
            SourceMapError: The map belongs to another model, or this is not a model.
        """
        data = _read(model) if isinstance(model, str | os.PathLike) else _bytes(model)
        with errors_of_core():
            answers = self._resolver.resolve_model(data)
        return [
            self._resolution(name, op, tuple(outputs), sure, numbers)
            for name, op, outputs, sure, numbers in answers
        ]

    def sources(self) -> dict[str, str]:
        """Return the text of each source file that the map contains, by file name."""
        return {name: text for name, _, text in self._resolver.sources if text is not None}

    def check_sources(self, *folders: StrPath) -> dict[str, SourceState]:
        """Check whether the source files changed since the export.

        Args:
            folders: The folders that contain the files, by default the current directory. For
                installed packages, `check_sources` also searches `sys.path`.

        Returns:
            For each file whose hash the map contains: `"same"`, `"changed"` or `"missing"`. Cells
            of a notebook are not files.
        """
        places = [*map(Path, folders or (".",)), *map(Path, sys.path)]
        return {
            name: _state(name, sha256, places)
            for name, sha256, _ in self._resolver.sources
            if sha256 is not None and not name.startswith(("<", "In ["))
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
