"""`half="fast"` computes float16 and bfloat16 in float32."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import linen, nnx

import jax2onnx
from testkit import bench

RNG = np.random.default_rng(0)
HALVES = [jnp.float16, jnp.bfloat16]
#: The largest relative difference between neighbors of each type.
STEP = {jnp.float16: 2.0**-10, jnp.bfloat16: 2.0**-7}


def ops(model: onnx.ModelProto) -> Counter[str]:
    found: Counter[str] = Counter()

    def count(graph: onnx.GraphProto) -> None:
        for node in graph.node:
            found[node.op_type] += 1
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    count(attribute.g)

    count(model.graph)
    return found


def block(dtype: Any) -> Any:
    keys = jax.random.split(jax.random.key(0), 6)
    weights = [(jax.random.normal(key, (64, 64)) / 8).astype(dtype) for key in keys]

    def fn(x: jax.Array) -> jax.Array:
        mean = x.mean(-1, keepdims=True)
        variance = jnp.square(x - mean).mean(-1, keepdims=True)
        normed = (x - mean) * jax.lax.rsqrt(variance + jnp.asarray(1e-5, dtype))
        query, key, value = ((normed @ w).reshape(2, 8, 4, 16) for w in weights[:3])
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / jnp.asarray(4, dtype)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value)
        x = x + mixed.reshape(2, 8, 64) @ weights[3]
        return x + jax.nn.gelu(x @ weights[4]) @ weights[5]

    return fn


def assert_near(fn: Any, inputs: list[Any], dtype: Any, *, steps: float, **options: Any) -> Any:
    """Compare with JAX in units of the last digit of the largest number."""
    model = bench.convert(fn, inputs, half="fast", **options)
    for found, want in zip(bench.run(model, inputs), bench.expected(fn, inputs), strict=True):
        assert found.dtype == want.dtype
        found, want = np.asarray(found, np.float32), np.asarray(want, np.float32)
        np.testing.assert_allclose(
            found, want, rtol=0, atol=steps * STEP[dtype] * np.abs(want).max(initial=0)
        )
    return model


@pytest.mark.parametrize("dtype", HALVES)
def test_a_transformer_block_has_the_operators_of_float32(dtype: Any) -> None:
    x = RNG.standard_normal((2, 8, 64)).astype(dtype)
    model = assert_near(block(dtype), [x], dtype, steps=4)
    wide = bench.convert(block(jnp.float32), [x.astype(np.float32)])
    casts = ops(model).pop("Cast")
    # One for the input, one for the output, and one for each weight, which stays in 16 bits.
    assert casts == 8
    assert ops(model) - Counter(Cast=casts) == ops(wide)
    exact = bench.convert(block(dtype), [x])
    assert ops(exact)["Cast"] > 40


@pytest.mark.parametrize("dtype", HALVES)
def test_weights_keep_their_type_and_every_cast_has_a_line(dtype: Any) -> None:
    layer = linen.Dense(64, dtype=dtype, param_dtype=dtype)
    x = RNG.standard_normal((4, 128)).astype(dtype)
    params = layer.init(jax.random.key(0), x)
    model = assert_near(lambda x: layer.apply(params, x), [x], dtype, steps=2, provenance="minimal")
    kernel = next(each for each in model.graph.initializer if list(each.dims) == [128, 64])
    assert kernel.data_type == onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    for node in model.graph.node:
        assert any(entry.key == "pkg.jax2onnx.callsite" for entry in node.metadata_props), node.name


def test_only_a_model_with_half_precision_is_marked() -> None:
    def keys(x: Any) -> list[str]:
        model = bench.convert(jnp.tanh, [x], half="fast")
        return [entry.key for entry in model.metadata_props]

    assert keys(np.ones(3, np.float32)) == []
    assert keys(np.ones(3, np.float16)) == ["pkg.jax2onnx.half"]


@pytest.mark.parametrize("dtype", HALVES)
def test_bits_neighbors_and_random_numbers_are_those_of_the_type(dtype: Any) -> None:
    def fn(x: jax.Array, key: jax.Array) -> tuple[jax.Array, ...]:
        doubled = x + x
        bits = jax.lax.bitcast_convert_type(doubled, jnp.uint16)
        return bits, jnp.nextafter(doubled, jnp.ones_like(x)), jax.random.uniform(key, (5,), dtype)

    inputs = [RNG.standard_normal(7).astype(dtype), np.array([3, 4], np.uint32)]
    model = bench.convert(fn, inputs, half="fast")
    for found, want in zip(bench.run(model, inputs), bench.expected(fn, inputs), strict=True):
        np.testing.assert_array_equal(np.asarray(found, np.float32), np.asarray(want, np.float32))


@pytest.mark.parametrize("dtype", HALVES)
def test_loops_and_branches_carry_float32(dtype: Any) -> None:
    weight = (RNG.standard_normal((6, 6)) / 3).astype(dtype)

    def fn(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(state: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
            state = jnp.tanh(state @ weight + row)
            return state, jax.lax.cond(state[0] > 0, jnp.sin, jnp.cos, state)

        return jax.lax.scan(step, jnp.zeros(6, dtype), x)

    model = assert_near(fn, [RNG.standard_normal((9, 6)).astype(dtype)], dtype, steps=8)
    scan = next(node for node in model.graph.node if node.op_type in {"Scan", "Loop"})
    body = next(each.g for each in scan.attribute if each.HasField("g"))
    assert all(node.op_type != "Cast" for node in body.node)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
def test_networks_of_flax_agree_with_jax(dtype: Any) -> None:
    class Net(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            kind = {"dtype": dtype, "param_dtype": dtype, "rngs": rngs}
            self.conv = nnx.Conv(3, 8, (3, 3), **kind)
            self.norm = nnx.GroupNorm(8, num_groups=2, **kind)
            self.out = nnx.Linear(8, 4, **kind)

        def __call__(self, x: jax.Array) -> jax.Array:
            x = nnx.silu(self.norm(self.conv(x)))
            return jax.nn.log_softmax(self.out(nnx.max_pool(x, (2, 2), (2, 2)).mean((1, 2))))

    net = Net(nnx.Rngs(0))
    x = RNG.standard_normal((2, 8, 8, 3)).astype(dtype)
    assert_near(lambda x: net(x), [x], dtype, steps=8)


@pytest.mark.slow
def test_compare_finds_no_fault_in_a_fast_model() -> None:
    fn = block(jnp.float16)
    x = RNG.standard_normal((2, 8, 64)).astype(np.float16)
    model = jax2onnx.to_onnx(fn, [x], half="fast", provenance="indexed")
    assert jax2onnx.compare(fn, model, [x]).first is None
