"""What layers are called on, and what is the same in all libraries."""

from __future__ import annotations

from typing import Any

from .layer import booleans as booleans
from .layer import floats as floats
from .layer import ints as ints

ROWS = floats("B", 16)
TOKENS = floats("B", 8, 16)
MEMORY = floats("B", 6, 16)
TIME_MAJOR = floats(8, "B", 16)
IMAGE = floats("B", 8, 8, 16)
ONE_IMAGE = floats(1, 8, 8, 16)
CHANNELS_FIRST = floats("B", 16, 8, 8)
SEQUENCE_FIRST = floats("B", 16, 8)
VOLUME = floats("B", 4, 4, 4, 16)
VOLUME_FIRST = floats("B", 16, 4, 4, 4)
HEADS = floats("B", 8, 4, 16)
INDICES = ints(20, "B", 7)

BATCH_NORM = "a scale and a shift, which are folded into the weights of a neighboring layer"
MASKED_MEAN = "ONNX has no masked norm"
NO_OPERATOR = "ONNX has no such operator"
SLOW_RNN = "ONNX Runtime's `RNN` takes up to three times as long as the scan"
PRODUCTS = "two matrix products take less time than ONNX Runtime's `Resize`"
COMPUTED_WEIGHTS = "ONNX Runtime computes the weights when it loads the model"

#: The functions of `jax.nn` that all libraries share, with what they become.
ACTIVATIONS: dict[str, dict[str, Any]] = {
    "relu": {"to": "Relu"},
    "relu6": {"to": "Clip"},
    "gelu": {"to": "Gelu"},
    "silu": {"to": "Sigmoid"},
    "elu": {"to": "Elu"},
    "celu": {"to": "Elu"},
    "selu": {"to": "Selu"},
    "leaky_relu": {"to": "LeakyRelu"},
    "hard_sigmoid": {"to": "HardSigmoid"},
    "hard_silu": {"to": "HardSwish"},
    "hard_tanh": {"to": "Clip"},
    "sigmoid": {"to": "Sigmoid"},
    "tanh": {"to": "Tanh"},
    "softplus": {"to": "Softplus"},
    "soft_sign": {"to": "Softsign"},
    "softmax": {"to": "Softmax"},
    "log_softmax": {"to": "LogSoftmax"},
    "log_sigmoid": {"to": "Softplus"},
    "glu": {"to": "Sigmoid"},
    "standardize": {"to": "LayerNormalization"},
}

RESIZES: list[tuple[Any, str, str, dict[str, Any]]] = [
    (IMAGE, "(*x.shape[:1], 16, 16, 16)", "nearest", {"to": "Resize"}),
    (IMAGE, "(*x.shape[:1], 16, 16, 16)", "bilinear", {"to": None, "because": PRODUCTS}),
    (IMAGE, "(*x.shape[:1], 16, 16, 16)", "bicubic", {"to": None, "because": PRODUCTS}),
    (IMAGE, "(*x.shape[:1], 4, 4, 16)", "bilinear", {"to": None, "because": PRODUCTS}),
    (CHANNELS_FIRST, "(*x.shape[:2], 16, 16)", "nearest", {"to": "Resize"}),
    (CHANNELS_FIRST, "(*x.shape[:2], 16, 16)", "bilinear", {"to": None, "because": PRODUCTS}),
]
