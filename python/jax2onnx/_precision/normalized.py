"""Bring models of other exporters into the form that the rest of the package reads."""

import copy

import onnx

from .._comparing.models import Loaded


def normalized(loaded: Loaded) -> Loaded:
    """Return the model with its weights as initializers, and without unused results.

    Some exporters write weights as nodes called `Constant`. ONNX Runtime rejects some quantized
    nodes whose last result has an empty name.
    """
    graph = loaded.proto.graph
    if not any(_constant(node) or _trailing(node) for node in graph.node):
        return loaded
    made = onnx.ModelProto()
    made.CopyFrom(loaded.proto)
    del made.graph.node[:]
    for node in graph.node:
        tensor = _constant(node)
        if tensor is not None:
            weight = made.graph.initializer.add()
            weight.CopyFrom(tensor)
            weight.name = node.output[0]
            weight.metadata_props.extend(node.metadata_props)
        else:
            kept = made.graph.node.add()
            kept.CopyFrom(node)
            for _ in range(_trailing(node)):
                kept.output.pop()
    found = copy.copy(loaded)
    found.change(made)
    return found


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """Return the array of a node that only contains one."""
    if node.op_type != "Constant" or node.domain:
        return None
    return next((each.t for each in node.attribute if each.name == "value"), None)


def _trailing(node: onnx.NodeProto) -> int:
    """Return how many of the last results have no name."""
    named = [place for place, name in enumerate(node.output, 1) if name]
    return len(node.output) - named[-1] if named else 0
