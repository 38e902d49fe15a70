"""Graphs of a model: the main one, bodies of nodes and functions; and models of their parts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

import onnx

from .._errors import ConfigError
from .models import Loaded

#: The way to a graph: for each body around it, the label of the node and the attribute.
Key: TypeAlias = tuple[tuple[str, str], ...]

#: The attribute that stands for the body of a local function.
FUNCTION: Final = "function"
LOOPS: Final = ("Scan", "Loop")


class Graph:
    """A graph whose nodes can be run apart.

    Attributes:
        key: The way from the main graph.
        nodes: The nodes, in an order of execution.
        numbers: The position of each node in the file, where some converters append nodes.
        inputs: The names of the inputs that have to be fed.
        outputs: The names of the outputs.
        produced: The node that computes each value.
        outer: The graph whose values the nodes see.
        owner: The node whose body this is.
        around: The graph of that node.
    """

    def __init__(
        self,
        model: Loaded,
        key: Key,
        nodes: Sequence[onnx.NodeProto],
        inputs: Sequence[str],
        outputs: Sequence[str],
        initializers: Iterable[onnx.TensorProto] = (),
        *,
        around: "tuple[Graph, int] | None" = None,
        sees_outer: bool = True,
        opsets: Sequence[onnx.OperatorSetIdProto] | None = None,
        place: tuple[Any, ...] = ("main",),
    ) -> None:
        """Describe a graph; use `main` and `Graph.bodies`."""
        self.model = model
        self.key = key
        self.numbers = execution_order(nodes)
        self.nodes = [nodes[number] for number in self.numbers]
        self.initializers = {tensor.name: tensor for tensor in initializers}
        self.inputs = [name for name in inputs if name not in self.initializers]
        self.outputs = list(outputs)
        self.around = around[0] if around else None
        self.owner = around[1] if around else None
        self.outer = self.around if sees_outer else None
        self.opsets = list(opsets or model.proto.opset_import)
        #: What the core calls this graph: see `lines.py`.
        self.place = place
        self.produced = {
            name: number for number, node in enumerate(self.nodes) for name in node.output if name
        }

    def initializer(self, name: str) -> onnx.TensorProto | None:
        """Return the weight that a name means in this graph, if it means one."""
        graph: Graph | None = self
        while graph is not None:
            if name in graph.initializers:
                return graph.initializers[name]
            if name in graph.produced or name in graph.inputs:
                return None
            graph = graph.outer
        return None

    @cached_property
    def functions(self) -> Mapping[tuple[str, str, str], onnx.FunctionProto]:
        """Return the local functions of the model."""
        return {
            (each.domain, each.name, each.overload): each for each in self.model.proto.functions
        }

    @cached_property
    def captured(self) -> list[str]:
        """Return the values of the graphs around this one that its nodes read."""
        own = {*self.produced, *self.inputs, *self.initializers}
        return [name for name in free_names(self.nodes, self.outputs) if name not in own]

    @cached_property
    def live(self) -> frozenset[int]:
        """Return the nodes that an output needs."""
        waiting = [self.produced[name] for name in self.outputs if name in self.produced]
        found = set(waiting)
        while waiting:
            for name in self.reads(waiting.pop()):
                number = self.produced.get(name)
                if number is not None and number not in found:
                    found.add(number)
                    waiting.append(number)
        return frozenset(found)

    @cached_property
    def _reads(self) -> list[list[str]]:
        return [names_read(node) for node in self.nodes]

    def reads(self, number: int) -> list[str]:
        """Return the names that a node reads, including those that its bodies capture."""
        return self._reads[number]

    @cached_property
    def _bodies(self) -> dict[int, dict[str, "Graph"]]:
        return {}

    def bodies(self, number: int) -> dict[str, "Graph"]:
        """Return the graphs inside a node: its bodies, or that of the function that it calls."""
        if number not in self._bodies:
            self._bodies[number] = dict(self._bodies_of(number))
        return self._bodies[number]

    def _bodies_of(self, number: int) -> Iterator[tuple[str, "Graph"]]:
        node = self.nodes[number]
        function = self.functions.get((node.domain, node.op_type, node.overload))
        if function is not None:
            yield (
                FUNCTION,
                Graph(
                    self.model,
                    (*self.key, (label(node), FUNCTION)),
                    [_bound(each, function, node) for each in function.node],
                    function.input,
                    function.output,
                    around=(self, number),
                    sees_outer=False,
                    opsets=function.opset_import,
                    place=("function", f"{function.domain}::{function.name}"),
                ),
            )
            return
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                graph = attribute.g
                yield (
                    attribute.name,
                    Graph(
                        self.model,
                        (*self.key, (label(node), attribute.name)),
                        graph.node,
                        [value.name for value in graph.input],
                        [value.name for value in graph.output],
                        graph.initializer,
                        around=(self, number),
                        opsets=self.opsets,
                        place=(*self.place, self.numbers[number], attribute.name),
                    ),
                )


def execution_order(nodes: Sequence[onnx.NodeProto]) -> list[int]:
    """Return an order in which no node reads what a later one computes, close to the given one."""
    producer = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    order: list[int] = []
    done: set[int] = set()
    for number in range(len(nodes)):
        waiting = [number]
        while waiting:
            current = waiting[-1]
            before = [
                producer[name]
                for name in names_read(nodes[current])
                if name in producer and producer[name] not in done and producer[name] != current
            ]
            if current in done or not before:
                waiting.pop()
                if current not in done:
                    done.add(current)
                    order.append(current)
            elif len(waiting) > len(nodes):
                raise ConfigError("the nodes of the model form a cycle")
            else:
                waiting += before
    return order


def main(model: Loaded) -> Graph:
    """Return the main graph of a model."""
    graph = model.proto.graph
    return Graph(
        model,
        (),
        graph.node,
        [value.name for value in graph.input],
        [value.name for value in graph.output],
        graph.initializer,
    )


def label(node: onnx.NodeProto) -> str:
    """Return what a node is called in messages and in the way to its bodies."""
    return node.name or next(iter(node.output), "") or node.op_type


def free_names(nodes: Iterable[onnx.NodeProto], outputs: Iterable[str] = ()) -> list[str]:
    """Return the names that some nodes read and do not compute, each once."""
    known: set[str] = set()
    free: dict[str, None] = {}
    for node in nodes:
        for name in names_read(node):
            if name not in known:
                free.setdefault(name)
        known.update(node.output)
    for name in outputs:
        if name not in known:
            free.setdefault(name)
    return list(free)


def names_read(node: onnx.NodeProto) -> list[str]:
    names = dict.fromkeys(name for name in node.input if name)
    for attribute in node.attribute:
        if not attribute.HasField("g") and not attribute.graphs:
            continue
        for graph in (attribute.g, *attribute.graphs):
            own = {value.name for value in graph.input} | {each.name for each in graph.initializer}
            outputs = [value.name for value in graph.output]
            for name in free_names(graph.node, outputs):
                if name not in own:
                    names.setdefault(name)
    return list(names)


def submodel(
    graph: Graph,
    numbers: Iterable[int],
    fed: Mapping[str, onnx.TypeProto],
    outputs: Mapping[str, str],
) -> onnx.ModelProto:
    """Return a model of some nodes of a graph.

    Args:
        graph: The graph.
        numbers: The nodes, in any order.
        fed: The values that become inputs, with their types, even if one of the nodes computes
            them.
        outputs: The values that become outputs, and the names of these outputs. If a value is also
            fed, the two names have to differ: the nodes read the input.
    """
    proto = graph.model.proto
    part = onnx.ModelProto(ir_version=proto.ir_version)
    part.opset_import.extend(_opsets(graph))
    part.graph.name = "part"
    chosen = sorted(numbers)
    read = {name for number in chosen for name in graph.reads(number)} - fed.keys()
    renamed = {name: shown for name, shown in outputs.items() if name not in read}
    for number in chosen:
        node = part.graph.node.add()
        node.CopyFrom(graph.nodes[number])
        node.output[:] = [renamed.get(name, name) for name in node.output]
    for name, shown in outputs.items():
        if name in read and shown != name:
            part.graph.node.add(op_type="Identity", input=[name], output=[shown])
        part.graph.output.add(name=shown)
    for name, kind in fed.items():
        part.graph.input.add(name=name, type=kind)
    for name in free_names(part.graph.node):
        tensor = None if name in fed else graph.initializer(name)
        if tensor is not None:
            part.graph.initializer.append(tensor)
    if any((n.domain, n.op_type, n.overload) in graph.functions for n in _all(part.graph.node)):
        part.functions.extend(proto.functions)
    return part


def _opsets(graph: Graph) -> list[onnx.OperatorSetIdProto]:
    """Return the opsets of a graph, and those of the functions that it may call."""
    known = {entry.domain: entry for entry in graph.opsets}
    for entry in graph.model.proto.opset_import:
        known.setdefault(entry.domain, entry)
    known.setdefault("", onnx.helper.make_opsetid("", 17))
    return list(known.values())


def _all(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _all(graph.node)


def _bound(
    node: onnx.NodeProto, function: onnx.FunctionProto, call: onnx.NodeProto
) -> onnx.NodeProto:
    """Return a node of a function with the attributes of a call."""
    given = {each.name: each for each in (*function.attribute_proto, *call.attribute)}
    bound = onnx.NodeProto()
    bound.CopyFrom(node)
    del bound.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            actual = given.get(attribute.ref_attr_name)
            if actual is not None:
                bound.attribute.add().CopyFrom(actual)
                bound.attribute[-1].name = attribute.name
            continue
        bound.attribute.add().CopyFrom(attribute)
        graph = bound.attribute[-1].g
        if attribute.type == onnx.AttributeProto.GRAPH:
            inner = [_bound(each, function, call) for each in graph.node]
            del graph.node[:]
            graph.node.extend(inner)
    return bound
