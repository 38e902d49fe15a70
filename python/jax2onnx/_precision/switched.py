"""Make a model in which groups of nodes can be rounded, each on its own, without a new session."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .._comparing.arrays import Array
from .._comparing.graphs import Graph, main
from .._comparing.models import Loaded
from .._comparing.running import Runner, tensor_type
from .formats import Format, scale_of, stored
from .sites import INSIDE, VALUES, WEIGHTS, Facts, Part, Site, is_long, weight_axis

_FLAGS: Final = "jax2onnx.flags"
_FLAG: Final = "jax2onnx.flag."
_OWN: Final = "jax2onnx.own."

Types = Mapping[tuple[tuple[Any, ...], str], np.dtype[Any]]
Ranges = Mapping[tuple[tuple[Any, ...], str], tuple[float, float]]


class Switched:
    """A model that rounds the groups of nodes that a run chooses."""

    def __init__(
        self,
        loaded: Loaded,
        groups: Sequence[Collection[Part]],
        facts: Mapping[Site, Facts],
        types: Types,
        ranges: Ranges,
        kind: Format,
    ) -> None:
        """Load the model.

        Args:
            loaded: The model.
            groups: The parts of nodes in each group.
            facts: What is known of the nodes.
            types: The types of the values of each graph.
            ranges: The smallest and the largest element of each value of each graph.
            kind: The type to round to.
        """
        self._count = len(groups)
        writer = _Writer(loaded, groups, facts, types, ranges, kind)
        self._runner = Runner(writer.model(), loaded, optimize=False)

    def run(self, feeds: Mapping[str, Array], chosen: Iterable[int]) -> dict[str, Array]:
        """Run the model with some groups rounded. Returns its outputs."""
        flags = np.zeros(self._count, np.bool_)
        flags[list(chosen)] = True
        return self._runner.run({**feeds, _FLAGS: flags})


class _Writer:
    """Writes the model."""

    def __init__(
        self,
        loaded: Loaded,
        groups: Sequence[Collection[Part]],
        facts: Mapping[Site, Facts],
        types: Types,
        ranges: Ranges,
        kind: Format,
    ) -> None:
        self._loaded, self._format = loaded, kind
        self._groups: dict[Site, dict[str, int]] = {}
        for number, parts in enumerate(groups):
            for site, part in parts:
                self._groups.setdefault(site, {})[part] = number
        self._count = len(groups)
        self._facts, self._types, self._ranges = facts, types, ranges
        self._names = 0
        self._functions = {
            (each.domain, each.name, each.overload) for each in loaded.proto.functions
        }

    def model(self) -> onnx.ModelProto:
        """Return the model."""
        before = self._loaded.proto
        model = onnx.ModelProto(ir_version=max(before.ir_version, 8))
        model.opset_import.extend(before.opset_import)
        graph = before.graph
        model.graph.name = graph.name or "graph"
        model.graph.input.extend(graph.input)
        model.graph.input.add(name=_FLAGS, type=tensor_type(np.bool_, [self._count]))
        model.graph.output.extend(graph.output)
        model.graph.initializer.extend(graph.initializer)
        model.graph.sparse_initializer.extend(graph.sparse_initializer)
        order = main(self._loaded).numbers
        model.graph.node.extend(self._split())
        model.graph.node.extend(self._nodes(graph.node, ("main",), order))
        for function in before.functions:
            model.functions.add().CopyFrom(self._function(function))
        return model

    def _split(self) -> list[onnx.NodeProto]:
        """Return nodes that compute a value for each flag."""
        found = []
        for number in range(self._count):
            index = f"{_OWN}index.{number}"
            tensor = numpy_helper.from_array(np.asarray(number, np.int64))
            found.append(helper.make_node("Constant", [], [index], value=tensor))
            found.append(helper.make_node("Gather", [_FLAGS, index], [f"{_FLAG}{number}"]))
        return found

    def _function(self, function: onnx.FunctionProto) -> onnx.FunctionProto:
        """Return a function that takes the flags as one more operand."""
        found = onnx.FunctionProto()
        found.CopyFrom(function)
        found.input.append(_FLAGS)
        del found.node[:]
        found.node.extend(self._split())
        place = ("function", f"{function.domain}::{function.name}")
        found.node.extend(self._nodes(function.node, place, range(len(function.node))))
        del found.value_info[:]
        return found

    def _nodes(
        self, nodes: Sequence[onnx.NodeProto], place: tuple[Any, ...], order: Iterable[int]
    ) -> list[onnx.NodeProto]:
        return [self._node(nodes[number], place, number) for number in order]

    def _node(self, node: onnx.NodeProto, place: tuple[Any, ...], number: int) -> onnx.NodeProto:
        site = (place, number)
        if site in self._groups:
            choice = onnx.GraphProto()
            self._choose(choice, node, self._facts[site], self._groups[site], frozenset())
            made = onnx.NodeProto()
            made.CopyFrom(choice.node[0])
            return made
        found = onnx.NodeProto()
        found.CopyFrom(node)
        if (node.domain, node.op_type, node.overload) in self._functions:
            function = next(
                each
                for each in self._loaded.proto.functions
                if (each.domain, each.name, each.overload)
                == (node.domain, node.op_type, node.overload)
            )
            found.input.extend([""] * (len(function.input) - len(found.input)))
            found.input.append(_FLAGS)
        for attribute in found.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                body = attribute.g
                changed = self._nodes(
                    list(body.node), (*place, number, attribute.name), _order(body)
                )
                del body.node[:]
                body.node.extend(changed)
                del body.value_info[:]
        return found

    def _choose(
        self,
        graph: onnx.GraphProto,
        node: onnx.NodeProto,
        facts: Facts,
        flags: Mapping[str, int],
        parts: frozenset[str],
    ) -> dict[str, str]:
        """Add a node that runs another one, rounded or as it is. Returns the names of its results.

        Args:
            graph: The graph to add to; if it is empty, the results keep their names.
            node: The node.
            facts: What is known of it.
            flags: The flag of each of its parts that nobody has decided about.
            parts: The parts that are rounded.
        """
        if not flags:
            return self._add(graph, node, facts, parts)
        flag = min(flags.values())
        now = frozenset(part for part, number in flags.items() if number == flag)
        rest = {part: number for part, number in flags.items() if number != flag}
        branches = []
        for chosen in (parts | now, parts):
            branch = onnx.GraphProto(name=self._name())
            inner = self._choose(branch, node, facts, rest, chosen)
            for result in inner.values():
                branch.output.add(name=result)
            branches.append(branch)
        is_outermost = not parts and not graph.name
        names = [name for name in node.output if name]
        results = {name: name if is_outermost else self._name() for name in names}
        choice = graph.node.add(op_type="If", name=self._name())
        choice.input.append(f"{_FLAG}{flag}")
        choice.output.extend(results.values())
        choice.attribute.append(helper.make_attribute("then_branch", branches[0]))
        choice.attribute.append(helper.make_attribute("else_branch", branches[1]))
        return results

    def _add(
        self, graph: onnx.GraphProto, node: onnx.NodeProto, facts: Facts, parts: frozenset[str]
    ) -> dict[str, str]:
        """Add a node with some parts rounded to a branch. Returns the names of its results."""
        place = facts.graph.place
        has_values = VALUES in parts
        is_short = has_values and self._format.name == "float16" and node.op_type in INSIDE
        operands = list(node.input)
        for position, name in enumerate(node.input):
            if not name:
                continue
            if is_short and is_long(self._types.get((place, name))):
                operands[position] = self._cast(graph, name, self._format.code)
            elif (position in facts.given and WEIGHTS in parts) or (
                position in facts.operands and has_values
            ):
                operands[position] = self._rounded_operand(graph, facts, position, name)
        inner = graph.node.add()
        inner.CopyFrom(node)
        inner.input[:] = operands
        own = {name: self._name() for name in node.output if name}
        inner.output[:] = [own.get(name, "") for name in node.output]
        results = {}
        for position, name in enumerate(node.output):
            if not name:
                continue
            dtype = self._types.get((place, name))
            if is_short and is_long(dtype):
                results[name] = self._cast(graph, own[name], _code(dtype))
            elif position in facts.results and has_values:
                low, high = self._ranges.get((place, name), (0.0, 0.0))
                results[name] = self._round(graph, own[name], dtype, low, high)
            else:
                results[name] = own[name]
        return results

    def _rounded_operand(
        self, graph: onnx.GraphProto, facts: Facts, position: int, name: str
    ) -> str:
        place = facts.graph.place
        dtype = self._types.get((place, name))
        if self._format.is_float:
            code = _code(dtype) if dtype is not None else _weight_code(facts, name)
            return self._cast(graph, self._cast(graph, name, self._format.code), code)
        weight = facts.weights.get(position)
        tensor = facts.graph.initializer(name)
        if weight is None:
            low, high = self._ranges.get((place, name), (0.0, 0.0))
            return self._round(graph, name, dtype, low, high)
        if tensor is None:
            return self._round_by_content(graph, name)
        array = facts.graph.model.array(tensor)
        return self._stored(graph, np.asarray(array), weight_axis(facts.node, position, array.ndim))

    def _stored(self, graph: onnx.GraphProto, array: Array, axis: int | None) -> str:
        """Add a weight in few bits to a branch. Returns the name of the numbers."""
        known = stored(array, axis, self._format)
        if known.is_blocked:
            # Blocks need opset 21, which the model may not have.
            return self._constant(graph, known.array().astype(array.dtype))
        names = [self._constant(graph, known.values), self._constant(graph, known.scales)]
        result = self._name()
        attributes: dict[str, Any] = {} if known.axis is None else {"axis": known.axis}
        graph.node.append(helper.make_node("DequantizeLinear", names, [result], **attributes))
        return result

    def _round(self, graph: onnx.GraphProto, name: str, dtype: Any, low: float, high: float) -> str:
        if self._format.is_float:
            return self._cast(graph, self._cast(graph, name, self._format.code), _code(dtype))
        scale, zero = scale_of(low, high)
        settings = [
            self._constant(graph, np.asarray(scale, np.float32)),
            self._constant(graph, np.asarray(zero, np.uint8)),
        ]
        whole, result = self._name(), self._name()
        graph.node.append(helper.make_node("QuantizeLinear", [name, *settings], [whole]))
        graph.node.append(helper.make_node("DequantizeLinear", [whole, *settings], [result]))
        return result

    def _round_by_content(self, graph: onnx.GraphProto, name: str) -> str:
        """Round a weight whose contents come from outside of the graph."""
        whole, scale, zero, result = (self._name() for _ in range(4))
        graph.node.append(helper.make_node("DynamicQuantizeLinear", [name], [whole, scale, zero]))
        graph.node.append(helper.make_node("DequantizeLinear", [whole, scale, zero], [result]))
        return result

    def _cast(self, graph: onnx.GraphProto, name: str, code: int) -> str:
        result = self._name()
        graph.node.append(helper.make_node("Cast", [name], [result], to=code))
        return result

    def _constant(self, graph: onnx.GraphProto, array: Array) -> str:
        name = self._name()
        tensor = numpy_helper.from_array(array)
        graph.node.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def _name(self) -> str:
        self._names += 1
        return f"{_OWN}{self._names}"


def _order(body: onnx.GraphProto) -> list[int]:
    from .._comparing.graphs import _execution_order

    return _execution_order(list(body.node))


def _code(dtype: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _weight_code(facts: Facts, name: str) -> int:
    graph: Graph | None = facts.graph
    tensor = None if graph is None else graph.initializer(name)
    return TensorProto.FLOAT if tensor is None else int(tensor.data_type)
