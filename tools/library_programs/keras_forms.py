"""The forms of Keras models: how they are made, and how they take their inputs and return outputs.

Each form is exported with sizes that are not known, and runs with several.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers, ops
from layering.layer import trained

from .program import Program, floats, ints


def model(make: Callable[[], keras.Model], *inputs: Any) -> Callable[[], Any]:
    """Returns a function that builds a model with random weights."""

    def build() -> Any:
        keras.utils.clear_session()
        keras.utils.set_random_seed(0)
        made = make()
        made(*inputs)
        made.set_weights([np.asarray(one) for one in trained(made.get_weights(), np.float32)])
        return made, inputs

    return build


class Stack(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = layers.Dense(10, activation="relu")
        self.norm = layers.BatchNormalization()
        self.drop = layers.Dropout(0.3)
        self.head = layers.Dense(2, activation="sigmoid")

    def call(self, x: Any, training: bool = False) -> Any:
        return self.head(self.drop(self.norm(self.hidden(x)), training=training))


def stacked() -> keras.Model:
    parts = [layers.Dense(10, activation="relu"), layers.BatchNormalization(), layers.Dense(2)]
    return keras.Sequential(parts)


def functional() -> keras.Model:
    x = keras.Input((6,))
    hidden = layers.BatchNormalization()(layers.Dense(10, activation="relu")(x))
    return keras.Model(x, layers.Dense(2, activation="sigmoid")(hidden))


def nested() -> keras.Model:
    x = keras.Input((6,))
    return keras.Model(x, layers.Dense(2)(stacked()(x) + functional()(x)))


class Pair(keras.Model):
    """Takes two inputs, as a container or as two arguments, and returns a container."""

    def __init__(self, parts: Callable[[Any], tuple[Any, Any]], result: Any = None) -> None:
        super().__init__()
        self.parts, self.result = parts, result
        self.left, self.right = layers.Dense(4), layers.Dense(4, use_bias=False)

    def call(self, *inputs: Any) -> Any:
        x, y = self.parts(inputs)
        x, y = self.left(x), self.right(y)
        both = x + y
        return both if self.result is None else self.result(both, x - y)


def pair_of(names: tuple[str, str]) -> Callable[[], keras.Model]:
    """Returns a functional model with two inputs that have names, and two outputs that have."""

    def make() -> keras.Model:
        x, y = (keras.Input((size,), name=name) for size, name in zip((6, 3), names, strict=True))
        both = layers.Concatenate()([layers.Dense(4)(x), layers.Dense(4)(y)])
        scores, value = layers.Dense(3, activation="softmax")(both), layers.Dense(1)(both)
        return keras.Model({names[0]: x, names[1]: y}, {"scores": scores, "value": value})

    return make


def shared() -> keras.Model:
    x, y = keras.Input((6,)), keras.Input((6,))
    encode = keras.Sequential([layers.Dense(5, activation="tanh"), layers.UnitNormalization()])
    return keras.Model([x, y], layers.Dot(axes=1)([encode(x), encode(y)]))


def bidirectional() -> keras.Model:
    x = keras.Input((4, 6))
    hidden = layers.Bidirectional(layers.LSTM(5, return_sequences=True), merge_mode="sum")(x)
    return keras.Model(x, layers.Bidirectional(layers.LSTM(5, return_sequences=True))(hidden))


def image(size: int | None) -> Callable[[], keras.Model]:
    def make() -> keras.Model:
        x = keras.Input((size, size, 3))
        hidden = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
        hidden = layers.MaxPooling2D()(hidden)
        return keras.Model(x, layers.Dense(5)(layers.GlobalAveragePooling2D()(hidden)))

    return make


def text_and_image() -> keras.Model:
    text, picture = keras.Input((None, 6), name="text"), keras.Input((None, None, 3), name="image")
    read = layers.GlobalAveragePooling1D()(layers.Dense(8, activation="relu")(text))
    seen = layers.GlobalAveragePooling2D()(layers.Conv2D(8, 1, activation="relu")(picture))
    both = layers.Concatenate()([read, seen])
    return keras.Model([text, picture], layers.Dense(5, activation="softmax")(both))


def tokens() -> keras.Model:
    x = keras.Input((None,), dtype="int32")
    hidden = layers.Embedding(20, 8, mask_zero=True)(x)
    hidden = layers.MultiHeadAttention(2, 4)(hidden, hidden) + hidden
    return keras.Model(x, layers.GlobalAveragePooling1D()(hidden))


class Window(keras.Model):
    """Uses `keras.ops` in place of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = self.add_weight(shape=(6,), initializer="ones", name="scale")

    def call(self, x: Any) -> Any:
        centered = (x - ops.mean(x, axis=0, keepdims=True)) * self.scale
        best = ops.top_k(centered, k=2)[0]
        return {"best": best, "sum": ops.einsum("bi,bj->bij", centered, best)}


