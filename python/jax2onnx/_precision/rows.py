"""Values of a graph in several iterations: one row for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._comparing.arrays import Array
from .._comparing.graphs import Graph
from .._comparing.judging import is_floating
from .._comparing.walk import Place
from .errors import relative_error


@dataclass(frozen=True)
class Rows:
    """Values of a graph.

    Attributes:
        graph: The graph.
        order: The position of the graph in the order of execution.
        iterations: For each row, the iteration of each loop around it, outermost first.
        values: The values, which have one more axis at the front: the rows.
        fixed: Values that are the same in all rows.
    """

    graph: Graph
    order: tuple[int, ...]
    iterations: Sequence[tuple[int, ...]]
    values: Mapping[str, Array]
    fixed: Mapping[str, Array]
    _weights: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_place(cls, place: Place, values: Mapping[str, Array]) -> "Rows":
        """Return the values of one iteration."""
        rows = {name: np.asarray(array)[None] for name, array in values.items()}
        return cls(place.graph, place.order, [place.iterations], rows, {})

    def first(self, name: str) -> Any:
        """Return the contents of a value in the first row; None if it is not known."""
        if name in self.values:
            return self.values[name][0]
        return self.given(name)

    def given(self, name: str) -> Any:
        """Return the contents of a value that is the same in all rows; None if it is not known."""
        if not name or name in self.values:
            return None
        if name in self.fixed:
            return self.fixed[name]
        if name not in self._weights:
            tensor = self.graph.initializer(name)
            self._weights[name] = None if tensor is None else self.graph.model.array(tensor)
        return self._weights[name]

    def any(self, name: str) -> Any:
        """Return all known contents of a value, with the axis of the rows if it has one."""
        return self.values[name] if name in self.values else self.given(name)

    def aligned(self, name: str, rank: int) -> Any:
        """Return a value that broadcasts to results with `rank` axes and an axis for the rows."""
        if name not in self.values:
            return self.given(name)
        array = self.values[name]
        missing = rank + 1 - array.ndim
        return array.reshape(array.shape[:1] + (1,) * missing + array.shape[1:])


def worst_row(expected: Array, got: Array) -> tuple[float, int]:
    """Return the largest relative error of a row, and the row."""
    if expected.shape != got.shape:
        return float("inf"), 0
    if len(expected) == 1:
        return relative_error(expected[0], got[0]), 0
    if not expected.size:
        return 0.0, 0
    one, other = (array.reshape(len(array), -1) for array in (expected, got))
    errors = np.zeros(len(one))
    rest = np.ones(len(one), np.bool_)
    if is_floating(expected.dtype):
        with np.errstate(all="ignore"):
            wide = one.astype(np.float64)
            distance = np.abs(other.astype(np.float64) - wide)
            largest, size = distance.max(1), np.abs(wide).max(1)
            rest = ~np.isfinite(largest)
            ratio = largest / np.where(size == 0, 1.0, size)
            noise, signal = (np.einsum("ij,ij->i", each, each) for each in (distance, wide))
            spread = np.sqrt(noise / np.where(signal == 0, 1.0, signal))
            errors = np.where(size == 0, ratio, np.maximum(ratio, spread))
    for row in np.flatnonzero(rest):
        errors[row] = relative_error(one[row], other[row])
        if np.isinf(errors[row]):
            break
    worst = int(errors.argmax())
    return float(errors[worst]), worst
