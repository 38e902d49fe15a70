"""Every operation that a program may have, and how likely each one is."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import ml_dtypes
import numpy as np

from . import functions, idioms, integers, layouts, operations, others, recurrences, sizes
from .operations import Operation

FAMILIES: Final[dict[str, list[Operation]]] = {
    family.__name__: family()
    for family in (
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
        integers.wrapping,
        integers.integers,
        integers.flags,
        integers.narrow,
        integers.mixed,
        sizes.sizes,
        layouts.layouts,
        layouts.scaled,
        others.complexes,
        others.masked,
        others.control,
        others.rare,
        functions.arrays,
        functions.slices,
        functions.signals,
        functions.scipy,
        functions.matrices,
        functions.transforms,
        functions.more_complexes,
        recurrences.recurrences,
    )
}

#: One family after the other; a step names its operation by position.
OPERATIONS: Final[list[Operation]] = [one for family in FAMILIES.values() for one in family]

_INTEGERS: Final = (np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32)
_FLOATS: Final = (np.float32,) * 6
_HALVES: Final = (np.float16, ml_dtypes.bfloat16)
_MIXED: Final = (*_FLOATS, *_INTEGERS, np.int32, np.bool_, np.bool_, *_HALVES)


@dataclasses.dataclass(frozen=True)
class Theme:
    """The theme of a program: the families that it draws from, and the types of its leaves."""

    families: tuple[str, ...]
    narrow: tuple[Any, ...] = _MIXED
    wide: tuple[Any, ...] = (*(np.float64,) * 4, np.float32, *(np.int64,) * 3, np.int32, np.uint64,
                             np.bool_, np.uint8)  # fmt: skip
    #: How likely its sizes are symbolic, and its numbers special.
    symbolic: float = 0.35
    special: float = 0.3
    #: Special floats beyond those of every program.
    odd: tuple[float, ...] = ()

    @property
    def weights(self) -> list[float]:
        """The families are drawn alike, and then their operations."""
        return [
            self.families.count(name) / len(self.families) / len(family)
            for name, family in FAMILIES.items()
            for _ in family
        ]


THEMES: Final = {
    "all": Theme(tuple(FAMILIES)),
    "passes": Theme(("smooth", "arithmetic", "jumping", "moving", "activations", "bounds", "norms",
                     "sequences", "products", "images", "indices")),
    "integers": Theme(("wrapping", "wrapping", "integers", "flags", "bounds", "jumping", "control",
                       "mixed", "moving"),
                      _INTEGERS, (np.int64, np.uint64, np.int32), 0.15, 0.7),
    "types": Theme(("flags", "mixed", "narrow", "narrow", "jumping", "arithmetic"),
                   (*_MIXED, np.bool_, np.bool_), symbolic=0.1, special=0.5,
                   odd=(200.0, 300.0, 448.0, 3e4, 6e4)),
    "sizes": Theme(("sizes", "sizes", "sequences", "products", "images", "indices", "moving",
                    "masked"), (*_FLOATS, np.int32), symbolic=1.0),
    "layouts": Theme(("layouts", "layouts", "scaled", "products", "moving"),
                     (*_FLOATS, *_HALVES, np.int32), symbolic=0.6),
    "complex": Theme(("complexes", "complexes", "more_complexes", "arithmetic"), _FLOATS,
                     (np.float64,), 0.1, 0.8,
                     odd=(1e20, -1e20, 100.0, -100.0, 1e-3, 1e30)),
    "masks": Theme(("masked", "masked", "norms", "products", "activations"), _FLOATS,
                   (np.float64,), 0.3),
    "control": Theme(("control", "rare", "mixed", "indices", "integers"), _MIXED),
    "recurrences": Theme(("recurrences", "recurrences", "smooth", "moving", "arithmetic"),
                         (*_FLOATS, np.int32), (np.float64, np.float32), symbolic=0.1),
    "functions": Theme(("arrays", "slices", "signals", "scipy", "matrices", "transforms"),
                       (*_FLOATS, *_MIXED)),
}  # fmt: skip
#: How many times as likely as the others a theme is.
LIKELY: Final = {"all": 3, "passes": 3, "functions": 3}
