"""Change models in ways that `compare` has to find."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import helper, numpy_helper


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def nodes(model: onnx.ModelProto) -> Iterator[tuple[int, onnx.NodeProto]]:
    """Yield all nodes with the number of bodies around each."""
    yield from _nodes(model.graph.node, 0)
    for function in model.functions:
        yield from _nodes(function.node, 1)


def _nodes(some: Iterator[onnx.NodeProto], depth: int) -> Iterator[tuple[int, onnx.NodeProto]]:
    for node in some:
        yield depth, node
        for attribute in node.attribute:
            yield from _nodes(attribute.g.node, depth + 1)


def first_node(model: onnx.ModelProto, op: str, depth: int | None = None) -> onnx.NodeProto:
    return next(
        node for at, node in nodes(model) if node.op_type == op and (depth is None or at == depth)
    )


def with_operator(model: onnx.ModelProto, op: str, other: str) -> onnx.ModelProto:
    """Return a model in which the first node of an operator has another one."""
    changed = copied(model)
    first_node(changed, op).op_type = other
    return changed


def with_weight(
    model: onnx.ModelProto, change: Callable[[np.ndarray], np.ndarray], place: int = 0
) -> onnx.ModelProto:
    """Return a model with another weight."""
    changed = copied(model)
    tensor = changed.graph.initializer[place]
    array = change(numpy_helper.to_array(tensor).copy())
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return changed


def without_double_casts(model: onnx.ModelProto) -> onnx.ModelProto:
    """Drop casts to float16 and back, and casts that a converter wrote twice."""
    changed = copied(model)
    casts = {node.output[0]: node for node in changed.graph.node if node.op_type == "Cast"}
    sources = {}
    for name, node in casts.items():
        before = casts.get(node.input[0])
        sources[name] = before.input[0] if before is not None else name
    kept = {}
    for node in changed.graph.node:
        node.input[:] = [
            name if node.op_type == "Cast" else sources.get(name, name) for name in node.input
        ]
        kept.setdefault(node.output[0], node)
    unique = [copied_node(node) for node in kept.values()]
    del changed.graph.node[:]
    changed.graph.node.extend(unique)
    return changed


def copied_node(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy


def made_model(
    nodes: list[onnx.NodeProto],
    inputs: list[tuple[str, int, list[int]]],
    outputs: list[tuple[str, int, list[int]]],
    weights: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "main",
        [info(*each) for each in inputs],
        [info(*each) for each in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)
