"""Lines whose nodes passes join: what is left must answer for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import sample

Traced = tuple[Callable[..., Any], Sequence[Any]]

WEIGHT = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
BIAS = np.linspace(1, 2, 4, dtype=np.float32)
KERNEL = np.linspace(-1, 1, 54, dtype=np.float32).reshape(3, 3, 3, 2)


@sample
def a_product_and_its_bias() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        y = x @ WEIGHT  # <- dot_general:1{x @ WEIGHT}
        return y + BIAS  # <- add:1{y + BIAS} *

    return fn, [(2, 3)]


@sample
def a_softmax_in_steps() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        largest = jnp.max(x, axis=-1, keepdims=True)  # <- reduce_max *
        raised = jnp.exp(x - largest)  # <- sub:1{x - largest} exp:1{jnp.exp(x - largest)}
        total = jnp.sum(raised, axis=-1, keepdims=True)  # <- reduce_sum:1 *
        return raised / total  # <- div:1{raised / total}

    return fn, [(2, 5)]


@sample
def a_norm_in_steps() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        mean = jnp.mean(x, axis=-1, keepdims=True)  # <- reduce_sum:1 div *
        centred = x - mean  # <- sub:1{x - mean}
        squares = centred * centred  # <- mul:1{centred * centred}
        variance = jnp.mean(squares, axis=-1, keepdims=True)  # <- reduce_sum:1 div *
        scale = jax.lax.rsqrt(variance + 1e-5)  # <- add:1{variance + 1e-5} rsqrt
        y = centred * scale  # <- mul:1{centred * scale}
        y = y * BIAS  # <- mul:1{y * BIAS} *
        return y + BIAS  # <- add:1{y + BIAS} *

    return fn, [(2, 4)]


@sample
def a_gelu_in_steps() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        root = jax.lax.erf(x * np.float32(np.sqrt(0.5)))  # <- mul:1 erf:1
        gate = root + 1.0  # <- add:1{root + 1.0}
        y = x * gate  # <- mul:1{x * gate}
        return y * 0.5  # <- mul:1{y * 0.5}

    return fn, [(2, 3)]


@sample
def factors_that_go_into_a_weight() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        y = x @ WEIGHT  # <- dot_general:1
        y = y * BIAS  # <- mul:1{y * BIAS} *
        y = y * 3.0  # <- mul:1{y * 3.0}
        return jnp.tanh(y)  # <- tanh:1

    return fn, [(2, 3)]


@sample
def a_convolution_and_what_scales_it() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        y = jax.lax.conv_general_dilated(  # <- conv_general_dilated
            x, KERNEL, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        y = y * BIAS[:2]  # <- mul:1 *
        y = y + BIAS[2:]  # <- add:1 *
        return jax.nn.relu(y)  # <- max

    return fn, [(1, 4, 4, 3)]


@sample
def attention_in_steps() -> Traced:
    def fn(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)  # <- dot_general *
        scores = scores * 0.5  # <- mul:1
        shares = jax.nn.softmax(scores)  # <- reduce_max exp reduce_sum div *
        return jnp.einsum("bhqk,bkhd->bqhd", shares, v)  # <- dot_general *

    return fn, [(1, 5, 2, 4)] * 3


@sample
def moves_that_cancel() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        y = x.transpose(1, 0, 2)  # <- transpose:1
        y = y.reshape(3, 8)  # <- reshape:1
        y = jnp.sin(y)  # <- sin:1
        y = y.reshape(3, 2, 4)  # <- reshape:1
        return y.transpose(1, 0, 2)  # <- transpose:1

    return fn, [(2, 3, 4)]


@sample
def constants_that_are_computed_before() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        ramp = jnp.arange(4.0)  # <- constant
        ramp = ramp * 2.0  # <- mul:1
        ramp = jnp.sin(ramp)  # <- sin:1
        return x + ramp  # <- add:1 *

    return fn, [(2, 4)]


@sample
def the_same_on_two_lines() -> Traced:
    def fn(x: jax.Array) -> Any:
        first = jnp.sin(x) + 1.0  # <- sin:1 add:1
        second = jnp.sin(x) + 1.0  # <- sin:1 add:1
        return first * 2.0, second * 3.0  # <- mul:2

    return fn, [(3,)]


@sample
def a_choice_that_is_no_choice() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        flags = jnp.arange(3) >= 0  # <- ge:1 constant
        y = jnp.cos(x)  # <- cos:1
        return jnp.where(flags, y, 0.0)  # <- select_n broadcast_in_dim?

    return fn, [(3,)]


@sample
def what_no_output_needs() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        y = jnp.exp(x)  # <- exp:1
        unused = jnp.cos(y)  # <- cos:1 dead
        jnp.sum(unused)  # <- reduce_sum:1 dead
        return jnp.sin(y)  # <- sin:1

    return fn, [(3,)]


@sample
def a_recurrence() -> Traced:
    """An LSTM by hand: one operator stands for every line of the step."""
    weight = np.linspace(-1, 1, 7 * 16, dtype=np.float32).reshape(7, 16)

    def fn(xs: jax.Array) -> jax.Array:
        def step(state: Any, x: jax.Array) -> Any:
            hidden, cell = state
            gates = jnp.concatenate([x, hidden], axis=-1) @ weight  # <- concatenate dot_general:1
            i, f, g, o = jnp.split(gates, 4, axis=-1)  # <- split
            kept = jax.nn.sigmoid(f) * cell  # <- logistic:1 mul:1
            cell = kept + jax.nn.sigmoid(i) * jnp.tanh(g)  # <- logistic:1 tanh:1 mul:1 add:1
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)  # <- logistic:1 tanh:1 mul:1
            return (hidden, cell), hidden

        zeros = jnp.zeros((2, 4))  # <- broadcast_in_dim
        return jax.lax.scan(step, (zeros, zeros), xs)[1]  # <- scan

    return fn, [(5, 2, 3)]
