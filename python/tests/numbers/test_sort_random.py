"""Sorting and random numbers where tables of cases do not reach: named sizes, settings, limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax, random

import jax2onnx
from testkit import bench

KEY = random.key(11)
KEY_SPEC = jax.ShapeDtypeStruct((), KEY.dtype)
SIZES = (1, 7, 0)


def floats(*shape: int) -> np.ndarray:
    few = np.array([0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, -3.0], np.float32)
    return np.random.default_rng(sum(shape)).choice(few, shape)


def check(model: onnx.ModelProto, fn: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    found = bench.run(model, inputs)
    for one_found, one_want in zip(found, bench.expected(fn, inputs), strict=True):
        bench.assert_same(one_found, one_want)


@pytest.mark.parametrize("axis", [0, 1])
def test_an_axis_of_any_size_is_sorted(axis: int) -> None:
    def fn(x: jax.Array) -> Any:
        index = lax.broadcasted_iota(jnp.int32, x.shape, 0)
        return lax.sort((x, index), dimension=axis), jnp.sort(index + 3, axis=axis)

    model = jax2onnx.to_onnx(fn, [("A", "B")])
    for rows in SIZES:
        for columns in SIZES:
            check(model, fn, (floats(rows, columns),))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jnp.argsort(x, 0),
        lambda x: jnp.argsort(-x, 1),
        lambda x: x[:, 0][jnp.argsort(-x[:, 1])],
        lambda x: jnp.take_along_axis(x, jnp.argsort(x, -1), -1),
        jax.vmap(lambda row: row[jnp.argsort(row)]),
        lambda x: x[jnp.argmax(x[:, 1])],
        lambda x: x[0][lax.top_k(x[1], 3)[1]],
    ],
)
def test_places_are_looked_up_nowhere(fn: Callable[..., Any]) -> None:
    x = floats(6, 5)
    model = jax2onnx.to_onnx(fn, [(6, 5)])
    constants = {tensor.name for tensor in model.graph.initializer if len(tensor.dims) > 0}
    for node in model.graph.node:
        if node.op_type.startswith("Gather"):
            assert node.input[0] not in constants
        assert node.op_type not in ("Clip", "Less", "Greater")
    check(model, fn, (x,))


@pytest.mark.parametrize("sizes", [("B",), (5, "B"), ("B", 5)])
def test_places_of_any_number_of_entries(sizes: tuple[Any, ...]) -> None:
    def fn(x: jax.Array) -> Any:
        order = jnp.argsort(x, -1)
        return order, jnp.take_along_axis(x, order, -1)

    model = jax2onnx.to_onnx(fn, [sizes])
    for size in SIZES:
        shape = (size if name == "B" else name for name in sizes)
        check(model, fn, (floats(*shape) + 0.0,))


def test_the_largest_of_any_number_of_rows() -> None:
    def fn(x: jax.Array) -> Any:
        return lax.top_k(x, 3), lax.top_k(x.T[:0], x.shape[0])

    model = jax2onnx.to_onnx(fn, [("B", 5)])
    for rows in SIZES:
        check(model, fn, (floats(rows, 5),))


def test_as_many_random_numbers_as_there_are_rows() -> None:
    def fn(key: Any, x: jax.Array) -> Any:
        return random.uniform(key, x.shape), random.bits(key, (x.shape[0], 2), jnp.uint8)

    model = jax2onnx.to_onnx(fn, [KEY_SPEC, ("B", 3)])
    for rows in SIZES:
        check(model, fn, (KEY, floats(rows, 3)))


@pytest.mark.slow
def test_as_many_random_numbers_as_there_are_keys() -> None:
    def fn(keys: Any) -> Any:
        return jax.vmap(lambda key: random.bits(key, (3,)))(keys), jax.vmap(random.split)(keys)

    (size,) = jax.export.symbolic_shape("B")
    model = jax2onnx.to_onnx(fn, [jax.ShapeDtypeStruct((size,), KEY.dtype)])
    for count in SIZES:
        check(model, fn, (random.split(KEY, count),))


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("shape", [(), (1,), (3, 3), (0,), (8,)])
def test_the_bits_of_the_other_setting(width: int, shape: tuple[int, ...]) -> None:
    def fn(keys: Any) -> Any:
        bits = jax.vmap(lambda key: random.bits(key, shape, f"uint{width}"))(keys)
        return bits, random.split(keys[0], (3,)), random.fold_in(keys[1], 4)

    keys = random.split(KEY, 2)
    with jax.threefry_partitionable(False):
        model = bench.convert(fn, (keys,), double=True)
        want = bench.expected(fn, (keys,), double=True)
    for one_found, one_want in zip(bench.run(model, (keys,)), want, strict=True):
        bench.assert_same(one_found, one_want)


@pytest.mark.slow
@pytest.mark.parametrize("partitionable", [True, False])
def test_gamma_numbers_of_either_setting(partitionable: bool) -> None:
    def fn(key: Any, a: jax.Array) -> Any:
        return random.gamma(key, a)

    a = np.geomspace(0.2, 9.0, 7, dtype=np.float32)
    with jax.threefry_partitionable(partitionable):
        model = jax2onnx.to_onnx(fn, [KEY_SPEC, ("B",) if partitionable else (7,)])
        for size in SIZES if partitionable else (7,):
            (want,) = bench.expected(fn, (KEY, a[:size]))
            (found,) = bench.run(model, (KEY, a[:size]))
            bench.assert_same(found, want, rtol=1e-6)


def test_the_other_setting_needs_known_sizes() -> None:
    with (
        jax.threefry_partitionable(False),
        pytest.raises(jax2onnx.UnsupportedError, match="unknown"),
    ):
        jax2onnx.to_onnx(lambda k, x: random.bits(k, x.shape), [KEY_SPEC, ("B",)])
