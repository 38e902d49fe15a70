"""Failures inside loops, branches and functions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jax2onnx import onnx_function

from . import Failing, failure, floats, ints, scalar
from .indices import unclipped


@failure
def in_a_scan() -> Failing:
    def fn(x, table):
        def step(carry, row):
            mixed = carry * 0.5
            return mixed + row, mixed.sum()  # <- fails

        last, sums = lax.scan(step, table, x)
        return last + sums.sum()

    return Failing(fn, [(3, "N"), ("N",)], {"x": floats(3, 4), "table": floats(5)}, form="both")


@failure
def index_in_a_scan() -> Failing:
    def fn(table, order):
        def step(carry, i):
            row = table.at[i].get(mode="promise_in_bounds")  # <- fails
            return carry + row, carry * 2.0

        return lax.scan(step, jnp.zeros((2,)), order)

    feeds = {"table": floats(4, 2), "order": ints(0, 3, 9)}
    return Failing(fn, [(4, 2), ints(0, 0, 0)], feeds, unclipped, has_map=True)


@failure
def in_a_while_loop() -> Failing:
    def fn(x, y, n):
        def body(state):
            i, acc = state
            grown = acc * 1.5
            return i + 1, grown + y  # <- fails

        return lax.while_loop(lambda state: state[0] < n, body, (0, jnp.abs(x)))[1]

    feeds = {"x": floats(3), "y": floats(4), "n": scalar(2)}
    return Failing(fn, [("N",), ("N",), scalar(0)], feeds, form="both")


@failure
def in_a_fori_loop() -> Failing:
    def fn(table, x):
        def body(i, state):
            at, acc = state
            row = table.at[at].get(mode="promise_in_bounds")  # <- fails
            return at * 2 + 1, acc + jnp.sin(row)

        return lax.fori_loop(0, 40, body, (0, x))[1]

    return Failing(
        fn, [(5, 2), (2,)], {"table": floats(5, 2), "x": floats(2)}, unclipped, form="log"
    )


@failure
def in_a_branch() -> Failing:
    def fn(flag, x, y):
        def left(x, y):
            return jnp.tanh(x) * y  # <- fails

        def right(x, y):
            return x - 1.0

        return lax.cond(flag > 0, left, right, x, y) + 3.0

    feeds = {"flag": scalar(1), "x": floats(3), "y": floats(4)}
    return Failing(fn, [scalar(1), ("N",), ("N",)], feeds, form="both")


@failure
def in_a_branch_of_a_scan() -> Failing:
    def fn(flags, x, y):
        def step(carry, flag):
            heavy = lambda c: jnp.exp(c) + y  # <- fails
            light = lambda c: c * 2.0
            return lax.cond(flag > 0, heavy, light, carry), flag

        return lax.scan(step, x, flags)[0]

    feeds = {"flags": ints(0, 1), "x": floats(3), "y": floats(4)}
    return Failing(fn, [ints(0, 1), ("N",), ("N",)], feeds, has_map=True, form="wrapped")


@failure
def in_one_of_three_branches() -> Failing:
    def fn(which, x, y):
        branches = [
            lambda x, y: x * 2.0,
            lambda x, y: jnp.cos(x) - y,  # <- fails
            lambda x, y: x + 1.0,
        ]
        return lax.switch(which, branches, x, y)

    feeds = {"which": scalar(1), "x": floats(3), "y": floats(4)}
    return Failing(fn, [scalar(1), ("N",), ("N",)], feeds)


@failure
def in_a_function() -> Failing:
    @onnx_function
    def gate(x, y):
        opened = jax.nn.sigmoid(x)
        return opened * y  # <- fails

    def fn(x, y, z):
        first = gate(x, y)
        return gate(first, z)

    feeds = {"x": floats(3), "y": floats(3), "z": floats(4)}
    return Failing(fn, [("N",), ("N",), ("N",)], feeds, form="both")


@failure
def in_a_nested_function() -> Failing:
    @onnx_function
    def inner(x, y):
        return jnp.sin(x) @ y  # <- fails

    @onnx_function
    def outer(x, y):
        return inner(x * 2.0, y) + 1.0

    def fn(x, y):
        return jnp.tanh(outer(x, y))

    feeds = {"x": floats(2, 3), "y": floats(4, 2)}
    return Failing(fn, [(2, "N"), ("N", 2)], feeds, has_map=True)


@failure
def in_a_loop_of_a_function() -> Failing:
    @onnx_function
    def smooth(x, steps):
        def step(carry, row):
            return carry * 0.9 + row, row  # <- fails

        return lax.scan(step, x, steps)[0]

    def fn(x, steps):
        return smooth(jnp.abs(x), steps) - 1.0

    feeds = {"x": floats(3), "steps": floats(2, 4)}
    return Failing(fn, [("N",), (2, "N")], feeds)
