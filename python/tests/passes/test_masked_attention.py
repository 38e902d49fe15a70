"""Masked attention in self-attention: one node, and NaN where JAX returns NaN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

from testkit import bench

BATCH, ROWS, WIDTH, HEADS = 3, 8, 160, 4
RNG = np.random.default_rng(0)
X = RNG.standard_normal((BATCH, ROWS, WIDTH)).astype(np.float32)
#: The last sequence is padding alone.
LENGTHS = np.array([ROWS, 5, 0], np.int32)
TRIANGLE = np.tril(np.ones((ROWS, ROWS), np.bool_))
BIAS = RNG.standard_normal((HEADS, ROWS, ROWS)).astype(np.float32)
LOWEST = np.finfo(np.float32).min
QUERY, KEY, VALUE = (0.1 * RNG.standard_normal((3, WIDTH, WIDTH))).astype(np.float32)

Fn = Callable[..., Any]


def normalized(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(
    query: np.ndarray = QUERY,
    key: np.ndarray = KEY,
    value: np.ndarray = VALUE,
    normalize: Fn = normalized,
    of_query: Fn = lambda x: x,
    mask: Fn = lambda scores, is_there: jnp.where(is_there, scores, -1e9),
    weigh: Fn | None = None,
) -> Fn:
    """Self-attention over sequences of a length. `weigh` makes weights of scores and their mask."""

    def attend(x: Any, lengths: Any) -> Any:
        rows = normalize(x)
        q, k, v = of_query(rows) @ query, rows @ key, rows @ value
        q, k, v = (part.reshape(BATCH, ROWS, HEADS, WIDTH // HEADS) for part in (q, k, v))
        scores = jnp.einsum("bqnd,bknd->bnqk", q, k) / np.float32(np.sqrt(WIDTH // HEADS))
        is_there = (jnp.arange(ROWS) < lengths[:, None])[:, None, None]
        masked = mask(scores, is_there)
        weights = weigh(scores, is_there) if weigh else jax.nn.softmax(masked)
        return jnp.einsum("bnqk,bknd->bqnd", weights, v).reshape(x.shape)

    return attend


def of_linen() -> Fn:
    class Block(linen.Module):
        @linen.compact
        def __call__(self, x: Any, lengths: Any) -> Any:
            y = linen.LayerNorm()(x)
            is_there = jnp.arange(ROWS) < lengths[:, None]
            return linen.SelfAttention(HEADS)(y, mask=linen.make_attention_mask(is_there, is_there))

    block = Block()
    variables = block.init(jax.random.key(0), X, LENGTHS)
    return lambda x, lengths: block.apply(variables, x, lengths)


def of_nnx(**options: Any) -> Fn:
    norm = nnx.RMSNorm(WIDTH, rngs=nnx.Rngs(0))
    block = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=nnx.Rngs(1), **options)
    return lambda x, _: block(norm(x), mask=nnx.make_causal_mask(x[..., 0]))


def of_equinox() -> Fn:
    norm = eqx.nn.LayerNorm(WIDTH)
    block = eqx.nn.MultiheadAttention(HEADS, WIDTH, key=jax.random.key(0))

    def attend(x: Any, _: Any) -> Any:
        rows = jax.vmap(norm)(x)
        return block(rows, rows, rows, mask=TRIANGLE)

    return jax.vmap(attend)


def of_haiku() -> Fn:
    def attend(x: Any, _: Any) -> Any:
        rows = hk.LayerNorm(-1, True, True)(x)
        block = hk.MultiHeadAttention(HEADS, WIDTH // HEADS, w_init_scale=1.0)
        return block(rows, rows, rows, TRIANGLE[None, None])

    transformed = hk.without_apply_rng(hk.transform(attend))
    parameters = transformed.init(jax.random.key(0), X, LENGTHS)
    return lambda x, lengths: transformed.apply(parameters, x, lengths)


def rotated(x: Any) -> Any:
    angles = jnp.arange(ROWS)[:, None] / 1e4 ** (jnp.arange(0, x.shape[-1], 2) / x.shape[-1])
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def of_grouped_queries() -> Fn:
    def attend(x: Any, _: Any) -> Any:
        rows = x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * 1.5
        q, k, v = rows @ QUERY, rows @ KEY[:, :80], rows @ VALUE[:, :80]
        q, k, v = (part.reshape(BATCH, ROWS, -1, WIDTH // HEADS) for part in (q, k, v))
        found = jax.nn.dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        return found.reshape(x.shape)

    return attend


def masked_after_bias(scores: Any, is_there: Any) -> Any:
    return jnp.where(is_there, scores + BIAS, -1e9)


def two_biases(scores: Any, is_there: Any) -> Any:
    return scores + BIAS + jnp.where(is_there, 0.0, -1e9)


def sum_of_biases(scores: Any, is_there: Any) -> Any:
    return scores + (BIAS + jnp.where(is_there, 0.0, LOWEST))


def bias_after_lowest(scores: Any, is_there: Any) -> Any:
    return jnp.where(is_there, scores, LOWEST) + BIAS


def two_masks(scores: Any, is_there: Any) -> Any:
    return jnp.where(is_there, jnp.where(TRIANGLE, scores, -1e9), -1e9)


def slopes(scores: Any, _: Any) -> Any:
    places = jnp.arange(ROWS)
    slope = 2.0 ** -jnp.arange(1.0, HEADS + 1)[:, None, None]
    return jnp.where(TRIANGLE, scores - slope * jnp.abs(places[:, None] - places), -jnp.inf)


def bias_after_mask(scores: Any, is_there: Any) -> Any:
    return jnp.where(is_there, scores, -1e9) + BIAS


def masks_by_two_numbers(scores: Any, is_there: Any) -> Any:
    return jnp.where(is_there, jnp.where(TRIANGLE, scores, -1e9), -1e30)


def masks_that_hide_a_row(scores: Any, is_there: Any) -> Any:
    return jnp.where(is_there, jnp.where(TRIANGLE, scores, -jnp.inf), -jnp.inf)


def lowest_beside_mask(scores: Any, is_there: Any) -> Any:
    return jnp.where(is_there, scores + np.where(TRIANGLE, 0.0, LOWEST), -1e9)


def scaled_after_bias(scores: Any, is_there: Any) -> Any:
    bias = jnp.where(is_there, BIAS, 0.5)
    return jnp.where(TRIANGLE, (scores - bias) * 0.5, -1e9)


def scaled_after_mask(scores: Any, is_there: Any) -> Any:
    return 0.5 * jnp.where(is_there, scores, -1e12)


def capped(scores: Any) -> Any:
    return 3.0 * jnp.tanh(scores / 3.0)


def masked_after_cap(scores: Any, is_there: Any) -> Any:
    return jnp.where(is_there, capped(scores) + BIAS, -1e9)


def zero(scores: Any, is_there: Any, lowest: float = -1e9) -> Any:
    weights = jax.nn.softmax(jnp.where(is_there, scores, lowest))
    return jnp.where(is_there, weights, 0.0)


def zero_by_bias(scores: Any, is_there: Any) -> Any:
    weights = jax.nn.softmax(scores + jnp.where(is_there, 0.0, LOWEST))
    return jnp.where(is_there, weights, 0.0)


def zero_where_missing(scores: Any, is_there: Any) -> Any:
    weights = jax.nn.softmax(jnp.where(~is_there, -1e9, scores))
    return jnp.where(~is_there, 0.0, weights)


def zero_by_another_mask(scores: Any, is_there: Any) -> Any:
    weights = jax.nn.softmax(jnp.where(TRIANGLE, scores, -1e9))
    return jnp.where(is_there, weights, 0.0)


def zero_by_one_of_two(scores: Any, is_there: Any) -> Any:
    return zero(jnp.where(TRIANGLE, scores, -1e9), is_there)


def zero_before_bias(scores: Any, is_there: Any) -> Any:
    weights = jax.nn.softmax(jnp.where(is_there, scores, LOWEST) + BIAS)
    return jnp.where(is_there, weights, 0.0)


FUSED = {
    "formula": attention,
    "linen": of_linen,
    "nnx": of_nnx,
    "nnx, normalized": lambda: of_nnx(normalize_qk=True),
    "equinox": of_equinox,
    "haiku": of_haiku,
    "grouped queries": of_grouped_queries,
    "tanh": lambda: attention(normalize=jnp.tanh),
    "reversed": lambda: attention(normalize=lambda x: normalized(x)[:, ::-1]),
    "of two sequences": lambda: attention(normalize=lambda x: normalized(x) + normalized(x)[::-1]),
    "a value of NaN": lambda: attention(value=with_number(VALUE, np.nan)),
    "a large key": lambda: attention(key=with_number(KEY, 1e5)),
}
IN_PARTS = {
    "not normalized": lambda: attention(normalize=lambda x: x * 2),
    "queries not normalized": lambda: attention(of_query=lambda x: x / x.max()),
    "queries of another sequence": lambda: attention(of_query=lambda x: x[::-1]),
    "a key of NaN": lambda: attention(key=with_number(KEY, np.nan)),
    "a key that makes scores lower than the mask": lambda: attention(key=with_number(KEY, 1e8)),
    "an infinite key": lambda: attention(key=with_number(KEY, np.inf)),
    "an infinite query": lambda: attention(query=with_number(QUERY, -np.inf)),
}

ONE_ARRAY = [
    masked_after_bias,
    two_biases,
    sum_of_biases,
    bias_after_lowest,
    two_masks,
    slopes,
]
SEVERAL_ARRAYS = [
    scaled_after_bias,
    scaled_after_mask,
    lambda scores, is_there: capped(jnp.where(is_there, scores, -1e9)),
    lambda scores, is_there: 2.0 * jnp.where(is_there, capped(scores), -1e9),
    bias_after_mask,
    masks_by_two_numbers,
    masks_that_hide_a_row,
    lowest_beside_mask,
]
ZERO_WEIGHTS = [
    zero,
    lambda scores, is_there: zero(scores, is_there, -np.inf),
    lambda scores, is_there: zero(scores, is_there & TRIANGLE),
    lambda scores, is_there: jax.nn.softmax(scores, where=is_there),
    zero_by_bias,
    zero_where_missing,
]
#: Weights of capped scores, to which older releases add the mask first.
CAPPED: list[Fn] = [
    lambda scores, is_there: jax.nn.softmax(masked_after_cap(scores, is_there)),
    lambda scores, is_there: zero(capped(scores) - BIAS, is_there),
]
OTHER_WEIGHTS = [
    zero_by_another_mask,
    zero_by_one_of_two,
    zero_before_bias,
    lambda scores, is_there: jnp.where(is_there, jax.nn.softmax(scores), 0.0),
    lambda scores, is_there: zero(scores, is_there, -9.0),
]
#: Nothing, a number that is kept, one that is masked.
PLACES = [None, (0, 7, 1), (1, 6, 0)]
ALL_PLACES = [*PLACES, (0, 0, 3), (1, 2, 9), (2, 4, 2)]


def with_number(weights: np.ndarray, number: float) -> np.ndarray:
    changed = weights.copy()
    changed[3, 5] = number
    return changed


def check(
    fn: Fn, is_fused: bool, places: Sequence[Any] = ALL_PLACES, target: str | None = None
) -> None:
    """Compare results for NaN and infinities in rows that are kept, masked, or both."""
    model = bench.convert(fn, [X, LENGTHS], target=target)
    assert ("Attention" in [node.op_type for node in model.graph.node]) == is_fused
    for place in places:
        for number in [np.nan, np.inf, -np.inf] if place else [None]:
            x = X.copy()
            if place:
                x[place] = number
            [found], [wanted] = bench.run(model, [x, LENGTHS]), bench.expected(fn, [x, LENGTHS])
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", FUSED)
def test_self_attention_of_a_norm_is_one_node(name: str) -> None:
    check(FUSED[name](), is_fused=True)


@pytest.mark.parametrize("name", IN_PARTS)
def test_scores_that_only_jax_masks_stay_in_parts(name: str) -> None:
    check(IN_PARTS[name](), is_fused=False)


@pytest.mark.parametrize("mask", ONE_ARRAY)
def test_masks_and_biases_are_added_as_one_array(mask: Fn) -> None:
    check(attention(mask=mask), is_fused=True, places=PLACES)


@pytest.mark.parametrize("mask", SEVERAL_ARRAYS)
def test_masks_that_no_array_replaces_stay_in_parts(mask: Fn) -> None:
    check(attention(mask=mask), is_fused=False, places=PLACES)


@pytest.mark.parametrize("weigh", ZERO_WEIGHTS)
def test_masked_weights_may_be_zero(weigh: Fn) -> None:
    check(attention(weigh=weigh), is_fused=True, places=PLACES)


@pytest.mark.parametrize("weigh", CAPPED)
def test_capped_scores_are_masked_by_newer_releases_alone(weigh: Fn) -> None:
    check(attention(weigh=weigh), is_fused=False, places=PLACES)
    check(attention(weigh=weigh), is_fused=True, places=PLACES, target="onnxruntime>=1.27")


@pytest.mark.parametrize("weigh", OTHER_WEIGHTS)
def test_weights_that_are_zero_elsewhere_stay_in_parts(weigh: Fn) -> None:
    check(attention(weigh=weigh), is_fused=False, places=PLACES)
