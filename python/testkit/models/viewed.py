"""The models whose pages a browser opens in the tests of `jax2onnx view`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

import jax2onnx


class Stage(nnx.Module):
    def __init__(self, inner: int, outer: int, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(inner, outer, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(outer, use_running_average=True, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.norm(self.conv(x))
        x = jax.nn.relu(x)
        return nnx.max_pool(x, (2, 2), strides=(2, 2))


class ConvNet(nnx.Module):
    """A small convolutional network."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.stages = nnx.List([Stage(3, 8, rngs), Stage(8, 16, rngs), Stage(16, 32, rngs)])
        self.head = nnx.Linear(32, 10, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        batch = x.shape[0]
        for stage in self.stages:
            x = stage(x)
        unused = jnp.exp(x)  # noqa: F841 - the page says that it is dead
        x = x.mean(axis=(1, 2)).reshape(batch, -1)
        logits = self.head(x)
        return jax.nn.softmax(logits, axis=-1)


class CausalSelfAttention(nnx.Module):
    def __init__(self, width: int, heads: int, rngs: nnx.Rngs) -> None:
        self.heads = heads
        self.qkv = nnx.Linear(width, 3 * width, rngs=rngs)
        self.out = nnx.Linear(width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        batch, length, width = x.shape
        head = (batch, length, self.heads, width // self.heads)
        q, k, v = jnp.split(self.qkv(x), 3, axis=-1)
        q, k, v = (part.reshape(head).transpose(0, 2, 1, 3) for part in (q, k, v))
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(width // self.heads)
        causal = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
        mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        return self.out(mixed)


class Mlp(nnx.Module):
    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.down(jax.nn.gelu(self.up(x)))


class Block(nnx.Module):
    def __init__(self, width: int, heads: int, rngs: nnx.Rngs) -> None:
        self.norm1 = nnx.LayerNorm(width, rngs=rngs)
        self.attention = CausalSelfAttention(width, heads, rngs)
        self.norm2 = nnx.LayerNorm(width, rngs=rngs)
        self.mlp = Mlp(width, rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT2(nnx.Module):
    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, context: int) -> None:
        rngs = nnx.Rngs(0)
        self.tokens = nnx.Embed(vocabulary, width, rngs=rngs)
        self.positions = nnx.Embed(context, width, rngs=rngs)
        self.blocks = nnx.List([Block(width, heads, rngs) for _ in range(layers)])
        self.norm = nnx.LayerNorm(width, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.tokens(tokens) + self.positions(jnp.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.tokens.attend(self.norm(x))


def nested_loops(x: jax.Array, count: jax.Array) -> jax.Array:
    """A branch in a loop in a loop."""
    rows, _ = x.shape
    scale = np.float32(0.5) / rows

    def inner(_: jax.Array, carry: jax.Array) -> jax.Array:
        bounded = jnp.tanh(carry) * scale
        return jax.lax.cond(
            bounded.sum() > 0,
            lambda value: value + jnp.sin(value),
            lambda value: value - jnp.cos(value),
            bounded,
        )

    def outer(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry = jax.lax.fori_loop(0, count, inner, carry + row)
        return carry, carry.sum()

    last, sums = jax.lax.scan(outer, jnp.zeros_like(x[0]), x)
    return last * sums.mean()


WEIGHTS = [np.random.default_rng(seed).normal(size=(16, 16)).astype(np.float32) for seed in (0, 1)]


@jax2onnx.onnx_function
def gated(x: jax.Array, weight: jax.Array) -> jax.Array:
    """A part of the model that becomes a function."""
    gate = jax.nn.sigmoid(x @ weight)
    return x * gate


def functions(x: jax.Array) -> jax.Array:
    """Two calls of one function."""
    with jax.named_scope("first"):
        x = gated(x, WEIGHTS[0])
    with jax.named_scope("second"):
        x = gated(x, WEIGHTS[1])
    return jnp.log1p(jnp.abs(x)).sum(axis=-1)
