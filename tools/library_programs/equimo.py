"""Vision models of equimo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from equimo.models import VisionTransformer, convnext, mobilenet, vit

from .program import Program, floats

KEY = jax.random.PRNGKey(0)


def small() -> VisionTransformer:
    return VisionTransformer(
        img_size=32,
        in_channels=3,
        dim=32,
        patch_size=8,
        num_heads=[2],
        depths=[2],
        num_classes=5,
        key=KEY,
    )


def network(make: Callable[[], Any], size: int = 64) -> Any:
    def build() -> Any:
        model = eqx.nn.inference_mode(make())
        fn = lambda image: model(image, key=KEY, inference=True)  # noqa: E731
        return fn, (floats(3, size, size),)

    return build


PROGRAMS = [
    Program("`VisionTransformer`", network(small, 32), weights=("patch_embed.proj.weight",)),
    Program(
        "`vit_tiny_patch32_224`", network(lambda: vit.vit_tiny_patch32_224(key=KEY, img_size=64))
    ),
    Program(
        "`dinov2_vits14_reg`, one block",
        network(lambda: vit.dinov2_vits14_reg(key=KEY, img_size=56, depths=[1]), 56),
    ),
    Program("`mobilenetv3_small`", network(lambda: mobilenet.mobilenetv3_small(key=KEY)), 1e-4),
    Program("`convnext_t`", network(lambda: convnext.convnext_t(key=KEY)), 1e-4),
]
