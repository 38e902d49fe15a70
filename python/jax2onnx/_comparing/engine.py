"""Find the nodes that add errors of their own."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from .arrays import Array
from .cuts import Cut, Segment
from .executors import Executor
from .graphs import Graph, Key
from .judging import (
    ROUNDING_FACTOR,
    Statistics,
    Tolerance,
    Verdict,
    has_nan,
    is_floating,
    judge,
    machine_epsilon,
)
from .levels import Level, Values, contents
from .replay import Replay
from .walk import Place

#: How often the float64 result of one value is computed.
_MAX_REPLAYS: Final = 32
#: The precision of the short types. What they add is added in float32.
_SHORT: Final = 1e-5
#: Behind everything that happens in the iterations of a loop.
_AFTER_ALL: Final = 1 << 62
#: How many faults are kept.
_MAX_FAULTS: Final = 64
#: An error that is fewer tolerances large may still be rounding.
_BORDERLINE: Final = 4.0


@dataclass(frozen=True)
class Fault:
    """A result that rounding does not explain.

    Attributes:
        order: Its position in the order of execution.
        cut: The graph of the model that computes it, and that of the reference.
        nodes: The nodes that may be responsible; the last one computes the value.
        value: The value.
        partner: The value of the reference.
        iterations: The iteration of each loop around it, outermost first.
        kind: `"error"`, `"nan"`, `"infinity"`, `"shape"`, `"input"` or `"failure"`.
        feeds: What the nodes were fed.
        expected: The contents that are expected.
        is_clear: Whether nothing but these nodes can explain it.
        is_conversion: Whether the reference's own nodes do not compute what JAX computes, so that
            any of them may be wrong.
    """

    order: tuple[int, ...]
    cut: Cut
    nodes: tuple[int, ...]
    value: str
    partner: str
    iterations: tuple[int, ...]
    verdict: Verdict
    kind: str
    feeds: Mapping[str, Array] = field(repr=False)
    expected: Array = field(repr=False)
    segment: Segment | None = None
    is_clear: bool = True
    is_conversion: bool = False

    @property
    def graph(self) -> Graph:
        """The graph of the model."""
        return self.cut.graph


@dataclass
class Measured:
    """The errors that the nodes of a value add, over all iterations."""

    cut: Cut
    nodes: tuple[int, ...]
    value: str
    partner: str
    statistics: Statistics
    segment: Segment | None = None
    runs: int = 0
    #: The largest expected element.
    largest: float = 0.0
    #: The rounding error of the reference, relative to its largest element.
    rounding: float = 0.0
    replays: int = 0


class Comparer:
    """Compares a model with a reference, node by node.

    Attributes:
        measured: What was measured of each value of the model, by its graph and name.
        first: The earliest fault.
        faulty: The values with a fault, by graph and name.
        faults: The faults that were found first, one per value.
        refused: The faults of nodes that the runtime refuses, if it refuses the whole model.
        unrun: The values of nodes that the runtime runs in the model, but not alone.
        unknown: The position of the first of these nodes.
        spread: The first fault of each value that has NaN in other elements than the reference,
            because of NaN in the operands.
    """

    def __init__(
        self,
        model: Graph,
        *,
        executor: Executor,
        given: Mapping[Key, frozenset[str]],
        ambiguous: Mapping[Key, set[str]],
        is_refused: bool = False,
        enters_bodies: bool = True,
    ) -> None:
        """Compare the main graph of a model.

        Args:
            model: The graph.
            executor: The runtime that runs it.
            given: The values of the reference whose contents somebody else knows, by graph.
            ambiguous: Those of them that are right with other contents, too, such as the negative
                of an eigenvector.
            is_refused: Whether the runtime refuses the whole model, so that some node must fail.
            enters_bodies: Whether to compare bodies step by step.
        """
        self._ambiguous = ambiguous
        self._model = model
        self._executor = executor
        self._is_refused = is_refused
        self._enters_bodies = enters_bodies
        self._given = given
        self._replay = Replay()
        self.cuts: dict[Key, Cut] = {}
        self.measured: dict[tuple[Key, str], Measured] = {}
        self.first: Fault | None = None
        self.faulty: set[tuple[Key, str]] = set()
        self.faults: list[Fault] = []
        self.refused: list[Fault] = []
        self.unknown: tuple[int, ...] | None = None
        self.unrun: set[tuple[Key, str]] = set()
        self.spread: dict[tuple[Key, str], Fault] = {}

    def level(self, graph: Graph) -> Level:
        """Cut the graph of the model that belongs to a graph of the reference."""
        level = Level(graph, self._given.get(graph.key, frozenset()))
        outer = None if graph.around is None else self.cuts[graph.around.key]
        own = self._model
        if outer is not None and graph.owner is not None:
            attribute = graph.key[-1][1]
            own = outer.graph.bodies(outer.aligned[graph.owner])[attribute]
        self.cuts[graph.key] = Cut(
            level, own, outer, executor=self._executor, enters_bodies=self._enters_bodies
        )
        return level

    def part(self, place: Place, start: int, stop: int, values: Values) -> None:
        """Compare the values that some nodes of the reference computed."""
        cut = self.cuts[place.graph.key]
        if self._is_late(place):
            return
        for segment, got, expected, feeds in cut.run(start, stop, values):
            order = (*place.order, segment.nodes[-1])
            found, is_spread = self._measured(cut, segment), False
            if segment.partner in self._ambiguous.get(cut.reference.key, ()):
                # The reference's own node chooses as the model does.
                own = self._replay.run(cut.reference, segment.partner, values, wide=False)
                expected = expected if own is None else own
            if isinstance(got, Exception):
                if not self._executor.is_local:
                    self._note_refusal(place, order, cut, segment, got)
                    continue
                problem = str(got).strip().partition("\n")[0]
                verdict = Verdict(Statistics(excess=np.inf), np.inf, problem=problem)
                kind = "failure"
            else:
                allowed = _rounding(expected, found.rounding)
                verdict = judge(expected, got, segment.tolerance, allowed)
                if verdict.is_wrong and verdict.index is not None:
                    verdict = self._again(cut, segment, found, values, feeds, expected, got)
                is_spread = verdict.is_wrong and _is_spread(segment, feeds, expected, got)
                found.statistics.add(
                    Statistics(verdict.statistics.elements) if is_spread else verdict.statistics
                )
                if got.dtype.itemsize < expected.dtype.itemsize and is_floating(expected.dtype):
                    found.largest = max(found.largest, _largest(expected))
                kind = kind_of(verdict)
            found.runs += 1
            if verdict.is_wrong:
                is_conversion = bool(segment.behind) and self._is_wrong_in_reference(
                    cut, segment, values, expected
                )
                fault = Fault(
                    order,
                    cut,
                    segment.nodes,
                    segment.value,
                    segment.partner,
                    place.iterations,
                    verdict,
                    kind,
                    {name: feeds[name] for name in segment.inputs if name in feeds},
                    expected,
                    segment,
                    verdict.excess > _BORDERLINE
                    and self._is_beyond(order, cut, segment, feeds, verdict),
                    is_conversion,
                )
                if is_spread:
                    self.spread.setdefault((cut.graph.key, segment.value), fault)
                else:
                    self._note(fault)
        self._part_as_a_whole(place, cut, start, stop, values)
        if stop >= len(place.graph.nodes):
            self._check_outputs(place, cut, values)

    def _is_late(self, place: Place) -> bool:
        """Return whether another runtime need not run an iteration: an earlier one is wrong.

        Each run takes its time there.
        """
        first = self.first
        if first is None or self._executor.is_local or not first.graph.key or not place.graph.key:
            return False
        return place.order > first.order

    def _note_refusal(
        self,
        place: Place,
        order: tuple[int, ...],
        cut: Cut,
        segment: Segment,
        error: Exception,
    ) -> None:
        """Note that another runtime refuses a node.

        If it runs the whole model, the node does not fail there, and nobody knows its result.
        """
        if not self._is_refused:
            self.unrun.add((cut.graph.key, segment.value))
            self.unknown = order if self.unknown is None else min(self.unknown, order)
            return
        verdict = Verdict(Statistics(excess=np.inf), np.inf, problem=str(error).strip())
        wanted = (order, cut, segment.nodes, segment.value, segment.partner, place.iterations)
        nothing = np.zeros(0)
        self.refused.append(Fault(*wanted, verdict, "failure", {}, nothing, segment))

    def _part_as_a_whole(
        self, place: Place, cut: Cut, start: int, stop: int, values: Values
    ) -> None:
        """Compare nodes with bodies that another runtime runs as a whole."""
        for group, found, plain, feeds in cut.run_wholes(start, stop, values):
            # If a node of the body is wrong, it is the first one.
            order = (*place.order, group[0].nodes[-1], _AFTER_ALL)
            if isinstance(found, Exception):
                self._note_refusal(place, order, cut, group[0], found)
                continue
            for segment in group:
                expected = contents(cut.reference, values, segment.partner)
                if expected is None or isinstance(plain, Exception):
                    continue
                verdict = judge(expected, found[segment.value], segment.tolerance)
                own = judge(expected, plain[segment.value], segment.tolerance)
                if verdict.is_wrong and not own.is_wrong:
                    fed = {name: feeds[name] for name in segment.inputs if name in feeds}
                    wanted = (order, cut, segment.nodes, segment.value, segment.partner)
                    is_clear = verdict.excess > _BORDERLINE and self._is_beyond(
                        order, cut, segment, feeds, verdict
                    )
                    self._note(
                        Fault(
                            *wanted,
                            place.iterations,
                            verdict,
                            kind_of(verdict),
                            fed,
                            expected,
                            segment,
                            is_clear,
                        )
                    )
                    break

    def enters(self, place: Place, number: int, values: Values) -> bool:
        """Check what an aligned node passes to its body."""
        cut = self.cuts[place.graph.key]
        if number not in cut.aligned:
            return False
        for name, got, expected in cut.input_pairs(number, values):
            order = (*place.order, cut.aligned[number])
            self._check_wire(place, order, cut, number, name, got, expected)
        return True

    def check_input(self, place: Place, name: str, got: Array, expected: Array) -> None:
        """Compare what a loop of the reference passes to its body with what JAX passes."""
        around, owner = place.graph.around, place.graph.owner
        if around is not None and owner is not None and owner in self.cuts[around.key].aligned:
            outer = self.cuts[around.key]
            # What the loop runs over may be computed before it, for all steps at once.
            tolerance = Tolerance(64, 64)
            self._check_wire(
                place, place.order, outer, owner, name, got, expected, tolerance, is_clear=False
            )

    def _check_wire(
        self,
        place: Place,
        order: tuple[int, ...],
        cut: Cut,
        other: int,
        name: str,
        got: Array,
        expected: Array,
        tolerance: Tolerance = Tolerance(4, 0),  # noqa: B008 - it is frozen
        *,
        is_clear: bool = True,
    ) -> None:
        """Compare what passes into a body or out of it, which no node computes."""
        verdict = judge(np.asarray(expected), np.asarray(got), tolerance)
        if not verdict.is_wrong:
            return
        nodes = (cut.aligned[other],)
        partner = next(filter(None, cut.reference.nodes[other].output))
        measured = self.measured.setdefault(
            (cut.graph.key, name), Measured(cut, nodes, name, partner, Statistics())
        )
        measured.statistics.add(verdict.statistics)
        self._note(
            Fault(
                *(order, cut, nodes, name, partner, place.iterations, verdict, "input", {}),
                expected,
                is_clear=is_clear,
            )
        )

    def _check_outputs(self, place: Place, cut: Cut, values: Values) -> None:
        """Compare the outputs of a body that are other values than those of the reference."""
        around, owner = place.graph.around, place.graph.owner
        if around is None or owner is None:
            return
        for name, partner in cut.crossed:
            got, expected = values.get(cut.partners[name]), values.get(partner)
            if got is not None and expected is not None:
                order = (*place.order, len(cut.graph.nodes))
                outer = self.cuts[around.key]
                self._check_wire(place, order, outer, owner, name, got, expected)

    def _measured(self, cut: Cut, segment: Segment) -> Measured:
        key = (cut.graph.key, segment.value)
        if key not in self.measured:
            self.measured[key] = Measured(
                *(cut, segment.nodes, segment.value, segment.partner, Statistics(), segment)
            )
        return self.measured[key]

    def _again(
        self,
        cut: Cut,
        segment: Segment,
        found: Measured,
        values: Values,
        feeds: Mapping[str, Array],
        expected: Array,
        got: Array,
    ) -> Verdict:
        """Judge a result again, knowing what rounding does to the reference."""
        plain = judge(expected, got, segment.tolerance, _rounding(expected, found.rounding))
        if found.replays >= _MAX_REPLAYS or not is_floating(expected.dtype):
            return plain
        found.replays += 1
        seen: Mapping[str, Array] = values
        shorter = {
            cut.partners[name]: feeds[name].astype(values[cut.partners[name]].dtype)
            for name in segment.inputs
            if name in feeds
            and cut.partners[name] in values
            and feeds[name].dtype != values[cut.partners[name]].dtype
            and is_floating(feeds[name].dtype)
        }
        if shorter:
            seen = {**values, **shorter}
        truth = shorter.get(segment.partner)
        if truth is None:
            truth = self._replay.run(cut.reference, segment.partner, seen, wide=True)
        if truth is None or truth.shape != expected.shape or not is_floating(truth.dtype):
            return plain
        if shorter:
            verdict = judge(truth, got, segment.tolerance)
            if not verdict.is_wrong:
                return verdict
            # NaN and infinity of operands in the shorter type are not the fault of the node.
            own = verdict.statistics
            births = {"nans": own.nans, "infinities": own.infinities}
            return replace(verdict, statistics=replace(plain.statistics, **births))
        terms = self._replay.terms(cut.reference, segment.partner, values)
        epsilon = max(machine_epsilon(expected.dtype), machine_epsilon(got.dtype))
        if terms is not None and terms.shape == expected.shape and epsilon < _SHORT:
            verdict = judge(expected, got, segment.tolerance, ROUNDING_FACTOR * epsilon * terms)
            if not verdict.is_wrong:
                return verdict
        with np.errstate(all="ignore"):
            error = np.abs(truth - expected.astype(np.float64))
            error = np.where(np.isfinite(error), error, 0.0)
        largest = _largest(expected)
        share = float(error.max(initial=0.0)) / largest if largest > 0 else 0.0
        if segment.partner in self._given.get(cut.reference.key, ()) and share > 1e-3:
            # The node itself is wrong: its float64 result says nothing about rounding.
            return plain
        found.rounding = max(found.rounding, ROUNDING_FACTOR * share)
        return judge(expected, got, segment.tolerance, _rounding(expected, found.rounding))

    def _is_wrong_in_reference(
        self, cut: Cut, segment: Segment, values: Values, expected: Array
    ) -> bool:
        """Return whether the reference's own node does not compute what is expected, either."""
        got = self._replay.run(cut.reference, segment.partner, values, wide=False)
        return got is not None and judge(expected, got, segment.tolerance).is_wrong

    def _is_beyond(
        self,
        order: tuple[int, ...],
        cut: Cut,
        segment: Segment,
        feeds: Mapping[str, Array],
        verdict: Verdict,
    ) -> bool:
        """Return whether last digits of what nodes read do not explain the error of their result.

        A sum of large numbers that cancel, or a quotient by a number that is nearly zero, makes any
        difference out of a rounded one.
        """
        if verdict.index is None or (self.first is not None and self.first.order <= order):
            return True
        own = {name: feeds[name] for name in segment.inputs if name in feeds}
        nudged = {name: _nudged(array) for name, array in own.items()}
        try:
            runner = cut.runner([segment])
            (plain,), (moved,) = (runner.run(each).values() for each in (own, nudged))
            results = [float(array[verdict.index]) for array in (plain, moved)]
        except Exception:
            return True
        with np.errstate(all="ignore"):
            distance = np.float64(results[0]) - results[1]
            error = np.float64(verdict.expected) - np.float64(verdict.got)
        if not np.isfinite(error):
            return bool(np.isfinite(results[0]) == np.isfinite(results[1]))
        return bool(np.abs(distance) * ROUNDING_FACTOR < np.abs(error))

    def settle(self, *, agrees: bool) -> int:
        """Blame a node that spreads NaN in another way only if nothing else explains the outputs.

        Args:
            agrees: Whether the outputs match.

        Returns:
            The number of such nodes if they are not blamed.
        """
        if self.first is None and not agrees:
            for value, fault in self.spread.items():
                self._note(fault)
                self.measured[value].statistics.add(replace(fault.verdict.statistics, elements=0))
            return 0
        return len(self.spread)

    def _note(self, fault: Fault) -> None:
        if (fault.graph.key, fault.value) not in self.faulty and len(self.faults) < _MAX_FAULTS:
            self.faults.append(fault)
        self.faulty.add((fault.graph.key, fault.value))
        if self.first is None or fault.order < self.first.order:
            self.first = fault


