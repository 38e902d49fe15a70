"""`jax.lax.associative_scan` becomes few nodes, with the numbers of JAX."""

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

SPECIAL = [0.0, 1.5, 1e-40, 1e30, np.nan, np.inf, -np.inf]
POLES = np.exp(1j * np.linspace(0.1, 2.0, 3)).astype(np.complex64) * np.float32(0.9)


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def after(left: Any, right: Any) -> Any:
    """The composition of two updates `h = a * h + b`."""
    return left[0] * right[0], right[0] * left[1] + right[1]


def decayed(a: jax.Array, x: jax.Array) -> Any:
    return lax.associative_scan(after, (a, x))


def decayed_backwards(a: jax.Array, x: jax.Array) -> Any:
    return lax.associative_scan(after, (a, x), reverse=True)[1]


def fixed(a: jax.Array, x: jax.Array) -> Any:
    return lax.associative_scan(after, (jnp.broadcast_to(a[0], x.shape), x))[1]


def oscillating(x: jax.Array) -> Any:
    """A diagonal state space with complex poles, as in S5 and the linear recurrent unit."""
    decays = POLES * jnp.ones(x.shape, jnp.complex64)
    return lax.associative_scan(after, (decays, x.astype(jnp.complex64)))[1].real


def matrices(x: jax.Array) -> Any:
    return lax.associative_scan(lambda a, b: b @ a, x.reshape(-1, 2, 2))


def along(fn: Any, axis: int, reverse: bool = False) -> Callable[..., Any]:
    return lambda x: lax.associative_scan(fn, x, axis=axis, reverse=reverse)


def nodes(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def check(fn: Callable[..., Any], *inputs: np.ndarray, **options: Any) -> onnx.ModelProto:
    model = bench.check(fn, inputs, rtol=2e-5, atol=2e-5, **options)
    assert "Pad" not in nodes(model)
    return model


@pytest.mark.parametrize("steps", [2, 3, 5, 8, 13])
def test_every_length_has_the_numbers_of_jax(steps: int) -> None:
    a, x = 0.5 * draw(steps, 3), draw(steps, 3, seed=1)
    check(decayed, a, x)
    check(decayed_backwards, a, x)
    check(fixed, a, x)
    check(oscillating, x)


@pytest.mark.parametrize("special", SPECIAL)
def test_special_decays_and_numbers_give_the_same_results(special: float) -> None:
    a, x = 0.5 * draw(13, 3), draw(13, 3, seed=1)
    decays, numbers = a.copy(), x.copy()
    decays[7:9, 0], decays[0, 1], numbers[5, :2], numbers[0, 2] = special, special, special, special
    for each in ((decays, x), (a, numbers), (decays, numbers)):
        check(decayed, *each)
        check(fixed, *each)
    check(fixed, np.full_like(a, special), x)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_every_axis_and_operator_has_the_numbers_of_jax(axis: int) -> None:
    x = draw(5, 6, 7)
    for fn in (jnp.add, jnp.logaddexp):
        check(along(fn, axis), x)
    check(along(jnp.minimum, axis, reverse=True), (10 * x).astype(np.int32))
    check(along(jnp.logical_or, axis), x > 1.5)
    check(along(jnp.bitwise_xor, axis), (10 * x).astype(np.int8))


def test_matrices_and_batches_of_any_size() -> None:
    check(matrices, draw(11, 4))
    for steps in (6, 7):
        x = draw(2, steps, 3)
        check(along(jnp.add, 1), x)
        model = bench.convert(along(jnp.maximum, 1), [("B", steps, 3)])
        assert "Pad" not in nodes(model)
        (found,) = bench.run(model, [x])
        np.testing.assert_array_equal(found, np.maximum.accumulate(x, 1))


@pytest.mark.slow
def test_a_scan_has_few_nodes() -> None:
    x, a = draw(256, 8), draw(256, 8)
    assert len(nodes(check(along(jnp.add, 0), x))) <= 74
    assert len(nodes(check(fixed, 0.1 * a, x))) <= 97
    assert len(nodes(check(oscillating, x[:, :3]))) <= 223


def test_powers_of_fixed_decays_are_computed_once_and_not_for_each_step() -> None:
    model = check(fixed, 0.1 * draw(64, 3), draw(64, 3))
    assert "Expand" not in nodes(model)


def test_the_sign_of_zero_is_kept() -> None:
    x = np.array([[-0.0, 0.0], [-0.0, -0.0], [-0.0, 1.0], [-0.0, 0.0]], np.float32)
    bench.check(lambda x: 1 / lax.associative_scan(jnp.add, x), [x])


def test_each_node_has_the_line_of_the_scan() -> None:
    model = bench.convert(along(jnp.add, 0), [draw(9, 2)], provenance="minimal")
    for node in model.graph.node:
        about = {entry.key.rpartition(".")[2]: entry.value for entry in node.metadata_props}
        assert about["callsite"].startswith("along.<locals>.<lambda>:")
