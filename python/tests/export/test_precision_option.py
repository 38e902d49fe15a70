"""`to_onnx(precision=...)` exports models in shorter types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import jax2onnx
from jax2onnx import ConfigError, InputSpecError, to_onnx

RANDOM = np.random.default_rng(2)
W1 = (RANDOM.standard_normal((16, 64)) / 4).astype(np.float32)
W2 = (RANDOM.standard_normal((64, 8)) / 8).astype(np.float32)
DATA = [[RANDOM.standard_normal((4, 16)).astype(np.float32)] for _ in range(12)]


def network(x: Any) -> Any:
    return jax.nn.gelu(x @ W1) @ W2


def outputs(model: Any, x: np.ndarray) -> np.ndarray:
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    return np.asarray(found)


@pytest.mark.parametrize(
    ("precision", "budget", "code"),
    [
        ("float16", None, TensorProto.FLOAT16),
        ("bfloat16", 0.05, TensorProto.BFLOAT16),
        ("int8", 0.1, TensorProto.UINT8),
        ("int4", 0.6, TensorProto.INT4),
    ],
)
def test_a_model_is_exported_in_a_shorter_type(
    precision: Any, budget: float | None, code: int
) -> None:
    model = to_onnx(network, [("B", 16)], precision=precision, data=DATA, budget=budget)
    assert isinstance(model, onnx.ModelProto)
    weights = (each for each in model.graph.initializer if not each.name.endswith(".zero"))
    codes = [each.data_type for each in weights]
    assert codes.count(code) == 2
    x = RANDOM.standard_normal((5, 16)).astype(np.float32)
    expected = np.asarray(network(x))
    assert np.abs(outputs(model, x) - expected).max() < (budget or 0.01) * np.abs(expected).max()
    # No provenance was asked for.
    assert not any(node.metadata_props for node in model.graph.node)


def test_a_file_is_written_in_a_shorter_type(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    found = to_onnx(
        network,
        [("B", 16)],
        return_mode="file",
        output_path=path,
        weights="external",
        precision="float16",
        data=DATA,
        provenance="indexed",
    )
    assert found == str(path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    x = DATA[0][0]
    assert np.allclose(outputs(path, x), network(x), atol=1e-2)
    assert {line.function for line in jax2onnx.sensitivity(path, DATA[:2]).lines} == {"network"}


def test_a_budget_that_nothing_meets_names_the_lines_and_writes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(ConfigError, match=r"in the way: `.*test_precision_option\.py:\d+, in netw"):
        to_onnx(
            network,
            [("B", 16)],
            return_mode="file",
            output_path=path,
            precision="int8",
            data=DATA,
            budget=1e-6,
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (
            {"precision": "float16"},
            ConfigError,
            r"`precision='float16'` needs inputs .* `data`, or .* `jax2onnx.lower_precision`",
        ),
        ({"data": DATA}, ConfigError, "`data` is for a shorter type: pass `precision` too"),
        ({"budget": 0.1}, ConfigError, "`budget` is for a shorter type: pass `precision` too"),
        ({"precision": "half", "data": DATA}, ConfigError, "`half` is not a precision"),
        ({"precision": "int8", "data": DATA, "budget": -1}, ConfigError, "`budget` is -1"),
        (
            {"precision": "int8", "data": [[np.zeros((4, 9), np.float32)]]},
            InputSpecError,
            "x",
        ),
        (
            {"precision": "int8", "data": [[np.full((4, 16), np.nan, np.float32)]]},
            InputSpecError,
            "contains NaN",
        ),
        (
            {"precision": "int8", "data": DATA, "source_map": "m.map"},
            ConfigError,
            "a source map does not belong to it",
        ),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        to_onnx(network, [("B", 16)], **arguments)


def test_the_command_line_exports_in_a_shorter_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(
        "import jax, numpy as np\n"
        "weight = np.linspace(-1, 1, 512, dtype=np.float32).reshape(16, 32)\n"
        "def predict(x):\n    return jax.nn.relu(x @ weight)\n"
    )
    np.savez("data.npz", x=np.stack([each[0] for each in DATA]))
    from jax2onnx.__main__ import main

    line = ["jax2onnx", "export", "model.py:predict", "-i", "f32[4,16]", "-o", "short.onnx"]
    for more, code in (([], 2), (["--data", "data.npz", "--budget", "0.05"], 0)):
        monkeypatch.setattr("sys.argv", [*line, "--precision", "float16", "-q", *more])
        assert main() == code, capfd.readouterr()
        assert Path("short.onnx").exists() == (code == 0)
    assert "`jax2onnx lower`" in capfd.readouterr().err
    weights = {tensor.data_type for tensor in onnx.load("short.onnx").graph.initializer}
    assert weights == {TensorProto.FLOAT16}
