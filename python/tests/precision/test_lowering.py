"""`jax2onnx.lower_precision` writes models in shorter types that stay within a budget."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
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

import jax2onnx
from jax2onnx import ConfigError, InputSpecError, _core, lower_precision, to_onnx

RANDOM = np.random.default_rng(8)
W1 = (RANDOM.standard_normal((16, 32)) / 4).astype(np.float32)
W2 = (RANDOM.standard_normal((32, 8)) / 6).astype(np.float32)


def network(x: Any) -> Any:
    hidden = jax.nn.gelu(x @ W1)
    energy = (hidden * 300) ** 2
    share = energy / energy.sum(-1, keepdims=True)
    return share @ W2


def samples(count: int, *shape: int) -> list[list[np.ndarray]]:
    """Return inputs that depend only on their number and their shape, not on the tests before."""
    random = np.random.default_rng([count, *shape])
    return [[random.standard_normal(shape).astype(np.float32)] for _ in range(count)]


def run(model: onnx.ModelProto | Path, feeds: dict[str, Any]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    found: list[np.ndarray] = session.run(None, feeds)
    return found


def error_of(before: onnx.ModelProto, after: onnx.ModelProto, inputs: list[Any]) -> float:
    """Return the largest error of an output, relative to its largest element."""
    names = [value.name for value in before.graph.input]
    feeds = dict(zip(names, inputs, strict=True))
    pairs = zip(run(before, feeds), run(after, feeds), strict=True)
    return max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in pairs)


def nodes_of(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    waiting: list[Any] = [model.graph, *model.functions]
    while waiting:
        for node in waiting.pop().node:
            yield node
            waiting += [each.g for each in node.attribute if each.HasField("g")]


def lines_without(model: onnx.ModelProto) -> int:
    """Return the number of nodes that have no line."""
    data = json.loads(_core.model_lines(model.SerializeToString()))
    return sum(not lines for graph in data["graphs"] for _, lines in graph["nodes"])


def line_of(fn: Callable[..., Any], text: str) -> int:
    lines, start = inspect.getsourcelines(fn)
    (found,) = [number for number, line in enumerate(lines) if text in line]
    return start + found


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    made = to_onnx(network, [("B", 16)], provenance="indexed")
    assert isinstance(made, onnx.ModelProto)
    return made


def test_float16_keeps_the_line_that_overflows(model: onnx.ModelProto) -> None:
    short, report = lower_precision(model, samples(8, 4, 16), to="float16", budget=1e-2)
    assert [line.line for line in report.kept] == [
        line_of(network, "** 2"),
        line_of(network, "energy.sum"),
    ]
    assert all("exceed float16" in line.reason for line in report.kept)
    assert report.held_back == 2
    assert report.error <= 1e-2
    assert report.bytes_short >= 0.95 * report.bytes_after
    assert report.bytes_after < 0.6 * report.bytes_before
    for (x,) in samples(4, 5, 16):
        assert error_of(model, short, [x]) < 1e-2
    types = {tensor.name: tensor.data_type for tensor in short.graph.initializer}
    assert types["W1"] == types["W2"] == TensorProto.FLOAT16
    assert {value.name for value in short.graph.output} == {"out_0"}
    onnx.checker.check_model(short)


@pytest.mark.parametrize("to", ["float16", "bfloat16", "int8", "int4"])
def test_every_inserted_node_has_a_line(model: onnx.ModelProto, to: str) -> None:
    budget = {"float16": 1e-2, "bfloat16": 0.1, "int8": 0.1, "int4": 0.5}[to]
    short, report = lower_precision(model, samples(4, 4, 16), to=to, budget=budget)
    assert report.inserted > 0
    assert lines_without(short) == 0
    names = [node.name for node in nodes_of(short)]
    assert len(names) == len(set(names))
    report_json = json.loads(json.dumps(report.to_json()))
    assert report_json["to"] == to


@pytest.mark.parametrize("number", range(len(NETWORKS)))
@pytest.mark.parametrize("to", ["float16", "bfloat16"])
def test_networks_with_loops_stay_within_the_budget(number: int, to: str) -> None:
    fn, inputs = NETWORKS[number]
    budget = 1e-2 if to == "float16" else 5e-2
    before = to_onnx(fn, list(inputs), provenance="indexed")
    assert isinstance(before, onnx.ModelProto)
    noisy = [
        [array + 0.1 * RANDOM.standard_normal(array.shape).astype(np.float32) for array in inputs]
        for _ in range(5)
    ]
    short, report = lower_precision(before, noisy[:4], to=to, budget=budget)
    assert report.error <= budget
    assert error_of(before, short, noisy[4]) <= budget
    assert lines_without(short) == 0
    if to == "float16":
        assert report.bytes_short >= 0.8 * report.bytes_after


def test_indices_are_not_counted_as_weights() -> None:
    indices = np.arange(4000, dtype=np.int32) * 7 % 16
    weight = np.linspace(-1, 1, 256, dtype=np.float32).reshape(16, 16)
    model = to_onnx(lambda x: jnp.tanh(x[:, indices]).reshape(-1, 16) @ weight, [("B", 16)])
    _, report = lower_precision(model, samples(8, 2, 16), to="float16")
    assert report.bytes_before == 4 * 256
    assert report.bytes_after == report.bytes_short == 2 * 256


def test_inputs_and_outputs_are_converted_if_wanted(model: onnx.ModelProto) -> None:
    short, _ = lower_precision(model, samples(4, 4, 16), convert_inputs_and_outputs=True)
    codes = {value.type.tensor_type.elem_type for value in short.graph.input}
    codes |= {value.type.tensor_type.elem_type for value in short.graph.output}
    assert codes == {TensorProto.FLOAT16}
    (x,) = samples(1, 4, 16)[0]
    (got,) = run(short, {"x": x.astype(np.float16)})
    (expected,) = run(model, {"x": x})
    assert got.dtype == np.float16
    assert np.abs(got - expected).max() < 1e-2 * np.abs(expected).max()


def test_what_the_user_keeps_is_kept(model: onnx.ModelProto) -> None:
    line = line_of(network, "share @ W2")
    short, report = lower_precision(model, samples(4, 4, 16), keep=[f"test_lowering.py:{line}"])
    kept = {each.line: each.reason for each in report.kept}
    assert kept[line] == "you asked to keep it"
    types = {tensor.name: tensor.data_type for tensor in short.graph.initializer}
    assert types["W2"] == TensorProto.FLOAT
    with pytest.raises(ConfigError, match=r"`keep` contains `networks`.*did you mean `network`"):
        lower_precision(model, samples(4, 4, 16), keep=["networks"])


def test_weights_alone_are_lowered(model: onnx.ModelProto) -> None:
    short, report = lower_precision(model, samples(4, 4, 16), weights_only=True)
    assert report.bytes_after < 0.6 * report.bytes_before
    assert all("weights are in float16" in line.reason for line in report.lowered)
    casts = [node for node in short.graph.node if node.op_type == "Cast"]
    assert len(casts) == 2


@pytest.mark.parametrize(
    ("to", "code", "ratio"), [("int8", TensorProto.UINT8, 0.35), ("int4", TensorProto.INT4, 0.25)]
)
def test_weights_become_whole_numbers(
    model: onnx.ModelProto, to: str, code: int, ratio: float
) -> None:
    short, report = lower_precision(model, samples(8, 4, 16), to=to, budget=0.6)
    weights = (each for each in short.graph.initializer if not each.name.endswith(".zero"))
    codes = [tensor.data_type for tensor in weights]
    assert codes.count(code) == 2
    assert report.bytes_after < ratio * report.bytes_before
    assert report.error <= 0.6
    for (x,) in samples(3, 6, 16):
        assert error_of(model, short, [x]) < 0.6
    names = {tensor.name for tensor in short.graph.initializer}
    assert ("W1.uint8" if to == "int8" else "W1.int4") in names


def test_operands_of_int8_are_quantized_with_calibrated_scales(model: onnx.ModelProto) -> None:
    short, _ = lower_precision(model, samples(16, 4, 16), to="int8", budget=0.1)
    operators = [node.op_type for node in short.graph.node]
    assert operators.count("QuantizeLinear") == 2
    only, _ = lower_precision(model, samples(16, 4, 16), to="int8", budget=0.1, weights_only=True)
    assert "QuantizeLinear" not in [node.op_type for node in only.graph.node]


def test_an_outlier_channel_keeps_its_operand_in_float32() -> None:
    def wide(x: Any) -> Any:
        scaled = jnp.tanh(x @ W1) * jnp.ones(32).at[5].set(3e4)
        return jnp.tanh(scaled @ W2)

    before = to_onnx(wide, [("B", 16)], provenance="indexed")
    _, report = lower_precision(before, samples(8, 4, 16), to="int8", budget=0.05)
    assert report.error <= 0.05
    assert report.bytes_short > 0.6 * W1.nbytes / 4


def test_functions_are_lowered() -> None:
    @jax2onnx.onnx_function
    def block(x: Any) -> Any:
        return jnp.tanh(x @ (W1 @ W1.T)) + 1e-3 * x

    def twice(x: Any) -> Any:
        return block(block(x))

    before = to_onnx(twice, [("B", 16)], provenance="indexed")
    assert before.functions
    short, report = lower_precision(before, samples(4, 4, 16))
    assert short.functions
    assert report.error < 1e-2
    assert lines_without(short) == 0


def test_a_branch_that_does_not_run_keeps_its_type() -> None:
    def choose(x: Any) -> Any:
        return lax.cond(x.sum() > 1e9, lambda y: jnp.sin(y) * 1e6, lambda y: jnp.tanh(y) * 2, x)

    before = to_onnx(choose, [(4, 16)], provenance="indexed")
    short, report = lower_precision(before, samples(4, 4, 16))
    assert report.error < 1e-2
    (large,) = run(short, {"x": np.full((4, 16), 1e9, np.float32)})
    (expected,) = run(before, {"x": np.full((4, 16), 1e9, np.float32)})
    assert np.allclose(large, expected, rtol=1e-2)


@pytest.mark.parametrize("largest", [1.0, 1e6])
def test_weights_of_a_branch_that_does_not_run_are_short_if_they_fit(largest: float) -> None:
    other = RANDOM.standard_normal((16, 32)).astype(np.float32)
    other[0, 0] = largest

    def choose(x: Any) -> Any:
        return lax.cond(x.sum() > 1e9, lambda y: jnp.sin(y @ other), lambda y: y @ W1, x)

    before = to_onnx(choose, [(4, 16)], provenance="indexed")
    short, report = lower_precision(before, samples(4, 4, 16))
    assert report.bytes_short == (2 if largest == 1 else 1) * W1.size * 2
    large = {"x": 1e6 * np.abs(samples(1, 4, 16)[0][0]) + np.float32(1e9)}
    assert np.isfinite(run(short, large)[0]).all()
    assert lines_without(short) == 0


def test_metrics_are_decibels_and_functions(model: onnx.ModelProto) -> None:
    data = samples(8, 4, 16)
    _, report = lower_precision(model, data, metric="snr", budget=45)
    assert report.error >= 45
    assert "dB" in str(report)
    seen = []

    def worst(expected: Any, got: Any) -> float:
        seen.append(set(expected))
        return float(np.abs(expected["out_0"] - got["out_0"]).max())

    _, report = lower_precision(model, data, metric=worst, budget=0.01)
    assert report.error <= 0.01
    assert seen[0] == {"out_0"}


def test_a_budget_that_nothing_meets_names_the_lines(model: onnx.ModelProto) -> None:
    with pytest.raises(ConfigError) as raised:
        lower_precision(model, samples(4, 4, 16), to="int4", budget=1e-6)
    assert "the model cannot be in int4 within the budget of 1e-06; in the way: `" in str(
        raised.value
    )
    assert f"test_lowering.py:{line_of(network, 'share @ W2')}" in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"budget": 0}, "`budget` is 0, which is not greater than 0"),
        ({"budget": float("nan")}, "`budget` is nan, which is not a number"),
        ({"budget": "1e-2"}, "`budget` is '1e-2', which is not a number"),
        ({"metric": "errors"}, "`errors` is not a metric: did you mean `error`?"),
        ({"to": "int16"}, "`int16` is not a type that values can be rounded to"),
        (
            {"to": "int8", "convert_inputs_and_outputs": True},
            "inputs and outputs cannot be int8: it has scales",
        ),
    ],
)
def test_wrong_arguments_are_refused(
    model: onnx.ModelProto, arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        lower_precision(model, samples(2, 4, 16), **arguments)
    assert says in str(raised.value)


def test_data_with_nan_is_refused(model: onnx.ModelProto) -> None:
    data = samples(3, 4, 16)
    data[1][0][0, 0] = np.nan
    with pytest.raises(InputSpecError, match="the input `x` of sample 1 contains NaN"):
        lower_precision(model, data)


def test_data_without_elements_is_refused(model: onnx.ModelProto) -> None:
    with pytest.raises(InputSpecError, match="the inputs have no elements"):
        lower_precision(model, [samples(1, 4, 16)[0][0][:0]])


def test_four_bits_need_a_new_opset() -> None:
    old = to_onnx(network, [("B", 16)], opset=18)
    with pytest.raises(ConfigError, match="opset 18, but 4-bit weights need opset 21"):
        lower_precision(old, samples(4, 4, 16), to="int4", budget=0.5)


def test_a_model_of_another_exporter_with_external_weights(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Softmax", ["h"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 32])],
        [numpy_helper.from_array(W1, "w")],
    )
    foreign = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "model.onnx"
    onnx.save(foreign, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    for to in ("float16", "int8"):
        short, report = lower_precision(path, samples(4, 4, 16), to=to, budget=0.1)
        assert report.bytes_after < 0.6 * report.bytes_before
        assert error_of(onnx.load(path), short, samples(1, 4, 16)[0]) < 0.1


@pytest.mark.parametrize("to", ["float16", "int8"])
def test_weights_that_are_also_inputs_are_lowered(to: str) -> None:
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 16]),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [16, 32]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 32])],
        [numpy_helper.from_array(W1, "w")],
    )
    old = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=3)
    short, report = lower_precision(old, samples(4, 4, 16), to=to, budget=0.1)
    assert report.bytes_after < 0.6 * report.bytes_before
    assert [value.name for value in short.graph.input] == ["x"]


def test_one_sample_is_measured_and_said_to_be_the_only_one(model: onnx.ModelProto) -> None:
    _, report = lower_precision(model, samples(1, 4, 16))
    assert report.held_back == 0
    assert any("no data was held back" in note for note in report.notes)


def test_the_report_is_text_and_html(model: onnx.ModelProto) -> None:
    _, report = lower_precision(model, samples(8, 4, 16))
    text = str(report)
    assert "the model: 2 of 4 lines are in float16" in text
    assert "on 2 samples that were held back; the budget is 0.01" in text
    assert "exceed float16" in report._repr_html_()


def test_compare_finds_the_lines_of_the_new_model(model: onnx.ModelProto) -> None:
    short, _ = lower_precision(model, samples(4, 4, 16))
    report = jax2onnx.compare(model, short, samples(1, 4, 16)[0], rtol=2e-2, atol=1e-3)
    assert report.first is None
    assert {row.line.line for row in report.rows if row.line} >= {line_of(network, "x @ W1")}


def unnamed(*nodes: onnx.NodeProto, dtype: Any, weight: int = 16) -> onnx.ModelProto:
    """Return a model of `x` whose nodes have no names, with the weight `w`."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weights = [numpy_helper.from_array(W1[:, :weight].astype(dtype), "w")]
    inputs = [helper.make_tensor_value_info("x", kind, [4, 16])]
    outputs = [helper.make_tensor_value_info("y", kind, [4, weight])]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_operators_without_kernels_keep_their_type_if_nodes_have_no_names() -> None:
    model = unnamed(
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Tanh", ["h"], ["y"]),
        dtype=np.float32,
    )
    short, report = lower_precision(model, samples(8, 4, 16), to="bfloat16", budget=0.05)
    assert "no kernels in bfloat16 for `MatMul`" in str(report)
    new = np.ones((4, 16), np.float32)
    assert error_of(model, short, [new]) < 0.05


def test_a_short_weight_of_a_product_of_float64_becomes_float64_again() -> None:
    model = unnamed(helper.make_node("MatMul", ["x", "w"], ["y"]), dtype=np.float64)
    data = [[each.astype(np.float64) for each in some] for some in samples(8, 4, 16)]
    short, report = lower_precision(model, data, to="bfloat16", budget=0.05)
    assert report.bytes_after == report.bytes_before // 4
    assert error_of(model, short, [np.ones((4, 16))]) < 0.05
