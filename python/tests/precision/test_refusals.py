"""`jax2onnx lower` writes no file if it cannot do what it was asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import pytest
from precision.networks import NETWORKS

import jax2onnx
from jax2onnx import ConfigError, InputSpecError, lower_precision, to_onnx
from jax2onnx.__main__ import main

RANDOM = np.random.default_rng(1)
W1 = RANDOM.standard_normal((16, 32)).astype(np.float32)
W2 = RANDOM.standard_normal((32, 4)).astype(np.float32)


def network(x: Any, scale: Any) -> Any:
    hidden = jax.nn.silu(x @ W1)
    return jax.nn.softmax(hidden @ W2) * scale


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def with_element(value: float) -> np.ndarray:
    array = numbers(8, 16)
    array[3, 4] = value
    return array


GOOD = {"x": numbers(8, 16), "scale": numbers(4)}


@pytest.mark.parametrize(
    ("data", "arguments", "says"),
    [
        (GOOD, "--budget 1e-12", "the model cannot be in float16 within the budget of 1e-12; in"),
        (GOOD, "--budget 1e-12 --to int8", "the model cannot be in int8 within the budget of 1e"),
        (GOOD, "--budget 400 --metric snr", "within the budget of 400 dB; in the way: `"),
        (GOOD, "--budget little", "invalid value 'little' for '--budget <NUMBER>'"),
        (GOOD, "--budget -1", "`budget` is -1.0, which is not greater than 0"),
        (GOOD, "--budget nan", "`budget` is nan, which is not a number"),
        ({**GOOD, "x": numbers(8, 15)}, "", "the model takes `x` float32[B,16], but got float32[8"),
        ({**GOOD, "x": with_element(np.nan)}, "", "the input `x` contains NaN"),
        ({**GOOD, "x": np.full((8, 16), np.inf, np.float32)}, "", "`out_0` contains only NaN"),
        ({**GOOD, "x": numbers(0, 16), "scale": numbers(4)}, "", "have no elements"),
        ({"x": GOOD["x"]}, "", "the input `scale` float32[4] is missing"),
        ({"x": GOOD["x"], "scales": GOOD["scale"]}, "", "did you mean `scale`?"),
        ({}, "", "the data is empty: the model takes `x`, `scale`"),
        (None, "", "the data is empty: the model takes `x`, `scale`"),
    ],
)
def test_the_command_line_refuses_and_writes_no_file(
    data: dict[str, np.ndarray] | None,
    arguments: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    specs = ["f32[B,16]", "f32[4]"]
    to_onnx(network, specs, return_mode="file", output_path="m.onnx", provenance="indexed")
    line = ["jax2onnx", "lower", "m.onnx", "-o", "short.onnx", "-q", *arguments.split()]
    if data is not None:
        np.savez("data.npz", **data)  # type: ignore[arg-type]
        line += ["-i", "data.npz"]
    monkeypatch.setattr("sys.argv", line)
    with_files = sorted(each.name for each in tmp_path.iterdir())
    assert main() == 2
    assert says in capfd.readouterr().err
    assert sorted(each.name for each in tmp_path.iterdir()) == with_files


def test_a_model_that_the_runtime_refuses_is_not_lowered(tmp_path: Path) -> None:
    model = to_onnx(network, ["f32[B,16]", "f32[4]"])
    assert isinstance(model, onnx.ModelProto)
    model.graph.node[0].op_type = "MatMulOfNobody"
    with pytest.raises(ConfigError, match=r"ONNX Runtime does not run the model: .*MatMulOfNobody"):
        lower_precision(model, GOOD)


def test_an_operator_that_the_runtime_refuses_while_it_runs_keeps_its_type() -> None:
    # ONNX Runtime loads a sum of bfloat16 by index, and refuses to run it.
    places = np.asarray([0, 2, 2, 1, 0, 1, 2, 3])

    def pooled(x: Any) -> Any:
        return jax.ops.segment_sum(jax.nn.silu(x @ W1), places, 4) @ W2

    data = [[numbers(8, 16)] for _ in range(4)]
    model = to_onnx(pooled, ["f32[8,16]"], provenance="indexed")
    _, report = lower_precision(model, data, to="bfloat16", budget=0.05)
    assert report.error <= 0.05
    assert any("`ScatterElements`" in note for note in report.notes)


@pytest.mark.parametrize("number", range(len(NETWORKS)))
@pytest.mark.parametrize("to", ["float16", "bfloat16", "int8"])
def test_a_budget_of_nearly_nothing_is_refused(number: int, to: str) -> None:
    # Some constants of these networks are exact in 16 bits, but no line is.
    fn, inputs = NETWORKS[number]
    model = to_onnx(fn, list(inputs), provenance="indexed")
    with pytest.raises(ConfigError, match=r"within the budget of 1e-12; in the way: `.*networks"):
        lower_precision(model, list(inputs), to=to, budget=1e-12)


def test_a_model_that_is_exact_in_the_shorter_type_meets_every_budget() -> None:
    weight = RANDOM.integers(-8, 8, (16, 8)).astype(np.float32)
    model = to_onnx(lambda x: x @ weight, ["f32[B,16]"], provenance="indexed")
    data = [[RANDOM.integers(-4, 4, (3, 16)).astype(np.float32)] for _ in range(4)]
    _, report = lower_precision(model, data, budget=1e-12)
    assert report.error == 0
    assert report.bytes_after == report.bytes_before // 2


def test_outputs_without_a_finite_number_show_no_error() -> None:
    model = to_onnx(lambda x: x * 2 + 1, ["f32[B,16]"])
    data = [[numbers(2, 16)], [np.full((2, 16), np.inf, np.float32)]]
    with pytest.raises(InputSpecError, match=r"inputs of sample 1, no output contains a finite"):
        jax2onnx.sensitivity(model, data)
    # A mask of -inf leaves numbers to compare.
    data[1][0][0] = -1
    assert jax2onnx.sensitivity(model, data).first is not None
