"""`jax2onnx inspect` lists a size exactly if ONNX Runtime fails where that size is 0."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from onnx import helper

import jax2onnx
from jax2onnx import _core
from testkit import bench

from . import test_empty

Shape = list[Any]


def positive_sizes(model: onnx.ModelProto, folder: Path, capfd: Any) -> set[str]:
    path = folder / "model.onnx"
    onnx.save(model, path)
    capfd.readouterr()
    assert _core.main(["jax2onnx", "inspect", str(path), "--format", "json"]) == 0
    return {entry["size"] for entry in json.loads(capfd.readouterr().out)["positive_sizes"]}


def image(op: str, **attributes: Any) -> onnx.ModelProto:
    return one_node(op, [["N", "C", "H", "W"]], None, **attributes)


def one_node(
    op: str, inputs: list[Shape], output: Shape | None, **attributes: Any
) -> onnx.ModelProto:
    """A model of one node; its operands are called `a`, `b` and `c`."""
    names = list("abc"[: len(inputs)])
    floats = onnx.TensorProto.FLOAT
    given = [
        helper.make_tensor_value_info(*pair)
        for pair in zip(names, [floats] * 3, inputs, strict=False)
    ]
    element = onnx.TensorProto.INT64 if op.startswith("Arg") else floats
    result = helper.make_tensor_value_info("out", element, output)
    node = helper.make_node(op, names, ["out"], **attributes)
    graph = helper.make_graph([node], "graph", given, [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


WINDOW: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
HEADS = [["B", 2, "Q", 4], ["B", 2, "K", 4], ["B", 2, "K", 4]]
STACKED = [["B", "Q", 8], ["B", "K", 8], ["B", "K", 8]]

#: A model for each row of the table in `crates/inspect/src/positive.rs`.
MODELS: dict[str, onnx.ModelProto] = {
    "ArgMax": one_node("ArgMax", [["A", "B"]], None, axis=1),
    "ArgMax of the first axis": one_node("ArgMax", [["A", "B"]], None),
    "ArgMin": one_node("ArgMin", [["A", "B"]], None, axis=0),
    "Attention": one_node("Attention", HEADS, None),
    "Attention of stacked heads": one_node(
        "Attention", STACKED, None, q_num_heads=2, kv_num_heads=2
    ),
    "AveragePool": image("AveragePool", **WINDOW),
    "Conv": one_node("Conv", [["N", 2, "H", "W"], [4, 2, 3, 3]], ["N", 4, "H", "W"], **WINDOW),
    "Conv with a wide margin": one_node(
        "Conv", [["N", 2, "W"], [4, 2, 3]], ["N", 4, "W + 2"], pads=[2, 2]
    ),
    "ConvTranspose": one_node(
        "ConvTranspose", [["N", 2, "W"], [2, 4, 3]], ["N", 4, "2*W"], strides=[2], pads=[1, 0]
    ),
    "ConvTranspose without a margin": one_node(
        "ConvTranspose", [["N", 2, "W"], [2, 4, 3]], ["N", 4, "W + 2"]
    ),
    "GlobalAveragePool": image("GlobalAveragePool"),
    "GlobalMaxPool": image("GlobalMaxPool"),
    "LpPool": image("LpPool", **WINDOW),
    "MatMul of a broadcast matrix": one_node("MatMul", [[8, 4], ["A", "B", 4, "C"]], None),
    "MatMul of a matrix with a unit axis": one_node("MatMul", [[1, "D", 4], ["A", 4, "C"]], None),
    "MatMul by a matrix": one_node("MatMul", [["A", "B", "D", 4], [4, 5]], None),
    "MatMul by a matrix with a unit axis": one_node("MatMul", [["A", "D", 4], [1, 4, 5]], None),
    "MatMul by a vector": one_node("MatMul", [["A", "D", 4], [4]], None),
    "MatMul of a vector": one_node("MatMul", [[4], ["A", 4, "C"]], None),
    "MatMul of a vector by a matrix": one_node("MatMul", [[4], [4, "C"]], None),
    "MatMul of a matrix by a vector": one_node("MatMul", [["A", 4], [4]], None),
    "MatMul by some matrices": one_node("MatMul", [["A", 2, "D", 4], [2, 4, 5]], None),
    "MatMul of equal batches": one_node("MatMul", [["A", "D", 4], ["A", 4, 5]], None),
    "MaxPool": image("MaxPool", **WINDOW),
}


def fails(model: onnx.ModelProto, sizes: dict[str, int]) -> set[bool]:
    """Whether ONNX Runtime fails, with its optimizations off and on."""
    feed = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        feed[value.name] = np.ones([sizes.get(d.dim_param, d.dim_value) for d in dims], np.float32)
    found = set()
    for session in test_empty.sessions(model):
        try:
            session.run(None, feed)
            found.add(False)
        except Exception:
            found.add(True)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_a_size_is_listed_if_and_only_if_the_kernel_fails_without_it(
    name: str, tmp_path: Path, capfd: Any
) -> None:
    model = MODELS[name]
    dims = [dim for value in model.graph.input for dim in value.type.tensor_type.shape.dim]
    names = {dim.dim_param for dim in dims} - {""}
    assert fails(model, dict.fromkeys(names, 3)) == {False}
    needed = set()
    for empty in names:
        found = fails(model, dict.fromkeys(names, 3) | {empty: 0})
        assert len(found) == 1
        needed |= {empty} if found == {True} else set()
    listed = positive_sizes(model, tmp_path, capfd)
    assert {size.removeprefix("2*") for size in listed} == needed


@pytest.mark.parametrize("name", test_empty.PROGRAMS)
def test_no_size_is_listed_if_the_model_runs_at_size_0(
    name: str, tmp_path: Path, capfd: Any
) -> None:
    fn, shapes = test_empty.PROGRAMS[name]
    assert not positive_sizes(bench.convert(fn, list(shapes)), tmp_path, capfd)


@pytest.mark.parametrize("name", test_empty.POSITIVE)
def test_a_size_at_which_the_model_fails_is_listed(name: str, tmp_path: Path, capfd: Any) -> None:
    fn, shapes, _ = test_empty.POSITIVE[name]
    assert positive_sizes(bench.convert(fn, list(shapes)), tmp_path, capfd) == {"B"}


def test_a_product_that_fails_only_if_it_is_optimized_is_listed(tmp_path: Path, capfd: Any) -> None:
    weights = np.ones((3, 5), np.float32)
    model = bench.convert(lambda x: jnp.swapaxes(x, 1, 2) @ weights, [("B", 3, 4)])
    assert fails(model, {"B": 0}) == {False, True}
    assert positive_sizes(model, tmp_path, capfd) == {"B"}


def times_weights(x: jax.Array) -> jax.Array:
    return jnp.dot(x, np.ones((4, 5), np.float32))


def called_twice(x: jax.Array) -> jax.Array:
    return jax2onnx.onnx_function(times_weights)(x) * 2


@pytest.mark.parametrize("fn", [times_weights, called_twice])
def test_a_product_in_a_function_whose_operand_is_transposed_is_listed(
    fn: Callable[[jax.Array], jax.Array], tmp_path: Path, capfd: Any
) -> None:
    function = jax2onnx.onnx_function(fn)
    for transposes in (True, False):
        model = bench.convert(
            lambda x: function(jnp.swapaxes(x, 1, 2) if transposes else x),  # noqa: B023
            [("B", 4, 4)],
            optimize=False,
        )
        assert "MatMul" not in {node.op_type for node in model.graph.node}
        assert fails(model, {"B": 0}) == ({False, True} if transposes else {False})
        assert positive_sizes(model, tmp_path, capfd) == ({"B"} if transposes else set())


def halved(x: jax.Array) -> jax.Array:
    return x / (x + x)


@pytest.mark.parametrize("fn", [halved, jax2onnx.onnx_function(halved)])
def test_a_product_with_a_transpose_before_other_operators_is_listed(
    fn: Callable[[jax.Array], jax.Array], tmp_path: Path, capfd: Any
) -> None:
    def square(x: jax.Array) -> jax.Array:
        x = fn(jnp.swapaxes(x, 1, 2))
        return jnp.dot(x, x)

    model = bench.convert(square, [("B", 4, 4)], optimize=False)
    assert model.graph.node[0].op_type == "Transpose"
    assert model.graph.node[1].op_type != "MatMul"
    assert fails(model, {"B": 0}) == {False, True}
    assert positive_sizes(model, tmp_path, capfd) == {"B"}
