"""Look at all values of a model, and run each node alone on rounded operands."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnx

from .._comparing.arrays import Array
from .._comparing.graphs import FUNCTION, Graph, submodel
from .._comparing.levels import Level, Values, contents
from .._comparing.running import Runner, tensor_type
from .._comparing.walk import Place, Walk
from .calibration import Calibration, Ranges
from .errors import relative_error
from .formats import Format, stored
from .sites import (
    INSIDE,
    MIXING,
    PRODUCTS,
    Facts,
    Range,
    Site,
    Weight,
    is_given,
    is_long,
    rounds,
    site_of,
    takes_values,
    weight_axis,
)

#: So many first iterations of a body are looked at closely; later ones at powers of two.
_CLOSE: Final = 16
#: So many iterations of a body are looked at, over all visits.
_MAX_ITERATIONS: Final = 512
#: Operators whose result is close to their first operand.
_BOUNDING: Final = ("Identity", "Relu", "Max", "Min", "Clip", "Reshape", "Squeeze", "Unsqueeze")
_LOW: Final = "|low"
#: A result has another scale than an operand if its range is so many times as large.
_MIXED: Final = 4.0
#: A channel is an outlier if it is so many times as large as the median one.
_OUTLIER: Final = 16.0
_MAX_OUTLIER_ELEMENTS: Final = 1 << 24


class Watch:
    """Looks at the values of a model.

    Attributes:
        facts: What was seen of each node.
        types: The types of the values of each graph.
        calibration: The ranges of the values of each graph, if the type has scales.
    """

    def __init__(self, kind: Format) -> None:
        """Look for what is lost in a type."""
        self._format = kind
        self.facts: dict[Site, Facts] = {}
        self.types: dict[tuple[tuple[Any, ...], str], np.dtype[Any]] = {}
        self.calibration = Calibration()
        self._multiplied: set[tuple[tuple[Any, ...], str]] = set()
        self._twins: dict[Any, tuple[Runner | None, list[str], list[int]]] = {}
        self._weights: dict[tuple[tuple[Any, ...], str, int | None], Array] = {}
        self._visits: dict[Any, int] = {}
        self._entered: dict[Any, int] = {}

    def run(self, graph: Graph, feeds: Mapping[str, Array]) -> Values:
        """Run the model, and look at its values. Returns its outputs."""
        self.calibration.begin()
        for name, array in feeds.items():
            if isinstance(array, np.ndarray):
                self._note_type(graph, name, array)
        return _Walk(self).run(graph, feeds)

    @property
    def ranges(self) -> Ranges:
        """The smallest and the largest element of each value of each graph."""
        return self.calibration.ranges()

    def level(self, graph: Graph) -> Level:
        """Run a graph as it is."""
        return Level(graph)

    def check_input(self, place: Place, name: str, got: Array, expected: Array) -> None:
        """Look at nothing: the model is its own reference."""

    def enters(self, place: Place, number: int, values: Values) -> bool:
        """Look into every body, until enough iterations were seen."""
        bodies = place.graph.bodies(number)
        return any(self._entered.get(body.key, 0) < _MAX_ITERATIONS for body in bodies.values())

    def goes_on(self, body: Graph) -> bool:
        """Count an iteration of a body. Returns whether it is looked at."""
        self._entered[body.key] = self._entered.get(body.key, 0) + 1
        return self._entered[body.key] <= _MAX_ITERATIONS

    def look_at_results(self, graph: Graph, number: int, values: Values) -> None:
        """Look at what a loop returns, if not all of its iterations were looked at."""
        node = graph.nodes[number]
        for body in graph.bodies(number).values():
            skipped = 1 if node.op_type == "Loop" else 0
            for inner, outer in zip(body.outputs[skipped:], node.output, strict=False):
                array = values.get(outer)
                producer = body.produced.get(inner)
                while producer is not None and body.nodes[producer].op_type in _BOUNDING:
                    producer = body.produced.get(body.nodes[producer].input[0])
                if array is None or producer is None or not _is_long(array):
                    continue
                found = self.facts.get(site_of(body, producer))
                if found is not None and found.results:
                    found.values.add(self._range(array))

    def part(self, place: Place, start: int, stop: int, values: Values) -> None:
        """Look at the values that some nodes computed."""
        graph = place.graph
        is_close = self._is_close(place, start)
        numbers = []
        for number in range(start, stop):
            node = graph.nodes[number]
            if node.op_type in PRODUCTS and not self._format.is_float:
                self._multiplied |= {(graph.place, name) for name in (node.input[0], *node.output)}
            for name in (*node.input, *node.output):
                array = values.get(name)
                if array is not None:
                    self._note_type(graph, name, array)
            found = self._facts(place, number, values)
            if found is None:
                continue
            is_new = self._look(found, place, values, is_close=is_close)
            if is_close or is_new:
                numbers.append(number)
        if numbers:
            self._run_rounded(place, numbers, values)

    def _is_close(self, place: Place, start: int) -> bool:
        """Return whether to look closely at an iteration: at the first ones, and at some others."""
        if not place.graph.key:
            return True
        key = (place.graph.key, start)
        visits = self._visits[key] = self._visits.get(key, 0) + 1
        return visits <= _CLOSE or visits & (visits - 1) == 0

    def _note_type(self, graph: Graph, name: str, array: Array) -> None:
        key = graph.place, name
        self.types.setdefault(key, array.dtype)
        if not self._format.is_float and is_long(array.dtype) and array.size:
            self.calibration.add(key, array, keeps=key in self._multiplied)

    def _facts(self, place: Place, number: int, values: Values) -> Facts | None:
        """Return what is known about a node; None if nothing is rounded."""
        graph = place.graph
        site = site_of(graph, number)
        if site in self.facts:
            found = self.facts[site]
            return found if found.matters else None
        node = graph.nodes[number]
        found = self.facts[site] = Facts(graph, number, (*place.order, number))
        is_call = FUNCTION in graph.bodies(number)
        if graph.bodies(number) or is_call or (node.op_type == "Constant" and not node.domain):
            return None
        results = {i for i, name in enumerate(node.output) if _is_long(values.get(name))}
        for position, name in enumerate(node.input):
            if not name or not takes_values(node, position) or not is_given(graph, name):
                continue
            array = contents(graph, values, name)
            if array is None or not is_long(array.dtype):
                continue
            axis = weight_axis(node, position, array.ndim)
            if not self._format.is_float and axis is None and not _is_input(graph, name):
                # Biases and factors keep their type.
                continue
            found.given.add(position)
            if not _is_input(graph, name):
                error = relative_error(array, self._rounded_weight(graph, name, array, axis))
                found.weights[position] = Weight(name, position, self._range(array), error)
        if self._format.name == "int4":
            # Only weights are stored in four bits.
            found.given &= set(found.weights)
        elif rounds(node) or self._mixes(graph, node, values):
            found.results = results
        elif not results:
            found.given.clear()
        return found if found.matters else None

    def _mixes(self, graph: Graph, node: onnx.NodeProto, values: Values) -> bool:
        """Return whether a result has one scale for elements that had another one before.

        The number of a mask and the scores that it replaces are an example.
        """
        if self._format.is_float or node.domain or node.op_type not in MIXING:
            return False
        sizes = [_size(contents(graph, values, name)) for name in node.input if name]
        computed = [
            size
            for size, name in zip(sizes, filter(None, node.input), strict=True)
            if size and not is_given(graph, name)
        ]
        return bool(computed) and _size(values.get(node.output[0])) > _MIXED * min(computed)

    def _range(self, array: Array) -> Range:
        """Return what the numbers of an array are like."""
        kind = self._format
        if not array.size:
            return Range()
        with np.errstate(all="ignore"):
            size = np.abs(array)
            largest = float(size.max())
            low, high = float(array.min()), float(array.max())
            if not np.isfinite(largest):
                size = size[np.isfinite(size)]
                if not size.size:
                    return Range(array.size)
                largest = float(size.max())
                finite = array[np.isfinite(array)]
                low, high = float(finite.min()), float(finite.max())
            found = Range(array.size, largest, low, high)
            if kind.is_float:
                if largest >= kind.limit:
                    found.overflowing = int(np.count_nonzero(size >= kind.limit))
                small = size < kind.normal
                small &= size > 0
                if small.any():
                    below = size[small]
                    found.smallest = float(below.min())
                    found.vanishing = int(np.count_nonzero(below <= kind.smallest / 2))
                    found.subnormal = int(below.size) - found.vanishing
        return found

    def _look(self, found: Facts, place: Place, values: Values, *, is_close: bool) -> bool:
        """Look at the results of a node. Returns whether they overflow for the first time."""
        node = found.node
        had_overflow = found.values.overflowing > 0
        for number in found.results:
            array = values.get(node.output[number])
            if array is None or not array.size:
                continue
            if not is_close:
                size = float(np.abs(array).max())
                if not (found.values.largest < size and size >= self._format.limit):
                    found.values.largest = max(found.values.largest, size)
                    continue
            found.values.add(self._range(array))
            if not self._format.is_float:
                self._look_for_outliers(found, array)
        if node.op_type in ("Add", "Sub") and not node.domain and self._format.is_float:
            self._look_for_absorbed(found, values)
        return found.values.overflowing > 0 and not had_overflow

    def _look_for_outliers(self, found: Facts, array: Array) -> None:
        if array.ndim < 2 or array.size > _MAX_OUTLIER_ELEMENTS:
            return
        for axis in {1, array.ndim - 1}:
            if array.shape[axis] < 4:
                continue
            others = tuple(i for i in range(array.ndim) if i != axis)
            sizes = np.abs(array).max(axis=others)
            median = float(np.median(sizes))
            ratio = float(sizes.max()) / median if median > 0 else 0.0
            if ratio > max(_OUTLIER, found.outlier[1] if found.outlier else 0.0):
                found.outlier = int(sizes.argmax()), ratio

    def _look_for_absorbed(self, found: Facts, values: Values) -> None:
        """Note how many addends a sum loses, because the other addend is much larger."""
        node = found.node
        one, other = (contents(found.graph, values, name) for name in node.input)
        total = values.get(node.output[0])
        if one is None or other is None or total is None or not _is_long(total) or not total.size:
            return
        kind = self._format
        with np.errstate(all="ignore"):
            rounded = kind.rounded(total)
            lost = (np.abs(other) < np.abs(one)) & (other != 0) & (rounded == kind.rounded(one))
            lost |= (
                (np.abs(one) < np.abs(other))
                & (one != 0)
                & (np.abs(rounded) == np.abs(kind.rounded(other)))
            )
            smaller = np.minimum(np.abs(one), np.abs(other))
            found.addend = max(found.addend, float(np.median(smaller)))
        found.absorbed = max(found.absorbed, float(np.count_nonzero(lost) / total.size))

    def _rounded_weight(self, graph: Graph, name: str, array: Array, axis: int | None) -> Array:
        key = graph.place, name, axis
        if key not in self._weights or self._weights[key].shape != array.shape:
            if self._format.is_float:
                rounded = self._format.rounded(np.asarray(array))
            else:
                rounded = stored(np.asarray(array), axis, self._format).array().astype(array.dtype)
            if graph.initializer(name) is None:
                return rounded
            self._weights[key] = rounded
        return self._weights[key]

    def _run_rounded(self, place: Place, numbers: list[int], values: Values) -> None:
        """Run nodes on rounded operands, each alone, and note the errors of their results."""
        graph = place.graph
        key = (graph.key, numbers[0], len(numbers), numbers[-1])
        feeds: dict[str, Array] = {}
        fed_by: dict[str, list[tuple[int, int]]] = {}
        for number in numbers:
            for position, name in enumerate(graph.nodes[number].input):
                if name:
                    fed_by.setdefault(name, []).append((number, position))
        for name, readers in fed_by.items():
            array = contents(graph, values, name)
            if array is None:
                continue
            if is_long(array.dtype) and all(takes_values(graph.nodes[n], p) for n, p in readers):
                feeds[name] = self._rounded_operand(graph, name, array, readers)
            elif name in values or graph.initializer(name) is None:
                feeds[name] = array
        if key not in self._twins:
            self._twins[key] = self._twin(graph, numbers, feeds)
        runner, fed, run = self._twins[key]
        results = None
        if runner is not None:
            try:
                results = runner.run({name: feeds[name] for name in fed})
            except Exception:
                results = None
        for number in numbers:
            found = self.facts[site_of(graph, number)]
            node = graph.nodes[number]
            for name in node.output:
                expected = values.get(name)
                if expected is None or not _is_long(expected):
                    continue
                got = results[name + _LOW] if results and number in run else expected
                if found.results and self._format.name != "int4":
                    got = self._format.rounded(got)
                error = relative_error(expected, got)
                if error > found.own_error or (error == np.inf and not found.iterations):
                    if error > found.own_error:
                        found.iterations = place.iterations
                    found.own_error = error
        if self._format.name == "float16":
            self._look_inside(place, numbers, values, feeds)

    def _rounded_operand(
        self, graph: Graph, name: str, array: Array, readers: list[tuple[int, int]]
    ) -> Array:
        if not is_given(graph, name) or _is_input(graph, name):
            if self._format.name == "int4":
                return array
            return self._format.rounded(array)
        axes = {weight_axis(graph.nodes[n], p, array.ndim) for n, p in readers}
        axis = next(iter(axes)) if len(axes) == 1 else None
        if not self._format.is_float and axis is None:
            return array
        return self._rounded_weight(graph, name, array, axis)

    def _twin(
        self, graph: Graph, numbers: list[int], feeds: Mapping[str, Array]
    ) -> tuple[Runner | None, list[str], list[int]]:
        """Return a model that runs each of some nodes alone, and what it is fed."""
        run = [n for n in numbers if any(graph.nodes[n].output)]
        read = {name for n in run for name in graph.reads(n)}
        fed = [name for name in feeds if name in read]
        types = {name: tensor_type(feeds[name].dtype) for name in fed}
        outputs = {
            name: name + _LOW
            for n in run
            for name in graph.nodes[n].output
            if name and self.types.get((graph.place, name)) is not None
        }
        try:
            part = submodel(graph, run, types, {})
            for node in part.graph.node:
                node.output[:] = [outputs.get(name, name) for name in node.output]
            for shown in outputs.values():
                part.graph.output.add(name=shown)
            return Runner(part, graph.model, optimize=False), fed, run
        except Exception:
            return None, [], []

    def _look_inside(
        self, place: Place, numbers: list[int], values: Values, feeds: Mapping[str, Array]
    ) -> None:
        """Run nodes that compute much inside with their own kernels for float16."""
        for number in numbers:
            node = place.graph.nodes[number]
            found = self.facts[site_of(place.graph, number)]
            if node.op_type not in INSIDE or found.is_inside:
                continue
            operands = {name: feeds[name] for name in node.input if name and name in feeds}
            short = {
                name: array.astype(np.float16) if is_long(array.dtype) else array
                for name, array in operands.items()
            }
            if not all(
                np.isfinite(each).all() for each in short.values() if each.dtype.kind == "f"
            ):
                continue
            results = [name for name in node.output if name]
            types = {name: tensor_type(array.dtype) for name, array in short.items()}
            part = submodel(place.graph, [number], types, {name: name for name in results})
            try:
                got = Runner(part, place.graph.model, optimize=False).run(short)
            except Exception:
                continue
            for name in results:
                expected = values.get(name)
                if expected is None or name not in got:
                    continue
                error = relative_error(expected, got[name].astype(expected.dtype))
                if error > max(4 * found.own_error, 0.02):
                    found.own_error, found.is_inside = error, True
                    found.iterations = place.iterations


class _EnoughError(Exception):
    """Enough iterations were looked at."""


class _Walk(Walk):
    """Leaves a loop after enough iterations; the loop itself has run as a whole."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self._watch = watch

    def _visit(self, place: Place, values: Values, oracle: Any) -> Values:
        if place.graph.key and not self._watch.goes_on(place.graph):
            raise _EnoughError
        return super()._visit(place, values, oracle)

    def _enter(self, place: Place, number: int, values: Values, oracle: Any) -> None:
        try:
            super()._enter(place, number, values, oracle)
        except _EnoughError:
            self._watch.look_at_results(place.graph, number, values)


def _size(array: Any) -> float:
    """Return the largest finite distance from 0; 0 if there is none."""
    if array is None or not is_long(array.dtype):
        return 0.0
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max(initial=0.0))


def _is_long(array: Any) -> bool:
    return array is not None and is_long(array.dtype)


def _is_input(graph: Graph, name: str) -> bool:
    """Return whether a value is an input of the model, not a weight."""
    return not graph.key and name in graph.inputs


def is_constant(node: onnx.NodeProto) -> bool:
    """Return whether a node is a constant."""
    return node.op_type == "Constant" and not node.domain
