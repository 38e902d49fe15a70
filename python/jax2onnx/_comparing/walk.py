"""Walk through a model and its bodies, in the order of execution."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from .. import _progress
from .arrays import Array
from .graphs import Graph
from .levels import Level, Values, contents, drive


class Oracle(Protocol):
    """Knows the contents of some values of a graph in one iteration."""

    def take(self, name: str) -> "Array | None":
        """Return the contents of a value; None if they are not known. Each is asked for once."""

    def body(self, graph: Graph, iteration: int | None) -> "Oracle | None":
        """Return what knows the contents of a body in an iteration."""


class Place:
    """Where a walk is.

    Attributes:
        graph: The graph.
        iterations: The iteration of each loop around it, outermost first.
        order: The position in the order of execution: the node, the iteration, the node in the
            body and so on.
    """

    def __init__(self, graph: Graph, iterations: tuple[int, ...], order: tuple[int, ...]) -> None:
        """Describe a place."""
        self.graph, self.iterations, self.order = graph, iterations, order


class Visitor(Protocol):
    """Looks at the values of a graph."""

    def level(self, graph: Graph) -> Level:
        """Return the plan to run a graph; called once per graph."""

    def part(self, place: Place, start: int, stop: int, values: Values) -> None:
        """Look at the values that some nodes computed."""

    def check_input(self, place: Place, name: str, got: Array, expected: Array) -> None:
        """Look at what a loop of the reference passes to its body."""

    def enters(self, place: Place, number: int, values: Values) -> bool:
        """Return whether to walk through the bodies of a node."""


class Walk:
    """Runs a model, and shows a visitor all of its values."""

    def __init__(self, visitor: Visitor) -> None:
        """Walk for a visitor."""
        self._visitor = visitor
        self._levels: dict[Any, Level] = {}
        self._seen = 0

    def run(self, graph: Graph, feeds: Mapping[str, Array], oracle: Oracle | None = None) -> Values:
        """Run the main graph. Returns the contents of its outputs."""
        return self._visit(Place(graph, (), ()), dict(feeds), oracle)

    def _visit(self, place: Place, values: Values, oracle: Oracle | None) -> Values:
        graph = place.graph
        if graph.key not in self._levels:
            self._levels[graph.key] = self._visitor.level(graph)
        level = self._levels[graph.key]
        if oracle is not None and level.given:
            for name in graph.inputs:
                known = oracle.take(name) if name in level.given else None
                if known is not None:
                    self._visitor.check_input(place, name, values[name], known)
                    values[name] = known
        for part in level.run(values, None if oracle is None else oracle.take):
            self._visitor.part(place, part.start, part.stop, values)
            for number in range(part.start, part.stop):
                if graph.bodies(number) and self._visitor.enters(place, number, values):
                    self._enter(place, number, values, oracle)
            if not graph.key:
                _progress.stage(f"comparing node {part.stop} of {len(graph.nodes)}")
        return {name: contents(graph, values, name) for name in graph.outputs}

    def _enter(self, place: Place, number: int, values: Values, oracle: Oracle | None) -> None:
        graph = place.graph
        bodies = graph.bodies(number)

        def visit(attribute: str, iteration: int | None, inputs: list[Any]) -> list[Any]:
            body = bodies[attribute]
            fed = dict(zip(body.inputs, inputs, strict=False))
            fed = {name: np.asarray(array) for name, array in fed.items() if array is not None}
            fed |= _captured(body, graph, values)
            iterations = place.iterations if iteration is None else (*place.iterations, iteration)
            inner = Place(body, iterations, (*place.order, number, iteration or 0))
            known = None if oracle is None else oracle.body(body, iteration)
            outputs = self._visit(inner, fed, known)
            if iteration is not None and iteration % 256 == 255:
                _progress.stage(f"comparing iteration {iteration + 1}")
            return [outputs[name] for name in body.outputs]

        drive(graph, number, values, visit)


def _captured(body: Graph, graph: Graph, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return the contents of the values around a body that it reads."""
    names: Iterable[str] = body.captured if body.outer is not None else ()
    return {
        name: values[name] for name in names if name in values and graph.initializer(name) is None
    }