def kind_of(verdict: Verdict) -> str:
    """Return the word for what is wrong."""
    if verdict.index is None:
        return "shape" if verdict.problem else "error"
    got, expected = verdict.got, verdict.expected
    if is_floating(np.asarray(got).dtype) and is_floating(np.asarray(expected).dtype):
        if np.isnan(got) and not np.isnan(expected):
            return "nan"
        if np.isinf(got) and not np.isinf(expected):
            return "infinity"
    return "error"


def _is_spread(segment: Segment, feeds: Mapping[str, Array], expected: Array, got: Array) -> bool:
    """Return whether nodes read NaN, and their result is right except where it is NaN.

    JAX's transforms and factorizations promise nothing about the elements that a NaN reaches.
    """
    if not (is_floating(expected.dtype) and is_floating(got.dtype)):
        return False
    if expected.shape != got.shape or not any(has_nan(feeds.get(name)) for name in segment.inputs):
        return False
    nowhere = ~(np.isnan(expected) | np.isnan(got))
    is_on_both_sides = has_nan(expected) and has_nan(got)
    return (
        is_on_both_sides and not judge(expected[nowhere], got[nowhere], segment.tolerance).is_wrong
    )


def _nudged(array: Array) -> Array:
    """Return an array with other last digits."""
    if not is_floating(array.dtype):
        return array
    waves = np.cos(1.7 * np.arange(array.size)).reshape(array.shape)
    with np.errstate(all="ignore"):
        digits = 1 + 2 * machine_epsilon(array.dtype) * waves
        return np.asarray((array.astype(np.float64) * digits).astype(array.dtype))


def _rounding(expected: Array, share: float) -> float:
    return share * _largest(expected) if share else 0.0


def _largest(array: Array) -> float:
    with np.errstate(all="ignore"):
        size = np.abs(array.astype(np.float64))
    return float(size.max(initial=0.0, where=np.isfinite(size)))
