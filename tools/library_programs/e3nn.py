"""Equivariant operations of e3nn-jax."""

from __future__ import annotations

from typing import Any

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp
from flax import linen

from .program import Program, floats

POINTS = floats(5, 3)


def harmonics() -> Any:
    return (lambda x: e3nn.spherical_harmonics("0e + 1o + 2e", x, True).array), (POINTS,)


def product() -> Any:
    def fn(x: Any, y: Any) -> Any:
        left, right = e3nn.IrrepsArray("2x0e + 1o", x), e3nn.IrrepsArray("0e + 1o", y)
        return e3nn.tensor_product(left, right).array

    return fn, (floats(4, 5), floats(4, 4, seed=1))


def rotation() -> Any:
    return (lambda a, b, c: e3nn.Irreps("1o + 2e").D_from_angles(a, b, c)), (0.3, 0.7, -0.2)


def gate() -> Any:
    return (lambda x: e3nn.gate(e3nn.IrrepsArray("3x0e + 2x1o", x)).array), (floats(4, 9),)


def basis() -> Any:
    def fn(x: Any) -> Any:
        return e3nn.bessel(jnp.linalg.norm(x, axis=-1), 6, 2.0), e3nn.soft_envelope(
            jnp.linalg.norm(x, axis=-1), 2.0
        )

    return fn, (POINTS,)


class Layer(linen.Module):
    """A message from each point to the next, as in e3nn's examples."""

    @linen.compact
    def __call__(self, x: Any) -> Any:
        shape = e3nn.spherical_harmonics("1x0e + 1x1o + 1x2e", jnp.roll(x, 1, 0) - x, True)
        features = e3nn.flax.Linear("8x0e + 4x1o")(shape)
        products = e3nn.tensor_product(features, shape).filter(keep=("0e", "1o"))
        return e3nn.flax.Linear("4x0e + 1o")(products).array


def network() -> Any:
    variables = Layer().init(jax.random.key(0), POINTS)
    return (lambda x: Layer().apply(variables, x)), (POINTS,)


PROGRAMS = [
    Program("`spherical_harmonics`", harmonics),
    Program("`tensor_product`", product),
    Program("`Irreps.D_from_angles`", rotation),
    Program("`gate`", gate),
    Program("`bessel` and `soft_envelope`", basis),
    Program("a message passing layer", network),
]
