"""The UNet of a diffusion model, as people write it in each library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import einops
import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from .nnx_unet import NnxUNet, timestep_embedding

Built = tuple[Callable[..., Any], tuple[np.ndarray, ...]]

WIDTHS = (16, 32)
"""Channels at each resolution."""
GROUPS = 4


def inputs(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns images, and a time for each."""
    rng = np.random.default_rng(7)
    times = rng.integers(0, 1000, shape[0]).astype(np.float32)
    return rng.normal(size=shape).astype(np.float32), times


def trained(weights: Any) -> Any:
    """Returns weights that are neither ones nor zeros."""
    rng = np.random.default_rng(8)

    def moved(leaf: Any) -> Any:
        is_float = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
        return leaf + 0.1 * rng.normal(size=leaf.shape).astype(np.float32) if is_float else leaf

    return jax.tree.map(moved, weights)


class LinenResnetBlock(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x: jax.Array, time: jax.Array) -> jax.Array:
        h = nn.swish(nn.GroupNorm(num_groups=GROUPS)(x))
        h = nn.Conv(self.width, (3, 3))(h)
        h += nn.Dense(self.width)(nn.swish(time))[:, None, None, :]
        h = nn.swish(nn.GroupNorm(num_groups=GROUPS)(h))
        h = nn.Dropout(0.1, deterministic=True)(h)
        h = nn.Conv(self.width, (3, 3))(h)
        if x.shape[-1] != self.width:
            x = nn.Dense(self.width)(x)
        return x + h


