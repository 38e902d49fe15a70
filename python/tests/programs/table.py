"""Every operation that a program may have."""

from __future__ import annotations

from typing import Final

from . import idioms, operations
from .operations import Operation

_FAMILIES: Final = (
    operations.smooth,
    operations.arithmetic,
    operations.jumping,
    operations.moving,
    idioms.activations,
    idioms.bounds,
    idioms.norms,
    idioms.sequences,
    idioms.products,
    idioms.images,
    idioms.indices,
)

#: One family after the other; a step names its operation by position.
OPERATIONS: Final[list[Operation]] = []
#: How likely each is: the families are drawn alike, and then their operations.
WEIGHTS: Final[list[float]] = []
for _family in _FAMILIES:
    _members = _family()
    OPERATIONS.extend(_members)
    WEIGHTS.extend([1 / len(_FAMILIES) / len(_members)] * len(_members))
