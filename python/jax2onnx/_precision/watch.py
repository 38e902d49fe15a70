"""Look at all values of a model, and run each node alone on rounded operands."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import onnx

from .._comparing.arrays import Array
from .._comparing.graphs import FUNCTION, Graph, submodel
from .._comparing.levels import Level, Values
from .._comparing.running import Runner, tensor_type
from .._comparing.walk import Place, Walk
from .calibration import Calibration, Ranges
from .errors import relative_error
from .formats import Format, rounded_weight
from .recording import ROWS, Recorder, per_row, ranked_type
from .rows import Rows, worst_row
from .sites import (
    INSIDE,
    MIXING,
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
        self._twins: dict[Any, _Twin] = {}
        self._weights: dict[tuple[tuple[Any, ...], str, int | None], Array] = {}
        self._visits: dict[Any, int] = {}
        self._entered: dict[Any, int] = {}
        #: The loops that return the values of all iterations; None if one cannot.
        self._recorders: dict[Any, Recorder | None] = {}

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
        is_close = self._is_close(place, start)
        self._look_at(Rows.of_place(place, values), range(start, stop), is_close=is_close)

    def records(self, place: Place, number: int, values: Values) -> bool:
        """Look at all iterations of a loop at once. Returns whether that is possible."""
        graph = place.graph
        key = graph.key, number
        if key not in self._recorders:
            try:
                self._recorders[key] = Recorder(graph, number, values)
            except Exception:
                self._recorders[key] = None
        recorder = self._recorders[key]
        if recorder is None:
            return False
        try:
            found, are_all = recorder.run(values, place.order, _MAX_ITERATIONS)
        except Exception:
            # The values of an iteration may have other sizes than those of the next one.
            self._recorders[key] = None
            return False
        for rows in found:
            rows = replace(
                rows, iterations=[(*place.iterations, *each) for each in rows.iterations]
            )
            self._look_at(rows, range(len(rows.graph.nodes)), is_close=True)
        if not are_all:
            self.look_at_results(graph, number, values)
        return True

    def _look_at(self, rows: Rows, numbers: Iterable[int], *, is_close: bool) -> None:
        """Look at the values that some nodes of a graph computed."""
        graph = rows.graph
        chosen = []
        for number in numbers:
            node = graph.nodes[number]
            for name in (*node.input, *node.output):
                array = rows.values.get(name)
                if array is None:
                    array = rows.fixed.get(name)
                if array is not None:
                    self._note_type(graph, name, array)
            found = self._facts(rows, number)
            if found is None:
                continue
            is_new = self._look(found, rows, is_close=is_close)
            if is_close or is_new:
                chosen.append(number)
        if chosen:
            self._run_rounded(rows, chosen)

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
            self.calibration.add(key, array)

    def _facts(self, rows: Rows, number: int) -> Facts | None:
        """Return what is known about a node; None if nothing is rounded."""
        graph = rows.graph
        site = site_of(graph, number)
        if site in self.facts:
            found = self.facts[site]
            return found if found.matters else None
        node = graph.nodes[number]
        found = self.facts[site] = Facts(graph, number, (*rows.order, number))
        is_call = FUNCTION in graph.bodies(number)
        if graph.bodies(number) or is_call or (node.op_type == "Constant" and not node.domain):
            return None
        read = (rows.first(name) for name in (*node.input, *node.output) if name)
        found.elements = max((array.size for array in read if array is not None), default=0)
        results = {i for i, name in enumerate(node.output) if _is_long(rows.values.get(name))}
        for position, name in enumerate(node.input):
            if not name or not takes_values(node, position) or not is_given(graph, name):
                continue
            array = rows.first(name)
            if array is None or not is_long(array.dtype):
                continue
            axis = weight_axis(node, position, array.ndim)
            if not self._format.is_float and axis is None and not _is_input(graph, name):
                # Biases and factors keep their type.
                continue
            found.given.add(position)
            if not _is_input(graph, name):
                rounded = self._rounded_rows(rows, name, axis)
                if name in rows.values:
                    array = rows.values[name]
                    error, _ = worst_row(array, rounded)
                else:
                    error = relative_error(array, rounded)
                found.weights[position] = Weight(name, position, self._range(array), error)
        if self._format.name == "int4":
            # Only weights are stored in four bits.
            found.given &= set(found.weights)
        elif rounds(node) or self._mixes(rows, node):
            found.results = results
        elif not results:
            found.given.clear()
        return found if found.matters else None

    def _mixes(self, rows: Rows, node: onnx.NodeProto) -> bool:
        """Return whether a result has one scale for elements that had another one before.

        The number of a mask and the scores that it replaces are an example.
        """
        if self._format.is_float or node.domain or node.op_type not in MIXING:
            return False
        sizes = [_size(rows.any(name)) for name in node.input if name]
        computed = [
            size
            for size, name in zip(sizes, filter(None, node.input), strict=True)
            if size and not is_given(rows.graph, name)
        ]
        return bool(computed) and _size(rows.values.get(node.output[0])) > _MIXED * min(computed)

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

    def _look(self, found: Facts, rows: Rows, *, is_close: bool) -> bool:
        """Look at the results of a node. Returns whether they overflow for the first time."""
        node = found.node
        had_overflow = found.values.overflowing > 0
        for number in found.results:
            array = rows.values.get(node.output[number])
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
        is_sum = node.op_type in ("Add", "Sub") and not node.domain
        if is_sum and found.graph.key and self._format.is_float:
            self._look_for_absorbed(found, rows)
        return found.values.overflowing > 0 and not had_overflow

    def _look_for_outliers(self, found: Facts, array: Array) -> None:
        if array.ndim < 3 or array.size > _MAX_OUTLIER_ELEMENTS:
            return
        for axis in {2, array.ndim - 1}:
            if array.shape[axis] < 4:
                continue
            others = tuple(i for i in range(array.ndim) if i != axis)
            sizes = np.abs(array).max(axis=others)
            median = float(np.median(sizes))
            ratio = float(sizes.max()) / median if median > 0 else 0.0
            if ratio > max(_OUTLIER, found.outlier[1] if found.outlier else 0.0):
                found.outlier = int(sizes.argmax()), ratio

    def _look_for_absorbed(self, found: Facts, rows: Rows) -> None:
        """Note how many addends a sum loses, because the other addend is much larger."""
        node = found.node
        total = rows.values.get(node.output[0])
        if total is None or not _is_long(total) or not total.size:
            return
        one, other = (rows.aligned(name, total.ndim - 1) for name in node.input)
        if one is None or other is None:
            return
        kind = self._format
        with np.errstate(all="ignore"):
            rounded = kind.rounded(total)
            one_size, other_size = np.abs(one), np.abs(other)
            lost = (other_size < one_size) & (other != 0) & (rounded == kind.rounded(one))
            lost |= (
                (one_size < other_size)
                & (one != 0)
                & (np.abs(rounded) == np.abs(kind.rounded(other)))
            )
            smaller = np.broadcast_to(np.minimum(one_size, other_size), total.shape)
            count = len(total)
            addend = float(np.median(smaller.reshape(count, -1), axis=1).max())
            share = float(lost.reshape(count, -1).mean(1).max())
        found.addend = max(found.addend, addend)
        found.absorbed = max(found.absorbed, share)

    def _rounded_weight(self, graph: Graph, name: str, array: Array, axis: int | None) -> Array:
        key = graph.place, name, axis
        if key not in self._weights or self._weights[key].shape != array.shape:
            rounded = rounded_weight(np.asarray(array), axis, self._format)
            if graph.initializer(name) is None:
                return rounded
            self._weights[key] = rounded
        return self._weights[key]

    def _rounded_rows(self, rows: Rows, name: str, axis: int | None) -> Array:
        """Return a weight in the type: with rows, if another iteration reads another weight."""
        if name not in rows.values:
            return self._rounded_weight(rows.graph, name, rows.given(name), axis)
        array = rows.values[name]
        if self._format.is_float:
            return self._format.rounded(array)
        return np.stack([self._rounded_weight(rows.graph, name, each, axis) for each in array])

    def _run_rounded(self, rows: Rows, numbers: list[int]) -> None:
        """Run nodes on rounded operands, each alone, and note the errors of their results."""
        graph = rows.graph
        feeds: dict[str, Array] = {}
        fed_by: dict[str, list[tuple[int, int]]] = {}
        for number in numbers:
            for position, name in enumerate(graph.nodes[number].input):
                if name:
                    fed_by.setdefault(name, []).append((number, position))
        for name, readers in fed_by.items():
            array = rows.any(name)
            if array is None:
                continue
            if is_long(array.dtype) and all(takes_values(graph.nodes[n], p) for n, p in readers):
                feeds[name] = self._rounded_operand(rows, name, readers)
            elif name in rows.values or name in rows.fixed or graph.initializer(name) is None:
                feeds[name] = array
        is_alone = len(rows.iterations) == 1
        key = (graph.key, numbers[0], len(numbers), numbers[-1], is_alone)
        if key not in self._twins:
            stacked = [] if is_alone else [name for name in feeds if name in rows.values]
            self._twins[key] = self._twin(rows, numbers, feeds, stacked)
        results = self._twins[key].run(feeds, rows)
        for number in numbers:
            found = self.facts[site_of(graph, number)]
            node = graph.nodes[number]
            for name in node.output:
                expected = rows.values.get(name)
                if expected is None or not _is_long(expected):
                    continue
                got = results.get(name, expected)
                if found.results and self._format.name != "int4":
                    got = self._format.rounded(got)
                error, row = worst_row(expected, got)
                if error > found.own_error or (error == np.inf and not found.iterations):
                    if error > found.own_error:
                        found.iterations = rows.iterations[row]
                    found.own_error = error
        if self._format.name == "float16":
            self._look_inside(rows, numbers, feeds)

    def _rounded_operand(self, rows: Rows, name: str, readers: list[tuple[int, int]]) -> Array:
        graph, array = rows.graph, rows.any(name)
        if not is_given(graph, name) or _is_input(graph, name):
            if self._format.name == "int4":
                return np.asarray(array)
            return self._format.rounded(array)
        rank = array.ndim - (name in rows.values)
        axes = {weight_axis(graph.nodes[n], p, rank) for n, p in readers}
        axis = next(iter(axes)) if len(axes) == 1 else None
        if not self._format.is_float and axis is None:
            return np.asarray(array)
        return self._rounded_rows(rows, name, axis)

    def _twin(
        self, rows: Rows, numbers: list[int], feeds: Mapping[str, Array], stacked: list[str]
    ) -> "_Twin":
        """Return a model that runs each of some nodes alone."""
        graph = rows.graph
        run = [n for n in numbers if any(graph.nodes[n].output)]
        read = {name for n in run for name in graph.reads(n)}
        fed = [name for name in feeds if name in read]
        types = {
            name: ranked_type(feeds[name].dtype, feeds[name].ndim - (name in rows.values))
            for name in fed
        }
        outputs = {
            name: name + _LOW
            for n in run
            for name in graph.nodes[n].output
            if name and name in rows.values
        }
        with_rows = {name for name in fed if name in stacked}
        try:
            part = submodel(graph, run, types, {})
            for node in part.graph.node:
                node.output[:] = [outputs.get(name, name) for name in node.output]
            for name, shown in outputs.items():
                array = rows.values[name]
                kind = ranked_type(array.dtype, array.ndim - 1)
                part.graph.output.add(name=shown, type=kind)
            if with_rows:
                part = per_row(part, with_rows)
            runner = Runner(part, graph.model, optimize=False)
            return _Twin(runner, fed, with_rows, outputs)
        except Exception:
            return _Twin(None, [], with_rows, {})

    def _look_inside(self, rows: Rows, numbers: list[int], feeds: Mapping[str, Array]) -> None:
        """Run nodes that compute much inside with their own kernels for float16."""
        graph, short, chosen = rows.graph, dict[str, Array](), []
        for number in numbers:
            node, found = graph.nodes[number], self.facts[site_of(graph, number)]
            if node.op_type not in INSIDE or found.is_inside:
                continue
            operands = {
                name: feeds[name].astype(np.float16) if is_long(feeds[name].dtype) else feeds[name]
                for name in node.input
                if name in feeds
            }
            if all(np.isfinite(each).all() for each in operands.values() if each.dtype.kind == "f"):
                short |= operands
                chosen.append(number)
        if chosen:
            self._run_inside(rows, chosen, short)

    def _run_inside(self, rows: Rows, numbers: list[int], feeds: Mapping[str, Array]) -> None:
        graph = rows.graph
        read = {name for number in numbers for name in graph.reads(number)}
        fed = {name: array for name, array in feeds.items() if name in read}
        results = {name: n for n in numbers for name in graph.nodes[n].output if name}
        types = {name: tensor_type(array.dtype) for name, array in fed.items()}
        part = submodel(graph, numbers, types, {name: f"{name}{_LOW}" for name in results})
        for node in part.graph.node:
            node.output[:] = [f"{name}{_LOW}" if name in results else name for name in node.output]
        try:
            runner = Runner(part, graph.model, optimize=False)
            for row in range(min(len(rows.iterations), _CLOSE)):
                own = {
                    name: array[row] if name in rows.values else array
                    for name, array in fed.items()
                }
                got = runner.run({name: np.asarray(array) for name, array in own.items()})
                for name, number in results.items():
                    found = self.facts[site_of(graph, number)]
                    expected = rows.values[name][row]
                    error = relative_error(expected, got[name + _LOW].astype(expected.dtype))
                    if error > max(4 * found.own_error, 0.02):
                        found.own_error, found.is_inside = error, True
                        found.iterations = rows.iterations[row]
        except Exception:
            for number in numbers if len(numbers) > 1 else ():
                self._run_inside(rows, [number], feeds)


@dataclass(frozen=True)
class _Twin:
    """A model that runs nodes on rounded operands.

    Attributes:
        runner: The model; None if ONNX Runtime does not run it.
        fed: The values that it reads.
        stacked: Those that have a row for each iteration.
        outputs: What each result is called there.
    """

    runner: Runner | None
    fed: Sequence[str]
    stacked: Collection[str]
    outputs: Mapping[str, str]

    def run(self, feeds: Mapping[str, Array], rows: Rows) -> dict[str, Array]:
        """Run the nodes. Returns their results, with a row for each iteration."""
        if self.runner is None:
            return {}
        count = len(rows.iterations)
        given = {}
        for name in self.fed:
            if name in self.stacked:
                given[name + ROWS] = feeds[name]
            else:
                array = feeds[name][0] if name in rows.values else feeds[name]
                given[name] = np.asarray(array)
        try:
            results = self.runner.run(given)
        except Exception:
            return {}
        if self.stacked:
            return {name: results[shown + ROWS] for name, shown in self.outputs.items()}
        return {
            name: np.broadcast_to(results[shown], (count, *results[shown].shape))
            for name, shown in self.outputs.items()
        }


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
        if self._watch.records(place, number, values):
            return
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
