"""Compare the operations that `jax2onnx.cost` counts with those that XLA counts.

    python benches/cost.py [NAME ...]

XLA counts them before and after it optimizes a program, and counts the body of a loop once, so
that the programs have no loops. Neither XLA nor jax2onnx counts transcendental functions as
floating-point operations. XLA does not tell integers from floating-point numbers, so the column
`with integers` is compared too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from networks import NETWORKS

import jax2onnx
from testkit.models import networks
from testkit.models.counted import PROGRAMS

#: Networks of the tests without loops.
SMALL = (
    "nnx vit block",
    "nnx causal block",
    "nnx resnet block",
    "linen unet",
    "linen diffusion unet",
    "nnx diffusion unet",
    "equinox diffusion unet",
    "equinox mlp",
    "haiku convolutional",
    "gpt step with cache",
    "mixture of experts",
    "einops patches",
)


def programs() -> Iterator[tuple[str, Callable[..., Any], tuple[np.ndarray, ...]]]:
    chosen = sys.argv[1:]
    for name, build in PROGRAMS.items():
        if not chosen or name in chosen:
            yield name, *build()
    for name in SMALL:
        if not chosen or name in chosen:
            yield name, *networks.NETWORKS[name]()
    for name, network in NETWORKS.items():
        if network.feed_forward and (not chosen or name in chosen):
            yield name, network.build(), tuple(network.inputs())


def xla(stage: Any) -> float:
    found = stage.cost_analysis()
    found = found[0] if isinstance(found, list) else found
    return float(found.get("flops", 0))


def main() -> None:
    print(f"{'program':28} {'jax2onnx':>14} {'with integers':>14} {'XLA':>14} {'optimized':>14}")
    for name, function, operands in programs():
        specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands]
        # XLA does not guard a maximum against NaN.
        model = jax2onnx.to_onnx(function, specs, nan="ignore")
        total = jax2onnx.cost(model).total
        assert total.flops is not None
        assert total.operations is not None
        lowered = jax.jit(function).lower(*specs)
        written, optimized = xla(lowered), xla(lowered.compile())
        both = total.flops + total.operations
        off = min(abs(a / b - 1) for a in (total.flops, both) for b in (written, optimized))
        print(
            f"{name:28} {total.flops:14,} {both:14,} {written:14,.0f} {optimized:14,.0f} "
            f"{100 * off:6.2f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
