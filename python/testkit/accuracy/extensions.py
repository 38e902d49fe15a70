"""Plugins written in Python, functions of the model, and both together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen, nnx
from jax.extend.core import Primitive

import jax2onnx
from jax2onnx import onnx_function

from . import sample

Traced = tuple[Callable[..., Any], list[Any]]

ramp = Primitive("accuracy_ramp")
ramp.def_abstract_eval(lambda x: x)

halves = Primitive("accuracy_halves")
halves.multiple_results = True
halves.def_abstract_eval(lambda x: [x, x])


def _clipped(ctx: Any, x: Any) -> Any:
    return ctx.op.Clip(x, 0.0, 1.0)


@jax2onnx.plugin(ramp)
class RampPlugin:
    """`min(max(x / 2, 0), 1)`, the clipping in a helper."""

    def lower(self, ctx: Any, eqn: Any) -> Any:
        (x,) = ctx.inputs
        return _clipped(ctx, ctx.op.Div(x, 2.0))


@jax2onnx.plugin(halves)
class HalvesPlugin:
    """`x · ½`, twice."""

    def lower(self, ctx: Any, eqn: Any) -> Any:
        (x,) = ctx.inputs
        return ctx.op.Mul(x, 0.5), ctx.op.Div(x, 2.0)


@sample
def a_plugin_written_in_python() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        y = jnp.sin(x)  # <- sin:1{jnp.sin(x)}
        y = ramp.bind(y)  # <- RampPlugin:2{ramp.bind(y)}
        return y + 1.0  # <- add:1{y + 1.0}

    return fn, [(2,)]


@sample
def a_plugin_called_by_a_helper_on_two_lines() -> Traced:
    def clip(x: jax.Array) -> jax.Array:
        return ramp.bind(x)  # <- RampPlugin:4

    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        first = clip(x)
        return first - clip(y)  # <- sub:1

    return fn, [(2,), (2,)]


@sample
def a_plugin_with_two_results() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        left, right = halves.bind(x)  # <- HalvesPlugin:2
        return left * right  # <- mul:1

    return fn, [(2,)]


@sample
def a_plugin_inside_a_jitted_function_and_a_loop() -> Traced:
    @jax.jit
    def smooth(x: jax.Array) -> jax.Array:
        return ramp.bind(jnp.exp(x))  # <- exp:1{jnp.exp(x)} RampPlugin:2

    def fn(xs: jax.Array) -> Any:
        def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return carry + smooth(x), None  # <- add:1{carry + smooth(x)}

        return jax.lax.scan(step, jnp.ones(2), xs)  # <- scan:1 broadcast_in_dim:1{jnp.ones(2)}

    return fn, [(3, 2)]


@sample
def an_onnx_function() -> Traced:
    """A constant of a function is a node, of the line that reads it."""

    @onnx_function
    def wave(x: jax.Array) -> jax.Array:
        y = jnp.sin(x)  # <- sin:1{jnp.sin(x)}
        return y * 2.0  # <- mul:2{y * 2.0}

    def fn(x: jax.Array) -> jax.Array:
        return wave(x) + 1.0  # <- onnx_function:1 add:1

    return fn, [(2,)]


@sample
def an_onnx_function_called_twice() -> Traced:
    @onnx_function
    def wave(x: jax.Array) -> jax.Array:
        return jnp.tanh(x)  # <- tanh:2

    def fn(x: jax.Array) -> jax.Array:
        y = wave(x)  # <- onnx_function:1{wave(x)}
        return wave(y) - x  # <- onnx_function:1{wave(y)} sub:1

    return fn, [(2,)]


@sample
def onnx_functions_inside_each_other() -> Traced:
    @onnx_function
    def inner(x: jax.Array) -> jax.Array:
        return jnp.cos(x)  # <- cos:2

    @onnx_function
    def outer(x: jax.Array) -> jax.Array:
        return inner(x) * inner(x + 1.0)  # <- onnx_function:2 add:2{x + 1.0} mul:1

    def fn(x: jax.Array) -> jax.Array:
        return outer(x)  # <- onnx_function:1

    return fn, [(2,)]


@sample
def an_onnx_function_that_is_a_module() -> Traced:
    @onnx_function
    class Block(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.linear = nnx.Linear(3, 3, use_bias=False, rngs=rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            y = self.linear(x)  # <- dot_general:2{self.linear(x)}
            return nnx.tanh(y)  # <- tanh:2

    class Net(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.first, self.second = Block(rngs), Block(rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            y = self.first(x)  # <- onnx_function:1{self.first(x)}
            return self.second(y)  # <- onnx_function:1{self.second(y)}

    return Net(nnx.Rngs(0)), [(2, 3)]


@sample
def an_onnx_function_of_linen() -> Traced:
    @onnx_function
    class Layer(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            x = linen.Dense(3, use_bias=False)(x)  # <- dot_general:2
            return linen.tanh(x)  # <- tanh:2

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            x = Layer()(x)  # <- onnx_function:1{Layer()(x)}
            return Layer()(x)  # <- onnx_function:1{Layer()(x)}

    net = Net()
    variables = net.init(jax.random.key(0), jnp.ones((2, 3)))
    return lambda x: net.apply(variables, x), [(2, 3)]


@sample
def an_onnx_function_with_a_loop_and_a_plugin() -> Traced:
    @onnx_function
    def drive(x: jax.Array) -> jax.Array:
        def step(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
            return ramp.bind(carry * 1.5), None  # <- mul:1{carry * 1.5} RampPlugin:2

        carry, _ = jax.lax.scan(step, x, None, length=3)  # <- scan
        return carry

    def fn(x: jax.Array) -> jax.Array:
        return drive(jnp.abs(x))  # <- onnx_function:1 abs:1

    return fn, [(2,)]


@sample
def an_onnx_function_that_is_jitted_and_mapped() -> Traced:
    """`vmap` keeps the markers of a function, so it is one of a batch."""

    @jax.jit
    @onnx_function
    def wave(x: jax.Array) -> jax.Array:
        return jnp.sin(x) / 3.0  # <- sin:1{jnp.sin(x)} div:2

    def fn(x: jax.Array) -> jax.Array:
        return jax.vmap(wave)(x)  # <- onnx_function:1

    return fn, [(4, 2)]
