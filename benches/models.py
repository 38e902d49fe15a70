"""Models for the benchmarks, with weights drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx


def transformer(layers: int, width: int = 64, heads: int = 4) -> Callable[[jax.Array], jax.Array]:
    """A decoder of pre-norm blocks over embedded tokens; some 80 equations a layer."""
    random = np.random.default_rng(0)

    def weight(*shape: int) -> jax.Array:
        return jnp.asarray(random.normal(scale=0.1, size=shape).astype(np.float32))

    def block() -> dict[str, Any]:
        return {
            "norm1": weight(width),
            "norm2": weight(width),
            "qkv": weight(width, 3 * width),
            "out": weight(width, width),
            "up": weight(width, 4 * width),
            "down": weight(4 * width, width),
        }

    blocks = [block() for _ in range(layers)]

    def normalize(x: jax.Array, scale: jax.Array) -> jax.Array:
        mean = jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.var(x, axis=-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale

    def attention(x: jax.Array, params: dict[str, Any]) -> jax.Array:
        length = x.shape[0]
        q, k, v = jnp.split(x @ params["qkv"], 3, axis=-1)
        q, k, v = (part.reshape(length, heads, -1).transpose(1, 0, 2) for part in (q, k, v))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(width / heads)
        causal = jnp.tril(jnp.ones((length, length), bool))
        scores = jnp.where(causal, scores, -1e9)
        mixed = jax.nn.softmax(scores, axis=-1) @ v
        return mixed.transpose(1, 0, 2).reshape(length, width) @ params["out"]

    def forward(x: jax.Array) -> jax.Array:
        for params in blocks:
            x = x + attention(normalize(x, params["norm1"]), params)
            hidden = jax.nn.gelu(normalize(x, params["norm2"]) @ params["up"])
            x = x + hidden @ params["down"]
        return x

    return forward


class MLP(nnx.Module):
    """Linear layers with a relu after each."""

    def __init__(self, layers: int, width: int, *, rngs: nnx.Rngs) -> None:
        self.layers = nnx.List([nnx.Linear(width, width, rngs=rngs) for _ in range(layers)])

    def __call__(self, x: jax.Array) -> jax.Array:
        for layer in self.layers:
            x = jax.nn.relu(layer(x))
        return x


def mlp(layers: int = 25, width: int = 64) -> MLP:
    """An MLP of 4 equations a layer, and one in each relu."""
    return MLP(layers, width, rngs=nnx.Rngs(0))
