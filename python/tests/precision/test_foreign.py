"""Models that other exporters write: weights in nodes, empty names, functions and old opsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from jax2onnx import ConfigError, lower_precision, sensitivity

RANDOM = np.random.default_rng(3)
DATA = [[RANDOM.standard_normal((4, 16)).astype(np.float32)] for _ in range(16)]


def weight(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def value(name: str, *shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model_of(
    nodes: list[onnx.NodeProto],
    weights: dict[str, np.ndarray],
    *,
    opset: int = 17,
    functions: Any = (),
    result: tuple[Any, ...] = ("B", 8),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", "B", 16)],
        [value("y", *result)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid("own", 1) for _ in functions)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)


def with_constants() -> onnx.ModelProto:
    """Return layers whose weights are nodes."""
    nodes = []
    before = "x"
    for number, (size, results) in enumerate([(16, 48), (48, 24), (24, 40), (40, 8)]):
        for name, shape in ((f"w{number}", (size, results)), (f"b{number}", (results,))):
            array = numpy_helper.from_array(weight(*shape), name)
            nodes.append(helper.make_node("Constant", [], [name], value=array))
        after = "y" if number == 3 else f"h{number}"
        nodes += [
            helper.make_node("MatMul", [before, f"w{number}"], [f"p{number}"]),
            helper.make_node("Add", [f"p{number}", f"b{number}"], [after]),
        ]
        before = after
    return model_of(nodes, {})


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found: np.ndarray = session.run(None, {"x": x})[0]
    return found


def check_lowered(model: onnx.ModelProto, to: str, share: float = 0.6) -> onnx.ModelProto:
    short, report = lower_precision(model, DATA, to=to, budget=0.1)
    onnx.checker.check_model(short)
    assert report.bytes_after <= share * report.bytes_before
    for (x,) in DATA:
        want = run(model, x)
        assert np.abs(run(short, x) - want).max() <= 0.1 * np.abs(want).max()
    return short


def test_the_effects_of_weights_in_nodes_are_measured() -> None:
    for _ in range(5):
        result = sensitivity(with_constants(), DATA[0])
        assert all(line.is_measured for line in result.lines)
        assert result.lines[0].error < 0.01


@pytest.mark.parametrize("to", ["float16", "bfloat16", "int8"])
def test_weights_in_nodes_are_lowered(to: str) -> None:
    check_lowered(with_constants(), to)


@pytest.mark.parametrize("to", ["float16", "bfloat16", "int8"])
def test_a_function_without_names_is_lowered(to: str) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Add", ["h", "b"], ["y"]),
    ]
    dense = helper.make_function(
        "own", "Dense", ["x", "w", "b"], ["y"], nodes, [helper.make_opsetid("", 17)]
    )
    calls = [
        helper.make_node("Dense", ["x", "w1", "b1"], ["h"], domain="own"),
        helper.make_node("Dense", ["h", "w2", "b2"], ["y"], domain="own"),
    ]
    weights = {"w1": weight(16, 32), "b1": weight(32), "w2": weight(32, 8), "b2": weight(8)}
    check_lowered(model_of(calls, weights, functions=[dense]), to)


def test_a_result_without_a_name_does_not_stop_int8() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["image"]),
        helper.make_node("Conv", ["image", "w"], ["c"]),
        helper.make_node("MaxPool", ["c"], ["y", ""], kernel_shape=[2, 2]),
    ]
    weights = {"shape": np.array([-1, 1, 4, 4]), "w": weight(8, 1, 2, 2)}
    model = model_of(nodes, weights, result=("B", 8, 2, 2))
    short = check_lowered(model, "int8", 1.0)
    assert "QuantizeLinear" in {node.op_type for node in short.graph.node}


@pytest.mark.parametrize(
    ("opset", "to", "says"),
    [
        (9, "int8", "opset 9, but scales per channel need opset 13"),
        (11, "bfloat16", "opset 11, but bfloat16 needs opset 13"),
        (20, "int4", "opset 20, but 4-bit weights need opset 21"),
    ],
)
def test_an_old_opset_is_refused_at_once(opset: int, to: str, says: str) -> None:
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": weight(16, 8)})
    model.opset_import[0].version = opset
    with pytest.raises(ConfigError, match=says):
        lower_precision(model, DATA, to=to, budget=1e-9)
