"""`compare` ends with a line or a reason, whatever is wrong with the models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx
import pytest

from jax2onnx import ConfigError, allclose, compare, find_nan, to_onnx
from testkit.comparing import copied, first_node, without_double_casts
from testkit.lines import line_of

WEIGHT = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)


def net(x: Any, scale: Any) -> Any:
    hidden = jnp.tanh(x @ WEIGHT)
    return jnp.sqrt(hidden * scale)


def refused(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with an operator that no runtime has."""
    changed = copied(model)
    first_node(changed, "Tanh").op_type = "Tanhh"
    return changed


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return to_onnx(net, [(3, 4), np.float32(2)], provenance="indexed")


@pytest.mark.parametrize("is_jax", [True, False], ids=["JAX", "model"])
def test_a_model_that_does_not_load_leads_to_the_line(
    model: onnx.ModelProto, *, is_jax: bool
) -> None:
    report = compare(net if is_jax else model, refused(model), [X, np.float32(2)])
    assert not report
    first = report.first
    assert first is not None
    assert (first.kind, first.op, first.line) == ("failure", "Tanhh", line_of(net, "jnp.tanh"))
    assert first.sure
    text = str(report)
    assert "error: ONNX Runtime refuses" in text
    assert "because of `tanh` (Tanhh)" in text
    assert "No Op registered for Tanhh" in text
    assert "received the numbers" not in text


def test_a_reference_that_does_not_load_is_an_error_with_the_line(model: onnx.ModelProto) -> None:
    with pytest.raises(ConfigError) as raised:
        compare(refused(model), model, [X, np.float32(2)])
    text = str(raised.value)
    assert text.startswith("ONNX Runtime refuses the first model: ")
    assert f"{line_of(net, 'jnp.tanh')} |     hidden = jnp.tanh(x @ WEIGHT)" in text


def test_a_model_without_provenance_that_does_not_load_leads_to_the_node() -> None:
    plain = to_onnx(net, [(3, 4), np.float32(2)])
    report = compare(plain, refused(plain), [X, np.float32(2)])
    assert report.first is not None
    assert (report.first.node, report.first.op, report.first.line) == ("tanh", "Tanhh", None)
    assert 'export it with `provenance="indexed"`' in str(report)


def test_allclose_adds_the_line_to_the_error_of_the_runtime(model: onnx.ModelProto) -> None:
    with pytest.raises(Exception, match="Tanhh") as raised:
        allclose(net, refused(model), [X, np.float32(2)])
    assert "hidden = jnp.tanh(x @ WEIGHT)" in "\n".join(raised.value.__notes__)


def test_nan_on_both_sides_is_noted(model: onnx.ModelProto) -> None:
    report = compare(net, model, [X, np.float32(-2)])
    assert report
    assert any("contains NaN on both sides" in note for note in report.notes)
    assert "find_nan" in str(report)
    finite = compare(net, model, [np.zeros_like(X), np.float32(2)])
    assert not finite.notes


def test_a_nan_that_reaches_other_elements_is_blamed_only_if_an_output_differs() -> None:
    def spectrum(x: Any) -> Any:
        return jnp.abs(jnp.fft.fft(x))

    x = np.array([1, np.nan, np.inf, 2, 3], np.float32)
    exported = to_onnx(spectrum, [x], provenance="indexed")
    report = compare(spectrum, exported, [x])
    assert report, report
    assert any("other elements than JAX does" in note for note in report.notes)
    assert all(row.statistics.nans == 0 and row.statistics.loss < 1e-6 for row in report.rows)
    for node in exported.graph.node:
        if node.op_type == "DFT":
            (inverse,) = [each for each in node.attribute if each.name == "inverse"] or [
                node.attribute.add(name="inverse", type=onnx.AttributeProto.INT)
            ]
            inverse.i = 1
    finite = np.arange(5, dtype=np.float32)
    assert compare(spectrum, exported, [finite]).first is not None


