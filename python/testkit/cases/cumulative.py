"""Running sums, products and extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from .case import Case
from .data import FLOATS, INF, INTS, NAN, NUMBERS, array, is_wide, name_of, small

RUNNING = {
    "cumlogsumexp": lax.cumlogsumexp,
    "cummax": lax.cummax,
    "cummin": lax.cummin,
    "cumprod": lax.cumprod,
    "cumsum": lax.cumsum,
}
EXTREMES = ("cummax", "cummin")
SUMS = ("cumsum", "cumprod")

#: The relative error of a few roundings in each type.
ROUNDED = {np.dtype(t): 8 * float(ml_dtypes.finfo(t).eps) for t in FLOATS}

SPECIAL = np.array(
    [
        [1.0, NAN, 2.0, -INF, 0.0],
        [-INF, -INF, 3.0, INF, INF],
        [INF, 1.0, -INF, 2.0, NAN],
        [-INF, -INF, -INF, -INF, -INF],
    ],
    np.float32,
)


def case(
    primitive: str,
    use: str,
    x: np.ndarray,
    axis: int = 0,
    reverse: bool = False,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> Case:
    running: Callable[..., Any] = RUNNING[primitive]
    return Case(
        f"cumulative.{primitive}.{use}",
        lambda x: running(x, axis=axis, reverse=reverse),
        (x,),
        rtol=rtol,
        atol=atol,
        double=is_wide(x.dtype),
        covers=(primitive,),
    )


def tolerance(primitive: str, dtype: Any) -> dict[str, float]:
    """Extremes only move numbers; the others round."""
    dtype = np.dtype(dtype)
    if primitive in EXTREMES or dtype not in ROUNDED:
        return {}
    return {"rtol": ROUNDED[dtype], "atol": ROUNDED[dtype]}


#: JAX begins a sum of several elements with 0, so that none is -0.
ZEROS = [
    Case(f"cumulative.{name}.signs of zeros {size}", lambda x, fn=fn: 1 / fn(x), (x,))
    for name, fn in (("cumsum", lax.cumsum), ("sum", jnp.sum), ("mean", jnp.mean))
    for size in (1, 3)
    for x in [np.full(size, -0.0, np.float32)]
]

SIZES = [
    case(
        name,
        f"{size} elements{way}",
        small(np.float32, size),
        reverse=reverse,
        **tolerance(name, np.float32),
    )
    for name in RUNNING
    for size in (0, 1, 2, 3, 7, 8, 33)
    for reverse, way in [(False, ""), (True, " backwards")]
]

AXES = [
    case(
        name,
        f"axis {axis}{way}",
        array(np.float32, 2, 3, 5),
        axis,
        reverse,
        **tolerance(name, np.float32),
    )
    for name in RUNNING
    for axis in (0, 1, 2)
    for reverse, way in [(False, ""), (True, " backwards")]
] + [case(name, "beside an empty axis", np.zeros((3, 0), np.float32), 0) for name in RUNNING]

TYPES = (
    [
        case(name, f"{name_of(dtype)}{way}", array(dtype, 3, 5), 1, reverse)
        for name in EXTREMES
        for dtype in NUMBERS
        for reverse, way in [(False, ""), (True, " backwards")]
    ]
    + [
        case(name, f"{name_of(dtype)}, which wraps", array(dtype, 3, 9), 1)
        for name in SUMS
        for dtype in INTS
    ]
    + [
        case(
            name,
            f"{name_of(dtype)}",
            small(dtype, 3, 7) / np.array(2, dtype),
            1,
            **tolerance(name, dtype),
        )
        for name in ("cumsum", "cumprod", "cumlogsumexp")
        for dtype in FLOATS
    ]
)

#: The product of the last two is too large.
OVERFLOWS = np.array([0.29, -2.9e19, 1.5e19, 0.5, 1.0], np.float32)

SPECIAL_VALUES = [
    case(name, f"NaN and infinities{way}", SPECIAL, 1, reverse, **tolerance(name, np.float32))
    for name in RUNNING
    for reverse, way in [(False, ""), (True, " backwards")]
] + [
    *(
        case("cumprod", f"another order would overflow{way}", OVERFLOWS, reverse=reverse, rtol=1e-6)
        for reverse, way in [(False, ""), (True, " backwards")]
    ),
    case("cumlogsumexp", "large", np.array([1000, 1001, -1000, 999], np.float32), rtol=1e-6),
    case("cumlogsumexp", "negative zero", np.array([-0.0, -np.inf, 1], np.float32), rtol=1e-6),
    case("cumlogsumexp", "far apart", np.array([0, -200, 200, 0], np.float32), rtol=1e-6),
    case("cumsum", "bits above 53", np.array([2**60, 1, 1, -(2**60)], np.int64)),
    case("cummax", "bits above 31", np.array([2**31, 2**24, 2**32 - 1, 5, 2**33], np.int64)),
    case("cummin", "bits above 31", np.array([2**33, 2**31, 2**32 - 1, 5, -(2**33)], np.int64)),
]

CASES = [*ZEROS, *SIZES, *AXES, *TYPES, *SPECIAL_VALUES]
