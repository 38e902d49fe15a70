"""Nodes that stand for several: those of our passes, and those of ONNX Runtime's optimiser."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from . import Failing, failure, floats


@failure
def product_and_bias() -> Failing:
    def fn(x, w, b):
        x = jnp.abs(x)
        product = x @ w
        return jnp.tanh(product + b)  # <- fails

    feeds = {"x": floats(2, 3), "w": floats(3, 4), "b": floats(5)}
    return Failing(fn, [("M", 3), (3, "N"), ("N",)], feeds, form="both")


@failure
def product_before_bias() -> Failing:
    def fn(x, w, b):
        x = jnp.sin(x)
        product = x @ w  # <- fails
        return jax.nn.relu(product + b)

    feeds = {"x": floats(2, 3), "w": floats(5, 4), "b": floats(4)}
    return Failing(fn, [("M", "K"), ("K", 4), (4,)], feeds, has_map=True)


@failure
def convolution_and_relu() -> Failing:
    def fn(x, kernel):
        x = x * 0.5
        y = lax.conv_general_dilated(x, kernel, (1, 1), "SAME")  # <- fails
        return jax.nn.relu(y)

    feeds = {"x": floats(1, 3, 5, 5), "kernel": floats(2, 4, 3, 3)}
    return Failing(fn, [("B", "C", 5, 5), (2, "C", 3, 3)], feeds, form="both")


@failure
def product_of_a_transpose() -> Failing:
    def fn(x, y):
        turned = x.T
        scaled = (turned @ y) / 8.0  # <- fails
        return jnp.exp(scaled)

    feeds = {"x": floats(3, 2), "y": floats(4, 5)}
    return Failing(fn, [("K", 2), ("K", 5)], feeds, has_map=True)


@failure
def layer_normalization() -> Failing:
    def normalize(x, scale, bias):
        mean = x.mean(axis=-1, keepdims=True)
        centred = x - mean
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        return centred / jnp.sqrt(variance + 1e-5) * scale + bias  # <- fails

    def fn(x, scale, bias):
        return normalize(x * 2.0, scale, bias) - 1.0

    feeds = {"x": floats(2, 6), "scale": floats(5), "bias": floats(5)}
    return Failing(fn, [("B", "D"), ("D",), ("D",)], feeds, form="both", options={"opset": 21})


@failure
def gelu_of_a_bias() -> Failing:
    def fn(x, bias):
        rows = jnp.sin(x)
        shifted = rows + bias  # <- fails
        return jax.nn.gelu(shifted, approximate=False)

    feeds = {"x": floats(2, 6), "bias": floats(5)}
    return Failing(fn, [("B", "D"), ("D",)], feeds, options={"opset": 17})


@failure
def attention_of_other_keys() -> Failing:
    def attend(q, k, v):
        return jax.nn.dot_product_attention(q, k, v)  # <- fails

    def fn(q, k, v):
        return attend(q * 1.5, k, v) + 1.0

    feeds = {"q": floats(1, 4, 2, 8), "k": floats(1, 5, 2, 8), "v": floats(1, 6, 2, 8)}
    inputs = [("B", "T", 2, 8), ("B", "S", 2, 8), ("B", "S", 2, 8)]
    return Failing(fn, inputs, feeds, has_map=True)


@failure
def attention_by_hand() -> Failing:
    def attend(q, k, v):
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 4.0
        weights = jax.nn.softmax(scores, axis=-1)
        return jnp.einsum("bhqk,bhkd->bhqd", weights, v)  # <- fails

    def fn(q, k, v):
        return jnp.tanh(attend(q, k, v + 1.0))

    feeds = {"q": floats(1, 2, 4, 8), "k": floats(1, 2, 5, 8), "v": floats(1, 2, 6, 8)}
    inputs = [("B", 2, "T", 8), ("B", 2, "S", 8), ("B", 2, "S", 8)]
    return Failing(fn, inputs, feeds, form="both")


@failure
def attention_of_heads() -> Failing:
    def heads(x):
        return x.reshape(*x.shape[:2], 2, 8)

    def fn(q, k, v):
        shifted = v * 0.5
        scores = jnp.einsum("bqhd,bkhd->bhqk", heads(q), heads(k)) / 4.0
        weights = jax.nn.softmax(scores, axis=-1)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, heads(shifted))  # <- fails
        return mixed.reshape(q.shape) + 1.0

    feeds = {"q": floats(1, 4, 16), "k": floats(1, 5, 16), "v": floats(1, 6, 16)}
    return Failing(fn, [("B", "T", 16), ("B", "S", 16), ("B", "S", 16)], feeds, form="both")


@failure
def recurrent_network() -> Failing:
    def fn(xs, w, u, b, start):
        def cell(carry, x):
            h, c = carry
            gates = x @ w + h @ u + b  # <- fails
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return lax.scan(cell, (start, start), xs)[1]

    feeds = {
        "xs": floats(3, 2, 5),
        "w": floats(4, 12),
        "u": floats(3, 12),
        "b": floats(12),
        "start": floats(2, 3),
    }
    return Failing(fn, [(3, "B", "I"), ("I", 12), (3, 12), (12,), ("B", 3)], feeds)


@failure
def recurrent_network_with_weights() -> Failing:
    w, u, b = floats(4, 12), floats(3, 12), floats(12)

    def fn(xs, start):
        def cell(carry, x):
            h, c = carry
            gates = x @ w + h @ u + b
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return lax.scan(cell, (start, start), xs)[1]  # <- fails

    feeds = {"xs": floats(5, 2, 4), "start": floats(3, 3)}
    return Failing(fn, [("T", "B", 4), ("B", 3)], feeds, has_map=True)


@failure
def product_and_bias_of_rows() -> Failing:
    w, b = floats(4, 6), floats(6)

    def fn(x, y):
        hidden = jnp.cos(x) @ w + b
        return hidden + y  # <- fails

    feeds = {"x": floats(2, 3, 4), "y": floats(2, 5, 6)}
    return Failing(fn, [(2, "T", 4), (2, "T", 6)], feeds)


@failure
def product_of_two_lines() -> Failing:
    def fn(x, w, v):
        first = (x + 1.0) @ w
        second = jnp.maximum(first, 0.0) @ v  # <- fails
        return second * 3.0

    feeds = {"x": floats(2, 3), "w": floats(3, 4), "v": floats(5, 2)}
    return Failing(fn, [("B", 3), (3, "H"), ("H", 2)], feeds, form="wrapped")


@failure
def softmax_and_mask() -> Failing:
    def fn(scores, mask):
        scaled = scores * 0.125
        hidden = jnp.where(mask > 0.5, scaled, -1e9)  # <- fails
        return jax.nn.softmax(hidden, axis=-1)

    feeds = {"scores": floats(2, 4, 4), "mask": floats(3, 4)}
    return Failing(fn, [("B", "T", "T"), ("T", "T")], feeds, form="log")


@failure
def skip_and_normalization() -> Failing:
    def fn(x, y, scale, bias):
        total = x + y  # <- fails
        mean = total.mean(axis=-1, keepdims=True)
        variance = jnp.square(total - mean).mean(axis=-1, keepdims=True)
        return (total - mean) / jnp.sqrt(variance + 1e-6) * scale + bias

    feeds = {"x": floats(1, 2, 4), "y": floats(1, 3, 4), "scale": floats(4), "bias": floats(4)}
    inputs = [("B", "T", 4), ("B", "T", 4), (4,), (4,)]
    return Failing(fn, inputs, feeds, has_map=True, options={"opset": 21})
