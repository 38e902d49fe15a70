"""Models in the manner of flax's own examples, in linen and nnx."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

from .program import Program, floats, ints


class LinenCnn(linen.Module):
    """The network of flax's MNIST example."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        x = linen.relu(linen.Conv(8, (3, 3))(x))
        x = linen.avg_pool(x, (2, 2), strides=(2, 2))
        x = linen.relu(linen.Conv(16, (3, 3))(x))
        x = linen.avg_pool(x, (2, 2), strides=(2, 2))
        x = linen.relu(linen.Dense(32)(x.reshape((x.shape[0], -1))))
        return linen.Dense(10)(x)


class LinenAutoencoder(linen.Module):
    """The variational autoencoder of flax's example, with its noise as an input."""

    @linen.compact
    def __call__(self, x: Any, noise: Any) -> Any:
        hidden = linen.relu(linen.Dense(20, name="hidden")(x))
        mean = linen.Dense(5, name="mean")(hidden)
        log_variance = linen.Dense(5, name="logvar")(hidden)
        z = mean + noise * jnp.exp(0.5 * log_variance)
        decoded = linen.Dense(x.shape[-1])(linen.relu(linen.Dense(20)(z)))
        return linen.sigmoid(decoded), mean, log_variance


class LinenSequence(linen.Module):
    """The text classifier of flax's SST-2 example: a bidirectional LSTM."""

    @linen.compact
    def __call__(self, tokens: Any, lengths: Any) -> Any:
        x = linen.Embed(30, 8)(tokens)
        forward = linen.RNN(linen.OptimizedLSTMCell(6))
        backward = linen.RNN(linen.OptimizedLSTMCell(6), reverse=True, keep_order=True)
        x = linen.Bidirectional(forward, backward)(x, seq_lengths=lengths)
        return linen.Dense(2)(x.mean(axis=1))


class LinenTransformer(linen.Module):
    """One block of flax's language model example."""

    @linen.compact
    def __call__(self, tokens: Any) -> Any:
        x = linen.Embed(40, 16)(tokens)
        mask = linen.make_causal_mask(tokens)
        x = x + linen.MultiHeadDotProductAttention(4)(linen.LayerNorm()(x), mask=mask)
        hidden = linen.gelu(linen.Dense(32)(linen.LayerNorm()(x)))
        return linen.Dense(40)(linen.LayerNorm()(x + linen.Dense(16)(hidden)))


class LinenResidual(linen.Module):
    """A block of flax's ImageNet example."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        y = linen.Conv(8, (3, 3), use_bias=False)(x)
        y = linen.relu(linen.BatchNorm(use_running_average=True)(y))
        y = linen.Conv(8, (3, 3), use_bias=False)(y)
        y = linen.BatchNorm(use_running_average=True)(y)
        return linen.relu(linen.Conv(8, (1, 1), use_bias=False)(x) + y).mean(axis=(1, 2))


class LinenActorCritic(linen.Module):
    """The policy of flax's PPO example."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        x = x.astype(jnp.float32) / 255.0
        x = linen.relu(linen.Conv(8, (8, 8), strides=(4, 4))(x))
        x = linen.relu(linen.Conv(16, (4, 4), strides=(2, 2))(x))
        x = linen.relu(linen.Dense(32)(x.reshape((x.shape[0], -1))))
        return linen.log_softmax(linen.Dense(6)(x)), linen.Dense(1)(x)


def bound(module: linen.Module, *inputs: np.ndarray) -> Any:
    def build() -> Any:
        variables = module.init(jax.random.key(0), *inputs)
        return (lambda *arrays: module.apply(variables, *arrays)), inputs

    return build


class NnxMlp(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(8, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.drop = nnx.Dropout(0.2, rngs=rngs)
        self.last = nnx.Linear(16, 4, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.last(self.drop(nnx.gelu(self.norm(self.first(x)))))


class NnxCnn(nnx.Module):
    """The network of the nnx MNIST tutorial."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(1, 8, (3, 3), rngs=rngs)
        self.second = nnx.Conv(8, 16, (3, 3), rngs=rngs)
        self.last = nnx.Linear(16 * 7 * 7, 10, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = nnx.max_pool(nnx.relu(self.first(x)), (2, 2), (2, 2))
        x = nnx.max_pool(nnx.relu(self.second(x)), (2, 2), (2, 2))
        return self.last(x.reshape(x.shape[0], -1))


class NnxBlock(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm = nnx.RMSNorm(16, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, 16, decode=False, rngs=rngs)
        self.up = nnx.Linear(16, 32, rngs=rngs)
        self.down = nnx.Linear(32, 16, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        mask = nnx.make_causal_mask(x[..., 0])
        x = x + self.attention(self.norm(x), mask=mask)
        return x + self.down(nnx.silu(self.up(x)))


class NnxScanned(nnx.Module):
    """Layers whose weights are stacked, as the guide to `nnx.scan` shows."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        @nnx.split_rngs(splits=3)
        @nnx.vmap(in_axes=(0,), out_axes=0)
        def make(rngs: nnx.Rngs) -> NnxBlock:
            return NnxBlock(rngs)

        self.blocks = make(rngs)

    def __call__(self, x: Any) -> Any:
        @nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
        def forward(block: NnxBlock, x: Any) -> Any:
            return block(x)

        return forward(self.blocks, x)


class NnxRecurrent(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.rnn = nnx.RNN(nnx.GRUCell(6, 5, rngs=rngs))
        self.last = nnx.Linear(5, 2, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.last(self.rnn(x)[:, -1])


def merged(kind: Any, *inputs: np.ndarray) -> Any:
    """Returns a function that merges a module inside the trace, because the module changes."""

    def build() -> Any:
        definition, state = nnx.split(kind(nnx.Rngs(0)))
        leaves, structure = jax.tree.flatten(state)

        def fn(*arrays: Any) -> Any:
            return nnx.merge(definition, jax.tree.unflatten(structure, leaves))(*arrays)

        return fn, inputs

    return build


def module(kind: Any, *inputs: np.ndarray) -> Any:
    def build() -> Any:
        made = kind(nnx.Rngs(0))
        made.eval()
        return made, inputs

    return build


IMAGES = floats(2, 28, 28, 1)
PROGRAMS = [
    Program("linen: MNIST", bound(LinenCnn(), IMAGES)),
    Program("linen: VAE", bound(LinenAutoencoder(), floats(2, 30), floats(2, 5, seed=1))),
    Program(
        "linen: SST-2, bidirectional LSTM",
        bound(LinenSequence(), ints(30, 2, 7), np.array([7, 4], np.int32)),
    ),
    Program("linen: language model", bound(LinenTransformer(), ints(40, 2, 8))),
    Program("linen: residual block", bound(LinenResidual(), floats(2, 12, 12, 3))),
    Program("linen: PPO", bound(LinenActorCritic(), ints(255, 2, 84, 84, 4).astype(np.uint8))),
    Program("nnx: MLP", module(NnxMlp, floats(3, 8)), weights=("last.kernel", "last.bias")),
    Program("nnx: MNIST", module(NnxCnn, IMAGES)),
    Program("nnx: transformer block", module(NnxBlock, floats(2, 6, 16))),
    Program("nnx: blocks under `nnx.scan`", merged(NnxScanned, floats(2, 6, 16))),
    Program("nnx: `RNN(GRUCell)`", merged(NnxRecurrent, floats(2, 7, 6))),
]
