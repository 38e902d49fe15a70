"""Networks to be run, with random weights: the same on every call, in whichever environment.

They use flax nnx and plain JAX alone, so that any exporter can be given them. Programs with loops
are in `loops.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cells import CELLS
from flax import nnx
from loops import LOOPS

from testkit.models.nnx_unet import NnxUNet

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Network:
    """A function with what to call it on."""

    build: Callable[[], Callable[..., Any]]
    inputs: Callable[[], list[np.ndarray]]
    #: Whether it is computed straight through, without a loop.
    feed_forward: bool = True


def floats(*shape: int) -> Callable[[], list[np.ndarray]]:
    return lambda: [RNG.normal(size=shape).astype(np.float32)]


def tokens(count: int, vocabulary: int) -> Callable[[], list[np.ndarray]]:
    return lambda: [RNG.integers(0, vocabulary, (1, count)).astype(np.int32)]


class Bottleneck(nnx.Module):
    def __init__(self, inner: int, outer: int, width: int, stride: int, *, rngs: nnx.Rngs) -> None:
        def conv(a: int, b: int, size: int, stride: int = 1) -> nnx.Conv:
            return nnx.Conv(a, b, (size, size), (stride, stride), use_bias=False, rngs=rngs)

        def norm(features: int) -> nnx.BatchNorm:
            return nnx.BatchNorm(features, use_running_average=True, rngs=rngs)

        self.conv1, self.norm1 = conv(inner, width, 1), norm(width)
        self.conv2, self.norm2 = conv(width, width, 3, stride), norm(width)
        self.conv3, self.norm3 = conv(width, outer, 1), norm(outer)
        changes = inner != outer or stride != 1
        self.shortcut = conv(inner, outer, 1, stride) if changes else None
        self.shortcut_norm = norm(outer) if changes else None

    def __call__(self, x: jax.Array) -> jax.Array:
        y = nnx.relu(self.norm1(self.conv1(x)))
        y = nnx.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        if self.shortcut is not None and self.shortcut_norm is not None:
            x = self.shortcut_norm(self.shortcut(x))
        return nnx.relu(x + y)


class ResNet50(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.stem = nnx.Conv(3, 64, (7, 7), (2, 2), use_bias=False, rngs=rngs)
        self.stem_norm = nnx.BatchNorm(64, use_running_average=True, rngs=rngs)
        blocks, inner = [], 64
        for stage, (count, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
            for i in range(count):
                stride = 2 if i == 0 and stage > 0 else 1
                blocks.append(Bottleneck(inner, 4 * width, width, stride, rngs=rngs))
                inner = 4 * width
        self.blocks = nnx.List(blocks)
        self.head = nnx.Linear(inner, 1000, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.stem_norm(self.stem(x)))
        x = nnx.max_pool(x, window_shape=(3, 3), strides=(2, 2), padding="SAME")
        for block in self.blocks:
            x = block(x)
        return self.head(jnp.mean(x, (1, 2)))


class ConvNeXtBlock(nnx.Module):
    def __init__(self, width: int, *, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(width, width, (7, 7), feature_group_count=width, rngs=rngs)
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)
        self.gamma = nnx.Param(jnp.full((width,), 1e-6))

    def __call__(self, x: jax.Array) -> jax.Array:
        y = self.down(nnx.gelu(self.up(self.norm(self.conv(x)))))
        return x + self.gamma[...] * y


class ConvNeXt(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs) -> None:
        widths, depths = (96, 192, 384, 768), (3, 3, 9, 3)
        self.stem = nnx.Conv(3, 96, (4, 4), (4, 4), rngs=rngs)
        self.stem_norm = nnx.LayerNorm(96, rngs=rngs)
        self.stages = nnx.List(
            [
                nnx.List([ConvNeXtBlock(width, rngs=rngs) for _ in range(depth)])
                for width, depth in zip(widths, depths, strict=True)
            ]
        )
        self.norms = nnx.List([nnx.LayerNorm(width, rngs=rngs) for width in widths[:-1]])
        pairs = itertools.pairwise(widths)
        self.downs = nnx.List([nnx.Conv(a, b, (2, 2), (2, 2), rngs=rngs) for a, b in pairs])
        self.norm = nnx.LayerNorm(768, rngs=rngs)
        self.head = nnx.Linear(768, 1000, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.stem_norm(self.stem(x))
        for stage, blocks in enumerate(self.stages):
            if stage > 0:
                x = self.downs[stage - 1](self.norms[stage - 1](x))
            for block in blocks:
                x = block(x)
        return self.head(self.norm(jnp.mean(x, (1, 2))))


class UNet(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs) -> None:
        def pair(a: int, b: int) -> nnx.List:
            convs = [nnx.Conv(a, b, (3, 3), rngs=rngs), nnx.Conv(b, b, (3, 3), rngs=rngs)]
            return nnx.List(convs)

        self.downs = nnx.List([pair(3, 32), pair(32, 64), pair(64, 128)])
        self.middle = pair(128, 256)
        self.shrinks = nnx.List(
            [nnx.Conv(a, b, (1, 1), rngs=rngs) for a, b in ((256, 128), (128, 64), (64, 32))]
        )
        self.ups = nnx.List([pair(256, 128), pair(128, 64), pair(64, 32)])
        self.head = nnx.Conv(32, 2, (1, 1), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        def run(convs: nnx.List, x: jax.Array) -> jax.Array:
            for conv in convs:
                x = nnx.relu(conv(x))
            return x

        skips = []
        for down in self.downs:
            x = run(down, x)
            skips.append(x)
            x = nnx.max_pool(x, window_shape=(2, 2), strides=(2, 2))
        x = run(self.middle, x)
        for up, shrink, skip in zip(self.ups, self.shrinks, reversed(skips), strict=True):
            b, h, w, c = x.shape
            x = shrink(jax.image.resize(x, (b, 2 * h, 2 * w, c), "nearest"))
            x = run(up, jnp.concatenate([skip, x], -1))
        return self.head(x)


class Attention(nnx.Module):
    """Attention of a number of heads, with fewer keys and values where wanted."""

    def __init__(
        self,
        width: int,
        heads: int,
        groups: int | None = None,
        *,
        bias: bool = True,
        rngs: nnx.Rngs,
    ) -> None:
        self.heads, self.groups, self.size = heads, groups or heads, width // heads
        self.query = nnx.Linear(width, width, use_bias=bias, rngs=rngs)
        self.key = nnx.Linear(width, self.groups * self.size, use_bias=bias, rngs=rngs)
        self.value = nnx.Linear(width, self.groups * self.size, use_bias=bias, rngs=rngs)
        self.out = nnx.Linear(width, width, use_bias=bias, rngs=rngs)

    def __call__(
        self,
        x: jax.Array,
        mask: jax.Array | None = None,
        turn: Callable[[jax.Array], jax.Array] = lambda x: x,
    ) -> jax.Array:
        b, t, width = x.shape
        q = turn(self.query(x).reshape(b, t, self.heads, self.size))
        k = turn(self.key(x).reshape(b, t, self.groups, self.size))
        v = self.value(x).reshape(b, t, self.groups, self.size)
        if self.groups != self.heads:
            k = jnp.repeat(k, self.heads // self.groups, axis=2)
            v = jnp.repeat(v, self.heads // self.groups, axis=2)
        scores = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(self.size).astype(np.float32)
        if mask is not None:
            scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
        mixed = jnp.einsum("bhts,bshd->bthd", nnx.softmax(scores), v)
        return self.out(mixed.reshape(b, t, width))


class Block(nnx.Module):
    """A block of a transformer whose norms come first."""

    def __init__(self, width: int, heads: int, *, rngs: nnx.Rngs) -> None:
        self.norm1 = nnx.LayerNorm(width, rngs=rngs)
        self.attention = Attention(width, heads, rngs=rngs)
        self.norm2 = nnx.LayerNorm(width, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        x = x + self.attention(self.norm1(x), mask)
        return x + self.down(nnx.gelu(self.up(self.norm2(x))))


class ViT(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.patches = nnx.Conv(3, 768, (16, 16), (16, 16), rngs=rngs)
        self.token = nnx.Param(jnp.zeros((1, 1, 768)))
        self.positions = nnx.Param(0.02 * jax.random.normal(rngs.params(), (1, 197, 768)))
        self.blocks = nnx.List([Block(768, 12, rngs=rngs) for _ in range(12)])
        self.norm = nnx.LayerNorm(768, rngs=rngs)
        self.head = nnx.Linear(768, 1000, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.patches(x)
        x = x.reshape(x.shape[0], -1, x.shape[-1])
        token = jnp.broadcast_to(self.token[...], (x.shape[0], 1, x.shape[-1]))
        x = jnp.concatenate([token, x], 1) + self.positions[...]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class GPT2(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.tokens = nnx.Embed(50257, 768, rngs=rngs)
        self.positions = nnx.Embed(1024, 768, rngs=rngs)
        self.blocks = nnx.List([Block(768, 12, rngs=rngs) for _ in range(12)])
        self.norm = nnx.LayerNorm(768, rngs=rngs)

    def __call__(self, ids: jax.Array) -> jax.Array:
        length = ids.shape[1]
        x = self.tokens(ids) + self.positions(jnp.arange(length))
        mask = jnp.tril(jnp.ones((1, 1, length, length), bool))
        for block in self.blocks:
            x = block(x, mask)
        return self.tokens.attend(self.norm(x))


class Bert(nnx.Module):
    """An encoder whose norms come last, with a padding mask."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.attentions = nnx.List([Attention(768, 12, rngs=rngs) for _ in range(12)])
        self.norms1 = nnx.List([nnx.LayerNorm(768, rngs=rngs) for _ in range(12)])
        self.ups = nnx.List([nnx.Linear(768, 3072, rngs=rngs) for _ in range(12)])
        self.downs = nnx.List([nnx.Linear(3072, 768, rngs=rngs) for _ in range(12)])
        self.norms2 = nnx.List([nnx.LayerNorm(768, rngs=rngs) for _ in range(12)])

    def __call__(self, x: jax.Array, lengths: jax.Array) -> jax.Array:
        mask = (jnp.arange(x.shape[1]) < lengths[:, None])[:, None, None, :]
        layers = zip(self.attentions, self.norms1, self.ups, self.downs, self.norms2, strict=True)
        for attention, norm1, up, down, norm2 in layers:
            x = norm1(x + attention(x, mask))
            x = norm2(x + down(nnx.gelu(up(x), approximate=False)))
        return x


