"""Find the lines of Python behind the nodes of a model."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core
from .._errors import errors_of_core
from .._tiers import is_installed
from .._types import StrPath
from .graphs import Graph
from .models import Loaded


@dataclass(frozen=True)
class SourceLine:
    """A line of Python.

    Attributes:
        file: The file as the model names it; None at the level `minimal`.
        line: The number of the line; None if it is not known.
        function: The qualified name of the function.
        text: The text of the line, if it can be shown.
        excerpt: The line with the expression underlined, as in error messages.
        is_users: Whether the file is the user's, and not that of a library.
    """

    file: str | None
    line: int | None
    function: str
    text: str | None = None
    excerpt: str = ""
    is_users: bool = True

    @property
    def place(self) -> tuple[str | None, int | None, str]:
        """What makes it the same line as another one."""
        return self.file, self.line, "" if self.file else self.function

    def __str__(self) -> str:
        """Return `model.py:12, in forward`."""
        place = f"{self.file}:{self.line}" if self.file else f"line {self.line}"
        return f"{place}, in {self.function}" if self.function else place

    def to_json(self) -> dict[str, Any]:
        """Return the line as data for JSON."""
        return {
            "file": self.file,
            "line": self.line,
            "function": self.function,
            "text": self.text,
        }


class Lines:
    """The lines of all nodes of a model.

    Attributes:
        frames: All lines.
        unknown: Why a node has no line, and what to do about it.
    """

    def __init__(
        self, model: Loaded, source_map: StrPath | None = None, roots: Sequence[StrPath] = ()
    ) -> None:
        """Read the provenance of the model, or of its source map."""
        with errors_of_core():
            answer = _core.model_lines(
                model.source,
                source_map=None if source_map is None else os.fspath(source_map),
                source_roots=[os.fspath(root) for root in roots],
            )
        document = json.loads(answer)
        self.frames = [
            SourceLine(
                each["file"],
                each["line"],
                each["function"],
                each["text"],
                each["excerpt"],
                each["tier"] == "user" and not is_installed(each["file"] or ""),
            )
            for each in document["frames"]
        ]
        missing = document["missing"]
        self.unknown = (
            "the model does not record it: another tool added the node"
            if missing is None
            else str(missing)
        )
        graphs = document["graphs"]
        #: The number of each graph: by the function, or by the node and the attribute.
        self._numbers: dict[Any, int] = {}
        self._nodes = [[frames for _, frames in graph["nodes"]] for graph in graphs]
        self._weights = [dict(graph["weights"]) for graph in graphs]
        for number, graph in enumerate(graphs):
            if graph["function"] is not None:
                self._numbers["function", graph["function"]] = number
            elif graph["node"] is not None:
                self._numbers[graph["node"], graph["attribute"]] = number
            else:
                self._numbers[("main",)] = number
        self._first = [graph["first"] for graph in graphs]

    @property
    def exist(self) -> bool:
        """Whether any node has a line."""
        return bool(self.frames)

    def of_node(self, graph: Graph, number: int) -> list[SourceLine]:
        """Return the lines of a node, the one to show first at the front."""
        place = self._graph(graph.place)
        position = graph.numbers[number]
        if place is None or position >= len(self._nodes[place]):
            return []
        return [self.frames[each] for each in self._nodes[place][position]]

    def of_nodes(self, graph: Graph, numbers: Iterable[int]) -> list[SourceLine]:
        """Return the lines of some nodes, each once."""
        found = (line for number in numbers for line in self.of_node(graph, number))
        return list({line.place: line for line in reversed(list(found))}.values())[::-1]

    def of_weight(self, graph: Graph, name: str) -> list[SourceLine]:
        """Return the lines that read a weight."""
        at: Graph | None = graph
        while at is not None:
            place = self._graph(at.place)
            if place is not None and name in self._weights[place]:
                return [self.frames[each] for each in self._weights[place][name]]
            at = at.outer
        return []

    def _graph(self, place: Sequence[Any]) -> int | None:
        """Return the number of a graph: `("main", 3, "body")` is the body of node 3."""
        if place[0] == "function":
            number = self._numbers.get(("function", place[1]))
            rest = place[2:]
        else:
            number, rest = self._numbers.get(("main",)), place[1:]
        for node, attribute in zip(rest[::2], rest[1::2], strict=True):
            if number is None:
                return None
            number = self._numbers.get((self._first[number] + node, attribute))
        return number
