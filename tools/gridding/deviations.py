"""Where a model computes something else than JAX, and why: the grid accepts nothing else."""

from __future__ import annotations

import cmath
import dataclasses
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
    return any(element.found == want for want in element.wanted)


def _is_denormal(element: Element) -> bool:
    if element.reads_denormal:
        is_nan = element.found != element.found
        return not is_nan or any(want != want for want in element.wanted)
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


DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "zero sign",
        "JAX returns -0.0 and the model 0.0, or the reverse. ONNX Runtime's `Where` adds a zero to "
        "the elements that it selects, and its `Max`, `Min` and `Clip` return either zero.",
        _is_zero_sign,
    ),
    Deviation(
        "denormal",
        "XLA takes numbers below the smallest normal number for zeros, in operands and in results. "
        "ONNX Runtime computes with them, so `1 / x` is infinite in JAX and large in the model. A "
        "formula that divides by a denormal number may return another number than at zero.",
        _is_denormal,
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