class LlamaBlock(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.norm1 = nnx.RMSNorm(512, rngs=rngs)
        self.attention = Attention(512, 8, 2, bias=False, rngs=rngs)
        self.norm2 = nnx.RMSNorm(512, rngs=rngs)
        self.gate = nnx.Linear(512, 1408, use_bias=False, rngs=rngs)
        self.up = nnx.Linear(512, 1408, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(1408, 512, use_bias=False, rngs=rngs)

    def __call__(self, x: jax.Array, mask: jax.Array, turn: Any) -> jax.Array:
        x = x + self.attention(self.norm1(x), mask, turn)
        y = self.norm2(x)
        return x + self.down(nnx.silu(self.gate(y)) * self.up(y))


class Llama(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.blocks = nnx.List([LlamaBlock(rngs=rngs) for _ in range(4)])
        self.norm = nnx.RMSNorm(512, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        length = x.shape[1]
        angles = jnp.arange(length)[:, None] / 10000.0 ** (jnp.arange(32) / 32)
        cos, sin = jnp.cos(angles)[:, None, :], jnp.sin(angles)[:, None, :]

        def turn(x: jax.Array) -> jax.Array:
            a, b = jnp.split(x, 2, axis=-1)
            return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

        mask = jnp.tril(jnp.ones((1, 1, length, length), bool))
        for block in self.blocks:
            x = block(x, mask, turn)
        return self.norm(x)


class Recurrent(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.cell = nnx.OptimizedLSTMCell(128, 256, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        zeros = jnp.zeros((x.shape[0], 256))
        _, ys = jax.lax.scan(self.cell, (zeros, zeros), jnp.swapaxes(x, 0, 1))
        return jnp.swapaxes(ys, 0, 1)


class Experts(nnx.Module):
    """Every expert on every token, weighed by the two that the router prefers."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.router = nnx.Linear(256, 8, use_bias=False, rngs=rngs)
        self.up = nnx.Param(0.05 * jax.random.normal(rngs.params(), (8, 256, 512)))
        self.down = nnx.Param(0.05 * jax.random.normal(rngs.params(), (8, 512, 256)))

    def __call__(self, x: jax.Array) -> jax.Array:
        scores, chosen = jax.lax.top_k(self.router(x), 2)
        weights = jnp.sum(jax.nn.one_hot(chosen, 8) * nnx.softmax(scores)[..., None], -2)
        hidden = nnx.gelu(jnp.einsum("btd,edh->beth", x, self.up[...]))
        return jnp.einsum("beth,ehd,bte->btd", hidden, self.down[...], weights)


def made(cls: Any) -> Callable[[], Callable[..., Any]]:
    return lambda: cls(rngs=nnx.Rngs(0))


def bert_inputs() -> list[np.ndarray]:
    return [*floats(2, 128, 768)(), np.array([128, 77], np.int32)]


def diffusion_unet() -> Callable[..., Any]:
    return NnxUNet((64, 128, 256), 32, rngs=nnx.Rngs(0))


def diffusion_inputs() -> list[np.ndarray]:
    return [*floats(1, 64, 64, 3)(), np.array([500.0], np.float32)]


NETWORKS: dict[str, Network] = {
    "resnet50": Network(made(ResNet50), floats(1, 224, 224, 3)),
    "vit-b16": Network(made(ViT), floats(1, 224, 224, 3)),
    "gpt2-small": Network(made(GPT2), tokens(128, 50257)),
    "bert": Network(made(Bert), bert_inputs),
    "llama": Network(made(Llama), floats(1, 128, 512)),
    "lstm": Network(made(Recurrent), floats(1, 128, 128), feed_forward=False),
    "unet": Network(made(UNet), floats(1, 128, 128, 3)),
    "diffusion": Network(diffusion_unet, diffusion_inputs),
    "convnext": Network(made(ConvNeXt), floats(1, 224, 224, 3)),
    "experts": Network(made(Experts), floats(1, 64, 256)),
    **{name: Network(*program, feed_forward=False) for name, program in (CELLS | LOOPS).items()},
}
