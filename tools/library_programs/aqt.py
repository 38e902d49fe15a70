"""Layers of flax whose products AQT quantizes."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
from aqt.jax.v2 import config
from aqt.jax.v2.flax import aqt_flax

from .program import Program, floats


class Mlp(nn.Module):
    rounding: Any

    @nn.compact
    def __call__(self, x: Any) -> Any:
        for size in (96, 8):
            product = aqt_flax.AqtDotGeneral(self.rounding)
            x = nn.Dense(size, dot_general=product)(nn.relu(x))
        return x


def training(rounding: Any) -> Any:
    def build() -> Any:
        x = floats(4, 64)
        module = Mlp(rounding())
        state = module.init(jax.random.key(0), x)
        return lambda x: module.apply(state, x, rngs={"params": jax.random.key(1)}), (x,)

    return build


PROGRAMS = [
    Program("dense layers that round to 8 bits", training(config.config_v4)),
    Program("dense layers that round to 4 bits", training(lambda: config.config_v4(fwd_bits=4))),
    Program("dense layers with the third configuration", training(config.config_v3)),
]
