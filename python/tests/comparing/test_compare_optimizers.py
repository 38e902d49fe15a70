"""`compare` finds the optimization of ONNX Runtime that makes a number wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from jax2onnx import compare
from testkit.comparing import made_model

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.standard_normal((4, 4)).astype(np.float32)
X = RANDOM.standard_normal((6, 4)).astype(np.float32)


def _forgotten_transpose() -> list[onnx.NodeProto]:
    return [
        helper.make_node("Transpose", ["s"], ["t"], "transpose", perm=[1, 0]),
        helper.make_node("MatMul", ["t", "v"], ["y"], "matmul"),
    ]


def _is_fixed(model: onnx.ModelProto, inputs: list[np.ndarray]) -> bool:
    """Return whether this ONNX Runtime computes the same with and without optimizations."""
    names = [value.name for value in model.graph.input]
    results = []
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        results.append(session.run(None, dict(zip(names, inputs, strict=True)))[0])
    return np.allclose(results[0], results[1])


def test_an_optimization_that_forgets_a_transpose_is_found() -> None:
    model = made_model(
        [
            helper.make_node("Sin", ["a"], ["s"], "sin"),
            *_forgotten_transpose(),
            helper.make_node("Tanh", ["y"], ["z"], "tanh"),
        ],
        [("a", 1, [4, 4]), ("v", 1, [4])],
        [("z", 1, [4])],
    )
    inputs = [WEIGHT, X[0]]
    report = compare(model, model, inputs)
    if _is_fixed(model, inputs):
        pytest.skip("this ONNX Runtime computes it right")
    first = report.first
    assert first is not None
    assert (first.kind, first.optimizer) == ("optimizer", "MatmulTransposeFusion")
    assert first.nodes == ("transpose", "matmul")
    assert "disabled_optimizers=['MatmulTransposeFusion']" in str(report)


def test_an_optimization_that_divides_integers_wrongly_is_found() -> None:
    model = made_model(
        [
            helper.make_node("Add", ["x", "one"], ["y"], "add"),
            helper.make_node("Div", ["one", "y"], ["d"], "div"),
            helper.make_node("Mul", ["d", "y"], ["z"], "mul"),
        ],
        [("x", 6, [3])],
        [("z", 6, [3])],
        {"one": np.array(1, np.int32)},
    )
    inputs = [np.array([1, 2, 3], np.int32)]
    report = compare(model, model, inputs)
    if _is_fixed(model, inputs):
        pytest.skip("this ONNX Runtime computes it right")
    assert report.first is not None
    assert report.first.optimizer == "DivMulFusion"
    assert report.first.nodes == ("div", "mul")


def test_an_optimization_in_the_body_of_a_loop_is_found(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [*_forgotten_transpose(), helper.make_node("Identity", ["y"], ["row"], "copy")],
        "body",
        [info("v", 1, [4]), info("s", 1, [4, 4])],
        [info("y", 1, [4]), info("row", 1, [4])],
    )
    model = made_model(
        [helper.make_node("Scan", ["x", "a"], ["_", "z"], "scan", body=body, num_scan_inputs=1)],
        [("x", 1, [4]), ("a", 1, [3, 4, 4])],
        [("z", 1, [3, 4])],
    )
    inputs = [X[0], np.stack([WEIGHT, WEIGHT.T @ WEIGHT, WEIGHT])]
    report = compare(model, model, inputs)
    if _is_fixed(model, inputs):
        pytest.skip("this ONNX Runtime computes it right")
    first = report.first
    assert first is not None
    assert (first.optimizer, first.iterations) == ("MatmulTransposeFusion", (0,))
    script = report.save_reproducer(tmp_path / "case")
    printed = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert float(printed.stdout.rsplit(" ", 1)[1]) > 1e-3
