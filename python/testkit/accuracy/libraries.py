"""Networks of the libraries that run on JAX: the lines are those that call the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
from flax import linen, nnx

from . import sample

Traced = tuple[Callable[..., Any], list[Any]]


@sample
def nnx_linear() -> Traced:
    class Net(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.linear = nnx.Linear(3, 4, rngs=rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            y = self.linear(x)  # <- dot_general *
            return nnx.relu(y)  # <- max *

    return Net(nnx.Rngs(0)), [(2, 3)]


@sample
def nnx_norm_and_dropout() -> Traced:
    class Net(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.norm = nnx.LayerNorm(3, rngs=rngs)
            self.dropout = nnx.Dropout(0.5, deterministic=True, rngs=rngs)
            self.scale = nnx.Param(jnp.arange(3.0) + 1.0)

        def __call__(self, x: jax.Array) -> jax.Array:
            y = self.norm(x)  # <- rsqrt *
            y = self.dropout(y)
            return self.norm(y * self.scale)  # <- mul rsqrt *

    return Net(nnx.Rngs(0)), [(2, 3)]


@sample
def nnx_layers_in_a_list() -> Traced:
    class Block(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.first = nnx.Linear(3, 4, rngs=rngs)
            self.second = nnx.Linear(4, 3, rngs=rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            y = self.first(x)  # <- dot_general:3 *
            y = nnx.gelu(y)  # <- tanh:3 *
            return x + self.second(y)  # <- dot_general:3 add *

    class Net(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.blocks = nnx.List([Block(rngs) for _ in range(3)])

        def __call__(self, x: jax.Array) -> jax.Array:
            for block in self.blocks:
                x = block(x)
            return jnp.mean(x, axis=-1)  # <- reduce_sum *

    return Net(nnx.Rngs(0)), [(2, 3)]


@sample
def nnx_attention() -> Traced:
    attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=nnx.Rngs(0))

    def fn(x: jax.Array) -> jax.Array:
        y = attention(x)  # <- dot_general exp *
        return x + y  # <- add:1

    return fn, [(2, 5, 8)]


@sample
def nnx_methods_and_shared_layers() -> Traced:
    class Net(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.layers = nnx.Sequential(nnx.Linear(3, 3, rngs=rngs), nnx.tanh)
            self.norm = nnx.BatchNorm(3, use_running_average=True, rngs=rngs)
            self.again = self.layers

        def encode(self, x: jax.Array) -> jax.Array:
            return self.again(self.layers(x))  # <- dot_general:2 tanh:2 *

        def decode(self, x: jax.Array) -> jax.Array:
            return self.norm(x)  # <- rsqrt *

    net = Net(nnx.Rngs(0))

    def fn(x: jax.Array) -> jax.Array:
        code = net.encode(x)
        return net.decode(code) - x  # <- sub:1

    return fn, [(2, 3)]


@sample
def nnx_jit() -> Traced:
    linear = nnx.Linear(3, 3, rngs=nnx.Rngs(0))

    @nnx.jit
    def step(x: jax.Array) -> jax.Array:
        return linear(x)  # <- dot_general *

    def fn(x: jax.Array) -> jax.Array:
        return jnp.sin(step(x))  # <- sin

    return fn, [(2, 3)]


@sample
def linen_layers() -> Traced:
    class Net(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            x = linen.Dense(4, name="hidden")(x)  # <- dot_general:1 *
            x = linen.relu(x)  # <- max *
            x = linen.LayerNorm()(x)  # <- rsqrt *
            return linen.Dense(2)(x)  # <- dot_general:1 *

    net = Net()
    variables = net.init(jax.random.key(0), jnp.ones((2, 3)))
    return lambda x: net.apply(variables, x), [(2, 3)]


@sample
def linen_setup() -> Traced:
    class Net(linen.Module):
        def setup(self) -> None:
            self.blocks = [linen.Dense(3) for _ in range(2)]
            self.dropout = linen.Dropout(0.5)

        def __call__(self, x: jax.Array) -> jax.Array:
            for block in self.blocks:
                x = linen.tanh(block(x))  # <- dot_general:2 tanh:2 *
            return self.dropout(x, deterministic=True) * 2.0  # <- mul

    net = Net()
    variables = net.init(jax.random.key(0), jnp.ones((2, 3)))

    def fn(x: jax.Array) -> jax.Array:
        y = net.apply(variables, x)
        return y - x  # <- sub

    return fn, [(2, 3)]


@sample
def equinox_mlp() -> Traced:
    mlp = eqx.nn.MLP(3, 2, 4, 2, key=jax.random.key(0))

    def fn(x: jax.Array) -> jax.Array:
        y = jax.vmap(mlp)(x)  # <- dot_general max *
        return jnp.tanh(y)  # <- tanh

    return fn, [(5, 3)]


@sample
def an_equinox_module() -> Traced:
    class Net(eqx.Module):
        linear: eqx.nn.Linear
        norm: eqx.nn.LayerNorm

        def __call__(self, x: jax.Array) -> jax.Array:
            y = self.linear(x)  # <- dot_general *
            return self.norm(y) * 2.0  # <- rsqrt mul *

    net = Net(eqx.nn.Linear(3, 4, key=jax.random.key(0)), eqx.nn.LayerNorm(4))
    return jax.vmap(net), [(5, 3)]


@sample
def an_equinox_jit() -> Traced:
    linear = eqx.nn.Linear(3, 3, key=jax.random.key(0))

    @eqx.filter_jit
    def step(x: jax.Array) -> jax.Array:
        return linear(x)  # <- dot_general *

    def fn(x: jax.Array) -> jax.Array:
        y = step(x)
        return step(y) + 1.0  # <- add

    return fn, [(3,)]


@sample
def haiku() -> Traced:
    def forward(x: jax.Array) -> jax.Array:
        y = hk.Linear(4, name="hidden")(x)  # <- dot_general *
        y = jax.nn.relu(y)  # <- max *
        return hk.LayerNorm(-1, True, True)(y)  # <- rsqrt *

    net = hk.without_apply_rng(hk.transform(forward))
    params = net.init(jax.random.PRNGKey(0), jnp.ones((2, 3)))
    return lambda x: net.apply(params, x), [(2, 3)]
