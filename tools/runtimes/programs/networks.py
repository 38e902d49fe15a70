"""Small networks and attention."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .program import floats, program, weights, whole


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
