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


def decoder(tokens: jax.Array, table: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A greedy decoder: a `while_loop` with a branch."""

    def is_going_on(state: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        step, token, _ = state
        return (step < 8) & (token != 0)

    def advance(
        state: tuple[jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        step, token, found = state
        hidden = jnp.tanh(table[token])
        hidden = jax.lax.cond(step > 2, lambda h: h * 2.0, lambda h: jnp.sin(h) + 1.0, hidden)
        token = jnp.argmax(hidden @ table.T).astype(jnp.int32)
        return step + 1, token, found.at[step].set(token)

    start = (jnp.int32(0), tokens[0], jnp.zeros(8, jnp.int32))
    step, _, found = jax.lax.while_loop(is_going_on, advance, start)
    return found, step