class Scaled(layers.Layer):
    """A layer of the user, with a weight that is trained and one that is not."""

    def build(self, shape: tuple[int | None, ...]) -> None:
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", name="scale")
        self.shift = self.add_weight(
            shape=(shape[-1],), initializer="zeros", trainable=False, name="shift"
        )

    def call(self, x: Any) -> Any:
        return x * self.scale + self.shift


def with_own_layer() -> keras.Model:
    x = keras.Input((6,))
    return keras.Model(x, layers.Dense(2)(Scaled(name="scaled")(x)))


def preprocessing() -> keras.Model:
    """Scales, resizes and normalizes an image."""
    picture = keras.Input((None, None, 3), dtype="uint8")
    x = layers.Resizing(8, 8)(layers.Rescaling(1 / 127.5, offset=-1.0)(picture))
    x = layers.Normalization(mean=[0.1, 0.2, 0.3], variance=[1.0, 2.0, 4.0])(x)
    return keras.Model(picture, layers.Dense(4)(layers.Flatten()(layers.CenterCrop(6, 6)(x))))


def features() -> keras.Model:
    """Encodes a number and a category."""
    number, category = keras.Input((1,)), keras.Input((1,), dtype="int32")
    bucket = layers.Discretization(bin_boundaries=[-1.0, 0.0, 1.0], output_mode="one_hot")(number)
    kind = layers.CategoryEncoding(num_tokens=5, output_mode="one_hot")(category)
    return keras.Model([number, category], layers.Dense(2)(layers.Concatenate()([bucket, kind])))


def with_noise() -> keras.Model:
    """Contains layers that only do something while the model is trained."""
    parts = [layers.GaussianNoise(0.5), layers.Dense(6), layers.SpatialDropout1D(0.5)]
    parts += [layers.GaussianDropout(0.5), layers.ActivityRegularization(0.1), layers.Dropout(0.9)]
    return keras.Sequential([keras.Input((4, 6)), *parts])


def with_lora() -> keras.Model:
    adapted = functional()
    next(part for part in adapted.layers if isinstance(part, layers.Dense)).enable_lora(2)
    return adapted


def inner_outputs() -> keras.Model:
    """Returns what layers inside another model compute, as a feature extractor does."""
    whole = functional()
    return keras.Model(whole.input, [part.output for part in whole.layers[1:]])


X, Y = floats(2, 6), floats(2, 3, seed=5)
X_SPEC, Y_SPEC = ("B", 6), ("B", 3)
OTHER = {"x": floats(5, 6, seed=6), "y": floats(5, 3, seed=7)}


def bytes_of(*shape: int) -> np.ndarray:
    return np.random.default_rng(8).integers(0, 256, shape).astype(np.uint8)


def of_one(name: str, make: Callable[[], keras.Model], **options: Any) -> Program:
    return Program(name, model(make, X), specs=(X_SPEC,), others=((OTHER["x"],),), **options)


def of_two(name: str, make: Callable[[], keras.Model], joined: Callable[..., Any]) -> Program:
    """Returns a program whose arguments are made of two arrays."""
    inputs, other = joined(X, Y), joined(OTHER["x"], OTHER["y"])
    return Program(name, model(make, *inputs), specs=joined(X_SPEC, Y_SPEC), others=(other,))


