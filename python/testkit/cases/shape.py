"""Primitives that move elements and change shapes: equal to the last bit, in every type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import primitives

from .case import Case
from .data import INTS, NUMBERS, TYPES, array, is_wide, name_of

X = array(np.float32, 3, 4)
LINE = array(np.float32, 5)
CUBE = array(np.float32, 2, 3, 4)
EMPTY = np.zeros((3, 0), np.float32)
SCALAR = np.float32(2.5)


def case(primitive: str, use: str, fn: Callable[..., Any], *inputs: Any) -> Case:
    wide = any(is_wide(np.asarray(x).dtype) for x in inputs)
    return Case(f"shape.{primitive}.{use}", fn, inputs, double=wide, covers=(primitive,))


def in_every_type(
    primitive: str, fn: Callable[..., Any], *shapes: tuple[int, ...], types: tuple[Any, ...] = TYPES
) -> list[Case]:
    return [
        case(primitive, name_of(dtype), fn, *(array(dtype, *shape) for shape in shapes))
        for dtype in types
    ]


def padded(*config: tuple[int, int, int]) -> Callable[..., Any]:
    return lambda x, value: lax.pad(x, value, config)


def iota(dtype: Any, shape: tuple[int, ...], axis: int) -> Callable[..., Any]:
    return lambda: lax.broadcasted_iota(dtype, shape, axis)


BROADCASTS = [
    case(
        "broadcast_in_dim",
        "of a number along one axis, then along another one",
        lambda x: (x + 1, jnp.full(7, 12)[:, None] * jnp.full(7, 12)),
        SCALAR,
    ),
    *[
        case("broadcast_in_dim", use, lambda x, s=shape, a=axes: lax.broadcast_in_dim(x, s, a), x)
        for use, x, shape, axes in [
            ("of a scalar", SCALAR, (2, 3), ()),
            ("of a scalar to nothing", SCALAR, (2, 0), ()),
            ("new axes in front", X, (2, 3, 4), (1, 2)),
            ("new axes behind", X, (3, 4, 2), (0, 1)),
            ("new axis between", X, (3, 2, 4), (0, 2)),
            ("new axes everywhere", X, (2, 3, 5, 4, 6), (1, 3)),
            ("axes of one repeated", X[:, :1], (3, 4), (0, 1)),
            ("an axis of one kept and one repeated", X[:1, :1], (2, 1, 5), (1, 2)),
            ("an axis of one becomes empty", X[:, :1], (3, 0), (0, 1)),
            ("of an empty array", EMPTY, (2, 3, 0), (1, 2)),
            ("only ones", LINE, (1, 5, 1), (1,)),
        ]
    ],
]

CONCATENATES = [
    case("concatenate", "first axis", lambda x, y: lax.concatenate([x, y], 0), X, X[:1]),
    case("concatenate", "last axis", lambda x, y: lax.concatenate([x, y, x], 1), X, X[:, :2]),
    case("concatenate", "with an empty one", lambda x, y: lax.concatenate([x, y], 1), X, EMPTY),
    case("concatenate", "only empty ones", lambda x: lax.concatenate([x, x], 1), EMPTY),
    case("concatenate", "of one", lambda x: lax.concatenate_p.bind(x, dimension=0), X),
]


def empty_scalar(dtype: Any) -> jax.Array:
    """Returns what the derivative of a scan fills its results with at first."""
    return primitives.empty2_p.bind(dtype=np.dtype(dtype), memory_space=jax.memory.Space.Device)


# XLA fills these arrays with zeros on a CPU.
EMPTIES = [
    *in_every_type("empty", lambda x: lax.concatenate([x, lax.empty(x.shape, x.dtype)], 0), (2, 3)),
    *in_every_type("empty2", lambda x: lax.pad(x, empty_scalar(x.dtype), [(1, 2, 0)]), (3,)),
]

IOTAS = [
    case("iota", name_of(dtype), lambda x, d=dtype: lax.iota(d, 5) + x, array(dtype, 5))
    for dtype in NUMBERS
] + [
    case("iota", "along a middle axis", iota(np.int32, (2, 3, 4), 1)),
    case("iota", "along the last axis", iota(np.float32, (2, 3), 1)),
    case("iota", "along an empty axis", iota(np.int32, (2, 0), 1)),
    case("iota", "beside an empty axis", iota(np.int32, (2, 0), 0)),
    case("iota", "long", iota(np.int32, (1000,), 0)),
    case("iota", "long, of few bits", iota(np.int8, (300,), 0)),
    case("iota", "long, of half precision", iota(np.float16, (3000,), 0)),
    case("iota", "long, of bf16", iota(jnp.bfloat16, (700,), 0)),
]

PADS = [
    case("pad", use, padded(*config), x, SCALAR)
    for use, x, config in [
        ("around", X, ((1, 2, 0), (0, 3, 0))),
        ("nothing", X, ((0, 0, 0), (0, 0, 0))),
        ("between", LINE, ((0, 0, 2),)),
        ("between on every axis", CUBE, ((0, 0, 1), (0, 0, 2), (0, 0, 3))),
        ("around and between", X, ((1, 2, 1), (2, 0, 3))),
        ("negative", X, ((-1, 0, 0), (0, -2, 0))),
        ("negative on both ends", X, ((-1, -1, 0), (-2, -1, 0))),
        ("negative and positive on one axis", X, ((-1, 2, 0), (3, -2, 0))),
        ("negative and between", LINE, ((-1, -2, 2),)),
        ("negative, positive and between", X, ((-2, 3, 1), (1, -4, 2))),
        ("cuts into what was added between", LINE, ((-2, -2, 3),)),
        ("leaves nothing", LINE, ((-2, -3, 0),)),
        ("cuts more than there is", LINE, ((-7, 4, 0),)),
        ("cuts more than there is behind", LINE, ((4, -7, 0),)),
        ("of one element between", LINE[:1], ((0, 1, 4),)),
        ("of an empty array", EMPTY, ((0, 0, 0), (2, 1, 0))),
        ("of an empty array, between", EMPTY, ((1, 0, 2), (2, 1, 3))),
        ("of an empty array, negative", EMPTY, ((0, 0, 0), (3, -1, 0))),
        ("of a scalar", SCALAR, ()),
    ]
]

RESHAPES = [
    case("reshape", use, lambda x, s=shape: lax.reshape(x, s), x)
    for use, x, shape in [
        ("to a line", X, (12,)),
        ("to more axes", X, (2, 1, 3, 2)),
        ("of a scalar", SCALAR, (1, 1)),
        ("to a scalar", X[:1, :1], ()),
        ("of an empty array", EMPTY, (0, 5, 2)),
        ("of an empty array to a line", EMPTY, (0,)),
    ]
] + [
    case("reshape", "of other axes first", lambda x: lax.reshape(x, (2, 6), (1, 0)), X),
]

REVS = [
    case("rev", "one axis", lambda x: lax.rev(x, (1,)), CUBE),
    case("rev", "every axis", lambda x: lax.rev(x, (0, 1, 2)), CUBE),
    case("rev", "axes in any order", lambda x: lax.rev(x, (2, 0)), CUBE),
    case("rev", "empty", lambda x: lax.rev(x, (0, 1)), EMPTY),
    case("rev", "one element", lambda x: lax.rev(x, (0,)), LINE[:1]),
]

SLICES = [
    case("slice", use, lambda x, a=start, b=limit, s=strides: lax.slice(x, a, b, s), x)
    for use, x, start, limit, strides in [
        ("a part", X, (1, 0), (3, 2), None),
        ("with strides", CUBE, (0, 1, 0), (2, 3, 4), (1, 2, 3)),
        ("a stride longer than the axis", LINE, (1,), (5,), (9,)),
        ("a stride that does not fit", LINE, (0,), (4,), (3,)),
        ("nothing", X, (2, 1), (2, 3), None),
        ("nothing at the end", X, (3, 4), (3, 4), (2, 2)),
        ("of an empty array", EMPTY, (1, 0), (2, 0), None),
        ("one element", X, (2, 3), (3, 4), None),
    ]
]

SPLITS = [
    case("split", "in two", lambda x: lax.split(x, (1, 3), 1), X),
    case("split", "in many", lambda x: lax.split(x, (1, 1, 2, 1), 0), LINE),
    case("split", "with an empty part", lambda x: lax.split(x, (0, 4, 0), 1), X),
    case("split", "of an empty axis", lambda x: lax.split(x, (0, 0), 1), EMPTY),
    case("split", "in one", lambda x: lax.split(x, (3,), 0), X),
]

SQUEEZES = [
    case("squeeze", "first", lambda x: lax.squeeze(x, (0,)), X[None]),
    case("squeeze", "several", lambda x: lax.squeeze(x, (0, 2, -1)), X[None, :, None, :, None]),
    case("squeeze", "to a scalar", lambda x: lax.squeeze(x, (0, 1)), X[:1, :1]),
    case("squeeze", "of an empty array", lambda x: lax.squeeze(x, (1,)), EMPTY[:, None]),
]

STACKS = [
    case("stack", "in front", lambda x, y: jnp.stack([x, y]), X, -X),
    case("stack", "behind", lambda x, y: jnp.stack([x, y, x], axis=-1), X, -X),
    case("stack", "of scalars", lambda x, y: jnp.stack([x, y]), SCALAR, np.float32(1)),
    case("stack", "of empty arrays", lambda x: jnp.stack([x, x], axis=1), EMPTY),
    case("stack", "of one", lambda x: jnp.stack([x], axis=1), X),
    case("unstack", "first axis", lambda x: jnp.unstack(x), X),
    case("unstack", "last axis", lambda x: jnp.unstack(x, axis=-1), CUBE),
    case("unstack", "to scalars", lambda x: jnp.unstack(x), LINE),
    case("unstack", "of empty arrays", lambda x: jnp.unstack(x), EMPTY),
]

TILES = [
    case("tile", "every axis", lambda x: lax.tile(x, (2, 3)), X),
    case("tile", "once", lambda x: lax.tile(x, (1, 2, 1)), CUBE),
    case("tile", "no times", lambda x: lax.tile(x, (0, 2)), X),
    case("tile", "of an empty array", lambda x: lax.tile(x, (2, 2)), EMPTY),
]

TRANSPOSES = [
    case("transpose", "of a matrix", lambda x: lax.transpose(x, (1, 0)), X),
    case("transpose", "around", lambda x: lax.transpose(x, (2, 0, 1)), CUBE),
    case("transpose", "of an empty array", lambda x: lax.transpose(x, (1, 0)), EMPTY),
    case("transpose", "of axes of one", lambda x: lax.transpose(x, (2, 1, 0)), X[:, None]),
]

COPIES = [
    case("copy", "of an input", lambda x: jnp.copy(x), X),
    case("copy", "twice", lambda x: (jnp.copy(x), jnp.copy(x) + 1), X),
    case("copy", "of an empty array", lambda x: lax.copy_p.bind(x), EMPTY),
    case("copy", "of a scalar", lambda x: lax.copy_p.bind(x), SCALAR),
]

IN_EVERY_TYPE = [
    *in_every_type(
        "broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (0, 2)), (2, 4)
    ),
    *in_every_type("concatenate", lambda x, y: lax.concatenate([x, y], 1), (2, 3), (2, 2)),
    *in_every_type("copy", lambda x: jnp.copy(x), (2, 3)),
    *in_every_type("pad", padded((1, -1, 1), (0, 2, 0)), (3, 4), ()),
    *in_every_type("reshape", lambda x: lax.reshape(x, (4, 3)), (2, 6)),
    *in_every_type("rev", lambda x: lax.rev(x, (0, 1)), (3, 4)),
    *in_every_type("slice", lambda x: lax.slice(x, (1, 0), (3, 4), (1, 2)), (3, 4)),
    *in_every_type("split", lambda x: lax.split(x, (1, 3), 1), (2, 4)),
    *in_every_type("squeeze", lambda x: lax.squeeze(x, (1,)), (3, 1, 2)),
    *in_every_type("stack", lambda x, y: jnp.stack([x, y], axis=1), (2, 3), (2, 3)),
    *in_every_type("tile", lambda x: lax.tile(x, (2, 2)), (2, 3)),
    *in_every_type("transpose", lambda x: lax.transpose(x, (1, 0)), (3, 4)),
    *in_every_type("unstack", lambda x: jnp.unstack(x, axis=1), (2, 3)),
]

#: Moving elements must not lose the low bits of 64.
WIDE = [
    case("transpose", f"all bits of {name_of(dtype)}", lambda x: lax.transpose(x, (1, 0)), bits)
    for dtype in INTS
    for bits in [np.array([[1, -1], [-2, 2**62 + 1]], np.int64).astype(dtype)]
]

CASES = [
    *BROADCASTS,
    *CONCATENATES,
    *EMPTIES,
    *IOTAS,
    *PADS,
    *RESHAPES,
    *REVS,
    *SLICES,
    *SPLITS,
    *SQUEEZES,
    *STACKS,
    *TILES,
    *TRANSPOSES,
    *COPIES,
    *IN_EVERY_TYPE,
    *WIDE,
]
