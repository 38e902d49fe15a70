"""A node that a rewrite fused from several primitives is named after what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import nnx

from jax2onnx import to_onnx

X = np.linspace(-1, 1, 2 * 4 * 8, dtype=np.float32).reshape(2, 4, 8)
IMAGE = np.linspace(-1, 1, 2 * 8 * 8 * 3, dtype=np.float32).reshape(2, 8, 8, 3)


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(8, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
        self.up = nnx.Linear(8, 16, rngs=rngs)
        self.down = nnx.Linear(16, 8, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attention(self.norm(x))
        return x + self.down(nnx.gelu(self.up(self.norm(x))))


class Convolutional(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(3, 4, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(4, use_running_average=True, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return nnx.avg_pool(self.norm(self.conv(x)), (2, 2), strides=(2, 2))


class Recurrent(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.rnn = nnx.RNN(nnx.LSTMCell(8, 16, rngs=rngs))

    def __call__(self, x: jax.Array) -> Any:
        return self.rnn(x)


def nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Returns the nodes of a graph and of the bodies in it."""
    found = []
    for node in graph.node:
        found.append(node)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                found += nodes(attribute.g)
    return found


def names(fn: Callable[..., Any], x: np.ndarray[Any, Any], **options: Any) -> dict[str, str]:
    """Returns the operator of each name."""
    return {node.name: node.op_type for node in nodes(to_onnx(fn, [x], **options).graph)}


def test_the_fusions_of_a_transformer_block_are_named_after_what_they_are() -> None:
    found = names(Block(nnx.Rngs(0)), X, opset=20)
    assert found["Block/norm/layer_norm"] == "LayerNormalization"
    assert found["Block/norm/layer_norm_1"] == "LayerNormalization"
    assert found["Block/attention/softmax"] == "Softmax"
    assert found["Block/gelu"] == "Gelu"
    assert found["Block/up/dot_general"] in ("MatMul", "Gemm")
    assert not any(name.rpartition("/")[2] in ("div", "mul_1", "select_n") for name in found)


def test_attention_is_named_after_what_it_is() -> None:
    found = names(Block(nnx.Rngs(0)), X, opset=23)
    (name,) = (name for name, op in found.items() if op == "Attention")
    assert name.startswith("Block/attention/")
    assert name.endswith("/attention")


@pytest.mark.slow
def test_a_pool_and_a_recurrent_cell_are_named_after_what_they_are() -> None:
    found = names(Convolutional(nnx.Rngs(0)), IMAGE)
    assert found["Convolutional/average_pool"] == "AveragePool"
    found = names(Recurrent(nnx.Rngs(0)), X)
    assert found["Recurrent/rnn/lstm"] == "LSTM"


def test_a_convolution_that_a_norm_is_folded_into_has_the_name_of_its_primitive() -> None:
    found = names(Convolutional(nnx.Rngs(0)), IMAGE)
    convolutions = [name for name, op in found.items() if op == "Conv"]
    assert len(convolutions) == 1
    assert convolutions[0].startswith("Convolutional/conv/conv_general_dilated")


@pytest.mark.parametrize(
    ("fn", "name", "op"),
    [
        (lambda x: jnp.clip(x, -1, 1), "clip", "Clip"),
        (lambda x: jnp.mean(x, axis=-1), "reduce_mean", "ReduceMean"),
        (lambda x: jnp.linalg.norm(x, axis=-1), "reduce_l2", "ReduceL2"),
        (jax.nn.log_softmax, "log_softmax", "LogSoftmax"),
        (lambda x: jnp.where(x > 0, x, 0.1 * x), "leaky_relu", "LeakyRelu"),
    ],
)
def test_a_formula_is_named_after_the_operator_it_becomes(
    fn: Callable[..., Any], name: str, op: str
) -> None:
    assert names(fn, X) == {name: op}


def test_unfused_nodes_have_the_names_of_their_primitives() -> None:
    assert names(lambda x: jnp.exp(x) / (x + 1), X) == {"exp": "Exp", "add": "Add", "div": "Div"}
    assert names(jax.nn.sigmoid, X) == {"logistic": "Sigmoid"}


def test_a_softmax_has_the_names_of_its_primitives_without_passes() -> None:
    found = names(jax.nn.softmax, X, optimize=False)
    assert {"exp", "div"} <= found.keys()
    assert "softmax" not in found


def test_several_fusions_of_one_kind_have_numbers() -> None:
    found = names(lambda x: jax.nn.softmax(jax.nn.softmax(x) * 2, axis=1), X)
    assert found == {"softmax": "Softmax", "mul": "Mul", "softmax_1": "Softmax"}
