"""GPT-2 in nnx, for the tests of `jax2onnx view` and for the benchmarks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx


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
