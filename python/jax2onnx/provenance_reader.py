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

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_DIGITS: Final = {letter: digit for digit, letter in enumerate(_LETTERS)}
_TIERS: Final = {"u": "user", "l": "library", "i": "internal"}
_KINDS: Final = ("plugin", "helper", "python plugin", "python helper")


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
        self._origins: dict[int, Origin] = {}
        self._sites: dict[int, Site] = {}
        try:
            #: The name of every source file.
            self.files: list[str] = document["files"]
            self._tiers = [_TIERS[letter] for letter in document["tiers"]]
            self._functions: list[str] = document["functions"]
            self._locations = list(_locations(_Numbers(document["locations"])))
            self._frames = list(_frames(_Numbers(document["frames"])))
            self._scopes = list(_scopes(_Numbers(document["scopes"]), document["scope_names"]))
            self._emitters = list(_emitters(_Numbers(document["emitters"]), document))
            self._places = list(_places(_Numbers(document["places"])))
            self._entries = list(_entries(_Numbers(document["origins"])))
            self._fused = dict(_fused(_Numbers(document["fused"])))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise FormatError(f"the provenance table is malformed: {error!r}") from error

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
            frame, emitter = self._places[place]
            self._sites[number] = Site(
                frames=tuple(self._call_path(frame)),
                scopes=tuple(self._name_stack(scope))[::-1],
                emitters=tuple(self._lowering(emitter)),
            )
        return self._sites[number]

    def _call_path(self, frame: int | None) -> Iterator[Frame]:
        while frame is not None:
            location, frame = self._frames[frame]
            file, function, line, *span = self._locations[location]
            yield Frame(self.files[file], self._tiers[file], self._functions[function], line, *span)

    def _name_stack(self, scope: int | None) -> Iterator[Scope]:
        while scope is not None:
            entry, scope = self._scopes[scope]
            yield entry

    def _lowering(self, emitter: int | None) -> Iterator[Emitter]:
        while emitter is not None:
            entry, emitter = self._emitters[emitter]
            yield entry


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


class _Numbers:
    """Packed numbers: digits of 5 bits in the letters of Base64, the lowest first."""

    def __init__(self, text: str) -> None:
        self._digits = [_DIGITS[letter] for letter in text]
        self._at = 0

    def entries(self) -> Iterator[int]:
        """Count the entries, as long as there are numbers."""
        index = 0
        while self._at < len(self._digits):
            yield index
            index += 1

    def take(self) -> int:
        """The next number."""
        number = shift = 0
        while True:
            digit = self._digits[self._at]
            self._at += 1
            number |= (digit & 31) << shift
            shift += 5
            if digit < 32:
                return number

    def signed(self) -> int:
        """The next number, where it may be negative."""
        number = self.take()
        return -(number // 2) - 1 if number % 2 else number // 2

    def earlier(self, index: int) -> int | None:
        """An earlier entry, by how far before `index` it is; 0 is none."""
        distance = self.take()
        if distance > index:
            raise ValueError("an entry refers to one that is not there")
        return index - distance if distance else None


def _locations(numbers: _Numbers) -> Iterator[tuple[int, ...]]:
    file = function = line = 0
    for _ in numbers.entries():
        file += numbers.signed()
        function += numbers.signed()
        line += numbers.signed()
        column = numbers.take() - 1
        if column < 0:
            yield file, function, line
        else:
            end_line = line + numbers.signed()
            yield file, function, line, column, end_line, column + numbers.signed()


def _frames(numbers: _Numbers) -> Iterator[tuple[int, int | None]]:
    """The location of each frame and the frame that called it."""
    runs: list[list[int]] = []
    number = location = 0
    for index in numbers.entries():
        caller = numbers.earlier(number)
        run = []
        for _ in range(numbers.take()):
            location += numbers.signed()
            run.append(location)
        if shared := numbers.take():
            known = runs[index - numbers.take()]
            run += known[len(known) - shared :]
        runs.append(run)
        for each in run:
            yield each, caller
            caller, number = number, number + 1


def _scopes(numbers: _Numbers, names: Sequence[str]) -> Iterator[tuple[Scope, int | None]]:
    for index in numbers.entries():
        name, is_transform = divmod(numbers.take(), 2)
        yield Scope(names[name], bool(is_transform)), numbers.earlier(index)


def _emitters(numbers: _Numbers, document: Any) -> Iterator[tuple[Emitter, int | None]]:
    names, files = document["emitter_names"], document["emitter_files"]
    for index in numbers.entries():
        kind, name, file, line = (numbers.take() for _ in range(4))
        yield Emitter(_KINDS[kind], names[name], files[file], line), numbers.earlier(index)


def _places(numbers: _Numbers) -> Iterator[tuple[int | None, int | None]]:
    frame = emitter = 0
    for _ in numbers.entries():
        frame += numbers.signed()
        emitter += numbers.signed()
        yield frame - 1 if frame else None, emitter - 1 if emitter else None


def _entries(numbers: _Numbers) -> Iterator[tuple[int | None, int]]:
    """The scope and the place of each origin."""
    runs: list[list[int]] = []
    scope = place = 0
    for index in numbers.entries():
        scope += numbers.signed()
        known = numbers.earlier(index)
        if known is not None:
            run = runs[known]
        else:
            run = []
            for _ in range(numbers.take()):
                place += numbers.signed()
                run.append(place)
        runs.append(run)
        place = run[-1]
        for each in run:
            yield scope - 1 if scope else None, each


def _fused(numbers: _Numbers) -> Iterator[tuple[int, list[int]]]:
    """An origin, and those that it stands for as well."""
    before: list[list[int]] = []
    number = 0
    for index in numbers.entries():
        number += numbers.take()
        known = numbers.earlier(index)
        if known is not None:
            distances = before[known]
        else:
            distances, at = [], 0
            for _ in range(numbers.take()):
                first = at + numbers.take() + 1
                at = first + numbers.take()
                distances += range(first, at + 1)
        before.append(distances)
        yield number, [number - distance for distance in reversed(distances)]
