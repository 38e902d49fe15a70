"""Sizes that do not fit each other when the model runs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from . import Failing, failure, floats


@failure
def add_of_two_lengths() -> Failing:
    def fn(x, y):
        warm = jnp.tanh(x)
        both = warm + y  # <- fails
        return both * 2.0

    return Failing(fn, [("N",), ("N",)], {"x": floats(3), "y": floats(4)}, form="both")


@failure
def multiply_rows() -> Failing:
    def fn(x, y):
        scaled = jnp.exp(x) - 1.5
        shifted = y - 3.0
        return jnp.sin(
            scaled * shifted  # <- fails
        )

    feeds = {"x": floats(2, 3), "y": floats(2, 5)}
    return Failing(fn, [(2, "N"), (2, "N")], feeds, has_map=True)


@failure
def matmul_inner_size() -> Failing:
    def fn(x, y):
        x = jnp.abs(x)
        z = x @ y  # <- fails
        return jnp.tanh(z)

    return Failing(fn, [("M", "K"), ("K", 4)], {"x": floats(2, 3), "y": floats(5, 4)}, form="both")


@failure
def batched_product() -> Failing:
    def scores(q, k):
        return jnp.einsum("bik,bjk->bij", q, k)  # <- fails

    def fn(q, k):
        doubled = q * 2.0
        return jnp.sin(scores(doubled, k))

    feeds = {"q": floats(2, 3, 4), "k": floats(3, 5, 4)}
    return Failing(fn, [("B", 3, 4), ("B", 5, 4)], feeds, has_map=True)


@failure
def concatenate_rows() -> Failing:
    def fn(x, y):
        parts = [x * 2.0, jnp.sqrt(y)]
        joined = jnp.concatenate(parts, axis=1)  # <- fails
        return joined - 1.0

    feeds = {"x": floats(2, 3), "y": floats(4, 3)}
    return Failing(fn, [("N", 3), ("N", 3)], feeds, form="log")


@failure
def reshape_pairs() -> Failing:
    def fn(weight, x):
        pairs = jnp.reshape(x, (-1, 2, 3))  # <- fails
        return pairs.sum(axis=1) * weight[:, None]

    feeds = {"weight": floats(2), "x": floats(5, 3)}
    return Failing(fn, [("N",), ("2*N", 3)], feeds, form="both")


@failure
def reshape_in_the_middle() -> Failing:
    def split_heads(x, heads):
        batch, length, width = x.shape
        return x.reshape(batch, length, heads, width // heads)  # <- fails

    def fn(bias, x):
        return jnp.tanh(split_heads(x + 1.0, 4)) * bias

    feeds = {"bias": floats(2), "x": floats(2, 3, 6)}
    return Failing(fn, [("W",), ("B", 3, "4*W")], feeds, has_map=True, form="wrapped")


@failure
def split_in_halves() -> Failing:
    def fn(weight, x):
        left, right = jnp.split(x, 2)  # <- fails
        return left * jnp.sin(right) + weight

    feeds = {"weight": floats(2), "x": floats(3)}
    return Failing(fn, [("N",), ("2*N",)], feeds, form="both")


@failure
def product_of_three() -> Failing:
    def fn(a, b, c):
        shifted = a - 1.0
        return jnp.einsum("ijk,kl,lm->im", shifted, b, c)  # <- fails

    feeds = {"a": floats(2, 3, 4), "b": floats(4, 5), "c": floats(6, 2)}
    return Failing(fn, [(2, 3, "K"), ("K", "L"), ("L", 2)], feeds, has_map=True)


@failure
def select_by_mask() -> Failing:
    def fn(mask, x, y):
        hidden = x * 3.0
        chosen = jnp.where(mask > 0, hidden, y)  # <- fails
        return chosen + 1.0

    feeds = {"mask": floats(3), "x": floats(3), "y": floats(7)}
    return Failing(fn, [("N",), ("N",), ("N",)], feeds)


@failure
def broadcast_to_other() -> Failing:
    def fn(y, x):
        wide = jnp.broadcast_to(x, (3, *y.shape))  # <- fails
        return jnp.cumsum(wide, axis=0) - y

    return Failing(fn, [("N",), ("N",)], {"y": floats(6), "x": floats(4)}, form="both")


@failure
def convolve_channels() -> Failing:
    def fn(x, kernel):
        x = jnp.tanh(x)
        y = lax.conv_general_dilated(  # <- fails
            x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return y * 2.0

    feeds = {"x": floats(1, 5, 5, 3), "kernel": floats(2, 2, 4, 2)}
    return Failing(fn, [("B", 5, 5, "C"), (2, 2, "C", 2)], feeds, form="colour")


@failure
def sum_of_three() -> Failing:
    def fn(x, y, z):
        first = x * y
        second = jnp.cos(first)
        return second - z  # <- fails

    feeds = {"x": floats(4), "y": floats(4), "z": floats(5)}
    return Failing(fn, [("N",), ("N",), ("N",)], feeds, form="log")


@failure
def same_line_in_two_calls() -> Failing:
    def join(left, right):
        return left * right + 1.0  # <- fails

    def fn(x, y, z):
        first = join(x, y)
        return join(first, z)

    feeds = {"x": floats(4), "y": floats(4), "z": floats(5)}
    return Failing(fn, [("N",), ("N",), ("N",)], feeds, has_map=True)


@failure
def buffer_of_another_size() -> Failing:
    def fn(x, y):
        first = jnp.exp(x).sum()
        second = jnp.cos(jnp.sin(y) * first)  # <- fails
        return second + x

    feeds = {"x": floats(3), "y": floats(4)}
    return Failing(fn, [("N",), ("N",)], feeds)


@failure
def minimum_in_a_vmap() -> Failing:
    def clip_to(x, limit):
        low = x * 0.5
        return jnp.minimum(low, limit)  # <- fails

    def fn(x, limits):
        return jax.vmap(clip_to)(x, limits)

    feeds = {"x": floats(3, 2), "limits": floats(4, 2)}
    return Failing(fn, [("N", 2), ("N", 2)], feeds)


@failure
def two_failures_in_one_log() -> Failing:
    def fn(x, y, z):
        first = x + y  # <- fails
        second = jnp.sin(first)
        return jnp.dot(second, z)  # <- fails

    feeds = {"x": floats(3), "y": floats(4), "z": floats(3)}
    more = [{"x": floats(3), "y": floats(3), "z": floats(5)}]
    return Failing(fn, [("N",), ("N",), ("N",)], feeds, form="both", more_feeds=more)


@failure
def too_large_for_memory() -> Failing:
    def fn(x):
        shifted = x + 1.0
        table = jnp.sin(shifted[:, None]) * shifted[None, :]  # <- fails
        return table.max()

    return Failing(fn, [("N",)], {"x": floats(4_000_000)}, form="exception")
