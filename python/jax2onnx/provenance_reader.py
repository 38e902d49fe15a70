"""Reads what a model or a source map says about the origins of its nodes.

This file stands alone: it needs Python 3.11, and `onnx` to read a model. Copy it to wherever models
are looked at. The format is specified in `docs/provenance-format.md`.

    for name, origin in read_model("model.onnx").items():
        print(name, origin.callsite)
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import onnx

TABLE_KEY: Final = "pkg.jax2onnx.provenance"
ORIGIN_KEY: Final = "pkg.jax2onnx.origin"
DEBUG_ID_KEY: Final = "pkg.jax2onnx.debug_id"
VERSION: Final = 1


class FormatError(ValueError):
    """What was read is not in the format, or in a version of it that is not known."""


@dataclass(frozen=True)
class Frame:
    """A line of Python that was being run."""

    file: str
    #: `user`, `library` or `internal`.
    tier: str
    function: str
    line: int
    #: Where the expression begins and ends: UTF-8 bytes from 0, the end exclusive.
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None

    def __str__(self) -> str:
        """`model.py:12 (Net.__call__)`."""
        return f"{self.file}:{self.line} ({self.function})"


@dataclass(frozen=True)
class Scope:
    """An entry of a name stack."""

    name: str
    #: Whether JAX opened it, for `jit` or `vmap`, and not the user.
    is_transform: bool


@dataclass(frozen=True)
class Emitter:
    """A line of the plugin that made the node, or of a function that it called."""

    #: `plugin`, `helper`, `python plugin` or `python helper`.
    kind: str
    name: str
    file: str
    line: int


@dataclass(frozen=True)
class Site:
    """One equation's part in a node."""

    #: The call path, innermost first.
    frames: tuple[Frame, ...]
    #: The name stack, outermost first.
    scopes: tuple[Scope, ...]
    #: The lines of the lowering, innermost first.
    emitters: tuple[Emitter, ...]

    @property
    def callsite(self) -> Frame | None:
        """The innermost frame of the user; else of a library; else the outermost of all."""
        for tier in ("user", "library"):
            for frame in self.frames:
                if frame.tier == tier:
                    return frame
        return self.frames[-1] if self.frames else None

    @property
    def scope(self) -> str:
        """The names of the user around the equation: `Net/blocks.3/attn`."""
        return "/".join(scope.name for scope in self.scopes if not scope.is_transform)

    @property
    def transforms(self) -> str:
        """The transformations around the equation: `jit(f)/vmap`."""
        return "/".join(scope.name for scope in self.scopes if scope.is_transform)

    @property
    def plugin(self) -> Emitter | None:
        """The innermost line of a plugin."""
        return next((each for each in self.emitters if each.kind.endswith("plugin")), None)


@dataclass(frozen=True)
class Origin:
    """Where a node came from."""

    #: The equation to show first, and those that the node stands for as well.
    sites: tuple[Site, ...]

    @property
    def site(self) -> Site:
        """The equation to show first."""
        return self.sites[0]

    @property
    def callsite(self) -> Frame | None:
        """The line of the user to show first."""
        return self.site.callsite

    @property
    def callsites(self) -> tuple[Frame, ...]:
        """Every expression of the user, each once."""
        found = (site.callsite for site in self.sites)
        return tuple(dict.fromkeys(frame for frame in found if frame is not None))


class Table(Sequence[Origin]):
    """The origins of a model, by their numbers."""

    def __init__(self, document: Any) -> None:
        """Take the document that `json.loads` made of a table."""
        if not isinstance(document, dict) or document.get("version") != VERSION:
            raise FormatError("this is not a provenance table that can be read")
        self._document = document
        self._origins: dict[int, Origin] = {}
        self._sites: dict[int, Site] = {}
        try:
            self._frames = list(_runs(document["frames"]))
            self._entries = [(scope, place) for scope, *run in document["origins"] for place in run]
            self._fused = {number: absorbed for number, *absorbed in document["fused"]}
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"the provenance table is malformed: {error!r}") from error

    @property
    def files(self) -> list[str]:
        """The name of every source file."""
        return [path for path, _ in self._document["files"]]

    def __len__(self) -> int:
        """How many origins there are."""
        return len(self._entries)

    def __getitem__(self, number: Any) -> Any:
        """The origin with that number."""
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        if number not in self._origins:
            numbers = [number, *self._fused.get(number, ())]
            self._origins[number] = Origin(tuple(self._site(each) for each in numbers))
        return self._origins[number]

    def _site(self, number: int) -> Site:
        if number not in self._sites:
            scope, place = self._entries[number]
            frame, emitter = self._document["places"][place]
            self._sites[number] = Site(
                frames=tuple(self._call_path(frame)),
                scopes=tuple(self._name_stack(scope))[::-1],
                emitters=tuple(self._lowering(emitter)),
            )
        return self._sites[number]

    def _call_path(self, frame: int | None) -> Iterator[Frame]:
        while frame is not None:
            location, frame = self._frames[frame]
            file, function, line, *span = self._document["locations"][location]
            path, tier = self._document["files"][file]
            if len(span) == 2:
                span.insert(1, line)
            yield Frame(path, tier, self._document["functions"][function], line, *span)

    def _name_stack(self, scope: int | None) -> Iterator[Scope]:
        while scope is not None:
            name, scope, *kind = self._document["scopes"][scope]
            yield Scope(name, kind == ["transform"])

    def _lowering(self, emitter: int | None) -> Iterator[Emitter]:
        while emitter is not None:
            kind, name, file, line, emitter = self._document["emitters"][emitter]
            yield Emitter(kind, name, self._document["emitter_files"][file], line)


