"""Choose what keeps its type, so that the outputs stay within a budget."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from .. import _progress
from .._comparing.arrays import Array
from .analysis import Analysis
from .calibration import Ranges, bound, scales_to_try
from .formats import Format
from .quantizing import tied
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
        self._switched = Switched(analysis.loaded, groups, facts, analysis.watch.types, kind)
        self._samples, self._measure, self._is_float = samples, measure, kind.is_float
        self._plain = [self._switched.run(feeds, ()) for feeds in samples]
        #: The ranges to try; each sample is judged by ranges that it did not contribute to.
        self.scales = scales_to_try(analysis.watch.calibration)[0]

    def errors(
        self, chosen: Collection[int], most: float = math.inf, count: int | None = None
    ) -> list[float]:
        """Return the errors of samples with some groups rounded.

        Args:
            chosen: The groups.
            most: The error from which on nobody wants to know more.
            count: The number of samples; None for all.
        """
        found: list[float] = []
        if not chosen:
            return found
        some = list(zip(self._samples, self._plain, self.scales.folds, strict=False))[:count]
        for feeds, plain, ranges in some:
            error = self._measure(plain, self._switched.run(feeds, chosen, ranges))
            found.append(math.inf if math.isnan(error) else error)
            if not found[-1] <= most:
                break
        return found

    def error(self, chosen: Collection[int], most: float = math.inf) -> float:
        """Return the error with some groups rounded; if there are scales, a bound for new data."""
        errors = self.errors(chosen, most)
        return max(errors, default=0.0) if self._is_float else bound(errors)


@dataclass
class Choice:
    """The parts that are rounded.

    Attributes:
        parts: The parts of nodes that are rounded.
        errors: The errors of the samples with these parts rounded.
        alone: The error of each line alone, by its position in the groups.
        ranges: The range of each value that is rounded, if the type has scales.
    """

    parts: set[Part] = field(default_factory=set)
    errors: Sequence[float] = ()
    alone: dict[int, float] = field(default_factory=dict)
    ranges: Ranges = field(default_factory=dict)


class Search:
    """Looks for the most that can be a shorter floating-point type within a budget."""

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

    def choose(self, target: float, _: float = 1.0) -> Choice:
        """Return what can be rounded so that the error is at most `target`."""
        chosen = set(self._all)
        if not self._trials.error(chosen, target) <= target:
            chosen = self._drop_lines(target)
            chosen = self._restore(chosen, target)
        parts: set[Part] = {part for number in chosen for part in self._parts[number]}
        parts |= self._single_nodes(chosen, parts, target)
        return Choice(parts, self._trials.errors(chosen), dict(self._alone))

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


@dataclass
class _Item:
    """Parts that are rounded together.

    Attributes:
        parts: The parts.
        gain: The bytes of the weights that become smaller, or of those that are multiplied faster.
    """

    parts: list[Part]
    gain: int


class WholeSearch:
    """Looks for the most weights that can be whole numbers, and then for the most operands."""

    def __init__(
        self,
        analysis: Analysis,
        groups: Sequence[Group],
        kept: Collection[Part],
        kind: Format,
        samples: Sequence[Feeds],
        measure: Measure,
    ) -> None:
        """Prepare to round weights and operands; takes what `Search` takes."""
        facts = {each.site: each for group in groups for each in group.facts}
        self._lines = {each.site: n for n, group in enumerate(groups) for each in group.facts}
        weights = [
            (parts, gain) for parts, gain in tied(facts) if not any(part in kept for part in parts)
        ]
        self._items = [_Item(parts, gain) for parts, gain in weights]
        self._count = len(self._items)
        gains = {site: item.gain for item in self._items for site, _ in item.parts}
        self._items += [
            _Item([(site, VALUES)], gains[site])
            for site, each in facts.items()
            if each.operands and (site, VALUES) not in kept and site in gains
        ]
        parts = [item.parts for item in self._items]
        self._trials = Trials(analysis, parts, facts, kind, samples, measure)
        self._to_try = scales_to_try(analysis.watch.calibration)
        self._alone: dict[int, float] = {}

    def choose(self, target: float, share: float = 1.0) -> Choice:
        """Return what can be rounded so that new samples will hardly exceed `target`.

        Args:
            target: The error.
            share: The share of it that is left if operands are rounded, too; 0 rounds none.
        """
        chosen = self._largest(set(), range(self._count), target)
        if not chosen:
            for number in range(min(self._count, _MAX_TRIED)):
                self._alone[number] = max(self._trials.errors({number}))
        sites = {site for number in chosen for site, _ in self._items[number].parts}
        values = [
            number
            for number in range(self._count, len(self._items))
            if self._items[number].parts[0][0] in sites
        ]
        if values and share:
            self._choose_scales({*chosen, *values}, target * share)
            chosen = self._largest(chosen, values, target * share)
        parts = {part for number in chosen for part in self._items[number].parts}
        alone: dict[int, float] = {}
        for number, error in self._alone.items():
            for site, _ in self._items[number].parts:
                line = self._lines[site]
                alone[line] = max(error, alone.get(line, 0.0))
        errors = self._trials.errors(chosen)
        return Choice(parts, errors, alone, self._trials.scales.all)

    def _choose_scales(self, chosen: Collection[int], target: float) -> None:
        """Choose how ranges follow from the data, by the error of what they are for.

        New data is safest with the widest ranges, which are the first ones, unless their steps are
        too large for the budget.
        """
        errors: list[float] = []
        for number, scales in enumerate(self._to_try):
            _progress.stage(f"trying ranges {number + 1} of {len(self._to_try)}")
            self._trials.scales = scales
            errors.append(self._trials.error(chosen, min(errors, default=math.inf)))
            if errors[-1] <= target:
                return
        best = min(range(len(errors)), key=errors.__getitem__)
        self._trials.scales = self._to_try[best]

    def _largest(self, base: set[int], items: Collection[int], target: float) -> set[int]:
        """Return the items that can be rounded in addition to some others."""
        if not items or self._trials.error({*base, *items}, target) <= target:
            return {*base, *items}
        for place, number in enumerate(items):
            if number not in self._alone:
                _progress.stage(f"rounding part {place + 1} of {len(items)}")
                self._alone[number] = max(self._trials.errors({number}, count=_FEW))
        usable = [number for number in items if self._alone[number] <= target]
        # Errors add up as squares do, so this is the loss per byte.
        usable.sort(key=lambda number: self._alone[number] ** 2 / self._items[number].gain)
        low, high = 0, len(usable)
        while low < high:
            middle = (low + high + 1) // 2
            _progress.stage(f"rounding {middle} of {len(usable)} parts")
            if self._trials.error({*base, *usable[:middle]}, target) <= target:
                low = middle
            else:
                high = middle - 1
        chosen = {*base, *usable[:low]}
        rest = sorted(usable[low:], key=lambda number: -self._items[number].gain)
        for number in rest[:_MAX_TRIED]:
            if self._trials.error({*chosen, number}, target) <= target:
                chosen.add(number)
        return chosen


#: So many samples show the error of a part alone.
_FEW: Final = 3