def test_inputs_have_the_names_of_parameters_or_of_the_model() -> None:
    def apply(params: Any, image: Any) -> Any:
        return jnp.tanh(image @ params["w"] + params["b"])

    params = {"w": WEIGHT, "b": WEIGHT[0]}
    flat = to_onnx(apply, [params, X], provenance="indexed")
    named = to_onnx(apply, [params, X], provenance="indexed", input_names=["b", "w", "pixels"])
    leaves = [params["b"], params["w"], X]
    for exported in (flat, named):
        names = [value.name for value in exported.graph.input]
        by_input = dict(zip(names, leaves, strict=True))
        assert compare(exported, exported, by_input)
        assert allclose(apply, exported, {"image": X, "params": params})
        assert compare(apply, exported, {"image": X, "params": params})
    assert compare(apply, flat, dict(zip(["params.b", "params.w", "image"], leaves, strict=True)))

    def simple(a: Any, b: Any) -> Any:
        return a - b

    renamed = to_onnx(simple, [(4,), (4,)], input_names=["left", "right"])
    inputs = {"right": X[0], "left": X[1]}
    assert compare(simple, renamed, inputs)
    assert allclose(simple, renamed, inputs)
    with pytest.raises(ConfigError, match="has no parameter `middle`"):
        compare(simple, renamed, {"middle": X[0], "left": X[1]})


