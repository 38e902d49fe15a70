"""Run a graph so that every value is seen: part by part, and the bodies of loops step by step."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import onnx

from .arrays import Array
from .graphs import FUNCTION, Graph, submodel
from .running import Runner, tensor_type

#: How many bytes of values one part of a graph may compute.
BUDGET: Final = 1 << 28
_FIRST_PART: Final = 64
_MIN_PART, _MAX_PART = 4, 1024
#: A body is run many times, in few parts.
_BODY_PART: Final = 512

Values: TypeAlias = dict[str, Array]
Known: TypeAlias = Callable[[str], "Array | None"]
#: Visits a body: its attribute, the iteration, and the contents of its inputs. Returns the contents
#: of its outputs.
Visit: TypeAlias = Callable[[str, int | None, list[Any]], list[Any]]


class Part:
    """Consecutive nodes of a graph, and the models that compute their values."""

    def __init__(self, start: int, stop: int) -> None:
        """Describe the nodes from `start` to `stop`."""
        self.start, self.stop = start, stop
        #: The model and what it is fed, for each set of values that nobody knew.
        self.runners: dict[frozenset[str], tuple[Runner | None, list[str]]] = {}


class Level:
    """A graph whose values are computed by its own nodes, except for those that are given.

    Attributes:
        graph: The graph.
        given: The values whose contents somebody else knows better.
        last_use: The number of the last node that needs each value.
    """

    def __init__(self, graph: Graph, given: frozenset[str] = frozenset()) -> None:
        """Plan to run a graph."""
        self.graph = graph
        self.given = given
        self.last_use: dict[str, int] = {}
        for number in range(len(graph.nodes)):
            for name in graph.reads(number):
                self.last_use[name] = number
        for name in graph.outputs:
            self.last_use[name] = len(graph.nodes)
        self._parts: list[Part] = []
        self._size = _BODY_PART if graph.key else _FIRST_PART

    def needs(self, name: str, number: int) -> None:
        """Note that somebody needs a value when the nodes up to `number` have run."""
        self.last_use[name] = max(self.last_use.get(name, -1), number)

    def run(self, values: Values, known: Known | None = None) -> Iterator[Part]:
        """Compute all values, and yield each part after it ran.

        Args:
            values: The inputs and the captured values, by name. The others are added, and dropped
                when nobody needs them any more.
            known: Returns the contents of a given value, or None if it does not know them.
        """
        position = start = 0
        while start < len(self.graph.nodes) or position == 0:
            if position == len(self._parts):
                stop = min(len(self.graph.nodes), start + self._size)
                self._parts.append(Part(start, stop))
            part = self._parts[position]
            missing = self._fetch(part, values, known)
            if missing not in part.runners:
                part.runners[missing] = self._planned(part, self.given - missing, values)
            runner, fed = part.runners[missing]
            if runner is not None:
                values.update(runner.run({name: values[name] for name in fed}))
            if position == len(self._parts) - 1 and not self.graph.key:
                self._adapt(part, values)
            yield part
            for name in [name for name in values if self.last_use.get(name, -1) < part.stop]:
                del values[name]
            position, start = position + 1, part.stop

    def _fetch(self, part: Part, values: Values, known: Known | None) -> frozenset[str]:
        """Add the given values of a part. Returns those that nobody knows."""
        missing = set()
        for number in range(part.start, part.stop) if self.given else ():
            for name in self.graph.nodes[number].output:
                if name in self.given:
                    found = None if known is None else known(name)
                    if found is None:
                        missing.add(name)
                    else:
                        values[name] = found
        return frozenset(missing)

    def _planned(
        self, part: Part, given: frozenset[str], values: Values
    ) -> tuple[Runner | None, list[str]]:
        """Make the model that computes the values of a part that are not given."""
        nodes = self.graph.nodes
        wanted = [
            number
            for number in range(part.start, part.stop)
            if any(name and name not in given for name in nodes[number].output)
        ]
        if not wanted:
            return None, []
        while True:
            try:
                return self._runner(wanted, given, values)
            except KeyError as missing:
                # A sequence or a type that NumPy lacks cannot be passed on: compute it here too.
                first = self.graph.produced.get(missing.args[0])
                if first is None or first in wanted:
                    raise
                wanted.append(first)

    def _runner(
        self, wanted: list[int], given: frozenset[str], values: Values
    ) -> tuple[Runner, list[str]]:
        graph = self.graph
        produced = {
            name for number in wanted for name in graph.nodes[number].output if name
        } - given
        read = dict.fromkeys(name for number in wanted for name in graph.reads(number))
        fed = [
            name
            for name in read
            if name not in produced and (name in values or graph.initializer(name) is None)
        ]
        types = {name: tensor_type(values[name].dtype) for name in fed}
        # A node may compute given values beside others.
        beside = {name for number in wanted for name in graph.nodes[number].output} & set(fed)
        outputs = {name: name for name in sorted(produced)}
        outputs |= {name: f"{name}|again" for name in beside}
        return Runner(submodel(graph, wanted, types, outputs), graph.model, optimize=False), fed

    def _adapt(self, part: Part, values: Values) -> None:
        """Choose the size of the next part by the bytes of this one."""
        names = (name for n in range(part.start, part.stop) for name in self.graph.nodes[n].output)
        count = sum(values[name].nbytes for name in names if name in values)
        wanted = int((part.stop - part.start) * BUDGET / max(count, 1))
        self._size = min(max(wanted, _MIN_PART), _MAX_PART, 4 * self._size)


def contents(graph: Graph, values: Mapping[str, Array], name: str) -> Any:
    """Return the contents of a value that a node reads; None if it is left out."""
    if not name:
        return None
    if name in values:
        return values[name]
    tensor = graph.initializer(name)
    return None if tensor is None else graph.model.array(tensor)


def drive(graph: Graph, number: int, values: Mapping[str, Array], visit: Visit) -> None:
    """Run the bodies of a node one iteration after another, or the branch that is taken."""
    node = graph.nodes[number]
    operands = [contents(graph, values, name) for name in node.input]
    if FUNCTION in graph.bodies(number):
        body = graph.bodies(number)[FUNCTION]
        missing = len(body.inputs) - len(operands)
        visit(FUNCTION, None, [*operands, *[None] * missing])
    elif node.op_type == "If":
        taken = bool(np.asarray(operands[0]).reshape(-1)[0])
        visit("then_branch" if taken else "else_branch", None, [])
    elif node.op_type == "Scan":
        _scan(node, operands, visit)
    elif node.op_type == "Loop":
        _loop(operands, visit)


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """Return an attribute of a node."""
    for each in node.attribute:
        if each.name == name:
            return onnx.helper.get_attribute_value(each)
    return default


def _scan(node: onnx.NodeProto, operands: list[Any], visit: Visit) -> None:
    count = attribute(node, "num_scan_inputs", 0)
    states, rows = operands[: len(operands) - count], operands[len(operands) - count :]
    axes = attribute(node, "scan_input_axes", [0] * count)
    directions = attribute(node, "scan_input_directions", [0] * count)
    steps = rows[0].shape[axes[0]] if rows else 0
    for step in range(steps):
        slices = [
            row[(slice(None),) * (axis % row.ndim) + (steps - 1 - step if backward else step,)]
            for row, axis, backward in zip(rows, axes, directions, strict=True)
        ]
        states = visit("body", step, [*states, *map(np.asarray, slices)])[: len(states)]


def _loop(operands: list[Any], visit: Visit) -> None:
    limit, condition, *carried = operands
    steps = np.iinfo(np.int64).max if limit is None else int(np.asarray(limit).reshape(-1)[0])
    goes_on = condition is None or bool(np.asarray(condition).reshape(-1)[0])
    step = 0
    while goes_on and step < steps:
        inputs = [np.asarray(step, np.int64), np.asarray(True), *carried]
        outputs = visit("body", step, inputs)
        goes_on = bool(np.asarray(outputs[0]).reshape(-1)[0])
        carried = outputs[1 : 1 + len(carried)]
        step += 1
