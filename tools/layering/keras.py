"""Layers of Keras on its JAX backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import keras
import numpy as np

from . import inputs as of
from .layer import Layer, Spec, trained

NAMESPACE = {"keras": keras, "layers": keras.layers}


def build(layer: Layer, dtype: Any) -> Callable[..., Any]:
    keras.config.set_dtype_policy(jnp.dtype(dtype).name)
    keras.utils.set_random_seed(0)
    module = eval(layer.code, NAMESPACE)
    layer.applied(module, layer.arrays(2, dtype))
    if isinstance(module, keras.layers.Layer):
        module.set_weights([np.asarray(one) for one in trained(module.get_weights(), dtype)])
    return lambda *arrays: layer.applied(module, arrays)


def layer(kind: str, code: str, *inputs: Spec, to: str | None, **options: Any) -> Layer:
    return Layer(kind, code, inputs, build, to, **options)


def norm(code: str, x: Spec, to: str | None, **options: Any) -> Layer:
    return layer("normalization", f"layers.{code}", x, to=to, **options)


LAYERS = [
    norm("LayerNormalization()", of.TOKENS, "LayerNormalization"),
    norm("LayerNormalization(center=False)", of.TOKENS, "LayerNormalization"),
    norm("LayerNormalization(scale=False, center=False)", of.TOKENS, "LayerNormalization"),
    norm("LayerNormalization(axis=(1, 2, 3))", of.IMAGE, "LayerNormalization"),
    norm("LayerNormalization(axis=1)", of.CHANNELS_FIRST, "LayerNormalization"),
    norm("RMSNormalization()", of.TOKENS, "RMSNormalization"),
    norm("GroupNormalization(4)", of.IMAGE, "InstanceNormalization"),
    norm("GroupNormalization(4)", of.ONE_IMAGE, "InstanceNormalization"),
    norm("GroupNormalization(4, center=False)", of.IMAGE, "InstanceNormalization"),
    norm("GroupNormalization(4, scale=False, center=False)", of.IMAGE, "InstanceNormalization"),
    norm("GroupNormalization(-1)", of.IMAGE, "InstanceNormalization"),
    norm("GroupNormalization(4, axis=1)", of.CHANNELS_FIRST, "InstanceNormalization"),
    norm("GroupNormalization(4)", of.TOKENS, "InstanceNormalization"),
    norm("BatchNormalization()", of.IMAGE, None, because=of.BATCH_NORM),
    norm("BatchNormalization(axis=1)", of.CHANNELS_FIRST, None, because=of.BATCH_NORM),
    norm(
        "UnitNormalization()",
        of.TOKENS,
        None,
        because="`LpNormalization` has no lower bound for the divisor",
    ),
    norm("SpectralNormalization(layers.Dense(8))", of.ROWS, None, because=of.COMPUTED_WEIGHTS),
]


def attention(code: str, *inputs: Spec, **options: Any) -> Layer:
    return layer("attention", f"layers.{code}", *inputs, to="Attention", **options)


LAYERS += [
    attention("MultiHeadAttention(4, 4)", of.TOKENS, call=lambda module, x: module(x, x)),
    attention("MultiHeadAttention(4, 4)", of.TOKENS, of.MEMORY),
    attention(
        "MultiHeadAttention(4, 4)",
        of.TOKENS,
        of.booleans("B", 8, 8),
        call=lambda module, x, mask: module(x, x, attention_mask=mask),
    ),
    attention(
        "MultiHeadAttention(4, 4)",
        of.TOKENS,
        call=lambda module, x: module(x, x, use_causal_mask=True),
    ),
    attention("GroupQueryAttention(4, 4, 2)", of.TOKENS, call=lambda module, x: module(x, x)),
    attention("Attention()", of.TOKENS, of.MEMORY, call=lambda module, x, y: module([x, y])),
    layer(
        "attention",
        "layers.AdditiveAttention()",
        of.TOKENS,
        of.MEMORY,
        to=None,
        because=of.NO_OPERATOR,
        call=lambda module, x, y: module([x, y]),
    ),
]

FIRST = "data_format='channels_first'"

LAYERS += [
    layer("pooling", f"layers.{code}", x, to=to)
    for code, x, to in [
        ("AveragePooling1D(2)", of.TOKENS, "AveragePool"),
        ("AveragePooling2D(2)", of.IMAGE, "AveragePool"),
        ("AveragePooling2D(3, 2, 'same')", of.IMAGE, "AveragePool"),
        (f"AveragePooling2D(2, {FIRST})", of.CHANNELS_FIRST, "AveragePool"),
        ("AveragePooling3D(2)", of.VOLUME, "AveragePool"),
        ("MaxPooling1D(2)", of.TOKENS, "MaxPool"),
        ("MaxPooling2D(2)", of.IMAGE, "MaxPool"),
        ("MaxPooling2D(3, 2, 'same')", of.IMAGE, "MaxPool"),
        (f"MaxPooling2D(2, {FIRST})", of.CHANNELS_FIRST, "MaxPool"),
        ("MaxPooling3D(2)", of.VOLUME, "MaxPool"),
        ("GlobalAveragePooling2D()", of.IMAGE, "ReduceMean"),
        (f"GlobalAveragePooling2D({FIRST})", of.CHANNELS_FIRST, "ReduceMean"),
        ("GlobalMaxPooling2D()", of.IMAGE, "ReduceMax"),
        ("GlobalAveragePooling1D()", of.TOKENS, "ReduceMean"),
    ]
]

NAMES = {
    "silu": "silu",
    "soft_sign": "softsign",
    "hard_silu": "hard_silu",
    "standardize": None,
}
LAYERS += [
    layer("activation", f"keras.activations.{NAMES.get(name, name)}", of.ROWS, **options)
    for name, options in of.ACTIVATIONS.items()
    if hasattr(keras.activations, NAMES.get(name, name) or "")
]
LAYERS += [
    layer("activation", f"layers.{code}", of.IMAGE, to=to)
    for code, to in {
        "ReLU()": "Relu",
        "ReLU(6)": "Clip",
        "LeakyReLU()": "LeakyRelu",
        "PReLU()": "PRelu",
        "PReLU(shared_axes=(1, 2))": "PRelu",
        "ELU()": "Elu",
        "Softmax()": "Softmax",
    }.items()
]
LAYERS += [
    layer("activation", "keras.activations.mish", of.ROWS, to="Mish"),
    layer("embedding", "layers.Embedding(20, 8)", of.INDICES, to="Gather"),
]

LAYERS += [
    layer("recurrent", f"layers.{code}", of.TOKENS, to=to, because="" if to else of.SLOW_RNN)
    for code, to in [
        ("LSTM(6, recurrent_initializer='ones')", "LSTM"),
        ("LSTM(6, return_sequences=True, recurrent_initializer='ones')", "LSTM"),
        ("LSTM(6, return_sequences=True, recurrent_initializer='ones', go_backwards=True)", "LSTM"),
        (
            "Bidirectional(layers.LSTM(6, return_sequences=True, recurrent_initializer='ones'))",
            "LSTM",
        ),
        ("GRU(6, return_sequences=True, recurrent_initializer='ones')", "GRU"),
        ("GRU(6, return_sequences=True, recurrent_initializer='ones', reset_after=False)", "GRU"),
        ("SimpleRNN(6, return_sequences=True, recurrent_initializer='ones')", None),
    ]
]
LAYERS += [
    layer(
        "recurrent",
        "layers.ConvLSTM2D(6, 3, recurrent_initializer='ones')",
        of.floats("B", 3, 8, 8, 4),
        to=None,
        because=of.NO_OPERATOR,
    )
]

LAYERS += [
    layer("resize", f"layers.{code}", x, to=to, because="" if to else of.PRODUCTS)
    for code, x, to in [
        ("UpSampling1D(2)", of.TOKENS, "Expand"),
        ("UpSampling2D(2)", of.IMAGE, "Resize"),
        ("UpSampling2D(2, interpolation='bilinear')", of.IMAGE, None),
        (f"UpSampling2D(2, {FIRST})", of.CHANNELS_FIRST, "Resize"),
        ("UpSampling3D(2)", of.VOLUME, "Resize"),
        ("Resizing(16, 16)", of.IMAGE, None),
        ("Resizing(16, 16, interpolation='nearest')", of.IMAGE, "Resize"),
    ]
]
