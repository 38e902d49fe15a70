"""Whole networks with small weights, in the libraries that people build them with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dm_pix
import einops
import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from . import unets

Built = tuple[Callable[..., Any], tuple[np.ndarray, ...]]

random = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return random.normal(size=shape).astype(np.float32)


class NnxBlock(nnx.Module):
    """A block of a vision transformer."""

    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.norm1 = nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, width, decode=False, rngs=rngs)
        self.norm2 = nnx.LayerNorm(width, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        x = x + self.attention(self.norm1(x), mask=mask)
        return x + self.down(nnx.gelu(self.up(self.norm2(x))))


def nnx_vit_block() -> Built:
    return NnxBlock(8, nnx.Rngs(0)), (normal(2, 5, 8),)


def nnx_causal_block() -> Built:
    block = NnxBlock(8, nnx.Rngs(0))
    return lambda x: block(x, nnx.make_causal_mask(x[..., 0])), (normal(2, 5, 8),)


def nnx_resnet_block() -> Built:
    rngs = nnx.Rngs(0)
    convolutions = [nnx.Conv(4, 4, (3, 3), rngs=rngs) for _ in range(2)]
    norms = [nnx.BatchNorm(4, use_running_average=True, rngs=rngs) for _ in range(2)]

    def block(x: jax.Array) -> jax.Array:
        hidden = nnx.relu(norms[0](convolutions[0](x)))
        return nnx.relu(x + norms[1](convolutions[1](hidden)))

    return block, (normal(1, 8, 8, 4),)


def linen_unet() -> Built:
    class UNet(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            first = nn.relu(nn.Conv(4, (3, 3))(x))
            small = nn.relu(nn.Conv(8, (3, 3))(nn.max_pool(first, (2, 2), (2, 2))))
            large = jax.image.resize(small, (*first.shape[:3], 8), "bilinear")
            up = nn.ConvTranspose(4, (2, 2), (2, 2))(small)
            return nn.Conv(1, (1, 1))(jnp.concatenate([first, large, up], axis=-1))

    x = normal(1, 8, 8, 3)
    params = UNet().init(jax.random.key(0), x)
    return lambda x: UNet().apply(params, x), (x,)


def linen_recurrent(cell: type[nn.Module], reverse: bool, size: int = 6) -> Built:
    layer = nn.RNN(cell(size), reverse=reverse, keep_order=True)
    x = normal(2, 7, 3)
    params = layer.init(jax.random.key(0), x)
    return lambda x: layer.apply(params, x), (x,)


def equinox_mlp() -> Built:
    mlp = eqx.nn.MLP(4, 3, 8, 2, activation=jax.nn.silu, key=jax.random.key(0))
    return jax.vmap(mlp), (normal(5, 4),)


def equinox_gru() -> Built:
    cell = eqx.nn.GRUCell(3, 5, key=jax.random.key(0))

    def encode(xs: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda h, x: (cell(x, h), None), jnp.zeros(5), xs)[0]

    return encode, (normal(6, 3),)


def haiku_convolutional() -> Built:
    def forward(x: jax.Array) -> jax.Array:
        x = jax.nn.relu(hk.Conv2D(4, 3, stride=2)(x))
        x = hk.AvgPool(2, 2, "VALID")(x)
        return hk.nets.MLP([8, 3])(hk.Flatten()(x))

    x = normal(2, 8, 8, 1)
    transformed = hk.without_apply_rng(hk.transform(forward))
    params = transformed.init(jax.random.key(0), x)
    return lambda x: transformed.apply(params, x), (x,)


def gpt_step_with_cache() -> Built:
    width, heads, length = 8, 2, 6
    qkv, out = normal(width, 3 * width), normal(width, width)

    def step(x: jax.Array, keys: jax.Array, values: jax.Array, at: jax.Array) -> Any:
        q, k, v = jnp.split((x @ qkv).reshape(3 * heads, width // heads), 3)
        keys = jax.lax.dynamic_update_slice(keys, k[None], (at, 0, 0))
        values = jax.lax.dynamic_update_slice(values, v[None], (at, 0, 0))
        scores = jnp.einsum("hd,thd->ht", q, keys) / 2.0
        scores = jnp.where(jnp.arange(length) <= at, scores, -jnp.inf)
        mixed = jnp.einsum("ht,thd->hd", jax.nn.softmax(scores, axis=-1), values)
        return mixed.reshape(width) @ out, keys, values

    cache = normal(length, heads, width // heads)
    return step, (normal(width), cache, cache + 1, np.int32(2))


def mixture_of_experts() -> Built:
    gate, experts = normal(6, 4), normal(4, 6, 6)

    def forward(x: jax.Array) -> jax.Array:
        weights, chosen = jax.lax.top_k(jax.nn.softmax(x @ gate), 2)
        outputs = jnp.einsum("bi,bkij->bkj", x, jnp.asarray(experts)[chosen])
        return jnp.einsum("bk,bkj->bj", weights / weights.sum(-1, keepdims=True), outputs)

    return forward, (normal(5, 6),)


def beam_search() -> Built:
    table = normal(7, 7)

    def search(start: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(state: Any, _: None) -> Any:
            tokens, scores = state
            steps = jax.nn.log_softmax(jnp.asarray(table)[tokens])
            flat, chosen = jax.lax.top_k((scores[:, None] + steps).reshape(-1), 3)
            return (chosen % 7, flat), (chosen // 7, chosen % 7)

        initial = (jnp.full(3, start), jnp.array([0.0, -1e9, -1e9]))
        (_, scores), history = jax.lax.scan(step, initial, None, length=4)
        return scores, history

    return search, (np.int32(3),)


def ode_solver() -> Built:
    def rate(y: jax.Array) -> jax.Array:
        return jnp.array([y[1], -jnp.sin(y[0])])

    def rk4(y: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        h = 0.05
        k1 = rate(y)
        k2 = rate(y + h / 2 * k1)
        k3 = rate(y + h / 2 * k2)
        k4 = rate(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y

    return lambda y: jax.lax.scan(rk4, y, None, length=20), (np.array([1.0, 0.0], np.float32),)


def non_maximum_suppression() -> Built:
    def suppress(boxes: jax.Array, scores: jax.Array) -> jax.Array:
        order = jnp.argsort(-scores)
        boxes = boxes[order]
        low = jnp.maximum(boxes[:, None, :2], boxes[None, :, :2])
        high = jnp.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        overlap = jnp.prod(jnp.clip(high - low, 0), axis=-1)
        area = jnp.prod(boxes[:, 2:] - boxes[:, :2], axis=-1)
        over = overlap / (area[:, None] + area[None] - overlap) > 0.3

        def keep(i: jax.Array, kept: jax.Array) -> jax.Array:
            beaten = jnp.any(over[i] & kept & (jnp.arange(len(scores)) < i))
            return kept.at[i].set(~beaten)

        kept = jax.lax.fori_loop(0, len(scores), keep, jnp.ones(len(scores), bool))
        return jnp.zeros_like(kept).at[order].set(kept)

    corners = random.uniform(0, 4, size=(8, 2)).astype(np.float32)
    return suppress, (np.concatenate([corners, corners + 2], axis=1), normal(8))


def physics_step() -> Built:
    def energy(positions: jax.Array) -> jax.Array:
        apart = positions[:, None] - positions[None] + jnp.eye(len(positions))[..., None]
        return jnp.sum(1 / jnp.sqrt(jnp.sum(apart**2, axis=-1)))

    def step(positions: jax.Array, speeds: jax.Array) -> tuple[jax.Array, jax.Array]:
        speeds = speeds - 0.01 * jax.grad(energy)(positions)
        return positions + 0.01 * speeds, speeds

    return step, (normal(5, 3), normal(5, 3))


def optax_losses() -> Built:
    def losses(logits: jax.Array, labels: jax.Array) -> tuple[jax.Array, ...]:
        return (
            optax.softmax_cross_entropy_with_integer_labels(logits, labels),
            optax.huber_loss(logits, jnp.zeros_like(logits)),
            optax.sigmoid_binary_cross_entropy(logits, jax.nn.one_hot(labels, 4)),
        )

    return losses, (normal(5, 4), np.array([0, 3, 1, 2, 2], np.int32))


def einops_patches() -> Built:
    weight = normal(12, 6)

    def embed(image: jax.Array) -> jax.Array:
        patches = einops.rearrange(image, "b (h p) (w q) c -> b (h w) (p q c)", p=2, q=2)
        return einops.reduce(patches @ weight, "b n d -> b d", "max")

    return embed, (normal(2, 4, 6, 3),)


def pix_augmentation() -> Built:
    def augment(image: jax.Array) -> jax.Array:
        image = dm_pix.adjust_contrast(dm_pix.flip_left_right(image), 1.5)
        return dm_pix.gaussian_blur(image, 1.0, 3)

    return augment, (random.uniform(size=(6, 6, 3)).astype(np.float32),)


NETWORKS: dict[str, Callable[[], Built]] = {
    "nnx vit block": nnx_vit_block,
    "nnx causal block": nnx_causal_block,
    "nnx resnet block": nnx_resnet_block,
    "linen unet": linen_unet,
    "linen diffusion unet": unets.linen_unet,
    "nnx diffusion unet": unets.nnx_unet,
    "equinox diffusion unet": unets.equinox_unet,
    "linen lstm": lambda: linen_recurrent(nn.OptimizedLSTMCell, False),
    "linen large lstm": lambda: linen_recurrent(nn.OptimizedLSTMCell, False, 80),
    "linen lstm reverse": lambda: linen_recurrent(nn.LSTMCell, True),
    "linen gru": lambda: linen_recurrent(nn.GRUCell, False),
    "equinox mlp": equinox_mlp,
    "equinox gru": equinox_gru,
    "haiku convolutional": haiku_convolutional,
    "gpt step with cache": gpt_step_with_cache,
    "mixture of experts": mixture_of_experts,
    "beam search": beam_search,
    "ode solver": ode_solver,
    "non-maximum suppression": non_maximum_suppression,
    "physics step": physics_step,
    "optax losses": optax_losses,
    "einops patches": einops_patches,
    "pix augmentation": pix_augmentation,
}
