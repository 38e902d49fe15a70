"""Samples whose source says which line asks for what.

A sample is a function that gives a function to export and its input specs. A line of it that asks
for operations ends in a tag with their primitives::

    return jnp.sin(x) * 2.0  # <- sin mul

Each primitive of a tag must have a node of that line, `mul:2` exactly two of them; `*` stands for
whatever else JAX makes of the line. `sin{jnp.sin(x)}` says which expression asks for it, in one
line and without comments. A plugin written in Python is named by its class. `constant` says that
the line makes one, which needs no node. A node may come from a tagged line only.

This is said of the model as plugins made it. Passes join nodes, and the model that is left must
know the same lines and call paths; `dead` says that no output needs anything of the line, and
`mul?` that a pass finds the primitive to be for nothing.
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
from jax2onnx import _core, provenance_reader
from jax2onnx.provenance_reader import Frame, Origin, Site, Table

Sample = Callable[[], tuple[Callable[..., Any], Sequence[Any]]]

SAMPLES: list[Sample] = []

LEVELS = ("minimal", "full", "indexed")

_TAG = re.compile(r"# <- (?P<primitives>.+)$")
_WORD = re.compile(
    r"(?P<name>[\w*-]+)(:(?P<count>\d+))?(?P<idle>\?)?(\{(?P<expression>[^{}]*)\})? ?"
)
_FRAME = re.compile(r"(?P<file>.*):(?P<line>\d+) \((?P<function>.*)\)")
_COMMENT = re.compile(r"\s*#[^\n]*")
_BREAK = re.compile(r"\s*\n\s*")
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
    dead: bool
    #: Whether the line makes a constant, which needs no node.
    constant: bool
    #: Primitives that turn out to compute nothing.
    idle: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Tag:
        words = list(_WORD.finditer(text))
        assert "".join(word[0] for word in words) == text, f"no tag: {text}"
        named = [word for word in words if word["name"] not in ("*", "dead", "constant")]
        others = {word["name"] for word in words} - {word["name"] for word in named}
        return cls(
            {word["name"]: int(word["count"]) if word["count"] else None for word in named},
            {word["name"]: word["expression"] for word in named if word["expression"]},
            open="*" in others,
            dead="dead" in others,
            constant="constant" in others,
            idle=frozenset(word["name"] for word in named if word["idle"]),
        )

    def asks_for(self, primitive: str) -> bool:
        """Return whether a node of this primitive may come from the line."""
        return self.open or self.constant or primitive in self.primitives

    def complaints(self, found: Counter[str]) -> Iterator[str]:
        for name, count in self.primitives.items():
            if found[name] == 0 or count not in (None, found[name]):
                yield f"{found[name]} nodes of `{name}` where {count or 'some'} are due"
        if not self.open:
            for name in found.keys() - self.primitives.keys():
                yield f"a node of `{name}`, which the line does not ask for"
        if not found and not self.constant:
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


def metadata(node: Any) -> dict[str, str]:
    """What a node or a value says about itself, keys without their prefix."""
    return {prop.key.removeprefix("pkg.jax2onnx."): prop.value for prop in node.metadata_props}


def all_nodes(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of all bodies in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)


def graphs_of(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The graph of a model and the graphs of its branches and loops."""
    yield model.graph
    for node in all_nodes(model.graph):
        yield from (attribute.g for attribute in node.attribute if attribute.HasField("g"))


