"""Find which execution provider runs each line of the user, and what is copied between devices."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .. import _core, _files
from .._errors import ConfigError, errors_of_core
from .._types import StrPath
from .explain import Line, explain, line_of, path_or_bytes
from .observed import CPU, names_of, observed, runtime

if TYPE_CHECKING:
    from .explain import Model


@dataclass(frozen=True)
class PlacedNode:
    """A node as ONNX Runtime runs it.

    Attributes:
        name: The name of the node.
        op: The operator.
        provider: The execution provider that runs it; None if ONNX Runtime does not say.
    """

    name: str
    op: str
    provider: str | None


@dataclass(frozen=True)
class Copy:
    """A copy of a value between devices.

    Attributes:
        node: The node that ONNX Runtime inserted.
        direction: `"to_cpu"` or `"from_cpu"`.
        value: The name of the value; None if it is unknown.
        type: Its type, such as `"f32[8,8]"`; None if it is unknown.
        bytes: Its size; None if it is unknown.
        calls: How often a run makes the copy; None if nothing ran.
        made_by: The line that computes the value; None if it is unknown.
        read_by: The lines that read the copy.
    """

    node: str
    direction: Literal["to_cpu", "from_cpu"]
    value: str | None
    type: str | None
    bytes: int | None
    calls: int | None
    made_by: Line | None
    read_by: tuple[Line, ...]


@dataclass(frozen=True)
class PlacedLine:
    """The placement of a line.

    Attributes:
        line: The line of Python; None for the nodes without a line.
        providers: The execution providers that run its nodes.
        nodes: Its nodes.
        copies: The copies that its nodes on the CPU need.
        advice: An edit that would remove a copy; None if none is known.
    """

    line: Line | None
    providers: tuple[str, ...]
    nodes: tuple[PlacedNode, ...]
    copies: tuple[Copy, ...]
    advice: str | None


@dataclass(frozen=True)
class Placement:
    """The placement of a model. Prints as a sentence and a table of the lines that run elsewhere.

    Attributes:
        summary: The placement in a sentence.
        source: What says it: `"assignment"` of a session, or a `"profile"`.
        providers: The number of nodes of each execution provider. The key None is for nodes of
            which ONNX Runtime does not say where they run.
        lines: The lines, those with the most copies first.
        copies: The number of copies between devices; None if it is unknown.
    """

    summary: str
    source: Literal["assignment", "profile"]
    providers: Mapping[str | None, int]
    lines: tuple[PlacedLine, ...]
    copies: int | None
    _text: str

    def __str__(self) -> str:
        """Return the sentence and the table."""
        return self._text.rstrip()

    __repr__ = __str__


def placement(
    model: "Model",
    providers: Sequence[Any] = (CPU,),
    *,
    top: int = 20,
    session_options: Any = None,
    source_map: StrPath | None = None,
    source_roots: Sequence[StrPath] = (),
) -> Placement:
    """Find which execution provider of ONNX Runtime would run each line of Python.

    This creates a session and runs nothing. It needs ONNX Runtime 1.24 or newer, and a machine on
    which the providers work. For older versions, `jax2onnx.profile` finds the same from a run.

    Args:
        model: The path of the model, an `onnx.ModelProto`, or bytes.
        providers: The execution providers of ONNX Runtime, in the order of preference.
        top: The number of lines to print.
        session_options: The options of the session. If they contain providers, `providers` is
            ignored.
        source_map: The source map of the model, by default `<model>.map`.
        source_roots: Folders with source files, in addition to the current directory.

    Returns:
        The placement, which prints as a table.

    Raises:
        ConfigError: An argument is not valid, ONNX Runtime is not installed or too old, or a
            provider is not available.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax2onnx
        >>> model = jax2onnx.to_onnx(lambda x: jnp.tanh(x) / 2, [(3,)])
        >>> jax2onnx.placement(model, ["CPUExecutionProvider"])
        2 of 2 nodes run on CPUExecutionProvider
    """
    onnxruntime = runtime("placement")
    source = path_or_bytes(model)
    available = onnxruntime.get_available_providers()
    has_providers = getattr(session_options, "has_providers", lambda: False)()
    for name in [] if has_providers else names_of(providers):
        if name not in available:
            raise ConfigError(f"ONNX Runtime has no `{name}` here: it has {', '.join(available)}")
    with _files.Scratch() as scratch:
        with explain(source, source_map=source_map, source_roots=source_roots):
            found = observed(
                onnxruntime,
                source,
                providers,
                session_options,
                scratch.path / "optimized.onnx",
                {},
                # Otherwise, the session of a provider that fails runs on the CPU.
                enable_fallback=0,
            )
        if found.assigned is None:
            raise ConfigError(
                f"ONNX Runtime {onnxruntime.__version__} does not say where a session runs its "
                "nodes: use 1.24 or newer, or `jax2onnx.profile`"
            )
        form = found.form(scratch, source, source_map)
        with errors_of_core():
            text, data = _core.placement_summary(
                form.model,
                found.assigned,
                is_optimized=found.optimized is not None,
                top=top,
                source_map=form.source_map,
                exported=form.exported,
                source_roots=[os.fspath(root) for root in source_roots],
            )
    return placement_of(json.loads(data), text)


def placement_of(data: dict[str, Any], text: str) -> Placement:
    """Convert a placement in an answer of the core."""

    def line(frame: dict[str, Any] | None) -> Line | None:
        return None if frame is None else line_of(frame)

    def copy(entry: dict[str, Any]) -> Copy:
        return Copy(
            node=entry["node"],
            direction=entry["direction"],
            value=entry["value"],
            type=entry["type"],
            bytes=entry["bytes"],
            calls=entry["calls"],
            made_by=line(entry["from"]),
            read_by=tuple(line_of(frame) for frame in entry["to"]),
        )

    def placed(entry: dict[str, Any]) -> PlacedLine:
        return PlacedLine(
            line=line(entry["line"]),
            providers=tuple(entry["providers"]),
            nodes=tuple(
                PlacedNode(node["node"], node["op"], node["provider"]) for node in entry["nodes"]
            ),
            copies=tuple(copy(it) for it in entry["copies"]),
            advice=entry["advice"],
        )

    return Placement(
        summary=data["summary"],
        source=data["source"],
        providers={it["provider"]: it["nodes"] for it in data["providers"]},
        lines=tuple(placed(entry) for entry in data["lines"]),
        copies=data["copies"],
        _text=text,
    )
