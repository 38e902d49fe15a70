"""Samples whose source says which line asks for what.

A sample is a function that gives a function to export and its input specs. A line of it that asks
for operations ends in a tag with their primitives::

    return jnp.sin(x) * 2.0  # <- sin mul

Each primitive of a tag must have a node of that line, `mul:2` exactly two of them; `*` stands for
whatever else JAX makes of the line. `sin{jnp.sin(x)}` says which expression asks for it, in one
line and without comments. A plugin written in Python is named by its class. A node may come from a
tagged line only.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import onnx

import jax2onnx
from jax2onnx import _core

from .index import Index

Sample = Callable[[], tuple[Callable[..., Any], Sequence[Any]]]

SAMPLES: list[Sample] = []

LEVELS = ("minimal", "full", "indexed")

_TAG = re.compile(r"# <- (?P<primitives>.+)$")
_WORD = re.compile(r"(?P<name>[\w*-]+)(:(?P<count>\d+))?(\{(?P<expression>[^{}]*)\})? ?")
_FRAME = re.compile(r"(?P<file>.*):(?P<line>\d+) \((?P<function>.*)\)")
_PRIMITIVES = {plugin.name: plugin.primitive for plugin in _core.plugins()}


def sample(build: Sample) -> Sample:
    """Make a function a case of the accuracy test."""
    SAMPLES.append(build)
    return build


@dataclass(frozen=True)
class Tag:
    """What a line says it asks for."""

    primitives: dict[str, int | None]
    expressions: dict[str, str]
    open: bool

    @classmethod
    def parse(cls, text: str) -> Tag:
        words = list(_WORD.finditer(text))
        assert "".join(word[0] for word in words) == text, f"no tag: {text}"
        named = [word for word in words if word["name"] != "*"]
        return cls(
            {word["name"]: int(word["count"]) if word["count"] else None for word in named},
            {word["name"]: word["expression"] for word in named if word["expression"]},
            open=len(named) < len(words),
        )

    def complaints(self, found: Counter[str]) -> Iterator[str]:
        for name, count in self.primitives.items():
            if found[name] == 0 or count not in (None, found[name]):
                yield f"{found[name]} nodes of `{name}` where {count or 'some'} are due"
        if not self.open:
            for name in found.keys() - self.primitives.keys():
                yield f"a node of `{name}`, which the line does not ask for"
        if not found:
            yield "no node"


@dataclass
class Source:
    """A file, or a part of it, with its tags."""

    file: str
    text: str
    first: int = 1
    whole: str = ""
    tags: dict[int, Tag] = field(init=False)
    places: set[tuple[str, int]] = field(init=False)

    def __post_init__(self) -> None:
        lines = enumerate(self.text.splitlines(), self.first)
        found = ((number, _TAG.search(line)) for number, line in lines)
        self.tags = {number: Tag.parse(tag["primitives"]) for number, tag in found if tag}
        self.places = set(places_of(compile(self.whole or self.text, self.file, "exec")))
        assert self.tags, "no tag in the sample"

    @classmethod
    def of(cls, build: Sample) -> Source:
        lines, first = inspect.getsourcelines(build)
        file = inspect.getsourcefile(build)
        assert file is not None
        module = inspect.getmodule(build)
        assert module is not None
        return cls(file, "".join(lines), first, inspect.getsource(module))


def places_of(code: CodeType) -> Iterator[tuple[str, int]]:
    """Every qualified name with each of its lines."""
    for *_, line in code.co_lines():
        if line:
            yield code.co_qualname, line
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from places_of(constant)


def metadata(node: onnx.NodeProto) -> dict[str, str]:
    """What a node says about itself, keys without their prefix."""
    return {prop.key.removeprefix("pkg.jax2onnx."): prop.value for prop in node.metadata_props}


def all_nodes(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of all bodies in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)


def nodes_of(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Every node of a model, those of bodies and functions too."""
    return [node for graph in (model.graph, *model.functions) for node in all_nodes(graph)]


def primitive_of(node: onnx.NodeProto) -> str:
    """The primitive whose plugin made a node."""
    plugin = metadata(node)["plugin"].partition(".")[0]
    return _PRIMITIVES.get(plugin, plugin)


