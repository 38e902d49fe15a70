"""Transformations that the libraries have of their own, on their modules."""

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
def nnx_scan_over_layers() -> Traced:
    """The layers are one, stacked; slicing its weights is the loop's."""

    class Block(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.linear = nnx.Linear(3, 3, use_bias=False, rngs=rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            y = self.linear(x)  # <- dot_general:1{self.linear(x)}
            return nnx.tanh(y)  # <- tanh:1{nnx.tanh(y)}

    make = nnx.vmap(lambda key: Block(nnx.Rngs(key)))
    blocks = make(jax.random.split(jax.random.key(0), 2))

    @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
    def forward(x: jax.Array, block: Block) -> jax.Array:
        return block(x)

    def fn(x: jax.Array) -> jax.Array:
        return forward(x, blocks)  # <- scan{forward(x, blocks)}

    return fn, [(2, 3)]


@sample
def nnx_vmap_of_a_method() -> Traced:
    class Net(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.linear = nnx.Linear(3, 4, use_bias=False, rngs=rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            y = self.linear(x)  # <- dot_general{self.linear(x)}
            return jnp.sin(y)  # <- sin:1{jnp.sin(y)}

    net = Net(nnx.Rngs(0))

    @nnx.vmap(in_axes=(None, 0))
    def mapped(net: Net, x: jax.Array) -> jax.Array:
        return net(x)

    def fn(x: jax.Array) -> jax.Array:
        return mapped(net, x) + 1.0  # <- add:1{mapped(net, x) + 1.0}

    return fn, [(5, 3)]


@sample
def nnx_remat_of_a_layer() -> Traced:
    class Block(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.linear = nnx.Linear(3, 3, use_bias=False, rngs=rngs)

        @nnx.remat
        def __call__(self, x: jax.Array) -> jax.Array:
            y = self.linear(x)  # <- dot_general:2{self.linear(x)}
            return jnp.cos(y)  # <- cos:2{jnp.cos(y)}

    first, second = Block(nnx.Rngs(0)), Block(nnx.Rngs(1))

    def fn(x: jax.Array) -> jax.Array:
        y = first(x)
        return second(y) - x  # <- sub:1{second(y) - x}

    return fn, [(2, 3)]


@sample
def nnx_grad() -> Traced:
    linear = nnx.Linear(3, 1, use_bias=False, rngs=nnx.Rngs(0))

    def energy(x: jax.Array) -> jax.Array:
        y = linear(x)  # <- dot_general:3{linear(x)}
        return jnp.sum(y * y)  # <- mul:3{y * y} add_any:1{y * y} reduce_sum:1 broadcast_in_dim:1

    def fn(x: jax.Array) -> jax.Array:
        return nnx.grad(energy)(x) * 2.0  # <- mul:1{nnx.grad(energy)(x) * 2.0}

    return fn, [(3,)]


@sample
def linen_scan_over_layers() -> Traced:
    class Layer(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array, _: None) -> tuple[jax.Array, None]:
            x = linen.Dense(3, use_bias=False)(x)  # <- dot_general:1
            return linen.tanh(x), None  # <- tanh:1{linen.tanh(x)}

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            layers = linen.scan(
                Layer, variable_axes={"params": 0}, split_rngs={"params": True}, length=2
            )
            x, _ = layers()(x, None)  # <- scan{layers()(x, None)}
            return x + 1.0  # <- add:1{x + 1.0}

    net = Net()
    variables = net.init(jax.random.key(0), jnp.ones((2, 3)))
    return lambda x: net.apply(variables, x), [(2, 3)]


@sample
def linen_remat() -> Traced:
    class Block(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            x = linen.Dense(3, use_bias=False)(x)  # <- dot_general:2
            return jnp.sin(x)  # <- sin:2{jnp.sin(x)}

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            block = linen.remat(Block)
            x = block()(x)
            return block()(x) * 2.0  # <- mul:1{block()(x) * 2.0}

    net = Net()
    variables = net.init(jax.random.key(0), jnp.ones((2, 3)))
    return lambda x: net.apply(variables, x), [(2, 3)]


@sample
def linen_vmap() -> Traced:
    class Head(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            head = linen.Dense(2, use_bias=False)
            return head(x)  # <- dot_general:4{head(x)}

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            heads = linen.vmap(
                Head,
                in_axes=None,
                out_axes=0,
                axis_size=3,
                variable_axes={"params": 0},
                split_rngs={"params": True},
            )
            return jnp.exp(heads()(x))  # <- exp:1{jnp.exp(heads()(x))} transpose:1{heads()(x)}

    net = Net()
    variables = net.init(jax.random.key(0), jnp.ones((2, 3)))
    return lambda x: net.apply(variables, x), [(2, 3)]


@sample
def linen_jit_and_methods() -> Traced:
    class Net(linen.Module):
        def setup(self) -> None:
            self.dense = linen.Dense(3, use_bias=False)

        @linen.jit
        def encode(self, x: jax.Array) -> jax.Array:
            return jnp.cos(self.dense(x))  # <- dot_general:1{self.dense(x)} cos:1

        def __call__(self, x: jax.Array) -> jax.Array:
            return self.encode(x) - x  # <- sub:1{self.encode(x) - x}

    net = Net()
    variables = net.init(jax.random.key(0), jnp.ones((2, 3)))
    return lambda x: net.apply(variables, x), [(2, 3)]


@sample
def equinox_filter_jit_of_a_module() -> Traced:
    class Net(eqx.Module):
        weight: jax.Array
        scale: float = 2.0

        @eqx.filter_jit
        def __call__(self, x: jax.Array) -> jax.Array:
            y = self.weight @ x  # <- dot_general{self.weight @ x}
            return self.hidden(y)

        def hidden(self, x: jax.Array) -> jax.Array:
            return jnp.tanh(x) * self.scale  # <- tanh:1{jnp.tanh(x)} mul:1

    net = Net(jnp.arange(6.0).reshape(2, 3))
    return lambda x: net(x) + 1.0, [(3,)]  # <- add:1{net(x) + 1.0}


@sample
def equinox_filter_vmap_and_grad() -> Traced:
    linear = eqx.nn.Linear(3, 1, use_bias=False, key=jax.random.key(0))

    @eqx.filter_grad
    def slope(x: jax.Array) -> jax.Array:
        y = linear(x)  # <- dot_general:3{linear(x)}
        return jnp.sum(jnp.sin(y))  # <- sin:1 cos:1{jnp.sin(y)} mul:1 transpose:1 *

    def fn(xs: jax.Array) -> jax.Array:
        return eqx.filter_vmap(slope)(xs) - xs  # <- sub:1{eqx.filter_vmap(slope)(xs) - xs}

    return fn, [(5, 3)]


@sample
def equinox_layers_in_a_scan() -> Traced:
    make = eqx.filter_vmap(lambda key: eqx.nn.Linear(3, 3, use_bias=False, key=key))
    stacked = make(jax.random.split(jax.random.key(0), 2))
    arrays, static = eqx.partition(stacked, eqx.is_array)

    def fn(x: jax.Array) -> jax.Array:
        def step(x: jax.Array, layer: Any) -> tuple[jax.Array, None]:
            y = eqx.combine(layer, static)(x)  # <- dot_general:1
            return jnp.tanh(y), None  # <- tanh:1{jnp.tanh(y)}

        return jax.lax.scan(step, x, arrays)[0]  # <- scan{jax.lax.scan(step, x, arrays)}

    return fn, [(3,)]


@sample
def haiku_modules_and_state() -> Traced:
    class Block(hk.Module):
        def __call__(self, x: jax.Array) -> jax.Array:
            y = hk.Linear(3, with_bias=False)(x)  # <- dot_general:2
            return jax.nn.sigmoid(y)  # <- logistic:2{jax.nn.sigmoid(y)}

    def forward(x: jax.Array) -> jax.Array:
        count = hk.get_state("count", (), init=jnp.zeros)
        x = Block()(x) + count  # <- add:1{Block()(x) + count}
        return Block()(x)

    net = hk.without_apply_rng(hk.transform_with_state(forward))
    params, state = net.init(jax.random.PRNGKey(0), jnp.ones((2, 3)))
    return lambda x, state: net.apply(params, state, x)[0], [(2, 3), jax.tree.map(jnp.shape, state)]


@sample
def haiku_loops_and_remat() -> Traced:
    def forward(xs: jax.Array) -> Any:
        linear = hk.Linear(3, with_bias=False)

        def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return jnp.tanh(linear(carry)) + x, None  # <- dot_general:1{linear(carry)} tanh:1 add:1

        carry, _ = hk.scan(step, jnp.ones(3), xs)  # <- scan{hk.scan(step, jnp.ones(3), xs)} *
        return hk.remat(jnp.sin)(carry)  # <- sin:1

    net = hk.without_apply_rng(hk.transform(forward))
    params = net.init(jax.random.PRNGKey(0), jnp.ones((4, 3)))
    return lambda xs: net.apply(params, xs), [(4, 3)]
