"""What was fused, what nearly was, and why not, with the line of the user."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

import jax2onnx
from jax2onnx import to_onnx
from testkit.accuracy import metadata
from testkit.lines import line_of


def net(x: jax.Array) -> jax.Array:
    y = jax.nn.gelu(x)
    z = jax.nn.softmax(y, axis=(0, 1))
    return jax.nn.softmax(z)


def lines(**options: object) -> list[list[str]]:
    path = Path("passes.txt")
    to_onnx(net, [(2, 3)], explain_passes=path, **options)
    return [[part.strip() for part in line.split("  ") if part] for line in path.open()]


def place(text: str) -> str:
    return f"python/tests/passes/test_explain.py:{line_of(net, text)} in net"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_fused_and_declined_formulas_are_reported_with_their_lines() -> None:
    found = [[pass_, where.rpartition("/")[2], *rest] for pass_, where, *rest in lines()]
    assert found == [
        ["keep-axes", place("return").rpartition("/")[2], "applied"],
        ["fuse-gelu", place("gelu").rpartition("/")[2], "fused"],
        [
            "fuse-softmax",
            place("(0, 1)").rpartition("/")[2],
            "not rewritten: the reduction is over several axes",
        ],
        ["fuse-softmax", place("return").rpartition("/")[2], "fused"],
    ]


def test_an_operator_that_the_opset_lacks_is_named() -> None:
    told = {line[0]: line[-1] for line in lines(opset=18)}
    assert told["fuse-gelu"] == "not rewritten: Gelu needs opset 20"


def test_the_report_goes_to_standard_error_without_a_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    to_onnx(net, [(2, 3)], explain_passes=True)
    captured = capsys.readouterr()
    assert captured.err.count("fuse-softmax") == 2
    assert not captured.out


def test_a_file_that_cannot_be_written_is_said() -> None:
    with pytest.raises(jax2onnx.WriteError):
        to_onnx(net, [(2, 3)], explain_passes="no/such/folder/passes.txt")


def test_a_fused_node_answers_for_all_lines() -> None:
    def normalized(x: jax.Array) -> jax.Array:
        mean = jnp.mean(x, -1, keepdims=True)
        centered = x - mean
        variance = jnp.mean(centered * centered, -1, keepdims=True)
        scaled = centered * jax.lax.rsqrt(variance + 1e-5)
        return scaled * jnp.arange(3.0) + 1.0

    model = to_onnx(normalized, [(2, 3)], provenance="full")
    assert [node.op_type for node in model.graph.node] == ["LayerNormalization"]
    said = metadata(model.graph.node[0])
    others = {line.rpartition(":")[2] for line in said["fused_from"].splitlines()}
    first = line_of(normalized, "mean = jnp.mean(x")
    assert others | {said["callsite"].rpartition(":")[2]} == {str(first + i) for i in range(5)}


def test_norms_may_be_kept_as_arithmetic() -> None:
    layer = nnx.LayerNorm(3, rngs=nnx.Rngs(0))
    for mode in ("auto", "prefer_native"):
        model = to_onnx(layer, [(2, 3)], normalization_mode=mode)
        assert [node.op_type for node in model.graph.node] == ["LayerNormalization"]
    model = to_onnx(layer, [(2, 3)], normalization_mode="force_decomposed")
    assert "LayerNormalization" not in {node.op_type for node in model.graph.node}


def test_without_optimize_the_graph_is_as_plugins_made_it() -> None:
    model = to_onnx(lambda x: -(x * 1.0), [(2, 3)], optimize=False)
    assert [node.op_type for node in model.graph.node] == ["Mul", "Neg"]