def halved(model: onnx.ModelProto, kept: list[str]) -> onnx.ModelProto:
    """Return the model in float16, except for some nodes."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    short = convert_float_to_float16(
        copied(model), keep_io_types=True, op_block_list=[], node_block_list=kept
    )
    return without_double_casts(short)


def test_what_overflowed_operands_do_is_not_the_error_of_their_reader() -> None:
    mix = jnp.array([[1, 0], [1, 0]], jnp.float32)

    def mixed(x: Any) -> Any:
        large = jnp.exp(x)
        sums = large @ mix
        return jnp.tanh(sums)

    # The sum of the first row overflows. In the second one, exp overflows, and 0 times inf is NaN.
    x = np.array([[10.6, 10.6], [12, 0.5]], np.float32)
    exported = to_onnx(mixed, [x], provenance="indexed")
    report = compare(exported, halved(exported, []), [x])
    assert report.first is not None
    assert report.first.op == "Exp"
    found = {row.ops[0]: row.statistics for row in report.rows[:2]}
    assert {op: (each.nans, each.infinities) for op, each in found.items()} == {
        "Exp": (0, 1),
        "MatMul": (0, 1),
    }


def test_a_blamed_node_of_a_converted_model_is_kept_in_float32() -> None:
    def large(x: Any) -> Any:
        return jnp.log(jnp.exp(x) + 1.0)

    exported = to_onnx(large, [(4,)], provenance="indexed")
    inputs = [np.array([1, 0.3, -2, 40], np.float32)]
    report = compare(exported, halved(exported, []), inputs)
    assert report.first is not None
    assert report.first.node in report.keep_float32()
    assert compare(exported, halved(exported, report.keep_float32()), inputs)


def test_nodes_whose_numbers_become_zero_are_kept_in_float32() -> None:
    def small(x: Any) -> Any:
        return jnp.exp(x) * x / jnp.sqrt(jnp.square(x) + 1e-9)

    exported = to_onnx(small, [(4,)], provenance="indexed")
    inputs = [np.array([0.01, 0.3, -2, 5e-5], np.float32)]
    report = compare(exported, halved(exported, []), inputs, rtol=1e-2)
    assert not report
    assert set(report.keep_float32()) >= {"square", "add"}
    assert any("too small for numbers of `square`" in note for note in report.notes)
    better = compare(exported, halved(exported, report.keep_float32()), inputs, rtol=1e-2)
    assert all(output.is_match for output in better.outputs)


def test_a_converted_model_in_which_only_rounding_adds_up_says_so() -> None:
    def deep(x: Any) -> Any:
        for _ in range(12):
            x = jnp.tanh(x @ WEIGHT) * 1.3
        return x

    exported = to_onnx(deep, [(3, 4)], provenance="indexed")
    report = compare(exported, halved(exported, []), [X], atol=0)
    assert not report
    assert report.keep_float32() == []
    assert any("many small rounding errors" in note for note in report.notes)


def test_a_sum_whose_terms_cancel_is_rounding() -> None:
    def total(x: Any) -> Any:
        return x @ jnp.ones((12, 3)), x.sum(-1)

    model = to_onnx(total, [(50, 12)], provenance="indexed")
    x = np.random.default_rng(1).normal(size=(50, 12)).astype(np.float32)
    x -= x.mean(-1, keepdims=True)
    assert compare(total, model, [x])
    # A wrong weight is not rounding.
    (weight,) = [tensor for tensor in model.graph.initializer if len(tensor.dims) == 2]
    wrong = np.ones((12, 3), np.float32)
    wrong[3, 1] = 1.0001
    weight.CopyFrom(onnx.numpy_helper.from_array(wrong, weight.name))
    report = compare(total, model, [x])
    assert report.first is not None
    assert report.first.op == "MatMul"


def test_a_refused_model_without_provenance_has_the_line_of_the_function() -> None:
    def net(x: Any) -> Any:
        return jnp.exp(x @ jnp.ones((4, 3)))

    model = to_onnx(net, [(2, 4)])
    node = next(node for node in model.graph.node if node.op_type == "MatMul")
    node.input[1] = "nothing"
    report = compare(net, model, [np.ones((2, 4), np.float32)])
    shown = str(report)
    assert shown.startswith("error: ONNX Runtime refuses the model because of `dot_general`")
    assert "return jnp.exp(x @ jnp.ones((4, 3)))" in shown
    assert "0 of 2 nodes are compared one by one, 2 did not run\n" in shown + "\n"
    other = compare(model_of(net), model, [np.ones((2, 4), np.float32)])
    assert str(other).startswith("error: ONNX Runtime refuses the second model because of")
    assert 'export it with `provenance="indexed"`' in str(other)


def model_of(function: Any) -> onnx.ModelProto:
    return to_onnx(function, [(2, 4)])


@pytest.mark.parametrize(
    ("contents", "what"),
    [
        (b"", ": the file is empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", ": it is a pointer of Git LFS"),
        (b"\x08\x0b\x12", ": it is truncated"),
    ],
)
def test_a_file_that_is_not_a_model_is_described(
    contents: bytes, what: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(contents)
    with pytest.raises(ConfigError, match="is not an ONNX model" + what):
        compare(path, path, [X])


def from_torch() -> onnx.ModelProto:
    """Return a model of another exporter, with a NaN in its output."""
    info = onnx.helper.make_tensor_value_info
    nodes = [
        onnx.helper.make_node("Log", ["x"], ["low"], "/net/Log"),
        onnx.helper.make_node("Relu", ["low"], ["y"], "/net/Relu"),
    ]
    ends = [[info(name, onnx.TensorProto.FLOAT, [2])] for name in "xy"]
    graph = onnx.helper.make_graph(nodes, "net", *ends)
    opset = onnx.helper.make_opsetid("", 20)
    made = onnx.helper.make_model(
        graph, opset_imports=[opset], ir_version=9, producer_name="pytorch"
    )
    onnx.checker.check_model(made)
    return made


def test_a_model_of_another_exporter_is_told_how_that_exporter_records_lines() -> None:
    before, after = from_torch(), from_torch()
    after.graph.node[0].op_type = "Exp"
    report = compare(before, after, [np.ones(2, np.float32)])
    assert "the line is unknown: the model contains no source lines" in str(report)
    assert "torch.onnx.export(..., dynamo=True)" in str(report)
    # Nodes stand for lines that are unknown.
    assert "`/net/Log`" in report.table()
    found = find_nan(before, [np.float32([-1, 1])])
    assert "torch.onnx.export(..., dynamo=True)" in str(found)


def test_a_node_that_another_tool_added_has_no_line() -> None:
    added = to_onnx(lambda x: x * 2, [(3,)], provenance="indexed")
    node = onnx.helper.make_node("Exp", [added.graph.output[0].name], ["later"], "added")
    added.graph.node.append(node)
    added.graph.output[0].name = "later"
    found = find_nan(added, [np.full(3, 1e4, np.float32)])
    assert found.first is not None
    assert found.first.op == "Exp"
    assert "another tool added the node" in str(found)
