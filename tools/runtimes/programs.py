"""Programs of typical JAX code, which every runtime should run.

They are small: each one is about the operators that a kind of code needs, not about speed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Function = Callable[..., Any]


@dataclass(frozen=True)
class Program:
    """A function and the arguments that it is exported and run with."""

    name: str
    function: Function
    arguments: tuple[np.ndarray, ...]


PROGRAMS: Final[list[Program]] = []


def program(*arguments: np.ndarray) -> Callable[[Function], Function]:
    """Adds a function to the programs, under its own name."""

    def add(function: Function) -> Function:
        PROGRAMS.append(Program(function.__name__, function, arguments))
        return function

    return add


def floats(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Returns normally distributed numbers."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def whole(below: int, *shape: int, seed: int = 0, dtype: Any = np.int32) -> np.ndarray:
    """Returns whole numbers from 0 on."""
    return np.random.default_rng(seed).integers(0, below, shape).astype(dtype)


def weights(*shape: int, seed: int = 7) -> jax.Array:
    """Returns weights of a layer: small enough that results stay near 1."""
    return jnp.asarray(floats(*shape, seed=seed, scale=float(np.sqrt(1 / shape[0]))))


# Networks.


@program(floats(4, 16))
def dense_layers(x: Any) -> Any:
    hidden = jax.nn.relu(x @ weights(16, 32) + 0.1)
    return jax.nn.softmax(hidden @ weights(32, 10, seed=8))


def _conv(x: Any, filters: Any, stride: int = 1, groups: int = 1) -> Any:
    return lax.conv_general_dilated(
        x,
        filters,
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


@program(floats(2, 16, 16, 3))
def convolutional_classifier(x: Any) -> Any:
    x = jax.nn.relu(_conv(x, weights(3, 3, 3, 8), 2))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.mean((1, 2)) @ weights(8, 5)


@program(floats(1, 8, 8, 4))
def depthwise_separable_block(x: Any) -> Any:
    y = jax.nn.silu(_conv(x, weights(3, 3, 1, 4), groups=4))
    return x + _conv(y, weights(1, 1, 4, 4, seed=9))


@program(floats(1, 8, 8, 4))
def squeeze_and_excite(x: Any) -> Any:
    gate = jax.nn.sigmoid(jax.nn.relu(x.mean((1, 2)) @ weights(4, 2)) @ weights(2, 4, seed=3))
    return x * gate[:, None, None]


@program(floats(1, 4, 4, 6))
def transposed_convolution(x: Any) -> Any:
    return lax.conv_transpose(x, weights(2, 2, 6, 3), (2, 2), "SAME")


@program(floats(2, 12, 6))
def convolution_over_time(x: Any) -> Any:
    kernel = weights(3, 6, 8)
    y = lax.conv_general_dilated(
        x, kernel, (1,), [(4, 0)], rhs_dilation=(2,), dimension_numbers=("NWC", "WIO", "NWC")
    )
    return jnp.tanh(y)


def _layer_norm(x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-6)


@program(floats(2, 6, 16))
def layer_norm(x: Any) -> Any:
    return _layer_norm(x) * weights(16) + 0.3


@program(floats(2, 6, 16))
def rms_norm(x: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * weights(16)


@program(floats(2, 4, 4, 8))
def group_norm(x: Any) -> Any:
    grouped = x.reshape(2, 16, 4, 2)
    mean = grouped.mean((1, 3), keepdims=True)
    variance = grouped.var((1, 3), keepdims=True)
    return ((grouped - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape)


@program(floats(3, 4, 4, 5))
def batch_norm_of_inference(x: Any) -> Any:
    mean, variance = weights(5), jnp.abs(weights(5, seed=2)) + 0.5
    return (x - mean) / jnp.sqrt(variance + 1e-3) * weights(5, seed=3) + 0.1


@program(floats(3, 12))
def activations(x: Any) -> Any:
    functions = [
        jax.nn.gelu,
        jax.nn.elu,
        jax.nn.selu,
        jax.nn.softplus,
        jax.nn.hard_swish,
        jax.nn.mish,
        jax.nn.leaky_relu,
        jax.nn.celu,
        jax.nn.soft_sign,
        jax.nn.log_sigmoid,
    ]
    return sum(function(x) for function in functions)


@program(floats(4, 10))
def log_softmax_loss(x: Any) -> Any:
    labels = jnp.asarray([1, 0, 9, 3])
    return -jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1).mean()


@program(whole(20, 2, 7))
def embedding_and_mean(tokens: Any) -> Any:
    return weights(20, 8)[tokens].mean(1)


@program(floats(2, 8), whole(2, 2, dtype=np.int32))
def mixture_of_experts(x: Any, expert: Any) -> Any:
    return jnp.einsum("bi,bij->bj", x, weights(2, 8, 8)[expert])


@program(floats(2, 8, 8, 3))
def patches_to_tokens(x: Any) -> Any:
    patches = x.reshape(2, 2, 4, 2, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(2, 4, 48)
    return patches @ weights(48, 16) + weights(4, 16)


@program(floats(1, 8, 8, 4), floats(1, 4, 4, 8, seed=1))
def unet_join(skip: Any, deep: Any) -> Any:
    up = jax.image.resize(deep, (1, 8, 8, 8), "nearest")
    return jax.nn.relu(_conv(jnp.concatenate([skip, up], -1), weights(3, 3, 12, 4)))


# Attention.


def _heads(x: Any, heads: int) -> Any:
    return x.reshape(*x.shape[:-1], heads, -1).swapaxes(-2, -3)


def _attend(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    return jax.nn.softmax(scores) @ v


@program(floats(2, 5, 16))
def self_attention(x: Any) -> Any:
    q, k, v = (_heads(x @ weights(16, 16, seed=s), 4) for s in range(3))
    return _attend(q, k, v).swapaxes(1, 2).reshape(x.shape) @ weights(16, 16, seed=4)


@program(floats(1, 6, 16))
def causal_attention(x: Any) -> Any:
    q, k, v = (_heads(x @ weights(16, 16, seed=s), 2) for s in range(3))
    mask = jnp.tril(jnp.ones((6, 6), bool))
    return _attend(q, k, v, mask).swapaxes(1, 2).reshape(x.shape)


@program(floats(2, 6, 16), np.asarray([[1] * 6, [0] * 6], bool))
def padded_attention(x: Any, is_kept: Any) -> Any:
    q, k, v = (_heads(x @ weights(16, 16, seed=s), 2) for s in range(3))
    return _attend(q, k, v, is_kept[:, None, None]).swapaxes(1, 2).reshape(x.shape)


@program(floats(1, 6, 4, 8), floats(1, 6, 2, 8, seed=1), floats(1, 6, 2, 8, seed=2))
def dot_product_attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


@program(floats(1, 6, 4, 8))
def rotary_embedding(x: Any) -> Any:
    angles = jnp.arange(6)[:, None] / 10000 ** (jnp.arange(4) / 4)
    sin, cos = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None]
    low, high = jnp.split(x, 2, -1)
    return jnp.concatenate([low * cos - high * sin, high * cos + low * sin], -1)


@program(floats(1, 8, 16), floats(1, 1, 16, seed=1), np.asarray(5, np.int32))
def decoder_step_with_cache(cache: Any, x: Any, position: Any) -> Any:
    cache = lax.dynamic_update_slice(cache, x @ weights(16, 16), (0, position, 0))
    mask = jnp.arange(8) <= position
    return _attend(x, cache, cache, mask[None, None]), cache


@program(whole(30, 2, 6))
def transformer_block(tokens: Any) -> Any:
    x = weights(30, 16)[tokens] + weights(6, 16, seed=2)
    q, k, v = (_heads(_layer_norm(x) @ weights(16, 16, seed=s), 4) for s in range(3))
    x = x + _attend(q, k, v).swapaxes(1, 2).reshape(x.shape)
    return x + jax.nn.gelu(_layer_norm(x) @ weights(16, 32)) @ weights(32, 16)


@program(floats(1, 5, 8))
def attention_with_relative_bias(x: Any) -> Any:
    distance = jnp.arange(5)[:, None] - jnp.arange(5)
    bias = weights(9)[jnp.clip(distance + 4, 0, 8)]
    return jax.nn.softmax(x @ x.swapaxes(1, 2) + bias) @ x


# Recurrences and loops.


@program(floats(6, 2, 4))
def plain_rnn(xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(x @ weights(4, 8) + h @ weights(8, 8, seed=1))
        return h, h

    return lax.scan(step, jnp.zeros((2, 8)), xs)


@program(floats(5, 2, 4))
def lstm(xs: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ weights(4, 32) + h @ weights(8, 32, seed=1), 4, -1)
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((2, 8))
    return lax.scan(step, (zeros, zeros), xs)[1]


@program(floats(5, 2, 4))
def gru(xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        r, z, n = jnp.split(x @ weights(4, 24), 3, -1)
        hr, hz, hn = jnp.split(h @ weights(8, 24, seed=1), 3, -1)
        r, z = jax.nn.sigmoid(r + hr), jax.nn.sigmoid(z + hz)
        h = (1 - z) * jnp.tanh(n + r * hn) + z * h
        return h, h

    return lax.scan(step, jnp.zeros((2, 8)), xs)[0]


@program(floats(6, 3))
def reversed_scan(xs: Any) -> Any:
    return lax.scan(lambda c, x: (0.5 * c + x, c * x), jnp.zeros(3), xs, reverse=True)


@program(floats(6, 3), floats(3, seed=1))
def scan_that_captures(xs: Any, scale: Any) -> Any:
    return lax.scan(lambda c, x: (jnp.sin(c) * scale + x, c), jnp.zeros(3), xs)


@program(floats(4))
def scan_without_inputs(x: Any) -> Any:
    return lax.scan(lambda c, _: (c * 0.9 + 0.1, c), x, None, length=5)


@program(floats(4))
def repeated_squares(x: Any) -> Any:
    return lax.fori_loop(0, 5, lambda _, y: jnp.cos(y * y), x)


@program(floats(8))
def loop_over_indices(x: Any) -> Any:
    return lax.fori_loop(1, 8, lambda i, y: y.at[i].set(y[i - 1] * 0.5 + y[i]), x)


@program(np.asarray(7.0, np.float32))
def newton_iteration(x: Any) -> Any:
    def body(state: Any) -> Any:
        y, _ = state
        better = 0.5 * (y + x / y)
        return better, jnp.abs(better - y)

    return lax.while_loop(lambda s: s[1] > 1e-4, body, (x, jnp.float32(1)))[0]


@program(whole(50, 1, 3))
def greedy_decoding(tokens: Any) -> Any:
    table = weights(50, 50)

    def step(carry: Any) -> Any:
        last, out, i = carry
        following = jnp.argmax(table[last], -1)
        return following, lax.dynamic_update_index_in_dim(out, following, i, 1), i + 1

    start = (tokens[:, -1], jnp.zeros((1, 6), jnp.int32), 0)
    return lax.while_loop(lambda c: c[2] < 6, step, start)[1]


@program(floats(5), np.asarray(True))
def branches(x: Any, flag: Any) -> Any:
    return lax.cond(flag, lambda v: jnp.sin(v) + 1, lambda v: v * 2, x)


@program(floats(5), np.asarray(2, np.int32))
def switch_between_three(x: Any, which: Any) -> Any:
    return lax.switch(which, [jnp.sin, jnp.cos, jnp.tanh], x)


@program(floats(3))
def nested_loops(x: Any) -> Any:
    def outer(y: Any, i: Any) -> Any:
        inner = lax.fori_loop(0, 3, lambda _, z: z * 0.5 + i, y)
        return lax.cond(inner.sum() > 2, lambda: inner, lambda: y + 1), inner.sum()

    return lax.scan(outer, x, jnp.arange(4.0))


@program(floats(2))
def runge_kutta(y: Any) -> Any:
    def slope(y: Any) -> Any:
        return jnp.stack([y[1], -y[0] - 0.1 * y[1]])

    def step(y: Any, _: Any) -> Any:
        k1 = slope(y)
        k2 = slope(y + 0.05 * k1)
        return y + 0.1 * k2, y

    return lax.scan(step, y, None, length=10)


@program(floats(8, 2))
def associative_recurrence(x: Any) -> Any:
    decay = jax.nn.sigmoid(x)

    def join(a: Any, b: Any) -> Any:
        return a[0] * b[0], b[0] * a[1] + b[1]

    return lax.associative_scan(join, (decay, x))[1]


@program(floats(7, 3))
def running_totals(x: Any) -> Any:
    return jnp.cumsum(x, 0), jnp.cumprod(x, 0), lax.cummax(x), lax.cumsum(x, reverse=True)


# Images and signals.


@program(whole(256, 1, 12, 10, 3, dtype=np.uint8))
def image_preprocessing(image: Any) -> Any:
    x = jax.image.resize(image.astype(jnp.float32) / 255, (1, 8, 8, 3), "bilinear")
    return (x - jnp.asarray([0.48, 0.46, 0.41])) / jnp.asarray([0.23, 0.22, 0.23])


@program(whole(256, 6, 6, 3, dtype=np.uint8))
def grayscale_and_flip(image: Any) -> Any:
    gray = (image @ jnp.asarray([0.3, 0.6, 0.1])).astype(jnp.uint8)
    return gray[:, ::-1], jnp.rot90(gray), jnp.pad(gray, 1, mode="edge")


@program(floats(1, 8, 8, 2))
def cubic_resize(x: Any) -> Any:
    return jax.image.resize(x, (1, 12, 6, 2), "cubic")


@program(floats(1, 9, 9, 2))
def pools(x: Any) -> Any:
    window, strides = (1, 3, 3, 1), (1, 2, 2, 1)
    total = lax.reduce_window(x, 0.0, lax.add, window, strides, "SAME")
    return total / 9, lax.reduce_window(x, -jnp.inf, lax.max, window, strides, "SAME")


@program(whole(256, 5, 7, dtype=np.uint8))
def bytes_that_wrap(x: Any) -> Any:
    return x + x, x * 3, x // 7, x % 5, x ^ 15, x << 1, jnp.maximum(x, 100)


@program(floats(16))
def spectrum(x: Any) -> Any:
    return jnp.abs(jnp.fft.rfft(x)), jnp.fft.irfft(jnp.fft.rfft(x) * 0.5)


@program(floats(20))
def smoothing(x: Any) -> Any:
    return jnp.convolve(x, jnp.asarray([0.25, 0.5, 0.25]), mode="same")


@program(floats(1, 6, 6), floats(2, 5, seed=3))
def sampling_of_an_image(image: Any, places: Any) -> Any:
    return jax.scipy.ndimage.map_coordinates(image[0], list(places + 2.5), order=1)


@program(floats(4, 4))
def mirrored_padding(x: Any) -> Any:
    return jnp.pad(x, ((1, 1), (2, 2)), mode="reflect"), jnp.roll(x, 1, 0)


# Sorting, searching and indices.


@program(floats(3, 8))
def sorting(x: Any) -> Any:
    return jnp.sort(x), jnp.argsort(x), -jnp.sort(-x, 0)


@program(whole(4, 12))
def sorting_with_ties(x: Any) -> Any:
    return jnp.argsort(x), jnp.argsort(-x), lax.top_k(x, 4)


@program(floats(3, 10))
def top_k(x: Any) -> Any:
    return lax.top_k(x, 3)


@program(floats(8), floats(5, seed=1))
def search_in_sorted(x: Any, queries: Any) -> Any:
    edges = jnp.sort(x)
    return jnp.searchsorted(edges, queries), jnp.digitize(queries, edges)


@program(floats(6))
def interpolation(x: Any) -> Any:
    return jnp.interp(x, jnp.linspace(-2, 2, 9), jnp.linspace(-2, 2, 9) ** 2)


@program(floats(4, 9))
def extremes(x: Any) -> Any:
    return x.argmax(1), x.argmin(0), x.max(), x.min(1), jnp.ptp(x)


@program(floats(4, 6))
def flags(x: Any) -> Any:
    return (x > 0).any(1), (x > -1).all(0), (x > 0).sum(), jnp.where(x > 0, x, 0), x == x.T[0, 0]


@program(floats(6, 3), whole(6, 4))
def scatter_and_add(x: Any, i: Any) -> Any:
    return x.at[i].add(1.0), x.at[i].set(0.0), x.at[i].max(0.5), x.at[i, 1].mul(2.0)


@program(floats(10), whole(3, 10))
def segments(x: Any, groups: Any) -> Any:
    return jax.ops.segment_sum(x, groups, 3), jax.ops.segment_max(x, groups, 3)


@program(floats(5, 6), whole(5, 3))
def lookups(x: Any, i: Any) -> Any:
    return x[i], x[:, i], jnp.take(x, i, axis=1, mode="clip"), x[i, i], x[jnp.newaxis, 1:4, ::2]


@program(whole(5, 9))
def one_hot_and_counts(x: Any) -> Any:
    return jax.nn.one_hot(x, 5), jnp.bincount(x, length=5)


@program(floats(6, 4), np.asarray([1, 2], np.int32))
def dynamic_slices(x: Any, at: Any) -> Any:
    return lax.dynamic_slice(x, (at[0], at[1]), (2, 2))


@program(floats(9, 4), np.sort(floats(9, seed=4)))
def suppression_of_overlaps(boxes: Any, scores: Any) -> Any:
    corners = jnp.concatenate([boxes[:, :2], boxes[:, :2] + jnp.abs(boxes[:, 2:]) + 1], 1)
    order = jnp.argsort(-scores)
    corners = corners[order]
    low = jnp.maximum(corners[:, None, :2], corners[None, :, :2])
    high = jnp.minimum(corners[:, None, 2:], corners[None, :, 2:])
    common = jnp.prod(jnp.clip(high - low, 0), -1)
    area = jnp.prod(corners[:, 2:] - corners[:, :2], -1)
    overlap = common / (area[:, None] + area - common)

    def body(i: Any, keep: Any) -> Any:
        hit = (overlap[i] > 0.3) & keep[i] & (jnp.arange(9) > i)
        return keep & ~hit

    return lax.fori_loop(0, 9, body, jnp.ones(9, bool)), order


# Random numbers and integers.


@program(np.asarray([0, 42], np.uint32))
def random_numbers(key: Any) -> Any:
    return jax.random.uniform(key, (4,)), jax.random.normal(key, (3,))


@program(floats(4, 6), np.asarray([1, 2], np.uint32))
def dropout(x: Any, key: Any) -> Any:
    kept = jax.random.bernoulli(key, 0.8, x.shape)
    return jnp.where(kept, x / 0.8, 0)


@program(floats(3, 7), np.asarray([3, 4], np.uint32))
def categorical_sampling(logits: Any, key: Any) -> Any:
    return jax.random.categorical(key, logits), jax.random.permutation(key, 6)


@program(whole(2**32 - 1, 6, dtype=np.uint32), whole(31, 6, dtype=np.uint32))
def unsigned_shifts(x: Any, by: Any) -> Any:
    return x << by, x >> by, x ^ (x >> 16), x * jnp.uint32(2654435761), x > jnp.uint32(7)


@program(whole(1000, 8), whole(9, 8, seed=1))
def integer_arithmetic(x: Any, y: Any) -> Any:
    return x // (y + 1), x % (y + 1), x & y, x | y, jnp.clip(x, 10, 500), jnp.sign(y - 4)


@program(whole(100, 5, 4))
def integer_reductions(x: Any) -> Any:
    return x.max(0), x.min(1), x.sum(), x.prod(1), jnp.cumsum(x, 0), x @ x.T


# Linear algebra and other mathematics.


@program(floats(4, 4))
def symmetric_systems(x: Any) -> Any:
    a = x @ x.T + 4 * jnp.eye(4)
    return jnp.linalg.cholesky(a), jnp.linalg.solve(a, x[:, 0]), jnp.linalg.inv(a)


@program(floats(4, 3))
def least_squares_by_qr(x: Any) -> Any:
    q, r = jnp.linalg.qr(x)
    return jnp.abs(q @ r), jnp.linalg.norm(x), jnp.linalg.norm(x, axis=1)


@program(floats(3, 3))
def determinants(x: Any) -> Any:
    return jnp.linalg.det(x), jnp.linalg.slogdet(x)[1], jnp.trace(x), jnp.diag(x)


@program(floats(2, 3, 4), floats(2, 4, 5, seed=1))
def contractions(x: Any, y: Any) -> Any:
    return (
        jnp.einsum("bij,bjk->bik", x, y),
        jnp.einsum("bij,bjk->k", x, y),
        jnp.outer(x[0, 0], y[0, 0]),
    )


@program(np.abs(floats(3, 5)) + 0.1)
def transcendental(x: Any) -> Any:
    return jnp.log1p(x) + jnp.expm1(-x) + jnp.arctan2(x, 2.0) + lax.erf(x), x**1.7, jnp.sinh(x)


@program(floats(12, scale=3.0))
def rounding(x: Any) -> Any:
    return (
        jnp.round(x),
        jnp.floor(x),
        jnp.ceil(x),
        jnp.trunc(x),
        jnp.mod(x, 0.7),
        x.astype(jnp.int32),
    )


@program(np.asarray([1.0, np.nan, -np.inf, np.inf, -0.0, -2.0], np.float32))
def missing_numbers(x: Any) -> Any:
    return jnp.isnan(x), jnp.nan_to_num(x), jnp.nanmean(x[:2]), jnp.maximum(x, 0), jnp.nanmax(x[:2])


@program(floats(6, 4))
def statistics(x: Any) -> Any:
    return x.var(0), x.std(1, ddof=1), jnp.median(x, 0), jnp.quantile(x, 0.3, axis=0), jnp.cov(x.T)


@program(floats(5))
def gradient(x: Any) -> Any:
    return jax.grad(lambda v: jnp.sum(jnp.tanh(v) ** 3 * jnp.exp(-v)))(x)


@program(floats(4, 3))
def gradient_of_a_loss(x: Any) -> Any:
    def loss(w: Any) -> Any:
        return -jax.nn.log_softmax(x @ w)[:, 0].mean()

    w = weights(3, 5)
    return w - 0.1 * jax.grad(loss)(w)


@program(floats(5, 3), floats(4, 3, seed=1))
def distances(x: Any, y: Any) -> Any:
    squares = jnp.sum((x[:, None] - y) ** 2, -1)
    return jnp.sqrt(squares), squares.argmin(1)


@program(floats(4, 3))
def vectorized(x: Any) -> Any:
    return jax.vmap(lambda row: jnp.dot(row, row) * jnp.sort(row))(x)


@program(floats(2, 3, 4), floats(3, 1, seed=1))
def shapes(x: Any, y: Any) -> Any:
    stacked = jnp.stack([x + y, x - y], 1)
    return stacked.transpose(3, 1, 0, 2).reshape(4, -1), jnp.tile(y, (1, 3)), jnp.repeat(y, 2, 0)


@program(whole(2, 4, 5, dtype=bool), whole(2, 4, 5, seed=1, dtype=bool))
def logic(a: Any, b: Any) -> Any:
    return (
        a & ~b,
        a ^ b,
        a == b,
        a != b,
        jnp.logical_or(a, b).astype(jnp.float32),
        a.any(),
        b.all(0),
    )


@program(floats(4, 6).astype(np.float16))
def half_precision(x: Any) -> Any:
    return jax.nn.softmax(x * 2), (x @ x.T).astype(jnp.float32)
