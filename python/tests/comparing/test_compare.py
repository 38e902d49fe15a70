"""`compare` finds the first wrong number of a model, also inside bodies."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax
from onnx import helper

import jax2onnx
from jax2onnx import ConfigError, InputSpecError, _core, compare, to_onnx
from testkit.comparing import (
    copied,
    first_node,
    made_model,
    with_operator,
    with_weight,
    without_double_casts,
)
from testkit.lines import line_of

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.standard_normal((4, 4)).astype(np.float32) * 0.4
X = RANDOM.standard_normal((6, 4)).astype(np.float32)


def nested(x: Any) -> Any:
    hidden = jnp.tanh(x @ WEIGHT)

    def step(state: Any, row: Any) -> Any:
        state = jnp.sin(state) * row

        def inner(total: Any, part: Any) -> Any:
            total = total * 0.5 + part
            return total, jnp.exp(-total)

        state, ys = lax.scan(inner, state, jnp.stack([state, row] * 15))
        return state, lax.cond(ys.sum() > 0, jnp.cos, jnp.square, state)

    state, ys = lax.scan(step, hidden[0], jnp.tile(hidden, (9, 1)))
    state, _ = lax.while_loop(
        lambda carry: carry[1] < 40, lambda carry: (jnp.cos(carry[0]), carry[1] + 1), (state, 0)
    )
    return state, ys


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return to_onnx(nested, [(6, 4)], provenance="indexed")


def test_a_model_agrees_with_itself(model: onnx.ModelProto) -> None:
    report = compare(model, model, [X])
    assert report
    assert report.first is None
    assert str(report).startswith("the second model agrees with the first model\n")
    assert report.coverage.compared > 20


@pytest.mark.parametrize(
    ("op", "other", "text", "iterations"),
    [
        ("Tanh", "Sigmoid", "hidden = ", ()),
        ("Sin", "Cos", "jnp.sin", (0,)),
        # The inner loop returns its state, and the exponential of all of its rounds follows.
        ("Exp", "Sin", "jnp.exp", (0,)),
    ],
)
def test_the_line_and_the_iterations_of_a_wrong_operator_are_found(
    model: onnx.ModelProto, op: str, other: str, text: str, iterations: tuple[int, ...]
) -> None:
    report = compare(model, with_operator(model, op, other), [X])
    first = report.first
    assert first is not None
    assert first.line == line_of(nested, text)
    assert first.iterations == iterations
    assert first.op == other
    assert first.sure
    assert first.expected != first.got
    assert report.rows[0].line is not None
    assert report.rows[0].line.line == first.line
    assert str(first.line) in str(report)
    assert report.table().splitlines()[1].count("test_compare.py")


def test_a_wrong_weight_is_found_where_it_is_read(model: onnx.ModelProto) -> None:
    place = next(i for i, each in enumerate(model.graph.initializer) if list(each.dims) == [4, 4])

    def spoiled(array: np.ndarray) -> np.ndarray:
        array[2, 1] += 0.01
        return array

    first = compare(model, with_weight(model, spoiled, place), [X]).first
    assert first is not None
    assert (first.line, first.op) == (line_of(nested, "x @ WEIGHT"), "MatMul")
    assert first.index is not None
    assert first.index[1] == 1


def test_an_error_is_found_in_a_branch_that_is_taken_only() -> None:
    def choose(x: Any) -> Any:
        return lax.scan(lambda c, t: (c, lax.cond(t > 3, jnp.sin, jnp.cos, t * c)), 0.5, x)[1]

    exported = to_onnx(choose, [(8,)], provenance="indexed")
    changed = with_operator(exported, "Sin", "Tan")
    first = compare(exported, changed, [np.arange(8, dtype=np.float32)]).first
    assert first is not None
    assert first.iterations == (4,)
    assert compare(exported, changed, [np.zeros(8, np.float32)]).first is None


def test_an_error_in_a_function_is_found() -> None:
    @jax2onnx.onnx_function
    def block(x: Any) -> Any:
        return jnp.tanh(x) * jnp.sin(x)

    exported = to_onnx(lambda x: block(block(x)), [(4,)], provenance="indexed")
    assert exported.functions
    first = compare(exported, with_operator(exported, "Sin", "Cos"), [X[0]]).first
    assert first is not None
    assert (first.op, first.sure) == ("Cos", True)


def _scan(**settings: Any) -> onnx.ModelProto:
    """Return a scan over two arrays along other axes, one of them backward."""
    vector = helper.make_tensor_value_info("", onnx.TensorProto.FLOAT, [3])
    names = ["state", "a", "b", "next", "out"]
    state, a, b, after, out = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in names
    )
    del vector
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["a", "b"], ["ab"], "mul"),
            helper.make_node("Add", ["state", "ab"], ["next"], "add"),
            helper.make_node("Tanh", ["next"], ["out"], "tanh"),
        ],
        "body",
        [state, a, b],
        [after, out],
    )
    attributes = {
        "num_scan_inputs": 2,
        "scan_input_axes": [0, 1],
        "scan_input_directions": [0, 1],
        "scan_output_directions": [1],
        "scan_output_axes": [1],
        **settings,
    }
    node = helper.make_node(
        "Scan", ["s", "x", "y"], ["last", "rows"], "scan", body=body, **attributes
    )
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "main",
        [
            info("s", 1, [3]),
            info("x", 1, [5, 3]),
            info("y", 1, [3, 5]),
        ],
        [info("last", 1, [3]), info("rows", 1, [3, 5])],
    )
    opsets = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


SCAN_INPUTS = {
    "s": X[0, :3].copy(),
    "x": RANDOM.standard_normal((5, 3)).astype(np.float32),
    "y": RANDOM.standard_normal((3, 5)).astype(np.float32),
}


def test_a_scan_with_other_axes_and_directions_agrees_with_itself() -> None:
    assert compare(_scan(), _scan(), SCAN_INPUTS)
    wrong = with_operator(_scan(), "Mul", "Sub")
    first = compare(_scan(), wrong, SCAN_INPUTS).first
    assert first is not None
    assert (first.node, first.iterations) == ("mul", (0,))
    assert first.expected == pytest.approx(
        SCAN_INPUTS["x"][0, first.index[0]] * SCAN_INPUTS["y"][first.index[0], 4]
    )


@pytest.mark.parametrize(
    "settings", [{"scan_input_directions": [0, 0]}, {"scan_output_directions": [0]}]
)
def test_a_wrong_attribute_of_a_scan_is_found(settings: Any) -> None:
    first = compare(_scan(), _scan(**settings), SCAN_INPUTS).first
    assert first is not None
    assert first.node == "scan"


def test_outputs_of_a_body_that_are_exchanged_are_found() -> None:
    wrong = _scan()
    body = wrong.graph.node[0].attribute[0].g
    body.output[0].name, body.output[1].name = "out", "next"
    first = compare(_scan(), wrong, SCAN_INPUTS).first
    assert first is not None
    assert first.node == "scan"
    assert first.kind == "input"


def test_a_wrong_initial_state_is_found() -> None:
    def grow(x: Any) -> Any:
        def step(state: Any) -> Any:
            x, total = state
            return x * 1.5, total + jnp.abs(x).sum()

        return lax.while_loop(lambda state: state[1] < 50.0, step, (x, 1.0))

    model = to_onnx(grow, [X])
    loop = first_node(model, "Loop")
    constants = [(i, each) for i, each in enumerate(model.graph.initializer)]
    (place,) = [
        i
        for i, each in constants
        if each.name in loop.input and each.data_type == onnx.TensorProto.FLOAT
    ]
    first = compare(model, with_weight(model, lambda number: number + 1, place), [X]).first
    assert first is not None
    assert (first.op, first.kind) == ("Loop", "input")


def test_values_without_a_partner_belong_to_the_next_value_that_has_one() -> None:
    def steps(x: Any) -> Any:
        y = jnp.sin(x)
        z = jnp.exp(y)
        return jnp.tanh(z)

    exported = to_onnx(steps, [(4,)], provenance="indexed")
    wrong = with_operator(exported, "Sin", "Cos")
    names = {"sin": "renamed_a", "exp": "renamed_b"}
    for node in wrong.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    report = compare(exported, wrong, [X[0]])
    first = report.first
    assert first is not None
    assert not first.sure
    start = line_of(steps, "jnp.sin")
    assert {line.line for line in first.lines} == {start, start + 1, start + 2}
    assert len(first.nodes) == 3
    assert report.coverage.covered == 2


def test_an_operator_that_fails_is_found(model: onnx.ModelProto) -> None:
    wrong = copied(model)
    node = first_node(wrong, "Tile")
    node.op_type = "Expand"
    first = compare(model, wrong, [X]).first
    assert first is not None
    assert (first.kind, first.node) == ("failure", node.name)


def test_models_are_paths_bytes_and_protos_with_weights_in_files(
    tmp_path: Path, model: onnx.ModelProto
) -> None:
    large = np.zeros((2048, 4096), np.float32)
    large[:4, :4] = WEIGHT

    def product(x: Any) -> Any:
        return jnp.tanh(jnp.pad(x, ((0, 0), (0, 2044))) @ large)

    path = tmp_path / "model.onnx"
    to_onnx(product, [(6, 4)], return_mode="file", output_path=path, weights="external")
    inline = onnx.load(path)
    wrong = with_operator(inline, "Tanh", "Sin")
    for one, other in ((path, wrong), (inline, wrong), (str(path), wrong.SerializeToString())):
        assert compare(one, path, [X])
        first = compare(one, other, [X]).first
        assert first is not None
        assert first.op == "Sin"
    assert max(len(tensor.raw_data) for tensor in inline.graph.initializer) > 1 << 20


def test_a_converted_model_shows_what_overflows_and_what_to_keep() -> None:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    def scores(x: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            logits = row * 300.0 * row
            peak = jnp.exp(logits - logits.max())
            return 0.5 * state + 0.01 * row, peak / peak.sum()

        return lax.scan(step, jnp.zeros(4), x)

    exported = to_onnx(scores, [(40, 4)], provenance="indexed")
    inputs = [np.linspace(0.1, 20, 160, dtype=np.float32).reshape(40, 4)]
    short = convert_float_to_float16(copied(exported), keep_io_types=True, op_block_list=[])
    report = compare(exported, short, inputs)
    first = report.first
    assert first is not None
    assert first.kind == "infinity"
    assert first.line == line_of(scores, "logits = ")
    kept = report.keep_float32()
    better = convert_float_to_float16(
        copied(exported), keep_io_types=True, op_block_list=[], node_block_list=kept
    )
    later = compare(exported, without_double_casts(better), inputs)
    assert all(output.error < 0.05 for output in later.outputs)
    assert not any(row.statistics.infinities for row in later.rows)


def test_a_quantized_model_is_compared(tmp_path: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    def layers(x: Any) -> Any:
        return jnp.tanh(jnp.tanh(x @ WEIGHT) @ WEIGHT)

    path, quantized = tmp_path / "model.onnx", tmp_path / "int8.onnx"
    to_onnx(layers, [(6, 4)], provenance="indexed", return_mode="file", output_path=path)
    # Products with signed weights saturate on some CPUs.
    quantize_dynamic(path, quantized, weight_type=QuantType.QUInt8)
    report = compare(path, quantized, [X])
    assert report.rows[0].statistics.loss > 1e-4
    assert report.rows[0].line is not None
    assert report.first is None


def test_wrong_inputs_are_refused(model: onnx.ModelProto) -> None:
    for inputs, message in (
        ({}, r"the input `x` float32\[6,4\] is missing"),
        (np.ones((6, 4), np.float32), r"`inputs` is an array, .*: use \[array\]$"),
        ({"y": X}, "the model has no input `y`"),
        ([X[:3]], r"the model takes `x` float32\[6,4\], but got float32\[3,4\]"),
        ([X, X], "the model takes 1 input "),
    ):
        with pytest.raises(InputSpecError, match=message):
            compare(model, model, inputs)
    with pytest.raises(ConfigError, match="no provider `CPUExecutionProvide`"):
        compare(model, model, [X], providers=["CPUExecutionProvide"])
    with pytest.raises(ConfigError, match="there is no model at"):
        compare(model, "missing.onnx", [X])
    with pytest.raises(ConfigError, match="is not an ONNX model"):
        compare(model, b"no model", [X])
    with pytest.raises(ConfigError, match="`rtol` is -1"):
        compare(model, model, [X], rtol=-1)


def test_the_reproducer_shows_the_error_of_the_node_alone(
    tmp_path: Path, model: onnx.ModelProto
) -> None:
    report = compare(model, with_operator(model, "Sin", "Cos"), [X])
    script = report.save_reproducer(tmp_path / "case")
    part = onnx.load(tmp_path / "case" / "model.onnx")
    assert [node.op_type for node in part.graph.node] == ["Cos"]
    printed = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert "largest difference" in printed.stdout
    assert float(printed.stdout.rsplit(" ", 1)[1]) > 0.1
    with pytest.raises(ConfigError, match="nothing to reproduce"):
        compare(model, model, [X]).save_reproducer(tmp_path)


def test_the_report_is_data_too(model: onnx.ModelProto) -> None:
    report = compare(model, with_operator(model, "Sin", "Cos"), [X])
    data = json.loads(json.dumps(report.to_json()))
    assert data["version"] == 1
    assert data["agrees"] is False
    assert data["first"]["iterations"] == [0]
    assert data["first"]["line"] == line_of(nested, "jnp.sin")
    assert data["coverage"]["nodes_compared"] == report.coverage.compared
    assert "<table>" in report._repr_html_()


def test_a_fault_of_a_function_that_is_called_later_is_not_the_first() -> None:
    def both(x: Any) -> Any:
        y = jnp.sin(x)
        return jnp.cos(y) + jnp.tanh(x)

    exported = to_onnx(both, [(4,)], provenance="indexed")
    wrong = with_operator(with_operator(exported, "Tanh", "Exp"), "Sin", "Cos")
    first = compare(exported, wrong, [X[0]]).first
    assert first is not None
    assert first.line == line_of(both, "jnp.sin")


def test_chaos_in_a_loop_is_not_an_error() -> None:
    def chaotic(x: Any) -> Any:
        return lax.fori_loop(0, 200, lambda _, y: 3.99 * y * (1 - y), x)

    exported = to_onnx(chaotic, [(4,)], provenance="indexed")
    inputs = [np.array([0.1, 0.2, 0.3, 0.4], np.float32)]
    first = compare(chaotic, exported, inputs).first
    assert first is None


@pytest.mark.parametrize("optimize", [True, False])
def test_a_runtime_error_that_a_quotient_amplifies_has_no_sure_line(optimize: bool) -> None:
    # ONNX Runtime's cosine of pi / 2 is 0 in double precision, and JAX's is 6e-17.
    def divided(x: Any) -> Any:
        angle = jnp.arctan2(jnp.cos(x), 0 * x)
        return angle + jnp.tan(x / 2) / jnp.cos(x)

    inputs = [np.array([0.3, np.pi / 2, 1.0, -np.pi / 2])]
    exported = to_onnx(divided, inputs, enable_double_precision=True, optimize=optimize)
    report = compare(divided, exported, inputs)
    assert not report
    assert report.first is None or not report.first.sure


def test_a_sum_of_large_numbers_that_cancel_has_no_sure_line() -> None:
    def cancelled(x: Any) -> Any:
        return jnp.tanh(jnp.sum(jnp.sin(x) / jnp.cos(x) ** 2))

    inputs = [np.array([0.3, np.pi / 2, 1.0, -np.pi / 2])]
    exported = to_onnx(cancelled, inputs, enable_double_precision=True)
    first = compare(cancelled, exported, inputs).first
    assert first is None or not first.sure


@pytest.mark.slow
def test_jax_is_the_reference_of_a_function(model: onnx.ModelProto) -> None:
    jax.clear_caches()
    assert compare(nested, model, [X])
    first = compare(nested, with_operator(model, "Sin", "Cos"), {"x": X}).first
    assert first is not None
    assert (first.line, first.iterations) == (line_of(nested, "jnp.sin"), (0,))


@pytest.mark.slow
def test_a_model_without_provenance_has_lines_if_jax_is_the_reference() -> None:
    plain = to_onnx(nested, [(6, 4)], provenance="off")
    first = compare(nested, with_operator(plain, "Exp", "Sin"), [X]).first
    assert first is not None
    assert first.line == line_of(nested, "jnp.exp")


def test_another_function_is_wrong_where_it_differs() -> None:
    def one(x: Any) -> Any:
        return jnp.tanh(jnp.sin(x) * 2)

    def other(x: Any) -> Any:
        y = jnp.sin(x) * 3
        return jnp.tanh(y)

    first = compare(other, to_onnx(one, [(4,)]), [X[0]]).first
    assert first is not None
    assert first.line == line_of(other, "jnp.sin")


def test_sizes_with_names_are_those_of_the_inputs() -> None:
    def batched(x: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            state = jnp.sin(state + row.reshape(row.shape[0], 4))
            return state, state.mean(axis=0)

        last, rows = lax.scan(step, jnp.zeros((x.shape[0], 4)), jnp.stack([x] * 40))
        return jnp.broadcast_to(rows.sum(0), (x.shape[0], 4)) / x.shape[0] + last

    exported = to_onnx(batched, [("B", 4)])
    report = compare(batched, exported, [X])
    assert report
    first = compare(batched, with_operator(exported, "Sin", "Cos"), [X]).first
    assert first is not None
    assert (first.line, first.iterations) == (line_of(batched, "jnp.sin"), (0,))


def test_inputs_may_be_nested() -> None:
    def nest(params: Any, x: Any) -> Any:
        return jnp.tanh(x @ params["kernel"] + params["bias"]) * params["scales"][1]

    params = {"kernel": WEIGHT, "bias": X[0], "scales": [np.float32(2), np.float32(3)]}
    exported = to_onnx(nest, [params, ("B", 4)])
    assert compare(nest, exported, [params, X])
    wrong = with_operator(exported, "Tanh", "Sin")
    first = compare(nest, wrong, {"params": params, "x": X}).first
    assert first is not None
    assert first.op == "Sin"
    names = [value.name for value in exported.graph.input]
    flat = dict(zip(names, [X[0], WEIGHT, np.float32(2), np.float32(3), X], strict=True))
    assert compare(nest, exported, flat)


def test_loops_that_count_and_branch_are_compared_with_jax() -> None:
    def newton(x: Any) -> Any:
        def improve(carry: Any) -> Any:
            y, count = carry
            y = y - lax.cond(count > 2, lambda v: (v * v - x) / (2 * v), lambda v: v * 0.01, y)
            return y, count + 1

        return lax.while_loop(lambda carry: carry[1] < 9, improve, (x, 0))

    exported = to_onnx(newton, [(4,)], unroll=0)
    inputs = [np.array([1, 2, 3, 4], np.float32)]
    report = compare(newton, exported, inputs)
    assert report
    first = compare(newton, with_operator(exported, "Div", "Add"), inputs).first
    assert first is not None
    assert first.iterations == (3,)
    assert first.expected != first.got


@pytest.mark.parametrize("options", [{"optimize": False}, {"unroll": 0}])
def test_a_model_with_other_options_is_compared_node_by_node(options: Any) -> None:
    def short(x: Any) -> Any:
        return lax.scan(lambda c, t: (jnp.sin(c) + t, jax.nn.gelu(c)), x[0], x[:3])

    exported = to_onnx(short, [(6, 4)], **options)
    report = compare(short, exported, [X])
    assert report
    assert report.notes == ()
    assert report.coverage.covered == 0


def test_a_model_of_another_function_says_that_its_values_are_unknown() -> None:
    wrong = made_model(
        [
            helper.make_node("Exp", ["x"], ["a"], "exp"),
            helper.make_node("Neg", ["a"], ["b"], "neg"),
            helper.make_node("Abs", ["b"], ["z"], "abs"),
        ],
        [("x", 1, [6, 4])],
        [("z", 1, [6, 4])],
    )
    report = compare(lambda x: jnp.exp(x), wrong, [X])
    assert report.first is None
    assert any("of the values of the model" in note for note in report.notes)

    def other(x: Any) -> Any:
        y = jnp.exp(x)
        return y + 1

    report = compare(other, wrong, [X])
    assert report.first is not None
    assert not report.first.sure
    assert report.first.nodes == ("exp", "neg", "abs")


def test_operators_are_listed_by_a_property() -> None:
    assert {"Transpose", "Where"} <= set(_core.operators("exact"))
    assert "Tanh" not in _core.operators("rounds_once")
    with pytest.raises(ValueError, match="no property is called `slow`"):
        _core.operators("slow")


def recurrence(k: Any, v: Any, g: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        k, v, g = x
        state = jax.nn.sigmoid(g)[:, None] * state + k[:, None] * v
        return state, state.sum(0)

    return jnp.tanh(lax.scan(step, jnp.zeros((4, 4)), (k, v, g))[1])


@pytest.mark.parametrize("target", ["onnxruntime>=1.30", "onnxruntime>=1.31"])
def test_a_fault_in_an_operator_that_replaces_a_loop_has_the_lines_of_the_loop(target: str) -> None:
    inputs = list(RANDOM.standard_normal((3, 40, 4)).astype(np.float32))
    model = to_onnx(recurrence, inputs, target=[target], provenance="indexed")
    assert compare(recurrence, model, inputs).first is None
    changed = copied(model)
    if target.endswith("31"):
        node = first_node(changed, "LinearAttention")
        (scale,) = [attr for attr in node.attribute if attr.name == "scale"]
        scale.f = 1.5
    else:
        graphs = (attr.g for node in changed.graph.node for attr in node.attribute)
        (chunks,) = [graph for graph in graphs if graph.name == "recurrence/fused"]
        node = [node for node in chunks.node if node.op_type == "Add"][-1]
        node.op_type = "Sub"
    first = compare(recurrence, changed, inputs).first
    assert first is not None
    assert node.name in first.nodes
    lines = [line.line for line in first.lines]
    assert line_of(recurrence, "state = jax.nn") in lines
