"""Attention in the spellings of libraries and users: the operators, and the numbers of JAX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

from testkit import bench

from .test_idioms_products import FUSED, Fn, array, check

BATCH, ROWS, HEADS, SIZE = 2, 6, 4, 8
X = array(BATCH, ROWS, HEADS * SIZE)
WEIGHTS = 0.1 * array(HEADS * SIZE, 3 * HEADS * SIZE, seed=1)
Q, K, V = (array(BATCH, ROWS, 6, SIZE, seed=seed) for seed in range(3))
# No score is lower.
LOWEST = np.finfo(np.float32).min
FEW = (K[:, :, :2], V[:, :, :2])


def attend(q: Any, k: Any, v: Any) -> Any:
    weights = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(np.float32(SIZE)))
    return jnp.einsum("bhts,bshd->bthd", weights, v)


def attributes(fn: Fn, inputs: Sequence[np.ndarray]) -> dict[str, Any]:
    model = bench.convert(fn, inputs)
    (node,) = [node for node in model.graph.node if node.op_type == "Attention"]
    return {attribute.name: attribute.i for attribute in node.attribute}


def joined(x: Any) -> Any:
    return x.reshape(*x.shape[:2], -1)


def split_by_head(x: Any) -> Any:
    heads = (x @ WEIGHTS).reshape(BATCH, ROWS, HEADS, 3 * SIZE)
    return joined(attend(*jnp.split(heads, 3, -1)))


def split_whole(x: Any) -> Any:
    parts = jnp.split(x @ WEIGHTS, 3, -1)
    return joined(attend(*(part.reshape(BATCH, ROWS, HEADS, SIZE) for part in parts)))


def stacked(x: Any) -> Any:
    qkv = (x @ WEIGHTS).reshape(BATCH, ROWS, 3, HEADS, SIZE)
    return joined(attend(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]))


def unstacked(x: Any) -> Any:
    qkv = (x @ WEIGHTS).reshape(BATCH, ROWS, 3, HEADS, SIZE)
    return joined(attend(*jnp.unstack(qkv, axis=2)))


def stacked_by_head(x: Any) -> Any:
    qkv = (x @ WEIGHTS).reshape(BATCH, ROWS, 3, HEADS, SIZE).transpose(2, 0, 3, 1, 4)
    scores = qkv[0] @ qkv[1].swapaxes(-1, -2) * SIZE**-0.5
    return joined((jax.nn.softmax(scores) @ qkv[2]).transpose(0, 2, 1, 3))


def stacked_in_heads(x: Any) -> Any:
    qkv = (x @ WEIGHTS).reshape(BATCH, ROWS, HEADS, 3, SIZE)
    return joined(attend(qkv[..., 0, :], qkv[..., 1, :], qkv[..., 2, :]))


@pytest.mark.parametrize("fn", [split_whole, stacked, unstacked, stacked_by_head])
def test_one_projection_for_all_three_is_split_once(fn: Fn) -> None:
    assert check(fn, (X,)) == ["MatMul", "Split", "Attention"]


@pytest.mark.parametrize("fn", [split_by_head, stacked_in_heads])
def test_one_projection_for_all_three_of_each_head(fn: Fn) -> None:
    found = check(fn, (X,))
    assert found == ["MatMul", "Reshape", "Split", *["Reshape"] * 3, "Attention"]


def test_a_part_that_is_read_twice_is_not_split() -> None:
    def shared(x: Any) -> Any:
        qk = (x @ WEIGHTS[:, : 2 * HEADS * SIZE]).reshape(BATCH, ROWS, 2, HEADS, SIZE)
        return joined(attend(qk[:, :, 0], qk[:, :, 1], qk[:, :, 1]))

    found = check(shared, (X,))
    assert "Attention" in found
    assert "Split" not in found


def test_heads_that_are_apart_stay_so() -> None:
    def apart(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.softmax(q @ k.swapaxes(-1, -2)) @ v

    inputs = (array(2, 3, 5, 8), array(2, 3, 7, 8, seed=1), array(2, 3, 7, 4, seed=2))
    assert check(apart, inputs) == ["Attention"]


def test_grouped_queries_without_a_mask_are_one_node() -> None:
    assert check(jax.nn.dot_product_attention, (Q, *FEW)) == FUSED
    found = attributes(jax.nn.dot_product_attention, (Q, *FEW))
    assert (found["q_num_heads"], found["kv_num_heads"]) == (6, 2)


def test_grouped_queries_with_symbolic_sizes_are_one_node() -> None:
    specs = [("B", "T", heads, SIZE) for heads in (6, 2, 2)]
    assert check(jax.nn.dot_product_attention, (Q, *FEW), specs) == FUSED


def test_grouped_queries_by_hand_are_one_node() -> None:
    def grouped(q: Any, k: Any, v: Any) -> Any:
        q = q.reshape(BATCH, ROWS, 2, 3, SIZE)
        weights = jax.nn.softmax(jnp.einsum("btkgh,bskh->bkgts", q, k))
        return jnp.einsum("bkgts,bskh->btkgh", weights, v).reshape(Q.shape)

    assert check(grouped, (Q, *FEW)) == FUSED


def test_repeated_heads_that_are_apart_are_shared() -> None:
    def grouped(q: Any, k: Any, v: Any) -> Any:
        k, v = jnp.repeat(k, 3, axis=1), jnp.repeat(v, 3, axis=1)
        return jax.nn.softmax(q @ k.swapaxes(2, 3)) @ v

    inputs = (array(2, 6, 5, 8), array(2, 2, 7, 8, seed=1), array(2, 2, 7, 8, seed=2))
    assert check(grouped, inputs) == ["Attention"]


def test_keys_that_are_repeated_otherwise_than_values_are_not_shared() -> None:
    def grouped(q: Any, k: Any, v: Any) -> Any:
        k, v = jnp.repeat(k, 3, axis=1), jnp.tile(v, (1, 3, 1, 1))
        return jax.nn.softmax(q @ k.swapaxes(2, 3)) @ v

    inputs = (array(2, 6, 5, 8), array(2, 2, 7, 8, seed=1), array(2, 2, 7, 8, seed=2))
    found = check(grouped, inputs)
    assert "Attention" in found
    assert "Expand" in found


def test_one_key_for_all_heads() -> None:
    def shared(q: Any, k: Any, v: Any) -> Any:
        weights = jax.nn.softmax(jnp.einsum("bthd,bsd->bhts", q, k))
        return jnp.einsum("bhts,bsd->bthd", weights, v)

    inputs = (Q[:, :, :4], K[:, :, 0], V[:, :, 0])
    assert check(shared, inputs) == ["Reshape", "Attention", "Reshape"]
    assert attributes(shared, inputs)["kv_num_heads"] == 1
    assert check(jax.nn.dot_product_attention, (Q[:, :, :4], K[:, :, :1], V[:, :, :1])) == FUSED


def test_one_key_that_is_broadcast() -> None:
    def shared(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.softmax(q @ k.swapaxes(-1, -2)) @ v

    inputs = (array(2, 4, 5, 8), array(2, 1, 7, 8, seed=1), array(2, 1, 7, 8, seed=2))
    assert check(shared, inputs) == ["Attention"]


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_nan_and_infinities_are_as_in_jax(special: float) -> None:
    inputs = [Q.copy(), FEW[0].copy(), FEW[1].copy()]
    inputs[0][0, 1, 2, 3] = special
    inputs[2][1, 0, 0, 5] = special
    assert check(jax.nn.dot_product_attention, inputs) == FUSED


def test_attention_under_vmap() -> None:
    assert check(jax.vmap(jax.nn.dot_product_attention), (Q, K, V)) == FUSED


def test_a_causal_mask_of_any_length_is_an_attribute() -> None:
    def causal(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    assert check(causal, (Q, K, V), [("B", "T", 6, SIZE)] * 3, nan="ignore") == FUSED


def by_tril(x: Any) -> Any:
    return jnp.tril(jnp.ones((1, 1, x.shape[1], x.shape[1]), bool))


def by_numbers(x: Any) -> Any:
    return jnp.tril(jnp.ones((x.shape[1], x.shape[1]))) != 0


def by_linen(x: Any) -> Any:
    return linen.make_causal_mask(x[..., 0, 0], dtype=jnp.bool_)


def by_nnx(x: Any) -> Any:
    return nnx.make_causal_mask(x[..., 0, 0]) > 0


@pytest.mark.parametrize("sizes", [("B", "T"), ("B", ROWS), (BATCH, "T")])
@pytest.mark.parametrize("mask", [by_tril, by_numbers, by_linen, by_nnx])
def test_a_causal_mask_in_any_spelling_is_an_attribute(mask: Fn, sizes: Any) -> None:
    def causal(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.where(mask(q), jnp.einsum("bthd,bshd->bhts", q, k), LOWEST)
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v)

    assert check(causal, (Q, K, V), [(*sizes, 6, SIZE)] * 3, nan="ignore") == FUSED


def test_scores_below_the_number_of_a_mask_keep_the_formula() -> None:
    def causal(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.where(by_tril(q), jnp.einsum("bthd,bshd->bhts", q, k), -1e9)
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v)

    large = 1e5 * np.ones_like(Q)
    assert "Attention" not in check(causal, (large, -large, V), nan="ignore")


def test_a_mask_of_any_length_is_repeated_for_all_rows() -> None:
    def padded(q: Any, k: Any, v: Any, lengths: Any) -> Any:
        is_there = (jnp.arange(k.shape[1]) < lengths[:, None])[:, None, None]
        scores = jnp.where(is_there, jnp.einsum("bthd,bshd->bhts", q, k), LOWEST)
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v)

    lengths = np.array([3, 0], np.int32)
    specs = ["f32[B,T,6,8]"] * 3 + ["i32[B]"]
    found = check(padded, (Q, K, V, lengths), specs, nan="ignore")
    assert found.count("Attention") == found.count("Expand") == 1
    assert "Softmax" not in found


def test_a_bias_and_a_mask_of_any_length() -> None:
    table = array(11, 6, seed=5)

    def biased(q: Any, k: Any, v: Any) -> Any:
        places = jnp.arange(q.shape[1])
        offset = jnp.clip(places - places[:, None] + 5, 0, 10)
        bias = jnp.moveaxis(jnp.asarray(table)[offset], -1, 0)
        scores = jnp.einsum("bthd,bshd->bhts", q, k) + bias
        scores = jnp.where(places[:, None] >= places, scores, LOWEST)
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v)

    found = check(biased, (Q, K, V), [("B", "T", 6, SIZE)] * 3, nan="ignore")
    assert "Attention" in found
    assert "Softmax" not in found


def test_a_strict_triangle_of_any_length_is_not_causal() -> None:
    def strict(q: Any, k: Any, v: Any) -> Any:
        rows = jnp.arange(q.shape[1])
        mask = rows[:, None] > rows
        return jax.nn.dot_product_attention(q, k, v, mask=mask[None, None])

    assert "Attention" in check(strict, (Q, K, V), [("B", "T", 6, SIZE)] * 3, nan="ignore")


def test_lengths_of_keys() -> None:
    def padded(q: Any, k: Any, v: Any) -> Any:
        lengths = jnp.array([4, 6])
        return jax.nn.dot_product_attention(
            q, k, v, query_seq_lengths=lengths - 1, key_value_seq_lengths=lengths
        )

    assert "Attention" in check(padded, (Q, K, V), nan="ignore")


def test_a_small_number_that_leaves_something_in_each_row_does_not_mask() -> None:
    triangle = np.tril(np.ones((ROWS, ROWS), np.bool_))

    def biased(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bthd,bshd->bhts", q, k)
        weights = jax.nn.softmax(jnp.where(triangle, scores, -2.0))
        return jnp.einsum("bhts,bshd->bthd", weights, v)

    assert "Attention" not in check(biased, (Q, K, V))


def test_a_scale_after_a_bias_keeps_the_formula() -> None:
    def scaled(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bthd,bshd->bhts", q, k) + 0.1 * array(ROWS, ROWS)
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores * 0.3), v)

    assert "Attention" not in check(scaled, (Q, K, V))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_the_block_of_equinox(batched: bool, masked: bool) -> None:
    block = eqx.nn.MultiheadAttention(HEADS, 32, use_query_bias=True, key=jax.random.key(0))
    mask = np.tril(np.ones((ROWS, ROWS), np.bool_)) if masked else None

    def attention(x: Any) -> Any:
        return block(x, x, x, mask=mask)

    fn, x = (jax.vmap(attention), X) if batched else (attention, X[0])
    found = check(fn, (x,), nan="ignore")
    assert "Attention" in found
    assert "Transpose" not in found
    if batched:
        assert check(fn, (x,), [("B", ROWS, 32)], nan="ignore") == found


def test_a_mask_beside_a_bias_is_one_choice() -> None:
    def both(q: Any, k: Any, v: Any, mask: Any, bias: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, mask=mask, bias=bias)

    mask = array(BATCH, 1, ROWS, ROWS, seed=3) > 0
    mask[0, 0, 2] = False
    found = check(both, (Q, K, V, mask, array(BATCH, 6, ROWS, ROWS, seed=4)))
    assert "And" not in found
    assert (found.count("Where"), len(found)) == (1, 10)


@pytest.mark.parametrize(("target", "count"), [(None, 0), ("onnxruntime>=1.27", 1)])
def test_attention_with_capped_scores_and_a_mask_needs_a_newer_release(
    target: str | None, count: int
) -> None:
    def capped(q: Any, k: Any, v: Any) -> Any:
        scores = 3 * jnp.tanh(jnp.einsum("bthd,bshd->bhts", q, k) / 3)
        bias = -0.5 * jnp.abs(jnp.arange(ROWS)[:, None] - jnp.arange(ROWS))
        return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores + bias), v)

    model = bench.convert(capped, (Q, K, V), target=target)
    assert [node.op_type for node in model.graph.node].count("Attention") == count
    if target is None:
        bench.check(capped, (Q, K, V), rtol=1e-5, atol=1e-5)
