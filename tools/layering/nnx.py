"""Layers of flax nnx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from . import inputs as of
from .layer import Layer, Spec, trained


def build(layer: Layer, dtype: Any) -> Callable[..., Any]:
    names = {"nnx": nnx, "jax": jax, "jnp": jnp, "np": np, "rngs": nnx.Rngs(0)}
    module = eval(layer.code, names)
    owner = getattr(module, "__self__", module)
    if isinstance(owner, nnx.Module):
        graph, weights, rest = nnx.split(owner, (nnx.Param, nnx.BatchStat), ...)
        merged = nnx.merge(graph, trained(weights, dtype), rest)
        module = merged if owner is module else getattr(merged, module.__name__)
    return lambda *arrays: layer.applied(module, arrays)


def layer(kind: str, code: str, *inputs: Spec, to: str | None, **options: Any) -> Layer:
    return Layer(kind, code, inputs, build, to, **options)


def norm(code: str, x: Spec, to: str | None, **options: Any) -> Layer:
    return layer("normalization", code, x, to=to, **options)


LAYERS = [
    norm("nnx.LayerNorm(16, rngs=rngs)", of.TOKENS, "LayerNormalization"),
    norm("nnx.LayerNorm(16, use_bias=False, rngs=rngs)", of.TOKENS, "LayerNormalization"),
    norm("nnx.LayerNorm(16, use_scale=False, rngs=rngs)", of.TOKENS, "LayerNormalization"),
    norm("nnx.LayerNorm(16, use_fast_variance=False, rngs=rngs)", of.IMAGE, "LayerNormalization"),
    norm("nnx.RMSNorm(16, rngs=rngs)", of.TOKENS, "RMSNormalization"),
    norm("nnx.RMSNorm(16, use_scale=False, rngs=rngs)", of.TOKENS, "RMSNormalization"),
    norm("nnx.GroupNorm(16, 4, rngs=rngs)", of.IMAGE, "InstanceNormalization"),
    norm("nnx.GroupNorm(16, 4, rngs=rngs)", of.ONE_IMAGE, "InstanceNormalization"),
    norm("nnx.GroupNorm(16, 4, use_bias=False, rngs=rngs)", of.IMAGE, "InstanceNormalization"),
    norm(
        "nnx.GroupNorm(16, 4, use_fast_variance=False, rngs=rngs)",
        of.IMAGE,
        "InstanceNormalization",
    ),
    norm("nnx.GroupNorm(16, 4, rngs=rngs)", of.VOLUME, "InstanceNormalization"),
    norm("nnx.InstanceNorm(16, rngs=rngs)", of.IMAGE, "InstanceNormalization"),
    norm(
        "nnx.BatchNorm(16, use_running_average=True, rngs=rngs)",
        of.IMAGE,
        None,
        because=of.BATCH_NORM,
    ),
    layer(
        "normalization",
        "nnx.LayerNorm(16, rngs=rngs)",
        of.TOKENS,
        of.booleans("B", 8, 16),
        to=None,
        named=("mask",),
        because=of.MASKED_MEAN,
    ),
]


def attention(options: str, *inputs: Spec, **rest: Any) -> Layer:
    code = f"nnx.MultiHeadAttention(4, 16, decode=False{options}, rngs=rngs)"
    return layer("attention", code, *inputs, to="Attention", **rest)


LAYERS += [
    attention("", of.TOKENS),
    attention(", use_bias=False", of.TOKENS),
    attention("", of.TOKENS, of.MEMORY),
    attention("", of.TOKENS, of.booleans("B", 1, 8, 8), named=("mask",)),
    attention(
        "", of.TOKENS, call=lambda module, x: module(x, mask=nnx.make_causal_mask(x[..., 0]))
    ),
    attention(", normalize_qk=True", of.TOKENS),
    layer("attention", "nnx.dot_product_attention", of.HEADS, of.HEADS, of.HEADS, to="Attention"),
    layer(
        "attention", "jax.nn.dot_product_attention", of.HEADS, of.HEADS, of.HEADS, to="Attention"
    ),
    layer(
        "attention",
        "lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True)",
        of.HEADS,
        of.HEADS,
        of.HEADS,
        to="Attention",
    ),
    layer(
        "attention",
        "jax.nn.dot_product_attention",
        of.HEADS,
        of.floats("B", 8, 2, 16),
        of.floats("B", 8, 2, 16),
        to="Attention",
    ),
]

LAYERS += [
    layer("pooling", f"lambda x: nnx.{code}", of.IMAGE, to=to)
    for code, to in {
        "avg_pool(x, (2, 2), (2, 2))": "AveragePool",
        "avg_pool(x, (3, 3), (2, 2), 'SAME')": "AveragePool",
        "max_pool(x, (2, 2), (2, 2))": "MaxPool",
        "max_pool(x, (3, 3), (2, 2), 'SAME')": "MaxPool",
        "min_pool(x, (2, 2), (2, 2))": "MaxPool",
    }.items()
]

LAYERS += [
    layer("activation", f"nnx.{name}", of.ROWS, **options)
    for name, options in of.ACTIVATIONS.items()
    if hasattr(nnx, name)
]
LAYERS += [
    layer("activation", "nnx.PReLU()", of.IMAGE, to="LeakyRelu"),
    layer("embedding", "nnx.Embed(20, 8, rngs=rngs)", of.INDICES, to="Gather"),
    layer("embedding", "nnx.Embed(20, 16, rngs=rngs).attend", of.TOKENS, to="MatMul"),
]


def recurrent(
    cell: str, to: str | None, options: str = "", x: Spec = of.TOKENS, **rest: Any
) -> Layer:
    code = f"nnx.RNN(nnx.{cell}(16, 6, rngs=rngs){options})"
    return layer("recurrent", code, x, to=to, call=with_rngs, **rest)


def with_rngs(module: Callable[..., Any], x: jax.Array) -> jax.Array:
    """Calls a module with a generator of this call, which its initial state needs."""
    return module(x, rngs=nnx.Rngs(0))


LAYERS += [
    recurrent("LSTMCell", "LSTM"),
    recurrent("OptimizedLSTMCell", "LSTM"),
    recurrent("OptimizedLSTMCell", "LSTM", ", reverse=True, keep_order=True"),
    recurrent("OptimizedLSTMCell", "LSTM", ", time_major=True", of.TIME_MAJOR),
    recurrent("GRUCell", "GRU"),
    recurrent("SimpleCell", None, because=of.SLOW_RNN),
    layer(
        "recurrent",
        "nnx.Bidirectional(nnx.RNN(nnx.GRUCell(16, 6, rngs=rngs)), "
        "nnx.RNN(nnx.GRUCell(16, 6, rngs=rngs)))",
        of.TOKENS,
        to="GRU",
        call=with_rngs,
    ),
]
