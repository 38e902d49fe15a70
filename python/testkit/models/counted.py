"""Programs without loops, to compare their costs with those that XLA counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

#: A function and its operands.
Built = tuple[Callable[..., Any], tuple[np.ndarray, ...]]

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def perceptron(x: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    return nn.relu(x @ up) @ down


def gated(x: jax.Array, up: jax.Array, gate: jax.Array, down: jax.Array) -> jax.Array:
    return (nn.silu(x @ gate) * (x @ up)) @ down


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("bhts,bshd->bthd", nn.softmax(scores), v)


def causal_attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(q.shape[-1])
    length = q.shape[1]
    mask = jnp.tril(jnp.ones((length, length), bool))
    return jnp.einsum("bhts,bshd->bthd", nn.softmax(jnp.where(mask, scores, -1e9)), v)


def layer_norm(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    centered = x - x.mean(-1, keepdims=True)
    variance = jnp.mean(centered * centered, -1, keepdims=True)
    return centered * lax.rsqrt(variance + 1e-5) * scale + bias


def rms_norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def group_norm(x: jax.Array) -> jax.Array:
    grouped = x.reshape(*x.shape[:-1], 4, -1)
    axes = (1, 2, 4)
    mean = grouped.mean(axes, keepdims=True)
    variance = grouped.var(axes, keepdims=True)
    return ((grouped - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape)


def batch_norm(x: jax.Array, *of_channels: jax.Array) -> jax.Array:
    mean, variance, scale, bias = of_channels
    return (x - mean) * (lax.rsqrt(variance + 1e-5) * scale) + bias


def convolution(**options: Any) -> Callable[[jax.Array, jax.Array], jax.Array]:
    def convolve(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(
            x, kernel, **{"window_strides": (1, 1), "padding": "SAME", **options}
        )

    return convolve


def max_pool(x: jax.Array) -> jax.Array:
    x = nn.relu(x)
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def mean_pool(x: jax.Array) -> jax.Array:
    sums = lax.reduce_window(x, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return sums / 4


def distances(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.sqrt(((x[:, None] - y[None]) ** 2).sum(-1) + 1e-9)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return -(nn.log_softmax(logits) * labels).sum(-1).mean()


def polynomial(x: jax.Array) -> jax.Array:
    return 1 + x * (2 + x * (3 + x * (4 + x * 5)))


def gradient(x: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    return jax.grad(lambda x: perceptron(x, up, down).sum())(x)


IMAGE = (2, 16, 14, 14)

PROGRAMS: dict[str, Callable[[], Built]] = {
    "product": lambda: (jnp.matmul, (normal(32, 64), normal(64, 48))),
    "batched product": lambda: (jnp.matmul, (normal(8, 32, 64), normal(8, 64, 48))),
    "matrix times vector": lambda: (jnp.matmul, (normal(32, 64), normal(64))),
    "three factors": lambda: (
        lambda a, b, c: jnp.einsum("ij,jk,kl->il", a, b, c),
        (normal(16, 32), normal(32, 24), normal(24, 8)),
    ),
    "outer einsum": lambda: (
        lambda a, b: jnp.einsum("bik,bjk->bij", a, b),
        (normal(4, 24, 16), normal(4, 12, 16)),
    ),
    "perceptron": lambda: (perceptron, (normal(32, 64), normal(64, 256), normal(256, 64))),
    "gated perceptron": lambda: (
        gated,
        (normal(32, 64), normal(64, 96), normal(64, 96), normal(96, 64)),
    ),
    "gradient": lambda: (gradient, (normal(32, 64), normal(64, 256), normal(256, 64))),
    "attention": lambda: (attention, (normal(2, 24, 4, 32),) * 3),
    "causal attention": lambda: (causal_attention, (normal(2, 24, 4, 32),) * 3),
    "layer norm": lambda: (layer_norm, (normal(16, 128), normal(128), normal(128))),
    "rms norm": lambda: (rms_norm, (normal(16, 128), normal(128))),
    "group norm": lambda: (group_norm, (normal(2, 8, 8, 32),)),
    "batch norm": lambda: (batch_norm, (normal(2, 8, 8, 32), *(np.ones((4, 32), np.float32)))),
    "softmax": lambda: (nn.softmax, (normal(16, 128),)),
    "logarithm of softmax": lambda: (nn.log_softmax, (normal(16, 128),)),
    "logsumexp": lambda: (lambda x: nn.logsumexp(x, -1), (normal(16, 128),)),
    "cross entropy": lambda: (cross_entropy, (normal(16, 128), normal(16, 128))),
    "variance": lambda: (lambda x: x.var(-1), (normal(16, 128),)),
    "sum": lambda: (lambda x: x.sum((0, 2)), (normal(8, 16, 32),)),
    "mean": lambda: (lambda x: x.mean(-1), (normal(16, 128),)),
    "maximum": lambda: (lambda x: x.max(0), (normal(16, 128),)),
    "euclidean norm": lambda: (lambda x: jnp.linalg.norm(x, axis=-1), (normal(16, 128),)),
    "distances": lambda: (distances, (normal(24, 8), normal(32, 8))),
    "polynomial": lambda: (polynomial, (normal(16, 128),)),
    "gelu": lambda: (nn.gelu, (normal(16, 128),)),
    "silu": lambda: (nn.silu, (normal(16, 128),)),
    "leaky relu": lambda: (nn.leaky_relu, (normal(16, 128),)),
    "clip": lambda: (lambda x: jnp.minimum(jnp.maximum(x, -1), 1) * 2, (normal(16, 128),)),
    "choice": lambda: (lambda x, y: jnp.where(x > y, x, y * 2), (normal(16, 128),) * 2),
    "convolution": lambda: (convolution(), (normal(*IMAGE), normal(32, 16, 3, 3))),
    "convolution with strides": lambda: (
        convolution(window_strides=(2, 2)),
        (normal(*IMAGE), normal(32, 16, 3, 3)),
    ),
    "convolution with holes": lambda: (
        convolution(rhs_dilation=(2, 2)),
        (normal(*IMAGE), normal(32, 16, 3, 3)),
    ),
    "depthwise convolution": lambda: (
        convolution(feature_group_count=16),
        (normal(*IMAGE), normal(16, 1, 3, 3)),
    ),
    "convolution in groups": lambda: (
        convolution(feature_group_count=4, padding="VALID"),
        (normal(*IMAGE), normal(32, 4, 5, 5)),
    ),
    "transposed convolution": lambda: (
        convolution(lhs_dilation=(2, 2), padding=((1, 2), (1, 2))),
        (normal(*IMAGE), normal(32, 16, 3, 3)),
    ),
    "maximum of windows": lambda: (max_pool, (normal(*IMAGE),)),
    "mean of windows": lambda: (mean_pool, (normal(*IMAGE),)),
    "interpolation": lambda: (lambda x, y, t: x + t * (y - x), (normal(16, 128),) * 3),
    "dot product of rows": lambda: (lambda x, y: (x * y).sum(-1), (normal(16, 128),) * 2),
}
