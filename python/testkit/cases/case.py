"""What an end-to-end case is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Case:
    """One use of one primitive: converted, run in ONNX Runtime, compared with JAX.

    Both `rtol` and `atol` at zero mean equal to the last bit, NaN included. Flags and integers are
    always compared so.
    """

    name: str
    fn: Callable[..., Any]
    inputs: tuple[Any, ...]
    rtol: float = 0.0
    atol: float = 0.0
    #: Keep 64-bit types.
    double: bool = False
    opset: int = 23
    #: Primitives that the case is about; each must be in its jaxpr.
    covers: tuple[str, ...] = ()
    #: The result in NumPy, where JAX's own depends on the CPU or is wrong in some version;
    #: `because` says how.
    reference: Callable[..., Any] | None = None
    because: str = ""

    def __post_init__(self) -> None:
        assert bool(self.reference) == bool(self.because), f"{self.name}: give a reason"

    def __repr__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class Limit:
    """A use that is refused, and a part of the message that says why."""

    name: str
    fn: Callable[..., Any]
    inputs: tuple[Any, ...]
    message: str
    double: bool = False
    opset: int = 23

    def __repr__(self) -> str:
        return self.name
