"""Rotary embeddings as libraries and users spell them: the operators, and the numbers of JAX."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from testkit import bench

from .test_idioms_products import Fn, array, check

X = array(2, 5, 4, 8)
ANGLES = (np.arange(5)[:, None] / 100 ** (np.arange(4) / 4)).astype(np.float32)
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)
FUSED = ["Reshape", "RotaryEmbedding", "Reshape"]
#: The tables, repeated for each batch.
REPEATED = ["Shape", "Concat", "Expand", "Expand", "RotaryEmbedding"]


def by_halves(x: Any, cos: Any, sin: Any) -> Any:
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def by_slices(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x[..., :4], x[..., 4:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def by_pairs(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x[..., ::2], x[..., 1::2]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)


def by_an_axis_of_pairs(x: Any, cos: Any, sin: Any) -> Any:
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    a, b = pairs[..., 0], pairs[..., 1]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)


def by_swapped_halves(x: Any, cos: Any, sin: Any) -> Any:
    cos, sin = jnp.concatenate([cos, cos], -1), jnp.tile(sin, 2)
    return x * cos + jnp.concatenate([-x[..., 4:], x[..., :4]], -1) * sin


def by_swapped_pairs(x: Any, cos: Any, sin: Any) -> Any:
    turned = jnp.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
    return turned * jnp.repeat(sin, 2, -1) + x * jnp.repeat(cos, 2, -1)


SPELLINGS = [
    by_halves,
    by_slices,
    by_pairs,
    by_an_axis_of_pairs,
    by_swapped_halves,
    by_swapped_pairs,
]


@pytest.mark.parametrize("fn", SPELLINGS)
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("by_head", [False, True])
def test_pairs_that_are_turned_are_one_node(fn: Fn, batch: int, by_head: bool) -> None:
    x = X[:batch]
    if by_head:
        found = check(lambda x: fn(x, COS, SIN), (x.swapaxes(1, 2),))
    else:
        found = check(lambda x: fn(x, COS[:, None], SIN[:, None]), (x,))
    assert [op for op in found if op != "Reshape"] == ["RotaryEmbedding"]


@pytest.mark.parametrize("fn", SPELLINGS)
def test_a_turn_of_any_batch(fn: Fn) -> None:
    table = COS[:, None], SIN[:, None]
    joined = check(lambda x: fn(x, *table), (X,), [("B", 5, 4, 8)])
    assert [op for op in joined if op != "Reshape"] == REPEATED
    apart = check(lambda x: fn(x, COS, SIN), (X.swapaxes(1, 2),), [("B", 4, 5, 8)])
    assert [op for op in apart if op != "Reshape"] == REPEATED


@pytest.mark.parametrize("fn", SPELLINGS)
def test_a_turn_of_any_batch_and_length(fn: Fn) -> None:
    def turn(x: Any) -> Any:
        angles = jnp.arange(x.shape[1])[:, None, None] * ANGLES[1]
        return fn(x, jnp.cos(angles), jnp.sin(angles))

    found = check(turn, (X,), [("B", "T", 4, 8)])
    assert found.count("RotaryEmbedding") == 1
    assert "Neg" not in found
    assert "Sub" not in found


@pytest.mark.parametrize("fn", [by_halves, by_pairs])
def test_positions_of_each_batch(fn: Fn) -> None:
    def turn(x: Any, positions: Any) -> Any:
        angles = (positions[..., None] * ANGLES[1])[:, :, None]
        return fn(x, jnp.cos(angles), jnp.sin(angles))

    positions = np.arange(10, dtype=np.float32).reshape(2, 5)
    assert "RotaryEmbedding" in check(turn, (X, positions))
    specs = [("B", "T", 4, 8), ("B", "T")]
    assert "RotaryEmbedding" in check(turn, (X, positions), specs)


@pytest.mark.parametrize("fn", [by_swapped_halves, by_swapped_pairs])
def test_tables_that_are_computed_are_read_once(fn: Fn) -> None:
    def turn(x: Any) -> Any:
        angles = ANGLES[None, :, None, :] * x[:1, :1, :1, :1]
        return fn(x, jnp.cos(angles), jnp.sin(angles))

    found = check(turn, (X[:1],))
    assert "RotaryEmbedding" in found
    assert "Tile" not in found


@pytest.mark.parametrize("fn", SPELLINGS)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_nan_and_infinities_are_as_in_jax(fn: Fn, special: float) -> None:
    x, cos, sin = X.copy(), COS.copy(), SIN.copy()
    x[0, 1, 2, 3] = cos[2, 1] = sin[3, 2] = special
    assert check(lambda x: fn(x, cos[:, None], sin[:, None]), (x,)) == FUSED


@pytest.mark.parametrize("axes", [0, 1, 2])
def test_the_embedding_of_equinox(axes: int) -> None:
    turn = eqx.nn.RotaryPositionalEmbedding(8)
    fn: Fn = turn
    if axes > 0:
        fn = jax.vmap(fn, in_axes=1, out_axes=1)
    if axes > 1:
        fn = jax.vmap(fn)
    assert check(fn, ([X[0, :, 0], X[0], X][axes],)) == FUSED


def test_tables_whose_halves_differ_are_not_fused() -> None:
    angles = array(5, 1, 8)

    def turn(x: Any) -> Any:
        a, b = jnp.split(x, 2, axis=-1)
        return x * np.cos(angles) + jnp.concatenate([-b, a], -1) * np.sin(angles)

    assert "RotaryEmbedding" not in check(turn, (X[:1],))


def test_tables_of_halves_do_not_turn_pairs() -> None:
    cos, sin = (np.concatenate([table, table], -1)[:, None] for table in (COS, SIN))

    def turn(x: Any) -> Any:
        turned = jnp.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
        return x * cos + turned * sin

    assert "RotaryEmbedding" not in check(turn, (X,))


def test_tables_for_each_head_are_not_fused() -> None:
    cos, sin = array(5, 4, 4), array(5, 4, 4, seed=1)
    assert "RotaryEmbedding" not in check(lambda x: by_halves(x, cos, sin), (X[:1],))


def test_pairs_that_are_put_together_as_halves_are_not_fused() -> None:
    def turn(x: Any) -> Any:
        a, b = x[..., ::2], x[..., 1::2]
        return jnp.concatenate([a * COS - b * SIN, a * SIN + b * COS], -1)

    assert "RotaryEmbedding" not in check(turn, (X[0, :, 0],))


def test_a_turn_the_other_way_is_not_fused() -> None:
    def turn(x: Any) -> Any:
        return x * np.tile(COS, 2) + jnp.concatenate([x[..., 4:], -x[..., :4]], -1) * np.tile(
            SIN, 2
        )

    assert "RotaryEmbedding" not in check(turn, (X[0, :, 0],))


def check_parts(fn: Fn, x: np.ndarray) -> list[str]:
    """The operators where the opset has none for a turn, with the numbers compared."""
    model = bench.convert(fn, (x,), opset=21)
    ((found,), (want,)) = bench.run(model, (x,)), bench.expected(fn, (x,))
    bench.assert_same(found, want, rtol=1e-6, atol=1e-6)
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("axes", [0, 1])
def test_below_opset_23_there_is_a_formula(axes: int) -> None:
    turn = eqx.nn.RotaryPositionalEmbedding(8)
    fn: Fn = jax.vmap(turn, in_axes=1, out_axes=1) if axes else turn
    x = X[0].copy() if axes else X[0, :, 0].copy()
    x[0, ..., 1], x[1, ..., 5], x[2, ..., 2] = np.nan, np.inf, -0.0
    assert "RotaryEmbedding" not in check_parts(fn, x)