def frames_of(node: onnx.NodeProto) -> list[tuple[str, int, str]]:
    """The file, line and function of every frame of the JAX traceback, innermost first."""
    frames = []
    for line in metadata(node)["jax_traceback"].splitlines():
        frame = _FRAME.fullmatch(line)
        assert frame, line
        frames.append((frame["file"], int(frame["line"]), frame["function"]))
    return frames


def export(fn: Callable[..., Any], inputs: Sequence[Any], level: str = "full") -> onnx.ModelProto:
    """Export with all there is to know, and files by their whole path."""
    return jax2onnx.to_onnx(fn, inputs, provenance=level, provenance_paths="absolute")


def check_sample(build: Sample) -> None:
    """Export a sample at every level, and compare every node with the tags of its source."""
    fn, inputs = build()
    source = Source.of(build)
    minimal, full, indexed = (export(fn, inputs, level) for level in LEVELS)
    check(full, [source])
    check_levels(minimal, full, indexed)
    check_expressions(indexed, source)


def check_levels(minimal: onnx.ModelProto, full: onnx.ModelProto, indexed: onnx.ModelProto) -> None:
    """Fail unless every level says the same of every node, the table of `indexed` included."""
    index = Index.of(indexed)
    models = [nodes_of(model) for model in (minimal, full, indexed)]
    for short, long, numbered in zip(*models, strict=True):
        said = metadata(short)
        for node in (long, numbered):
            assert said == {key: metadata(node)[key] for key in said}, node.name
        origin = index.origin(int(metadata(numbered)["origin"]))
        assert [(f.file, f.line, f.function) for f in origin.frames] == frames_of(long)
        assert origin.callsite.name == said["callsite"]
        others = {place.callsite.name for place in origin.absorbed} - {said["callsite"]}
        assert others == set(said.get("fused_from", "").splitlines())


def check_expressions(indexed: onnx.ModelProto, source: Source) -> None:
    """Fail unless the columns of each call site are those of the expression that its tag names."""
    index = Index.of(indexed)
    for node in nodes_of(indexed):
        origin = index.origin(int(metadata(node)["origin"]))
        primitive = primitive_of(node)
        for place in (origin, *origin.absorbed):
            callsite = place.callsite
            tag = source.tags.get(callsite.line)
            wanted = tag.expressions.get(primitive) if tag is not None else None
            if wanted is not None:
                found = callsite.text(source.whole)
                assert found == wanted, f"`{primitive}` of line {callsite.line} is of `{found}`"


def check(model: onnx.ModelProto, sources: Sequence[Source]) -> None:
    """Fail unless every node comes from a tagged line, and every tagged line has its nodes."""
    found: dict[tuple[str, int], Counter[str]] = {
        (source.file, line): Counter() for source in sources for line in source.tags
    }
    places = {
        f"{name}:{line}": (source.file, line) for source in sources for name, line in source.places
    }
    wrong = []
    nodes = nodes_of(model)
    for node in nodes:
        callsite, primitive = metadata(node).get("callsite", "nothing"), primitive_of(node)
        place = places.get(callsite)
        if place not in found:
            wrong.append(f"{callsite}: `{primitive}` is not asked for there")
            continue
        found[place][primitive] += 1
        if any(file == __file__ for file, *_ in frames_of(node)):
            wrong.append(f"{callsite}: the line of the export is in the traceback")
        if (*place, callsite.rpartition(":")[0]) not in frames_of(node):
            wrong.append(f"{callsite}: not in the traceback of `{primitive}`")
        for other in metadata(node).get("fused_from", "").splitlines():
            if places.get(other) in found:
                found[places[other]][primitive] += 1
            else:
                wrong.append(f"{other}: `{primitive}` was not fused from there")
    for source in sources:
        for line, tag in source.tags.items():
            for complaint in tag.complaints(found[source.file, line]):
                wrong.append(f"line {line}: {complaint}")
    listed = "\n".join(f"{metadata(n).get('callsite')} {primitive_of(n)}" for n in nodes)
    assert not wrong, "\n".join([*wrong, "the nodes:", textwrap.indent(listed, "  ")])
