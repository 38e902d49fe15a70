"""Layers of haiku."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from . import inputs as of
from .layer import Layer, Spec, trained

NAMESPACE = {"hk": hk, "jax": jax, "jnp": jnp, "np": np}


def build(layer: Layer, dtype: Any) -> Callable[..., Any]:
    def run(*arrays: jax.Array) -> Any:
        return layer.applied(eval(layer.code, NAMESPACE), arrays)

    model = hk.transform_with_state(run)
    key = jax.random.key(0)
    weights = trained(model.init(key, *layer.arrays(2, dtype)), dtype)
    return lambda *arrays: model.apply(*weights, None, *arrays)[0]


def layer(kind: str, code: str, *inputs: Spec, to: str | None, **options: Any) -> Layer:
    return Layer(kind, code, inputs, build, to, **options)


def norm(code: str, x: Spec, to: str | None, **options: Any) -> Layer:
    return layer("normalization", code, x, to=to, **options)


FIRST = "data_format='channels_first'"

LAYERS = [
    norm("hk.LayerNorm(-1, True, True)", of.TOKENS, "LayerNormalization"),
    norm("hk.LayerNorm(-1, True, False)", of.TOKENS, "LayerNormalization"),
    norm("hk.LayerNorm(-1, False, False)", of.TOKENS, "LayerNormalization"),
    norm("hk.LayerNorm((1, 2, 3), True, True, param_axis=-1)", of.IMAGE, "LayerNormalization"),
    norm("hk.RMSNorm(-1)", of.TOKENS, "RMSNormalization"),
    norm("hk.GroupNorm(4)", of.IMAGE, "InstanceNormalization"),
    norm("hk.GroupNorm(4)", of.ONE_IMAGE, "InstanceNormalization"),
    norm("hk.GroupNorm(4, create_offset=False)", of.IMAGE, "InstanceNormalization"),
    norm(
        "hk.GroupNorm(4, create_scale=False, create_offset=False)",
        of.IMAGE,
        "InstanceNormalization",
    ),
    norm(f"hk.GroupNorm(4, {FIRST})", of.CHANNELS_FIRST, "InstanceNormalization"),
    norm("hk.GroupNorm(4)", of.VOLUME, "InstanceNormalization"),
    norm("hk.InstanceNorm(True, True)", of.IMAGE, "InstanceNormalization"),
    norm(f"hk.InstanceNorm(True, True, {FIRST})", of.CHANNELS_FIRST, "InstanceNormalization"),
    norm(
        "hk.BatchNorm(True, True, 0.9)",
        of.IMAGE,
        None,
        because=of.BATCH_NORM,
        call=lambda module, x: module(x, is_training=hk.running_init()),
    ),
    norm(
        f"hk.BatchNorm(True, True, 0.9, {FIRST})",
        of.CHANNELS_FIRST,
        None,
        because=of.BATCH_NORM,
        call=lambda module, x: module(x, is_training=hk.running_init()),
    ),
]


def attention(*inputs: Spec, **options: Any) -> Layer:
    code = "hk.MultiHeadAttention(4, 4, w_init=hk.initializers.VarianceScaling())"
    return layer("attention", code, *inputs, to="Attention", **options)


LAYERS += [
    attention(of.TOKENS, call=lambda module, x: module(x, x, x)),
    attention(of.TOKENS, of.MEMORY, call=lambda module, x, y: module(x, y, y)),
    attention(
        of.TOKENS, of.booleans("B", 1, 8, 8), call=lambda module, x, mask: module(x, x, x, mask)
    ),
]

LAYERS += [
    layer("pooling", code, x, to=to)
    for code, x, to in [
        ("hk.AvgPool(2, 2, 'VALID')", of.IMAGE, "AveragePool"),
        ("hk.AvgPool(3, 2, 'SAME')", of.IMAGE, "AveragePool"),
        (
            "hk.AvgPool((1, 2, 2), (1, 2, 2), 'VALID', channel_axis=1)",
            of.CHANNELS_FIRST,
            "AveragePool",
        ),
        ("hk.MaxPool(2, 2, 'VALID')", of.IMAGE, "MaxPool"),
        ("hk.MaxPool(3, 2, 'SAME')", of.IMAGE, "MaxPool"),
        ("hk.MaxPool((1, 2, 2), (1, 2, 2), 'VALID', channel_axis=1)", of.CHANNELS_FIRST, "MaxPool"),
    ]
]

LAYERS += [
    layer("embedding", "hk.Embed(20, 8)", of.INDICES, to="Gather"),
    layer("embedding", "hk.Embed(20, 8, lookup_style='ONE_HOT')", of.INDICES, to="MatMul"),
]


def unrolled(core: Any, x: jax.Array) -> jax.Array:
    start = core.initial_state(x.shape[1])
    start = jax.tree.map(lambda leaf: leaf.astype(x.dtype), start)
    return hk.dynamic_unroll(core, x, start)[0]


LAYERS += [
    layer("recurrent", f"hk.{code}", of.TIME_MAJOR, to=to, because=why, call=unrolled)
    for code, to, why in [
        ("LSTM(6)", "LSTM", ""),
        ("GRU(6)", "GRU", ""),
        ("VanillaRNN(6)", None, of.SLOW_RNN),
        ("VanillaRNN(6, double_bias=False)", None, of.SLOW_RNN),
    ]
]
