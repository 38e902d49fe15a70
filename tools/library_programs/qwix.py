"""Networks that Qwix quantizes: after the training, and with rounding in the training."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import qwix

from .program import Program, floats, ints


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(8)(nn.relu(nn.Dense(96)(x)))


class Images(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.relu(nn.Conv(16, (3, 3))(x))
        x = nn.Conv(8, (3, 3), strides=2)(x)
        return nn.Dense(5)(x.reshape(x.shape[0], -1))


class Text(nn.Module):
    @nn.compact
    def __call__(self, ids: Any) -> Any:
        x = nn.Embed(32, 64)(ids)
        x = x + nn.SelfAttention(4)(nn.LayerNorm()(x))
        x = x + nn.Dense(64)(nn.gelu(nn.Dense(128)(x)))
        return nn.Dense(32)(x)


def after_training(module: nn.Module, *inputs: Any, **types: Any) -> Any:
    """Returns a function that builds a network whose weights were quantized."""

    def build() -> Any:
        rules = [qwix.QuantizationRule(module_path=".*", **types)]
        short = qwix.quantize_model(module, qwix.PtqProvider(rules))
        key = jax.random.key(0)
        wanted = jax.eval_shape(short.init, key, *inputs)["params"]
        params = qwix.quantize_params(module.init(key, *inputs)["params"], wanted)
        return lambda *inputs: short.apply({"params": params}, *inputs), inputs

    return build


def in_training(module: nn.Module, *inputs: Any, **types: Any) -> Any:
    """Returns a function that builds a network that rounds its weights in each call."""

    def build() -> Any:
        rules = [qwix.QtRule(module_path=".*", **types)]
        rounding = qwix.quantize_model(module, qwix.QtProvider(rules))
        state = rounding.init(jax.random.key(0), *inputs)
        return lambda *inputs: rounding.apply(state, *inputs), inputs

    return build


BYTES = {"weight_qtype": "int8", "act_qtype": "int8"}
ROWS, IMAGES, IDS = floats(4, 64), floats(2, 8, 8, 3), ints(32, 2, 6)
PROGRAMS = [
    Program(
        "dense layers with weights of `int8`", after_training(Mlp(), ROWS, weight_qtype="int8")
    ),
    Program(
        "dense layers with weights of `int4`", after_training(Mlp(), ROWS, weight_qtype="int4")
    ),
    Program(
        "dense layers with blocks of `int4`",
        after_training(Mlp(), ROWS, weight_qtype="int4", tile_size=32),
    ),
    Program("dense layers with weights of `nf4`", after_training(Mlp(), ROWS, weight_qtype="nf4")),
    Program(
        "dense layers with weights of `float8_e4m3fn`",
        after_training(Mlp(), ROWS, weight_qtype="float8_e4m3fn"),
    ),
    Program("dense layers that multiply `int8`", after_training(Mlp(), ROWS, **BYTES)),
    Program("convolutions that multiply `int8`", after_training(Images(), IMAGES, **BYTES)),
    Program(
        "a transformer with weights of `int8`", after_training(Text(), IDS, weight_qtype="int8")
    ),
    Program(
        "a transformer with weights of `int4`", after_training(Text(), IDS, weight_qtype="int4")
    ),
    Program("dense layers that round in the training", in_training(Mlp(), ROWS, **BYTES)),
    Program("convolutions that round in the training", in_training(Images(), IMAGES, **BYTES)),
]
