"""Tell a wrong number from a rounded one."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from .. import _core
from .arrays import Array

#: Operators that copy, choose or compare elements: no result is rounded.
_EXACT: Final = frozenset(_core.operators("exact"))
#: Operators that round once.
_ROUNDED: Final = frozenset(_core.operators("rounds_once"))
#: Operators that lose what 8 bits cannot hold: those of ONNX, and those that ONNX Runtime adds.
_QUANTIZED: Final = frozenset(
    (
        *_core.operators("quantized"),
        *("DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulNBits"),
        *("QAttention", "QGemm"),
    )
)
_LOSS_OF_QUANTIZATION: Final = 0.1
#: So many nodes may round to the tolerance of one kernel.
_MANY_NODES: Final = 8
#: How many times the error of the reference itself is still rounding.
ROUNDING_FACTOR: Final = 8.0


@dataclass(frozen=True)
class Tolerance:
    """The error that rounding explains: in units of the last place, and of the largest element.

    Attributes:
        own: The units of the last place of each element.
        largest: The units of the last place of the largest element.
        is_quantized: Whether 8 bits are all that there is.
        epsilon: The coarsest precision of what the result is computed from.
    """

    own: float
    largest: float
    is_quantized: bool = False
    epsilon: float = 0.0

    @classmethod
    def of(cls, operators: Iterable[str], types: Iterable[Any] = (), nodes: int = 1) -> "Tolerance":
        """Return the tolerance of a result of some operators that compute with some types.

        Args:
            operators: The operators.
            types: The types of what they compute with.
            nodes: The number of nodes that round one after another.
        """
        epsilon = max((machine_epsilon(each) for each in types if is_floating(each)), default=0.0)
        known = cls._of_operators(operators)
        more = max(1.0, nodes / _MANY_NODES)
        return replace(known, own=known.own * more, largest=known.largest * more, epsilon=epsilon)

    @classmethod
    def _of_operators(cls, operators: Iterable[str]) -> "Tolerance":
        ops = set(operators)
        if any(op in _QUANTIZED or op.startswith("QLinear") for op in ops):
            return cls(0, 0, is_quantized=True)
        if ops <= _EXACT:
            return cls(0, 0)
        if len(ops - _EXACT) == 1 and ops - _EXACT <= _ROUNDED:
            return cls(4, 0)
        return cls(64, 64)


@dataclass
class Statistics:
    """The errors of one value, over all iterations.

    Attributes:
        elements: The number of elements that were compared.
        wrong: The number of elements whose error rounding does not explain.
        absolute: The largest distance.
        relative: The largest distance, relative to the expected element.
        ulp: The largest distance in units of the last place.
        flips: The number of integers and booleans that differ.
        argmax_flips: The number of rows whose largest element is another one.
        nans: The number of NaNs where a number is expected.
        infinities: The number of infinities where a number is expected.
        excess: The largest error, in tolerances.
    """

    elements: int = 0
    wrong: int = 0
    absolute: float = 0.0
    relative: float = 0.0
    ulp: float = 0.0
    flips: int = 0
    argmax_flips: int = 0
    nans: int = 0
    infinities: int = 0
    excess: float = 0.0
    _signal: float = field(default=0.0, repr=False)
    _noise: float = field(default=0.0, repr=False)
    _found: float = field(default=0.0, repr=False)
    _product: float = field(default=0.0, repr=False)

    @property
    def cosine(self) -> float:
        """The cosine between what is expected and what was found."""
        norms = np.sqrt(self._signal * self._found)
        return float(self._product / norms) if norms > 0 else 1.0

    @property
    def snr(self) -> float:
        """The signal to noise ratio, in decibels."""
        if self._noise == 0:
            return np.inf
        return float(10 * np.log10(self._signal / self._noise)) if self._signal > 0 else -np.inf

    @property
    def loss(self) -> float:
        """The error relative to the expected contents, root mean square."""
        if self.nans or self.infinities:
            return float("inf")
        if self.flips:
            return self.flips / max(self.elements, 1)
        return float(np.sqrt(self._noise / self._signal)) if self._signal > 0 else self.absolute

    def add(self, other: "Statistics") -> None:
        """Add the errors of another iteration or of another value."""
        for name in (
            *("elements", "wrong", "flips", "argmax_flips", "nans", "infinities"),
            *("_signal", "_noise", "_found", "_product"),
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("absolute", "relative", "ulp", "excess"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))


@dataclass(frozen=True)
class Verdict:
    """How far a result is from what is expected.

    Attributes:
        excess: The largest error in tolerances; more than 1 is wrong.
        index: The worst element; None if the shape is another one.
        problem: What is wrong, in words.
    """

    statistics: Statistics
    excess: float = 0.0
    index: tuple[int, ...] | None = None
    expected: Any = None
    got: Any = None
    problem: str | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether rounding does not explain the result."""
        return self.excess > 1


