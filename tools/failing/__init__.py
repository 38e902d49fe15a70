"""Programs that fail in ONNX Runtime, each with the line that is to blame.

A failure is a function that gives what to export and how it fails. The line to blame ends in
`# <- fails`. Where a message says nothing about a node there is no such line, and `explain` has to
say that it does not know.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx

#: What is kept of a failure: the exception, the lines of the C++ log, both; colours as the log has
#: them, or lines as a narrow terminal wraps them.
Form = Literal["exception", "log", "both", "colour", "wrapped"]
#: Who complains.
Judge = Literal["session", "checker", "inference"]

LEVELS = ("disable", "basic", "extended", "all")
MARK = "# <- fails"


@dataclass
class Failing:
    """A function to export, and what makes its model fail."""

    fn: Callable[..., Any]
    inputs: Sequence[Any]
    #: What is fed; nothing where the model must not load.
    feeds: Mapping[str, Any] | None = None
    #: What is done to the model before it is loaded.
    damage: Callable[[onnx.ModelProto], None] | None = None
    #: What is done to the files beside the model.
    spoil: Callable[[Path], None] | None = None
    form: Form = "exception"
    levels: Sequence[str] = LEVELS
    #: Whether the provenance is in a map rather than in the model.
    has_map: bool = False
    judge: Judge = "session"
    #: Further arguments of `to_onnx`.
    options: Mapping[str, Any] = field(default_factory=dict)
    #: The outputs that are asked for.
    outputs: Sequence[str] | None = None
    #: Further feeds that fail, in the same log.
    more_feeds: Sequence[Mapping[str, Any]] = ()


Build = Callable[[], Failing]
FAILURES: dict[str, Build] = {}


def failure(build: Build) -> Build:
    """Make a function a failure of the corpus."""
    FAILURES[build.__name__] = build
    return build


def lines_to_blame(build: Build, runtime: str = "") -> list[int]:
    """The lines of a failure that are marked for a runtime, or else those for every runtime."""
    lines, start = inspect.getsourcelines(build)
    marked = [
        (start + index, line.split(MARK)[1].removeprefix(" in").replace(" ", "").strip())
        for index, line in enumerate(lines)
        if MARK in line
    ]
    own = [line for line, runtimes in marked if runtime and runtime in runtimes.split(",")]
    return own or [line for line, runtimes in marked if not runtimes]


def floats(*shape: int) -> np.ndarray:
    """Numbers that are all different."""
    return (np.arange(np.prod(shape), dtype=np.float32) / 8 + 0.5).reshape(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def scalar(value: int) -> np.ndarray:
    return np.array(value, np.int32)


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Every node, of bodies too."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)


def node_of(model: onnx.ModelProto, op: str, which: int = 0) -> onnx.NodeProto:
    """A node of the main graph, by its operator."""
    return [node for node in model.graph.node if node.op_type == op][which]
