"""`jax2onnx compare` on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from jax2onnx import __main__, to_onnx
from testkit.comparing import with_operator
from testkit.terminal import Terminal

SOURCE = """
import jax.numpy as jnp
from jax import lax


def forward(x):
    def step(state, row):
        state = jnp.sin(state) + row
        return state, jnp.sqrt(state - 0.5)

    return lax.scan(step, 3.0, x)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "train.py").write_text(SOURCE)
    namespace: dict[str, Any] = {}
    exec(compile(SOURCE, str(tmp_path / "train.py"), "exec"), namespace)
    model = to_onnx(namespace["forward"], [(50,)], provenance="indexed")
    onnx.save(model, "model.onnx")
    onnx.save(with_operator(model, "Sin", "Cos"), "wrong.onnx")
    np.save("batch.npy", np.full(50, 0.9, np.float32))
    np.savez("batch.npz", x=np.full(50, 0.9, np.float32))
    yield tmp_path
    # The command imports the function that it compares with.
    sys.modules.pop("train", None)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["jax2onnx", "compare", *arguments])
    return __main__.main()


def test_a_model_is_compared_with_its_function(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    target = ("--fn", "train.py:forward", "-i", "x=batch.npy")
    assert run(monkeypatch, "model.onnx", *target) == 0
    assert "agrees with JAX" in capfd.readouterr().out
    assert run(monkeypatch, "wrong.onnx", *target, "--reproducer", "case") == 1
    out = capfd.readouterr().out
    assert "error: `sin` (Cos) computes a wrong number in iteration 0" in out
    assert "8 |         state = jnp.sin(state) + row" in out
    assert "lines by error, largest first:" in out
    assert sorted(path.name for path in (folder / "case").iterdir()) == [
        *("case.json", "expected.npy", "inputs.npz", "model.onnx", "run.py")
    ]


@pytest.mark.usefixtures("folder")
def test_facts_that_are_wider_than_a_terminal_are_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    # An import of readline sets it to the width of another terminal.
    monkeypatch.delenv("COLUMNS", raising=False)
    terminal = Terminal(60)
    with terminal.attached():
        assert run(monkeypatch, "model.onnx", "wrong.onnx", "-i", "batch.npy", "--top", "0") == 1
    shown = terminal.text().splitlines()
    terminal.close()
    facts = [line for line in shown if line.startswith(("   = ", "     "))]
    assert max(map(len, facts)) <= 60
    assert any(line.startswith("     ") for line in facts)


def test_two_models_are_compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "model.onnx", "model.onnx", "-i", "batch.npz") == 0
    assert run(monkeypatch, "model.onnx", "wrong.onnx", "-i", "x=f32[50]", "--format", "json") == 1
    capfd.readouterr()
    code = run(monkeypatch, "model.onnx", "wrong.onnx", "-i", "batch.npy", "--format=json")
    answer = json.loads(capfd.readouterr().out)
    assert code == 1
    assert (answer["version"], answer["first"]["line"]) == (1, 8)
    assert answer["first"]["iterations"] == [0]


def test_the_first_nan_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "model.onnx", "--nan", "-i", "x=batch.npy") == 0
    np.save("batch.npy", np.where(np.arange(50) == 37, -5, 0.9).astype(np.float32))
    capfd.readouterr()
    assert run(monkeypatch, "model.onnx", "--nan", "-i", "x=batch.npy") == 1
    out = capfd.readouterr().out
    assert "`sqrt` (Sqrt) creates a NaN\n" in out
    assert "the element at [37] is nan, and no operand contains one" in out


def test_another_runtime_runs_the_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    target = ("--fn", "train.py:forward", "-i", "x=batch.npy", "--runtime", "onnx.reference")
    assert run(monkeypatch, "wrong.onnx", *target, "--format", "json") == 1
    answer = json.loads(capfd.readouterr().out)
    assert answer["runtime"] == f"onnx.reference {onnx.__version__}"
    assert (answer["first"]["line"], answer["first"]["sure"]) == (8, True)
    assert run(monkeypatch, "model.onnx", "-i", "batch.npy", "--runtime", "openvnio") == 2
    assert "did you mean `openvino`?" in capfd.readouterr().err


def test_a_recording_is_compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "phone").mkdir()
    model = onnx.load("model.onnx")
    session = onnxruntime.InferenceSession("model.onnx")
    outputs = [value.name for value in model.graph.output]
    found = session.run(outputs, {"x": np.load("batch.npy")})
    for name, array in zip(outputs, found, strict=True):
        np.save(folder / "phone" / f"{name}.npy", array)
    captured = ("model.onnx", "-i", "x=batch.npy", "--captured", "phone")
    assert run(monkeypatch, *captured) == 0
    assert "model.onnx agrees with ONNX Runtime" in capfd.readouterr().out
    np.save(folder / "phone" / f"{outputs[0]}.npy", found[0] + 1)
    assert run(monkeypatch, *captured, "--fn", "train.py:forward") == 1
    assert "in the recording" in capfd.readouterr().out
    assert run(monkeypatch, *captured[:-1], "missing") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-i", "x=missing.npy"], "there is no file `missing.npy`"),
        (["-i", "y=batch.npy"], "has no input `y`"),
        (["-i", "x=f32[3]"], "the model takes `x` float32[50], but got float32[3]"),
        (["-i", "x=f32[B]"], "use numbers as sizes of random inputs"),
        (["-i", "x=train.npy"], "is not a file of NumPy arrays"),
        ([], "the input `x` float32[50] is missing"),
        (["-i", "x=batch.npy", "-i", "x=batch.npy"], "appears more than once"),
        (["-i", "x=batch.npy", "--provider", "CUDA"], "has no provider `CUDA`"),
    ],
)
def test_invalid_comparisons_are_refused(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    (folder / "train.npy").write_text("text")
    assert run(monkeypatch, "model.onnx", "model.onnx", *arguments) == 2
    assert message in capfd.readouterr().err
    assert run(monkeypatch, "model.onnx", "model.onnx", *arguments, "--format", "json") == 2
    assert message in json.loads(capfd.readouterr().out)["error"]["message"]


def test_a_function_in_the_place_of_a_model_leads_to_its_flag(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "model.onnx", "train.py:forward", "-i", "batch.npy") == 2
    error = " ".join(capfd.readouterr().err.split())
    assert error.endswith("for a function, use `--fn train.py:forward`")
    assert run(monkeypatch, "model.onnx", "missing.onnx", "-i", "batch.npy") == 2
    assert "--fn" not in capfd.readouterr().err
