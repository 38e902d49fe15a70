"""Eight networks. A problem can be planted behind each line that ends with `# plant`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

RANDOM = np.random.default_rng(11)


def weights(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) / np.sqrt(shape[-2])).astype(np.float32)


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


W1, B1, W2, B2, W3 = weights(16, 32), numbers(32), weights(32, 32), numbers(32), weights(32, 10)


def classifier(x: Any) -> Any:
    hidden = x @ W1 + B1  # plant
    active = jax.nn.relu(hidden)  # plant
    second = active @ W2 + B2  # plant
    gated = jax.nn.gelu(second)  # plant
    return gated @ W3


K1, K2, K3 = numbers(3, 3, 3, 8) / 5, numbers(3, 3, 8, 8) / 8, weights(8, 6)
GAIN, SHIFT = 1 + numbers(8) / 5, numbers(8) / 5


def convolutional(x: Any) -> Any:
    layout = ("NHWC", "HWIO", "NHWC")
    first = lax.conv_general_dilated(x, K1, (1, 1), "SAME", dimension_numbers=layout)  # plant
    mean = first.mean((1, 2), keepdims=True)
    spread = jnp.sqrt(jnp.var(first, (1, 2), keepdims=True) + 1e-2)
    normal = (first - mean) / spread * GAIN + SHIFT  # plant
    second = lax.conv_general_dilated(normal, K2, (2, 2), "SAME", dimension_numbers=layout)  # plant
    active = jax.nn.silu(second)  # plant
    pooled = active.mean((1, 2))  # plant
    return pooled @ K3


WQ, WK, WV, WO = (weights(16, 16) for _ in range(4))
UP, DOWN = weights(16, 32), weights(32, 16)


def transformer(x: Any) -> Any:
    def norm(y: Any) -> Any:
        mean = y.mean(-1, keepdims=True)
        spread = jnp.sqrt(jnp.var(y, -1, keepdims=True) + 1e-3)
        return (y - mean) / spread

    y = norm(x)  # plant
    q = (y @ WQ).reshape(6, 2, 8).transpose(1, 0, 2)  # plant
    k = (y @ WK).reshape(6, 2, 8).transpose(1, 0, 2)
    v = (y @ WV).reshape(6, 2, 8).transpose(1, 0, 2)  # plant
    scores = jnp.einsum("hqd,hkd->hqk", q, k) / 2.8  # plant
    mixed = jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores), v)  # plant
    x = x + mixed.transpose(1, 0, 2).reshape(6, 16) @ WO  # plant
    inner = jax.nn.gelu(norm(x) @ UP)  # plant
    return x + inner @ DOWN


RX, RH, RB = weights(6, 8), weights(8, 8), numbers(8)


def recurrent(x: Any, h: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        driven = row @ RX  # plant
        total = driven + state @ RH + RB  # plant
        fresh = jnp.tanh(total)  # plant
        gate = jax.nn.sigmoid(total * 0.7)
        state = gate * state + (1 - gate) * fresh  # plant
        return state, state.sum(-1)

    last, rows = lax.scan(step, h, x)
    return last, rows


LAYERS, BIASES = weights(4, 12, 12), numbers(4, 12) / 4


def residual(x: Any) -> Any:
    def layer(state: Any, params: Any) -> Any:
        weight, bias = params
        inner = state @ weight + bias  # plant
        active = jax.nn.silu(inner)  # plant
        size = jnp.sqrt((active * active).mean(-1, keepdims=True) + 1e-2)
        normal = active / size  # plant
        return state + 0.5 * normal, None

    deep, _ = lax.scan(layer, x, (LAYERS, BIASES))
    scaled = deep / (1 + jnp.abs(deep).max())  # plant
    return scaled @ LAYERS[0]


A1, A2 = weights(5, 5), weights(5, 5)


def nested(x: Any) -> Any:
    def outer(state: Any, row: Any) -> Any:
        driven = jnp.tanh(state @ A1 + row)  # plant

        def inner(total: Any, factor: Any) -> Any:
            moved = jnp.sin(total @ A2) * factor  # plant
            total = 0.5 * total + moved  # plant
            return total, jnp.cos(total)

        last, waves = lax.scan(inner, driven, jnp.linspace(0.4, 1.1, 7))
        level = waves.mean(axis=0)  # plant
        state = last * 0.3 + level
        return state, jnp.sum(last * level)

    last, sums = lax.scan(outer, x[0], x)
    return last, sums


E1, E2, D1, D2 = weights(20, 12), weights(12, 4), weights(4, 12), weights(12, 20)


def autoencoder(x: Any) -> Any:
    low = jnp.tanh(x @ E1)  # plant
    code = low @ E2  # plant
    spread = jnp.exp(0.3 * code)  # plant
    sample = code + spread * 0.1
    high = jax.nn.elu(sample @ D1)  # plant
    rebuilt = high @ D2  # plant
    return rebuilt, code


DECAY = np.linspace(0.5, 0.95, 6).astype(np.float32)
IN, OUT = weights(6, 6), weights(6, 3)


def state_space(x: Any) -> Any:
    driven = jax.nn.softplus(x @ IN)  # plant

    def step(carry: Any, row: Any) -> Any:
        state, best = carry
        moved = state * DECAY + row  # plant
        best = jnp.maximum(best, moved)
        bounded = jnp.arctan(moved)  # plant
        return (moved, best), bounded

    (last, best), rows = lax.scan(step, (jnp.zeros(6), jnp.zeros(6)), driven)
    mixed = rows * best + last  # plant
    return mixed @ OUT


NETWORKS: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (
    (classifier, (numbers(4, 16),)),
    (convolutional, (numbers(2, 8, 8, 3),)),
    (transformer, (numbers(6, 16),)),
    (recurrent, (numbers(12, 2, 6), numbers(2, 8))),
    (residual, (numbers(3, 12),)),
    (nested, (numbers(6, 5),)),
    (autoencoder, (numbers(3, 20),)),
    (state_space, (numbers(10, 6),)),
)
