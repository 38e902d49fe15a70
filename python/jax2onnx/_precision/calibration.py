"""Find the ranges of values from data, and judge them on data that did not show them."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from .._comparing.arrays import Array

#: A value: what the core calls its graph, and its name.
Key: TypeAlias = tuple[tuple[Any, ...], str]
Ranges: TypeAlias = Mapping[Key, tuple[float, float]]

#: The data is divided into so many parts at most; each one is judged by the ranges of the others.
_MAX_FOLDS: Final = 4
#: How a range follows from the extremes of the samples: it reaches so many standard deviations
#: beyond their mean. A range that cuts extremes would lose much of new data.
_METHODS: Final = (7.0, 4.0)
#: The headroom if there is one sample.
_HEADROOM: Final = 1.35


@dataclass
class Seen:
    """The numbers of a value in one sample.

    Attributes:
        low: The smallest one.
        high: The largest one.
    """

    low: float = math.inf
    high: float = -math.inf

    def add(self, array: Array) -> None:
        """Add the numbers of an iteration."""
        finite = array if np.isfinite(array).all() else array[np.isfinite(array)]
        if not finite.size:
            return
        self.low = min(self.low, float(finite.min()))
        self.high = max(self.high, float(finite.max()))


class Calibration:
    """The numbers of all values, by sample."""

    def __init__(self) -> None:
        """Begin without samples."""
        self.samples: list[dict[Key, Seen]] = []

    def begin(self) -> None:
        """Begin a sample."""
        self.samples.append({})

    def add(self, key: Key, array: Array) -> None:
        """Add the numbers of a value in the current sample."""
        if not self.samples:
            self.begin()
        self.samples[-1].setdefault(key, Seen()).add(array)

    def ranges(self, chosen: Collection[int] | None = None, method: float | None = None) -> Ranges:
        """Return the range of each value.

        Args:
            chosen: The samples to look at; None for all.
            method: How many standard deviations the range reaches beyond the mean of the extremes
                of the samples; None for the extremes themselves.
        """
        known: dict[Key, list[Seen]] = {}
        for number, sample in enumerate(self.samples):
            if chosen is None or number in chosen:
                for key, seen in sample.items():
                    known.setdefault(key, []).append(seen)
        if method is None:
            return {
                key: (min(each.low for each in seen), max(each.high for each in seen))
                for key, seen in known.items()
            }
        return {key: _range(seen, method) for key, seen in known.items()}


def _range(seen: Sequence[Seen], method: float) -> tuple[float, float]:
    known = [each for each in seen if math.isfinite(each.low)]
    if not known:
        return 0.0, 0.0
    lows, highs = ([getattr(each, side) for each in known] for side in ("low", "high"))
    return -_reach([-low for low in lows], method), _reach(highs, method)


def _reach(extremes: Sequence[float], method: float) -> float:
    """Return a number that those of a new sample hardly exceed, from the largest of each sample."""
    largest = max(extremes)
    if largest <= 0:
        # A side that the data does not reach, such as that below a ReLU.
        return largest
    if len(extremes) == 1:
        return largest * _HEADROOM
    spread = float(np.std(extremes, ddof=1))
    return max(largest, float(np.mean(extremes)) + method * spread)


@dataclass(frozen=True)
class Scales:
    """The ranges to try.

    Attributes:
        method: How they follow from the data.
        all: The ranges of all samples.
        folds: For each sample, the ranges of others.
    """

    method: float
    all: Ranges
    folds: Sequence[Ranges]


def scales_to_try(calibration: Calibration) -> list[Scales]:
    """Return the ranges to try, with those to judge each sample by."""
    count = len(calibration.samples)
    folds = min(_MAX_FOLDS, count)
    found = []
    for method in _METHODS:
        everything = calibration.ranges(None, method)
        if folds < 2:
            found.append(Scales(method, everything, [everything] * count))
            continue
        parts = []
        for fold in range(folds):
            others = {number for number in range(count) if number % folds != fold}
            # A value that only the other samples have keeps their range.
            parts.append({**everything, **calibration.ranges(others, method)})
        found.append(Scales(method, everything, [parts[n % folds] for n in range(count)]))
    # Without other samples, only headroom protects from new data.
    return found if folds > 1 else found[:1]


#: New data may have an error that is so many times as large as the largest one known.
_FACTOR: Final = 1.2
#: The spread of the logarithms that is assumed if there is one sample.
_SPREAD: Final = 0.5
#: Quantiles of the normal distribution: of the samples that stay below, and of the certainty.
_SHARE, _CERTAINTY = 2.5, 1.64
_MAX_DEVIATIONS: Final = 6.0


def bound(errors: Iterable[float]) -> float:
    """Return an error that new samples will hardly exceed, from those of some samples.

    Errors of samples are spread about as the logarithms of normally distributed numbers are. The
    fewer samples there are, the less is known about their spread.
    """
    known = list(errors)
    if not known:
        return 0.0
    largest = max(known)
    if not math.isfinite(largest) or largest <= 0:
        return largest
    positive = [error for error in known if error > 0]
    logs = np.log(positive)
    spread = float(logs.std(ddof=1)) if len(positive) > 1 else _SPREAD
    guess = math.exp(float(logs.mean()) + _deviations(len(positive)) * spread)
    return max(largest * _FACTOR, guess)


def _deviations(count: int) -> float:
    """Return how many deviations above the mean hardly a sample reaches: a tolerance factor."""
    if count < 3:
        return _MAX_DEVIATIONS / 2
    one = 1 - _CERTAINTY**2 / (2 * (count - 1))
    other = _SHARE**2 - _CERTAINTY**2 / count
    if one <= 0:
        return _MAX_DEVIATIONS
    root = math.sqrt(max(_SHARE**2 - one * other, 0.0))
    return min((_SHARE + root) / one, _MAX_DEVIATIONS)
