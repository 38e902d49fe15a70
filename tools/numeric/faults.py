"""Put faults into models: another constant, attribute, operator, or a result that is off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

#: Operators and ones with the same operands and types.
OTHERS = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Add",
    "Div": "Mul",
    "Sin": "Cos",
    "Cos": "Sin",
    "Tanh": "Sigmoid",
    "Sigmoid": "Tanh",
    "Exp": "Sin",
    "Sqrt": "Abs",
    "Abs": "Neg",
    "Neg": "Abs",
    "Max": "Min",
    "Min": "Max",
    "Greater": "Less",
    "Less": "Greater",
    "GreaterOrEqual": "LessOrEqual",
    "LessOrEqual": "GreaterOrEqual",
    "ReduceSum": "ReduceMean",
    "ReduceMean": "ReduceSum",
    "ReduceMax": "ReduceMin",
    "ArgMax": "ArgMin",
    "And": "Or",
    "Or": "And",
    "Erf": "Tanh",
    "Log": "Sin",
    "Reciprocal": "Neg",
}
#: Attributes, and what they become.
_ATTRIBUTES = {
    "axis": lambda value: 0 if value in (-1, 1, 2) else 1,
    "epsilon": lambda value: 0.5,
    "alpha": lambda value: value * 1.5,
    "largest": lambda value: 1 - value,
    "approximate": lambda value: b"none" if value == b"tanh" else b"tanh",
}


@dataclass(frozen=True)
class Fault:
    """A changed model.

    Attributes:
        kind: What was changed.
        depth: The number of bodies around it.
        nodes: The outputs of the nodes that are responsible.
        model: The model.
    """

    kind: str
    depth: int
    nodes: tuple[str, ...]
    model: onnx.ModelProto


def all_faults(model: onnx.ModelProto, random: np.random.Generator) -> list[Fault]:
    """Return many faults of a model, in a random order."""
    found = [
        *_of_weights(model, random),
        *_of_operators(model),
        *_of_attributes(model),
        *_of_results(model, random),
    ]
    return [found[place] for place in random.permutation(len(found))]


def nodes_of(model: onnx.ModelProto) -> Iterator[tuple[int, onnx.NodeProto, object]]:
    """Yield each node with the number of bodies around it and the list that contains it."""

    def visit(nodes: object, depth: int) -> Iterator[tuple[int, onnx.NodeProto, object]]:
        for node in nodes:
            yield depth, node, nodes
            for attribute in node.attribute:
                yield from visit(attribute.g.node, depth + 1)

    yield from visit(model.graph.node, 0)
    for function in model.functions:
        yield from visit(function.node, 1)


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _nth(model: onnx.ModelProto, place: int) -> tuple[onnx.NodeProto, object]:
    for number, (_, node, nodes) in enumerate(nodes_of(model)):
        if number == place:
            return node, nodes
    raise IndexError(place)


def _of_weights(model: onnx.ModelProto, random: np.random.Generator) -> Iterator[Fault]:
    for place, tensor in enumerate(model.graph.initializer):
        readers = [(depth, node) for depth, node, _ in nodes_of(model) if tensor.name in node.input]
        array = numpy_helper.to_array(tensor).copy()
        if not readers or array.dtype != np.float32 or array.size == 0:
            continue
        for kind in ("weight", "element"):
            changed = array.copy()
            if kind == "weight":
                changed = changed * np.float32(1.1) + np.float32(0.05)
            else:
                changed.reshape(-1)[random.integers(array.size)] += np.float32(0.5)
            copy = _copy(model)
            copy.graph.initializer[place].CopyFrom(numpy_helper.from_array(changed, tensor.name))
            depth = min(depth for depth, _ in readers)
            yield Fault(kind, depth, tuple(node.output[0] for _, node in readers), copy)


def _of_operators(model: onnx.ModelProto) -> Iterator[Fault]:
    for place, (depth, node, _) in enumerate(nodes_of(model)):
        if node.op_type in OTHERS:
            copy = _copy(model)
            changed, _ = _nth(copy, place)
            changed.op_type = OTHERS[node.op_type]
            yield Fault("operator", depth, (node.output[0],), copy)
        if node.op_type in ("Sub", "Div", "Where") and len(node.input) >= 2:
            copy = _copy(model)
            changed, _ = _nth(copy, place)
            first = 1 if node.op_type == "Where" else 0
            changed.input[first], changed.input[first + 1] = (
                node.input[first + 1],
                node.input[first],
            )
            yield Fault("operands", depth, (node.output[0],), copy)


def _of_attributes(model: onnx.ModelProto) -> Iterator[Fault]:
    for place, (depth, node, _) in enumerate(nodes_of(model)):
        for index, attribute in enumerate(node.attribute):
            if attribute.name == "perm" and len(attribute.ints) == 2:
                continue
            if attribute.name not in _ATTRIBUTES:
                continue
            copy = _copy(model)
            changed, _ = _nth(copy, place)
            value = helper.get_attribute_value(attribute)
            other = helper.make_attribute(attribute.name, _ATTRIBUTES[attribute.name](value))
            changed.attribute[index].CopyFrom(other)
            yield Fault("attribute", depth, (node.output[0],), copy)


def _of_results(model: onnx.ModelProto, random: np.random.Generator) -> Iterator[Fault]:
    """Yield models with a factor behind a node, so that its result is off by 1 %."""
    floats = _float_values(model)
    for place, (depth, node, _) in enumerate(nodes_of(model)):
        name = node.output[0]
        if name not in floats or node.op_type in ("Scan", "Loop", "If", "Constant"):
            continue
        copy = _copy(model)
        changed, nodes = _nth(copy, place)
        changed.output[0] = f"{name}|exact"
        value = helper.make_tensor("factor", onnx.TensorProto.FLOAT, [], [1.01])
        factor = helper.make_node("Constant", [], [f"{name}|factor"], f"{name}|factor", value=value)
        product = helper.make_node(
            "Mul", [f"{name}|exact", f"{name}|factor"], [name], f"{name}|scaled"
        )
        position = [each.SerializeToString() for each in nodes].index(changed.SerializeToString())
        kept = list(nodes)
        rest = [*kept[: position + 1], factor, product, *kept[position + 1 :]]
        fresh = [onnx.NodeProto.FromString(each.SerializeToString()) for each in rest]
        del nodes[:]
        nodes.extend(fresh)
        yield Fault("result", depth, (name,), copy)


def _float_values(model: onnx.ModelProto) -> set[str]:
    """Return the values whose type is known to be float32."""
    infos: list[onnx.ValueInfoProto] = []

    def visit(graph: onnx.GraphProto) -> None:
        infos.extend([*graph.value_info, *graph.output])
        for node in graph.node:
            for attribute in node.attribute:
                visit(attribute.g)

    visit(model.graph)
    for function in model.functions:
        infos.extend(function.value_info)
        for node in function.node:
            for attribute in node.attribute:
                visit(attribute.g)
    return {
        info.name for info in infos if info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    }
