"""Find the weights that can be whole numbers, and the products that can multiply them."""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper

from .._comparing.graphs import FUNCTION, Graph
from .._comparing.levels import attribute
from .errors import relative_error
from .formats import Format, bytes_of, stored
from .sites import (
    PRODUCTS,
    WEIGHTS,
    Facts,
    Part,
    Range,
    Site,
    Weight,
    has_blocks,
    takes_values,
    weight_axis,
)

#: A weight with fewer elements is not worth a scale.
MIN_ELEMENTS: Final = 24
#: A weight in few bits, with its scales, needs at most this share of its bytes.
_WORTH: Final = 0.5
#: So many bodies may be inside each other between the weight and its reader.
_MAX_DEPTH: Final = 8


def quantizable(
    facts: Mapping[Site, Facts],
    types: Mapping[Any, Any],
    kind: Format,
    *,
    has_operands: bool,
    is_dynamic: bool = False,
) -> dict[Site, Facts]:
    """Return the nodes that read weights which can be whole numbers, with what is rounded of them.

    Args:
        facts: What is known of all nodes.
        types: The types of the values of each graph.
        kind: `int8` or `int4`.
        has_operands: Whether the operands of products are rounded, too.
        is_dynamic: Whether their ranges are those that they have when the model runs.
    """
    found: dict[Site, Facts] = {}
    axes: dict[str, tuple[bool, int]] = {}
    for site, known in facts.items():
        weights = _weights(known, kind)
        if not weights:
            continue
        made = Facts(known.graph, known.number, known.order, known.elements, given=set(weights))
        made.own_error, made.values, made.outlier = known.own_error, known.values, known.outlier
        made.axes = weights
        found[site] = made
        for position, axis in weights.items():
            is_product = known.node.op_type in PRODUCTS and position == 1
            name = known.node.input[position]
            axes[name] = max(axes.get(name, (False, axis)), (is_product, axis), key=_is_first)
    for made in found.values():
        # All readers of a weight read the same whole numbers.
        made.axes = {position: axes[made.node.input[position]][1] for position in made.axes}
        made.weights = {position: _weight(made, position, kind) for position in made.axes}
        if has_operands and is_dynamic:
            _add_dynamic_values(made, types)
        elif has_operands:
            _add_values(made, types)
    return found


def _is_first(choice: tuple[bool, int]) -> bool:
    return choice[0]


def _weights(known: Facts, kind: Format) -> dict[int, int]:
    """Return the operands that are weights worth a scale, with the axes of their channels."""
    graph, node = known.graph, known.node
    found = {}
    for position, name in enumerate(node.input):
        tensor = graph.initializer(name) if name else None
        if tensor is None or tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        if not _is_of_main_graph(graph, name, tensor):
            continue
        rank, size = len(tensor.dims), math.prod(tensor.dims)
        if rank < 2 or size < MIN_ELEMENTS or not is_value(graph, known.number, position):
            continue
        axis = weight_axis(node, position, rank)
        if axis is None:
            continue
        shape = list(tensor.dims)
        short = bytes_of(shape, axis, kind, has_blocks=has_blocks(graph.model.proto))
        if short <= _WORTH * 4 * size:
            found[position] = axis
    return found


def _is_of_main_graph(graph: Graph, name: str, tensor: onnx.TensorProto) -> bool:
    top = graph
    while top.outer is not None:
        top = top.outer
    return top.around is None and top.initializers.get(name) is tensor


def is_value(graph: Graph, number: int, position: int, depth: int = 0) -> bool:
    """Return whether an operand is only computed with, also in the bodies of a node."""
    node = graph.nodes[number]
    bodies = graph.bodies(number)
    if not bodies:
        return takes_values(node, position)
    is_call = FUNCTION in bodies
    if depth > _MAX_DEPTH or not (is_call or node.op_type == "Scan"):
        return False
    states = len(node.input) - int(attribute(node, "num_scan_inputs", 0))
    (body,) = bodies.values()
    if (not is_call and position < states) or position >= len(body.inputs):
        return False
    name = body.inputs[position]
    readers = [n for n in range(len(body.nodes)) if name in body.reads(n)]
    if name in body.outputs or not readers:
        return False
    return all(
        name in body.nodes[n].input
        and all(
            is_value(body, n, place, depth + 1)
            for place, read in enumerate(body.nodes[n].input)
            if read == name
        )
        for n in readers
    )


