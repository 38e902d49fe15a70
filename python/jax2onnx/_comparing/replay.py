"""Run a node of the reference again with more precision, to know what rounding does."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnx

from .arrays import Array
from .graphs import Graph, submodel
from .judging import is_floating
from .levels import contents
from .running import Runner, tensor_type

_SHORT_TYPES: Final = (
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.BFLOAT16,
)


#: Operators that add products or elements.
_SUMS: Final = frozenset(
    (
        *("AveragePool", "Conv", "ConvTranspose", "CumSum", "Einsum", "Gemm", "MatMul"),
        *("GlobalAveragePool", "ReduceMean", "ReduceSum", "Sum"),
    )
)


class Replay:
    """Runs nodes of a graph alone."""

    def __init__(self) -> None:
        """Keep the models of the nodes that were run."""
        self._runners: dict[Any, Runner | None] = {}

    def terms(self, graph: Graph, value: str, values: Mapping[str, Array]) -> "Array | None":
        """Return the sums of the sizes of what a node adds; None if it adds nothing.

        The terms of a sum may cancel. Its error is as large as rounding makes it for its terms.
        """
        number = graph.produced.get(value)
        if number is None or graph.nodes[number].op_type not in _SUMS:
            return None
        if any(each.f < 0 for each in graph.nodes[number].attribute):
            return None
        sizes = {}
        for name in graph.reads(number):
            array = contents(graph, values, name)
            if array is not None:
                sizes[name] = np.abs(array) if is_floating(array.dtype) else array
        return self.run(graph, value, sizes, wide=True)

    def run(
        self, graph: Graph, value: str, values: Mapping[str, Array], *, wide: bool
    ) -> "Array | None":
        """Compute a value by its own node; None if that is not possible.

        Args:
            graph: The graph.
            value: The value.
            values: The contents of what the node reads.
            wide: Whether to compute in float64.
        """
        number = graph.produced.get(value)
        if number is None:
            return None
        feeds = {}
        for name in graph.reads(number):
            array = contents(graph, values, name)
            if array is None:
                continue
            is_wide = wide and is_floating(array.dtype)
            feeds[name] = array.astype(np.float64) if is_wide else np.asarray(array)
        signature = tuple((name, str(array.dtype)) for name, array in feeds.items())
        key = (graph.key, value, wide, signature)
        try:
            if key not in self._runners:
                self._runners[key] = _runner(graph, number, value, feeds, wide=wide)
            runner = self._runners[key]
            return None if runner is None else runner.run(feeds)[value]
        except Exception:
            # No kernel computes this in float64.
            self._runners[key] = None
            return None


def _runner(
    graph: Graph, number: int, value: str, feeds: Mapping[str, Array], *, wide: bool
) -> Runner:
    types = {name: tensor_type(array.dtype) for name, array in feeds.items()}
    part = submodel(graph, [number], types, {value: value})
    if wide:
        for node in part.graph.node:
            _widen(node)
    return Runner(part, graph.model, optimize=False)


def _widen(node: onnx.NodeProto) -> None:
    """Make a node compute in float64."""
    for attribute in node.attribute:
        if attribute.name in ("to", "dtype") and attribute.i in _SHORT_TYPES:
            attribute.i = onnx.TensorProto.DOUBLE
        if attribute.type == onnx.AttributeProto.TENSOR and attribute.t.data_type in _SHORT_TYPES:
            array = onnx.numpy_helper.to_array(attribute.t).astype(np.float64)
            attribute.t.CopyFrom(onnx.numpy_helper.from_array(array, attribute.t.name))
        for inner in attribute.g.node:
            _widen(inner)
