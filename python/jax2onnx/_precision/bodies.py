"""Write loops and branches whose values have a shorter type."""

from typing import TYPE_CHECKING

import onnx
from onnx import helper

from .._comparing.graphs import execution_order
from .._comparing.levels import attribute
from .casting import Scope
from .sites import Site, is_long

if TYPE_CHECKING:
    from .casting import Caster


def write_bodies(caster: "Caster", scope: Scope, node: onnx.NodeProto, site: Site) -> None:
    """Write a node with its bodies."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    if node.op_type == "If":
        shorts = _branches(caster, scope, node, made, site)
    else:
        shorts = _loop(caster, scope, node, made, site)
    scope.nodes.append(made)
    for position, name in enumerate(node.output):
        if name and is_long(caster._types.get((scope.place, name))):
            is_short = shorts.get(position, False)
            scope.names[name] = {is_short: name}
            if scope.place == ("main",) and is_short != caster._converts:
                caster._rename_output(scope, made, position, name, is_short=is_short)


def _branches(
    caster: "Caster", scope: Scope, node: onnx.NodeProto, made: onnx.NodeProto, site: Site
) -> dict[int, bool]:
    """Write both branches. Returns which results have the short type: it must be in both."""
    for position, name in enumerate(node.input):
        if caster.is_known_long(scope, name):
            made.input[position] = caster._read(scope, name, False, node)
    inner = {}
    for each in made.attribute:
        if each.type == onnx.AttributeProto.GRAPH:
            inner[each.name] = _body(caster, scope, each.g, (*site[0], site[1], each.name), {})
    shorts = {}
    for position, name in enumerate(node.output):
        if not name or not is_long(caster._types.get((scope.place, name))):
            continue
        outputs = [(each.g, inner[each.name]) for each in made.attribute if each.name in inner]
        shorts[position] = all(
            caster.is_short(body, graph.output[position].name) for graph, body in outputs
        )
        for graph, body in outputs:
            _return(caster, body, graph, position, is_short=shorts[position], reader=node)
    for each in made.attribute:
        if each.name in inner:
            _finish(caster, each.g, inner[each.name])
    return shorts


def _loop(
    caster: "Caster", scope: Scope, node: onnx.NodeProto, made: onnx.NodeProto, site: Site
) -> dict[int, bool]:
    """Write a loop. Returns which results have the short type."""
    (body,) = (each.g for each in made.attribute if each.type == onnx.AttributeProto.GRAPH)
    place = (*site[0], site[1], "body")
    is_scan = node.op_type == "Scan"
    rows = int(attribute(node, "num_scan_inputs", 0)) if is_scan else 0
    first = 0 if is_scan else 2
    states = len(node.input) - rows - first
    inputs = {}
    for position, name in enumerate(node.input):
        if position < first or not caster.is_known_long(scope, name):
            continue
        is_short = caster.may_be_short(scope, name)
        inner = body.input[position].name
        if position - first < states:
            result = body.output[position - first + (0 if is_scan else 1)].name
            is_short = is_short and _stays_short(caster, body, place, result)
        elif inner in caster._exact:
            is_short = False
        inputs[inner] = is_short
        made.input[position] = caster._read(scope, name, is_short, node)
    known = _body(caster, scope, body, place, inputs)
    shorts = {}
    skipped = 0 if is_scan else 1
    for position, name in enumerate(node.output):
        dtype = caster._types.get((scope.place, name)) if name else None
        inside = body.output[position + skipped].name
        if position < states:
            entry = body.input[position + first].name
            shorts[position] = inputs.get(entry, False)
        elif is_long(dtype) or caster.is_known_long(known, inside):
            shorts[position] = caster.is_short(known, inside)
        else:
            continue
        is_short = shorts[position]
        _return(caster, known, body, position + skipped, is_short=is_short, reader=node)
    _finish(caster, body, known)
    return shorts


def _stays_short(
    caster: "Caster", body: onnx.GraphProto, place: tuple[object, ...], result: str
) -> bool:
    """Return whether the next state of a loop may have the short type."""
    for number, node in enumerate(body.node):
        if result in node.output:
            return (place, number) not in caster._long_values
    return True


def _body(
    caster: "Caster",
    scope: Scope,
    body: onnx.GraphProto,
    place: tuple[object, ...],
    inputs: dict[str, bool],
) -> Scope:
    """Write the nodes of a body."""
    inner = Scope(place, scope)
    for tensor in body.initializer:
        caster._begin_weight(inner, tensor)
    for value in body.input:
        if value.name in inputs:
            inner.names[value.name] = {inputs[value.name]: value.name}
            if inputs[value.name]:
                value.type.tensor_type.elem_type = caster._format.code
    nodes = list(body.node)
    caster._nodes(inner, nodes, execution_order(body.node))
    return inner


def _return(
    caster: "Caster",
    scope: Scope,
    body: onnx.GraphProto,
    position: int,
    *,
    is_short: bool,
    reader: onnx.NodeProto,
) -> None:
    """Return a value from a body in a type."""
    output = body.output[position]
    home = scope.find(output.name)
    if home is None:
        return
    dtype = caster._dtype(scope, home, output.name)
    name = caster._read(scope, output.name, is_short, reader)
    output.name = name
    code = caster._format.code if is_short else helper.np_dtype_to_tensor_dtype(dtype)
    if output.type.HasField("tensor_type"):
        output.type.tensor_type.elem_type = code


def _finish(caster: "Caster", body: onnx.GraphProto, scope: Scope) -> None:
    for name in list(scope.pending):
        caster._settle(scope, name)
    del body.node[:]
    body.node.extend(scope.nodes)
    del body.initializer[:]
    body.initializer.extend(scope.weights)
    del body.value_info[:]