class LinenAttentionBlock(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        b, h, w, c = x.shape
        y = nn.GroupNorm(num_groups=GROUPS)(x)
        q, k, v = nn.Dense(c)(y), nn.Dense(c)(y), nn.Dense(c)(y)
        scores = jnp.einsum("bhwc,bHWc->bhwHW", q, k) * (int(c) ** -0.5)
        scores = nn.softmax(scores.reshape(b, h, w, h * w), -1).reshape(b, h, w, h, w)
        return x + nn.Dense(c)(jnp.einsum("bhwHW,bHWc->bhwc", scores, v))


class LinenUNet(nn.Module):
    """Strided convolutions down, resized images up, attention at the lowest resolution."""

    @nn.compact
    def __call__(self, x: jax.Array, times: jax.Array) -> jax.Array:
        time = timestep_embedding(times, WIDTHS[0])
        time = nn.Dense(4 * WIDTHS[0])(nn.swish(nn.Dense(4 * WIDTHS[0])(time)))
        skips = [x := nn.Conv(WIDTHS[0], (3, 3))(x)]
        for level, width in enumerate(WIDTHS):
            skips.append(x := LinenResnetBlock(width)(x, time))
            if level < len(WIDTHS) - 1:
                skips.append(x := nn.Conv(width, (3, 3), strides=(2, 2))(x))
        x = LinenResnetBlock(WIDTHS[-1])(x, time)
        x = LinenAttentionBlock()(x)
        x = LinenResnetBlock(WIDTHS[-1])(x, time)
        for level, width in reversed(list(enumerate(WIDTHS))):
            for _ in range(2):
                x = LinenResnetBlock(width)(jnp.concatenate([x, skips.pop()], axis=-1), time)
            if level > 0:
                b, h, w, c = x.shape
                x = jax.image.resize(x, (b, 2 * h, 2 * w, c), "nearest")
                x = nn.Conv(c, (3, 3))(x)
        x = nn.swish(nn.GroupNorm(num_groups=GROUPS)(x))
        return nn.Conv(3, (3, 3))(x)


def linen_unet() -> Built:
    x, times = inputs(2, 16, 16, 3)
    model = LinenUNet()
    params = trained(model.init(jax.random.key(0), x, times))
    return lambda x, times: model.apply(params, x, times), (x, times)


def nnx_unet() -> Built:
    graph, weights = nnx.split(NnxUNet(WIDTHS, GROUPS, rngs=nnx.Rngs(0)))
    return nnx.merge(graph, trained(weights)), inputs(2, 16, 16, 3)


class EquinoxResnetBlock(eqx.Module):
    norm1: eqx.nn.GroupNorm
    conv1: eqx.nn.Conv2d
    time: eqx.nn.Linear
    norm2: eqx.nn.GroupNorm
    conv2: eqx.nn.Conv2d
    shortcut: eqx.nn.Conv2d

    def __init__(self, inner: int, outer: int, time: int, key: jax.Array) -> None:
        keys = jax.random.split(key, 4)
        self.norm1 = eqx.nn.GroupNorm(GROUPS, inner)
        self.conv1 = eqx.nn.Conv2d(inner, outer, 3, padding=1, key=keys[0])
        self.time = eqx.nn.Linear(time, outer, key=keys[1])
        self.norm2 = eqx.nn.GroupNorm(GROUPS, outer)
        self.conv2 = eqx.nn.Conv2d(outer, outer, 3, padding=1, key=keys[2])
        self.shortcut = eqx.nn.Conv2d(inner, outer, 1, key=keys[3])

    def __call__(self, x: jax.Array, time: jax.Array) -> jax.Array:
        h = self.conv1(jax.nn.silu(self.norm1(x)))
        h = h + self.time(jax.nn.silu(time))[:, None, None]
        h = self.conv2(jax.nn.silu(self.norm2(h)))
        return (h + self.shortcut(x)) / jnp.sqrt(2)


class EquinoxAttentionBlock(eqx.Module):
    norm: eqx.nn.GroupNorm
    to_qkv: eqx.nn.Conv2d
    to_out: eqx.nn.Conv2d

    def __init__(self, width: int, key: jax.Array) -> None:
        keys = jax.random.split(key, 2)
        self.norm = eqx.nn.GroupNorm(GROUPS, width)
        self.to_qkv = eqx.nn.Conv2d(width, 3 * width, 1, key=keys[0])
        self.to_out = eqx.nn.Conv2d(width, width, 1, key=keys[1])

    def __call__(self, x: jax.Array) -> jax.Array:
        _, height, width = x.shape
        qkv = self.to_qkv(self.norm(x))
        q, k, v = einops.rearrange(qkv, "(qkv heads c) h w -> qkv heads c (h w)", heads=4, qkv=3)
        scores = jnp.einsum("hdn,hde->hne", q, k) * q.shape[1] ** -0.5
        out = jnp.einsum("hne,hde->hdn", jax.nn.softmax(scores, axis=-1), v)
        out = einops.rearrange(out, "heads c (h w) -> (heads c) h w", h=height, w=width)
        return x + self.to_out(out)


class EquinoxUNet(eqx.Module):
    """Strided convolutions down, resized images up, of one image at a time."""

    time: eqx.nn.MLP
    stem: eqx.nn.Conv2d
    downs: list[EquinoxResnetBlock]
    shrinks: list[eqx.nn.Conv2d]
    middle: EquinoxResnetBlock
    attention: EquinoxAttentionBlock
    ups: list[EquinoxResnetBlock]
    norm: eqx.nn.GroupNorm
    head: eqx.nn.Conv2d

    def __init__(self, key: jax.Array) -> None:
        keys = iter(jax.random.split(key, 5 + 3 * len(WIDTHS)))
        first, last = WIDTHS[0], WIDTHS[-1]
        pairs = list(zip((first, *WIDTHS[:-1]), WIDTHS, strict=True))
        self.time = eqx.nn.MLP(first, 64, 64, 1, activation=jax.nn.silu, key=next(keys))
        self.stem = eqx.nn.Conv2d(3, first, 3, padding=1, key=next(keys))
        self.downs = [EquinoxResnetBlock(a, b, 64, next(keys)) for a, b in pairs]
        self.shrinks = [eqx.nn.Conv2d(b, b, 3, 2, 1, key=next(keys)) for _, b in pairs]
        self.middle = EquinoxResnetBlock(last, last, 64, next(keys))
        self.attention = EquinoxAttentionBlock(last, next(keys))
        self.ups = [EquinoxResnetBlock(2 * b, a, 64, next(keys)) for a, b in pairs[::-1]]
        self.norm = eqx.nn.GroupNorm(GROUPS, first)
        self.head = eqx.nn.Conv2d(first, 3, 3, padding=1, key=next(keys))

    def __call__(self, x: jax.Array, time: jax.Array) -> jax.Array:
        time = self.time(timestep_embedding(time[None], WIDTHS[0])[0])
        x = self.stem(x)
        skips = []
        for down, shrink in zip(self.downs, self.shrinks, strict=True):
            x = down(x, time)
            skips.append(x)
            x = shrink(x)
        x = self.attention(self.middle(x, time))
        for up in self.ups:
            c, h, w = x.shape
            x = jax.image.resize(x, (c, 2 * h, 2 * w), "nearest")
            x = up(jnp.concatenate([x, skips.pop()]), time)
        return self.head(jax.nn.silu(self.norm(x)))


def equinox_unet() -> Built:
    return jax.vmap(trained(EquinoxUNet(jax.random.key(0)))), inputs(2, 3, 16, 16)
