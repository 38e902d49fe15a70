"""Choices, one-hot codes and sums of products: the operators, and the numbers of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from testkit import bench

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 6, 16)).astype(np.float32)
LONG = RNG.standard_normal((3, 40, 16)).astype(np.float32)
ROUTER = RNG.standard_normal((16, 8)).astype(np.float32)
COLUMN = np.linspace(-1, 1, 16).astype(np.float32)
ZEROS = np.array([[-0.0, 0.0, -1.0, np.nan, np.inf, -0.0, 0.0, -np.inf]], np.float32)


def check(fn: Callable[..., Any], inputs: Sequence[np.ndarray]) -> list[str]:
    """Compare the numbers, and give the operators, in order."""
    model = bench.convert(fn, inputs)
    for found, want in zip(bench.run(model, inputs), bench.expected(fn, inputs), strict=True):
        bench.assert_same(found, want, rtol=2e-5, atol=2e-6)
    return [node.op_type for node in model.graph.node]


def routed(x: jax.Array) -> Any:
    return jax.lax.top_k(x @ ROUTER, 2)


KEY = ["Cast", "IsNaN", "Min", "Where", "TopK"]


def test_the_sign_of_a_zero_from_a_product_does_not_matter() -> None:
    assert check(routed, [X]) == ["MatMul", *KEY, "GatherElements", "Cast"]
    x = X.copy()
    x[0, 0], x[1, 2], x[2, 3, 5] = 0, -0.0, np.nan
    check(routed, [x])
    check(lambda x: jax.lax.top_k(jax.nn.softmax(x), 3), [X])


def test_the_zeros_of_an_input_are_ordered() -> None:
    assert "Reciprocal" in check(lambda x: jax.lax.top_k(x, 8), [ZEROS])
    assert "Reciprocal" in check(lambda x: jax.lax.top_k(x * 2, 8), [ZEROS])
    # The sum of two zeros below zero is one.
    assert "Reciprocal" in check(lambda x: jax.lax.top_k(x + x, 8), [ZEROS])


@pytest.mark.parametrize("size", [16, 2048])
def test_a_code_of_a_choice(size: int) -> None:
    check(lambda x: jax.nn.one_hot(jnp.argmax(x, -1), size), [X])


def test_a_code_of_indices_that_may_be_negative() -> None:
    places = np.array([[0, 3, -1, 7], [8, -8, 2, 2**31 - 1]], np.int32)
    check(lambda i: jax.nn.one_hot(i, 8), [places])


def rows(x: jax.Array) -> jax.Array:
    weights = jnp.sum(x, -1)
    return jnp.sum(weights[..., None] * x, -2)


SUMS: list[tuple[Callable[..., Any], list[np.ndarray], list[str]]] = [
    (rows, [X], ["ReduceSum", "Mul", "ReduceSum"]),
    (lambda x: jnp.sum(x * COLUMN, -1), [X], ["Mul", "ReduceSum"]),
    (lambda x: x @ COLUMN, [LONG], ["MatMul", "Reshape"]),
    (lambda x, w: x @ w, [LONG, COLUMN], ["Reshape", "MatMul", "Reshape"]),
    (lambda x: x @ COLUMN, [X], ["MatMul"]),
    (lambda w: ROUTER.T @ w, [COLUMN], ["MatMul"]),
    (lambda w, x: w @ x, [COLUMN, X[0].T.copy()], ["MatMul"]),
    (lambda a, b: a @ b, [COLUMN, COLUMN], ["MatMul"]),
]


@pytest.mark.parametrize(("fn", "inputs", "wanted"), SUMS)
def test_a_sum_of_products_has_few_operators(
    fn: Any, inputs: list[np.ndarray], wanted: list[str]
) -> None:
    assert check(fn, inputs) == wanted


def test_a_weighted_sum_propagates_nan_and_infinity() -> None:
    x = X.copy()
    x[0, 1, 2], x[1, 3, 4], x[2, 0, 0] = np.nan, np.inf, -np.inf
    check(rows, [x])
    check(lambda x: jnp.sum(x * jnp.zeros(16), -1), [x])


@pytest.mark.parametrize("size", [1, 2])
def test_a_batch_of_products(size: int) -> None:
    up = RNG.standard_normal((4, 16, 5)).astype(np.float32)
    found = check(lambda x: jnp.einsum("btd,edh->beth", x, up), [X[:size]])
    assert found[:2] == ["Reshape", "MatMul"]


def test_random_bits_become_a_number_between_zero_and_one_by_a_product() -> None:
    def uniform(bits: jax.Array) -> jax.Array:
        return jax.lax.bitcast_convert_type(bits >> 9 | 0x3F800000, jnp.float32) - 1.0

    bits = np.arange(5, dtype=np.uint32) * np.uint32(0x9E3779B9)
    assert check(uniform, [bits]) == ["BitShift", "Cast", "Mul"]


def overlaps(boxes: jax.Array) -> jax.Array:
    low = jnp.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = jnp.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    return jnp.prod(jnp.clip(high - low, 0.0), -1)


def forces(points: jax.Array) -> jax.Array:
    distance = points[:, None] - points[None]
    return jnp.sum(distance / (jnp.sum(distance**2, -1) + 0.1)[..., None], 1)


@pytest.mark.parametrize(
    ("fn", "size"),
    [
        (lambda x: jnp.sum((x[:, None] - x[None]) ** 2, -1), (30, 3)),
        (lambda x: jnp.sum(jnp.abs(x[:, :, None] - 0.5 * x[:, None]), -1), (2, 30, 2)),
        (jax.vmap(lambda x: jnp.sum(jnp.tanh(x[:, None] + x[None]), -1)), (2, 30, 2)),
        (overlaps, (30, 4)),
        (forces, (30, 3)),
    ],
)
def test_coordinates_of_pairs_come_first(fn: Callable[..., Any], size: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=size).astype(np.float32)
    model = bench.convert(fn, [x])
    infos = {info.name: info.type.tensor_type.shape.dim for info in model.graph.value_info}
    reduced = [node.input[0] for node in model.graph.node if node.op_type.startswith("Reduce")]
    assert reduced
    assert all(infos[name][-1].dim_value == 30 for name in reduced)
    for special in (None, np.nan, np.inf):
        if special is not None:
            x = x.copy()
            x.flat[7] = special
        for found, want in zip(bench.run(model, [x]), bench.expected(fn, [x]), strict=True):
            bench.assert_same(found, want, rtol=2e-5, atol=2e-6)


def ratios(boxes: jax.Array) -> jax.Array:
    """The shared area of each pair of boxes by the area of both."""
    low = jnp.maximum(boxes[:, None, :2], boxes[:, :2])
    high = jnp.minimum(boxes[:, None, 2:], boxes[:, 2:])
    sizes = jnp.clip(high - low, 0.0)
    shared = sizes[..., 0] * sizes[..., 1]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return shared / (area[:, None] + area - shared)


@pytest.mark.parametrize(
    ("fn", "size"),
    [
        (overlaps, (70, 4)),
        (ratios, (70, 4)),
        (jax.vmap(ratios), (2, 70, 4)),
        (lambda x: (lambda d: d[..., 2] - d[..., 0])(x[:, None] * x + 1), (70, 3)),
    ],
)
def test_entries_of_pairs_are_computed_one_by_one(
    fn: Callable[..., Any], size: tuple[int, ...]
) -> None:
    # Few different numbers, so that boxes touch and are empty.
    x = np.random.default_rng(0).integers(-2, 3, size).astype(np.float32)
    x.flat[::9] *= -1.0
    model = bench.convert(fn, [x])
    ranks = [len(info.type.tensor_type.shape.dim) for info in model.graph.value_info]
    assert max(ranks) == len(size)
    for special in (None, np.nan, np.inf):
        if special is not None:
            x = x.copy()
            x.flat[7] = special
        for found, want in zip(bench.run(model, [x]), bench.expected(fn, [x]), strict=True):
            bench.assert_same(found, want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("axis", [0, 1, -3])
def test_a_stack_is_joined_once_and_reshaped(axis: int) -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jnp.stack([jnp.sin(x), x, jnp.cos(x), x], axis)

    assert check(fn, [X]) == ["Sin", "Cos", "Concat", "Reshape"]


def test_a_large_stack_that_is_returned_is_not_copied() -> None:
    x = np.ones((64, 64), np.float32)
    found = check(lambda x: jnp.stack([x, jnp.cos(x)]), [x])
    assert found == ["Cos", "Unsqueeze", "Unsqueeze", "Concat"]


def test_a_stack_along_the_last_axis_is_left() -> None:
    found = check(lambda x: jnp.stack([x, jnp.cos(x)], -1), [X])
    assert found == ["Cos", "Unsqueeze", "Unsqueeze", "Concat"]


def test_a_stack_of_arrays_of_any_size_has_the_numbers_of_jax() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jnp.sin(jnp.stack([x, jnp.cos(x), -x]))

    model = bench.convert(fn, [("B", 4)])
    found = [node.op_type for node in model.graph.node]
    assert found == ["Cos", "Neg", "Concat", "Reshape", "Sin"]
    for size in (0, 1, 3):
        x = np.linspace(-1, 1, 4 * size, dtype=np.float32).reshape(size, 4)
        for found, want in zip(bench.run(model, [x]), bench.expected(fn, [x]), strict=True):
            bench.assert_same(found, want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("axis", "shape"), [(0, (2, 64, 64)), (-1, (4096, 3))])
def test_a_product_of_few_entries_is_split(axis: int, shape: tuple[int, ...]) -> None:
    x = np.resize(ZEROS[:, :7], shape)
    count = shape[axis]
    found = check(lambda x: jnp.prod(x, axis), [x])
    assert found == ["Gather"] * count + ["Mul"] * (count - 1)
    kept = check(lambda x: 1 / jnp.prod(x, axis, keepdims=True), [x])
    assert "ReduceProd" not in kept


def test_a_product_with_few_results_is_left() -> None:
    assert check(lambda x: jnp.prod(x, 0), [X]) == ["ReduceProd"]
