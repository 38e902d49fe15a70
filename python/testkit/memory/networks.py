"""Twelve networks whose values are much larger than what a runtime allocates besides them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from testkit.models import gpt2, networks

Built = tuple[Callable[..., Any], list[np.ndarray]]

random = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return random.normal(size=shape).astype(np.float32)


def weight(*shape: int) -> np.ndarray:
    return normal(*shape) / np.float32(np.sqrt(shape[0]))


def perceptron() -> Built:
    mlp = eqx.nn.MLP(256, 64, 512, 4, activation=jax.nn.gelu, key=jax.random.key(0))
    return jax.vmap(mlp), [normal(512, 256)]


class ResidualBlock(nnx.Module):
    def __init__(self, inner: int, outer: int, stride: int, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(inner, outer, (3, 3), strides=stride, rngs=rngs)
        self.second = nnx.Conv(outer, outer, (3, 3), rngs=rngs)
        norms = [nnx.BatchNorm(outer, use_running_average=True, rngs=rngs) for _ in range(2)]
        self.norms = nnx.List(norms)
        self.skip = nnx.Conv(inner, outer, (1, 1), strides=stride, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        hidden = nnx.relu(self.norms[0](self.first(x)))
        return nnx.relu(self.skip(x) + self.norms[1](self.second(hidden)))


class Residual(nnx.Module):
    """A convolutional network with residual connections."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        widths = [(16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2)]
        self.stem = nnx.Conv(3, 16, (7, 7), strides=2, rngs=rngs)
        self.blocks = nnx.List([ResidualBlock(*width, rngs=rngs) for width in widths])
        self.head = nnx.Linear(64, 10, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.max_pool(nnx.relu(self.stem(x)), (3, 3), (2, 2), "SAME")
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(axis=(1, 2)))


def residual() -> Built:
    return Residual(nnx.Rngs(0)), [normal(4, 96, 96, 3)]


def language_model() -> Built:
    model = gpt2.GPT2(3, 64, 4, 300, 128)
    return lambda tokens: model(tokens), [random.integers(0, 300, (2, 128)).astype(np.int32)]


def vision_transformer() -> Built:
    blocks = [networks.NnxBlock(64, nnx.Rngs(layer)) for layer in range(4)]
    embedding = weight(48, 64)

    def classify(image: jax.Array) -> jax.Array:
        patches = image.reshape(8, 12, 4, 12, 4, 3).transpose(0, 1, 3, 2, 4, 5)
        x = patches.reshape(8, 144, 48) @ embedding
        for block in blocks:
            x = block(x)
        return x.mean(axis=1)

    return classify, [normal(8, 48, 48, 3)]


def lstm() -> Built:
    layer = nn.RNN(nn.OptimizedLSTMCell(64))
    x = normal(16, 100, 32)
    params = layer.init(jax.random.key(0), x)
    return lambda x: layer.apply(params, x), [x]


def recurrent() -> Built:
    into, over, out = weight(32, 128), weight(128, 128), weight(128, 64)

    def run(xs: jax.Array, start: jax.Array) -> Any:
        def step(state: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            state = jnp.tanh(x @ into + state @ over) * jax.nn.sigmoid(state)
            return state, state @ out

        return jax.lax.scan(step, start, xs)

    return run, [normal(60, 32, 32), normal(32, 128)]


def sinkhorn() -> Built:
    def balance(scores: jax.Array, count: jax.Array) -> jax.Array:
        def step(_: jax.Array, x: jax.Array) -> jax.Array:
            x = x - jax.nn.logsumexp(x, axis=1, keepdims=True)
            return x - jax.nn.logsumexp(x, axis=0, keepdims=True)

        return jnp.exp(jax.lax.fori_loop(0, count, step, scores))

    return balance, [normal(300, 300), np.array(8, np.int32)]


def training_step() -> Built:
    mlp = eqx.nn.MLP(64, 10, 256, 3, activation=jnp.tanh, key=jax.random.key(0))
    arrays, static = eqx.partition(mlp, eqx.is_array)
    leaves, tree = jax.tree.flatten(arrays)

    def loss(leaves: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
        model = eqx.combine(jax.tree.unflatten(tree, leaves), static)
        return jnp.mean((jax.nn.log_softmax(jax.vmap(model)(x)) - y) ** 2)

    def step(x: jax.Array, y: jax.Array) -> list[jax.Array]:
        gradients = jax.grad(loss)(leaves, x, y)
        return [leaf - 0.1 * change for leaf, change in zip(leaves, gradients, strict=True)]

    return step, [normal(512, 64), normal(512, 10)]


def mixer() -> Built:
    tokens, channels = (weight(64, 128), weight(128, 64)), (weight(96, 192), weight(192, 96))

    def mix(x: jax.Array) -> jax.Array:
        for _ in range(4):
            y = jnp.swapaxes(x, 1, 2)
            y = jax.nn.gelu(y @ tokens[0]) @ tokens[1]
            x = x + jnp.swapaxes(y, 1, 2)
            x = x + jax.nn.gelu(x @ channels[0]) @ channels[1]
            x = (x - x.mean(axis=-1, keepdims=True)) / jnp.sqrt(x.var(axis=-1, keepdims=True) + 1)
        return x.mean(axis=1)

    return mix, [normal(8, 64, 96)]


def bodies() -> Built:
    def move(positions: jax.Array, speeds: jax.Array) -> Any:
        for _ in range(2):
            apart = positions[:, None] - positions[None]
            square = (apart**2).sum(axis=-1, keepdims=True) + 0.01
            pull = (apart / (square * jnp.sqrt(square))).sum(axis=1)
            speeds = speeds - 0.01 * pull
            positions = positions + 0.01 * speeds
        return positions, speeds

    return move, [normal(300, 3), normal(300, 3)]


def flow() -> Built:
    layers = [(weight(16, 128), weight(128, 32)) for _ in range(6)]

    def transform(z: jax.Array) -> Any:
        log_volume = jnp.zeros(z.shape[0])
        for inner, outer in layers:
            x, y = jnp.split(z, 2, axis=-1)
            scale, shift = jnp.split(jnp.tanh(x @ inner) @ outer, 2, axis=-1)
            y = y * jnp.exp(jnp.tanh(scale)) + shift
            log_volume = log_volume + jnp.tanh(scale).sum(axis=-1)
            z = jnp.concatenate([y, x], axis=-1)
        return z, log_volume

    return transform, [normal(2000, 32)]


def retrieval() -> Built:
    table, queries = weight(1000, 64), weight(64, 64)

    def rank(x: jax.Array) -> Any:
        scores = (x @ queries) @ table.T
        scores = jnp.where(scores > 0, scores, -1e9)
        best, places = jax.lax.top_k(jax.nn.softmax(scores, axis=-1), 16)
        return best, jnp.asarray(table)[places].sum(axis=1)

    return rank, [normal(256, 64)]


#: Options of the export. Without NaN, the recurrent cell is one operator and no branch of `If`.
OPTIONS: dict[str, dict[str, Any]] = {"lstm": {"nan": "ignore"}}

NETWORKS: dict[str, Callable[[], Built]] = {
    build.__name__: build
    for build in (
        perceptron,
        residual,
        language_model,
        vision_transformer,
        lstm,
        recurrent,
        sinkhorn,
        training_step,
        mixer,
        bodies,
        flow,
        retrieval,
    )
}
