"""`jax2onnx.lower_precision` writes products that ONNX Runtime computes with few bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax
from onnx import TensorProto, helper, numpy_helper

from jax2onnx import ConfigError, lower_precision
from jax2onnx._precision.formats import FORMATS, stored

from .test_lowering import error_of, lines_without, nodes_of, run, samples
from .test_quantizing import exported, optimized

RANDOM = np.random.default_rng(6)
W1 = (RANDOM.standard_normal((48, 96)) / 7).astype(np.float32)
W2 = (RANDOM.standard_normal((96, 40)) / 9).astype(np.float32)
RECURRENT = (RANDOM.standard_normal((40, 40)) / 9).astype(np.float32)
BIAS = RANDOM.standard_normal(96).astype(np.float32)


def network(x: Any) -> Any:
    return jax.nn.gelu(x @ W1 + BIAS) @ W2


def looped(x: Any) -> Any:
    return lax.scan(lambda s, _: (jnp.tanh(s @ RECURRENT), None), network(x), None, length=40)[0]


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in nodes_of(model)]


@pytest.mark.parametrize("fn", [network, looped])
@pytest.mark.parametrize("shape", [(5, 48), (2, 5, 48)])
def test_ranges_of_operands_are_found_when_the_model_runs(
    fn: Any, shape: tuple[int, ...], tmp_path: Path
) -> None:
    sizes = ",".join(map(str, shape))
    model = exported(fn, f"f32[{sizes}]")
    short, report = lower_precision(model, samples(12, *shape), to="int8", budget=0.3, dynamic=True)
    count = 3 if fn is looped else 2
    assert operators(short).count("MatMulInteger") == count
    assert optimized(short, tmp_path).count("DynamicQuantizeMatMul") == count
    assert report.bytes_after < 0.3 * report.bytes_before
    assert lines_without(short) == 0
    # Numbers that the data does not contain only get a larger step.
    large = [100 * each for each in samples(1, *shape)[0]]
    assert error_of(model, short, large) < 0.3


def test_a_transposed_weight_is_multiplied_with_integers() -> None:
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 48])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", 96])],
        [
            numpy_helper.from_array(np.ascontiguousarray(W1.T), "w"),
            numpy_helper.from_array(BIAS, "b"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    data = samples(8, 5, 48)
    for arguments in ({"to": "int8", "dynamic": True}, {"to": "int4", "target": "onnxruntime"}):
        short, report = lower_precision(model, data, budget=0.4, **arguments)
        assert error_of(model, short, samples(1, 7, 48)[0]) < 0.4
        assert report.bytes_after < 0.35 * report.bytes_before
        assert not {"Gemm"} & set(operators(short))
        assert short.graph.output[0].name == "y"


@pytest.mark.parametrize(("to", "bits", "ratio"), [("int8", 8, 0.45), ("int4", 4, 0.35)])
def test_blocks_of_weights_are_an_operator_of_onnx_runtime(
    to: str, bits: int, ratio: float
) -> None:
    model = exported(looped, "f32[B,48]")
    short, report = lower_precision(
        model, samples(12, 5, 48), to=to, budget=0.7, weights_only=True, target="onnxruntime"
    )
    products = [node for node in nodes_of(short) if node.op_type == "MatMulNBits"]
    assert len(products) >= 2
    assert all(node.domain == "com.microsoft" for node in products)
    assert {a.i for node in products for a in node.attribute if a.name == "bits"} == {bits}
    assert report.bytes_after < ratio * report.bytes_before
    assert report.bytes_short > 0
    assert lines_without(short) == 0
    assert error_of(model, short, samples(1, 6, 48)[0]) < 0.7
    plain, _ = lower_precision(model, samples(12, 5, 48), to=to, budget=0.7, weights_only=True)
    assert "MatMulNBits" not in operators(plain)


def test_blocks_of_four_bits_have_the_numbers_of_blocks_of_the_standard() -> None:
    # 33 rows need a block with one element.
    weight = RANDOM.standard_normal((33, 24)).astype(np.float32)
    model = exported(lambda x: x @ weight, "f32[B,33]")
    short, _ = lower_precision(
        model, samples(6, 4, 33), to="int4", budget=0.9, target="onnxruntime"
    )
    assert operators(short) == ["MatMulNBits"]
    (x,) = samples(1, 4, 33)[0]
    expected = x @ stored(weight, 1, FORMATS["int4"]).array()
    assert np.allclose(run(short, {"x": x})[0], expected, atol=1e-4)


@pytest.mark.parametrize(
    ("to", "shape", "budget"),
    [("int8", (64, 24), 0.03), ("int4", (64, 24), 0.4), ("int4", (70, 24), 0.4)],
)
def test_an_operand_with_outliers_is_not_rounded(
    to: str, shape: tuple[int, int], budget: float, tmp_path: Path
) -> None:
    weight = (RANDOM.standard_normal(shape) / 9).astype(np.float32)
    # A weight that does not read the large channels of an operand, which blocks of 8 bits destroy.
    weight[::32] = 0

    def outliers(x: Any) -> Any:
        return jnp.maximum(x, np.where(np.arange(shape[0]) % 32, -99.0, 3e4)) @ weight

    model = exported(outliers, f"f32[B,{shape[0]}]")
    data = samples(12, 5, shape[0])
    short, report = lower_precision(model, data, to=to, budget=budget, weights_only=True)
    assert report.error <= budget
    assert error_of(model, short, samples(1, 5, shape[0])[0]) <= budget
    assert [type for type in optimized(short, tmp_path) if "MatMul" in type] == ["MatMul"]
    assert lines_without(short) == 0
    assert report.bytes_after < 0.5 * report.bytes_before
    plain = exported(lambda x: x @ weight, f"f32[B,{shape[0]}]")
    fused, _ = lower_precision(plain, data, to=to, budget=budget, weights_only=True)
    assert "MatMulNBits" in optimized(fused, tmp_path)


def test_a_line_whose_weights_alone_are_whole_numbers_is_lowered() -> None:
    weight = W1.copy()
    weight[3] = 0

    def both(x: Any) -> Any:
        return jnp.maximum(x, np.where(np.arange(48) == 3, 3e4, -99.0)) @ weight

    _, report = lower_precision(
        exported(both, "f32[B,48]"), samples(12, 5, 48), to="int8", budget=0.03
    )
    assert report.bytes_short == weight.size
    (line,) = report.lowered
    assert line.reason.startswith("its weights are in int8; of its operands: rounding to int8")
    assert not report.kept


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"to": "float16", "dynamic": True}, "`dynamic` is about the operands of products"),
        ({"to": "int8", "dynamic": True, "weights_only": True}, "`dynamic` is about the operands"),
        ({"target": "tensorrt"}, "`tensorrt` is not a target: use `onnxruntime`"),
    ],
)
def test_arguments_that_exclude_each_other_are_refused(
    arguments: dict[str, Any], says: str
) -> None:
    model = exported(network, "f32[B,48]")
    with pytest.raises(ConfigError, match=says):
        lower_precision(model, samples(2, 4, 48), **arguments)
