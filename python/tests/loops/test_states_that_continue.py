"""Functions that take a state and return the next one: step by step, in parts and in one go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax

from testkit import bench

TARGET, OLDER = "onnxruntime>=1.31", "onnxruntime>=1.30"
STEPS, CHANNELS, KERNEL, HEADS, SIZE = 40, 8, 4, 2, 4
SPECIAL = [np.nan, np.inf, -np.inf, -1e30, 1e-40]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


W, B = draw(KERNEL, 1, CHANNELS), draw(CHANNELS, seed=1)
NWC = ("NWC", "WIO", "NWC")


def last_channels(state: jax.Array, x: jax.Array) -> Any:
    """A convolution and SiLU, as in Mamba and gated DeltaNet."""
    both = jnp.concatenate([state, x], 1)
    y = lax.conv_general_dilated(
        both, W, (1,), "VALID", feature_group_count=CHANNELS, dimension_numbers=NWC
    )
    return jax.nn.silu(y + B), both[:, x.shape[1] :]


def first_channels(state: jax.Array, x: jax.Array) -> Any:
    """A convolution without an activation."""
    state, x = jnp.swapaxes(state, 1, 2), jnp.swapaxes(x, 1, 2)
    both = jnp.concatenate([state, x], 2)
    w = W.transpose(2, 1, 0)
    y = lax.conv_general_dilated(both, w, (1,), "VALID", feature_group_count=CHANNELS)
    return jnp.swapaxes(y, 1, 2), jnp.swapaxes(both[:, :, -(KERNEL - 1) :], 1, 2)


def layer(state: Any, x: jax.Array) -> Any:
    """Linear attention with a decay for each head, after a convolution."""
    convolved, matrix = state
    y, convolved = last_channels(convolved, x)
    parts = y.reshape(*y.shape[:2], HEADS, SIZE)

    def step(matrix: jax.Array, x: jax.Array) -> Any:
        decay = jax.nn.sigmoid(x[..., :1] + 2)
        matrix = decay[..., None] * matrix + x[..., :, None] * x[..., None, :]
        return matrix, jnp.einsum("bhd,bhde->bhe", x, matrix)

    matrix, ys = lax.scan(step, matrix, jnp.moveaxis(parts, 1, 0))
    return jnp.moveaxis(ys, 0, 1), (convolved, matrix)


X = draw(2, STEPS, CHANNELS, seed=2)
PAST = draw(2, KERNEL - 1, CHANNELS, seed=3)
MATRIX = draw(2, HEADS, SIZE, SIZE, seed=4)
CONVOLUTIONS = [last_channels, first_channels]


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("steps", [1, 2, 3, STEPS])
@pytest.mark.parametrize("fn", CONVOLUTIONS)
def test_a_convolution_over_a_state_is_one_operator(fn: Callable[..., Any], steps: int) -> None:
    inputs = (PAST, X[:, :steps])
    model = bench.convert(fn, inputs, target=[TARGET])
    assert "CausalConvWithState" in operators(model)
    assert not {"Conv", "Concat", "Slice"} & set(operators(model))
    # A bias is not folded past the reshape of a single entry.
    assert steps == 1 or "Sigmoid" not in operators(model)
    for found, want in zip(bench.run(model, inputs), bench.expected(fn, inputs), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=2e-6)
    assert "Conv" in operators(bench.convert(fn, inputs, target=[OLDER]))


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("fn", CONVOLUTIONS)
def test_a_convolution_over_special_numbers_is_exact(
    fn: Callable[..., Any], special: float
) -> None:
    past, x = PAST.copy(), X.copy()
    past[0, 1, 2], x[1, 20, 3] = special, special
    model = bench.convert(fn, (past, x), target=[TARGET])
    found, want = bench.run(model, (past, x)), bench.expected(fn, (past, x))
    for each, other in zip(found, want, strict=True):
        np.testing.assert_allclose(each, other, rtol=1e-5, atol=2e-6)


def test_a_convolution_of_symbolic_length_is_one_operator() -> None:
    model = bench.convert(
        last_channels, [(2, KERNEL - 1, CHANNELS), (2, "T", CHANNELS)], target=[TARGET]
    )
    assert "CausalConvWithState" in operators(model)
    for steps in (0, 1, 2, STEPS):
        inputs = (PAST, X[:, :steps])
        for found, want in zip(
            bench.run(model, inputs), bench.expected(last_channels, inputs), strict=True
        ):
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("target", [OLDER, TARGET])
def test_a_layer_step_by_step_has_the_numbers_of_one_go(target: str) -> None:
    start = (PAST, MATRIX)
    whole = bench.convert(layer, (start, X), target=[target])
    one = bench.convert(layer, (start, X[:, :1]), target=[target])
    part = bench.convert(layer, (start, X[:, : STEPS - 5]), target=[target])
    want, *last = bench.run(whole, (PAST, MATRIX, X))
    state: list[np.ndarray] = [PAST, MATRIX]
    found = []
    for model, size in [(part, STEPS - 5), *[(one, 1)] * 5]:
        at = sum(y.shape[1] for y in found)
        y, *state = bench.run(model, (*state, X[:, at : at + size]))
        found.append(y)
    np.testing.assert_allclose(np.concatenate(found, 1), want, rtol=1e-5, atol=1e-5)
    for each, other in zip(state, last, strict=True):
        np.testing.assert_allclose(each, other, rtol=1e-5, atol=1e-5)