@dataclass(frozen=True)
class MapNode:
    """A node, as a source map has it."""

    name: str
    op: str
    outputs: tuple[str, ...]
    #: The number of its origin.
    origin: int | None


@dataclass(frozen=True)
class MapValue:
    """An input, a weight or an output, as a source map has it."""

    name: str
    #: The number of its origin.
    origin: int | None
    #: Where it stands in what the function takes, holds or gives: `blocks.0.attn.kernel`.
    paths: tuple[str, ...]


class MapFile:
    """A source map."""

    def __init__(self, document: Any) -> None:
        """Take the document that `json.loads` made of a source map."""
        if not isinstance(document, dict) or document.get("version") != VERSION:
            raise FormatError("this is not a source map that can be read")
        self._document = document
        self.table = Table(document.get("provenance"))
        self.debug_id: str = document["debug_id"]

    @cached_property
    def nodes(self) -> list[MapNode]:
        """Every node, those of bodies and functions too."""
        ops = self._document["ops"]
        entries = (entry for graph in self._document["graphs"] for entry in graph["nodes"])
        return [
            MapNode(name, ops[op], tuple(outputs) or (name,), origin)
            for name, op, origin, _, *outputs in entries
        ]

    @cached_property
    def values(self) -> list[MapValue]:
        """The inputs, weights and outputs of the model."""
        entries = self._document["values"]
        return [MapValue(name, origin, tuple(paths)) for name, origin, *paths in entries]

    @cached_property
    def origins(self) -> dict[str, Origin]:
        """The origin of every node and every value, by its name."""
        found: dict[str, Origin] = {}
        for value in self.values:
            if value.origin is not None:
                found[value.name] = self.table[value.origin]
        for node in self.nodes:
            if node.origin is not None:
                for output in node.outputs:
                    found[output] = self.table[node.origin]
        for node in self.nodes:
            if node.origin is not None:
                found[node.name] = self.table[node.origin]
        return found

    @property
    def sources(self) -> dict[str, tuple[str | None, str | None]]:
        """The SHA-256 and the text of every source file, where the map has them."""
        entries = (tuple([*entry, None][:2]) for entry in self._document["sources"])
        return dict(zip(self.table.files, entries, strict=True))


def read_map(path: str | os.PathLike[str]) -> MapFile:
    """The source map in a file."""
    return MapFile(json.loads(Path(path).read_text(encoding="utf-8")))


def table_of(model: "onnx.ModelProto") -> Table | None:
    """The table of a model that was exported with `provenance="indexed"`."""
    for entry in model.metadata_props:
        if entry.key == TABLE_KEY:
            return Table(json.loads(entry.value))
    return None


def read_model(model: "str | os.PathLike[str] | onnx.ModelProto") -> Mapping[str, Origin]:
    """The origin of every node of a model, by the name of the node."""
    if isinstance(model, str | os.PathLike):
        import onnx

        model = onnx.load(model, load_external_data=False)
    table = table_of(model)
    if table is None:
        raise FormatError("the model has no provenance table")
    origins = {}
    for node in _nodes(model):
        for entry in node.metadata_props:
            if entry.key == ORIGIN_KEY:
                origins[node.name] = table[int(entry.value)]
    return origins


def _nodes(model: "onnx.ModelProto") -> Iterator["onnx.NodeProto"]:
    """Every node, of bodies and functions too."""
    waiting = [list(model.graph.node), *(list(function.node) for function in model.functions)]
    while waiting:
        for node in waiting.pop(0):
            yield node
            for attribute in node.attribute:
                waiting += [list(graph.node) for graph in (attribute.g, *attribute.graphs)]


def _runs(runs: Sequence[Sequence[Any]]) -> Iterator[tuple[int, int | None]]:
    """The location of each frame and the frame that called it."""
    number = 0
    for caller, *locations in runs:
        for location in locations:
            yield location, caller
            caller, number = number, number + 1
