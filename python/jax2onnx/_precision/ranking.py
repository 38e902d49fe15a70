"""Rank lines by what the outputs lose if a line is rounded."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from .. import _progress
from .._comparing.lines import Lines, SourceLine
from .calibration import Ranges
from .errors import LOST, worst_output
from .formats import Format
from .samples import Feeds
from .sites import MIXING, PRODUCTS, Facts, Part, Range, Weight
from .switched import Switched

#: At least so many groups are rounded alone.
_MIN_ALONE: Final = 16
#: One group in so many nodes is rounded alone.
_NODES_PER_RUN: Final = 10
#: A group whose share is smaller is not looked at closely.
_SMALL: Final = 0.1
#: A line whose error is at least this share of that of another one loses as much.
_AS_MUCH: Final = 0.9
_LIKE: Final = 0.5
#: The severity of what cannot be stored at all, and of what partly vanishes.
_BEYOND, _VANISHING = 1e6, 1e3
#: The severity of what has the scale of much larger numbers.
_MIXED: Final = 1.0
#: The operand of a product that is a bias.
_BIAS: Final = 2
#: A sum loses so many of its addends that it may stand still.
_ABSORBING: Final = 0.25


@dataclass
class Group:
    """Nodes that are rounded together: those of a line.

    Attributes:
        line: The line; None if it is not known.
        module: The module of the nodes, if the line is in a library, whose layers share it.
        facts: What is known of the nodes.
        error: The relative error of the output that suffers most.
        output: That output.
        is_measured: Whether a run showed the error, so that it is not an estimate.
    """

    line: SourceLine | None
    facts: list[Facts] = field(default_factory=list)
    error: float = 0.0
    output: str | None = None
    is_measured: bool = False
    module: str = ""

    @property
    def parts(self) -> list[Part]:
        """The rounded parts of all nodes."""
        return [(each.site, part) for each in self.facts for part in each.parts]

    @property
    def order(self) -> tuple[int, ...]:
        """The earliest place in the order of execution."""
        return min(each.order for each in self.facts)


def groups_of(facts: Iterable[Facts], lines: Lines, *, by_part: bool = False) -> list[Group]:
    """Return the nodes that round, by line, in the order of execution.

    A product may add the bias of a later line, and its weight may contain a factor of a later line.

    Args:
        facts: What is known of the nodes.
        lines: The lines of the nodes.
        by_part: Whether the weights and the result of such a node have lines of their own.
            Otherwise, the node has the line of the part that exceeds the range, or its first line.
    """
    found: dict[object, Group] = {}
    for each in facts:
        known = lines.of_node(each.graph, each.number)
        first, last = _weights_line(each, lines, known), _result_line(each, lines, known)
        if first != last and by_part:
            chosen = [(_weights_alone(each), first), (_result_alone(each), last)]
        elif any(exceeds(each, weight) for weight in each.weights.values()):
            chosen = [(each, first)]
        else:
            line = last if each.values.overflowing else next(iter(known), None)
            chosen = [(each, line)]
        for part, line in chosen:
            if part.matters:
                key: object = part.site if line is None else line.place
                module = ""
                if line is not None and not line.is_users:
                    module = part.node.name.rpartition("/")[0]
                    key = key, module or part.site
                found.setdefault(key, Group(line, module=module)).facts.append(part)
    return sorted(found.values(), key=lambda group: group.order)


def _weights_line(facts: Facts, lines: Lines, known: Sequence[SourceLine]) -> SourceLine | None:
    """Return the line of the weight that loses most; None if it is not known."""
    weights = facts.weights.values()
    worst = max(weights, key=lambda each: (exceeds(facts, each), each.error), default=None)
    if worst is not None and (worst.position >= _BIAS or lines.of_weight(facts.graph, worst.name)):
        return _result_line(facts, lines, known)
    return next(iter(known), None)


def _result_line(facts: Facts, lines: Lines, known: Sequence[SourceLine]) -> SourceLine | None:
    """Return the line that computes the result of a node; None if it is not known.

    Other lines may only move what the node computes, or compute the same.
    """
    if not known or facts.node.op_type not in PRODUCTS:
        return known[0] if known else None
    last = [known[0]]
    if len(known) == 2 and any(facts.node.input[_BIAS:]):
        last.append(known[1])
    for weight in facts.weights.values():
        # A weight that contains a factor has lines, that of the factor first.
        folded = lines.of_weight(facts.graph, weight.name)
        last += [each for each in folded[:1] if each in known]
    same = [each for each in last if (each.file, each.function) == (last[0].file, last[0].function)]
    return max(same, key=lambda each: each.line or 0)


def _weights_alone(facts: Facts) -> Facts:
    """Return a node without its result."""
    error = max((each.error for each in facts.weights.values()), default=0.0)
    return replace(facts, results=set(), operands=set(), values=Range(), own_error=error)


def _result_alone(facts: Facts) -> Facts:
    """Return a node without its weights."""
    return replace(facts, given=set(), weights={})


def severity(facts: Facts, kind: Format) -> float:
    """Return how bad the rounding of a node looks, before anybody knows its effect."""
    size = facts.own_error if math.isfinite(facts.own_error) else _BEYOND
    if facts.values.overflowing or facts.is_inside:
        size = max(size, _BEYOND)
    for weight in facts.weights.values():
        if exceeds(facts, weight):
            size = max(size, _BEYOND)
        elif weight.range.vanishing:
            size = max(size, _VANISHING)
        size = max(size, weight.error)
    if facts.values.vanishing:
        size = max(size, _VANISHING * facts.values.vanishing / max(facts.values.size, 1))
    if facts.graph.key and facts.absorbed > _ABSORBING:
        size = max(size, facts.absorbed * len(facts.graph.key))
    if mixes_ranges(facts, kind):
        size = max(size, _MIXED)
    if facts.outlier is not None and not kind.is_float:
        size = max(size, facts.own_error * 2)
    return size


def exceeds(facts: Facts, weight: Weight) -> bool:
    """Return whether elements of a weight become infinite, and a result shows that.

    A comparison with the largest number of `float32` does not show it.
    """
    return weight.range.overflowing > 0 and facts.own_error > 0


def mixes_ranges(facts: Facts, kind: Format) -> bool:
    """Return whether elements of a result get the scale of others that are much larger."""
    return not kind.is_float and bool(facts.results) and facts.node.op_type in MIXING


def follows(facts: Facts, group: Group) -> bool:
    """Return whether a node reads what a line computes, directly or through other nodes."""
    graph = facts.graph
    sources = {each.number for each in group.facts if each.graph.key == graph.key}
    waiting, seen = [facts.number], {facts.number}
    while waiting:
        for name in graph.reads(waiting.pop()):
            number = graph.produced.get(name)
            if number in sources:
                return True
            if number is not None and number not in seen:
                seen.add(number)
                waiting.append(number)
    return False


class Effects:
    """Measures what groups do to the outputs."""

    def __init__(self, switched: Switched, samples: Sequence[Feeds], ranges: Ranges) -> None:
        """Run the model as it is."""
        self._switched, self._ranges = switched, ranges
        self._samples = samples
        self._plain = [switched.run(feeds, ()) for feeds in samples]
        self.runs = 0

    def of(self, chosen: Iterable[int]) -> tuple[float, str | None]:
        """Return the error of rounding some groups, and the output that has it."""
        which = list(chosen)
        worst: tuple[float, str | None] = (0.0, None)
        for feeds, plain in zip(self._samples, self._plain, strict=True):
            found = worst_output(plain, self._switched.run(feeds, which, self._ranges))
            if found[0] > worst[0]:
                worst = found
            if math.isinf(worst[0]):
                break
        self.runs += 1
        return worst


def rank(groups: Sequence[Group], effects: Effects | None, kind: Format) -> list[Group]:
    """Note the effect of each group, and return the groups, the largest effect first."""
    if effects is None:
        for group in groups:
            error = max(each.own_error for each in group.facts)
            group.error = error if math.isinf(error) else min(error, LOST)
    else:
        _measure(groups, effects, kind)
    ranked = sorted(groups, key=lambda group: (-group.error, group.order))
    return _earliest_first(ranked, kind)


def _earliest_first(ranked: list[Group], kind: Format) -> list[Group]:
    """Put the line that computes what the first one reads first, if it loses as much.

    A line that hands on a value with a problem loses as much as the line that computes it.
    """
    if not ranked:
        return ranked
    first, *rest = ranked
    reader = min(first.facts, key=lambda each: (-severity(each, kind), each.order))
    for group in sorted(rest, key=lambda group: group.order):
        if group.order >= first.order or group.error < _AS_MUCH * first.error:
            continue
        if _own(group) >= _LIKE * _own(first) and follows(reader, group):
            return [group, *(each for each in ranked if each is not group)]
    return ranked


def _measure(groups: Sequence[Group], effects: Effects, kind: Format) -> None:
    nodes = sum(len(group.facts) for group in groups)
    count = max(_MIN_ALONE, nodes // _NODES_PER_RUN)
    by_severity = sorted(
        range(len(groups)),
        key=lambda number: (
            -max(severity(each, kind) for each in groups[number].facts),
            groups[number].order,
        ),
    )
    largest = 0.0
    for place, number in enumerate(by_severity[:count]):
        _progress.stage(f"rounding line {place + 1} of {len(groups)}")
        error, output = effects.of([number])
        largest = max(largest, error)
        _note(groups[number], error, output)
    rest = by_severity[count:]
    waiting = [rest] if rest else []
    while waiting:
        some = waiting.pop(0)
        _progress.stage(f"rounding {len(some)} of {len(groups)} lines")
        error, output = effects.of(some)
        if len(some) == 1:
            largest = max(largest, error)
            _note(groups[some[0]], error, output)
        elif error > _SMALL * largest and effects.runs < 2 * count:
            half = len(some) // 2
            waiting += [some[:half], some[half:]]
        else:
            _share(groups, some, error, output)


def _note(group: Group, error: float, output: str | None) -> None:
    group.error = error if math.isinf(error) else min(error, LOST)
    group.output, group.is_measured = output, True


def _share(groups: Sequence[Group], some: Sequence[int], error: float, output: str | None) -> None:
    """Divide the error of groups that were rounded together, by the errors of their own."""
    own = {number: _own(groups[number]) for number in some}
    total = math.sqrt(sum(each * each for each in own.values()))
    for number in some:
        group = groups[number]
        part = own[number] / total if total > 0 else 1 / math.sqrt(len(some))
        group.error = min(error * part, LOST) if math.isfinite(error) else LOST * part
        group.output = output


def _own(group: Group) -> float:
    return max(min(each.own_error, LOST) for each in group.facts)
