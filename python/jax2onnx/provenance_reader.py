"""Read the origins of nodes from a model or a source map.

You can copy this file into your own project. It needs Python 3.11, and `onnx` to read a model.
`docs/provenance-format.md` specifies the format.

Examples:
    >>> import jax.numpy as jnp
    >>> import jax2onnx
    >>> from jax2onnx.provenance_reader import read_model
    >>> def half(x):
    ...     return jnp.tanh(x) / 2
    >>> model = jax2onnx.to_onnx(half, [(3,)], provenance="indexed")
    >>> for name, origin in read_model(model).items():
    ...     print(name, origin.callsite.function, origin.callsite.line)
    tanh half 2
    div half 2
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
    """Raised if data is not in the provenance format, or has an unknown version."""


@dataclass(frozen=True)
class Frame:
    """A line of Python on a call path.

    Attributes:
        file: The file, as the model names it.
        tier: Whose code it is: `user`, `library` or `internal`.
        function: The qualified name of the function.
        line: The line on which the expression starts.
        column: The start of the expression, in UTF-8 bytes from 0; None if it is unknown.
        end_line: The line on which the expression ends; None if it is unknown.
        end_column: The end of the expression, exclusive; None if it is unknown.
    """

    file: str
    tier: str
    function: str
    line: int
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None

    def __str__(self) -> str:
        """Return `model.py:12 (Net.__call__)`."""
        return f"{self.file}:{self.line} ({self.function})"


@dataclass(frozen=True)
class Scope:
    """An entry of a name stack.

    Attributes:
        name: The name, such as `attn` or `vmap`.
        is_transform: Whether JAX added the entry for a transformation such as `jit` or `vmap`.
    """

    name: str
    is_transform: bool


@dataclass(frozen=True)
class Emitter:
    """A line of the plugin that created the node, or of a function that the plugin called.

    Attributes:
        kind: `plugin`, `helper`, `python plugin` or `python helper`.
        name: The name of the plugin or the function.
        file: The source file.
        line: The number of the line.
    """

    kind: str
    name: str
    file: str
    line: int


@dataclass(frozen=True)
class Site:
    """An equation of the jaxpr that became a node.

    Attributes:
        frames: The call path, innermost first.
        scopes: The name stack, outermost first.
        emitters: The lines of the converter that created the node, innermost first.
    """

    frames: tuple[Frame, ...]
    scopes: tuple[Scope, ...]
    emitters: tuple[Emitter, ...]

    @property
    def callsite(self) -> Frame | None:
        """The innermost frame of the user, else of a library, else the outermost frame."""
        for tier in ("user", "library"):
            for frame in self.frames:
                if frame.tier == tier:
                    return frame
        return self.frames[-1] if self.frames else None

    @property
    def scope(self) -> str:
        """The user's names around the equation: `Net/blocks.3/attn`."""
        return "/".join(scope.name for scope in self.scopes if not scope.is_transform)

    @property
    def transforms(self) -> str:
        """The transformations around the equation: `jit(f)/vmap`."""
        return "/".join(scope.name for scope in self.scopes if scope.is_transform)

    @property
    def plugin(self) -> Emitter | None:
        """The innermost line of a plugin; None if it is unknown."""
        return next((each for each in self.emitters if each.kind.endswith("plugin")), None)


@dataclass(frozen=True)
class Origin:
    """Where a node came from.

    Attributes:
        sites: The equations that became the node, the most relevant one first.
    """

    sites: tuple[Site, ...]

    @property
    def site(self) -> Site:
        """The most relevant equation."""
        return self.sites[0]

    @property
    def callsite(self) -> Frame | None:
        """The most relevant line of the user's code."""
        return self.site.callsite

    @property
    def callsites(self) -> tuple[Frame, ...]:
        """Every expression of the user that became part of the node, without duplicates."""
        found = (site.callsite for site in self.sites)
        return tuple(dict.fromkeys(frame for frame in found if frame is not None))


class Table(Sequence[Origin]):
    """The origins of a model, by number.

    Attributes:
        files: The names of all source files.
        hashes: The SHA-256 of source files and cells when the model was exported, by name, as far
            as the table contains them.
    """

    def __init__(self, document: Any) -> None:
        """Read the document that `json.loads` returns for a table."""
        if not isinstance(document, dict) or document.get("version") != VERSION:
            raise FormatError("this is not a provenance table of a known version")
        self._origins: dict[int, Origin] = {}
        self._sites: dict[int, Site] = {}
        try:
            self.files: list[str] = document["files"]
            hashes = [*document.get("cells", ()), *document.get("hashes", ())]
            self.hashes: dict[str, str] = {self.files[file]: text for file, text in hashes}
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
        """Return the number of origins."""
        return len(self._entries)

    def __getitem__(self, number: Any) -> Any:
        """Return the origin with this number."""
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
    """A node in a source map.

    Attributes:
        name: The name of the node.
        op: The operator.
        outputs: The names of the outputs.
        origin: The number of the origin in the table; None if it is unknown.
    """

    name: str
    op: str
    outputs: tuple[str, ...]
    origin: int | None


