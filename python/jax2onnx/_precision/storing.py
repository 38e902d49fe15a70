"""Write a model whose weights and operands are whole numbers with scales."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from .._comparing.arrays import Array
from .._comparing.graphs import Graph, main
from .._comparing.models import Loaded
from .._errors import ConfigError
from .casting import all_names, drop_weights, order_of
from .formats import BLOCK, Format, Stored, scale_of, stored
from .sites import VALUES, WEIGHTS, Facts, Part, Site, is_long, weight_axis
from .switched import Ranges

#: The first opset with scales per channel, and the first one with scales per block.
_CHANNELS, _BLOCKS = 13, 21
_IR_OF_FOUR_BITS: Final = 10
#: A weight with fewer elements is not worth a scale.
MIN_ELEMENTS: Final = 64


def quantizable(
    facts: Mapping[Site, Facts], types: Mapping[Any, Any], *, has_operands: bool
) -> dict[Site, Facts]:
    """Return the nodes that multiply by a weight, with what is rounded of them.

    Args:
        facts: What is known of all nodes.
        types: The types of the values of each graph.
        has_operands: Whether the operands are rounded, too.
    """
    found = {}
    for site, known in facts.items():
        node = known.node
        weights = {
            position
            for position, name in enumerate(node.input)
            if name and _is_worth_it(known.graph, name, node, position)
        }
        if not weights:
            continue
        made = Facts(known.graph, known.number, known.order, given=weights, weights=known.weights)
        made.own_error, made.values = known.own_error, known.values
        operand = node.input[0]
        is_float = is_long(types.get((known.graph.place, operand)))
        if has_operands and node.op_type != "Gather" and is_float and 0 not in weights:
            made.operands = {0}
        found[site] = made
    return found


def _is_worth_it(graph: Graph, name: str, node: onnx.NodeProto, position: int) -> bool:
    tensor = graph.initializer(name)
    if tensor is None or not is_long(helper.tensor_dtype_to_np_dtype(tensor.data_type)):
        return False
    top = graph
    while top.outer is not None:
        top = top.outer
    if top.initializers.get(name) is not tensor:
        return False
    elements = int(np.prod(list(tensor.dims), dtype=np.int64))
    return elements >= MIN_ELEMENTS and weight_axis(node, position, len(tensor.dims)) is not None


class Storer:
    """Writes the model.

    Attributes:
        casts: The number of nodes that were inserted.
    """

    def __init__(
        self,
        loaded: Loaded,
        facts: Mapping[Site, Facts],
        ranges: Ranges,
        kind: Format,
        parts: Collection[Part],
    ) -> None:
        """Plan to write a model.

        Args:
            loaded: The model.
            facts: What is rounded of the nodes that multiply by weights.
            ranges: The smallest and the largest element of each value.
            kind: `int8` or `int4`.
            parts: The parts that are rounded.
        """
        self._loaded, self._facts, self._ranges = loaded, facts, ranges
        self._format, self._parts = kind, set(parts)
        self._opset = next(
            (each.version for each in loaded.proto.opset_import if not each.domain), 1
        )
        self.casts = 0
        self._used = set(all_names(loaded.proto))
        self._stored: dict[tuple[str, int | None], str] = {}

    def model(self) -> onnx.ModelProto:
        """Return the model.

        Raises:
            ConfigError: The opset has no operators for it.
        """
        if self._opset < _CHANNELS:
            raise ConfigError(
                f"the model has opset {self._opset}, but scales per channel need opset "
                f"{_CHANNELS}: export it with a newer opset"
            )
        if self._format.name == "int4" and self._opset < _BLOCKS:
            raise ConfigError(
                f"the model has opset {self._opset}, but 4-bit weights need opset {_BLOCKS}: "
                "export it with a newer opset"
            )
        model = onnx.ModelProto()
        model.CopyFrom(self._loaded.proto)
        graph = model.graph
        self._weights = {tensor.name: tensor for tensor in graph.initializer}
        drop_weights(model, self._weights)
        if self._format.name == "int4":
            model.ir_version = max(model.ir_version, _IR_OF_FOUR_BITS)
        self._added: list[onnx.TensorProto] = []
        order = main(self._loaded).numbers
        head: list[onnx.NodeProto] = []
        nodes = [graph.node[number] for number in order]
        written = self._nodes(nodes, ("main",), order, head)
        kept = [
            self._embedded(tensor) for tensor in graph.initializer if self._is_read(tensor, written)
        ]
        del graph.node[:]
        graph.node.extend([*head, *written])
        del graph.initializer[:]
        graph.initializer.extend([*kept, *self._added])
        return model

    def _is_read(self, tensor: onnx.TensorProto, nodes: list[onnx.NodeProto]) -> bool:
        """Return whether a weight is still read as it was."""
        if not any(name == tensor.name for name, _ in self._stored):
            return True
        outputs = {value.name for value in self._loaded.proto.graph.output}
        return tensor.name in outputs or any(_reads(node, tensor.name) for node in nodes)

    def _embedded(self, tensor: onnx.TensorProto) -> onnx.TensorProto:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            return tensor
        made = numpy_helper.from_array(np.array(self._loaded.array(tensor)), tensor.name)
        made.metadata_props.extend(tensor.metadata_props)
        return made

    def _nodes(
        self,
        nodes: list[onnx.NodeProto],
        place: tuple[Any, ...],
        order: list[int],
        head: list[onnx.NodeProto],
    ) -> list[onnx.NodeProto]:
        """Return nodes whose operands are rounded. Weights are read before all nodes, in `head`."""
        written: list[onnx.NodeProto] = []
        rounded: dict[str, str] = {}
        for node, number in zip(nodes, order, strict=True):
            made = onnx.NodeProto()
            made.CopyFrom(node)
            facts = self._facts.get((place, number))
            if facts is not None:
                self._change(made, facts, rounded, head, written)
            for attribute in made.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    body = attribute.g
                    inner = order_of(body)
                    changed = self._nodes(
                        [body.node[each] for each in inner],
                        (*place, number, attribute.name),
                        inner,
                        head,
                    )
                    del body.node[:]
                    body.node.extend(changed)
            written.append(made)
        return written

    def _change(
        self,
        node: onnx.NodeProto,
        facts: Facts,
        rounded: dict[str, str],
        head: list[onnx.NodeProto],
        written: list[onnx.NodeProto],
    ) -> None:
        site = facts.site
        if (site, WEIGHTS) in self._parts:
            for position in facts.given:
                name = node.input[position]
                tensor = self._weights.get(name)
                if tensor is None or facts.graph.initializer(name) is None:
                    continue
                axis = weight_axis(node, position, len(tensor.dims))
                node.input[position] = self._read_weight(tensor, axis, node, head)
        if (site, VALUES) in self._parts:
            for position in facts.operands:
                name = node.input[position]
                low, high = self._ranges.get((facts.graph.place, name), (0.0, 0.0))
                if name not in rounded:
                    rounded[name] = self._round(name, low, high, node, written)
                node.input[position] = rounded[name]

    def _read_weight(
        self,
        tensor: onnx.TensorProto,
        axis: int | None,
        reader: onnx.NodeProto,
        head: list[onnx.NodeProto],
    ) -> str:
        key = tensor.name, axis
        if key not in self._stored:
            array = np.asarray(self._loaded.array(tensor))
            known = stored(array, axis, self._format)
            result = self._fresh(f"{tensor.name}.dequantized")
            names = [
                self._add(tensor, self._packed(known), f"{tensor.name}.{self._format.name}"),
                self._add(tensor, known.scales.astype(array.dtype), f"{tensor.name}.scale"),
            ]
            attributes = {} if known.axis is None else {"axis": known.axis}
            if known.is_blocked:
                attributes["block_size"] = BLOCK
            head.append(self._node("DequantizeLinear", names, result, reader, **attributes))
            self._stored[key] = result
        return self._stored[key]

    def _packed(self, known: Stored) -> Array:
        return known.values.astype(ml_dtypes.int4) if self._format.name == "int4" else known.values

    def _add(self, like: onnx.TensorProto, array: Array, name: str) -> str:
        made = numpy_helper.from_array(np.asarray(array, order="C"), self._fresh(name))
        made.metadata_props.extend(like.metadata_props)
        self._added.append(made)
        return str(made.name)

    def _round(
        self,
        name: str,
        low: float,
        high: float,
        reader: onnx.NodeProto,
        written: list[onnx.NodeProto],
    ) -> str:
        scale, zero = scale_of(low, high)
        label = self._fresh(f"{name}.scale"), self._fresh(f"{name}.zero")
        self._added.append(numpy_helper.from_array(np.asarray(scale, np.float32), label[0]))
        self._added.append(numpy_helper.from_array(np.asarray(zero, np.uint8), label[1]))
        whole, result = self._fresh(f"{name}.uint8"), self._fresh(f"{name}.dequantized")
        written.append(self._node("QuantizeLinear", [name, *label], whole, reader))
        written.append(self._node("DequantizeLinear", [whole, *label], result, reader))
        return result

    def _node(
        self, op: str, inputs: list[str], result: str, reader: onnx.NodeProto, **attributes: Any
    ) -> onnx.NodeProto:
        """Return a node with the origin of the node that it serves."""
        suffix = "quantize" if op == "QuantizeLinear" else "dequantize"
        made = helper.make_node(op, inputs, [result], **attributes)
        made.name = self._fresh(f"{reader.name or reader.op_type}.{suffix}")
        made.metadata_props.extend(reader.metadata_props)
        made.doc_string = reader.doc_string
        self.casts += 1
        return made

    def _fresh(self, name: str) -> str:
        found, number = name, 2
        while found in self._used:
            found, number = f"{name}.{number}", number + 1
        self._used.add(found)
        return found


def _reads(node: onnx.NodeProto, name: str) -> bool:
    from .._comparing.graphs import _names_read

    return name in _names_read(node)
