"""Where a model computes something else than JAX, and why: the grid accepts nothing else."""

from __future__ import annotations

import cmath
import dataclasses
import math
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any


@dataclasses.dataclass(frozen=True)
class Element:
    """One element that differs from JAX."""

    function: str
    type: str
    inputs: tuple[Any, ...]
    found: Any
    #: With few optimizations of XLA, with all, and one operation after the other.
    wanted: tuple[Any, ...]
    #: What JAX computes in double precision, where the type has less.
    double: Any
    #: Whether the model returns that.
    is_double: bool
    reads_denormal: bool
    returns_denormal: bool

    def __str__(self) -> str:
        wanted = " or ".join(dict.fromkeys(map(str, self.wanted)))
        return f"{self.found} at {', '.join(map(str, self.inputs))} where JAX has {wanted}"


@dataclasses.dataclass(frozen=True)
class Deviation:
    """A difference that is documented."""

    name: str
    #: What JAX returns, what the model returns, and why.
    words: str
    #: Whether the deviation covers an element.
    covers: Callable[[Element], bool]
    #: Patterns of the names of functions and types.
    functions: tuple[str, ...] = ("*",)
    types: tuple[str, ...] = ("*",)

    def excuses(self, element: Element) -> bool:
        return (
            any(fnmatchcase(element.function, one) for one in self.functions)
            and any(fnmatchcase(element.type, one) for one in self.types)
            and self.covers(element)
        )


def _is_zero_sign(element: Element) -> bool:
    found = element.found
    if not isinstance(found, complex):
        return any(found == want for want in element.wanted)
    return any(
        all(map(_is_near, _parts(found), _parts(want))) for want in map(complex, element.wanted)
    )


def _is_near(one: float, other: float) -> bool:
    """Whether two parts of complex numbers are the same, the sign of a zero aside."""
    if one == other or (one != one and other != other):
        return True
    return math.isfinite(one) and math.isfinite(other) and abs(one - other) <= 1e-5 * abs(other)


def _parts(number: complex) -> tuple[float, float]:
    return number.real, number.imag


def _is_nan_part(element: Element) -> bool:
    """Whether a part of a complex operand is NaN, and a part of the model's result is too."""
    operands = [one for one in element.inputs if isinstance(one, complex)]
    return any(map(cmath.isnan, operands)) and cmath.isnan(element.found)


def _is_other_side(element: Element) -> bool:
    """Whether the model returns the value at the other side of a branch cut."""
    operands = [one for one in element.inputs if isinstance(one, complex)]
    if not isinstance(element.found, complex) or not any(0 in _parts(one) for one in operands):
        return False
    sizes = [abs(part) for part in _parts(element.found)]
    return any(
        all(
            _is_near(a, abs(b)) or max(a, abs(b)) < 1e-30
            for a, b in zip(sizes, _parts(complex(want)), strict=True)
        )
        for want in element.wanted
    )


def _is_denormal(element: Element) -> bool:
    if element.reads_denormal:
        return True
    # XLA has a zero for each of these.
    return element.returns_denormal and any(want == 0 for want in (*element.wanted, element.found))


def _is_rounded(element: Element) -> bool:
    """Whether the model is at least about as close to the exact result as JAX is."""
    if element.is_double:
        return True
    numbers = (element.found, element.double, *element.wanted)
    if element.double is None or not all(cmath.isfinite(number) for number in numbers):
        return False
    error = max(abs(want - element.double) for want in element.wanted)
    return bool(abs(element.found - element.double) <= 4 * error)


def _is_at_end(element: Element) -> bool:
    """Whether an operand is near the ends of double precision, and the model has a number."""
    numbers = [abs(part) for one in element.inputs for part in _parts(complex(one))]
    is_end = any(0 < number < 1e-300 or 1e300 < number < math.inf for number in numbers)
    return is_end and not cmath.isnan(element.found)


DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "zero sign",
        "JAX returns -0.0 and the model 0.0, or the reverse. ONNX Runtime's `Where` adds a zero to "
        "the elements that it selects, and its `Max`, `Min` and `Clip` return either zero.",
        _is_zero_sign,
    ),
    Deviation(
        "nan part",
        "A part of a complex operand is NaN. JAX returns NaN in one part and a number in the other "
        "one. The model returns NaN in both parts, or in the other one.",
        _is_nan_part,
        types=("complex*",),
    ),
    Deviation(
        "infinite parts",
        "Both results are infinite. JAX has infinities in both parts, and the model has NaN in "
        "one of them, or the reverse: the parts are differences of infinite products.",
        lambda element: (
            cmath.isinf(element.found) and any(cmath.isinf(want) for want in element.wanted)
        ),
        types=("complex*",),
    ),
    Deviation(
        "branch cut",
        "A part of a complex operand is a zero, whose sign selects a side of a branch cut. The "
        "model returns the value at the other side, because ONNX Runtime loses the sign of a zero.",
        _is_other_side,
        types=("complex*",),
    ),
    Deviation(
        "denormal",
        "XLA takes numbers below the smallest normal number for zeros, in operands and in results. "
        "ONNX Runtime computes with them, so `1 / x` is infinite in JAX and large in the model. A "
        "formula that divides by a denormal number may return another number than at zero, and a "
        "negative one is outside the domain of a logarithm.",
        _is_denormal,
    ),
    Deviation(
        "end of float64",
        "An operand is below 1e-300 or above 1e300. JAX and the model lose digits in different "
        "places, and XLA takes denormal numbers on the way for zeros. For example, "
        "`boxcox(0.5, 2.2e-308)` is 0 in JAX, and log(0.5) in the model. There is no wider type to "
        "judge by.",
        _is_at_end,
        types=("float64", "complex128"),
    ),
    Deviation(
        "four bits",
        "XLA counts the bits of the byte that holds a negative number: `population_count(-1)` "
        "is 8, or -8 in another context. The model counts four bits and returns 4.",
        lambda element: element.inputs[0] < 0,
        ("jax.lax.population_count",),
        ("int4",),
    ),
    Deviation(
        "rounding",
        "Large terms cancel, so JAX and the model both lose digits, or JAX overflows on the way. "
        "The model is about as close as JAX, or closer, to what JAX returns in double precision.",
        _is_rounded,
    ),
)