@dataclass(frozen=True)
class MapValue:
    """An input, a weight or an output in a source map.

    Attributes:
        name: The name of the value.
        origin: The number of the origin in the table; None if it is unknown.
        paths: The paths of the value in the arguments, the weights or the result, such as
            `blocks.0.attn.kernel`.
    """

    name: str
    origin: int | None
    paths: tuple[str, ...]


class MapFile:
    """A source map.

    Attributes:
        table: The origins.
        debug_id: The id that the model and its source map share.
    """

    def __init__(self, document: Any) -> None:
        """Read the document that `json.loads` returns for a source map."""
        if not isinstance(document, dict) or document.get("version") != VERSION:
            raise FormatError("this is not a source map of a known version")
        self._document = document
        self.table = Table(document.get("provenance"))
        self.debug_id: str = document["debug_id"]

    @cached_property
    def nodes(self) -> list[MapNode]:
        """All nodes, including those of bodies and functions."""
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
        """The origin of every node and every value, by name."""
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
        """The SHA-256 and the text of every source file, if the map contains them."""
        entries = (tuple([*entry, None][:2]) for entry in self._document["sources"])
        return dict(zip(self.table.files, entries, strict=True))


def read_map(path: str | os.PathLike[str]) -> MapFile:
    """Read a source map from a file.

    Args:
        path: The path of the source map.

    Raises:
        FormatError: The file is not a source map of a known version.
    """
    return MapFile(json.loads(Path(path).read_text(encoding="utf-8")))


def table_of(model: "onnx.ModelProto") -> Table | None:
    """Return the provenance table of a model, or None if the model contains no table.

    Args:
        model: A model that was exported with `provenance="indexed"`.

    Raises:
        FormatError: The table is malformed or has an unknown version.
    """
    for entry in model.metadata_props:
        if entry.key == TABLE_KEY:
            return Table(json.loads(entry.value))
    return None


def read_model(model: "str | os.PathLike[str] | onnx.ModelProto") -> Mapping[str, Origin]:
    """Return the origin of every node of a model, by the name of the node.

    Args:
        model: A model that was exported with `provenance="indexed"`, or its path.

    Raises:
        FormatError: The model contains no provenance table.
    """
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
    """Yield every node, including those of bodies and functions."""
    waiting = [list(model.graph.node), *(list(function.node) for function in model.functions)]
    while waiting:
        for node in waiting.pop(0):
            yield node
            for attribute in node.attribute:
                waiting += [list(graph.node) for graph in (attribute.g, *attribute.graphs)]


class _Numbers:
    """Packed numbers: digits of 5 bits as letters of Base64, the lowest digit first."""

    def __init__(self, text: str) -> None:
        self._digits = [_DIGITS[letter] for letter in text]
        self._at = 0
        self._may_repeat = (1 << 16) + 32 * len(text)

    def repeat(self, count: int) -> None:
        """Refuse a list that repeats more entries than its size allows."""
        self._may_repeat -= count
        if self._may_repeat < 0:
            raise ValueError("a list expands to more than its size allows")

    def entries(self) -> Iterator[int]:
        """Yield the number of each entry, until the text ends."""
        index = 0
        while self._at < len(self._digits):
            yield index
            index += 1

    def take(self) -> int:
        """Return the next number."""
        number = shift = 0
        while True:
            digit = self._digits[self._at]
            self._at += 1
            number |= (digit & 31) << shift
            shift += 5
            if digit < 32:
                return number

    def signed(self) -> int:
        """Return the next number, which may be negative."""
        number = self.take()
        return -(number // 2) - 1 if number % 2 else number // 2

    def earlier(self, index: int) -> int | None:
        """Return the entry that is this far before `index`; 0 means none."""
        distance = self.take()
        if distance > index:
            raise ValueError("an entry refers to an entry that does not exist")
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
    """Yield the location of each frame, and the frame that called it."""
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
            numbers.repeat(shared)
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
    """Yield the scope and the place of each origin."""
    runs: list[list[int]] = []
    scope = place = 0
    for index in numbers.entries():
        scope += numbers.signed()
        known = numbers.earlier(index)
        if known is not None:
            run = runs[known]
            numbers.repeat(len(run))
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
    """Yield each fused origin, and the other origins that it stands for."""
    before: list[list[int]] = []
    number = 0
    for index in numbers.entries():
        number += numbers.take()
        known = numbers.earlier(index)
        if known is not None:
            distances = before[known]
            numbers.repeat(len(distances))
        else:
            distances, at = [], 0
            for _ in range(numbers.take()):
                first = at + numbers.take() + 1
                at = first + numbers.take()
                numbers.repeat(at - first)
                distances += range(first, at + 1)
        before.append(distances)
        yield number, [number - distance for distance in reversed(distances)]
