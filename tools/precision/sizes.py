"""Networks of several sizes, to measure how long it takes to rank their lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from .networks import NETWORKS, numbers, weights


class Mixer(nnx.Module):
    """Mixes patches and channels in turn."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        def block() -> nnx.List[Any]:
            norms = [nnx.LayerNorm(64, rngs=rngs) for _ in range(2)]
            sizes = ((16, 32), (32, 16), (64, 128), (128, 64))
            return nnx.List([*norms, *(nnx.Linear(a, b, rngs=rngs) for a, b in sizes)])

        self.blocks = nnx.List([block() for _ in range(4)])
        self.head = nnx.Linear(64, 10, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        for first, second, patch_up, patch_down, up, down in self.blocks:
            patches = first(x).swapaxes(1, 2)
            x = x + patch_down(nnx.gelu(patch_up(patches))).swapaxes(1, 2)
            x = x + down(nnx.gelu(up(second(x))))
        return self.head(x.mean(1))


class ResNet(nnx.Module):
    """Nine residual blocks of two convolutions."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        def layers() -> nnx.List[Any]:
            return nnx.List(
                [
                    layer
                    for _ in range(2)
                    for layer in (
                        nnx.Conv(16, 16, (3, 3), rngs=rngs),
                        nnx.BatchNorm(16, use_running_average=True, rngs=rngs),
                    )
                ]
            )

        self.first = nnx.Conv(3, 16, (3, 3), rngs=rngs)
        self.blocks = nnx.List([layers() for _ in range(9)])
        self.head = nnx.Linear(16, 10, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = self.first(x)
        for conv, norm, other_conv, other_norm in self.blocks:
            x = nnx.relu(x + other_norm(other_conv(nnx.relu(norm(conv(x))))))
        return self.head(x.mean((1, 2)))


def transformer(layers: int) -> Callable[[Any], Any]:
    params = [
        (weights(64, 192), weights(64, 64), weights(64, 256), weights(256, 64))
        for _ in range(layers)
    ]

    def norm(x: Any) -> Any:
        centered = x - x.mean(-1, keepdims=True)
        return centered * lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5)

    def forward(x: Any) -> Any:
        for qkv, out, up, down in params:
            q, k, v = (
                part.reshape(-1, 4, 16).transpose(1, 0, 2)
                for part in jnp.split(norm(x) @ qkv, 3, axis=-1)
            )
            mixed = jax.nn.softmax(q @ k.transpose(0, 2, 1) / 4, axis=-1) @ v
            x = x + mixed.transpose(1, 0, 2).reshape(-1, 64) @ out
            x = x + jax.nn.gelu(norm(x) @ up) @ down
        return x

    return forward


def gated() -> Callable[[Any], Any]:
    driven, kept, bias = weights(16, 128), weights(32, 128), numbers(128) / 5

    def forward(x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            hidden, state = carry
            gates = row @ driven + hidden @ kept + bias
            read, write, forget, fresh = jnp.split(gates, 4, axis=-1)
            state = jax.nn.sigmoid(forget + 1) * state
            state = state + jax.nn.sigmoid(write) * jnp.tanh(fresh) * 0.9
            hidden = jax.nn.sigmoid(read) * jnp.cos(state)
            return (hidden, state), hidden

        start = jnp.zeros((2, 32))
        return lax.scan(step, (start, start), x)[1]

    return forward


def stacked(x: Any) -> Any:
    ups, downs = STACK

    def layer(x: Any, params: Any) -> Any:
        up, down = params
        centered = x - x.mean(-1, keepdims=True)
        spread = jnp.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
        hidden = jax.nn.gelu((centered / spread) @ up)
        share = jax.nn.softmax(x @ x.T / 5)
        return x + hidden @ down + 0.1 * (share @ x), None

    return lax.scan(layer, x, (ups, downs))[0]


STACK = weights(6, 32, 64), weights(6, 64, 32)

#: Each network with its inputs, smallest first.
SIZES: dict[str, Callable[[], tuple[Callable[..., Any], list[Any]]]] = {
    **{fn.__name__: lambda fn=fn, inputs=inputs: (fn, list(inputs)) for fn, inputs in NETWORKS},
    "scan over 6 layers": lambda: (stacked, [numbers(8, 32)]),
    "gated scan, 64 steps": lambda: (gated(), [numbers(64, 2, 16)]),
    "gated scan, 512 steps": lambda: (gated(), [numbers(512, 2, 16)]),
    "transformer, 2 layers": lambda: (transformer(2), [numbers(16, 64)]),
    "ResNet, 9 blocks": lambda: (ResNet(nnx.Rngs(0)), [numbers(1, 16, 16, 3)]),
    "mixer, 4 blocks": lambda: (Mixer(nnx.Rngs(0)), [numbers(2, 16, 64)]),
    "transformer, 6 layers": lambda: (transformer(6), [numbers(16, 64)]),
    "transformer, 12 layers": lambda: (transformer(12), [numbers(16, 64)]),
    "transformer, 24 layers": lambda: (transformer(24), [numbers(16, 64)]),
}
