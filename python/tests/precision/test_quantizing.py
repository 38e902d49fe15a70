"""`jax2onnx.lower_precision` writes models with whole numbers that stay within a budget."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from jax import lax
from onnx import TensorProto, helper, numpy_helper
from precision.networks import NETWORKS

from jax2onnx import ConfigError, lower_precision, to_onnx
from jax2onnx._precision.calibration import Calibration, bound, scales_to_try
from jax2onnx._precision.formats import FORMATS, bytes_of, stored

from .test_lowering import error_of, lines_without, nodes_of, samples

RANDOM = np.random.default_rng(3)
K1 = (RANDOM.standard_normal((3, 3, 3, 8)) / 4).astype(np.float32)
K2 = (RANDOM.standard_normal((3, 3, 8, 8)) / 8).astype(np.float32)
LAYERS = (RANDOM.standard_normal((4, 12, 12)) / 4).astype(np.float32)
LAYOUT = ("NHWC", "HWIO", "NHWC")


def optimized(model: onnx.ModelProto, folder: Path) -> list[str]:
    """Return the operators that ONNX Runtime runs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [node.op_type for node in nodes_of(onnx.load(folder / "optimized.onnx"))]


def exported(fn: Any, *inputs: Any) -> onnx.ModelProto:
    made = to_onnx(fn, list(inputs), provenance="indexed")
    assert isinstance(made, onnx.ModelProto)
    return made


def short_bytes(model: onnx.ModelProto) -> int:
    return sum(
        len(tensor.raw_data)
        for tensor in model.graph.initializer
        if tensor.data_type in (TensorProto.INT8, TensorProto.UINT8)
        and not tensor.name.endswith(".zero")
    )


def convolutions(x: Any) -> Any:
    hidden = jax.nn.relu(lax.conv_general_dilated(x, K1, (1, 1), "SAME", dimension_numbers=LAYOUT))
    return lax.conv_general_dilated(hidden, K2, (2, 2), "SAME", dimension_numbers=LAYOUT).mean(
        (1, 2)
    )


def test_convolutions_compute_with_integers(tmp_path: Path) -> None:
    model = exported(convolutions, "f32[2,8,8,3]")
    short, report = lower_precision(model, samples(12, 2, 8, 8, 3), to="int8", budget=0.1)
    operators = optimized(short, tmp_path)
    assert operators.count("QLinearConv") == 2
    assert "Conv" not in operators
    assert report.error <= 0.1
    assert short_bytes(short) == K1.size + K2.size
    assert lines_without(short) == 0


def test_products_with_a_bias_compute_with_integers(tmp_path: Path) -> None:
    weight = RANDOM.standard_normal((16, 32)).astype(np.float32)
    bias = RANDOM.standard_normal(32).astype(np.float32)

    def layer(x: Any) -> Any:
        return jax.nn.relu(x @ weight + bias) @ weight.T + bias[:16]

    model = exported(layer, "f32[B,16]")
    short, _ = lower_precision(model, samples(12, 6, 16), to="int8", budget=0.1)
    operators = optimized(short, tmp_path)
    assert operators.count("QGemm") == 2
    assert error_of(model, short, samples(1, 6, 16)[0]) < 0.1


@pytest.mark.parametrize("number", range(len(NETWORKS)))
def test_int8_meets_the_budget_on_new_data(number: int) -> None:
    fn, inputs = NETWORKS[number]
    model = exported(fn, *inputs)
    random = np.random.default_rng(number)
    noisy = [
        [array + random.standard_normal(array.shape).astype(np.float32) for array in inputs]
        for _ in range(40)
    ]
    budget = 0.2 if fn.__name__ == "nested" else 0.05
    short, report = lower_precision(model, noisy[:24], to="int8", budget=budget)
    assert report.bytes_short > 0
    assert max(error_of(model, short, each) for each in noisy[24:]) <= budget
    assert lines_without(short) == 0


def test_weights_that_a_scan_reads_row_by_row_are_whole_numbers() -> None:
    def layers(x: Any) -> Any:
        return lax.scan(lambda state, weight: (jnp.tanh(state @ weight), None), x, LAYERS)[0]

    model = exported(layers, "f32[5,12]")
    assert {"Scan", "Loop"} & {node.op_type for node in model.graph.node}
    short, report = lower_precision(model, samples(12, 5, 12), to="int8", budget=0.1)
    assert short_bytes(short) == LAYERS.size
    assert report.bytes_after < 0.45 * report.bytes_before
    # Each matrix has scales of its own.
    scales = [t for t in short.graph.initializer if t.name.endswith(".scale")]
    assert [list(each.dims) for each in scales] == [[4, 1, 12]]


def test_a_weight_with_two_readers_is_stored_once() -> None:
    table = jnp.asarray(RANDOM.standard_normal((32, 16)), jnp.float32)

    def tied(x: Any, tokens: Any) -> Any:
        return x @ table + table[tokens].sum(-1, keepdims=True)

    model = exported(tied, "f32[4,32]", "i32[4]")
    data = [[*each, np.arange(4, dtype=np.int32)] for each in samples(8, 4, 32)]
    short, report = lower_precision(model, data, to="int8", budget=0.2)
    assert short_bytes(short) >= table.size
    assert report.bytes_after < 0.5 * report.bytes_before


def test_a_budget_that_no_weight_meets_names_the_lines_in_the_way() -> None:
    model = exported(convolutions, "f32[2,8,8,3]")
    with pytest.raises(
        ConfigError, match=r"the model cannot be in int8 .* in the way: `.*test_quanti"
    ):
        lower_precision(model, samples(8, 2, 8, 8, 3), to="int8", budget=1e-5)


