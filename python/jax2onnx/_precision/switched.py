"""Make a model in which groups of nodes can be rounded, each on its own, without a new session."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .._comparing.arrays import Array
from .._comparing.graphs import Graph, execution_order, main
from .._comparing.models import Loaded
from .._comparing.running import Runner, tensor_type
from .calibration import Key, Ranges
from .formats import Format, scale_of, stored
from .sites import INSIDE, VALUES, WEIGHTS, Facts, Part, Site, has_blocks, is_long

_FLAGS: Final = "jax2onnx.flags"
_SCALES: Final = "jax2onnx.scales"
_ZEROS: Final = "jax2onnx.zeros"
_FLAG: Final = "jax2onnx.flag."
_OWN: Final = "jax2onnx.own."
#: The first opset in which the sizes of `Split` are an operand.
_SPLIT_SIZES: Final = 13
#: The inputs that say what is rounded, and how.
_SETTINGS: Final = {_FLAGS: np.bool_, _SCALES: np.float32, _ZEROS: np.uint8}

Types = Mapping[tuple[tuple[Any, ...], str], np.dtype[Any]]


class Switched:
    """A model that rounds the groups of nodes that a run chooses."""

    def __init__(
        self,
        loaded: Loaded,
        groups: Sequence[Collection[Part]],
        facts: Mapping[Site, Facts],
        types: Types,
        kind: Format,
    ) -> None:
        """Load the model.

        Args:
            loaded: The model.
            groups: The parts of nodes in each group.
            facts: What is known of the nodes.
            types: The types of the values of each graph.
            kind: The type to round to.
        """
        self._count = len(groups)
        writer = _Writer(loaded, groups, facts, types, kind)
        self._runner = Runner(writer.model(), loaded, optimize=False)
        self._slots = writer.slots

    def run(
        self, feeds: Mapping[str, Array], chosen: Iterable[int], ranges: Ranges | None = None
    ) -> dict[str, Array]:
        """Run the model with some groups rounded. Returns its outputs.

        Args:
            feeds: The inputs.
            chosen: The groups.
            ranges: The smallest and the largest element of each value, if the type has scales.
        """
        flags = np.zeros(self._count, np.bool_)
        flags[list(chosen)] = True
        known = [scale_of(*(ranges or {}).get(key, (0.0, 0.0))) for key in self._slots]
        settings = {
            _FLAGS: flags,
            _SCALES: np.asarray([scale for scale, _ in known], np.float32),
            _ZEROS: np.asarray([zero for _, zero in known], np.uint8),
        }
        return self._runner.run({**feeds, **settings})


class _Writer:
    """Writes the model."""

    def __init__(
        self,
        loaded: Loaded,
        groups: Sequence[Collection[Part]],
        facts: Mapping[Site, Facts],
        types: Types,
        kind: Format,
    ) -> None:
        self._loaded, self._format = loaded, kind
        #: The values that are rounded by a scale, with their positions in the input for scales.
        self.slots: dict[Key, int] = {}
        self._groups: dict[Site, dict[str, int]] = {}
        for number, parts in enumerate(groups):
            for site, part in parts:
                self._groups.setdefault(site, {})[part] = number
        self._count = len(groups)
        self._facts, self._types = facts, types
        self._names = 0
        self._functions = {
            (each.domain, each.name, each.overload) for each in loaded.proto.functions
        }
        self._has_blocks = has_blocks(loaded.proto)
        opsets = [each.version for each in loaded.proto.opset_import if not each.domain]
        self._opset = max(opsets, default=1)

    def model(self) -> onnx.ModelProto:
        """Return the model."""
        before = self._loaded.proto
        model = onnx.ModelProto(ir_version=max(before.ir_version, 8))
        model.opset_import.extend(before.opset_import)
        graph = before.graph
        model.graph.name = graph.name or "graph"
        model.graph.input.extend(graph.input)
        for name, dtype in _SETTINGS.items():
            model.graph.input.add(name=name, type=tensor_type(dtype))
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
        if not self._count:
            return []
        flags = [f"{_FLAG}{number}" for number in range(self._count)]
        if self._opset < _SPLIT_SIZES:
            return [helper.make_node("Split", [_FLAGS], flags, axis=0)]
        sizes = f"{_OWN}sizes"
        tensor = numpy_helper.from_array(np.ones(self._count, np.int64))
        return [
            helper.make_node("Constant", [], [sizes], value=tensor),
            helper.make_node("Split", [_FLAGS, sizes], flags, axis=0),
        ]

    def _function(self, function: onnx.FunctionProto) -> onnx.FunctionProto:
        """Return a function that takes the settings as further operands."""
        found = onnx.FunctionProto()
        found.CopyFrom(function)
        found.input.extend(_SETTINGS)
        del found.node[:]
        found.node.extend(self._split())
        place = ("function", f"{function.domain}::{function.name}")
        order = execution_order(function.node)
        found.node.extend(self._nodes(function.node, place, order))
        del found.value_info[:]
        return found

    def _nodes(
        self, nodes: Sequence[onnx.NodeProto], place: tuple[Any, ...], order: Iterable[int]
    ) -> list[onnx.NodeProto]:
        return [each for n in order for each in self._node(nodes[n], place, n)]

    def _node(
        self, node: onnx.NodeProto, place: tuple[Any, ...], number: int
    ) -> Iterable[onnx.NodeProto]:
        site = (place, number)
        is_carrier = self._is_carrier(node)
        if site in self._groups and not is_carrier:
            choice = onnx.GraphProto()
            self._choose(choice, node, self._facts[site], self._groups[site], frozenset())
            yield from choice.node
            return
        found = onnx.NodeProto()
        found.CopyFrom(node)
        if site in self._groups:
            yield from self._rounded_for_bodies(found, self._facts[site], self._groups[site])
        if (node.domain, node.op_type, node.overload) in self._functions:
            function = next(
                each
                for each in self._loaded.proto.functions
                if (each.domain, each.name, each.overload)
                == (node.domain, node.op_type, node.overload)
            )
            found.input.extend([""] * (len(function.input) - len(found.input)))
            found.input.extend(_SETTINGS)
        for attribute in found.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                body = attribute.g
                changed = self._nodes(
                    list(body.node), (*place, number, attribute.name), execution_order(body.node)
                )
                del body.node[:]
                body.node.extend(changed)
                del body.value_info[:]
        yield found

    def _is_carrier(self, node: onnx.NodeProto) -> bool:
        """Return whether the operands of a node are those of nodes inside."""
        return (node.domain, node.op_type, node.overload) in self._functions or any(
            each.type == onnx.AttributeProto.GRAPH for each in node.attribute
        )

    def _rounded_for_bodies(
        self, node: onnx.NodeProto, facts: Facts, flags: Mapping[str, int]
    ) -> Iterable[onnx.NodeProto]:
        """Yield nodes that round the weights that a node passes to its body, and let it read them.

        Args:
            node: The node, which is changed.
            facts: What is known of it.
            flags: The flag of each of its parts.
        """
        for position in sorted(facts.given):
            name = node.input[position]
            then, otherwise = onnx.GraphProto(name=self._name()), onnx.GraphProto(name=self._name())
            then.output.add(name=self._rounded_operand(then, facts, position, name))
            same = otherwise.node.add(op_type="Identity", input=[name], output=[self._name()])
            otherwise.output.add(name=same.output[0])
            result = self._name()
            flag = f"{_FLAG}{flags[WEIGHTS]}"
            yield helper.make_node("If", [flag], [result], then_branch=then, else_branch=otherwise)
            node.input[position] = result

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
        for name, branch in zip(("then_branch", "else_branch"), branches, strict=True):
            choice.attribute.add(name=name, type=onnx.AttributeProto.GRAPH, g=branch)
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
                results[name] = self._round(
                    graph, own[name], dtype, (place, facts.ranged.get(name, name))
                )
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
        if weight is None and facts.is_dynamic:
            return self._round_by_content(graph, name, dtype)
        if weight is None:
            return self._round(graph, name, dtype, (place, name))
        if tensor is None:
            return self._round_by_content(graph, name, dtype)
        array = np.asarray(facts.graph.model.array(tensor))
        return self._stored(graph, array, facts.axis(position, array.ndim))

    def _stored(self, graph: onnx.GraphProto, array: Array, axis: int | None) -> str:
        """Add a weight in few bits to a branch. Returns the name of the numbers."""
        known = stored(array, axis, self._format, has_blocks=self._has_blocks)
        if known.block is not None or array.dtype != np.float32:
            return self._constant(graph, known.array().astype(array.dtype))
        names = [self._constant(graph, known.values), self._constant(graph, known.scales)]
        result = self._name()
        attributes: dict[str, Any] = {} if known.axis is None else {"axis": known.axis}
        graph.node.append(helper.make_node("DequantizeLinear", names, [result], **attributes))
        return result

    def _round(self, graph: onnx.GraphProto, name: str, dtype: Any, key: Key) -> str:
        if self._format.is_float:
            return self._cast(graph, self._cast(graph, name, self._format.code), _code(dtype))
        slot = self._constant(graph, np.asarray(self.slots.setdefault(key, len(self.slots))))
        # Scales are float32.
        is_wide = np.dtype(dtype) == np.float64
        if is_wide:
            name = self._cast(graph, name, TensorProto.FLOAT)
        settings = []
        for which in (_SCALES, _ZEROS):
            settings.append(self._name())
            graph.node.append(helper.make_node("Gather", [which, slot], [settings[-1]]))
        whole, result = self._name(), self._name()
        graph.node.append(helper.make_node("QuantizeLinear", [name, *settings], [whole]))
        graph.node.append(helper.make_node("DequantizeLinear", [whole, *settings], [result]))
        return self._cast(graph, result, TensorProto.DOUBLE) if is_wide else result

    def _round_by_content(self, graph: onnx.GraphProto, name: str, dtype: Any) -> str:
        """Round a weight whose contents come from outside of the graph."""
        is_wide = dtype is not None and np.dtype(dtype) == np.float64
        if is_wide:
            name = self._cast(graph, name, TensorProto.FLOAT)
        whole, scale, zero, result = (self._name() for _ in range(4))
        graph.node.append(helper.make_node("DynamicQuantizeLinear", [name], [whole, scale, zero]))
        graph.node.append(helper.make_node("DequantizeLinear", [whole, scale, zero], [result]))
        return self._cast(graph, result, TensorProto.DOUBLE) if is_wide else result

    def _cast(self, graph: onnx.GraphProto, name: str, code: int) -> str:
        result = self._name()
        graph.node.add(op_type="Cast", input=[name], output=[result], attribute=[_to(code)])
        return result

    def _constant(self, graph: onnx.GraphProto, array: Array) -> str:
        name = self._name()
        tensor = numpy_helper.from_array(array)
        graph.node.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def _name(self) -> str:
        self._names += 1
        return f"{_OWN}{self._names}"


@cache
def _to(code: int) -> onnx.AttributeProto:
    return helper.make_attribute("to", code)


def _code(dtype: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _weight_code(facts: Facts, name: str) -> int:
    graph: Graph | None = facts.graph
    tensor = None if graph is None else graph.initializer(name)
    return TensorProto.FLOAT if tensor is None else int(tensor.data_type)
