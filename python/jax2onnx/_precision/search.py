"""Choose what keeps its type, so that the outputs stay within a budget."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from .. import _progress
from .._comparing.arrays import Array
from .analysis import Analysis
from .formats import Format
from .ranking import Group
from .samples import Feeds
from .sites import VALUES, WEIGHTS, Facts, Part, Site
from .switched import Switched

#: How the outputs are judged: a number that may be at most the budget.
Measure = Callable[[Mapping[str, Array], Mapping[str, Array]], float]

#: So many groups are tried one by one.
_MAX_TRIED: Final = 48


class Trials:
    """Runs the model with some parts rounded."""

    def __init__(
        self,
        analysis: Analysis,
        groups: Sequence[Sequence[Part]],
        facts: Mapping[Site, Facts],
        kind: Format,
        samples: Sequence[Feeds],
        measure: Measure,
    ) -> None:
        """Load the model, and run it as it is."""
        watch = analysis.watch
        self._switched = Switched(
            analysis.loaded,
            groups,
            facts,
            watch.types,
            watch.ranges,
            kind,
        )
        self._samples, self._measure = samples, measure
        self._plain = [self._switched.run(feeds, ()) for feeds in samples]

    def error(self, chosen: Collection[int], most: float = float("inf")) -> float:
        """Return the largest error with some groups rounded; stops if it is more than `most`."""
        worst = 0.0
        if not chosen:
            return worst
        for feeds, plain in zip(self._samples, self._plain, strict=True):
            worst = max(worst, self._measure(plain, self._switched.run(feeds, chosen)))
            if not worst <= most:
                break
        return worst


@dataclass
class Choice:
    """The parts that are rounded.

    Attributes:
        parts: The parts of nodes that are rounded.
        error: The error of the outputs with these parts rounded.
        alone: The error of each line alone, by its position in the groups.
    """

    parts: set[Part] = field(default_factory=set)
    error: float = 0.0
    alone: dict[int, float] = field(default_factory=dict)


class Search:
    """Looks for the most that can be rounded within a budget."""

    def __init__(
        self,
        analysis: Analysis,
        groups: Sequence[Group],
        kept: Collection[Part],
        kind: Format,
        samples: Sequence[Feeds],
        measure: Measure,
    ) -> None:
        """Prepare to round the parts of lines.

        Args:
            analysis: The model.
            groups: The lines.
            kept: The parts that the user wants to keep.
            kind: The type to round to.
            samples: The sets of inputs.
            measure: How the outputs are judged.
        """
        self._analysis, self._kind = analysis, kind
        self._samples, self._measure = samples, measure
        self._facts = {each.site: each for group in groups for each in group.facts}
        #: For each line, the parts that hold values and those that hold weights.
        self._parts: list[list[Part]] = [
            [(each.site, part) for each in group.facts if part in each.parts]
            for group in groups
            for part in (VALUES, WEIGHTS)
        ]
        self._parts = [[part for part in parts if part not in kept] for parts in self._parts]
        self._all = [number for number, parts in enumerate(self._parts) if parts]
        self._lines = sorted({number // 2 for number in self._all})
        self._trials = self._trials_of(self._parts)
        self._alone: dict[int, float] = {}

    def _trials_of(self, parts: Sequence[Sequence[Part]]) -> Trials:
        return Trials(self._analysis, parts, self._facts, self._kind, self._samples, self._measure)

    def choose(self, target: float) -> Choice:
        """Return what can be rounded so that the error is at most `target`."""
        chosen = set(self._all)
        if not self._trials.error(chosen, target) <= target:
            chosen = self._drop_lines(target)
            chosen = self._restore(chosen, target)
        parts: set[Part] = {part for number in chosen for part in self._parts[number]}
        parts |= self._single_nodes(chosen, parts, target)
        return Choice(parts, self._trials.error(chosen), dict(self._alone))

    def _drop_lines(self, target: float) -> set[int]:
        """Keep the fewest lines with the largest errors."""
        for place, line in enumerate(self._lines):
            if line not in self._alone:
                _progress.stage(f"rounding line {place + 1} of {len(self._lines)}")
                own = {number for number in self._all if number // 2 == line}
                self._alone[line] = self._trials.error(own)
        ordered = sorted(self._lines, key=lambda line: -self._alone[line])
        low, high = 1, len(ordered)
        while low < high:
            middle = (low + high) // 2
            _progress.stage(f"keeping {middle} of {len(ordered)} lines")
            rest = set(ordered[middle:])
            chosen = {number for number in self._all if number // 2 in rest}
            if self._trials.error(chosen, target) <= target:
                high = middle
            else:
                low = middle + 1
        rest = set(ordered[low:])
        return {number for number in self._all if number // 2 in rest}

    def _restore(self, chosen: set[int], target: float) -> set[int]:
        """Round what was kept for no reason: first all weights, then parts one by one."""
        waiting = [number for number in self._all if number not in chosen]
        weights = {number for number in waiting if number % 2}
        if weights and self._trials.error(chosen | weights, target) <= target:
            chosen = chosen | weights
            waiting = [number for number in waiting if number not in weights]
        waiting.sort(key=lambda number: (-(number % 2), self._alone.get(number // 2, 0.0)))
        for number in waiting[:_MAX_TRIED]:
            if self._trials.error(chosen | {number}, target) <= target:
                chosen = chosen | {number}
        return chosen

    def _single_nodes(
        self, chosen: Collection[int], parts: Collection[Part], target: float
    ) -> set[Part]:
        """Round the nodes of lines with several nodes, of which only some have to be kept."""
        kept = [self._parts[number] for number in self._all if number not in chosen]
        single = [part for group in kept if len(group) > 1 for part in group][:_MAX_TRIED]
        if not single:
            return set()
        trials = self._trials_of([list(parts), *([part] for part in single)])
        rounded = {0} if parts else set()
        for number in range(1, len(single) + 1):
            if trials.error(rounded | {number}, target) <= target:
                rounded.add(number)
        return {single[number - 1] for number in rounded if number}