def judge(
    expected: Array, got: Array, tolerance: Tolerance, rounding: "float | Array" = 0.0
) -> Verdict:
    """Compare a result with what is expected.

    Args:
        expected: The contents of the reference.
        got: The result.
        tolerance: What rounding explains.
        rounding: The known rounding error of the reference, which is allowed too.
    """
    if expected.shape != got.shape:
        shown = f"the shape is {list(got.shape)} where {list(expected.shape)} is expected"
        count = Statistics(elements=got.size, wrong=got.size, excess=np.inf)
        return Verdict(count, np.inf, problem=shown)
    if expected.dtype == got.dtype and _is_equal(expected, got):
        return Verdict(_equal_statistics(expected))
    if not (_is_float(expected) and _is_float(got)):
        return _judge_exactly(expected, got)
    return _judge_floats(expected, got, tolerance, rounding)


def machine_epsilon(dtype: Any) -> float:
    """Return the distance from 1 to the next number of a floating-point type."""
    return float(float_info(dtype).eps)


def float_info(dtype: Any) -> Any:
    """Return the limits of a floating-point type, of NumPy or of `ml_dtypes`."""
    import ml_dtypes

    info: Any = np.finfo if np.dtype(dtype).kind == "f" else ml_dtypes.finfo
    return info(dtype)


def has_nan(array: "Array | None") -> bool:
    """Return whether an array contains NaN."""
    return array is not None and is_floating(array.dtype) and bool(np.isnan(array).any())


def is_floating(dtype: Any) -> bool:
    """Return whether a type is a floating-point type, of NumPy or of `ml_dtypes`."""
    name: str = np.dtype(dtype).name
    return name.startswith(("float", "bfloat"))


def _is_float(array: Array) -> bool:
    return is_floating(array.dtype)


def _is_equal(expected: Array, got: Array) -> bool:
    if expected.dtype.itemsize > 1 and expected.dtype.kind in "fiu":
        bits = np.dtype(f"u{expected.dtype.itemsize}")
        if expected.flags.c_contiguous and got.flags.c_contiguous and expected.ndim:
            return bool((expected.view(bits) == got.view(bits)).all())
    return bool(np.array_equal(expected, got, equal_nan=_is_float(expected)))


def _equal_statistics(expected: Array) -> Statistics:
    energy = 0.0
    if _is_float(expected):
        flat = expected.ravel()
        with np.errstate(all="ignore"):
            energy = float(np.vdot(flat, flat)) if flat.dtype.kind == "f" else 0.0
        energy = energy if np.isfinite(energy) else 0.0
    return Statistics(elements=expected.size, _signal=energy, _found=energy, _product=energy)


