"""Indices that are out of range.

Our models clip them, as XLA does: they fail when a tool took that for needless.
"""

from __future__ import annotations

import jax.numpy as jnp
import onnx
from jax import lax

from . import Failing, all_nodes, failure, floats, ints


def unclipped(model: onnx.ModelProto) -> None:
    """Lets every index pass."""
    for node in all_nodes(model.graph):
        if node.op_type == "Clip":
            node.op_type = "Identity"
            del node.input[1:]


@failure
def take_a_row() -> Failing:
    def fn(x, i):
        scaled = x * 2.0
        rows = scaled.at[i].get(mode="promise_in_bounds")  # <- fails
        return rows + 1.0

    return Failing(
        fn, [(5, 3), ints(0, 1)], {"x": floats(5, 3), "i": ints(1, 9)}, unclipped, form="both"
    )


@failure
def look_up_an_embedding() -> Failing:
    table = floats(6, 4)

    def embed(tokens):
        return jnp.asarray(table).at[tokens].get(mode="promise_in_bounds")  # <- fails

    def fn(tokens):
        hidden = embed(tokens)
        return jnp.tanh(hidden) @ table.T

    return Failing(fn, [ints(1, 2)], {"tokens": ints(3, 7)}, unclipped, has_map=True)


@failure
def write_a_row() -> Failing:
    def fn(x, i, row):
        base = jnp.cos(x)
        return base.at[i].set(row * 3.0, mode="promise_in_bounds")  # <- fails

    feeds = {"x": floats(4, 2), "i": ints(5), "row": floats(1, 2)}
    return Failing(fn, [(4, 2), ints(0), (1, 2)], feeds, unclipped)


@failure
def take_along_an_axis() -> Failing:
    def fn(x, i):
        negative = -x
        best = jnp.take_along_axis(negative, i, axis=1, mode="promise_in_bounds")  # <- fails
        return best * 0.5

    feeds = {"x": floats(2, 3), "i": ints(1, 8).reshape(2, 1)}
    return Failing(fn, [(2, 3), ints(0, 0).reshape(2, 1)], feeds, unclipped, form="log")


@failure
def pairs_of_indices() -> Failing:
    def fn(x, i, j):
        x = x + 4.0
        picked = x.at[i, j].get(mode="promise_in_bounds")  # <- fails
        return jnp.exp(picked)

    feeds = {"x": floats(3, 3), "i": ints(0, 2), "j": ints(1, 6)}
    return Failing(
        fn, [(3, 3), ints(0, 0), ints(0, 0)], feeds, unclipped, has_map=True, form="wrapped"
    )


@failure
def add_at_an_index() -> Failing:
    def fn(x, i):
        total = jnp.zeros((4,)).at[i].add(x, mode="promise_in_bounds")  # <- fails
        return total / 2.0

    return Failing(fn, [(2,), ints(0, 1)], {"x": floats(2), "i": ints(1, 11)}, unclipped)


@failure
def largest_of_too_few() -> Failing:
    def fn(x, y):
        shifted = x - y.sum()
        values, _ = lax.top_k(shifted, 4)  # <- fails
        return values * 2.0

    return Failing(fn, [("N + 4",), ("N",)], {"x": floats(2), "y": floats(2)}, form="both")