def nodes_of(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Every node of a model, those of bodies and functions too."""
    return [node for graph in (model.graph, *model.functions) for node in all_nodes(graph)]


def strip(model: onnx.ModelProto) -> None:
    """Take away what provenance adds."""
    del model.metadata_props[:]
    graph = model.graph
    for entry in (*graph.initializer, *graph.input, *graph.output, *nodes_of(model)):
        del entry.metadata_props[:]


def computed(model: onnx.ModelProto) -> list[Any]:
    """Every node, and every output and weight that says where it came from."""
    values = (*model.graph.output, *model.graph.initializer)
    return [*nodes_of(model), *(value for value in values if "callsite" in metadata(value))]


def primitive_of(node: onnx.NodeProto) -> str:
    """The primitive whose plugin made a node."""
    plugin = metadata(node)["plugin"].partition(".")[0]
    return _PRIMITIVES.get(plugin, plugin)


def emitted(model: onnx.ModelProto) -> set[tuple[str, str]]:
    """Each primitive of the main graph with each ONNX operator that it became."""
    primitives = set(_PRIMITIVES.values())
    nodes = [node for node in all_nodes(model.graph) if not node.domain]
    return {(primitive_of(n), n.op_type) for n in nodes if primitive_of(n) in primitives}


def frames_of(node: onnx.NodeProto) -> list[tuple[str, int, str]]:
    """The file, line and function of every frame of the JAX traceback, innermost first."""
    frames = []
    for line in metadata(node)["jax_traceback"].splitlines():
        frame = _FRAME.fullmatch(line)
        assert frame, line
        frames.append((frame["file"], int(frame["line"]), frame["function"]))
    return frames


def table_of(indexed: onnx.ModelProto) -> Table:
    """The table of a model that was exported at `indexed`."""
    table = provenance_reader.table_of(indexed)
    assert table is not None
    return table


def origins_of(indexed: onnx.ModelProto) -> list[Origin]:
    """The origin of every node, and of every output and weight that was computed."""
    table = table_of(indexed)
    said = map(metadata, computed(indexed))
    return [table[int(each["origin"])] for each in said if "origin" in each]


def name_of(frame: Frame | None) -> str:
    """A line as `callsite` has it."""
    return f"{frame.function}:{frame.line}" if frame is not None else "nothing"


def names_of(origin: Origin) -> tuple[str, set[str]]:
    """The line to show first, and the others, as the metadata has them."""
    first, *others = (name_of(site.callsite) for site in origin.sites)
    return first, set(others) - {first}


def export(
    fn: Callable[..., Any], inputs: Sequence[Any], level: str = "full", *, optimize: bool = True
) -> onnx.ModelProto:
    """Export with files by their whole path; without `optimize` as plugins made it."""
    return jax2onnx.to_onnx(
        fn, inputs, provenance=level, provenance_paths="absolute", optimize=optimize
    )


def check_sample(build: Sample) -> None:
    """Export a sample at every level, before and after passes, and compare it with its tags."""
    fn, inputs = build()
    source = Source.of(build)
    plain = {level: export(fn, inputs, level, optimize=False) for level in LEVELS}
    final = {level: export(fn, inputs, level) for level in LEVELS}
    check_before_passes(plain["full"], source)
    check(final["full"], [source])
    for models in (plain, final):
        check_levels(**models)
        check_sites(models["indexed"], source)
    check_kept(plain["indexed"], final["indexed"], source)


def check_levels(minimal: onnx.ModelProto, full: onnx.ModelProto, indexed: onnx.ModelProto) -> None:
    """Fail unless every level says the same of every node, the table of `indexed` included."""
    table = table_of(indexed)
    models = [nodes_of(model) for model in (minimal, full, indexed)]
    for short, long, numbered in zip(*models, strict=True):
        said = metadata(short)
        for node in (long, numbered):
            assert said == {key: metadata(node)[key] for key in said}, node.name
        origin = table[int(metadata(numbered)["origin"])]
        assert [(f.file, f.line, f.function) for f in origin.site.frames] == frames_of(long)
        first, others = names_of(origin)
        assert first == said["callsite"]
        assert others == set(said.get("fused_from", "").splitlines())


def expression(frame: Frame, source: str) -> str:
    """The expression of a frame, without comments, in one line; columns count bytes."""
    assert frame.column is not None, "the columns are not known"
    lines = [line.encode() for line in source.splitlines()[frame.line - 1 : frame.end_line]]
    lines[-1] = lines[-1][: frame.end_column]
    lines[0] = lines[0][frame.column :]
    return _BREAK.sub(" ", _COMMENT.sub("", b"\n".join(lines).decode()))


def check_sites(indexed: onnx.ModelProto, source: Source) -> None:
    """Fail unless each part of each origin is of a line that asks for it, and of its expression."""
    for site in sites_of(indexed):
        frame, plugin = site.callsite, site.plugin
        assert frame is not None
        tag = source.tags.get(frame.line)
        assert tag is not None, f"nothing is asked for on line {frame.line}"
        if plugin is None:
            continue
        primitive = plugin.name.partition(".")[0]
        assert tag.asks_for(primitive), f"line {frame.line} does not ask for `{primitive}`"
        wanted = tag.expressions.get(primitive)
        if wanted is not None:
            found = expression(frame, source.whole)
            assert found == wanted, f"`{primitive}` of line {frame.line} is of `{found}`"


def sites_of(indexed: onnx.ModelProto) -> set[Site]:
    """Every part of every origin."""
    return {site for origin in origins_of(indexed) for site in origin.sites}


def live_nodes(nodes: Sequence[onnx.NodeProto], needed: set[str]) -> list[onnx.NodeProto]:
    """The nodes that compute what is needed, those of bodies too; adds what they read."""
    live: list[onnx.NodeProto] = []
    for node in reversed(nodes):
        if needed.isdisjoint(node.output):
            continue
        live.append(node)
        needed.update(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                inner = {value.name for value in attribute.g.output}
                live += live_nodes(attribute.g.node, inner)
                needed |= inner
    return live


def live_sites(indexed: onnx.ModelProto) -> set[Site]:
    """Every part of the origin of a node that an output needs."""
    table = table_of(indexed)
    live = live_nodes(indexed.graph.node, {value.name for value in indexed.graph.output})
    for function in indexed.functions:
        live += live_nodes(function.node, set(function.output))
    return {site for node in live for site in table[int(metadata(node)["origin"])].sites}


def check_kept(plain: onnx.ModelProto, final: onnx.ModelProto, source: Source) -> None:
    """Fail unless passes keep every call path that counts, and make up none."""
    before, after = sites_of(plain), sites_of(final)

    def paths(sites: set[Site]) -> dict[Any, Site]:
        return {(site.frames, site.scopes): site for site in sites}

    made_up = paths(after).keys() - paths(before).keys()
    assert not made_up, [name_of(paths(after)[path].callsite) for path in made_up]
    for path in paths(live_sites(plain)).keys() - paths(after).keys():
        site = paths(before)[path]
        assert site.callsite is not None
        assert site.plugin is not None
        primitive, line = site.plugin.name, site.callsite.line
        assert primitive in source.tags[line].idle, f"`{primitive}` of line {line} is lost"

    def lines(sites: set[Site]) -> set[int]:
        return {site.callsite.line for site in sites if site.callsite is not None}

    dead = {line for line, tag in source.tags.items() if tag.dead}
    assert lines(before) - lines(after) == dead, "these lines and no others are dead"


def check_before_passes(full: onnx.ModelProto, source: Source) -> None:
    """Fail unless every node comes from a tagged line, and every tagged line has its nodes."""
    found: dict[int, Counter[str]] = {line: Counter() for line in source.tags}
    lines = {f"{name}:{line}": line for name, line in source.places}
    constants = {lines.get(metadata(t).get("callsite", "")) for t in full.graph.initializer}
    wrong = []
    nodes = list(nodes_of(full))
    conditions = {node.input[0] for node in nodes if node.op_type == "If"}
    for node in nodes:
        callsite, primitive = metadata(node).get("callsite", "nothing"), primitive_of(node)
        # A workaround drops casts of a condition, which ONNX Runtime would confuse.
        fused = metadata(node).get("fused_from", "").split()
        assert not fused or node.output[0] in conditions, "nothing is fused before passes"
        assert all(place in lines for place in fused)
        if lines.get(callsite) in found:
            found[lines[callsite]][primitive] += 1
        else:
            wrong.append(f"{callsite}: `{primitive}` is not asked for there")
    for line, tag in source.tags.items():
        wrong += [f"line {line}: {complaint}" for complaint in tag.complaints(found[line])]
        if tag.constant and line not in constants:
            wrong.append(f"line {line}: no constant")
    report(wrong, nodes)


def check(full: onnx.ModelProto, sources: Sequence[Source]) -> None:
    """Fail unless all lines of nodes are tagged, and every tagged line that counts is there."""
    tags = {(source.file, line): tag for source in sources for line, tag in source.tags.items()}
    places = {
        f"{name}:{line}": (source.file, line) for source in sources for name, line in source.places
    }
    wrong = []
    nodes = nodes_of(full)
    for node in nodes:
        said, primitive = metadata(node), primitive_of(node)
        callsite, frames = said["callsite"], frames_of(node)
        names = [callsite, *said.get("fused_from", "").splitlines()]
        asked = [tags.get(places.get(name, ("", 0))) for name in names]
        wrong += [f"{n}: not tagged" for n, tag in zip(names, asked, strict=True) if tag is None]
        if asked[0] is not None and not asked[0].asks_for(primitive):
            wrong.append(f"{callsite}: `{primitive}` is not asked for there")
        if any(file == __file__ for file, *_ in frames):
            wrong.append(f"{callsite}: the line of the export is in the traceback")
        if callsite in places and (*places[callsite], callsite.rpartition(":")[0]) not in frames:
            wrong.append(f"{callsite}: not in the traceback of `{primitive}`")
    named = {
        places.get(name)
        for said in map(metadata, computed(full))
        for name in (said["callsite"], *said.get("fused_from", "").splitlines())
    }
    for (file, line), tag in tags.items():
        if ((file, line) in named) is tag.dead:
            wrong.append(f"line {line}: {'there' if tag.dead else 'missing'} after passes")
    report(wrong, nodes)


def report(wrong: Sequence[str], nodes: Sequence[onnx.NodeProto]) -> None:
    """Fail with what is wrong, and list the nodes."""
    listed = "\n".join(f"{metadata(n).get('callsite')} {primitive_of(n)}" for n in nodes)
    assert not wrong, "\n".join([*wrong, "the nodes:", textwrap.indent(listed, "  ")])
