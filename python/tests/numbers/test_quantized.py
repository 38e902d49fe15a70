"""Programs that quantize in JAX: products of bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from testkit import bench

RNG = np.random.default_rng(0)
EXTREMES = np.array([-128, 127, -127, 0, 1, -1, 126, 2], np.int8)
WEIGHT = RNG.integers(-128, 128, (96, 40)).astype(np.int8)
SCALES = np.linspace(0.01, 0.02, 40, dtype=np.float32)


def product(x: jax.Array, y: Any, axes: Any = ((1,), (0,)), batch: Any = ((), ())) -> jax.Array:
    return lax.dot_general(x, y, (axes, batch), preferred_element_type=jnp.int32)


def quantized_layer(x: jax.Array) -> jax.Array:
    scale = jnp.abs(x).max(-1, keepdims=True) / 127
    rounded = jnp.clip(jnp.round(x / scale), -127, 127).astype(jnp.int8)
    return product(rounded, WEIGHT).astype(jnp.float32) * scale * SCALES


def ops(fn: Callable[..., Any], *inputs: Any, **options: Any) -> list[str]:
    """Convert, compare all bits with JAX, and return the operators."""
    model = bench.convert(fn, inputs, **options)
    for found, want in zip(bench.run(model, inputs), bench.expected(fn, inputs), strict=True):
        np.testing.assert_array_equal(found, want)
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("types", [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize(
    ("shapes", "axes", "batch"),
    [
        (((5, 700), (700, 3)), ((1,), (0,)), ((), ())),
        (((2, 5, 64), (3, 64)), ((2,), (1,)), ((), ())),
        (((4, 5, 33), (4, 33, 6)), ((2,), (1,)), ((0,), (0,))),
        (((5, 4, 3), (4, 3, 2)), ((1, 2), (0, 1)), ((), ())),
    ],
    ids=["matrix", "rows", "batch", "two-axes"],
)
def test_a_product_of_bytes_is_exact(types: Any, shapes: Any, axes: Any, batch: Any) -> None:
    x, y = (
        RNG.choice(EXTREMES, shape).astype(dtype)
        for shape, dtype in zip(shapes, types, strict=True)
    )
    found = ops(lambda x, y: product(x, y, axes, batch), x, y)
    assert "MatMulInteger" in found
    assert "MatMul" not in found


@pytest.mark.parametrize("shapes", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0))])
def test_a_product_of_empty_bytes_is_empty_or_zero(shapes: Any) -> None:
    x, y = (np.ones(shape, np.int8) for shape in shapes)
    ops(product, x, y)


@pytest.mark.parametrize("opset", [17, 18, 23])
def test_a_quantized_layer_multiplies_bytes(opset: int) -> None:
    x = RNG.standard_normal((7, 96)).astype(np.float32)
    model = bench.convert(quantized_layer, [x], opset=opset)
    found = [node.op_type for node in model.graph.node]
    assert ("MatMulInteger" in found) == (opset >= 18)
    for got, want in zip(bench.run(model, [x]), bench.expected(quantized_layer, [x]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_product_for_another_runtime_is_one_of_integers() -> None:
    x = RNG.choice(EXTREMES, (3, 96))
    found = ops(lambda x: product(x, WEIGHT), x, target=["tract"])
    assert "MatMulInteger" not in found


@pytest.mark.parametrize("short", ["int4", "uint4"])
def test_a_product_with_numbers_of_few_bits_is_one_of_bytes(short: str) -> None:
    numbers = RNG.integers(-8, 8, (96, 40)).astype(short)
    x = RNG.choice(EXTREMES, (3, 96))
    found = ops(lambda x: product(x, jnp.asarray(numbers)), x)
    assert "MatMulInteger" in found
    assert "MatMul" not in found


KERNEL = RNG.integers(-128, 128, (3, 3, 8, 16)).astype(np.int8)


def convolution(x: jax.Array, strides: tuple[int, int] = (1, 1)) -> jax.Array:
    layout = ("NHWC", "HWIO", "NHWC")
    options: Any = {"dimension_numbers": layout, "preferred_element_type": jnp.int32}
    return lax.conv_general_dilated(x, KERNEL, strides, "SAME", **options)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_convolution_of_bytes_with_a_symbolic_batch_is_exact(size: int) -> None:
    model = bench.convert(lambda x: convolution(x, (2, 1)), ["i8[B,9,7,8]"])
    assert [node.op_type for node in model.graph.node].count("ConvInteger") == 1
    x = RNG.choice(EXTREMES, (size, 9, 7, 8))
    for optimize in (False, True):
        (found,) = bench.run(model, [x], optimize=optimize)
        np.testing.assert_array_equal(found, convolution(x, (2, 1)))


@pytest.mark.parametrize("opset", [17, 18, 23])
def test_a_convolution_of_bytes_is_one_operator(opset: int) -> None:
    found = ops(convolution, RNG.choice(EXTREMES, (2, 6, 5, 8)), opset=opset)
    assert ("ConvInteger" in found) == (opset >= 18)
    assert ("MatMul" in found) == (opset < 18)


def quantized(x: jax.Array, axis: int | None, most: float) -> tuple[jax.Array, jax.Array]:
    """Return an array in 8 bits with its scale, for which the largest number is at a step."""
    scale = jnp.abs(x).max(axis, keepdims=True) / most
    scale = jnp.where(scale < 1e-19, jnp.ones_like(scale), scale)
    return jnp.round(x / scale).astype(jnp.int8), scale


@pytest.mark.parametrize("most", [127.5, 127.0, 7.5])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_numbers_at_a_step_are_rounded_as_xla_rounds_them(axis: int | None, most: float) -> None:
    x = RNG.standard_normal((64, 96)).astype(np.float32)
    weight = RNG.standard_normal((96, 300)).astype(np.float32)

    def layer(x: jax.Array) -> Any:
        left, scale = quantized(x, axis if axis is None else 1, most)
        right, scales = quantized(jnp.asarray(weight), axis if axis is None else 0, most)
        sums = lax.dot(left, right, preferred_element_type=jnp.int32)
        return left, right, sums.astype(jnp.float32) * scale * scales

    ops(layer, x)


@pytest.mark.parametrize("step", [0.05, 0.1, 0.3])
def test_a_quotient_by_a_constant_step_is_rounded_as_xla_rounds_it(step: float) -> None:
    x = (np.arange(-4000, 4000) * 0.5 * step).astype(np.float32)
    ops(lambda x: jnp.clip(jnp.round(x / step), -128, 127) * step, x)
    ops(lambda x: jnp.floor(x / step).astype(jnp.int32), x)


OFFSETS = RNG.integers(0, 256, 40).astype(np.uint8)
UNSIGNED = (WEIGHT.astype(np.int16) + 128).astype(np.uint8)
SHORT = RNG.integers(-8, 8, (96, 40)).astype("int4")
OF_BLOCKS = np.linspace(0.01, 0.02, 3 * 40, dtype=np.float32).reshape(3, 40)


def floats(numbers: Any, dtype: Any = jnp.float32) -> jax.Array:
    return jnp.asarray(numbers).astype(dtype)


def in_blocks() -> jax.Array:
    blocks = floats(SHORT).reshape(3, 32, 40) * OF_BLOCKS[:, None]
    return blocks.reshape(96, 40)


DEQUANTIZED: dict[str, Callable[[], jax.Array]] = {
    "columns": lambda: floats(WEIGHT) * SCALES,
    "rows": lambda: floats(np.ascontiguousarray(WEIGHT.T)).T * np.linspace(1, 2, 96)[:, None],
    "one scale": lambda: floats(WEIGHT) * 0.01,
    "transposed": lambda: (floats(np.ascontiguousarray(WEIGHT.T)) * SCALES[:, None]).T,
    "int4": lambda: floats(SHORT) * SCALES,
    "zeros": lambda: (floats(UNSIGNED) - OFFSETS) * SCALES,
    "one zero": lambda: (floats(UNSIGNED) - 128) * SCALES,
    "whole zeros": lambda: floats(floats(UNSIGNED, jnp.int32) - OFFSETS) * SCALES,
    "blocks": in_blocks,
    "repeated scales": lambda: floats(SHORT) * jnp.repeat(OF_BLOCKS, 32, 0),
}


@pytest.mark.parametrize("form", DEQUANTIZED)
def test_weights_times_scales_are_dequantized_in_each_run_if_asked(form: str) -> None:
    weight = DEQUANTIZED[form]

    def layer(x: jax.Array) -> jax.Array:
        return x @ weight()

    x = RNG.standard_normal((7, 96)).astype(np.float32)
    (want,) = bench.expected(layer, [x])
    short = bench.convert(layer, [x], dequantize="run")
    assert [node.op_type for node in short.graph.node] == ["DequantizeLinear", "MatMul"]
    (found,) = bench.run(short, [x], optimize=False)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
    (found,) = bench.run(short, [x])
    np.testing.assert_allclose(found, want, atol=0.02 * np.abs(want).max())


def test_weights_alone_are_dequantized_exactly() -> None:
    for form, weight in DEQUANTIZED.items():
        model = bench.convert(weight, [], dequantize="run")
        assert [node.op_type for node in model.graph.node] == ["DequantizeLinear"]
        for optimize in (False, True):
            (found,) = bench.run(model, [], optimize=optimize)
            np.testing.assert_array_equal(found, bench.expected(weight, [])[0], form)


def test_scales_after_a_product_become_those_of_its_weight() -> None:
    x = RNG.standard_normal((7, 96)).astype(np.float32)
    model = bench.convert(lambda x: (x @ floats(WEIGHT)) * SCALES, [x], dequantize="run")
    assert [node.op_type for node in model.graph.node] == ["DequantizeLinear", "MatMul"]


@pytest.mark.parametrize("options", [{"target": "mnn"}, {"opset": 20}])
def test_weights_stay_products_if_no_operator_dequantizes_them(options: Any) -> None:
    scales = np.repeat(OF_BLOCKS, 32, 0) if "opset" in options else SCALES
    x = np.ones((2, 96), np.float32)
    model = bench.convert(lambda x: x @ (floats(WEIGHT) * scales), [x], dequantize="run", **options)
    found = {node.op_type for node in model.graph.node}
    assert "DequantizeLinear" not in found
    assert found >= {"Cast", "Mul"}


def test_the_weights_of_a_product_of_bytes_are_stored_for_it() -> None:
    x = RNG.standard_normal((7, 96)).astype(np.float32)
    models = [bench.convert(quantized_layer, [x], dequantize=mode) for mode in ("load", "run")]
    assert models[0].graph.node == models[1].graph.node


def test_weights_with_whole_zero_points_stay_short() -> None:
    numbers = RNG.integers(0, 256, (128, 96)).astype(np.uint8)
    zeros = RNG.integers(0, 256, 96).astype(np.uint8)

    def layer(x: jax.Array) -> jax.Array:
        return x @ (floats(floats(numbers, jnp.int32) - zeros) * 0.01)

    x = RNG.standard_normal((7, 128)).astype(np.float32)
    model = bench.convert(layer, [x])
    assert max(len(weight.raw_data) for weight in model.graph.initializer) == numbers.size
    for optimize in (False, True):
        (found,) = bench.run(model, [x], optimize=optimize)
        np.testing.assert_allclose(found, layer(x), rtol=1e-5, atol=1e-4)


def test_a_model_says_that_it_dequantizes_in_each_run() -> None:
    x = np.ones((2, 96), np.float32)
    for mode, count in (("run", 1), ("load", 0)):
        model = bench.convert(lambda x: x @ (floats(WEIGHT) * SCALES), [x], dequantize=mode)
        keys = [entry.key for entry in model.metadata_props]
        assert keys.count("pkg.jax2onnx.dequantize") == count
