"""Models that do not load, and calls that do not fit the model."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax import lax
from onnx import TensorProto, helper

from jax2onnx import onnx_function

from . import Failing, all_nodes, failure, floats, node_of, scalar


def layer(x):
    """Not to blame."""
    return jnp.tanh(x) + 1.0


@failure
def no_kernel_for_a_type() -> Failing:
    def fn(x):
        hidden = x.reshape(6)
        return lax.erf(hidden)[:2]  # <- fails

    def damage(model):
        set_types(model, TensorProto.FLOAT, TensorProto.BFLOAT16)

    return Failing(fn, [(2, 3)], damage=damage, form="both")


@failure
def no_kernel_for_a_fused_node() -> Failing:
    def gelu(x):
        half = jax.scipy.special.erf(x / jnp.sqrt(2.0))
        return x * (half + 1.0) * 0.5  # <- fails

    def fn(x):
        return gelu(x.reshape(6))[1:]

    def damage(model):
        set_types(model, TensorProto.FLOAT, TensorProto.BFLOAT16)

    return Failing(fn, [(2, 3)], damage=damage, has_map=True)


@failure
def no_kernel_in_a_body() -> Failing:
    def fn(x):
        def step(carry, row):
            return jnp.sinh(carry) + row, carry  # <- fails

        return lax.scan(step, x[0], x)

    def damage(model):
        set_types(model, TensorProto.FLOAT, TensorProto.BFLOAT16)

    return Failing(fn, [(3, 2)], damage=damage, options={"opset": 22})


@failure
def operator_of_nobody() -> Failing:
    def fn(x):
        hidden = layer(x)
        return jnp.cos(hidden)  # <- fails

    def damage(model):
        node_of(model, "Cos").op_type = "Cosine"

    return Failing(fn, [(3,)], damage=damage, has_map=True)


@failure
def operator_of_a_later_opset() -> Failing:
    def fn(x):
        hidden = layer(x)
        return jax.nn.gelu(hidden, approximate=False)  # <- fails

    def damage(model):
        model.opset_import[0].version = 17

    return Failing(fn, [(3,)], damage=damage)


@failure
def operator_of_another_domain() -> Failing:
    def fn(x):
        hidden = layer(x)
        return jnp.exp(hidden) - 2.0  # <- fails

    def damage(model):
        node_of(model, "Exp").domain = "com.example"
        model.opset_import.add(domain="com.example", version=1)

    return Failing(fn, [(3,)], damage=damage, form="both")


@failure
def opset_of_the_future() -> Failing:
    def fn(x):
        return layer(x) * 2.0

    def damage(model):
        model.opset_import[0].version = 99

    return Failing(fn, [(3,)], damage=damage)


@failure
def format_of_the_future() -> Failing:
    def fn(x):
        return layer(x) * 2.0

    def damage(model):
        model.ir_version = 99

    return Failing(fn, [(3,)], damage=damage, form="both")


@failure
def type_of_an_operand() -> Failing:
    def fn(x):
        hidden = layer(x)
        return jnp.sin(hidden) * 2.0  # <- fails

    def damage(model):
        node = node_of(model, "Sin")
        wide = helper.make_node("Cast", [node.input[0]], ["wide"], "wide", to=TensorProto.INT32)
        model.graph.node.insert(list(model.graph.node).index(node), wide)
        node.input[0] = "wide"

    return Failing(fn, [(3,)], damage=damage)


@failure
def two_types_in_one_sum() -> Failing:
    def fn(x, y):
        hidden = layer(x)
        return hidden - y  # <- fails

    def damage(model):
        model.graph.input[1].type.tensor_type.elem_type = TensorProto.DOUBLE

    return Failing(fn, [(3,), (3,)], damage=damage, has_map=True, form="wrapped")


@failure
def shapes_of_a_product() -> Failing:
    def fn(x, y):
        hidden = layer(x)
        return hidden @ y  # <- fails

    def damage(model):
        model.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 7

    return Failing(fn, [(2, 3), (3, 4)], damage=damage, form="both")


@failure
def shapes_in_a_branch() -> Failing:
    def fn(flag, x, y):
        heavy = lambda x, y: jnp.sin(x) @ y  # <- fails
        light = lambda x, y: x[:, :1] * y[:1]
        return lax.cond(flag > 0, heavy, light, x, y)

    def damage(model):
        model.graph.input[2].type.tensor_type.shape.dim[0].dim_value = 7

    return Failing(fn, [scalar(0), (2, 3), (3, 4)], damage=damage)


@failure
def type_that_is_declared_otherwise() -> Failing:
    def fn(x):
        hidden = jnp.concatenate([x, x * 2.0])  # <- fails
        return hidden - 3.0

    def damage(model):
        for value in model.graph.value_info:
            if value.name == node_of(model, "Concat").output[0]:
                value.type.tensor_type.elem_type = TensorProto.INT64

    return Failing(fn, [(3,)], damage=damage, form="both")


@failure
def value_that_is_made_twice() -> Failing:
    def fn(x):
        first = jnp.sin(x)  # <- fails
        second = jnp.cos(x)  # <- fails
        return first * second

    def damage(model):
        node_of(model, "Cos").output[0] = node_of(model, "Sin").output[0]

    return Failing(fn, [(3,)], damage=damage)


@failure
def value_that_nobody_makes() -> Failing:
    def fn(x, y):
        hidden = layer(x)
        return hidden * y  # <- fails

    def damage(model):
        node_of(model, "Mul").input[1] = "lost"

    return Failing(fn, [(3,), (3,)], damage=damage)


@failure
def attribute_that_is_missing() -> Failing:
    def fn(x, y):
        joined = jnp.concatenate([layer(x), y], axis=1)  # <- fails
        return joined * 2.0

    def damage(model):
        del node_of(model, "Concat").attribute[:]

    return Failing(fn, [(2, 3), (2, 3)], damage=damage)


@failure
def attribute_of_nobody() -> Failing:
    def fn(x):
        hidden = layer(x)
        return jnp.sin(hidden) + 2.0  # <- fails

    def damage(model):
        node_of(model, "Sin").attribute.append(helper.make_attribute("sharpness", 3))

    return Failing(fn, [(3,)], damage=damage, has_map=True)


@failure
def operand_that_is_missing() -> Failing:
    def fn(x, y):
        hidden = layer(x)
        return hidden / y  # <- fails

    def damage(model):
        del node_of(model, "Div").input[1]

    return Failing(fn, [(3,), (3,)], damage=damage, form="both")


@failure
def axis_out_of_range() -> Failing:
    def fn(x, y):
        joined = jnp.concatenate([layer(x), y], axis=1)  # <- fails
        return joined * 2.0

    def damage(model):
        node_of(model, "Concat").attribute[0].i = 5

    return Failing(fn, [(2, 3), (2, 3)], damage=damage)


@failure
def permutation_of_another_rank() -> Failing:
    def fn(x):
        hidden = layer(x)
        return jnp.sin(hidden.transpose(2, 0, 1))  # <- fails

    def damage(model):
        del node_of(model, "Transpose").attribute[0].ints[2:]

    return Failing(fn, [(2, 3, 4)], damage=damage, has_map=True)


@failure
def graph_with_a_circle() -> Failing:
    def fn(x):
        hidden = jnp.sin(x)  # <- fails
        return jnp.exp(hidden) + 1.0  # <- fails

    def damage(model):
        node_of(model, "Sin").input[0] = node_of(model, "Exp").output[0]

    return Failing(fn, [(3,)], damage=damage)


@failure
def function_of_nobody() -> Failing:
    @onnx_function
    def halve(x):
        return jnp.cos(x) * 0.5

    def fn(x):
        hidden = layer(x)
        return halve(hidden) - 1.0  # <- fails

    def damage(model):
        del model.functions[:]

    return Failing(fn, [(3,)], damage=damage)


@failure
def operator_of_nobody_in_a_function() -> Failing:
    @onnx_function
    def halve(x):
        return jnp.cos(x) * 0.5  # <- fails

    def fn(x):
        return halve(layer(x)) - 1.0

    def damage(model):
        next(n for n in model.functions[0].node if n.op_type == "Cos").op_type = "Cosine"

    return Failing(fn, [(3,)], damage=damage, form="both")


@failure
def external_data_is_lost() -> Failing:
    table = floats(8, 8)

    def fn(x):
        hidden = layer(x)
        return hidden @ table  # <- fails

    def spoil(place: Path) -> None:
        move_weights(place)
        (place / "model.onnx.data").unlink()

    return Failing(fn, [(2, 8)], spoil=spoil)


@failure
def external_data_is_cut() -> Failing:
    table = floats(8, 8)

    def fn(x):
        hidden = layer(x)
        return hidden @ table  # <- fails

    def spoil(place: Path) -> None:
        move_weights(place)
        path = place / "model.onnx.data"
        path.write_bytes(path.read_bytes()[:100])

    return Failing(fn, [(2, 8)], spoil=spoil, form="both")


@failure
def weight_of_another_size() -> Failing:
    table = floats(4, 4)

    def fn(x):
        hidden = layer(x)
        return hidden @ table  # <- fails

    def damage(model):
        largest = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
        largest.raw_data = largest.raw_data[:20]

    return Failing(fn, [(2, 4)], damage=damage)


@failure
def file_that_is_cut() -> Failing:
    def fn(x):
        return layer(x) * 2.0

    def spoil(place: Path) -> None:
        path = place / "model.onnx"
        (place / "whole.onnx").write_bytes(path.read_bytes())
        path.write_bytes(path.read_bytes()[:-40])

    return Failing(fn, [(3,)], spoil=spoil)


@failure
def input_of_another_size() -> Failing:
    def fn(x, y):
        hidden = layer(y)
        return x * 3.0 + hidden  # <- fails

    return Failing(fn, [(3,), (3,)], {"x": floats(4), "y": floats(3)})


@failure
def input_of_another_rank() -> Failing:
    def fn(x, y):
        hidden = layer(y)
        return x * 3.0 + hidden  # <- fails

    return Failing(fn, [("N",), ("N",)], {"x": floats(4, 1), "y": floats(4)}, has_map=True)


@failure
def input_of_another_type() -> Failing:
    def fn(x, y):
        hidden = layer(y)
        return jnp.sin(x) + hidden  # <- fails

    return Failing(fn, [(3,), (3,)], {"x": floats(3).astype(np.float64), "y": floats(3)})


@failure
def input_that_is_missing() -> Failing:
    def fn(x, y):
        hidden = layer(y)
        return jnp.sin(x) + hidden  # <- fails

    return Failing(fn, [(3,), (3,)], {"y": floats(3)})


@failure
def input_of_nobody() -> Failing:
    def fn(x):
        return layer(x) * 2.0

    return Failing(fn, [(3,)], {"x": floats(3), "z": floats(3)})


@failure
def output_of_nobody() -> Failing:
    def fn(x):
        return layer(x) * 2.0

    return Failing(fn, [(3,)], {"x": floats(3)}, outputs=["logits"])


@failure
def checker_misses_an_attribute() -> Failing:
    def fn(x, y):
        joined = jnp.concatenate([layer(x), y], axis=1)  # <- fails
        return joined * 2.0

    def damage(model):
        del node_of(model, "Concat").attribute[:]

    return Failing(fn, [(2, 3), (2, 3)], damage=damage, judge="checker")


@failure
def checker_misses_a_value() -> Failing:
    def fn(x, y):
        hidden = layer(x)
        return hidden * y  # <- fails

    def damage(model):
        node_of(model, "Mul").input[1] = "lost"

    return Failing(fn, [(3,), (3,)], damage=damage, judge="checker", has_map=True)


@failure
def checker_knows_no_such_operator() -> Failing:
    def fn(x):
        hidden = layer(x)
        return jnp.cos(hidden)  # <- fails

    def damage(model):
        node_of(model, "Cos").op_type = "Cosine"

    return Failing(fn, [(3,)], damage=damage, judge="checker")


@failure
def inference_of_a_product() -> Failing:
    def fn(x, y):
        hidden = layer(x)
        return hidden @ y  # <- fails

    def damage(model):
        model.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 7

    return Failing(fn, [(2, 3), (3, 4)], damage=damage, judge="inference")


@failure
def inference_of_a_sum_in_a_loop() -> Failing:
    def fn(x, rows):
        def step(carry, row):
            return carry * row, carry

        return lax.scan(step, x, rows)  # <- fails

    def damage(model):
        for body in (a.g for n in model.graph.node for a in n.attribute if a.HasField("g")):
            body.input[1].type.tensor_type.shape.dim[0].dim_value = 7

    return Failing(fn, [(3,), (2, 3)], damage=damage, judge="inference")


def set_types(model: onnx.ModelProto, old: int, new: int) -> None:
    """Says of every value of one type that it is of another."""
    graphs = [model.graph]
    for node in all_nodes(model.graph):
        graphs += [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    for graph in graphs:
        for value in [*graph.input, *graph.output, *graph.value_info]:
            if value.type.tensor_type.elem_type == old:
                value.type.tensor_type.elem_type = new
        for tensor in graph.initializer:
            if tensor.data_type == old:
                array = onnx.numpy_helper.to_array(tensor)
                wanted = helper.tensor_dtype_to_np_dtype(new)
                tensor.CopyFrom(onnx.numpy_helper.from_array(array.astype(wanted), tensor.name))


def move_weights(place: Path) -> None:
    """Puts the weights into a file of their own."""
    path = place / "model.onnx"
    model = onnx.load(path)
    onnx.save(
        model,
        path,
        save_as_external_data=True,
        location="model.onnx.data",
        size_threshold=64,
    )
