"""Edge values and sizes: NaN, infinities, signed zeros, limits that are not known, nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax2onnx
from testkit import bench

RNG = np.random.default_rng(0)
EDGES = np.array([-np.inf, -3, -1, -0.0, 0.0, 1, 3, np.inf, np.nan], np.float32)
TABLE = np.arange(10, dtype=np.float32) * 1.5


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jnp.clip(x, jnp.nan, 1.0),
        lambda x: jnp.clip(x, 0.0, jnp.nan),
        lambda x: lax.clamp(jnp.float32(jnp.nan), x, jnp.float32(1)),
        lambda x: jnp.clip(x, 2.0, 1.0),
        lambda x: jnp.where(x > 0, x, np.float32(np.inf) * x),
        lambda x: jnp.where(x >= 0, x, np.float32(np.nan) * x),
        lambda x: jnp.where(x > 0, x, np.float32(-2) * x),
        lambda x: jnp.where(x > 0, x, np.array([1, np.inf, np.nan] * 3, np.float32) * x),
        lambda x: jax.nn.elu(x, np.float32(np.inf)),
        lambda x: jax.nn.celu(x, np.float32(np.inf)),
    ],
)
def test_limits_and_slopes_that_are_not_finite_are_as_in_jax(fn: Any) -> None:
    bench.check(fn, [EDGES], rtol=2e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("softmax", [jax.nn.softmax, jax.nn.log_softmax])
@pytest.mark.parametrize("special", [[np.nan], [np.inf], [-np.inf], [np.inf, np.nan], [1e300]])
def test_a_special_number_anywhere_in_a_row_reaches_its_softmax(
    special: list[float], softmax: Any, dtype: Any
) -> None:
    rows = [np.roll([*special, 1.0, -2.0, 3.0], place) for place in range(len(special) + 3)]
    with np.errstate(over="ignore"):
        x = np.array(rows).astype(dtype)
    rtol = 16 * float(np.finfo(dtype).eps)
    for axis in (0, 1):
        fn = functools.partial(softmax, axis=axis)
        bench.check(fn, [x], double=dtype == np.float64, rtol=rtol)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.int8, np.uint8])
@pytest.mark.parametrize("limits", [(50, 100), (-5, 3), (7, 2), (0, 9)])
def test_an_index_between_limits_that_are_not_known_is_kept_in_bounds(
    dtype: Any, limits: tuple[int, int]
) -> None:
    def fn(x: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
        place = jnp.argmax(x).astype(dtype)
        return jnp.asarray(TABLE)[lax.clamp(low, place, high)]

    low, high = (np.array(limit).astype(dtype) for limit in limits)
    x = RNG.standard_normal(10).astype(np.float32)
    bench.check(fn, [x, low, high], double=dtype == np.int64)


@pytest.mark.parametrize("start", [0, -4, 5])
@pytest.mark.parametrize("step", [1, 3, -1, -2])
def test_the_bounds_of_a_range_know_its_step(start: int, step: int) -> None:
    def fn(x: jax.Array) -> jax.Array:
        places = start + step * jnp.arange(x.shape[0])
        return jnp.where(places < 0, -1.0, jnp.take(jnp.asarray(TABLE), places, mode="clip"))

    model = jax2onnx.to_onnx(fn, [("B", 2)])
    for rows in (0, 1, 2, 7):
        x = np.zeros((rows, 2), np.float32)
        for optimize in (True, False):
            [found] = bench.run(model, [x], optimize=optimize)
            np.testing.assert_array_equal(found, fn(jnp.asarray(x)))


AT: list[Callable[..., Any]] = [
    lambda x: x.at[0].set(1.0),
    lambda x: x.at[0].add(1.0),
    lambda x: x.at[-1].multiply(2.0),
    lambda x: x.at[:, 0].set(0.0),
    lambda x: x.at[0, 1].max(3.0),
    lambda x: lax.dynamic_update_slice(x, x[:1] * 2, (1, 0)),
    lambda x: lax.dynamic_slice_in_dim(x, 1, 1, 0)[0],
]


@pytest.mark.parametrize("fn", AT)
def test_an_entry_of_an_axis_of_any_size_is_updated(fn: Any) -> None:
    model = jax2onnx.to_onnx(fn, [("B", 4)])
    for rows in (1, 2, 7):
        x = RNG.standard_normal((rows, 4)).astype(np.float32)
        for optimize in (True, False):
            [found] = bench.run(model, [x], optimize=optimize)
            np.testing.assert_array_equal(found, fn(jnp.asarray(x)))


Q, K, V = (RNG.standard_normal((2, 5, 3, 4)).astype(np.float32) for _ in range(3))
TRIANGLE = np.tril(np.ones((5, 5), np.bool_))
LOWEST = float(np.finfo(np.float32).min)


def by_hand(fill: float, mask: Any) -> Callable[..., Any]:
    def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("bqnd,bknd->bnqk", q * 0.5, k)
        weights = jax.nn.softmax(jnp.where(mask, scores, fill))
        return jnp.einsum("bnqk,bknd->bqnd", weights, v)

    return attend


def causal(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def cached(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(q, k, v, key_value_seq_lengths=jnp.array([4, 3]))


def turned(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.where(~TRIANGLE, -1e9, jnp.einsum("bqnd,bknd->bnqk", q, k))
    return jnp.einsum("bnqk,bknd->bqnd", jax.nn.softmax(scores), v)


def zero_elsewhere(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.einsum("bqnd,bknd->bnqk", q, k)
    return jnp.einsum("bnqk,bknd->bqnd", jax.nn.softmax(scores, where=TRIANGLE), v)


def biased(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.einsum("bqnd,bknd->bnqk", q, k) + jnp.where(TRIANGLE, 0.0, LOWEST)
    return jnp.einsum("bnqk,bknd->bqnd", jax.nn.softmax(scores), v)


ATTENTIONS = [
    by_hand(-1e9, TRIANGLE),
    by_hand(LOWEST, TRIANGLE),
    by_hand(-np.inf, TRIANGLE),
    by_hand(-1e4, TRIANGLE),
    by_hand(-1e9, np.arange(5) < 3),
    by_hand(-1e9, np.zeros((5, 5), np.bool_)),
    by_hand(-np.inf, TRIANGLE & (np.arange(5) > 0)),
    causal,
    cached,
    turned,
    zero_elsewhere,
    biased,
]


# Sums of larger products overflow in some orders, and JAX's order depends on the CPU.
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 1e37])
@pytest.mark.parametrize("attend", ATTENTIONS)
def test_a_mask_chooses_and_does_not_add(attend: Any, special: float) -> None:
    key, query = K.copy(), Q.copy()
    key[:, 4], query[1, 3] = special, special
    bench.check(attend, [Q, key, V], rtol=2e-5, atol=2e-6)
    bench.check(attend, [query, K, V], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("attend", [by_hand(float(np.finfo(np.float32).min), TRIANGLE), causal])
def test_a_masked_attention_is_one_node_where_nan_is_ignored(attend: Any) -> None:
    model = bench.convert(attend, [Q, K, V], nan="ignore")
    assert "Attention" in [node.op_type for node in model.graph.node]
    [found], [wanted] = bench.run(model, [Q, K, V]), bench.expected(attend, [Q, K, V])
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_a_masked_sum_leaves_out_what_is_not_finite(special: float) -> None:
    x, keep = RNG.standard_normal((4, 6)).astype(np.float32), np.ones((4, 6), np.bool_)
    x[1, 2], x[2], keep[1, 2], keep[2] = special, special, False, False
    w = RNG.standard_normal((6,)).astype(np.float32)

    def total(x: jax.Array, keep: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        kept = jnp.where(keep, x, 0)
        weights = jax.nn.softmax(jnp.where(keep, x, -jnp.inf), where=keep)
        return kept.sum(0), (kept * w).sum(1), kept @ w, jnp.mean(x, 1, where=keep), weights

    bench.check(total, [x, keep, w], rtol=2e-6, atol=1e-6)


ZEROS = np.array([-0.0, 0.0, -0.0, 0.0, 1, -1, np.nan, np.inf, -np.inf], np.float32)
OTHERS = np.array([0.0, -0.0, -0.0, 0.0, -0.0, 0.0, 0.0, -0.0, 0.0], np.float32)


@pytest.mark.parametrize(
    "chosen",
    [
        lambda x, y: jnp.maximum(x, 0),
        lambda x, y: jnp.maximum(-0.0, x),
        lambda x, y: jnp.minimum(x, 0),
        lambda x, y: jnp.minimum(x, -0.0),
        lambda x, y: jnp.maximum(x, y),
        lambda x, y: jnp.minimum(x, y),
        lambda x, y: jax.nn.relu(x),
        lambda x, y: jax.nn.relu6(x),
        lambda x, y: jnp.clip(x, 0, 2),
        lambda x, y: jnp.clip(x, -1, 0),
        lambda x, y: lax.clamp(np.float32(-1), x, np.float32(-0.0)),
        lambda x, y: jnp.where(x <= 1, x, 1.0),
        lambda x, y: jnp.where(x <= y, x, y),
        lambda x, y: lax.cond(x[4] > y[4], jax.nn.relu, lambda x: x, x),
        lambda x, y: lax.fori_loop(0, 2, lambda i, x: jnp.maximum(x, 0) * 2, x),
    ],
)
@pytest.mark.parametrize(
    "tell",
    [
        lambda x: 1 / x,
        lambda x: (x * 2).reshape(3, 3) ** -1,
        lambda x: jnp.signbit(x),
        lambda x: jnp.arctan2(x, -1.0),
        lambda x: jnp.copysign(3.0, x),
    ],
)
def test_the_zero_of_a_choice_is_that_of_jax(chosen: Any, tell: Any) -> None:
    bench.check(lambda x, y: tell(chosen(x, y)), [ZEROS, OTHERS], rtol=2e-6)


def test_a_relu_is_one_node_where_nothing_tells_zeros_apart() -> None:
    w = RNG.standard_normal((9, 9)).astype(np.float32)

    def fn(x: jax.Array) -> tuple[jax.Array, ...]:
        h = jax.nn.relu(x @ w)
        return h, 1 / (jax.nn.relu(h @ w) + 1), 1 / (h @ w)

    model = bench.check(fn, [EDGES[1:7].repeat(2)[:9]], rtol=2e-5)
    ops = [node.op_type for node in model.graph.node]
    assert ops.count("Relu") == 2
    assert "Where" not in ops


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (x @ np.array([[1], [-1]], np.float32)) * np.float32(1e10),
        lambda x: (x @ np.array([[1], [-1]], np.float32) + 1) * np.float32(1e10),
        lambda x: (x * np.float32(1e10)) @ np.array([[1], [-1]], np.float32),
    ],
)
def test_a_scale_that_goes_into_weights_does_not_make_a_sum_overflow(fn: Any) -> None:
    x = np.array([[1e27, 1e27], [1e30, 1e30], [2, 3]], np.float32)
    model = jax2onnx.to_onnx(fn, [x])
    [found] = bench.run(model, [x], optimize=False)
    # Without `jax.jit`, because XLA of JAX 0.6 fuses the product with the sum.
    np.testing.assert_allclose(found, fn(jnp.asarray(x)), rtol=1e-6)


def test_a_shift_before_a_convolution_keeps_the_digits_that_are_left() -> None:
    w = RNG.standard_normal((2, 1, 1, 1)).astype(np.float32)

    def fn(x: jax.Array) -> jax.Array:
        return lax.conv(x - np.float32(1.6e9), w, (1, 1), "VALID")

    bench.check(fn, [np.full((1, 1, 2, 2), 1.6e9 + 3000, np.float32)], rtol=1e-6)
