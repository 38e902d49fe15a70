"""The rates of lines in a profile, beside those that the machine can do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax2onnx
from jax2onnx import ConfigError
from jax2onnx._inspecting import machine as measuring
from jax2onnx._inspecting.machine import Machine

WEIGHT = np.linspace(-1, 1, 300 * 200, dtype=np.float32).reshape(300, 200)
#: 100 Gflop/s and 10 GB/s.
MACHINE = Machine(100e9, 10e9)


def wide(x: jax.Array) -> jax.Array:
    y = x @ WEIGHT
    return jnp.tanh(y)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "wide.onnx"
    jax2onnx.to_onnx(wide, [("B", 300)], return_mode="file", output_path=path, provenance="indexed")
    return path


@pytest.fixture
def profile(model: Path, tmp_path: Path) -> Path:
    """A profile in which the product takes 400 µs and the other line 50 µs, for 1,000 rows."""
    import onnx

    nodes = onnx.load(model).graph.node
    times = {"MatMul": (400, [1000, 300]), "Tanh": (50, [1000, 200])}
    events: list[dict[str, Any]] = []
    for start, node in enumerate(nodes):
        micros, shape = times[node.op_type]
        args = {
            "op_name": node.op_type,
            "provider": "CPUExecutionProvider",
            "input_type_shape": [{"float": shape}],
        }
        name = f"{node.name}_kernel_time"
        events.append(
            {"cat": "Node", "tid": 1, "ts": 1000 * start, "dur": micros, "name": name, "args": args}
        )
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(events))
    return path


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The cache folder of the user, which is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "jax2onnx"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[int]:
    """The numbers of threads for which the machine was measured."""
    asked: list[int] = []

    def measure(_: Any, threads: int) -> Machine:
        asked.append(threads)
        return MACHINE

    monkeypatch.setattr(measuring, "_measured", measure)
    return asked


@pytest.mark.usefixtures("measured")
def test_a_line_has_its_share_of_what_the_machine_can_do(model: Path, profile: Path) -> None:
    rates = jax2onnx.cost(model, profile=profile).rates
    assert rates is not None
    assert rates.machine == MACHINE
    product, tanh = rates.rows
    # 120 Mflop, for which the machine needs 1,200 µs.
    assert (product.function, product.time, product.limit) == ("wide", 400.0, "flops")
    assert product.flops_per_second == 120e6 / 400e-6
    assert product.reached == pytest.approx(3.0)
    # 1.6 MB, for which it needs 160 µs.
    assert (tanh.limit, tanh.bytes_per_second) == ("bytes", 1.6e6 / 50e-6)
    assert tanh.reached == pytest.approx(3.2)
    assert tanh.lost == 0
    assert tanh.share == pytest.approx(50 / 450)
    assert "reached" in str(rates)


def test_the_sizes_of_the_user_replace_those_of_the_profile(
    model: Path, profile: Path, measured: list[int]
) -> None:
    rates = jax2onnx.cost(model, {"B": 10}, profile=profile, threads=3).rates
    assert rates is not None
    assert rates.rows[0].flops_per_second == 1.2e6 / 400e-6
    assert measured == [3]


def test_a_machine_is_measured_once_for_each_number_of_threads(
    folder: Path, measured: list[int]
) -> None:
    assert [measuring.machine(threads) for threads in (1, 2, 1, 2, 0, 0)] == [MACHINE] * 6
    assert measured == [1, 2, 0]
    file = folder / "machines.json"
    entries = json.loads(file.read_text())["machines"]
    assert len(entries) == 3
    # A file that is damaged is measured again, and replaced.
    for damaged in ("", "[]", '{"version": 1, "machines": {"a": 3}}', '{"version": 2}'):
        file.write_text(damaged)
        measured.clear()
        assert measuring.machine(1) == MACHINE
        assert measured == [1]
    wrong = {key: {"flops_per_second": -1, "bytes_per_second": 1} for key in entries}
    file.write_text(json.dumps({"version": 1, "machines": wrong}))
    assert measuring.machine(1) == MACHINE
    assert measured == [1, 1]


def test_a_cache_that_cannot_be_written_is_no_error(folder: Path, measured: list[int]) -> None:
    folder.parent.write_text("a file where the folder should be")
    assert measuring.machine(1) == MACHINE
    assert measuring.machine(1) == MACHINE
    assert measured == [1, 1]


def test_a_measurement_returns_two_rates() -> None:
    found = measuring._measured(measuring.runtime("cost"), 1)
    assert 1e8 < found.flops_per_second < 1e14
    assert 1e8 < found.bytes_per_second < 1e13


def test_the_command_shows_the_rates(model: Path, profile: Path) -> None:
    line = [sys.executable, "-m", "jax2onnx", "cost", str(model), "--profile", str(profile)]
    line += ["--machine", "100G,10GB"]
    shown = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert "the machine can do 100 Gflop/s and 10.0 GB/s" in shown
    assert "300 G" in shown
    found = subprocess.run(
        [*line, "--format", "json"], capture_output=True, text=True, check=True
    ).stdout
    roofline = json.loads(found)["roofline"]
    assert roofline["rows"][0]["flops_per_second"] == 300e9
    assert roofline["machine"] == {"flops_per_second": 100e9, "bytes_per_second": 10e9}


@pytest.mark.usefixtures("measured")
def test_a_profile_of_a_run_has_rates_if_they_are_wanted(model: Path) -> None:
    inputs = [np.ones((50, 300), np.float32)]
    assert jax2onnx.profile(model, inputs, runs=2).rates is None
    found = jax2onnx.profile(model, inputs, runs=2, rates=True)
    assert found.rates is not None
    assert found.rates.runs == 2
    assert all(row.flops_per_second for row in found.rates.rows)
    assert "byte/s" in str(found)


@pytest.mark.usefixtures("measured")
def test_a_profile_that_cannot_be_used_is_refused(
    model: Path, profile: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="cannot be grouped by operator"):
        jax2onnx.cost(model, by="operator", profile=profile)
    broken = tmp_path / "broken.json"
    broken.write_text("[1")
    with pytest.raises(ConfigError, match="not an ONNX Runtime profile"):
        jax2onnx.cost(model, profile=broken)
