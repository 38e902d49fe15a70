"""The UNet of a diffusion model in flax nnx, which the benchmarks use too."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from flax import nnx


def timestep_embedding(times: jax.Array, width: int) -> jax.Array:
    frequencies = jnp.exp(-math.log(10000) * jnp.arange(width // 2) / (width // 2 - 1))
    angles = times[:, None] * frequencies[None]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


class NnxResnetBlock(nnx.Module):
    def __init__(self, inner: int, outer: int, time: int, groups: int, *, rngs: nnx.Rngs) -> None:
        self.norm1 = nnx.GroupNorm(inner, num_groups=groups, rngs=rngs)
        self.conv1 = nnx.Conv(inner, outer, (3, 3), rngs=rngs)
        self.time = nnx.Linear(time, outer, rngs=rngs)
        self.norm2 = nnx.GroupNorm(outer, num_groups=groups, rngs=rngs)
        self.conv2 = nnx.Conv(outer, outer, (3, 3), rngs=rngs)
        self.shortcut = nnx.Conv(inner, outer, (1, 1), rngs=rngs) if inner != outer else None

    def __call__(self, x: jax.Array, time: jax.Array) -> jax.Array:
        h = self.conv1(nnx.silu(self.norm1(x)))
        h = h + self.time(nnx.silu(time))[:, None, None, :]
        h = self.conv2(nnx.silu(self.norm2(h)))
        return h + (x if self.shortcut is None else self.shortcut(x))


class NnxAttentionBlock(nnx.Module):
    def __init__(self, width: int, groups: int, *, rngs: nnx.Rngs) -> None:
        self.norm = nnx.GroupNorm(width, num_groups=groups, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, width, decode=False, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        b, h, w, c = x.shape
        tokens = self.norm(x).reshape(b, h * w, c)
        return x + self.attention(tokens).reshape(b, h, w, c)


class NnxUNet(nnx.Module):
    """Average pools down, transposed convolutions up, attention at the lowest resolution."""

    def __init__(self, widths: tuple[int, ...], groups: int, *, rngs: nnx.Rngs) -> None:
        def block(inner: int, outer: int) -> NnxResnetBlock:
            return NnxResnetBlock(inner, outer, 4 * first, groups, rngs=rngs)

        first, last = widths[0], widths[-1]
        self.width = first
        self.time1 = nnx.Linear(first, 4 * first, rngs=rngs)
        self.time2 = nnx.Linear(4 * first, 4 * first, rngs=rngs)
        self.stem = nnx.Conv(3, first, (3, 3), rngs=rngs)
        inner = (first, *widths[:-1])
        self.downs = nnx.List([block(a, b) for a, b in zip(inner, widths, strict=True)])
        self.middle1, self.middle2 = block(last, last), block(last, last)
        self.attention = NnxAttentionBlock(last, groups, rngs=rngs)
        pairs = list(zip(inner, widths, strict=True))[::-1]
        self.grows = nnx.List(
            [nnx.ConvTranspose(b, b, (2, 2), (2, 2), rngs=rngs) for _, b in pairs]
        )
        self.ups = nnx.List([block(2 * b, a) for a, b in pairs])
        self.norm = nnx.GroupNorm(first, num_groups=groups, rngs=rngs)
        self.head = nnx.Conv(first, 3, (3, 3), rngs=rngs)

    def __call__(self, x: jax.Array, times: jax.Array) -> jax.Array:
        time = timestep_embedding(times, self.width)
        time = self.time2(nnx.silu(self.time1(time)))
        x = self.stem(x)
        skips = []
        for down in self.downs:
            x = down(x, time)
            skips.append(x)
            x = nnx.avg_pool(x, (2, 2), (2, 2))
        x = self.middle2(self.attention(self.middle1(x, time)), time)
        for grow, up in zip(self.grows, self.ups, strict=True):
            x = up(jnp.concatenate([grow(x), skips.pop()], axis=-1), time)
        return self.head(nnx.silu(self.norm(x)))
