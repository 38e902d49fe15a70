"""Models in the manner of equinox's own examples."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import random

from .program import Program, floats, ints


def key(seed: int = 0) -> jax.Array:
    return random.key(seed)


class Cnn(eqx.Module):
    """The network of equinox's MNIST example."""

    layers: list[Any]

    def __init__(self, seed: jax.Array) -> None:
        keys = random.split(seed, 4)
        self.layers = [
            eqx.nn.Conv2d(1, 3, kernel_size=4, key=keys[0]),
            eqx.nn.MaxPool2d(kernel_size=2),
            jax.nn.relu,
            jnp.ravel,
            eqx.nn.Linear(1728, 32, key=keys[1]),
            jax.nn.sigmoid,
            eqx.nn.Linear(32, 10, key=keys[3]),
            jax.nn.log_softmax,
        ]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class Rnn(eqx.Module):
    """The network of equinox's RNN example."""

    cell: eqx.nn.GRUCell
    linear: eqx.nn.Linear

    def __init__(self, seed: jax.Array) -> None:
        self.cell = eqx.nn.GRUCell(3, 8, key=seed)
        self.linear = eqx.nn.Linear(8, 1, key=seed)

    def __call__(self, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            return self.cell(x, carry), None

        out, _ = jax.lax.scan(step, jnp.zeros(8), xs)
        return jax.nn.sigmoid(self.linear(out))


class Block(eqx.Module):
    """A block of equinox's BERT example."""

    attention: eqx.nn.MultiheadAttention
    first: eqx.nn.LayerNorm
    second: eqx.nn.LayerNorm
    mlp: eqx.nn.MLP

    def __init__(self, seed: jax.Array) -> None:
        self.attention = eqx.nn.MultiheadAttention(4, 16, key=seed)
        self.first = eqx.nn.LayerNorm(16)
        self.second = eqx.nn.LayerNorm(16)
        self.mlp = eqx.nn.MLP(16, 16, 32, 1, activation=jax.nn.gelu, key=seed)

    def __call__(self, x: Any) -> Any:
        y = jax.vmap(self.first)(x)
        x = x + self.attention(y, y, y)
        return x + jax.vmap(self.mlp)(jax.vmap(self.second)(x))


class Stacked(eqx.Module):
    """Layers whose weights are stacked, as equinox's tips show."""

    layers: eqx.nn.Linear

    def __init__(self, seed: jax.Array) -> None:
        make = eqx.filter_vmap(lambda one: eqx.nn.Linear(8, 8, key=one))
        self.layers = make(random.split(seed, 5))

    def __call__(self, x: Any) -> Any:
        dynamic, static = eqx.partition(self.layers, eqx.is_array)

        def step(x: Any, layer: Any) -> Any:
            return jax.nn.tanh(eqx.combine(layer, static)(x)), None

        return jax.lax.scan(step, x, dynamic)[0]


def batched(make: Any, *inputs: Any) -> Any:
    return lambda: (jax.vmap(make(key())), inputs)


class Normalized(eqx.Module):
    """A convolution with `BatchNorm` and `Dropout`."""

    conv: eqx.nn.Conv2d
    norm: eqx.nn.BatchNorm
    drop: eqx.nn.Dropout

    def __init__(self, seed: jax.Array) -> None:
        self.conv = eqx.nn.Conv2d(3, 8, 3, padding=1, key=seed)
        self.norm = eqx.nn.BatchNorm(8, axis_name="batch", mode="batch")
        self.drop = eqx.nn.Dropout(0.5)

    def __call__(self, x: Any, state: Any, key: Any = None) -> Any:
        x, state = self.norm(self.conv(x), state)
        return self.drop(jax.nn.relu(x), key=key), state


def inference() -> Any:
    made, state = eqx.nn.make_with_state(Normalized)(key())
    # Statistics exist after one batch in training mode.
    train = jax.vmap(made, axis_name="batch", in_axes=(0, None, None), out_axes=(0, None))
    _, state = train(floats(4, 3, 8, 8, seed=1), state, key(1))
    made = eqx.nn.inference_mode(made)
    return (lambda x: jax.vmap(lambda one: made(one, state)[0])(x)), (floats(2, 3, 8, 8),)


def checked() -> Any:
    def fn(x: Any) -> Any:
        x = eqx.error_if(x, jnp.any(x < -100), "too small")
        return jnp.sqrt(jnp.abs(x))

    return fn, (floats(3, 4),)


def bounded_loop() -> Any:
    def fn(x: Any) -> Any:
        return eqx.internal.while_loop(
            lambda state: jnp.max(state) < 50.0,
            lambda state: state * 1.7,
            jnp.abs(x) + 1.0,
            max_steps=16,
            kind="checkpointed",
        )

    return fn, (floats(3),)


PROGRAMS = [
    Program(
        "`nn.MLP`",
        batched(lambda seed: eqx.nn.MLP(8, 3, 16, 2, key=seed), floats(3, 8)),
        weights=("layers.0.bias", "layers.2.bias"),
    ),
    Program("MNIST", batched(Cnn, floats(2, 1, 28, 28))),
    Program("GRU over a sequence", batched(Rnn, floats(2, 9, 3))),
    Program("BERT block", batched(Block, floats(2, 6, 16))),
    Program("layers under `scan`", batched(Stacked, floats(3, 8))),
    Program("`BatchNorm` and `Dropout` in inference mode", inference),
    Program(
        "`Embedding` and `RotaryPositionalEmbedding`",
        batched(
            lambda seed: eqx.nn.Sequential(
                [
                    eqx.nn.Lambda(jax.vmap(eqx.nn.Embedding(20, 8, key=seed))),
                    eqx.nn.Lambda(eqx.nn.RotaryPositionalEmbedding(8)),
                ]
            ),
            ints(20, 2, 6),
        ),
    ),
    Program("`error_if`", checked),
    Program("`internal.while_loop` with checkpoints", bounded_loop),
]
