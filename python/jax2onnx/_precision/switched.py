"""Make a model in which groups of nodes can be rounded, each on its own, without a new session."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper

from .._comparing.arrays import Array
from .._comparing.graphs import Graph, execution_order, free_names, main
from .._comparing.models import Loaded
from .._comparing.running import Runner, tensor_type
from .calibration import Key, Ranges
from .formats import Format, rounded_weight, scale_of
from .sites import INSIDE, VALUES, WEIGHTS, Facts, Part, Site, has_blocks, is_long

_FLAG: Final = "jax2onnx.flag."
_SCALE: Final = "jax2onnx.scale."
_ZERO: Final = "jax2onnx.zero."
_WEIGHT: Final = "jax2onnx.weight."
_OWN: Final = "jax2onnx.own."
#: Outside of loops, a value with at most so many elements is rounded in each run, needed or not:
#: a branch takes longer.
_FEW: Final = 1 << 14

Types = Mapping[tuple[tuple[Any, ...], str], np.dtype[Any]]
#: Adds nodes that round to a graph. Returns the name of the result.
_Rounding: TypeAlias = Callable[[Any], str]
_Function: TypeAlias = tuple[str, str, str]


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
        self._format, self._count, self._has_blocks = kind, len(groups), has_blocks(loaded.proto)
        writer = _Writer(loaded, groups, facts, types, kind)
        self._runner = Runner(writer.model(), loaded, optimize=False)
        self._slots, self._weights = writer.slots, writer.weights
        self._rounded: dict[tuple[int, int | None], Array] = {}

    def run(
        self, feeds: Mapping[str, Array], chosen: Iterable[int], ranges: Ranges | None = None
    ) -> dict[str, Array]:
        """Run the model with some groups rounded. Returns its outputs.

        Args:
            feeds: The inputs.
            chosen: The groups.
            ranges: The smallest and the largest element of each value, if the type has scales.
        """
        which = set(chosen)
        fed = dict(feeds)
        for number in range(self._count):
            fed[f"{_FLAG}{number}"] = _TRUE if number in which else _FALSE
        for key, number in self._slots.items():
            scale, zero = scale_of(*(ranges or {}).get(key, (0.0, 0.0)))
            fed[f"{_SCALE}{number}"] = np.asarray(scale, np.float32)
            fed[f"{_ZERO}{number}"] = np.asarray(zero, np.uint8)
        for name, weight in self._weights.items():
            fed[name] = self._short(weight) if weight.group in which else weight.array
        return self._runner.run(fed)

    def _short(self, weight: "_Weight") -> Array:
        key = id(weight.array), weight.axis
        if key not in self._rounded:
            self._rounded[key] = rounded_weight(
                weight.array, weight.axis, self._format, has_blocks=self._has_blocks
            )
        return self._rounded[key]


_TRUE, _FALSE = np.asarray(True), np.asarray(False)


@dataclass(frozen=True)
class _Weight:
    """A weight that an input of the model contains.

    Attributes:
        array: The weight.
        axis: The axis of its channels, if the type has scales.
        group: The group that rounds it.
    """

    array: Array
    axis: int | None
    group: int


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
        #: The values that are rounded by a scale, with the numbers of the inputs for it.
        self.slots: dict[Key, int] = {}
        #: The weights that are inputs, because a run may need them rounded.
        self.weights: dict[str, _Weight] = {}
        self._arrays: dict[Key, Array] = {}
        self._groups: dict[Site, dict[str, int]] = {}
        for number, parts in enumerate(groups):
            for site, part in parts:
                self._groups.setdefault(site, {})[part] = number
        self._count = len(groups)
        self._facts, self._types = facts, types
        self._names = 0
        #: The settings that the nodes of the function or of the main graph read, with their types.
        self._read: dict[str, Any] = {}
        self._functions = {
            (each.domain, each.name, each.overload): each for each in loaded.proto.functions
        }
        self._written: dict[_Function, tuple[onnx.FunctionProto, dict[str, Any]]] = {}

    def model(self) -> onnx.ModelProto:
        """Return the model."""
        before = self._loaded.proto
        model = onnx.ModelProto(ir_version=max(before.ir_version, 8))
        model.opset_import.extend(before.opset_import)
        graph = before.graph
        model.graph.name = graph.name or "graph"
        model.graph.input.extend(graph.input)
        model.graph.output.extend(graph.output)
        model.graph.sparse_initializer.extend(graph.sparse_initializer)
        order = main(self._loaded).numbers
        model.graph.node.extend(self._nodes(graph.node, ("main",), order))
        read = {*free_names(model.graph.node), *(each.name for each in graph.output)}
        fed = {each.name for each in graph.input}
        model.graph.initializer.extend(
            each for each in graph.initializer if each.name in read or each.name in fed
        )
        for number in range(self._count):
            model.graph.input.add(name=f"{_FLAG}{number}", type=tensor_type(np.bool_, ()))
        for number in self.slots.values():
            model.graph.input.add(name=f"{_SCALE}{number}", type=tensor_type(np.float32, ()))
            model.graph.input.add(name=f"{_ZERO}{number}", type=tensor_type(np.uint8, ()))
        for name, weight in self.weights.items():
            kind = tensor_type(weight.array.dtype, weight.array.shape)
            model.graph.input.add(name=name, type=kind)
        for key in self._functions:
            model.functions.append(self._function(key)[0])
        return model

    def _function(self, key: _Function) -> tuple[onnx.FunctionProto, dict[str, Any]]:
        """Return a function that takes settings as further operands, and these settings."""
        if key not in self._written:
            function = self._functions[key]
            found = onnx.FunctionProto()
            found.CopyFrom(function)
            del found.node[:]
            del found.value_info[:]
            place = ("function", f"{function.domain}::{function.name}")
            outside, self._read = self._read, {}
            order = execution_order(function.node)
            found.node.extend(self._nodes(function.node, place, order))
            found.input.extend(self._read)
            self._written[key] = found, self._read
            self._read = outside
        return self._written[key]

    def _nodes(
        self, nodes: Sequence[onnx.NodeProto], place: tuple[Any, ...], order: Iterable[int]
    ) -> list[onnx.NodeProto]:
        found = onnx.GraphProto()
        for number in order:
            self._add(found, nodes[number], place, number)
        return list(found.node)

    def _add(
        self,
        graph: onnx.GraphProto,
        node: onnx.NodeProto,
        place: tuple[Any, ...],
        number: int,
    ) -> None:
        """Add a node to a graph, with what may be rounded of it."""
        site = place, number
        facts, flags = self._facts.get(site), self._groups.get(site, {})
        operands, results = list(node.input), list(node.output)
        if facts is None or not flags:
            self._copy(graph, node, operands, results, place, number)
            return
        if WEIGHTS in flags:
            for position in facts.given:
                operands[position] = self._weight(graph, facts, position, flags[WEIGHTS])
        if VALUES not in flags:
            self._copy(graph, node, operands, results, place, number)
            return
        flag = self._setting(f"{_FLAG}{flags[VALUES]}", np.bool_)
        if self._format.name == "float16" and node.op_type in INSIDE:
            self._add_short(graph, node, operands, place, flag)
            return
        for position in facts.operands:
            name = operands[position]
            operands[position] = self._name()
            self._select(
                graph,
                flag,
                name,
                operands[position],
                facts,
                partial(self._rounded_operand, facts=facts, position=position, name=name),
            )
        for position in facts.results:
            results[position] = self._name()
        self._copy(graph, node, operands, results, place, number)
        for position in facts.results:
            name, own = node.output[position], results[position]
            dtype, key = self._types.get((place, name)), (place, facts.ranged.get(name, name))
            self._select(
                graph,
                flag,
                own,
                name,
                facts,
                partial(self._round, name=own, dtype=dtype, key=key),
            )

    def _copy(
        self,
        graph: Any,
        node: onnx.NodeProto,
        operands: Sequence[str],
        results: Sequence[str],
        place: tuple[Any, ...],
        number: int,
    ) -> None:
        """Add a node, whose bodies and functions may be rounded, too."""
        made = graph.node.add(op_type=node.op_type, domain=node.domain, overload=node.overload)
        made.input.extend(operands)
        made.output.extend(results)
        made.attribute.extend(node.attribute)
        key = (node.domain, node.op_type, node.overload)
        if key in self._functions:
            function, read = self._function(key)
            made.input.extend([""] * (len(function.input) - len(read) - len(made.input)))
            made.input.extend(self._setting(name, dtype) for name, dtype in read.items())
        for attribute in made.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                body = attribute.g
                changed = self._nodes(
                    list(body.node), (*place, number, attribute.name), execution_order(body.node)
                )
                del body.node[:]
                body.node.extend(changed)
                del body.value_info[:]

    def _weight(self, graph: Any, facts: Facts, position: int, group: int) -> str:
        """Return the name of an operand that a flag rounds and no node computes."""
        name = facts.node.input[position]
        array = None
        if facts.graph.place[0] != "function" and (
            self._format.is_float or facts.weights.get(position) is not None
        ):
            array = self._contents(facts.graph, name)
        if array is not None:
            axis = None if self._format.is_float else facts.axis(position, array.ndim)
            fed = f"{_WEIGHT}{len(self.weights)}"
            self.weights[fed] = _Weight(array, axis, group)
            return fed
        result = self._name()
        flag = self._setting(f"{_FLAG}{group}", np.bool_)
        self._select(
            graph,
            flag,
            name,
            result,
            facts,
            partial(self._rounded_operand, facts=facts, position=position, name=name),
        )
        return result

    def _contents(self, graph: Graph, name: str) -> "Array | None":
        """Return the contents of a weight or of a constant; None if a name means something else."""
        at: Graph | None = graph
        while at is not None:
            tensor = at.initializers.get(name)
            if tensor is None and name in at.produced:
                node = at.nodes[at.produced[name]]
                value = [each.t for each in node.attribute if each.name == "value"]
                if node.op_type != "Constant" or node.domain or not value:
                    return None
                tensor = value[0]
            if tensor is not None:
                key = at.place, name
                if key not in self._arrays:
                    self._arrays[key] = np.asarray(graph.model.array(tensor))
                return self._arrays[key]
            if name in at.inputs:
                return None
            at = at.outer
        return None

    def _select(
        self, graph: Any, flag: str, plain: str, result: str, facts: Facts, rounding: _Rounding
    ) -> None:
        """Add nodes that choose between a value and what it is rounded to."""
        if facts.elements <= _FEW and not facts.graph.key:
            graph.node.add(op_type="Where", input=[flag, rounding(graph), plain], output=[result])
            return
        then, otherwise = onnx.GraphProto(name=self._name()), onnx.GraphProto(name=self._name())
        then.output.add(name=rounding(then))
        same = otherwise.node.add(op_type="Identity", input=[plain], output=[self._name()])
        otherwise.output.add(name=same.output[0])
        self._branch(graph, flag, [result], then, otherwise)

    def _branch(
        self,
        graph: Any,
        flag: str,
        results: Iterable[str],
        then: onnx.GraphProto,
        otherwise: onnx.GraphProto,
    ) -> None:
        choice = graph.node.add(op_type="If", input=[flag], output=results)
        for name, branch in (("then_branch", then), ("else_branch", otherwise)):
            choice.attribute.add(name=name, type=onnx.AttributeProto.GRAPH, g=branch)

    def _add_short(
        self,
        graph: Any,
        node: onnx.NodeProto,
        operands: Sequence[str],
        place: tuple[Any, ...],
        flag: str,
    ) -> None:
        """Add a node that runs with its own kernel for the short type, or as it is."""
        names = [name for name in node.output if name]
        branches = []
        for is_short in (True, False):
            branch = onnx.GraphProto(name=self._name())
            read = list(operands)
            for position, name in enumerate(node.input):
                if is_short and name and is_long(self._types.get((place, name))):
                    read[position] = self._cast(branch, read[position], self._format.code)
            own = {name: self._name() for name in names}
            self._copy(branch, node, read, [own.get(name, "") for name in node.output], place, -1)
            for name in names:
                dtype = self._types.get((place, name))
                if is_short and is_long(dtype):
                    own[name] = self._cast(branch, own[name], _code(dtype))
                branch.output.add(name=own[name])
            branches.append(branch)
        self._branch(graph, flag, names, branches[0], branches[1])

    def _rounded_operand(self, graph: Any, facts: Facts, position: int, name: str) -> str:
        place, original = facts.graph.place, facts.node.input[position]
        dtype = self._types.get((place, original))
        if self._format.is_float:
            code = _code(dtype) if dtype is not None else _weight_code(facts, original)
            return self._cast(graph, self._cast(graph, name, self._format.code), code)
        if facts.weights.get(position) is None and not facts.is_dynamic:
            return self._round(graph, name, dtype, (place, original))
        return self._round_by_content(graph, name, dtype)

    def _round(self, graph: Any, name: str, dtype: Any, key: Key) -> str:
        if self._format.is_float:
            return self._cast(graph, self._cast(graph, name, self._format.code), _code(dtype))
        number = self.slots.setdefault(key, len(self.slots))
        # Scales are float32.
        is_wide = np.dtype(dtype) == np.float64
        if is_wide:
            name = self._cast(graph, name, TensorProto.FLOAT)
        settings = [
            self._setting(f"{_SCALE}{number}", np.float32),
            self._setting(f"{_ZERO}{number}", np.uint8),
        ]
        whole, result = self._name(), self._name()
        graph.node.add(op_type="QuantizeLinear", input=[name, *settings], output=[whole])
        graph.node.add(op_type="DequantizeLinear", input=[whole, *settings], output=[result])
        return self._cast(graph, result, TensorProto.DOUBLE) if is_wide else result

    def _round_by_content(self, graph: Any, name: str, dtype: Any) -> str:
        """Round a value with the range that it has when the model runs."""
        is_wide = dtype is not None and np.dtype(dtype) == np.float64
        if is_wide:
            name = self._cast(graph, name, TensorProto.FLOAT)
        whole, scale, zero, result = (self._name() for _ in range(4))
        graph.node.add(op_type="DynamicQuantizeLinear", input=[name], output=[whole, scale, zero])
        graph.node.add(op_type="DequantizeLinear", input=[whole, scale, zero], output=[result])
        return self._cast(graph, result, TensorProto.DOUBLE) if is_wide else result

    def _cast(self, graph: Any, name: str, code: int) -> str:
        result = self._name()
        graph.node.add(op_type="Cast", input=[name], output=[result], attribute=[_to(code)])
        return result

    def _setting(self, name: str, dtype: Any) -> str:
        """Note that the function that is written reads a setting. Returns the name."""
        self._read[name] = dtype
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
    tensor = facts.graph.initializer(name)
    return TensorProto.FLOAT if tensor is None else int(tensor.data_type)