def test_a_refusal_shows_the_largest_error_of_all_samples() -> None:
    weight = RANDOM.standard_normal((24, 1)).astype(np.float32)

    def product(x: Any) -> Any:
        return x @ weight

    model = exported(product, "f32[1,24]")
    data = [[np.abs(each[0]) * np.sign(weight.T)] for each in samples(16, 1, 24)]
    # The addends of the result of one sample nearly cancel.
    data[9][0] = data[9][0] - (data[9][0] @ weight) * weight.T / (weight.T @ weight) * 0.9999
    with pytest.raises(ConfigError, match=r"in the way: ") as raised:
        lower_precision(model, data, to="int8", budget=0.05, weights_only=True)
    (error,) = re.findall(r"\((.*) alone\)", str(raised.value))
    assert float(error) > 0.05


def test_the_result_of_a_product_that_is_an_output_keeps_its_name() -> None:
    def both(x: Any) -> Any:
        first = lax.conv_general_dilated(x, K1, (1, 1), "SAME", dimension_numbers=LAYOUT)
        return first, jax.nn.relu(first).sum((1, 2))

    model = exported(both, "f32[2,8,8,3]")
    short, _ = lower_precision(model, samples(12, 2, 8, 8, 3), to="int8", budget=0.1)
    assert [value.name for value in short.graph.output] == [
        value.name for value in model.graph.output
    ]
    assert error_of(model, short, samples(1, 2, 8, 8, 3)[0]) <= 0.1


def test_a_convolution_of_another_exporter_whose_result_has_several_readers(
    tmp_path: Path,
) -> None:
    kernel = np.ascontiguousarray(K1.transpose(3, 2, 0, 1))
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "k"], ["h"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("Sigmoid", ["h"], ["s"]),
            helper.make_node("Mul", ["r", "s"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 8, 8])],
        [numpy_helper.from_array(kernel, "k")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    short, report = lower_precision(model, samples(12, 1, 3, 8, 8), to="int8", budget=0.1)
    assert report.error <= 0.1
    assert "QLinearConv" in optimized(short, tmp_path)
    onnx.checker.check_model(short)


def test_ranges_reach_beyond_the_data() -> None:
    calibration = Calibration()
    for size in (1.0, 1.2, 1.1, 1.3):
        calibration.begin()
        calibration.add((("main",), "x"), np.array([-0.5 * size, size]))
        calibration.add((("main",), "r"), np.array([0.0, size]))
    assert calibration.ranges()[("main",), "x"] == (-0.65, 1.3)
    low, high = scales_to_try(calibration)[0].all[("main",), "x"]
    assert -1.5 < low < -0.65
    assert 1.3 < high < 3
    # No range cuts an extreme, also if it is rare.
    calibration.begin()
    calibration.add((("main",), "x"), np.array([*np.linspace(-1, 1, 999), 9.0]))
    assert all(scales.all[("main",), "x"][1] >= 9 for scales in scales_to_try(calibration))
    calibration.samples.pop()
    # A ReLU has no negative numbers, and no sample without the others judges itself.
    assert scales_to_try(calibration)[0].all[("main",), "r"][0] == 0
    fold = scales_to_try(calibration)[0].folds[3]
    assert fold[("main",), "x"][1] < high


def test_a_bound_grows_with_the_spread_and_shrinks_with_the_number_of_samples() -> None:
    assert bound([]) == 0
    assert bound([0.0, 0.0]) == 0
    assert bound([0.01] * 8) == pytest.approx(0.012)
    random = np.random.default_rng(0)
    errors = np.exp(random.standard_normal(400) * 0.5)
    assert bound(errors[:4]) > max(errors[:4]) * 1.2
    assert bound(errors[:100]) < 2 * max(errors[:100])
    assert bound([0.1, float("inf")]) == float("inf")


@pytest.mark.parametrize("name", ["int8", "int4"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((48, 8), 1), ((3, 40, 8), 2), ((16, 40, 3, 3), 0), ((1, 24, 40), 1)]
)
def test_the_bytes_of_a_stored_weight_are_known_before(
    name: str, shape: tuple[int, ...], axis: int
) -> None:
    array = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    kind = FORMATS[name]
    for has_blocks in (False, True):
        found = stored(array, axis, kind, has_blocks=has_blocks)
        bits = 4 if name == "int4" else 8
        size = found.values.size * bits // 8 + found.scales.nbytes
        assert size == bytes_of(shape, axis, kind, has_blocks=has_blocks)
        error = np.square(found.array() - array).mean() / np.square(array).mean()
        assert error < (1e-4 if name == "int8" else 0.02)


def test_new_data_beyond_the_samples_stays_within_a_wide_budget() -> None:
    network, (start,) = NETWORKS[0]
    model = exported(network, start)
    random = np.random.default_rng(2)
    data = [
        [start + random.standard_normal(start.shape).astype(np.float32)] for _ in range(16 + 200)
    ]
    short, _ = lower_precision(model, data[:16], to="int8", budget=0.1)
    assert any(node.op_type == "QuantizeLinear" for node in short.graph.node)
    assert max(error_of(model, short, inputs) for inputs in data[16:]) < 0.1


def test_a_refusal_says_that_samples_differ_too_much() -> None:
    network, (start,) = NETWORKS[5]
    model = exported(network, start)
    random = np.random.default_rng(7)
    data = [[start + random.standard_normal(start.shape).astype(np.float32)] for _ in range(16)]
    with pytest.raises(ConfigError, match="differ so much that new sets may exceed it: pass more"):
        lower_precision(model, data, to="int8", budget=0.1)