def _judge_exactly(expected: Array, got: Array) -> Verdict:
    differs = np.atleast_1d(expected != got)
    count = int(np.count_nonzero(differs))
    statistics = Statistics(elements=expected.size, wrong=count, flips=count)
    if count == 0:
        return Verdict(statistics)
    index = np.unravel_index(int(np.argmax(differs)), expected.shape)
    place = tuple(int(each) for each in index)
    if expected.dtype.kind in "iu" and got.dtype.kind in "iu":
        distance = np.abs(expected.astype(np.float64) - got.astype(np.float64))
        statistics.absolute = float(distance.max())
    statistics.excess = np.inf
    return Verdict(statistics, np.inf, place, expected[place], got[place])


def _judge_floats(
    expected: Array, got: Array, tolerance: Tolerance, rounding: "float | Array"
) -> Verdict:
    with np.errstate(all="ignore"):
        wide_expected, wide_got = expected.astype(np.float64), got.astype(np.float64)
        size, finite = np.abs(wide_expected), np.isfinite(wide_expected)
        same = (wide_expected == wide_got) | (np.isnan(wide_expected) & np.isnan(wide_got))
        comparable = finite & np.isfinite(wide_got)
        error = np.where(comparable, np.abs(wide_got - wide_expected), 0.0)
        largest = float(size[finite].max()) if finite.any() else 0.0
        allowed = _allowed(expected, got, size, largest, tolerance) + rounding
        excess = np.where(same, 0.0, np.where(comparable, error / allowed, np.inf))
        excess = np.where(np.isnan(excess), 0.0, excess)
        flat = int(np.argmax(excess))
        place = tuple(int(each) for each in np.unravel_index(flat, expected.shape))
        coarse = max(machine_epsilon(expected.dtype), machine_epsilon(got.dtype))
        tiny = np.finfo(np.float32).tiny
        relative = error / np.maximum(size, tiny)
        noise, signal = error.ravel(), np.where(comparable, wide_expected, 0.0).ravel()
        found = np.where(comparable, wide_got, 0.0).ravel()
        statistics = Statistics(
            elements=expected.size,
            wrong=int(np.count_nonzero(excess > 1)),
            absolute=float(error.max(initial=0.0)),
            relative=float(relative.max(initial=0.0)),
            ulp=float(relative.max(initial=0.0) / coarse),
            argmax_flips=_argmax_flips(wide_expected, wide_got),
            nans=int(np.count_nonzero(np.isnan(wide_got) & ~np.isnan(wide_expected))),
            infinities=int(np.count_nonzero(np.isinf(wide_got) & finite)),
            excess=float(excess.max(initial=0.0)),
            _signal=float(signal @ signal),
            _noise=float(noise @ noise),
            _found=float(found @ found),
            _product=float(signal @ found),
        )
    return Verdict(statistics, float(excess.max(initial=0.0)), place, expected[place], got[place])


def _allowed(expected: Array, got: Array, size: Any, largest: float, tolerance: Tolerance) -> Any:
    """Return the error of each element that rounding explains."""
    if tolerance.is_quantized:
        return _LOSS_OF_QUANTIZATION * largest + np.zeros_like(size)
    precise = max(machine_epsilon(expected.dtype), machine_epsilon(got.dtype))
    coarse = max(precise, tolerance.epsilon)
    own, share = tolerance.own, tolerance.largest
    if expected.dtype != got.dtype or coarse > precise:
        own = max(own, 2.0)
    if coarse > 1e-5:
        # Sixty-four units of the last place of a short type would hide real errors.
        own, share = min(own, 8.0), min(share, 8.0)
    # A number below the smallest normal one may become zero.
    smallest = 2.0 * float(
        float_info(got.dtype if coarse > 1e-5 else expected.dtype).smallest_normal
    )
    floor = smallest if own or share else 0.0
    return coarse * (own * size + share * largest) + floor


def _argmax_flips(expected: Any, got: Any) -> int:
    if expected.ndim == 0 or expected.shape[-1] < 2 or not expected.size:
        return 0
    return int(np.count_nonzero(np.argmax(expected, -1) != np.argmax(got, -1)))
