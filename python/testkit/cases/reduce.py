"""Reductions over axes, and where an extreme is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from .case import Case
from .data import FLOATS, INF, INTS, NAN, TYPES, array, is_wide, name_of, small

X = array(np.float32, 3, 4)
CUBE = array(np.float32, 2, 3, 4)
#: Each row has its NaN elsewhere; the last has none.
WITH_NAN = np.array(
    [
        [NAN, 1.0, 2.0, -3.0],
        [1.0, NAN, -INF, NAN],
        [INF, 5.0, 5.0, NAN],
        [NAN, NAN, NAN, NAN],
        [-NAN, -INF, INF, 0.0],
        [-1.0, 7.0, 7.0, -1.0],
    ],
    np.float32,
)
WITH_INF = np.array([[-INF, -INF, -INF], [-INF, 1.0, INF], [INF, INF, INF]], np.float32)
TIES = np.array([[2, 5, 5, 2, 5], [1, 1, 1, 1, 1], [3, 0, 3, 0, 0]])

#: The relative error of a sum of a few terms, in units of the last place.
ULP = {np.dtype(t): float(ml_dtypes.finfo(t).eps) for t in FLOATS}


def case(primitive: str, use: str, fn: Callable[..., Any], *inputs: Any, rtol: float = 0.0) -> Case:
    wide = any(is_wide(np.asarray(x).dtype) for x in inputs)
    name = f"reduce.{primitive}.{use}"
    return Case(name, fn, inputs, rtol=rtol, double=wide, covers=(primitive,))


def over(reduction: Callable[..., Any], axes: tuple[int, ...]) -> Callable[..., Any]:
    return lambda x: reduction(x, axes=axes)


def reduction(primitive: Any) -> Callable[..., Any]:
    """The primitive itself: the functions around it drop a reduction over no axes."""
    return lambda x, axes: primitive.bind(x, axes=axes)


REDUCTIONS = {
    "reduce_and": reduction(lax.reduce_and_p),
    "reduce_max": reduction(lax.reduce_max_p),
    "reduce_min": reduction(lax.reduce_min_p),
    "reduce_or": reduction(lax.reduce_or_p),
    "reduce_prod": reduction(lax.reduce_prod_p),
    "reduce_sum": reduction(lax.reduce_sum_p),
    "reduce_xor": reduction(lax.reduce_xor_p),
}
BITWISE = ("reduce_and", "reduce_or", "reduce_xor")
EXTREMES = ("reduce_max", "reduce_min")
ARGS = {"argmax": lax.argmax, "argmin": lax.argmin}

AXES = [
    case(
        name,
        f"axes {axes}",
        over(fn, axes),
        small(np.int32 if name in BITWISE else np.float32, 2, 3, 4),
    )
    for name, fn in REDUCTIONS.items()
    for axes in [(), (0,), (1,), (2,), (0, 2), (2, 0), (0, 1, 2)]
]

EMPTY = [
    case(name, f"of {use} {name_of(dtype)}", over(fn, axes), np.zeros(shape, dtype))
    for name, fn in REDUCTIONS.items()
    for use, shape, axes in [
        ("an empty axis of", (2, 0), (1,)),
        ("a whole empty array of", (0, 3), (0, 1)),
        ("another axis than the empty one of", (0, 3), (1,)),
    ]
    for dtype in (
        (np.int32, np.bool_, np.uint64)
        if name in BITWISE
        else (np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8, np.int64, np.uint64)
    )
]


def stored(fn: Callable[..., Any], shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """A reduction of a constant, which the passes may fold."""
    return lambda x: over(fn, axes)(jnp.asarray(np.ones(shape, x.dtype))) | x


STORED = [
    case(name, f"of stored {name_of(dtype)}{shape}", stored(fn, shape, axes), np.zeros((), dtype))
    for name, fn in REDUCTIONS.items()
    if name in BITWISE
    for dtype in (np.bool_, np.int32)
    for shape, axes in [((0,), (0,)), ((0, 2), (0,)), ((2, 0), (1,)), ((3, 2), (0,))]
]

EVERY_TYPE = [
    case(name, f"{name_of(dtype)} over {axes}", over(REDUCTIONS[name], axes), array(dtype, 3, 4))
    for name in EXTREMES
    for dtype in TYPES
    for axes in [(0,), (1,), (0, 1)]
] + [
    case(name, f"{name_of(dtype)} over {axes}", over(REDUCTIONS[name], axes), array(dtype, 3, 5))
    for name in BITWISE
    for dtype in (*INTS, np.bool_)
    for axes in [(0,), (1,), (0, 1)]
]

SUMS = (
    [
        case(
            name, f"{name_of(dtype)}, which wraps", over(REDUCTIONS[name], (1,)), array(dtype, 3, 9)
        )
        for name in ("reduce_sum", "reduce_prod")
        for dtype in INTS
    ]
    + [
        case(
            name,
            f"{name_of(dtype)}",
            over(REDUCTIONS[name], (0, 1)),
            (np.linspace(0.5, 1.75, 30).reshape(5, 6)).astype(dtype),
            rtol=4 * ULP[np.dtype(dtype)],
        )
        for name in ("reduce_sum", "reduce_prod")
        for dtype in FLOATS
    ]
    + [
        case(
            "reduce_sum",
            "many of bf16",
            over(REDUCTIONS["reduce_sum"], (0,)),
            np.ones(1000, ml_dtypes.bfloat16),
            rtol=0.0,
        ),
        case(
            "reduce_sum",
            "many of f16",
            over(REDUCTIONS["reduce_sum"], (0,)),
            np.ones(3000, np.float16),
            rtol=0.0,
        ),
        case(
            "reduce_sum",
            "overflow of f16",
            over(REDUCTIONS["reduce_sum"], (0,)),
            np.full(3, 6e4, np.float16),
        ),
        case("reduce_sum", "flags counted", lambda x: jnp.sum(x, axis=0), small(np.bool_, 5, 3)),
        case("reduce_sum", "infinities", over(REDUCTIONS["reduce_sum"], (1,)), WITH_INF),
        case("reduce_sum", "NaN", over(REDUCTIONS["reduce_sum"], (1,)), WITH_NAN),
        case("reduce_prod", "NaN", over(REDUCTIONS["reduce_prod"], (1,)), WITH_NAN),
        case(
            "reduce_prod",
            "negative zero",
            over(REDUCTIONS["reduce_prod"], (0,)),
            np.array([-0.0, 2.0], np.float32),
        ),
    ]
)

NANS = (
    [
        case(
            name,
            f"NaN in {name_of(dtype)} over {axes}",
            over(REDUCTIONS[name], axes),
            WITH_NAN.astype(dtype),
        )
        for name in EXTREMES
        for dtype in FLOATS
        for axes in [(0,), (1,), (0, 1)]
    ]
    + [case(name, "infinities", over(REDUCTIONS[name], (1,)), WITH_INF) for name in EXTREMES]
    + [case(name, "a scalar", over(REDUCTIONS[name], ()), np.float32(NAN)) for name in EXTREMES]
)

ARGUMENTS = (
    [
        case(name, use, lambda x, f=fn, a=axis, d=index: f(x, a, d), x)
        for name, fn in ARGS.items()
        for use, x, axis, index in [
            ("first axis", X, 0, np.int32),
            ("last axis", CUBE, 2, np.int32),
            ("middle axis", CUBE, 1, np.int32),
            ("one element", X[:, :1], 1, np.int32),
            ("beside an empty axis", np.zeros((0, 3), np.float32), 1, np.int32),
            ("index of 8 bits", X, 1, np.int8),
            ("index of 8 bits without sign", X, 1, np.uint8),
            ("index of 16 bits", X, 1, np.int16),
            ("index of 32 bits without sign", X, 1, np.uint32),
            ("infinities", WITH_INF, 1, np.int32),
            ("signed zeros", np.array([[0.0, -0.0], [-0.0, 0.0]], np.float32), 1, np.int32),
        ]
    ]
    + [
        case(
            name,
            f"index of {name_of(index)}",
            lambda x, f=fn, d=index: f(x, 1, d),
            X.astype(np.float64),
        )
        for name, fn in ARGS.items()
        for index in (np.int64, np.uint64)
    ]
    + [
        case(
            name,
            f"{name_of(dtype)} over {axis}",
            lambda x, f=fn, a=axis: f(x, a, np.int32),
            array(dtype, 4, 5),
        )
        for name, fn in ARGS.items()
        for dtype in TYPES
        for axis in (0, 1)
    ]
    + [
        case(
            name, f"ties of {name_of(dtype)}", lambda x, f=fn: f(x, 1, np.int32), TIES.astype(dtype)
        )
        for name, fn in ARGS.items()
        for dtype in TYPES
    ]
    + [
        case(
            name,
            f"NaN in {name_of(dtype)} over {axis}",
            lambda x, f=fn, a=axis: f(x, a, np.int32),
            WITH_NAN.astype(dtype),
        )
        for name, fn in ARGS.items()
        for dtype in FLOATS
        for axis in (0, 1)
    ]
    + [
        case(name, "bits above 53", lambda x, f=fn: f(x, 0, np.int32), x)
        for name, fn in ARGS.items()
        for x in [np.array([2**60, 2**60 + 1, 2**60 - 1], np.int64)]
    ]
    + [
        case(name, "bits above 31", lambda x, f=fn: f(x, 0, np.int32), x)
        for name, fn in ARGS.items()
        for x in [np.array([2**31, 2**24, 2**32 - 1, 2**24 + 1], np.uint32)]
    ]
)

WIDE = [
    case(name, f"bits above 53 of {name_of(x.dtype)}", over(REDUCTIONS[name], (0,)), x)
    for name in EXTREMES
    for x in [
        np.array([2**60, 2**60 + 1, 2**60 - 1], np.int64),
        np.array([2**63, 2**63 + 1, 2**63 - 1], np.uint64),
        np.array([2**24, 2**24 + 1, 2**24 - 1], np.int32),
        np.array([2**31, 2**24 + 1, 2**32 - 1], np.uint32),
    ]
]

CASES = [*AXES, *EMPTY, *STORED, *EVERY_TYPE, *SUMS, *NANS, *ARGUMENTS, *WIDE]
