"""Layers of flax linen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from . import inputs as of
from .layer import Layer, Spec, trained

NAMESPACE = {"nn": nn, "jax": jax, "jnp": jnp, "np": np}


def build(layer: Layer, dtype: Any) -> Callable[..., Any]:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, *arrays: jax.Array) -> Any:
            return layer.applied(eval(layer.code, NAMESPACE), arrays)

    model = Model()
    weights = trained(model.init(jax.random.key(0), *layer.arrays(2, dtype)), dtype)
    return lambda *arrays: model.apply(weights, *arrays)


def layer(kind: str, code: str, *inputs: Spec, to: str | None, **options: Any) -> Layer:
    return Layer(kind, code, inputs, build, to, **options)


def norm(code: str, x: Spec, to: str | None, **options: Any) -> Layer:
    return layer("normalization", code, x, to=to, **options)


LAYERS = [
    norm("nn.LayerNorm()", of.TOKENS, "LayerNormalization"),
    norm("nn.LayerNorm(use_bias=False)", of.TOKENS, "LayerNormalization"),
    norm("nn.LayerNorm(use_scale=False)", of.TOKENS, "LayerNormalization"),
    norm("nn.LayerNorm(use_bias=False, use_scale=False)", of.TOKENS, "LayerNormalization"),
    norm("nn.LayerNorm(use_fast_variance=False)", of.TOKENS, "LayerNormalization"),
    norm("nn.LayerNorm()", of.IMAGE, "LayerNormalization"),
    norm(
        "nn.LayerNorm(reduction_axes=(1, 2, 3), feature_axes=(1, 2, 3))",
        of.IMAGE,
        "LayerNormalization",
    ),
    norm("nn.LayerNorm(reduction_axes=(1, 2, 3))", of.IMAGE, "LayerNormalization"),
    norm("nn.LayerNorm(reduction_axes=1, feature_axes=1)", of.CHANNELS_FIRST, "LayerNormalization"),
    norm("nn.RMSNorm()", of.TOKENS, "RMSNormalization"),
    norm("nn.RMSNorm(use_scale=False)", of.TOKENS, "RMSNormalization"),
    norm("nn.RMSNorm()", of.IMAGE, "RMSNormalization"),
    norm("nn.GroupNorm(4)", of.IMAGE, "InstanceNormalization"),
    norm("nn.GroupNorm(4)", of.ONE_IMAGE, "InstanceNormalization"),
    norm("nn.GroupNorm(4, use_bias=False)", of.IMAGE, "InstanceNormalization"),
    norm("nn.GroupNorm(4, use_scale=False)", of.IMAGE, "InstanceNormalization"),
    norm("nn.GroupNorm(4, use_bias=False, use_scale=False)", of.IMAGE, "InstanceNormalization"),
    norm("nn.GroupNorm(4, use_fast_variance=False)", of.IMAGE, "InstanceNormalization"),
    norm("nn.GroupNorm(None, group_size=16)", of.IMAGE, "InstanceNormalization"),
    norm("nn.GroupNorm(None, group_size=1)", of.IMAGE, "InstanceNormalization"),
    norm("nn.GroupNorm(4)", of.TOKENS, "InstanceNormalization"),
    norm("nn.GroupNorm(4)", of.VOLUME, "InstanceNormalization"),
    norm("nn.InstanceNorm()", of.IMAGE, "InstanceNormalization"),
    norm("nn.InstanceNorm(use_bias=False, use_scale=False)", of.IMAGE, "InstanceNormalization"),
    norm("nn.InstanceNorm(feature_axes=1)", of.CHANNELS_FIRST, "InstanceNormalization"),
    norm("nn.BatchNorm(use_running_average=True)", of.IMAGE, None, because=of.BATCH_NORM),
    norm(
        "nn.BatchNorm(use_running_average=True, axis=1)",
        of.CHANNELS_FIRST,
        None,
        because=of.BATCH_NORM,
    ),
    norm(
        "lambda x: nn.SpectralNorm(nn.Dense(8))(x, update_stats=False)",
        of.ROWS,
        None,
        because=of.COMPUTED_WEIGHTS,
    ),
    norm("nn.WeightNorm(nn.Dense(8))", of.ROWS, None, because=of.COMPUTED_WEIGHTS),
]

LAYERS += [
    layer("normalization", f"{code}", x, mask, to=None, named=("mask",), because=of.MASKED_MEAN)
    for code, x, mask in [
        ("nn.LayerNorm()", of.TOKENS, of.booleans("B", 8, 16)),
        ("nn.GroupNorm(4)", of.IMAGE, of.booleans("B", 8, 8, 16)),
    ]
]


def attention(code: str, *inputs: Spec, **options: Any) -> Layer:
    return layer("attention", code, *inputs, to="Attention", **options)


LAYERS += [
    attention("nn.SelfAttention(4)", of.TOKENS),
    attention("nn.SelfAttention(1)", of.TOKENS),
    attention("nn.SelfAttention(4, use_bias=False)", of.TOKENS),
    attention("nn.SelfAttention(4)", of.TOKENS, of.booleans("B", 1, 8, 8), named=("mask",)),
    attention(
        "lambda x: nn.SelfAttention(4)(x, mask=nn.make_causal_mask(x[..., 0]))",
        of.TOKENS,
    ),
    attention("nn.MultiHeadDotProductAttention(4)", of.TOKENS, of.MEMORY),
    attention("nn.MultiHeadAttention(4)", of.TOKENS, of.MEMORY),
    attention("nn.MultiHeadAttention(4, normalize_qk=True)", of.TOKENS, of.MEMORY),
    attention("nn.SelfAttention(4)", of.IMAGE),
    attention("nn.dot_product_attention", of.HEADS, of.HEADS, of.HEADS),
    attention(
        "nn.dot_product_attention",
        of.HEADS,
        of.HEADS,
        of.HEADS,
        of.floats("B", 4, 8, 8),
        named=("bias",),
    ),
    attention(
        "nn.dot_product_attention",
        of.HEADS,
        of.HEADS,
        of.HEADS,
        of.booleans("B", 1, 8, 8),
        named=("mask",),
    ),
]


def pool(code: str, x: Spec, to: str) -> Layer:
    return layer("pooling", code, x, to=to)


LAYERS += [
    pool("lambda x: nn.avg_pool(x, (2, 2), (2, 2))", of.IMAGE, "AveragePool"),
    pool("lambda x: nn.avg_pool(x, (3, 3), (2, 2), 'SAME')", of.IMAGE, "AveragePool"),
    pool(
        "lambda x: nn.avg_pool(x, (3, 3), (1, 1), 'SAME', count_include_pad=False)",
        of.IMAGE,
        "AveragePool",
    ),
    pool("lambda x: nn.max_pool(x, (2, 2), (2, 2))", of.IMAGE, "MaxPool"),
    pool("lambda x: nn.max_pool(x, (3, 3), (2, 2), 'SAME')", of.IMAGE, "MaxPool"),
    pool("lambda x: nn.avg_pool(x, (2,), (2,))", of.TOKENS, "AveragePool"),
    pool("lambda x: nn.max_pool(x, (2,), (2,))", of.TOKENS, "MaxPool"),
    pool("lambda x: nn.avg_pool(x, (2, 2, 2), (2, 2, 2))", of.VOLUME, "AveragePool"),
    pool("lambda x: jnp.mean(x, (1, 2))", of.IMAGE, "ReduceMean"),
]

LAYERS += [
    layer("activation", f"nn.{name}", of.ROWS, **options)
    for name, options in of.ACTIVATIONS.items()
]
LAYERS += [
    layer("activation", "nn.PReLU()", of.IMAGE, to="LeakyRelu"),
    layer("embedding", "nn.Embed(20, 8)", of.INDICES, to="Gather"),
    layer("embedding", "nn.Embed(20, 16).attend", of.TOKENS, to="MatMul"),
]


def recurrent(code: str, to: str | None, x: Spec = of.TOKENS, **options: Any) -> Layer:
    return layer("recurrent", code, x, to=to, **options)


LAYERS += [
    recurrent("nn.RNN(nn.LSTMCell(6))", "LSTM"),
    recurrent("nn.RNN(nn.OptimizedLSTMCell(6))", "LSTM"),
    recurrent("nn.RNN(nn.OptimizedLSTMCell(6), reverse=True, keep_order=True)", "LSTM"),
    recurrent("nn.RNN(nn.OptimizedLSTMCell(6), time_major=True)", "LSTM", of.TIME_MAJOR),
    recurrent(
        "nn.Bidirectional(nn.RNN(nn.OptimizedLSTMCell(6)), nn.RNN(nn.OptimizedLSTMCell(6)))", "LSTM"
    ),
    recurrent("nn.RNN(nn.GRUCell(6))", "GRU"),
    recurrent("nn.RNN(nn.SimpleCell(6))", None, because=of.SLOW_RNN),
    recurrent("nn.RNN(nn.MGUCell(6))", None, because=of.NO_OPERATOR),
    recurrent(
        "nn.RNN(nn.ConvLSTMCell(6, (3, 3)))",
        None,
        of.floats("B", 3, 8, 8, 4),
        because=of.NO_OPERATOR,
    ),
    layer(
        "recurrent",
        "nn.RNN(nn.OptimizedLSTMCell(6))",
        of.TOKENS,
        of.ints(8, "B"),
        to="LSTM",
        named=("seq_lengths",),
    ),
]

LAYERS += [
    layer("resize", f"lambda x: jax.image.resize(x, {shape}, '{method}')", x, **options)
    for x, shape, method, options in of.RESIZES
]
