"""Lower one node after another, each in a model of its own: what a tool without cuts does.

Casts around the node let it compute in float16. Nothing else costs time: the model is in memory,
the data is one set of inputs, and a session runs each model once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper


def one_by_one(model: onnx.ModelProto, inputs: list[Any]) -> list[float]:
    """Return the error of the outputs for each node of the model, in bodies too."""
    names = [value.name for value in model.graph.input]
    feeds = dict(zip(names, inputs, strict=True))
    plain = _run(model, feeds)
    errors = []
    for place in range(len(_nodes(model))):
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        graph, number, long = _nodes(changed)[place]
        if graph.node[number].op_type in ("Scan", "Loop", "If", "Constant"):
            continue
        _lower(graph, number, long)
        try:
            found = _run(changed, feeds)
        except Exception:
            # The node has no form in float16.
            continue
        errors.append(
            max(
                float(np.abs(one - other).max(initial=0))
                for one, other in zip(plain, found, strict=True)
            )
        )
    return errors


def _lower(graph: Any, number: int, long: set[str]) -> None:
    """Insert casts before a node and after it."""
    node = graph.node[number]
    before, after = [], []
    for position, name in enumerate(node.input):
        if name in long:
            node.input[position] = f"{name}|short{position}"
            before.append(_cast(name, node.input[position], TensorProto.FLOAT16))
    for position, name in enumerate(node.output):
        if name in long:
            node.output[position] = f"{name}|short"
            after.append(_cast(node.output[position], name, TensorProto.FLOAT))
    for cast in after:
        graph.node.insert(number + 1, cast)
    for cast in before:
        graph.node.insert(number, cast)


def _long(graph: Any) -> set[str]:
    """Return the values of a graph that are float32."""
    if isinstance(graph, onnx.FunctionProto):
        return {value.name for value in graph.value_info if _is_long(value)}
    values = (*graph.value_info, *graph.input, *graph.output)
    weights = {each.name for each in graph.initializer if each.data_type == TensorProto.FLOAT}
    return weights | {value.name for value in values if _is_long(value)}


def _cast(name: str, result: str, code: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [name], [result], to=code)


def _is_long(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == TensorProto.FLOAT)


def _nodes(model: onnx.ModelProto) -> list[tuple[Any, int, set[str]]]:
    """Return the nodes of all graphs: the graph, the position there, and the float32 values."""
    waiting: list[Any] = [(each, _long(each)) for each in (model.graph, *model.functions)]
    found = []
    while waiting:
        graph, long = waiting.pop(0)
        for number, node in enumerate(graph.node):
            found.append((graph, number, long))
            bodies = [each.g for each in node.attribute if each.HasField("g")]
            waiting += [(body, long | _long(body)) for body in bodies]
    return found


def _run(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Threads that wait would look busy.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found: list[Any] = session.run(None, feeds)
    return found
