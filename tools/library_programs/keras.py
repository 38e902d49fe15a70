"""Keras 3 on its JAX backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

from .keras_forms import FORMS, model
from .program import Program, floats, ints


def dense() -> keras.Model:
    return keras.Sequential(
        [keras.Input((8,)), layers.Dense(16, activation="relu"), layers.Dense(4)]
    )


def convolutional() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Conv2D(8, 3, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.SeparableConv2D(12, 3),
            layers.Conv2DTranspose(6, 3, strides=2, padding="same"),
            layers.GlobalAveragePooling2D(),
            layers.Dropout(0.5),
            layers.Dense(5, activation="softmax"),
        ]
    )


def residual() -> keras.Model:
    x = keras.Input((12,))
    hidden = layers.Dense(12, activation="gelu")(x)
    joined = layers.LayerNormalization()(layers.Add()([x, hidden]))
    both = layers.Concatenate()([joined, x])
    return keras.Model(x, [layers.Dense(3)(both), layers.Dense(1, activation="sigmoid")(joined)])


def attention() -> keras.Model:
    x = keras.Input((8, 16))
    attended = layers.MultiHeadAttention(4, 4)(x, x)
    return keras.Model(x, layers.LayerNormalization()(attended + x))


def transformer() -> keras.Model:
    tokens = keras.Input((10,), dtype="int32")
    x = layers.Embedding(50, 16)(tokens)
    attended = layers.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization()(x + attended)
    x = layers.LayerNormalization()(x + layers.Dense(16)(layers.Dense(32, "relu")(x)))
    return keras.Model(tokens, layers.Dense(50)(x))


def masked() -> keras.Model:
    tokens = keras.Input((10,), dtype="int32")
    x = layers.Embedding(50, 16, mask_zero=True)(tokens)
    return keras.Model(tokens, layers.LSTM(8)(x))


def recurrent(layer: Callable[[], Any]) -> Callable[[], keras.Model]:
    return lambda: keras.Sequential([keras.Input((7, 6)), layer(), layers.Dense(2)])


def application(name: str) -> Callable[[], keras.Model]:
    make = getattr(keras.applications, name)
    options = {"weights": None, "classes": 10, "classifier_activation": None}
    return lambda: make(input_shape=(64, 64, 3), **options)


IMAGE = floats(1, 64, 64, 3)
SEQUENCE = floats(2, 7, 6)
PROGRAMS = [
    Program(
        "a stack of dense layers",
        model(dense, floats(3, 8)),
        weights=("sequential/dense/kernel", "sequential/dense_1/bias"),
    ),
    Program("a convolutional network", model(convolutional, floats(2, 16, 16, 3))),
    Program("a residual block with two outputs", model(residual, floats(3, 12))),
    Program(
        "`MultiHeadAttention`",
        model(attention, floats(2, 8, 16)),
        weights=("multi_head_attention/query/kernel",),
    ),
    Program("a causal transformer", model(transformer, ints(50, 2, 10))),
    Program("`LSTM` with a mask", model(masked, ints(3, 2, 10))),
    *(
        Program(f"`{name}`", model(recurrent(layer), SEQUENCE))
        for name, layer in {
            "LSTM": lambda: layers.LSTM(5),
            "GRU": lambda: layers.GRU(5),
            "SimpleRNN": lambda: layers.SimpleRNN(5),
            "Bidirectional(LSTM)": lambda: layers.Bidirectional(layers.LSTM(5)),
            "Bidirectional(GRU)": lambda: layers.Bidirectional(
                layers.GRU(5, return_sequences=True), merge_mode="sum"
            ),
            "RNN(StackedRNNCells)": lambda: layers.RNN([layers.LSTMCell(4), layers.GRUCell(3)]),
            "TimeDistributed": lambda: layers.TimeDistributed(layers.Dense(3)),
        }.items()
    ),
    *(
        Program(f"`applications.{name}`", model(application(name), IMAGE), 2e-4)
        for name in ("MobileNet", "MobileNetV3Small", "EfficientNetB0", "ResNet50")
    ),
    *FORMS,
]
