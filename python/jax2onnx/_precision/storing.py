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
from .calibration import Key, Ranges
from .formats import BLOCK, Format, Stored, scale_of, stored
from .names import all_names, drop_weights
from .quantizing import is_matrix_product
from .sites import BLOCKS, VALUES, WEIGHTS, Facts, Part, Site

_IR_OF_FOUR_BITS: Final = 10
#: The domain of ONNX Runtime's own operators.
OWN: Final = "com.microsoft"
#: The products that ONNX Runtime computes with integers if it sees a weight in few bits.
_MATRICES: Final = ("MatMul", "Gemm")
#: A bias that needs more steps would leave no room for the sum.
_OFFSET: Final = 128
_MAX_BIAS: Final = float(1 << 30)


class Storer:
    """Writes the model.

    Attributes:
        casts: The number of nodes that were inserted.
        short: The names of the weights in few bits.
    """

    def __init__(
        self,
        loaded: Loaded,
        facts: Mapping[Site, Facts],
        ranges: Ranges,
        kind: Format,
        parts: Collection[Part],
        *,
        for_onnxruntime: bool = False,
        has_exact_operands: bool = False,
    ) -> None:
        """Plan to write a model.

        Args:
            loaded: The model.
            facts: What is rounded of the nodes that multiply by weights.
            ranges: The smallest and the largest element of each value.
            kind: `int8` or `int4`.
            parts: The parts that are rounded.
            for_onnxruntime: Whether the model may contain ONNX Runtime's own operators.
            has_exact_operands: Whether no runtime may round the operands of products whose weights
                alone are rounded.
        """
        self._for_onnxruntime, self._has_exact_operands = for_onnxruntime, has_exact_operands
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
        #: The weights of products with operands that are rounded.
        self._in_integers = {
            (each.graph.place, each.node.input[position])
            for site, each in facts.items()
            if (site, VALUES) in self._parts and (site, WEIGHTS) in self._parts
            for position in each.given
        }
        self.casts = 0
        self.short: set[str] = set()
        self._used = set(all_names(loaded.proto))
        #: The weights in few bits, with the names of the numbers and the scales, and their sums.
        self._stored: dict[str, tuple[Stored, list[str]]] = {}
        self._dequantized: dict[tuple[str, bool, bool], str] = {}
        self._products: dict[tuple[str, ...], list[str]] = {}
        #: The weights that some node reads as whole numbers.
        self._replaced: set[str] = set()

    def model(self) -> onnx.ModelProto:
        """Return the model."""
        model = onnx.ModelProto()
        model.CopyFrom(self._loaded.proto)
        graph = model.graph
        self._weights = {tensor.name: tensor for tensor in graph.initializer}
        drop_weights(model, self._weights)
        if self._format.name == "int4":
            model.ir_version = max(model.ir_version, _IR_OF_FOUR_BITS)
        self._added: list[onnx.TensorProto] = []
        self._has_own_operators = False
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
        domains = {each.domain for each in model.opset_import}
        if self._has_own_operators and OWN not in domains:
            model.opset_import.append(helper.make_opsetid(OWN, 1))
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
            if facts is not None and self._write_product(made, facts, written):
                continue
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
                has_values = (site, VALUES) in self._parts
                is_exact = self._has_exact_operands and not has_values
                node.input[position] = self._read_weight(
                    tensor,
                    axis,
                    node,
                    head,
                    is_exact=is_exact and node.op_type in _MATRICES,
                    has_offset=(facts.graph.place, name) in self._in_integers,
                )
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

    def _write_product(
        self, node: onnx.NodeProto, facts: Facts, written: list[onnx.NodeProto]
    ) -> bool:
        """Write a matrix product with operators for whole numbers, if it has to be one."""
        has_values = (facts.site, VALUES) in self._parts
        if (facts.site, WEIGHTS) not in self._parts or not is_matrix_product(facts):
            return False
        name = node.input[1]
        tensor = self._weights.get(name)
        if tensor is None or (has_values and not facts.is_dynamic):
            return False
        if not has_values and not (self._for_onnxruntime and self._format.is_blocked):
            return False
        known, _ = self._store(tensor, facts.axis(1, 2))
        is_transposed = node.op_type == "Gemm" and bool(attribute(node, "transB", 0))
        if has_values:
            self._multiply_when_run(node, tensor, known, written, is_transposed=is_transposed)
        else:
            made = self._multiply_blocks(node, tensor, known, is_transposed=is_transposed)
            written.append(made)
        return True

    def _multiply_when_run(
        self,
        node: onnx.NodeProto,
        tensor: onnx.TensorProto,
        known: Stored,
        written: list[onnx.NodeProto],
        *,
        is_transposed: bool,
    ) -> None:
        """Multiply whole numbers whose scale follows from the operand when the model runs."""
        key = tensor.name, "matrix"
        if key not in self._products:
            values = known.values.T if is_transposed else known.values
            self._products[key] = self._with_offset(tensor, values, known.scales, ())
        whole, scale, offset_of_whole = self._products[key]
        operand = node.input[0]
        place = str(id(written)), operand
        if place not in self._products:
            results = [self._fresh(f"{operand}.{each}") for each in ("uint8", "scale", "zero")]
            written.append(self._node("DynamicQuantizeLinear", [operand], results, node))
            self._products[place] = results
        short, step, zero = self._products[place]
        bias = node.input[2] if len(node.input) > 2 else ""
        steps, result = [self._fresh(f"{node.output[0]}.{each}") for each in ("sum", "product")]
        total, both = self._fresh(f"{node.output[0]}.float32"), self._fresh(f"{operand}.scales")
        written += [
            self._node("MatMulInteger", [short, whole, zero, offset_of_whole], [steps], node),
            self._node("Cast", [steps], [total], node, to=onnx.TensorProto.FLOAT),
            self._node("Mul", [step, scale], [both], node),
        ]
        last = "Add" if bias else "Mul"
        if bias:
            written.append(self._node("Mul", [total, both], [result], node))
        inputs = [result, bias] if bias else [total, both]
        written.append(self._instead(node, last, inputs))

    def _multiply_blocks(
        self, node: onnx.NodeProto, tensor: onnx.TensorProto, known: Stored, *, is_transposed: bool
    ) -> onnx.NodeProto:
        """Multiply by a weight whose blocks have scales, in ONNX Runtime's own operator."""
        bits = 4 if self._format.name == "int4" else 8
        values, scales = known.values, known.scales
        if not is_transposed:
            values, scales = values.T, scales.T
        rows, size = values.shape
        key = tensor.name, "blocks"
        if key not in self._products:
            padded = np.zeros((rows, -(-size // BLOCK) * BLOCK), np.int16)
            padded[:, :size] = values
            whole: Any = (padded + (1 << (bits - 1))).astype(np.uint8)
            if bits == 4:
                whole = whole[:, ::2] | (whole[:, 1::2] << 4)
            blocks = whole.reshape(rows, scales.shape[1], -1)
            self._products[key] = [
                self._add_short(tensor, blocks, f"{self._format.name}.blocks"),
                self._add(tensor, scales.reshape(-1), f"{tensor.name}.scale"),
            ]
        names = [node.input[0], *self._products[key]]
        if len(node.input) > 2 and node.input[2]:
            names += ["", "", node.input[2]]
        self._has_own_operators = True
        return self._instead(
            node, "MatMulNBits", names, OWN, K=size, N=rows, bits=bits, block_size=BLOCK
        )

    def _instead(
        self,
        node: onnx.NodeProto,
        op: str,
        inputs: list[str],
        domain: str = "",
        **attributes: Any,
    ) -> onnx.NodeProto:
        """Return a node that computes the results of another one."""
        made = helper.make_node(op, inputs, list(node.output), domain=domain, **attributes)
        made.name, made.doc_string = node.name, node.doc_string
        made.metadata_props.extend(node.metadata_props)
        return made

    def _change_bias(self, node: onnx.NodeProto, facts: Facts, head: list[onnx.NodeProto]) -> None:
        """Store the bias in the steps of the sum that it is added to, which kernels expect."""
        tensor = self._weights.get(node.input[2]) if len(node.input) > 2 else None
        known = self._stored.get(facts.node.input[1])
        scales = None if known is None else known[0].scales
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
        head.append(self._node("DequantizeLinear", names, [result], node, axis=0))
        self._replaced.add(tensor.name)
        node.input[2] = result

    def _store(self, tensor: onnx.TensorProto, axis: int | None) -> tuple[Stored, list[str]]:
        """Return a weight in few bits, with the names of the numbers and of the scales."""
        if tensor.name not in self._stored:
            array = np.asarray(self._loaded.array(tensor))
            known = stored(array, axis, self._format, has_blocks=self._opset >= BLOCKS)
            self._stored[tensor.name] = known, []
            self._replaced.add(tensor.name)
        return self._stored[tensor.name]

    def _names(self, tensor: onnx.TensorProto, known: Stored, names: list[str]) -> list[str]:
        """Add the numbers and the scales of a weight, unless that was done."""
        if not names:
            names += [
                self._add_short(tensor, self._packed(known), self._format.name),
                self._add(tensor, known.scales, f"{tensor.name}.scale"),
            ]
        return names

    def _read_weight(
        self,
        tensor: onnx.TensorProto,
        axis: int | None,
        reader: onnx.NodeProto,
        head: list[onnx.NodeProto],
        *,
        is_exact: bool,
        has_offset: bool,
    ) -> str:
        """Return the name of the numbers of a weight that is stored in few bits."""
        known, names = self._store(tensor, axis)
        has_offset = has_offset and known.block is None and self._format.name == "int8"
        key = tensor.name, is_exact, has_offset
        if key not in self._dequantized:
            if has_offset:
                inputs = self._with_offset(tensor, known.values, known.scales, known.scales.shape)
            else:
                inputs = list(self._names(tensor, known, names))
            result = self._fresh(f"{tensor.name}.dequantized")
            if is_exact:
                self._multiply_by_scales(tensor, known, inputs, result, reader, head)
            else:
                if reader.op_type == "Gemm" and known.block is None and not has_offset:
                    # ONNX Runtime's kernel with integers wants to see that there is no offset.
                    zeros = np.zeros(known.scales.shape, np.int8)
                    inputs.append(self._add(tensor, zeros, f"{tensor.name}.zero"))
                attributes = {} if known.axis is None else {"axis": known.axis}
                if known.block is not None:
                    attributes["block_size"] = known.block
                head.append(self._node("DequantizeLinear", inputs, [result], reader, **attributes))
            self._dequantized[key] = result
        return self._dequantized[key]

    def _with_offset(
        self, tensor: onnx.TensorProto, values: Array, scales: Array, shape: tuple[int, ...]
    ) -> list[str]:
        """Add the numbers of a weight as unsigned ones, with their scales and offsets.

        Products of unsigned and signed integers overflow 16 bits in ONNX Runtime on CPUs without
        VNNI. Products of unsigned ones are exact on every CPU.
        """
        whole = (values.astype(np.int16) + _OFFSET).astype(np.uint8)
        return [
            self._add_short(tensor, whole, "uint8"),
            self._add(tensor, scales, f"{tensor.name}.scale"),
            self._add(tensor, np.full(shape, _OFFSET, np.uint8), f"{tensor.name}.zero"),
        ]

    def _multiply_by_scales(
        self,
        tensor: onnx.TensorProto,
        known: Stored,
        inputs: list[str],
        result: str,
        reader: onnx.NodeProto,
        head: list[onnx.NodeProto],
    ) -> None:
        """Write what runtimes compute once, when they load the model, and fuse with no product."""
        whole, scales = inputs
        long, rank = self._fresh(f"{tensor.name}.float32"), known.values.ndim
        head.append(self._node("Cast", [whole], [long], reader, to=onnx.TensorProto.FLOAT))
        axis = None if known.axis is None else known.axis % rank
        if axis is not None and known.block is not None:
            blocks = np.arange(known.values.shape[axis]) // known.block
            index = self._add(tensor, blocks, f"{tensor.name}.blocks")
            spread = self._fresh(f"{tensor.name}.scales")
            head.append(self._node("Gather", [scales, index], [spread], reader, axis=axis))
            scales = spread
        elif axis is not None and axis < rank - 1:
            others = np.arange(1, rank - axis)
            spread = self._fresh(f"{tensor.name}.scales")
            axes = self._add(tensor, others, f"{tensor.name}.axes")
            head.append(self._node("Unsqueeze", [scales, axes], [spread], reader))
            scales = spread
        head.append(self._node("Mul", [long, scales], [result], reader))

    def _packed(self, known: Stored) -> Array:
        return known.values.astype(ml_dtypes.int4) if self._format.name == "int4" else known.values

    def _add_short(self, like: onnx.TensorProto, array: Array, suffix: str) -> str:
        name = self._add(like, array, f"{like.name}.{suffix}")
        self.short.add(name)
        return name

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
        written.append(self._node("QuantizeLinear", [name, *label], [whole], reader))
        written.append(self._node("DequantizeLinear", [whole, *label], [result], reader))

    def _node(
        self,
        op: str,
        inputs: list[str],
        results: list[str],
        reader: onnx.NodeProto,
        **attributes: Any,
    ) -> onnx.NodeProto:
        """Return a node with the origin of the node that it serves."""
        suffix = op.removesuffix("Linear").lower()
        made = helper.make_node(op, inputs, results, **attributes)
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
