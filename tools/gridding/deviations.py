"""Where a model computes something else than JAX, and why: the grid accepts nothing else."""

from __future__ import annotations

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
    has_denormal: bool
    #: Whether the model returns what JAX computes in double precision.
    is_double_result: bool

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
    return element.found == 0 and any(want == 0 for want in element.wanted)


def _is_denormal(element: Element) -> bool:
    return element.has_denormal and (element.is_double_result or _is_tiny(element))


def _is_tiny(element: Element) -> bool:
    """Whether both results are zero or nearly so."""
    return abs(element.found) < 1e-4 and any(abs(want) < 1e-4 for want in element.wanted)


DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "zero sign",
        "JAX returns -0.0 and the model 0.0, or the reverse. ONNX Runtime's `Where` adds a zero to "
        "the elements that it selects, and several kernels compute zeros in another order.",
        _is_zero_sign,
    ),
    Deviation(
        "denormal",
        "XLA takes numbers below the smallest normal number for zeros, in operands and in results. "
        "ONNX Runtime computes with them.",
        _is_denormal,
    ),
)
