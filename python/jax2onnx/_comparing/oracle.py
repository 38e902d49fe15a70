"""Know what JAX computes for the values of a model, by the pairs of the export."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .._tracing.compat import double_precision_kept
from .graphs import FUNCTION, LOOPS, Graph, Key
from .jaxprs import INPUT, LOOP_BODIES, Evaluator, Frame, Path, Variable, Wanted
from .reference import in_parts

if TYPE_CHECKING:
    from .._pairs import Pair, ViewStep
    from .arrays import Array

_LOOPING: Final = ("each", "next")


@dataclass(frozen=True)
class Held:
    """The variable that a value holds, in which rounds, and how its elements are arranged.

    Attributes:
        steps: The steps from the variable to the value: the axes of a transpose, or a shape.
    """

    variable: Variable
    iterations: tuple[int | str, ...]
    steps: "Sequence[ViewStep]" = ()


class JaxValues:
    """The values of a model whose contents JAX knows.

    Attributes:
        given: The names of these values, by graph.
        equations: The number of equations that compute something of the model.
        paired: The number of equations whose result is a value of the model.
        covered: The number of equations that a node computes as a part of something else.
    """

    def __init__(
        self,
        closed_jaxpr: Any,
        pairs: "Sequence[Pair]",
        graph: Graph,
        inputs: Sequence[Any],
        sizes: Mapping[str, int],
        *,
        double: bool,
    ) -> None:
        """Read the pairs of an export, whose main graph is `graph`."""
        self._double = double
        self.held: dict[Key, dict[str, Held]] = {}
        #: The values that are right with other contents, too.
        self.ambiguous: dict[Key, set[str]] = {}
        self._loops = _loops_of(closed_jaxpr)
        graphs = {each.key: each for each in _all_graphs(graph)}
        for pair in pairs:
            if pair["how"] == "same":
                self._add(pair, graphs, ())
        for pair in pairs:
            if pair["how"] == "view" and (steps := _steps_back(pair)):
                self._add(pair, graphs, steps)
        self.given = {key: frozenset(held) for key, held in self.held.items()}
        known = {(tuple(map(tuple, pair["path"])), pair["eqn"]) for pair in pairs}
        unused = _equations(pair for pair in pairs if pair["how"] == "unused")
        same = _equations(
            pair
            for pair in pairs
            if pair["how"] == "same" or (pair["how"] == "view" and _steps_back(pair))
        )
        counted = {each for each in known if each[1] >= 0}
        self.equations = max(len(counted - (unused - same)), len(same))
        self.paired = len(same)
        others = _equations(pair for pair in pairs if pair["how"] in ("view", "covered"))
        self.covered = len(others - same)
        wanted = Wanted(
            frozenset(each.variable for held in self.held.values() for each in held.values())
        )
        self._in_bodies = {
            each.variable for key, held in self.held.items() if key for each in held.values()
        }
        self._evaluator = Evaluator(sizes)
        self._program = closed_jaxpr, inputs, wanted
        self._restart()

    def _restart(self) -> None:
        jaxpr, inputs, wanted = self._program
        #: How many values of the main graph hold each variable.
        self._uses = Counter(each.variable for each in self.held.get((), {}).values())
        self._main = Frame(self._evaluator, jaxpr, inputs, (), wanted)

    def _add(self, pair: "Pair", graphs: Mapping[Key, Graph], steps: "Sequence[ViewStep]") -> None:
        key = tuple((node, FUNCTION if body is None else body) for node, body in pair["graph"])
        graph = graphs.get(key)
        name = pair["value"]
        if graph is None or (name not in graph.produced and name not in graph.inputs):
            return
        if not key and name in graph.inputs:
            return
        path: Path = tuple((step[0], step[1], step[2]) for step in pair["path"])
        iterations = tuple(pair["iterations"])
        loops = sum(_is_loop(each) for each in _nodes_around(graph))
        looping = sum(each in _LOOPING for each in iterations)
        if looping == loops and pair["eqn"] >= INPUT:
            held = Held((path, pair["eqn"], pair["out"]), iterations, steps)
            self.held.setdefault(key, {}).setdefault(name, held)
            if pair.get("ambiguous"):
                self.ambiguous.setdefault(key, set()).add(name)

    def oracle(self, graph: Graph) -> "JaxOracle":
        """Return what knows the values of the main graph, for one walk."""
        self._restart()
        return JaxOracle(self, graph, ())

    def results(self) -> "list[Array]":
        """Return the results of the function."""
        with double_precision_kept(self._double):
            return [in_parts(each) for each in self._main.finish()]

    def contents(self, key: Key, name: str, rounds: Sequence[int]) -> "Array | None":
        """Return the contents of a value in a round of each loop around it."""
        held = self.held[key][name]
        path, _, _ = held.variable
        waiting, wanted = iter(rounds), iter(held.iterations)
        frame: Frame | None = self._main
        with double_precision_kept(self._double):
            for depth, (index, param, _) in enumerate(path):
                if not self._is_loop_body(path[: depth + 1]):
                    continue
                if frame is None:
                    return None
                loop = frame.loop((*path[:depth], (index, "", 0)))
                if loop is None:
                    return None
                entry = next(wanted)
                if entry in _LOOPING:
                    round_ = next(waiting) + (entry == "next")
                else:
                    round_ = 0 if isinstance(entry, str) else entry
                frame = loop.frame(round_, param)
            if frame is None:
                return None
            found = frame.get(held.variable)
            if frame is self._main and not key:
                self._uses[held.variable] -= 1
                if self._uses[held.variable] <= 0 and held.variable not in self._in_bodies:
                    frame.drop(held.variable)
            return None if found is None else _arranged(in_parts(found), held.steps)

    def _is_loop_body(self, path: Path) -> bool:
        return path in self._loops


class JaxOracle:
    """Knows the values of one graph in one round of each loop around it."""

    def __init__(self, values: JaxValues, graph: Graph, rounds: tuple[int, ...]) -> None:
        """Know a graph."""
        self._values, self._graph, self._rounds = values, graph, rounds

    def take(self, name: str) -> "Array | None":
        """Return the contents of a value; None if JAX does not compute it in this round."""
        return self._values.contents(self._graph.key, name, self._rounds)

    def body(self, graph: Graph, iteration: int | None) -> "JaxOracle":
        """Return what knows the values of a body."""
        rounds = self._rounds if iteration is None else (*self._rounds, iteration)
        return JaxOracle(self._values, graph, rounds)


def _steps_back(pair: "Pair") -> "list[ViewStep]":
    """Return the steps from a variable to a view of it, or none if a size is unknown."""
    shape = pair.get("shape")
    if shape is None or pair["parts"]:
        return []
    back: list[ViewStep] = []
    for kind, numbers in pair["view"]:
        if kind == "transpose":
            order = sorted(range(len(numbers)), key=lambda axis: numbers[axis])
            back.append(("transpose", order))
            shape = [shape[axis] for axis in numbers]
        else:
            back.append(("reshape", shape))
            shape = numbers
    return back[::-1]


def _arranged(array: "Array", steps: "Sequence[ViewStep]") -> "Array":
    for kind, numbers in steps:
        array = array.transpose(numbers) if kind == "transpose" else array.reshape(numbers)
    return array


def _equations(pairs: Any) -> set[tuple[Any, int]]:
    return {(tuple(map(tuple, pair["path"])), pair["eqn"]) for pair in pairs if pair["eqn"] >= 0}


def _all_graphs(graph: Graph) -> list[Graph]:
    found = [graph]
    for number in range(len(graph.nodes)):
        for body in graph.bodies(number).values():
            found += _all_graphs(body)
    return found


def _nodes_around(graph: Graph) -> list[Any]:
    nodes = []
    at = graph
    while at.around is not None and at.owner is not None:
        nodes.append((at.around.nodes[at.owner], at.key[-1][1]))
        at = at.around
    return nodes


def _is_loop(entry: Any) -> bool:
    node, attribute = entry
    return node.op_type in LOOPS and attribute != FUNCTION


def _loops_of(closed_jaxpr: Any) -> frozenset[Path]:
    """Return the ways to all bodies of loops."""
    found: set[Path] = set()

    def visit(body: Any, path: Path) -> None:
        jaxpr = getattr(body, "jaxpr", body)
        for index, eqn in enumerate(jaxpr.eqns):
            for param, value in eqn.params.items():
                inner = value if isinstance(value, tuple | list) else (value,)
                for position, each in enumerate(inner):
                    if hasattr(getattr(each, "jaxpr", each), "eqns"):
                        way = (*path, (index, param, position))
                        if param in LOOP_BODIES.get(eqn.primitive.name, ()):
                            found.add(way)
                        visit(each, way)

    visit(closed_jaxpr, ())
    return frozenset(found)
