"""Know the names in a model: those of its weights, and those that are taken."""

from collections.abc import Collection, Iterable
from typing import Any

import onnx


def drop_weights(model: onnx.ModelProto, weights: Collection[str]) -> None:
    """Remove weights from the inputs, where old models list them, too."""
    inputs = [value for value in model.graph.input if value.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 8)


def weight_names(model: onnx.ModelProto) -> Iterable[str]:
    """Yield the names of all weights and constants, also those of bodies and functions."""
    waiting: list[Any] = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        for tensor in getattr(graph, "initializer", ()):
            yield tensor.name
        for node in graph.node:
            if node.op_type == "Constant":
                yield from node.output
            waiting += [each.g for each in node.attribute if each.HasField("g")]


def all_names(model: onnx.ModelProto) -> Iterable[str]:
    """Yield the names of all values and nodes, also those of bodies and functions."""
    waiting: list[Any] = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        for value in graph.input:
            yield value if isinstance(value, str) else value.name
        for tensor in getattr(graph, "initializer", ()):
            yield tensor.name
        for node in graph.node:
            yield node.name
            yield from node.output
            waiting += [each.g for each in node.attribute if each.HasField("g")]
