"""Layers of equinox, which take one example and are vmapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from . import inputs as of
from .layer import Layer, Spec, trained

KEY = "key=jax.random.key(0)"
NAMESPACE = {"eqx": eqx, "jax": jax, "jnp": jnp, "np": np}


def build(layer: Layer, dtype: Any) -> Callable[..., Any]:
    module = eval(layer.code, NAMESPACE)
    weights, rest = eqx.partition(module, eqx.is_inexact_array)
    module = eqx.combine(trained(weights, dtype), rest)
    return jax.vmap(lambda *arrays: layer.applied(module, arrays))


def of_tokens(module: Callable[..., Any], x: jax.Array) -> jax.Array:
    return jax.vmap(module)(x)


def layer(kind: str, code: str, *inputs: Spec, to: str | None, **options: Any) -> Layer:
    return Layer(kind, code, inputs, build, to, **options)


def norm(code: str, x: Spec, to: str | None, **options: Any) -> Layer:
    return layer("normalization", code, x, to=to, **options)


LAYERS = [
    norm("eqx.nn.LayerNorm(16)", of.TOKENS, "LayerNormalization", call=of_tokens),
    norm("eqx.nn.LayerNorm(16, use_bias=False)", of.ROWS, "LayerNormalization"),
    norm("eqx.nn.LayerNorm(16, use_weight=False, use_bias=False)", of.ROWS, "LayerNormalization"),
    norm("eqx.nn.LayerNorm((16, 8, 8))", of.CHANNELS_FIRST, "LayerNormalization"),
    norm("eqx.nn.RMSNorm(16)", of.TOKENS, "RMSNormalization", call=of_tokens),
    norm("eqx.nn.RMSNorm(16, use_weight=False, use_bias=False)", of.ROWS, "RMSNormalization"),
    norm("eqx.nn.RMSNorm(16, use_bias=False)", of.ROWS, "RMSNormalization"),
    norm("eqx.nn.GroupNorm(4, 16)", of.CHANNELS_FIRST, "InstanceNormalization"),
    norm(
        "eqx.nn.GroupNorm(4, 16, channelwise_affine=False)",
        of.CHANNELS_FIRST,
        "InstanceNormalization",
    ),
    norm("eqx.nn.GroupNorm(16, 16)", of.CHANNELS_FIRST, "InstanceNormalization"),
    norm("eqx.nn.GroupNorm(4, 16)", of.SEQUENCE_FIRST, "InstanceNormalization"),
    norm("eqx.nn.GroupNorm(4, 16)", of.VOLUME_FIRST, "InstanceNormalization"),
    norm(
        f"eqx.nn.WeightNorm(eqx.nn.Linear(16, 8, {KEY}))",
        of.ROWS,
        None,
        because=of.COMPUTED_WEIGHTS,
    ),
]


def batch_norm(module: Any, x: jax.Array) -> jax.Array:
    norm, state = module
    return eqx.nn.inference_mode(norm)(x, state)[0]


LAYERS += [
    norm(
        'eqx.nn.make_with_state(eqx.nn.BatchNorm)(16, "batch", mode="batch")',
        of.CHANNELS_FIRST,
        None,
        because=of.BATCH_NORM,
        call=batch_norm,
    )
]


def attention(options: str, *inputs: Spec, **rest: Any) -> Layer:
    code = f"eqx.nn.MultiheadAttention(4, 16{options}, {KEY})"
    return layer("attention", code, *inputs, to="Attention", **rest)


def of_itself(module: Callable[..., Any], x: jax.Array, *mask: jax.Array) -> jax.Array:
    return module(x, x, x, *mask)


BIASES = ", use_query_bias=True, use_key_bias=True, use_value_bias=True, use_output_bias=True"

LAYERS += [
    attention("", of.TOKENS, call=of_itself),
    attention(BIASES, of.TOKENS, call=of_itself),
    attention("", of.TOKENS, of.booleans("B", 8, 8), call=of_itself),
    attention("", of.TOKENS, of.MEMORY, call=lambda module, x, y: module(x, y, y)),
    layer(
        "embedding",
        "eqx.nn.RotaryPositionalEmbedding(16)",
        of.HEADS,
        to="RotaryEmbedding",
        call=lambda module, x: jax.vmap(module, in_axes=1, out_axes=1)(x),
    ),
    layer(
        "embedding",
        f"eqx.nn.Embedding(20, 8, {KEY})",
        of.INDICES,
        to="Gather",
        call=of_tokens,
    ),
]

POOLS = {
    "AvgPool1d(2, 2)": (of.SEQUENCE_FIRST, "AveragePool"),
    "AvgPool2d(2, 2)": (of.CHANNELS_FIRST, "AveragePool"),
    "AvgPool2d(3, 1, 1)": (of.CHANNELS_FIRST, "AveragePool"),
    "AvgPool2d(3, 2, use_ceil=True)": (of.CHANNELS_FIRST, "AveragePool"),
    "AvgPool3d(2, 2)": (of.VOLUME_FIRST, "AveragePool"),
    "MaxPool1d(2, 2)": (of.SEQUENCE_FIRST, "MaxPool"),
    "MaxPool2d(2, 2)": (of.CHANNELS_FIRST, "MaxPool"),
    "MaxPool2d(3, 1, 1)": (of.CHANNELS_FIRST, "MaxPool"),
    "MaxPool3d(2, 2)": (of.VOLUME_FIRST, "MaxPool"),
    "AdaptiveAvgPool2d(1)": (of.CHANNELS_FIRST, "ReduceMean"),
    "AdaptiveAvgPool2d(4)": (of.CHANNELS_FIRST, "ReduceMean"),
    "AdaptiveAvgPool2d(3)": (of.CHANNELS_FIRST, None),
    "AdaptiveMaxPool2d(4)": (of.CHANNELS_FIRST, "ReduceMax"),
    "AdaptiveMaxPool2d(1)": (of.CHANNELS_FIRST, "ReduceMax"),
}
LAYERS += [
    layer(
        "pooling",
        f"eqx.nn.{code}",
        x,
        to=to,
        because="" if to else "the windows have different sizes, and no operator supports that",
    )
    for code, (x, to) in POOLS.items()
]

LAYERS += [layer("activation", "eqx.nn.PReLU(0.2)", of.ROWS, to="LeakyRelu")]


def over_tokens(cell: Any, x: jax.Array) -> jax.Array:
    zeros = jnp.zeros(6, x.dtype)
    is_lstm = isinstance(cell, eqx.nn.LSTMCell)
    start = (zeros, zeros) if is_lstm else zeros

    def step(state: Any, x: jax.Array) -> Any:
        state = cell(x, state)
        return state, state[0] if is_lstm else state

    return jax.lax.scan(step, start, x)[1]


LAYERS += [
    layer("recurrent", f"eqx.nn.{cell}(16, 6, {KEY})", of.TOKENS, to=to, call=over_tokens)
    for cell, to in {"LSTMCell": "LSTM", "GRUCell": "GRU"}.items()
]
LAYERS += [
    layer(
        "resize",
        f"lambda x: jax.image.resize(x, (16, 16, 16), '{method}')",
        of.CHANNELS_FIRST,
        **options,
    )
    for method, options in {
        "nearest": {"to": "Resize"},
        "bilinear": {"to": None, "because": of.PRODUCTS},
    }.items()
]