FORMS = [
    of_one("form: `Sequential`, any batch", stacked, weights=("sequential/dense/kernel",)),
    of_one("form: functional, any batch", functional),
    of_one("form: subclass, any batch", Stack, weights=("stack/dense/kernel",)),
    of_one("form: nested models, any batch", nested),
    of_one("form: subclass with `keras.ops`, any batch", Window),
    of_one(
        "form: a layer alone, any batch", lambda: Scaled(name="scaled"), weights=("scaled/scale",)
    ),
    of_one("form: a layer of the user, any batch", with_own_layer),
    of_one("form: a layer with LoRA, any batch", with_lora),
    of_one("form: outputs of inner layers, any batch", inner_outputs),
    *(
        of_one(f"form: functional, opset {opset}", functional, options={"opset": opset})
        for opset in (16, 18, 21)
    ),
    of_one(
        "form: functional with chosen names",
        functional,
        options={"input_names": ["features"], "output_names": ["scores"]},
    ),
    of_two("form: a list", lambda: Pair(lambda args: args[0]), lambda x, y: ([x, y],)),
    of_two("form: a tuple", lambda: Pair(lambda args: args[0]), lambda x, y: ((x, y),)),
    of_two("form: two arguments", lambda: Pair(lambda args: args), lambda x, y: (x, y)),
    of_two(
        "form: a dictionary, to a tuple",
        lambda: Pair(lambda args: (args[0]["x"], args[0]["y"]), lambda *parts: parts),
        lambda x, y: ({"x": x, "y": y},),
    ),
    of_two(
        "form: a nested container, to a dictionary",
        lambda: Pair(
            lambda args: (args[0]["x"][0], args[0]["y"]),
            lambda a, b: {"sum": a, "all": [b, {"both": a * b}]},
        ),
        lambda x, y: ({"x": (x,), "y": y},),
    ),
    of_two(
        "form: functional with names",
        pair_of(("state", "action")),
        lambda x, y: ({"state": x, "action": y},),
    ),
    Program(
        "form: layers for training only, any batch",
        model(with_noise, floats(2, 4, 6)),
        specs=(("B", 4, 6),),
        others=((floats(5, 4, 6),),),
    ),
    Program(
        "form: preprocessing of an image of any size",
        model(preprocessing, bytes_of(2, 10, 12, 3)),
        specs=("u8[B,H,W,3]",),
        others=((bytes_of(1, 16, 9, 3),),),
    ),
    Program(
        "form: preprocessing of a number and a category, any batch",
        model(features, [floats(3, 1), ints(5, 3, 1)]),
        specs=(["f32[B,1]", "i32[B,1]"],),
        others=(([floats(7, 1), ints(5, 7, 1)],),),
    ),
    Program(
        "form: a shared encoder",
        model(shared, [X, X[::-1]]),
        specs=([X_SPEC, X_SPEC],),
        others=(([OTHER["x"], OTHER["x"] * 2],),),
    ),
    Program(
        "form: two bidirectional layers, any batch",
        model(bidirectional, floats(2, 4, 6)),
        specs=(("B", 4, 6),),
        others=((floats(1, 4, 6),), (floats(5, 4, 6),)),
    ),
    Program(
        "form: an image, any batch",
        model(image(16), floats(1, 16, 16, 3)),
        specs=(("B", 16, 16, 3),),
        others=((floats(4, 16, 16, 3),),),
    ),
    Program(
        "form: an image of any size",
        model(image(None), floats(1, 12, 16, 3)),
        specs=(("B", "H", "W", 3),),
        others=((floats(2, 15, 9, 3),), (floats(3, 2, 2, 3),)),
    ),
    Program(
        "form: text and an image of any size",
        model(text_and_image, [floats(1, 5, 6), floats(1, 8, 9, 3)]),
        specs=([("B", "T", 6), ("B", "H", "W", 3)],),
        others=(([floats(2, 1, 6), floats(2, 4, 3, 3)],),),
    ),
    Program(
        "form: a text of any length",
        model(tokens, ints(20, 2, 7)),
        specs=("i32[B,T]",),
        others=((ints(3, 1, 4),), (ints(20, 3, 12),)),
    ),
]
