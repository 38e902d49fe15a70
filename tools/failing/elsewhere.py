"""Programs that fail in runtimes other than ONNX Runtime.

A mark `# <- fails` is for every runtime that fails. A mark `# <- fails in tract, rten` is for these
runtimes, and replaces the other marks for them. A runtime that runs a program as it should is not
counted.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax import lax
from onnx import helper, numpy_helper

from . import Build, Failing, all_nodes, floats, ints, node_of

ELSEWHERE: dict[str, Build] = {}

WEIGHT = floats(4, 4) / 8
BIAS = floats(4)


def elsewhere(build: Build) -> Build:
    """Make a function a failure of the corpus of other runtimes."""
    ELSEWHERE[build.__name__] = build
    return build


def rename(model: onnx.ModelProto, op: str, which: int, new: str = "Nonsense") -> None:
    """Give a node, perhaps in a body, an operator that no runtime knows."""
    [node for node in all_nodes(model.graph) if node.op_type == op][which].op_type = new


@elsewhere
def operator_of_the_third_layer() -> Failing:
    def fn(x):
        first = jnp.tanh(x @ WEIGHT)
        second = jnp.tanh(first @ (WEIGHT * 2))
        third = jnp.tanh(second @ (WEIGHT * 3))  # <- fails
        return jnp.tanh(third @ (WEIGHT * 4))

    return Failing(fn, [(2, 4)], damage=lambda model: rename(model, "Tanh", 2))


@elsewhere
def weight_of_the_third_layer() -> Failing:
    def fn(x):
        first = jnp.tanh(x @ WEIGHT)
        second = jnp.tanh(first @ (WEIGHT * 2))
        third = jnp.tanh(second @ (WEIGHT * 3))  # <- fails
        return jnp.tanh(third @ (WEIGHT * 4))

    def damage(model):
        name = node_of(model, "MatMul", 2).input[1]
        weight = next(each for each in model.graph.initializer if each.name == name)
        weight.CopyFrom(numpy_helper.from_array(np.ones((7, 4), np.float32), name))

    return Failing(fn, [(2, 4)], damage=damage, options={"provenance": "full"})


@elsewhere
def bias_of_the_second_layer() -> Failing:
    def fn(x):
        first = jnp.sin(x) + BIAS
        second = jnp.sin(first) + BIAS * 2  # <- fails
        return jnp.sin(second) + BIAS * 3

    def damage(model):
        name = node_of(model, "Add", 1).input[1]
        weight = next(each for each in model.graph.initializer if each.name == name)
        weight.CopyFrom(numpy_helper.from_array(np.ones((7,), np.float32), name))

    return Failing(fn, [(3, 4)], damage=damage)


@elsewhere
def type_of_the_second_sum() -> Failing:
    def fn(x, y):
        first = jnp.cos(x) + y
        second = jnp.sin(first) + y  # <- fails
        return jnp.exp(second) + y

    def damage(model):
        node = node_of(model, "Add", 1)
        wide = helper.make_node("Cast", [node.input[1]], ["wide"], to=onnx.TensorProto.INT64)
        node.input[1] = "wide"
        model.graph.node.insert(0, wide)

    return Failing(fn, [(3,), (3,)], damage=damage)


@elsewhere
def axis_of_the_second_join() -> Failing:
    def fn(x, y):
        first = jnp.concatenate([x, y], axis=1)
        second = jnp.concatenate([first, y], axis=1)  # <- fails
        return jnp.concatenate([second, x], axis=1)

    def damage(model):
        joins = [node for node in model.graph.node if node.op_type == "Concat"]
        del joins[1].attribute[:]

    return Failing(fn, [(2, 3), (2, 2)], damage=damage, options={"optimize": False})


@elsewhere
def value_of_the_second_layer() -> Failing:
    def fn(x):
        first = jnp.tanh(x) * 2.0
        second = jnp.tanh(first) * 3.0  # <- fails
        return jnp.tanh(second) * 4.0

    def damage(model):
        node_of(model, "Tanh", 1).input[0] = "nowhere"

    return Failing(fn, [(3,)], damage=damage)


@elsewhere
def operator_in_a_scan() -> Failing:
    def fn(x):
        def step(carry, row):
            carry = jnp.tanh(carry) + row
            carry = jnp.tanh(carry) * 0.5  # <- fails
            return carry, carry

        return lax.scan(step, x[0], x)[1]  # <- fails in rten, mnn

    return Failing(fn, [(5, 3)], damage=lambda model: rename(model, "Tanh", 1))


@elsewhere
def operator_in_a_while_loop() -> Failing:
    def fn(x):
        def body(state):
            index, value = state
            value = jnp.sin(value) + 1.0
            return index + 1, jnp.sin(value) * 0.5  # <- fails

        return lax.while_loop(lambda s: s[1].sum() < 9, body, (0, x))[1]  # <- fails in tract

    return Failing(fn, [(3,)], damage=lambda model: rename(model, "Sin", 1))


@elsewhere
def operator_in_a_branch() -> Failing:
    def fn(flag, x):
        def heavy(x):
            x = jnp.tanh(x) + 1.0
            return jnp.tanh(x) * 2.0  # <- fails

        return lax.cond(flag > 0, heavy, lambda x: x * 3.0, jnp.tanh(x))

    def damage(model):
        branch = next(node for node in model.graph.node if node.op_type == "If")
        inner = [
            node
            for attribute in branch.attribute
            for node in attribute.g.node
            if node.op_type == "Tanh"
        ]
        inner[1].op_type = "Nonsense"

    return Failing(fn, [ints(1)[0], (3,)], damage=damage)


@elsewhere
def sizes_in_a_branch() -> Failing:
    def fn(flag, x, y):
        heavy = lambda x, y: jnp.tanh(x) @ y  # <- fails
        light = lambda x, y: x[:, :1] * y[:1]
        return lax.cond(flag > 0, heavy, light, x @ x.T @ x, y)

    def damage(model):
        for value in model.graph.input:
            if value.name == "y":
                value.type.tensor_type.shape.dim[0].dim_value = 7

    feeds = {"flag": np.int32(1), "x": floats(2, 3), "y": floats(7, 4)}
    return Failing(fn, [ints(1)[0], (2, 3), (3, 4)], feeds, damage)


@elsewhere
def unsigned_constants() -> Failing:
    def fn(x, bits):
        warm = jnp.tanh(x)
        high = (bits >> 3) + jnp.uint32(5)  # <- fails
        return warm + high.astype(jnp.float32)

    return Failing(fn, [(3,), np.array([0, 1, 9], np.uint32)])


@elsewhere
def missing_numbers() -> Failing:
    def fn(x):
        doubled = x * 2.0
        lost = jnp.isnan(doubled)  # <- fails
        return jnp.where(lost, 0.0, doubled)

    return Failing(fn, [(2, 3)])


@elsewhere
def bits_of_two_lines() -> Failing:
    def fn(x, y):
        low = x & y  # <- fails in mnn, rten
        high = x ^ 3  # <- fails in mnn
        return low + high

    return Failing(fn, [ints(1, 2), ints(3, 4)])


@elsewhere
def largest_by_index() -> Failing:
    def fn(x, i):
        base = jnp.cos(x)
        best = base.at[i].max(x[:2])  # <- fails
        return base.at[i].set(0.0) + best

    return Failing(fn, [(4, 3), ints(0, 1)])


@elsewhere
def attention() -> Failing:
    def fn(q, k, v):
        scaled = q * 0.5
        mixed = jax.nn.dot_product_attention(scaled, k, v)  # <- fails
        return mixed + 1.0

    return Failing(fn, [(1, 4, 2, 8)] * 3)


@elsewhere
def one_sided_spectrum() -> Failing:
    def fn(x):
        windowed = x * jnp.hanning(8)
        bins = jnp.fft.rfft(windowed)  # <- fails
        return jnp.abs(bins)

    return Failing(fn, [(8,)])


@elsewhere
def any_of_a_row() -> Failing:
    def fn(x):
        positive = x > 0.5
        rows = jnp.any(positive, axis=1)  # <- fails
        return rows.astype(jnp.float32) * 2.0

    return Failing(fn, [(2, 3)])


@elsewhere
def equal_flags() -> Failing:
    def fn(x, y):
        left = x > 0.5
        right = y > 0.5
        return (left == right).astype(jnp.float32)  # <- fails

    return Failing(fn, [(3,), (3,)])


@elsewhere
def activations_of_three_lines() -> Failing:
    def fn(x):
        first = jax.nn.selu(x @ WEIGHT)  # <- fails
        second = jax.nn.softplus(first @ WEIGHT)
        return jax.nn.hard_swish(second)

    return Failing(fn, [(2, 4)])


@elsewhere
def scan_that_captures() -> Failing:
    def fn(xs, scale):
        warm = jnp.sin(xs)
        total, rows = lax.scan(lambda c, x: (jnp.sin(c) * scale + x, c), scale, warm)  # <- fails
        return total, rows * 2.0

    return Failing(fn, [(6, 3), (3,)])


@elsewhere
def loop_with_a_condition() -> Failing:
    def fn(x):
        start = jnp.abs(x)
        end = lax.while_loop(lambda v: v.sum() < 50, lambda v: v * 1.5, start)  # <- fails
        return jnp.sqrt(end)

    return Failing(fn, [(3,)])


@elsewhere
def sizes_of_the_second_product() -> Failing:
    def fn(x, y):
        first = jnp.sin(x) @ y
        second = jnp.cos(first) @ y  # <- fails
        return jnp.tanh(second)

    def damage(model):
        node = node_of(model, "MatMul", 1)
        wide = helper.make_node("Concat", [node.input[1], node.input[1]], ["wide"], axis=0)
        node.input[1] = "wide"
        model.graph.node.insert(0, wide)

    return Failing(fn, [(4, 4), (4, 4)], damage=damage)


@elsewhere
def index_of_the_second_lookup() -> Failing:
    def fn(x, i, j):
        first = jnp.sin(x).at[i].get(mode="promise_in_bounds")
        second = jnp.cos(first).at[j].get(mode="promise_in_bounds")  # <- fails
        return second * 2.0

    def damage(model):
        for node in all_nodes(model.graph):
            if node.op_type == "Clip":
                node.op_type = "Identity"
                del node.input[1:]

    feeds = {"x": floats(5, 3), "i": ints(0, 1, 2), "j": ints(1, 9)}
    return Failing(fn, [(5, 3), ints(0, 1, 2), ints(0, 0)], feeds, damage)


@elsewhere
def input_of_another_length() -> Failing:
    def fn(x, y):
        warm = jnp.tanh(x)
        return jnp.cos(y) * warm.sum()  # <- fails

    return Failing(fn, [(3,), (4,)], {"x": floats(3), "y": floats(5)})


@elsewhere
def constant_flags_in_a_scan() -> Failing:
    def fn(x):
        def step(total, row):
            total = total + jnp.sin(row)
            matrix = jnp.eye(3) + jnp.diag(total**2)
            return jnp.linalg.solve(matrix, row), total  # <- fails in tract

        return lax.scan(step, x[0], x)[0]  # <- fails

    return Failing(fn, [(5, 3)])


@elsewhere
def pool_in_a_loop() -> Failing:
    def fn(x):
        def spread(state):
            index, y = state
            z = lax.reduce_window(y, 0.0, lax.max, (3, 3), (1, 1), "SAME")  # <- fails in rten
            return index + 1, z * jnp.cos(y)

        return lax.while_loop(lambda s: s[1].sum() < 9, spread, (0, x))[1]  # <- fails

    return Failing(fn, [(4, 4)])


@elsewhere
def rows_written_at_positions() -> Failing:
    def fn(cache, rows, at):
        def write(one, row, place):
            return lax.dynamic_update_slice(one, row[None], (place, 0))  # <- fails

        return jnp.cos(jax.vmap(write)(jnp.sin(cache), rows, at))

    return Failing(fn, [(2, 5, 3), (2, 3), ints(1, 4)])
