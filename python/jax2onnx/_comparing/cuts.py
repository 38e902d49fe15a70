"""Cut a graph at the values whose contents are known, so that each node shows its own error.

The values of two graphs are paired by name. In the cut graph, a node that reads a paired value
reads its expected contents. So no node inherits an error, and all nodes run at once.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import onnx

from .arrays import Array
from .executors import Executor, Runs
from .graphs import FUNCTION, LOOPS, Graph, label, submodel
from .judging import Tolerance, is_floating
from .levels import Level, contents
from .running import Runner, tensor_type

_COMPUTED: Final = "|computed"


@dataclass(frozen=True)
class Segment:
    """The nodes between a paired value and the paired values that it is computed from.

    Attributes:
        value: The value of the cut graph.
        partner: The value of the reference.
        nodes: The nodes, in the order of execution; the last one computes the value.
        inputs: The paired values that they read.
        ready: The node of the reference after which all contents are known.
        behind: The nodes of the reference that compute the partner from given values, the last one
            first, if the reference computes some of the inputs itself.
    """

    value: str
    partner: str
    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    ready: int
    tolerance: Tolerance
    behind: tuple[int, ...] = ()


class Cut:
    """A graph that is compared with another one, the reference.

    Attributes:
        reference: The graph of the reference.
        graph: The graph that is cut.
        partners: The value of the reference for each value of the graph that has one.
        aligned: For each node of the reference with a body, the node with the same body.
        crossed: Outputs of the body that have the contents of another output.
    """

    def __init__(
        self,
        reference: Level,
        graph: Graph,
        outer: "Cut | None" = None,
        *,
        executor: Executor,
        enters_bodies: bool = True,
    ) -> None:
        """Pair the values of the two graphs, and find the segments.

        Args:
            reference: The graph of the reference.
            graph: The graph to cut.
            outer: The cut of the graph around it.
            executor: The runtime that runs the cut graph.
            enters_bodies: Whether to compare bodies step by step, not the node as a whole.
        """
        self.reference = reference.graph
        self.graph = graph
        self._level = reference
        self._outer = outer
        self._executor = executor
        self.partners = dict(self._paired())
        self.crossed: list[tuple[str, str]] = []
        self._pair_outputs()
        self.aligned = dict(self._aligned()) if enters_bodies else {}
        self.types: dict[str, np.dtype[Any]] = inferred_types(graph, outer.types if outer else {})
        self.reference_types: dict[str, np.dtype[Any]] = inferred_types(
            self.reference, outer.reference_types if outer else {}
        )
        self._drop_other_types()
        self._pair_copies()
        driven = set(self.aligned.values())
        self.segments = list(self._segments(self.graph.live - driven))
        #: The nodes whose bodies are compared step by step. Another runtime may compute a loop
        #: wrongly although it computes each node of its body correctly.
        self.wholes = [] if executor.is_local else list(self._segments(self.graph.live & driven))
        for segment in (*self.segments, *self.wholes):
            for name in (segment.partner, *(self.partners[each] for each in segment.inputs)):
                reference.needs(name, segment.ready)
        #: The models of the segments that are ready in a part, by the part.
        self._runners: dict[tuple[int, int], tuple[list[Segment], list[Runs | Exception]]] = {}
        self._whole_runners: dict[tuple[int, bool], Runs | Exception] = {}

    @property
    def unpaired(self) -> int:
        """The number of nodes whose result has no partner."""
        return sum(
            not any(name in self.partners for name in node.output) for node in self.graph.nodes
        )

    def _paired(self) -> Iterator[tuple[str, str]]:
        """Yield the values with the same name, and the inputs with the same position."""
        known = {*self.reference.produced, *self.reference.inputs}
        own = self.reference.inputs
        is_body = bool(self.graph.key)
        for position, name in enumerate(self.graph.inputs):
            if not is_body and name in own:
                yield name, name
            elif position < len(own):
                yield name, own[position]
        for name in self.graph.produced:
            if name in known or name in self.reference.initializers:
                yield name, name
        if self._outer is not None and self.graph.outer is not None:
            for name in self.graph.captured:
                if name in self._outer.partners and self.graph.initializer(name) is None:
                    yield name, self._outer.partners[name]

    def _pair_outputs(self) -> None:
        """Pair the outputs by position. They may have other names, or be exchanged."""
        for name, partner in zip(self.graph.outputs, self.reference.outputs, strict=False):
            if name not in self.partners and name in self.graph.produced:
                self.partners[name] = partner
            elif self.graph.key and self.partners.get(name, partner) != partner:
                self.crossed.append((name, partner))

    def _pair_copies(self) -> None:
        """Pair what a converter inserts: a cast of a paired value is the same value."""
        for node in self.graph.nodes:
            if node.op_type not in ("Cast", "Identity") or len(node.output) != 1:
                continue
            before, after = node.input[0], node.output[0]
            is_float = all(
                is_floating(self.types[name]) for name in (before, after) if name in self.types
            )
            if before in self.partners and is_float:
                self.partners.setdefault(after, self.partners[before])

    def _drop_other_types(self) -> None:
        """Forget pairs that cannot be the same value, such as a float and its quantized form."""
        for name, partner in list(self.partners.items()):
            own, other = self.types.get(name), self.reference_types.get(partner)
            if own is not None and other is not None and not _is_comparable(other, own):
                del self.partners[name]

    def _aligned(self) -> Iterator[tuple[int, int]]:
        """Yield the nodes whose bodies can be compared step by step."""
        for number, node in enumerate(self.graph.nodes):
            bodies = self.graph.bodies(number)
            if not bodies:
                continue
            partner = next(
                (self.partners[name] for name in node.output if name in self.partners), None
            )
            other = self.reference.produced.get(partner or "", self._labels.get(label(node)))
            if other is None or not self._is_aligned(number, other):
                continue
            before = self.reference.nodes[other]
            for name, expected in zip(node.output, before.output, strict=True):
                if name and expected:
                    self.partners.setdefault(name, expected)
            for name, expected in zip(node.input, before.input, strict=True):
                if name in self.graph.produced and expected:
                    self.partners.setdefault(name, expected)
            yield other, number

    @cached_property
    def _labels(self) -> dict[str, int]:
        return {label(node): number for number, node in enumerate(self.reference.nodes)}

    def _is_aligned(self, number: int, other: int) -> bool:
        node, before = self.graph.nodes[number], self.reference.nodes[other]
        same_kind = (node.op_type, node.domain) == (before.op_type, before.domain)
        counts = (len(node.input), len(node.output)) == (len(before.input), len(before.output))
        if not same_kind or not counts or _settings(node) != _settings(before):
            return False
        own, others = self.graph.bodies(number), self.reference.bodies(other)
        return own.keys() == others.keys() and all(
            len(own[key].inputs) == len(others[key].inputs)
            and len(own[key].outputs) == len(others[key].outputs)
            for key in own
        )

    def _segments(self, numbers: Collection[int]) -> Iterator[Segment]:
        for number, node in enumerate(self.graph.nodes):
            if number not in numbers:
                continue
            for name in node.output:
                if name in self.partners and name in self.types:
                    yield self._segment(name, number)

    def _segment(self, value: str, number: int) -> Segment:
        nodes, waiting = {number}, [number]
        inputs: dict[str, None] = {}
        while waiting:
            for name in self.graph.reads(waiting.pop()):
                before = self.graph.produced.get(name)
                if name in self.partners and name in self.types:
                    inputs[name] = None
                elif before is not None and before not in nodes:
                    nodes.add(before)
                    waiting.append(before)
        produced = self.reference.produced
        partners = [self.partners[name] for name in (value, *inputs)]
        ready = max((produced.get(name, -1) for name in partners), default=-1)
        ops = [each for one in nodes for each in _operators(self.graph.nodes[one])]
        names = [*inputs, *(name for one in nodes for name in self.graph.nodes[one].output)]
        types = [self.types[name] for name in names if name in self.types]
        behind = self._behind(partners)
        ops += [self.reference.nodes[one].op_type for one in behind]
        return Segment(
            value,
            self.partners[value],
            tuple(sorted(nodes)),
            tuple(inputs),
            max(ready, 0),
            Tolerance.of(ops, types, len(behind)),
            behind,
        )

    def _behind(self, partners: Sequence[str]) -> tuple[int, ...]:
        """Return the nodes of the reference between a given value and given values."""
        given, produced = self._level.given, self.reference.produced
        value, *inputs = partners
        own = [each for each in inputs if each not in given and each in produced]
        if value not in given or not own or value not in produced:
            return ()
        found = [produced[value]]
        for number in found:
            for name in self.reference.reads(number):
                before = produced.get(name)
                if name not in given and before is not None and before not in found:
                    found.append(before)
        return tuple(found)

    def reference_nodes(self, segment: Segment) -> list[int]:
        """Return the nodes of the reference that belong to a segment, the last one first."""
        known = {self.partners[name] for name in segment.inputs}
        first = self.reference.produced.get(segment.partner)
        found = [] if first is None else [first]
        for number in found:
            for name in self.reference.reads(number):
                before = self.reference.produced.get(name)
                if name not in known and before is not None and before not in found:
                    if len(segment.nodes) == 1 and not self._is_new(name):
                        continue
                    found.append(before)
        return found

    def _is_new(self, name: str) -> bool:
        """Return whether a value of the reference has no partner in the graph."""
        return name not in self._partnered

    @cached_property
    def _partnered(self) -> frozenset[str]:
        return frozenset(self.partners.values())

    def run(
        self, start: int, stop: int, values: Mapping[str, Array]
    ) -> Iterator[tuple[Segment, Any, Array, dict[str, Array]]]:
        """Run the segments that are ready in a part of the reference.

        Yields:
            The segment, its result or the exception that it raised, what is expected, and the
            contents that the segment was fed.
        """
        if (start, stop) not in self._runners:
            is_last = stop >= len(self.reference.nodes)
            ready = [
                each
                for each in self.segments
                if start <= each.ready and (each.ready < stop or is_last)
            ]
            self._runners[start, stop] = ready, list(self._made([ready] if ready else []))
        ready, runners = self._runners[start, stop]
        if not ready:
            return
        feeds = self.feeds({name for each in ready for name in each.inputs}, values)
        results = None
        if len(runners) == 1 and not isinstance(runners[0], Exception):
            try:
                results = runners[0].run(feeds)
            except Exception:
                runners[:] = self._made([[each] for each in ready])
        if results is None:
            if len(runners) != len(ready):
                runners[:] = self._made([[each] for each in ready])
            results = _run_each(ready, runners, feeds)
        for segment in ready:
            expected = contents(self.reference, values, segment.partner)
            got = results[segment.value + _COMPUTED]
            if expected is not None:
                yield segment, got, expected, feeds

    def run_wholes(
        self, start: int, stop: int, values: Mapping[str, Array]
    ) -> Iterator[tuple[list[Segment], Any, Any, dict[str, Array]]]:
        """Run the nodes with bodies that are ready in a part of the reference as a whole.

        Yields:
            The segments of a node; its results by name, or the exception that it raised; the same
            of ONNX Runtime without optimizations; and the contents that the node was fed.
        """
        is_last = stop >= len(self.reference.nodes)
        groups: dict[int, list[Segment]] = {}
        for each in self.wholes:
            if start <= each.ready and (each.ready < stop or is_last):
                groups.setdefault(each.nodes[-1], []).append(each)
        for number, group in groups.items():
            feeds = self.feeds({name for each in group for name in each.inputs}, values)
            results = [
                self._whole(number, group, feeds, optimize=optimize) for optimize in (True, False)
            ]
            yield group, *results, feeds

    def _whole(
        self, number: int, group: Sequence[Segment], feeds: Mapping[str, Array], *, optimize: bool
    ) -> Any:
        key = number, optimize
        try:
            if key not in self._whole_runners:
                self._whole_runners[key] = self.runner(group, optimize=optimize)
            runner = self._whole_runners[key]
            if isinstance(runner, Exception):
                return runner
            found = runner.run(feeds)
        except Exception as error:
            self._whole_runners[key] = error
            return error
        return {each.value: found[each.value + _COMPUTED] for each in group}

    def _made(self, groups: Iterable[Sequence[Segment]]) -> Iterator[Runs | Exception]:
        for group in groups:
            try:
                yield self.runner(group)
            except Exception as error:
                yield error

    def runner(self, segments: Sequence[Segment], *, optimize: bool = True) -> Runs:
        """Return the model of some segments."""
        return self._executor.load(
            self.model(segments),
            self.graph.model,
            types={each.value + _COMPUTED: self.types[each.value] for each in segments},
            constants=self.constants,
            optimize=optimize,
        )

    @cached_property
    def constants(self) -> frozenset[str]:
        """Return the values that nodes called `Constant` compute."""
        return frozenset(
            name for node in self.graph.nodes if node.op_type == "Constant" for name in node.output
        )

    def model(self, segments: Sequence[Segment]) -> onnx.ModelProto:
        """Return a model that computes the values of segments from their inputs."""
        fed = {name: tensor_type(self.types[name]) for each in segments for name in each.inputs}
        outputs = {each.value: each.value + _COMPUTED for each in segments}
        numbers = {number for each in segments for number in each.nodes}
        return submodel(self.graph, numbers, fed, outputs)

    def feeds(self, names: Iterable[str], values: Mapping[str, Array]) -> dict[str, Array]:
        """Return the expected contents of values, in the types of the cut graph."""
        fed = {}
        for name in names:
            array = contents(self.reference, values, self.partners[name])
            if array is not None:
                with np.errstate(all="ignore"):
                    fed[name] = np.asarray(array).astype(self.types[name], copy=False)
        return fed

    def input_pairs(
        self, other: int, values: Mapping[str, Array]
    ) -> Iterator[tuple[str, Array, Array]]:
        """Yield what an aligned node passes to its body, and what is expected."""
        node, before = self.graph.nodes[self.aligned[other]], self.reference.nodes[other]
        for name, partner in zip(node.input, before.input, strict=True):
            expected = contents(self.reference, values, partner)
            tensor = self.graph.initializer(name)
            if tensor is not None:
                got = self.graph.model.array(tensor)
            elif name in self.partners and self.partners[name] != partner:
                got = contents(self.reference, values, self.partners[name])
            else:
                continue
            if expected is not None and got is not None:
                yield name, got, expected


def _run_each(
    segments: Sequence[Segment],
    runners: Sequence[Runs | Exception],
    feeds: Mapping[str, Array],
) -> dict[str, Any]:
    """Run each segment alone, so that one that fails does not hide the others."""
    results: dict[str, Any] = {}
    for segment, runner in zip(segments, runners, strict=True):
        name = segment.value + _COMPUTED
        try:
            if isinstance(runner, Exception):
                raise runner
            results[name] = runner.run(feeds)[name]
        except Exception as error:
            results[name] = error
    return results


def _settings(node: onnx.NodeProto) -> dict[str, bytes]:
    """Return the attributes of a node that are not bodies."""
    return {
        each.name: each.SerializeToString()
        for each in node.attribute
        if each.type != onnx.AttributeProto.GRAPH
    }


def _operators(node: onnx.NodeProto) -> list[str]:
    inner = [
        op for attribute in node.attribute for each in attribute.g.node for op in _operators(each)
    ]
    if node.op_type in LOOPS:
        return [*inner, node.op_type]
    return inner or [node.op_type]


def _is_comparable(expected: np.dtype[Any], got: np.dtype[Any]) -> bool:
    """Return whether values of two types can be the same value."""
    if is_floating(expected) and is_floating(got):
        return True
    return expected.kind == got.kind or {expected.kind, got.kind} <= set("iu")


def inferred_types(graph: Graph, outer: Mapping[str, np.dtype[Any]]) -> dict[str, np.dtype[Any]]:
    """Return the types of the values of a graph, as the runtime infers them.

    Args:
        graph: The graph.
        outer: The types of the values of the graph around it.
    """
    known: dict[str, np.dtype[Any]] = {}
    for name in dict.fromkeys([*graph.inputs, *graph.captured]):
        is_input = name in graph.inputs
        if not is_input and graph.initializer(name) is not None:
            continue
        dtype = _input_type(graph, name, outer) if is_input else outer.get(name)
        if dtype is not None:
            known[name] = dtype
    if not graph.nodes:
        return known
    types = {name: tensor_type(dtype) for name, dtype in known.items()}
    outputs = {name: name for name in graph.produced}
    part = submodel(graph, range(len(graph.nodes)), types, outputs)
    return known | Runner(part, graph.model, optimize=False).types


def _input_type(
    graph: Graph, name: str, outer: Mapping[str, np.dtype[Any]]
) -> np.dtype[Any] | None:
    """Return the type of an input: the declared one, or that of what the owner passes."""
    owner, around = graph.owner, graph.around
    if around is None or owner is None:
        declared = {value.name: value for value in graph.model.proto.graph.input}
        code = declared[name].type.tensor_type.elem_type
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
    position = graph.inputs.index(name)
    node = around.nodes[owner]
    if node.op_type == "Loop" and position < 2 and FUNCTION not in around.bodies(owner):
        return np.dtype(np.int64 if position == 0 else np.bool_)
    passed = node.input[position] if position < len(node.input) else ""
    tensor = around.initializer(passed)
    if tensor is not None:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
    return outer.get(passed)
