"""Write a model whose weights and operands are whole numbers with scales."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from .._comparing.arrays import Array
from .._comparing.graphs import execution_order, main, names_read
from .._comparing.levels import attribute
from .._comparing.models import Loaded
from .._errors import ConfigError
from .calibration import Key, Ranges
from .casting import all_names, drop_weights
from .formats import Format, Stored, scale_of, stored
from .sites import BLOCKS, VALUES, WEIGHTS, Facts, Part, Site

#: The first opset with scales per channel.
_CHANNELS: Final = 13
_IR_OF_FOUR_BITS: Final = 10
#: A bias that needs more steps would leave no room for the sum.
_MAX_BIAS: Final = float(1 << 30)


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
        #: The results that are rounded for all readers.
        self._results = {
            (each.graph.place, ranged)
            for site, each in facts.items()
            if (site, VALUES) in self._parts
            for ranged in each.ranged.values()
        }
        self.casts = 0
        self._used = set(all_names(loaded.proto))
        self._stored: dict[str, str] = {}
        self._scales: dict[str, Array] = {}
        #: The weights that some node reads as whole numbers.
        self._replaced: set[str] = set()

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
        if self._format.name == "int4" and self._opset < BLOCKS:
            raise ConfigError(
                f"the model has opset {self._opset}, but 4-bit weights need opset {BLOCKS}: "
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
        read = {name for node in written for name in names_read(node)}
        read |= {value.name for value in graph.output}
        kept = [
            self._embedded(tensor)
            for tensor in graph.initializer
            if tensor.name not in self._replaced or tensor.name in read
        ]
        del graph.node[:]
        graph.node.extend([*head, *written])
        del graph.initializer[:]
        graph.initializer.extend([*kept, *self._added])
        return model

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
            for each in made.attribute:
                if each.type == onnx.AttributeProto.GRAPH:
                    body = each.g
                    inner = execution_order(body.node)
                    changed = self._nodes(
                        [body.node[index] for index in inner],
                        (*place, number, each.name),
                        inner,
                        head,
                    )
                    del body.node[:]
                    body.node.extend(changed)
            written.append(made)
            for name in made.output:
                if (place, name) in self._results:
                    self._round_result(made, name, (place, name), rounded, written)
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
                axis = facts.axis(position, len(tensor.dims))
                node.input[position] = self._read_weight(tensor, axis, node, head)
        if (site, VALUES) in self._parts:
            for position in facts.operands:
                name = node.input[position]
                if name not in rounded:
                    label = self._fresh(f"{name}.dequantized")
                    self._round(name, label, (facts.graph.place, name), node, written)
                    rounded[name] = label
                node.input[position] = rounded[name]
            if node.op_type == "Gemm" and (site, WEIGHTS) in self._parts:
                self._change_bias(node, facts, head)

    def _change_bias(self, node: onnx.NodeProto, facts: Facts, head: list[onnx.NodeProto]) -> None:
        """Store the bias in the steps of the sum that it is added to, which kernels expect."""
        tensor = self._weights.get(node.input[2]) if len(node.input) > 2 else None
        scales = self._scales.get(facts.node.input[1])
        if tensor is None or scales is None or facts.graph.initializer(tensor.name) is None:
            return
        array = np.asarray(self._loaded.array(tensor))
        is_plain = array.dtype == np.float32 and array.shape == scales.shape
        step, _ = scale_of(*self._ranges.get((facts.graph.place, facts.node.input[0]), (0.0, 0.0)))
        steps = (scales * np.float32(step)).astype(np.float32)
        with np.errstate(all="ignore"):
            whole = np.rint(array.astype(np.float64) / steps) if is_plain else np.full(1, np.inf)
        beta = attribute(node, "beta", 1.0)
        if beta != 1.0 or attribute(node, "alpha", 1.0) != 1.0:
            return
        if not is_plain or not np.abs(whole).max(initial=0.0) < _MAX_BIAS:
            return
        result = self._fresh(f"{tensor.name}.dequantized")
        names = [
            self._add(tensor, whole.astype(np.int32), f"{tensor.name}.int32"),
            self._add(tensor, steps, f"{tensor.name}.scale"),
        ]
        head.append(self._node("DequantizeLinear", names, result, node, axis=0))
        self._replaced.add(tensor.name)
        node.input[2] = result

    def _read_weight(
        self,
        tensor: onnx.TensorProto,
        axis: int | None,
        reader: onnx.NodeProto,
        head: list[onnx.NodeProto],
    ) -> str:
        if tensor.name not in self._stored:
            array = np.asarray(self._loaded.array(tensor))
            known = stored(array, axis, self._format, has_blocks=self._opset >= BLOCKS)
            result = self._fresh(f"{tensor.name}.dequantized")
            names = [
                self._add(tensor, self._packed(known), f"{tensor.name}.{self._format.name}"),
                self._add(tensor, known.scales.astype(array.dtype), f"{tensor.name}.scale"),
            ]
            if reader.op_type == "Gemm" and known.block is None:
                # ONNX Runtime's kernel with integers wants to see that there is no offset.
                zeros = np.zeros(known.scales.shape, np.int8)
                names.append(self._add(tensor, zeros, f"{tensor.name}.zero"))
            attributes = {} if known.axis is None else {"axis": known.axis}
            if known.block is not None:
                attributes["block_size"] = known.block
            head.append(self._node("DequantizeLinear", names, result, reader, **attributes))
            self._stored[tensor.name] = result
            self._scales[tensor.name] = known.scales
            self._replaced.add(tensor.name)
        return self._stored[tensor.name]

    def _packed(self, known: Stored) -> Array:
        return known.values.astype(ml_dtypes.int4) if self._format.name == "int4" else known.values

    def _add(self, like: onnx.TensorProto, array: Array, name: str) -> str:
        made = numpy_helper.from_array(np.asarray(array, order="C"), self._fresh(name))
        made.metadata_props.extend(like.metadata_props)
        self._added.append(made)
        return str(made.name)

    def _round_result(
        self,
        node: onnx.NodeProto,
        name: str,
        key: Key,
        rounded: dict[str, str],
        written: list[onnx.NodeProto],
    ) -> None:
        """Let everybody who reads a result read it as rounded."""
        own = self._fresh(f"{name}.{np.dtype(np.float32).name}")
        node.output[list(node.output).index(name)] = own
        self._round(own, name, key, node, written)
        rounded[name] = name

    def _round(
        self,
        name: str,
        result: str,
        key: Key,
        reader: onnx.NodeProto,
        written: list[onnx.NodeProto],
    ) -> None:
        scale, zero = scale_of(*self._ranges.get(key, (0.0, 0.0)))
        label = self._fresh(f"{key[1]}.scale"), self._fresh(f"{key[1]}.zero")
        self._added.append(numpy_helper.from_array(np.asarray(scale, np.float32), label[0]))
        self._added.append(numpy_helper.from_array(np.asarray(zero, np.uint8), label[1]))
        whole = self._fresh(f"{key[1]}.uint8")
        written.append(self._node("QuantizeLinear", [name, *label], whole, reader))
        written.append(self._node("DequantizeLinear", [whole, *label], result, reader))

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
