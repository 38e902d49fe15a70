"""Lines inside the bodies of loops and branches, and of primitives that need many nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from . import sample

Traced = tuple[Callable[..., Any], Sequence[Any]]


@sample
def scan_with_a_body_of_its_own() -> Traced:
    def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry = jnp.tanh(carry) + x  # <- tanh:1 add:1
        return carry, carry * 2.0  # <- mul:1

    def fn(xs: jax.Array) -> Any:
        first = jnp.sin(xs[0])  # <- sin:1 *
        return jax.lax.scan(step, first, xs)  # <- scan

    return fn, [(3, 2)]


@sample
def scan_backwards() -> Traced:
    def fn(xs: jax.Array) -> Any:
        def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            return carry - x, jnp.exp(carry)  # <- sub:1 exp:1

        return jax.lax.scan(step, jnp.zeros(2), xs, reverse=True)  # <- scan *

    return fn, [(3, 2)]


@sample
def scan_inside_scan() -> Traced:
    def inner(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        return jnp.sin(carry) * x, None  # <- sin:1 mul:1

    def outer(carry: jax.Array, xs: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry, _ = jax.lax.scan(inner, carry, xs)  # <- scan
        return carry, jnp.cos(carry)  # <- cos:1

    def fn(xs: jax.Array) -> Any:
        return jax.lax.scan(outer, jnp.ones(2), xs)  # <- scan *

    return fn, [(3, 4, 2)]


@sample
def a_body_that_closes_over_a_traced_array() -> Traced:
    def fn(xs: jax.Array, w: jax.Array) -> Any:
        scaled = w * 3.0  # <- mul:1

        def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return carry + x @ scaled, None  # <- dot_general:1 add:1

        return jax.lax.scan(step, jnp.ones(2), xs)  # <- scan *

    return fn, [(3, 4), (4, 2)]


@sample
def while_loop() -> Traced:
    def fn(x: jax.Array) -> Any:
        def unfinished(state: Any) -> Any:
            i, x = state
            return jnp.logical_and(i < 9, jnp.sum(x) < 100.0)  # <- lt reduce_sum and *

        def step(state: Any) -> Any:
            i, x = state
            return i + 1, jnp.exp(x)  # <- add:1 exp:1

        return jax.lax.while_loop(unfinished, step, (0, x))  # <- while *

    return fn, [(2,)]


@sample
def fori_loop() -> Traced:
    def step(i: jax.Array, x: jax.Array) -> jax.Array:
        return x * jnp.cos(x)  # <- cos:1 mul:1

    def fn(x: jax.Array) -> jax.Array:
        y = jax.lax.fori_loop(0, 5, step, x)  # <- add:1? *
        return y + 1.0  # <- add:1

    return fn, [(2,)]


@sample
def cond_with_two_branches() -> Traced:
    def fn(x: jax.Array) -> jax.Array:
        def up(x: jax.Array) -> jax.Array:
            return jnp.exp(x)  # <- exp:1

        def down(x: jax.Array) -> jax.Array:
            return -jnp.sin(x)  # <- sin:1 neg:1

        return jax.lax.cond(jnp.max(x) > 0, up, down, x)  # <- reduce_max gt cond *

    return fn, [(2,)]


@sample
def switch_with_many_branches() -> Traced:
    def fn(i: jax.Array, x: jax.Array) -> jax.Array:
        return jax.lax.switch(  # <- *
            i,
            [
                lambda x: jnp.sin(x),  # <- sin:1
                lambda x: jnp.cos(x),  # <- cos:1
                lambda x: jnp.tan(x),  # <- tan
            ],
            x,
        )

    return fn, [jax.ShapeDtypeStruct((), jnp.int32), (2,)]


@sample
def cond_inside_while_inside_scan() -> Traced:
    def fn(xs: jax.Array) -> Any:
        def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            def again(y: jax.Array) -> jax.Array:
                return jnp.sum(y) < 10.0  # <- reduce_sum:2 lt:2

            def grow(y: jax.Array) -> jax.Array:
                return jax.lax.cond(  # <- *
                    y[0] > 0,  # <- *
                    lambda: y * 2.0 + 1.0,  # <- mul:1 add:1
                    lambda: jnp.abs(y) + x,  # <- abs:1 add:1
                )

            return jax.lax.while_loop(again, grow, carry), None  # <- while

        return jax.lax.scan(step, jnp.ones(2), xs)  # <- scan *

    return fn, [(3, 2)]


@sample
def a_helper_called_in_a_body_and_outside() -> Traced:
    def helper(x: jax.Array) -> jax.Array:
        return jnp.tanh(x) * 2.0  # <- tanh:2 mul:2

    def fn(xs: jax.Array) -> Any:
        def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return helper(carry + x), None  # <- add:1

        return jax.lax.scan(step, helper(xs[0]), xs)  # <- scan *

    return fn, [(3, 2)]


@sample
def a_jitted_helper_called_in_a_body_and_outside() -> Traced:
    @jax.jit
    def helper(x: jax.Array) -> jax.Array:
        return jnp.tanh(x) * 2.0  # <- tanh:2 mul:2

    def fn(xs: jax.Array) -> Any:
        def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return helper(carry + x), None  # <- add:1

        return jax.lax.scan(step, helper(xs[0]), xs)  # <- scan *

    return fn, [(3, 2)]


@sample
def grad_through_a_scan() -> Traced:
    def loss(xs: jax.Array) -> jax.Array:
        def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return jnp.sin(carry) + x, None  # <- sin cos *

        carry, _ = jax.lax.scan(step, jnp.ones(2), xs)  # <- scan *
        return jnp.sum(carry)  # <- reduce_sum:1 broadcast_in_dim:1

    return jax.grad(loss), [(3, 2)]


@sample
def vmap_of_a_scan() -> Traced:
    def one(xs: jax.Array) -> Any:
        def step(carry: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return jnp.cos(carry) - x, None  # <- cos:1 sub:1

        return jax.lax.scan(step, jnp.float32(0.0), xs)[0]  # <- scan *

    def fn(xs: jax.Array) -> jax.Array:
        return jax.vmap(one)(xs)

    return fn, [(4, 3)]


@sample
def associative_scan() -> Traced:
    def combine(a: jax.Array, b: jax.Array) -> jax.Array:
        return a * b + 1.0  # <- mul add *

    def fn(x: jax.Array) -> jax.Array:
        return jax.lax.associative_scan(combine, x)  # <- *

    return fn, [(5,)]


@sample
def indexing() -> Traced:
    def fn(x: jax.Array, i: jax.Array) -> jax.Array:
        rows = x[i]  # <- gather *
        y = x.at[i].add(1.0)  # <- scatter-add *
        z = jax.lax.dynamic_slice(y, (i[0], 0), (2, 2))  # <- dynamic_slice *
        return jnp.sum(rows) + jnp.sum(z)  # <- reduce_sum:2 add:1

    return fn, [(4, 2), jax.ShapeDtypeStruct((3,), jnp.int32)]


@sample
def convolution_and_pooling() -> Traced:
    def fn(x: jax.Array, w: jax.Array) -> jax.Array:
        y = jax.lax.conv(x, w, (1, 1), "SAME")  # <- conv_general_dilated
        y = jax.lax.reduce_window(  # <- reduce_window_max
            y, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
        )
        return jnp.maximum(y, 0.0)  # <- max

    return fn, [(1, 2, 8, 8), (3, 2, 3, 3)]


@sample
def sorting_and_drawing() -> Traced:
    def fn(x: jax.Array) -> Any:
        order = jnp.argsort(x)  # <- sort *
        top, _ = jax.lax.top_k(x, 2)  # <- top_k *
        noise = jax.random.uniform(jax.random.key(x[0].astype(int)), (5,))  # <- random_bits *
        return order, top, x + noise  # <- add:1

    return fn, [(5,)]


@sample
def linear_algebra_has_loops_of_its_own() -> Traced:
    def fn(a: jax.Array, b: jax.Array) -> Any:
        spd = a @ a.T + jnp.eye(3)  # <- dot_general add *
        lower = jnp.linalg.cholesky(spd)  # <- cholesky *
        return jnp.linalg.solve(spd, b), jnp.sum(lower)  # <- lu reduce_sum add? *

    return fn, [(3, 3), (3,)]
