"""Convolutions of every rank, layout, padding, dilation, grouping and type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from .case import Case

COVERS = ("conv_general_dilated",)


def array(shape: tuple[int, ...], seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def integers(shape: tuple[int, ...], seed: int, low: int, high: int, dtype: Any) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def conv(strides: Any, padding: Any, layout: Any = None, **options: Any) -> Callable[..., Any]:
    """`lax.conv_general_dilated` with everything but the operands."""
    return lambda x, w: lax.conv_general_dilated(
        x, w, strides, padding, dimension_numbers=layout, **options
    )


def case(name: str, fn: Callable[..., Any], x: Any, w: Any, **options: Any) -> Case:
    options = {"rtol": 1e-5, "atol": 1e-5, "covers": COVERS} | options
    return Case(f"conv.{name}", fn, (x, w), **options)


def in_single(fn: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """Return a function of halves that is computed in float32 and rounded once."""
    return lambda *operands: np.asarray(
        fn(*(operand.astype(np.float32) for operand in operands))
    ).astype(np.float16)


NHWC = ("NHWC", "HWIO", "NHWC")
X1, W1 = array((2, 3, 9)), array((4, 3, 3), 1)
X2, W2 = array((2, 3, 9, 8)), array((4, 3, 3, 2), 1)
X3, W3 = array((2, 3, 5, 6, 7)), array((4, 3, 3, 2, 3), 1)
IMAGE, KERNEL = array((2, 9, 8, 3)), array((3, 3, 3, 4), 1)

LAYOUTS = [
    case("line", conv((1,), "VALID"), X1, W1),
    case("plane", conv((1, 1), "SAME"), X2, W2),
    case("space", conv((1, 1, 1), "SAME"), X3, W3),
    case(
        "four_axes",
        conv((1, 2, 1, 1), "SAME"),
        array((1, 2, 4, 4, 3, 3)),
        array((2, 2, 2, 2, 2, 2), 1),
    ),
    case("no_axes", conv((), ()), array((2, 3)), array((4, 3), 1)),
    case("nhwc", conv((2, 2), "SAME", NHWC), IMAGE, KERNEL),
    case("nwc", conv((2,), "SAME", ("NWC", "WIO", "NWC")), array((2, 9, 3)), array((4, 3, 5), 1)),
    case(
        "mixed_layouts",
        conv((1, 2), "VALID", ("CWNH", "IHOW", "HNWC")),
        array((3, 8, 2, 9)),
        array((3, 3, 4, 2), 1),
    ),
    case(
        "ndhwc",
        conv((1, 2, 1), "SAME", ("NDHWC", "DHWIO", "NDHWC")),
        array((2, 5, 6, 7, 3)),
        array((3, 2, 3, 3, 4), 1),
    ),
    case("one_by_one", conv((1, 1), "VALID", NHWC), IMAGE, array((1, 1, 3, 5), 1)),
]

PADDING = [
    case("asymmetric", conv((1, 1), ((0, 2), (3, 1))), X2, W2),
    case("more_than_the_window", conv((2,), ((5, 4),)), X1, W1),
    case("negative", conv((1, 1), ((1, -2), (-1, -2))), X2, W2),
    case("negative_both", conv((2,), ((-2, -3),)), X1, W1),
    case("nothing_left", conv((1,), ((-4, -4),)), X1, W1),
    case("window_larger", conv((1,), "VALID"), array((2, 3, 2)), W1),
    case("strides", conv((3, 2), "SAME"), X2, W2),
    case("empty_batch", conv((1, 1), "SAME"), array((0, 3, 5, 5)), W2),
    case("no_channels", conv((1,), "SAME"), array((2, 0, 5)), array((4, 0, 3))),
    case("empty_space", conv((1,), ((2, 2),)), array((2, 3, 0)), W1),
]

DILATION = [
    case("rhs", conv((1, 1), "SAME", rhs_dilation=(2, 3)), X2, W2),
    case("rhs_strided", conv((2, 2), ((2, 1), (0, 3)), rhs_dilation=(2, 3)), X2, W2),
    case("lhs", conv((1, 1), ((2, 1), (1, 1)), lhs_dilation=(2, 3)), X2, W2),
    case("lhs_line", conv((1,), ((0, 0),), lhs_dilation=(3,)), X1, W1),
    case("lhs_space", conv((1, 1, 1), ((1, 1),) * 3, lhs_dilation=(2, 1, 3)), X3, W3),
    case("lhs_much_padding", conv((1, 1), ((4, 5), (0, 3)), lhs_dilation=(2, 2)), X2, W2),
    case("lhs_negative_padding", conv((1, 1), ((-3, 1), (2, -4)), lhs_dilation=(2, 2)), X2, W2),
    case("lhs_one_axis", conv((1, 1), ((1, 1), (1, 1)), lhs_dilation=(2, 1)), X2, W2),
    case("lhs_strided", conv((3, 2), ((2, 1), (1, 1)), lhs_dilation=(2, 3)), X2, W2),
    case("both", conv((1, 1), ((2, 1), (4, 1)), lhs_dilation=(2, 3), rhs_dilation=(3, 2)), X2, W2),
    case(
        "everything",
        conv((2, 1), ((2, -1), (4, 1)), lhs_dilation=(2, 3), rhs_dilation=(3, 2)),
        X2,
        W2,
    ),
    case(
        "lhs_nhwc",
        lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"),
        IMAGE,
        KERNEL,
    ),
    case(
        "lhs_transposed_kernel",
        lambda x, w: lax.conv_transpose(x, w, (2, 3), "VALID", transpose_kernel=True),
        IMAGE,
        array((3, 3, 4, 3), 1),
    ),
    case(
        "lhs_stride_larger_than_window",
        lambda x, w: lax.conv_transpose(x, w, (4, 3), "VALID"),
        IMAGE,
        array((2, 2, 3, 4), 1),
    ),
]

GROUPS = [
    case(
        "groups",
        conv((1, 1), "SAME", feature_group_count=2),
        array((2, 4, 5, 6)),
        array((6, 2, 3, 3), 1),
    ),
    case(
        "depthwise",
        conv((2, 2), "SAME", NHWC, feature_group_count=3),
        IMAGE,
        array((3, 3, 1, 6), 1),
    ),
    case(
        "groups_spread",
        conv((1, 1), ((1, 2), (2, 1)), feature_group_count=2, lhs_dilation=(2, 2)),
        array((2, 4, 5, 6)),
        array((6, 2, 3, 3), 1),
    ),
    case(
        "groups_spread_strided",
        conv((2, 3), ((1, 2), (2, 1)), feature_group_count=2, lhs_dilation=(2, 2)),
        array((2, 4, 5, 6)),
        array((6, 2, 3, 3), 1),
    ),
    case(
        "batch_groups",
        conv((1, 1), "SAME", batch_group_count=2),
        array((6, 3, 5, 6)),
        array((4, 3, 3, 3), 1),
    ),
    case(
        "batch_groups_nhwc",
        conv((2, 1), "VALID", NHWC, batch_group_count=3),
        array((6, 5, 6, 2)),
        array((3, 3, 2, 6), 1),
    ),
]

I32_X, I32_W = (integers((2, 3, 6), s, -(2**30), 2**30, np.int32) for s in (0, 1))
I8_X, I8_W = (integers((2, 3, 6), s, -128, 128, np.int8) for s in (0, 1))
U8_X, U8_W = (integers((2, 3, 6), s, 0, 256, np.uint8) for s in (0, 1))
I8_IMAGE, I8_KERNEL = (
    integers(shape, seed, -128, 128, np.int8)
    for seed, shape in enumerate([(2, 9, 8, 6), (3, 2, 3, 8)])
)
IN_32_BITS: dict[str, Any] = {"preferred_element_type": np.int32}
BYTES = [
    case("i8_preferred_i32", conv((1,), "SAME", **IN_32_BITS), I8_X, I8_W),
    case("u8_preferred_i32", conv((1,), ((2, 1),), **IN_32_BITS), U8_X, U8_W),
    case("i8_cut", conv((2,), ((-1, 2),), **IN_32_BITS), I8_X, I8_W),
    case("i8_nhwc", conv((2, 1), "SAME", NHWC, **IN_32_BITS), I8_IMAGE[..., :3], I8_KERNEL),
    case(
        "i8_groups",
        conv((1, 2), "VALID", NHWC, feature_group_count=2, rhs_dilation=(2, 1), **IN_32_BITS),
        I8_IMAGE,
        I8_KERNEL,
    ),
    case(
        "i8_depthwise",
        conv((1, 1), ((1, -1), (0, 2)), NHWC, feature_group_count=6, **IN_32_BITS),
        I8_IMAGE,
        integers((3, 3, 1, 12), 2, -128, 128, np.int8),
    ),
    case(
        "i8_batch_groups",
        conv((1, 1), "SAME", NHWC, batch_group_count=2, **IN_32_BITS),
        I8_IMAGE[..., :3],
        I8_KERNEL,
    ),
    case(
        "i8_spread",
        conv((1, 1), ((1, 1), (0, 1)), NHWC, lhs_dilation=(2, 1), **IN_32_BITS),
        I8_IMAGE[..., :3],
        I8_KERNEL,
    ),
    case(
        "i8_space",
        conv((1, 2, 1), "SAME", **IN_32_BITS),
        integers((1, 2, 4, 5, 3), 3, -128, 128, np.int8),
        integers((3, 2, 2, 3, 2), 4, -128, 128, np.int8),
    ),
    # On a CPU without VNNI, sums of two such products exceed 16 bits.
    case(
        "i8_extreme",
        conv((1, 1), "SAME", **IN_32_BITS),
        np.full((1, 16, 5, 5), -128, np.int8),
        np.full((8, 16, 3, 3), -128, np.int8),
    ),
]
WIDE = {"double": True, "rtol": 1e-13, "atol": 1e-13}

TYPES = [
    case("f64", conv((2, 2), "SAME"), X2.astype(np.float64), W2.astype(np.float64), **WIDE),
    case(
        "f64_nhwc",
        conv((1, 2), ((1, 2), (-1, 1)), NHWC, rhs_dilation=(2, 1)),
        IMAGE.astype(np.float64),
        KERNEL.astype(np.float64),
        **WIDE,
    ),
    case(
        "f64_groups",
        conv((1, 1), "SAME", feature_group_count=2),
        array((2, 4, 5, 6), 0, np.float64),
        array((6, 2, 3, 3), 1, np.float64),
        **WIDE,
    ),
    case(
        "f64_spread",
        conv((1, 1), ((1, 2), (2, 1)), lhs_dilation=(2, 2)),
        X2.astype(np.float64),
        W2.astype(np.float64),
        **WIDE,
    ),
    case(
        "f64_long",
        conv((1,), "SAME"),
        array((1, 1, 3000), 0, np.float64),
        array((1, 1, 5), 1, np.float64),
        **WIDE,
    ),
    case(
        "f64_long_spread",
        conv((2,), ((3, -2),), lhs_dilation=(3,)),
        array((1, 1, 3000), 0, np.float64),
        array((1, 1, 5), 1, np.float64),
        **WIDE,
    ),
    case(
        "f16",
        conv((1, 1), "SAME"),
        X2.astype(np.float16),
        W2.astype(np.float16),
        rtol=2e-3,
        atol=4e-3,
        reference=in_single(conv((1, 1), "SAME")),
        because="XLA of JAX 0.6 adds in float16",
    ),
    case(
        "bf16",
        conv((1, 1), "SAME"),
        X2.astype(ml_dtypes.bfloat16),
        W2.astype(ml_dtypes.bfloat16),
        rtol=2e-2,
        atol=4e-2,
    ),
    case(
        "f16_preferred_f32",
        conv((1, 1), "SAME", preferred_element_type=np.float32),
        X2.astype(np.float16),
        W2.astype(np.float16),
    ),
    case(
        "c64",
        conv((2, 1), "SAME", NHWC),
        (IMAGE + 1j * IMAGE[::-1]).astype(np.complex64),
        (KERNEL - 2j * KERNEL[::-1]).astype(np.complex64),
        rtol=1e-4,
        atol=1e-4,
    ),
    case("i32_wraps", conv((1,), "SAME"), I32_X, I32_W),
    case("i8_wraps", conv((1,), "SAME"), I8_X, I8_W),
    case("u8_wraps", conv((2,), "VALID"), U8_X, U8_W),
    *BYTES,
    case(
        "i64_wraps",
        conv((1,), "SAME"),
        I32_X.astype(np.int64) << 30,
        I32_W.astype(np.int64) << 30,
        double=True,
    ),
    case("u32_wraps", conv((1,), "SAME"), I32_X.astype(np.uint32), I32_W.astype(np.uint32)),
]


def gradient(x: jax.Array, w: jax.Array) -> Any:
    def loss(x: jax.Array, w: jax.Array) -> jax.Array:
        y = lax.conv_general_dilated(
            x, w, (2, 2), "SAME", dimension_numbers=NHWC, feature_group_count=3
        )
        return jnp.sum(y * y)

    return jax.grad(loss, (0, 1))(x, w)


USES = [
    case(
        "gradient",
        gradient,
        array((2, 9, 8, 6)),
        array((3, 3, 2, 6), 1),
        rtol=1e-4,
        atol=1e-3,
    ),
    Case(
        "conv.constant_weights",
        lambda x: lax.conv_general_dilated(
            x, jnp.asarray(KERNEL), (1, 1), "SAME", dimension_numbers=NHWC
        ),
        (IMAGE,),
        rtol=1e-5,
        atol=1e-5,
    ),
    Case(
        "conv.vmap",
        jax.vmap(conv((1,), "SAME"), (0, 0)),
        (array((3, 2, 3, 9)), array((3, 4, 3, 3), 1)),
        rtol=1e-5,
        atol=1e-5,
    ),
]

CASES = [*LAYOUTS, *PADDING, *DILATION, *GROUPS, *TYPES, *USES]
