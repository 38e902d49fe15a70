"""Reductions over windows, and with an operation of the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from .case import Case
from .conv import array, integers

IMAGE = array((2, 9, 8, 3))
PLANES = array((2, 3, 8, 8))
LINE = array((11,))
INF = np.inf
NAN = np.nan


def window(
    operation: Any, initial: Any, size: Any, strides: Any, padding: Any = "VALID", **options: Any
) -> Callable[..., Any]:
    """`lax.reduce_window` with everything but the array."""
    return lambda x: lax.reduce_window(
        x, np.asarray(initial, x.dtype)[()], operation, size, strides, padding, **options
    )


def total(*args: Any, **options: Any) -> Callable[..., Any]:
    return window(lax.add, 0, *args, **options)


def largest(*args: Any, **options: Any) -> Callable[..., Any]:
    return window(lax.max, -INF, *args, **options)


def smallest(*args: Any, **options: Any) -> Callable[..., Any]:
    return window(lax.min, INF, *args, **options)


def largest_int(*args: Any, **options: Any) -> Callable[..., Any]:
    def fn(x: Any) -> Any:
        return window(lax.max, np.iinfo(x.dtype).min, *args, **options)(x)

    return fn


SUM = ("reduce_window_sum",)
MAX = ("reduce_window_max",)
MIN = ("reduce_window_min",)
NEAR = {"rtol": 1e-5, "atol": 1e-6}
SQUARE = ((1, 2, 2, 1), (1, 2, 2, 1))
NINE = ((1, 3, 3, 1), (1, 2, 2, 1))
ALL_AROUND = ((0, 0), (1, 1), (1, 1), (0, 0))


def with_values(x: np.ndarray, *values: float) -> np.ndarray:
    """Some elements of `x` replaced, far apart."""
    flat = x.copy().reshape(-1)
    for i, value in enumerate(values):
        flat[(7 + 31 * i) % flat.size] = value
    return flat.reshape(x.shape)


ODD = with_values(IMAGE, NAN, INF, -INF, NAN, -0.0)
ONES = np.ones((1, 3, 7, 7), np.float32)
BYTES = integers((2, 9, 8, 3), 0, -128, 128, np.int8)
UBYTES = integers((2, 9, 8, 3), 0, 0, 256, np.uint8)
INTS = integers((2, 9, 8, 3), 0, -(2**31), 2**31 - 1, np.int32)
FLAGS = integers((2, 9, 8, 3), 0, 0, 2, np.bool_)

SUMS = [
    Case("window.sum.nhwc", total(*SQUARE), (IMAGE,), **NEAR, covers=SUM),
    Case("window.sum.same", total(*NINE, "SAME"), (IMAGE,), **NEAR, covers=SUM),
    Case("window.sum.padded", total(*NINE, ALL_AROUND), (IMAGE,), **NEAR, covers=SUM),
    Case(
        "window.sum.padded_at_ends",
        total((1, 2, 2, 1), (1, 1, 1, 1), ((0, 0), (0, 1), (0, 1), (0, 0))),
        (IMAGE,),
        **NEAR,
    ),
    Case(
        "window.sum.padded_along_one_axis",
        total((1, 4, 1, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (0, 0), (0, 0))),
        (IMAGE,),
        **NEAR,
    ),
    Case("window.sum.nchw", total((1, 1, 3, 3), (1, 1, 1, 1), "SAME"), (PLANES,), **NEAR),
    Case("window.sum.counts_are_exact", total((1, 1, 3, 3), (1, 1, 1, 1), "SAME"), (ONES,)),
    Case("window.sum.line", total((3,), (1,), "SAME"), (LINE,), **NEAR),
    Case("window.sum.every_axis", total((2, 3, 2, 2), (1, 2, 1, 1), "SAME"), (IMAGE,), **NEAR),
    Case("window.sum.whole", total((1, 9, 8, 1), (1, 1, 1, 1)), (IMAGE,), **NEAR),
    Case("window.sum.not_finite", total(*NINE, "SAME"), (ODD,), **NEAR),
    Case("window.sum.dilated", total(*SQUARE, window_dilation=(1, 2, 3, 1)), (IMAGE,), **NEAR),
    Case(
        "window.sum.base_dilated",
        total(*NINE, ALL_AROUND, base_dilation=(1, 2, 3, 1)),
        (IMAGE,),
        **NEAR,
    ),
    Case(
        "window.sum.negative_padding",
        total(*NINE, ((0, 0), (-1, 2), (3, -2), (0, 0))),
        (IMAGE,),
        **NEAR,
    ),
    Case("window.sum.too_large", total((1, 20, 1, 1), (1, 1, 1, 1)), (IMAGE,)),
    Case("window.sum.empty", total(*NINE, "SAME"), (array((0, 9, 8, 3)),)),
    Case(
        "window.sum.many_channels",
        total((1, 3, 3, 1), (1, 1, 1, 1)),
        (array((1, 5, 5, 700)),),
        **NEAR,
    ),
    Case(
        "window.sum.five_axes",
        total((1, 1, 2, 2, 3), (1, 1, 1, 2, 1)),
        (array((2, 2, 4, 4, 5)),),
        **NEAR,
    ),
    Case(
        "window.sum.f64", total(*NINE, "SAME"), (IMAGE.astype(np.float64),), rtol=1e-13, double=True
    ),
    Case("window.sum.f16", total(*NINE, "SAME"), (IMAGE.astype(np.float16),), rtol=2e-3, atol=2e-3),
    Case(
        "window.sum.bf16",
        total(*NINE, "SAME"),
        (IMAGE.astype(ml_dtypes.bfloat16),),
        rtol=2e-2,
        atol=2e-2,
    ),
    Case("window.sum.i32_wraps", total(*NINE, "SAME"), (INTS,)),
    Case("window.sum.u8_wraps", total(*NINE, "SAME"), (UBYTES,)),
    Case("window.sum.i64", total(*NINE, "SAME"), (INTS.astype(np.int64) << 31,), double=True),
    Case("window.sum.not_from_zero", window(lax.add, 2, *NINE, "SAME"), (IMAGE,), **NEAR),
]

EXTREMES = [
    Case("window.max.nhwc", largest(*SQUARE), (IMAGE,), covers=MAX),
    Case("window.max.same", largest(*NINE, "SAME"), (IMAGE,), covers=MAX),
    Case("window.max.padded", largest(*NINE, ALL_AROUND), (IMAGE - 9,), covers=MAX),
    Case("window.max.nchw", largest((1, 1, 3, 3), (1, 1, 1, 1), "SAME"), (PLANES,)),
    Case("window.max.line", largest((3,), (2,), "SAME"), (LINE,)),
    Case("window.max.space", largest((1, 2, 2, 3), (1, 1, 2, 1), "SAME"), (IMAGE,)),
    Case("window.max.every_axis", largest((2, 3, 2, 2), (1, 2, 1, 1), "SAME"), (IMAGE,)),
    Case("window.max.whole", largest((1, 9, 8, 1), (1, 1, 1, 1)), (ODD,)),
    Case("window.max.not_finite", largest(*NINE, "SAME"), (ODD,)),
    Case("window.max.nan_line", largest((2,), (1,)), (np.float32([1, NAN, 3, 4, NAN, 2]),)),
    Case("window.max.dilated", largest(*SQUARE, window_dilation=(1, 2, 3, 1)), (ODD,)),
    Case(
        "window.max.dilated_padded",
        largest(*SQUARE, ALL_AROUND, window_dilation=(1, 2, 3, 1)),
        (ODD,),
    ),
    Case("window.max.base_dilated", largest(*NINE, ALL_AROUND, base_dilation=(1, 2, 3, 1)), (ODD,)),
    Case("window.max.much_padding", largest((3,), (2,), ((4, 5),)), (LINE,)),
    Case("window.max.strided_only", largest((1, 1, 1, 1), (1, 2, 3, 1)), (IMAGE,)),
    Case("window.max.f64", largest(*NINE, "SAME"), (ODD.astype(np.float64),), double=True),
    Case("window.max.f16", largest(*NINE, "SAME"), (ODD.astype(np.float16),)),
    Case("window.max.bf16", largest(*NINE, "SAME"), (ODD.astype(ml_dtypes.bfloat16),)),
    Case("window.max.i8", largest_int(*NINE, "SAME"), (BYTES,), covers=MAX),
    Case("window.max.u8", largest_int(*NINE, "SAME"), (UBYTES,), covers=MAX),
    Case("window.max.i32", largest_int(*NINE, "SAME"), (INTS,), covers=MAX),
    Case("window.max.u32", largest_int(*NINE, "SAME"), (INTS.astype(np.uint32),)),
    Case("window.max.i64", largest_int(*NINE, "SAME"), (INTS.astype(np.int64) << 31,), double=True),
    Case("window.min.nhwc", smallest(*NINE, "SAME"), (ODD,), covers=MIN),
    Case("window.min.f64", smallest(*NINE, "SAME"), (ODD.astype(np.float64),), double=True),
    Case("window.min.i32", window(lax.min, 2**31 - 1, *NINE, "SAME"), (INTS,), covers=MIN),
]


def pair_of_largest(x: Any, y: Any) -> Any:
    """The largest of each window and what stands beside it."""

    def operation(a: Any, b: Any) -> Any:
        keep = a[0] >= b[0]
        return jnp.where(keep, a[0], b[0]), jnp.where(keep, a[1], b[1])

    initial = (jnp.float32(-INF), jnp.int32(-1))
    return lax.reduce_window((x, y), initial, operation, *NINE, "SAME")


def argmax_pair(x: Any, y: Any) -> Any:
    def operation(a: Any, b: Any) -> Any:
        keep = a[0] >= b[0]
        return lax.select(keep, a[0], b[0]), lax.select(keep, a[1], b[1])

    return lax.reduce((x, y), (jnp.float32(-INF), jnp.int32(-1)), operation, (1, 2))


def affine(x: Any, y: Any) -> Any:
    """Composition of `t ↦ x·t + y`, which is associative and depends on the order."""

    def operation(a: Any, b: Any) -> Any:
        return a[0] * b[0], b[0] * a[1] + b[1]

    return lax.reduce((x, y), (jnp.float32(1), jnp.float32(0)), operation, (1,))


def logaddexp(x: Any) -> Any:
    return lax.reduce(x, jnp.float32(-INF), jnp.logaddexp, (1, 2))


INDEX = np.arange(IMAGE.size, dtype=np.int32).reshape(IMAGE.shape)

BODIES = [
    Case(
        "window.product",
        window(lax.mul, 1, *NINE, "SAME"),
        (IMAGE,),
        **NEAR,
        covers=("reduce_window",),
    ),
    Case("window.product_i32", window(lax.mul, 1, *NINE, "SAME"), (INTS,)),
    Case("window.or_bool", window(lax.bitwise_or, False, *NINE, "SAME"), (FLAGS,)),
    Case("window.and_bool", window(lax.bitwise_and, True, *NINE, "SAME"), (FLAGS,)),
    Case("window.or_i32", window(lax.bitwise_or, 0, *NINE, "SAME"), (INTS,)),
    Case("window.pairs", pair_of_largest, (IMAGE, INDEX), covers=("reduce_window",)),
    Case(
        "window.body",
        window(lambda a, b: a + b + a * b, 0, (1, 3, 2, 1), (1, 1, 2, 1), "SAME"),
        (IMAGE,),
        rtol=1e-4,
        atol=1e-5,
    ),
    Case("reduce.pairs", argmax_pair, (IMAGE, INDEX), covers=("reduce",)),
    Case("reduce.affine", affine, (array((3, 7)), array((3, 7), 1)), **NEAR),
    Case("reduce.logaddexp", logaddexp, (IMAGE,), rtol=1e-5, covers=("reduce",)),
    Case("reduce.of_one", logaddexp, (array((2, 1, 1)),), rtol=1e-5),
    Case(
        "reduce.of_none",
        affine,
        (array((3, 0)), array((3, 0))),
    ),
    Case(
        "reduce.add_from_two",
        lambda x: lax.reduce(x, np.float32(2), lax.add, (0, 2)),
        (IMAGE,),
        **NEAR,
    ),
    # XLA takes the initial value for an identity, and leaves it out if there is one element.
    Case(
        "reduce.or_of_one",
        lambda x: lax.reduce(x[:, :1], np.int32(5), lax.bitwise_or, (1,)),
        (INTS,),
    ),
    Case(
        "reduce.add_of_one",
        lambda x: lax.reduce(x[:1, :, :1], np.float32(5), lax.add, (0, 2)),
        (IMAGE,),
    ),
    Case("reduce.over_no_axis", lambda x: lax.reduce(x, np.float32(5), lax.max, ()), (IMAGE,)),
    Case("reduce.mul_i32", lambda x: lax.reduce(x, np.int32(3), lax.mul, (0, 2)), (INTS,)),
    Case("reduce.max_from_half", lambda x: lax.reduce(x, np.float32(0.5), lax.max, (1,)), (IMAGE,)),
    Case(
        "reduce.flipped",
        lambda x: lax.reduce(x, np.float32(0.5), lambda a, b: lax.min(b, a), (1,)),
        (IMAGE,),
    ),
]


def pooled_gradient(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: jax.grad(lambda x: jnp.sum(fn(x) ** 2))(x)


def pooled_tangent(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, t: jax.jvp(fn, (x,), (t,))


GATHER, SCATTER = ("select_and_gather_add",), ("select_and_scatter_add",)
TIES = np.round(IMAGE)
NANS = np.array([1, 2, NAN, 3, 1, -INF, 2, NAN, NAN, 2, 2, NAN], np.float32)

DERIVATIVES = [
    Case("window.grad.max", pooled_gradient(largest(*SQUARE)), (IMAGE,), **NEAR, covers=SCATTER),
    Case(
        "window.grad.overlapping",
        pooled_gradient(largest(*NINE, "SAME")),
        (IMAGE,),
        **NEAR,
        covers=SCATTER,
    ),
    Case("window.grad.nan", pooled_gradient(largest((3,), (2,))), (NANS,)),
    Case("window.grad.nan_smallest", pooled_gradient(smallest((3,), (1,))), (NANS,)),
    Case("window.grad.nan_padded", pooled_gradient(largest((3,), (2,), "SAME")), (NANS,)),
    Case("window.grad.ties", pooled_gradient(largest(*NINE, "SAME")), (TIES,), **NEAR),
    Case(
        "window.grad.min",
        pooled_gradient(smallest(*NINE, ALL_AROUND)),
        (IMAGE,),
        **NEAR,
        covers=SCATTER,
    ),
    # The runtime adds no halves to elements.
    Case(
        "window.grad.f16",
        pooled_gradient(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3,), (1,), "VALID")),
        (LINE.astype(np.float16),),
        rtol=2e-3,
        covers=SCATTER,
    ),
    Case("window.grad.sum", pooled_gradient(total(*NINE, "SAME")), (IMAGE,), **NEAR),
    Case("window.grad.line", pooled_gradient(largest((3,), (1,))), (LINE,), **NEAR),
    Case(
        "window.jvp.max",
        pooled_tangent(largest(*NINE, "SAME")),
        (IMAGE, IMAGE + 1),
        **NEAR,
        covers=GATHER,
    ),
    Case(
        "window.jvp.min",
        pooled_tangent(smallest(*SQUARE)),
        (IMAGE, IMAGE + 1),
        **NEAR,
        covers=GATHER,
    ),
]

CASES = [*SUMS, *EXTREMES, *BODIES, *DERIVATIVES]