def _weight(facts: Facts, position: int, kind: Format) -> Weight:
    """Return what rounding does to a weight."""
    graph, name = facts.graph, facts.node.input[position]
    tensor = graph.initializer(name)
    if tensor is None:
        return Weight(name, position, Range())
    array: Any = np.asarray(graph.model.array(tensor))
    short = stored(
        array, facts.axes[position], kind, has_blocks=has_blocks(graph.model.proto)
    ).array()
    size = float(np.abs(array).max(initial=0.0))
    return Weight(name, position, Range(array.size, size), relative_error(array, short))


def _add_values(facts: Facts, types: Mapping[Any, Any]) -> None:
    """Note the values that are rounded so that a product computes with integers."""
    graph, node = facts.graph, facts.node
    if node.op_type not in PRODUCTS or node.domain or 1 not in facts.given or 0 in facts.given:
        return
    # Inside a body, the weight is read as it was computed outside.
    if graph.key or types.get((graph.place, node.input[0])) != np.float32:
        return
    if node.op_type == "Conv":
        result = _bounded(graph, node.output[0])
        if result in graph.outputs:
            return
        facts.results, facts.ranged = {0}, {node.output[0]: result}
    facts.operands = {0}


def _add_dynamic_values(facts: Facts, types: Mapping[Any, Any]) -> None:
    """Note the operand of a matrix product that can be rounded when the model runs."""
    graph, node = facts.graph, facts.node
    if types.get((graph.place, node.input[0])) != np.float32 or 0 in facts.given:
        return
    if is_matrix_product(facts):
        facts.operands, facts.is_dynamic = {0}, True


def is_matrix_product(facts: Facts) -> bool:
    """Return whether a node multiplies an operand by a matrix of weights, with a plain bias."""
    graph, node = facts.graph, facts.node
    if node.domain or node.op_type not in ("MatMul", "Gemm") or 1 not in facts.given:
        return False
    tensor = graph.initializer(node.input[1])
    if tensor is None or len(tensor.dims) != 2:
        return False
    is_plain = not attribute(node, "transA", 0) and all(
        attribute(node, name, 1.0) == 1.0 for name in ("alpha", "beta")
    )
    # The channels of the weight are those of the result.
    return is_plain and facts.axes[1] == weight_axis(node, 1, 2)


def _bounded(graph: Graph, name: str) -> str:
    """Return the value after an activation that only cuts the range of a value, if it has one."""
    readers = [number for number in range(len(graph.nodes)) if name in graph.reads(number)]
    if len(readers) != 1 or name in graph.outputs:
        return name
    node = graph.nodes[readers[0]]
    return node.output[0] if node.op_type == "Relu" and not node.domain else name


def tied(facts: Mapping[Site, Facts]) -> list[tuple[list[Part], int]]:
    """Return the parts of nodes that read the same weights, and the bytes of these weights."""
    groups: dict[str, set[Site]] = {}
    bytes_of_weights: dict[str, int] = {}
    for site, each in facts.items():
        for position in each.given:
            name = each.node.input[position]
            tensor = each.graph.initializer(name)
            if tensor is not None:
                groups.setdefault(name, set()).add(site)
                dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
                bytes_of_weights[name] = math.prod(tensor.dims) * dtype.itemsize
    home: dict[Site, Site] = {}

    def root(site: Site) -> Site:
        while home.setdefault(site, site) != site:
            site = home[site]
        return site

    for sites in groups.values():
        first = next(iter(sites))
        for site in sites:
            home[root(site)] = root(first)
    found: dict[Site, tuple[list[Part], int]] = {}
    for site in facts:
        parts, size = found.get(root(site), ([], 0))
        found[root(site)] = ([*parts, (site, WEIGHTS)], size)
    for name, sites in groups.items():
        place = root(next(iter(sites)))
        parts, size = found[place]
        found[place] = (parts, size + bytes_of_weights[name])
    return list(found.values())
