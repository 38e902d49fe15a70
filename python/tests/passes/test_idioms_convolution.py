"""Convolutional networks: the order of axes, what goes into weights, pooling, resizing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import nnx

import jax2onnx
from testkit import bench

RNG = np.random.default_rng(0)
IMAGE = RNG.standard_normal((2, 8, 8, 4)).astype(np.float32)
KERNEL = RNG.standard_normal((3, 3, 4, 4)).astype(np.float32)
POINTWISE = RNG.standard_normal((1, 1, 4, 4)).astype(np.float32)
SCALE = np.linspace(0.5, 2.0, 4).astype(np.float32)
SHIFT = np.linspace(-1.0, 1.0, 4).astype(np.float32)
ROWS = np.linspace(-1.0, 1.0, 8).astype(np.float32)[:, None, None]


def conv(x: Any, kernel: Any = KERNEL, padding: str = "SAME", **options: Any) -> jax.Array:
    strides = options.pop("strides", (1, 1))
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x, kernel, strides, padding, dimension_numbers=numbers, **options
    )


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def check(
    fn: Callable[..., Any],
    wanted: list[str],
    *inputs: np.ndarray,
    tolerance: float = 5e-6,
) -> None:
    """The operators, and the numbers relative to the largest."""
    model = bench.convert(fn, inputs)
    assert ops(model) == wanted
    compare(model, fn, inputs, tolerance)


def compare(model: Any, fn: Any, inputs: Any, tolerance: float = 5e-6) -> None:
    for found, want in zip(bench.run(model, inputs), bench.expected(fn, inputs), strict=True):
        finite = np.abs(want[np.isfinite(want)])
        np.testing.assert_allclose(
            found, want, rtol=tolerance, atol=tolerance * finite.max(initial=0)
        )


def norm(y: jax.Array) -> jax.Array:
    return (y - SHIFT) * (SCALE * jax.lax.rsqrt(SCALE + 1e-5)) + SHIFT


def residual(x: jax.Array) -> jax.Array:
    y = jax.nn.relu(norm(conv(x)))
    z = norm(conv(jax.nn.relu(norm(conv(y)))))
    return jnp.mean(jax.nn.relu(y + z), (1, 2))


def test_one_transpose_is_left_of_a_residual_network() -> None:
    check(
        residual,
        ["Transpose", "Conv", "Relu", "Conv", "Relu", "Conv", "Add", "Relu", "ReduceMean"],
        IMAGE,
    )


def test_branches_are_joined_padded_and_cut_in_the_order_of_convolutions() -> None:
    def fn(x: jax.Array) -> jax.Array:
        a, b = jnp.tanh(conv(x)), jnp.exp(conv(x, POINTWISE))
        joined = jnp.concatenate([a, b], -1)
        padded = jnp.pad(joined, ((0, 0), (1, 0), (0, 2), (0, 0)))[:, :, 1:, 2:6]
        return conv(jnp.clip(padded, -1.0, 1.0) / (1.0 + jnp.sum(padded, -1, keepdims=True) ** 2))

    model = bench.convert(fn, [IMAGE])
    assert Counter(ops(model))["Transpose"] == 2
    compare(model, fn, [IMAGE])


def test_what_gates_channels_is_made_in_their_order() -> None:
    def fn(x: jax.Array) -> jax.Array:
        y = conv(x)
        gate = jax.nn.sigmoid(jnp.mean(y, (1, 2)) @ POINTWISE[0, 0])
        return conv(y * gate[:, None, None, :])

    model = bench.convert(fn, [IMAGE])
    assert Counter(ops(model))["Transpose"] == 2
    compare(model, fn, [IMAGE])


def test_orders_that_do_not_meet_are_left() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return conv(jax.nn.relu(conv(x)).transpose(0, 2, 1, 3))

    model = bench.convert(fn, [IMAGE])
    assert Counter(ops(model))["Transpose"] == 3
    compare(model, fn, [IMAGE])


def test_a_result_in_both_orders_is_right_in_both() -> None:
    def fn(x: jax.Array) -> tuple[jax.Array, ...]:
        y = jax.nn.relu(conv(x))
        return y, conv(y), jnp.argmax(y, -1), jnp.sort(y, axis=-1)

    compare(bench.convert(fn, [IMAGE]), fn, [IMAGE])


def test_the_batch_may_be_known_later() -> None:
    model = jax2onnx.to_onnx(residual, [("B", 8, 8, 4)])
    assert Counter(ops(model))["Transpose"] == 1
    for rows in (1, 2):
        compare(model, residual, [IMAGE[:rows]])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: conv(x) + SHIFT,
        lambda x: SHIFT - conv(x),
        lambda x: norm(conv(x)),
        lambda x: conv(x) / SCALE,
        lambda x: norm(conv(x, KERNEL[:, :, :1], feature_group_count=4)),
        lambda x: norm(jax.lax.conv_transpose(x, KERNEL, (2, 2), "SAME")),
        lambda x: conv(x * SCALE),
        lambda x: conv(x / SCALE, KERNEL[:, :, :2], feature_group_count=2),
        lambda x: conv(x * SCALE + SHIFT, padding="VALID"),
    ],
)
def test_one_number_a_channel_goes_into_the_convolution(fn: Any) -> None:
    model = bench.convert(fn, [IMAGE])
    assert Counter(ops(model)) - Counter(["Conv", "ConvTranspose"]) == Counter(["Transpose"] * 2)
    compare(model, fn, [IMAGE])


@pytest.mark.parametrize(
    ("fn", "kept"),
    [
        (lambda x: conv(x) + ROWS, "Add"),
        (lambda x: conv(x) * x, "Mul"),
        (lambda x: (lambda y: (y * SCALE, jnp.tanh(y)))(conv(x)), "Mul"),
        (lambda x: conv(x + SHIFT), "Add"),
        (lambda x: SCALE / conv(x * x, np.abs(KERNEL)), "Div"),
    ],
)
def test_what_is_not_so_stays(fn: Any, kept: str) -> None:
    model = bench.convert(fn, [IMAGE])
    assert kept in ops(model)
    compare(model, fn, [IMAGE])


def test_a_dense_layer_is_one_node_and_takes_what_scales_it() -> None:
    check(lambda x: (x @ POINTWISE[0, 0] + SHIFT) * SCALE, ["Gemm"], IMAGE[0, 0])
    check(lambda x: (x @ POINTWISE[0, 0] + SHIFT) * SCALE, ["MatMul", "Add"], IMAGE[0])
    check(lambda x: x @ POINTWISE[0, 0] + ROWS[:, 0], ["MatMul", "Add"], IMAGE[0, 0])


@pytest.mark.parametrize("count_include_pad", [True, False])
@pytest.mark.parametrize("padding", ["VALID", "SAME", ((1, 1), (0, 2))])
@pytest.mark.parametrize("window", [(2, 2), (3, 3)])
def test_a_mean_over_windows_is_one_node(
    window: tuple[int, int], padding: Any, count_include_pad: bool
) -> None:
    if window == (2, 2) and padding == ((1, 1), (0, 2)):
        pytest.skip("a window lies in the padding alone")

    def fn(x: jax.Array) -> jax.Array:
        return nnx.avg_pool(x, window, (2, 2), padding, count_include_pad)

    # Before ONNX Runtime 1.25, `AveragePool` counts padding wrongly if only the ends of the axes
    # have some.
    is_padded_at_the_ends = window == (3, 3) and padding != "VALID"
    mean = "Conv" if count_include_pad and is_padded_at_the_ends else "AveragePool"
    check(fn, ["Transpose", mean, "Transpose"], IMAGE)


def test_another_divisor_makes_no_mean() -> None:
    def fn(x: jax.Array) -> jax.Array:
        sums = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")
        ones = jnp.ones((1, 8, 8, 1))
        counts = jax.lax.reduce_window(ones, 0.0, jax.lax.add, (1, 5, 3, 1), (1, 1, 1, 1), "SAME")
        return sums / counts + sums / 8.0

    model = bench.convert(fn, [IMAGE])
    assert "AveragePool" not in ops(model)
    compare(model, fn, [IMAGE])


def test_pooling_follows_the_order_and_keeps_nan() -> None:
    def fn(x: jax.Array) -> jax.Array:
        y = jax.nn.relu(conv(x, POINTWISE))
        return conv(nnx.max_pool(y, (2, 2), (2, 2)), POINTWISE)

    model = bench.convert(fn, [IMAGE])
    assert Counter(ops(model))["Transpose"] == 2
    spoilt = IMAGE.copy()
    spoilt[0, 3, 3], spoilt[1, 5, 5] = np.nan, 1e30
    compare(model, fn, [spoilt])


@pytest.mark.parametrize("times", [(2, 2), (3, 2), (2, 1)])
def test_an_image_of_a_multiple_of_the_size_is_resized(times: tuple[int, int]) -> None:
    def fn(x: jax.Array) -> jax.Array:
        shape = (x.shape[0], 8 * times[0], 8 * times[1], x.shape[3])
        return conv(jax.image.resize(conv(x), shape, "nearest"))

    model = bench.convert(fn, [IMAGE])
    is_resized = times[1] > 1
    wanted = ["Transpose", "Conv", "Resize" if is_resized else "Gather", "Conv", "Transpose"]
    assert ops(model) == wanted
    compare(model, fn, [IMAGE])


@pytest.mark.parametrize("method", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("size", [5, 12])
def test_an_image_of_any_other_size_is_right(method: str, size: int) -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jax.image.resize(x, (2, size, 16, 4), method)

    model = bench.convert(fn, [IMAGE])
    assert "Resize" not in ops(model)
    compare(model, fn, [IMAGE])


def test_a_bias_goes_into_a_convolution_without_a_batch() -> None:
    module = eqx.nn.Conv2d(4, 3, 3, key=jax.random.key(0))
    check(lambda x: module(x), ["Unsqueeze", "Conv", "Squeeze"], IMAGE[0].transpose(2, 0, 1))


def test_a_bias_goes_into_a_convolution_whose_transpose_stays() -> None:
    def halves(x: jax.Array) -> list[jax.Array]:
        return jnp.split(conv(x) + SHIFT, 2, axis=-1)

    check(halves, ["Transpose", "Conv", "Transpose", "Split"], IMAGE)


def test_a_summand_that_differs_by_row_is_not_a_bias() -> None:
    def halves(x: jax.Array) -> list[jax.Array]:
        return jnp.split(conv(x) + ROWS, 2, axis=-1)

    check(halves, ["Transpose", "Conv", "Transpose", "Add", "Split"], IMAGE)
