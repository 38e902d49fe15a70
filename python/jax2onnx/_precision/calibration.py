"""Find the ranges of values from data, and judge them on data that did not show them."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from .._comparing.arrays import Array
from .formats import scale_of

#: A value: what the core calls its graph, and its name.
Key: TypeAlias = tuple[tuple[Any, ...], str]
Ranges: TypeAlias = Mapping[Key, tuple[float, float]]

#: So many elements of a value are kept per sample, to find out what clipping loses.
_MAX_KEPT: Final = 1024
#: The data is divided into so many parts at most; each one is judged by the ranges of the others.
_MAX_FOLDS: Final = 4
#: How a range follows from the extremes of the samples: it reaches so many standard deviations
#: beyond their mean. With 0, it has the least square error.
_METHODS: Final = (7.0, 4.0, 0.0)
#: The headroom if there is one sample.
_HEADROOM: Final = 1.35
_CLIPPED: Final = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)


@dataclass
class Seen:
    """The numbers of a value in one sample.

    Attributes:
        low: The smallest one.
        high: The largest one.
        kept: Some of them.
    """

    low: float = math.inf
    high: float = -math.inf
    kept: list[Array] = field(default_factory=list)
    _count: int = 0

    def add(self, array: Array, *, keeps: bool) -> None:
        """Add the numbers of an iteration."""
        finite = array if np.isfinite(array).all() else array[np.isfinite(array)]
        if not finite.size:
            return
        self.low = min(self.low, float(finite.min()))
        self.high = max(self.high, float(finite.max()))
        room = _MAX_KEPT - self._count
        if keeps and room > 0:
            flat = finite.reshape(-1)
            some = np.array(flat[:: max(1, flat.size // room)][:room], np.float32)
            self._count += some.size
            self.kept.append(some)


class Calibration:
    """The numbers of all values, by sample."""

    def __init__(self) -> None:
        """Begin without samples."""
        self.samples: list[dict[Key, Seen]] = []

    def begin(self) -> None:
        """Begin a sample."""
        self.samples.append({})

    def add(self, key: Key, array: Array, *, keeps: bool) -> None:
        """Add the numbers of a value in the current sample."""
        if not self.samples:
            self.begin()
        self.samples[-1].setdefault(key, Seen()).add(array, keeps=keeps)

    def ranges(self, chosen: Collection[int] | None = None, method: float | None = None) -> Ranges:
        """Return the range of each value.

        Args:
            chosen: The samples to look at; None for all.
            method: How many standard deviations the range reaches beyond the mean of the extremes
                of the samples; 0 for the least square error, and None for the extremes themselves.
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
    if method:
        return -_reach([-low for low in lows], method), _reach(highs, method)
    low, high = min(lows), max(highs)
    arrays = [array for each in known for array in each.kept]
    if not arrays:
        return low, high
    some = np.concatenate(arrays)
    losses = {factor: _loss(some, low * factor, high * factor) for factor in _CLIPPED}
    best = min(losses, key=lambda factor: losses[factor])
    return low * best, high * best


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


def _loss(array: Array, low: float, high: float) -> float:
    scale, zero = scale_of(low, high)
    whole = np.clip(np.rint(array / scale) + zero, 0, 255)
    return float(np.square((whole - zero) * scale - array).mean())


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
_SHARE, _CERTAINTY = 2.5, 1.2
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
