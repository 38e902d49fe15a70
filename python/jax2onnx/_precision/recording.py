"""Run a loop once, and keep the values of its iterations."""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .._comparing.arrays import Array
from .._comparing.graphs import LOOPS, Graph, submodel
from .._comparing.levels import BUDGET, Values, attribute, contents
from .._comparing.running import Runner, tensor_type
from .rows import Rows

_LIMIT: Final = "jax2onnx.limit"
_SEEN: Final = "jax2onnx.seen."
_SLICED: Final = "jax2onnx.rows."
#: The suffix of inputs and outputs with one row for each iteration.
ROWS: Final = "|rows"


class UnrecordedError(Exception):
    """A loop contains something whose values cannot be stacked."""


class Recorder:
    """A loop that returns the values of its body, and of the loops inside, for each iteration."""

    def __init__(self, graph: Graph, number: int, values: Values) -> None:
        """Load the loop.

        Args:
            graph: The graph that contains it.
            number: Its node.
            values: Contents of the values that it reads.

        Raises:
            UnrecordedError: The loop contains branches or calls of functions.
        """
        self._graph, self._number = graph, number
        self._names = 0
        #: The name of each recorded value, by the loops around it and its own name.
        self._seen: dict[tuple[int, ...], dict[str, str]] = {}
        self._constants: dict[tuple[int, ...], dict[str, Array]] = {}
        self._bodies: dict[tuple[int, ...], Graph] = {}
        given = {name: values[name] for name in graph.reads(number) if name in values}
        types = {name: ranked_type(array.dtype, array.ndim) for name, array in given.items()}
        part = submodel(graph, [number], types, {})
        node = part.graph.node[0]
        names = self._expose(node, graph, number, ())
        for name in names:
            part.graph.output.add(name=name)
        self._feed_limits(part, node, values)
        self._runner = Runner(part, graph.model, optimize=False)
        self._given = [name for name in given if name in {each.name for each in part.graph.input}]

    def run(self, values: Values, order: tuple[int, ...], most: int) -> tuple[list[Rows], bool]:
        """Run the loop. Returns the values of its iterations, and whether these are all.

        Args:
            values: Contents of the values that the loop reads.
            order: The position of the graph in the order of execution.
            most: The largest number of iterations.
        """
        steps = self._steps(values)
        found = self._runner.run(self._feeds(values, min(1, steps)))
        size = sum(array.nbytes for array in found.values())
        limit = min(steps, most, max(1, BUDGET // max(size, 1)))
        if limit > 1:
            found = self._runner.run(self._feeds(values, limit))
        known = {
            place: {name: found[seen] for name, seen in names.items()}
            for place, names in self._seen.items()
        }
        count = max((len(array) for array in known[self._number,].values()), default=0)
        return list(self._rows(values, known, order)), count < limit or limit == steps

    def _expose(
        self, node: onnx.NodeProto, graph: Graph, number: int, around: tuple[int, ...]
    ) -> list[str]:
        """Add outputs to a loop: the values of its body. Returns their names."""
        bodies = graph.bodies(number)
        if node.op_type not in LOOPS or node.domain or set(bodies) != {"body"}:
            raise UnrecordedError
        body, place = bodies["body"], (*around, number)
        proto = next(each.g for each in node.attribute if each.name == "body")
        del proto.value_info[:]
        self._bodies[place] = body
        seen = self._seen[place] = {}
        constants = self._constants[place] = {}
        passed: list[str] = []
        for inner, original in enumerate(body.nodes):
            written = proto.node[body.numbers[inner]]
            if body.bodies(inner):
                passed += self._expose(written, body, inner, place)
            tensor = next((each for each in original.attribute if each.name == "value"), None)
            if original.op_type == "Constant" and not original.domain and tensor is not None:
                constants[original.output[0]] = numpy_helper.to_array(tensor.t)
                continue
            for name in original.output:
                if name:
                    seen[name] = self._name()
        seen |= {name: self._name() for name in body.inputs}
        skipped = 1 if node.op_type == "Loop" else 0
        missing = len(proto.output) - skipped - len(node.output)
        node.output.extend([""] * missing)
        for name, shown in seen.items():
            proto.node.add(op_type="Identity", input=[name], output=[shown])
        added = [*seen.values(), *passed]
        for name in added:
            proto.output.add(name=name)
        # The loop returns a stack of each of them, with another name.
        stacked = {name: self._name() for name in added}
        node.output.extend(stacked.values())
        for known in self._seen.values():
            known.update(
                {name: stacked[shown] for name, shown in known.items() if shown in stacked}
            )
        for setting in ("scan_output_axes", "scan_output_directions"):
            for each in node.attribute:
                if each.name == setting:
                    each.ints.extend([0] * len(added))
        return list(stacked.values())

    def _name(self) -> str:
        self._names += 1
        return f"{_SEEN}{self._names}"

    def _feed_limits(self, part: onnx.ModelProto, node: onnx.NodeProto, values: Values) -> None:
        """Let inputs of the model say how many iterations there are."""
        if node.op_type == "Loop":
            part.graph.input.add(name=_LIMIT, type=tensor_type(np.int64, ()))
            node.input[0] = _LIMIT
            return
        rows = int(attribute(node, "num_scan_inputs", 0))
        if not rows:
            raise UnrecordedError
        for position in range(len(node.input) - rows, len(node.input)):
            array = contents(self._graph, values, node.input[position])
            name = f"{_SLICED}{position}"
            part.graph.input.add(name=name, type=ranked_type(array.dtype, array.ndim))
            node.input[position] = name

    def _steps(self, values: Values) -> int:
        """Return how many iterations there are at most."""
        node = self._graph.nodes[self._number]
        operands = [contents(self._graph, values, name) for name in node.input]
        if node.op_type == "Scan":
            rows = int(attribute(node, "num_scan_inputs", 0))
            first = operands[len(operands) - rows]
            axis = int(attribute(node, "scan_input_axes", [0] * rows)[0])
            return int(first.shape[axis])
        limit = operands[0]
        return np.iinfo(np.int64).max if limit is None else int(np.asarray(limit).reshape(-1)[0])

    def _feeds(self, values: Values, steps: int) -> dict[str, Array]:
        """Return what the loop reads, for its first iterations."""
        node = self._graph.nodes[self._number]
        feeds: dict[str, Array] = {name: values[name] for name in self._given}
        if node.op_type == "Loop":
            return {**feeds, _LIMIT: np.asarray(steps, np.int64)}
        count = int(attribute(node, "num_scan_inputs", 0))
        axes = attribute(node, "scan_input_axes", [0] * count)
        backward = attribute(node, "scan_input_directions", [0] * count)
        for number in range(count):
            position = len(node.input) - count + number
            array = contents(self._graph, values, node.input[position])
            axis, total = axes[number] % array.ndim, array.shape[axes[number]]
            some = slice(total - steps, total) if backward[number] else slice(steps)
            feeds[f"{_SLICED}{position}"] = array[(slice(None),) * axis + (some,)]
        return feeds

    def _rows(
        self,
        values: Values,
        known: Mapping[tuple[int, ...], Mapping[str, Array]],
        order: tuple[int, ...],
    ) -> Iterator[Rows]:
        """Yield the values of each body, outer bodies first."""
        made: dict[tuple[int, ...], Rows] = {}
        counts: dict[tuple[int, ...], tuple[int, ...]] = {(): ()}
        for place, body in sorted(self._bodies.items(), key=lambda each: len(each[0])):
            depth = len(place)
            shape = next((array.shape[:depth] for array in known[place].values()), (0,) * depth)
            counts[place] = shape
            count = math.prod(shape)
            if not count:
                continue
            stacked = {
                name: array.reshape(count, *array.shape[depth:])
                for name, array in known[place].items()
            }
            fixed = dict(self._constants[place])
            outer = made.get(place[:-1])
            for name in body.captured:
                if outer is None:
                    if name in values:
                        fixed[name] = values[name]
                elif name in outer.values:
                    stacked[name] = np.repeat(outer.values[name], count // len(outer.iterations), 0)
                elif name in outer.fixed:
                    fixed[name] = outer.fixed[name]
            iterations = [tuple(map(int, each)) for each in np.ndindex(*shape)]
            before = tuple(each for inner in place for each in (inner, 0))
            made[place] = Rows(body, (*order, *before), iterations, stacked, fixed)
            yield made[place]


def per_row(part: onnx.ModelProto, stacked: Collection[str]) -> onnx.ModelProto:
    """Return a model that runs the nodes of another one once for each row of some of its inputs.

    Args:
        part: The model. The names of inputs with rows and of results get the suffix `|rows`.
        stacked: The inputs that have rows.
    """
    made = onnx.ModelProto(ir_version=part.ir_version)
    made.opset_import.extend(part.opset_import)
    made.functions.extend(part.functions)
    made.graph.name = "rows"
    made.graph.initializer.extend(part.graph.initializer)
    scan = made.graph.node.add(op_type="Scan")
    body = onnx.GraphProto(name="body", node=part.graph.node, output=part.graph.output)
    for each in part.graph.input:
        if each.name in stacked:
            body.input.append(each)
            scan.input.append(f"{each.name}{ROWS}")
            kind = each.type.tensor_type
            rank = len(kind.shape.dim) + 1
            made.graph.input.add(name=f"{each.name}{ROWS}", type=ranked_type(kind.elem_type, rank))
        else:
            made.graph.input.append(each)
    for each in part.graph.output:
        # ONNX Runtime has to know the rank of each result.
        scan.output.append(f"{each.name}{ROWS}")
        made.graph.output.add(name=f"{each.name}{ROWS}")
    scan.attribute.append(helper.make_attribute("body", body))
    scan.attribute.append(helper.make_attribute("num_scan_inputs", len(scan.input)))
    return made


def ranked_type(dtype: Any, rank: int) -> onnx.TypeProto:
    """Return the type of an array of known rank and unknown sizes; `dtype` may be ONNX's number."""
    if isinstance(dtype, int):
        dtype = helper.tensor_dtype_to_np_dtype(dtype)
    kind = tensor_type(dtype, ())
    for _ in range(rank):
        kind.tensor_type.shape.dim.add()
    return kind
