"""The device of each line in ONNX Runtime, and the copies between devices."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from jax import lax

import jax2onnx
from testkit import ROOT

CPU = "CPUExecutionProvider"
DEVICE = "WebGpuExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
RECORDED = ROOT / "crates" / "inspect" / "tests" / "profiles"


def chosen(x: jax.Array, flag: jax.Array) -> jax.Array:
    hidden = jnp.tanh(x @ x)
    taken = lax.cond(flag, lambda h: jnp.sin(h) + 1, lambda h: jnp.cos(h) - 1, hidden)
    last, _ = lax.scan(lambda carry, row: (jnp.sqrt(carry * row), None), taken, jnp.ones((3, 4, 4)))
    return last.sum()


FEEDS = [np.eye(4, dtype=np.float32), np.asarray(True)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("placement") / "chosen.onnx"
    specs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in FEEDS]
    jax2onnx.to_onnx(
        chosen, specs, return_mode="file", output_path=path, provenance="indexed", nan="ignore"
    )
    return path


def ops(placement: Any) -> set[str]:
    return {node.op for line in placement.lines for node in line.nodes}


def test_a_session_says_where_it_runs_each_line(model: Path) -> None:
    found = jax2onnx.placement(model)
    assert found.source == "assignment"
    (nodes,) = found.providers.values()
    assert found.summary == str(found) == f"{nodes} of {nodes} nodes run on {CPU}"
    assert found.copies == 0
    lines = {line.line.line for line in found.lines if line.line is not None}
    first = chosen.__code__.co_firstlineno
    assert lines == {first + 1, first + 2, first + 3, first + 4}
    assert all(line.providers == (CPU,) for line in found.lines)
    # Both branches and the body of the loop.
    assert {"Sin", "Cos", "Sqrt"} <= ops(found)


def test_a_profile_knows_the_placement_of_nodes_that_did_not_run(model: Path) -> None:
    found = jax2onnx.profile(model, FEEDS, runs=1).placement
    assert found.source == "assignment"
    assert "Cos" in ops(found)
    assert found == jax2onnx.placement(model)


def test_nodes_that_are_fused_after_the_assignment_are_known(tmp_path: Path) -> None:
    weight = np.eye(4, dtype=np.float32)
    model = jax2onnx.to_onnx(lambda x: jnp.tanh(x @ weight + x), [(4, 4)], provenance="full")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[CPU])
    (fused,) = onnx.load(tmp_path / "optimized.onnx").graph.node
    assert fused.op_type == "FusedGemm"
    found = jax2onnx.placement(model)
    assert found.providers == {CPU: 2}
    assert ops(found) == {"Gemm", "Tanh"}


def test_an_older_runtime_needs_a_profile(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (base,) = onnxruntime.InferenceSession.__bases__
    monkeypatch.delattr(base, "get_provider_graph_assignment_info")
    with pytest.raises(jax2onnx.ConfigError, match=r"use 1\.24 or newer, or `jax2onnx\.profile`"):
        jax2onnx.placement(model)
    found = jax2onnx.profile(model, FEEDS, runs=1).placement
    assert found.source == "profile"
    assert found.providers.keys() == {CPU}
    assert "Sin" in ops(found)
    assert "Cos" not in ops(found)


def test_a_provider_that_is_not_installed_is_refused(model: Path) -> None:
    with pytest.raises(jax2onnx.ConfigError, match=f"has no `NoSuchProvider` here: .*{CPU}"):
        jax2onnx.placement(model, [("NoSuchProvider", {}), CPU])


def test_the_options_of_the_user_stay_as_they_are(model: Path, tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(tmp_path / "mine.onnx")
    for _ in range(2):
        jax2onnx.placement(model, session_options=options)
    assert options.optimized_model_filepath == str(tmp_path / "mine.onnx")
    assert not (tmp_path / "mine.onnx").exists()


def test_a_provider_that_compiles_parts_has_no_optimized_model(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime refuses to write the optimized model, and says why."""
    create = onnxruntime.InferenceSession
    asked: list[str] = []

    def refuse(source: Any, options: Any, **arguments: Any) -> Any:
        asked.append(options.optimized_model_filepath)
        if options.optimized_model_filepath:
            raise RuntimeError("Unable to serialize model as it contains compiled nodes.")
        return create(source, options, **arguments)

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    found = jax2onnx.profile(model, FEEDS, runs=1)
    assert [bool(path) for path in asked] == [True, False]
    assert found.share_of_user_lines > 0.9


@pytest.mark.parametrize("level", ["off", "minimal", "full"])
def test_models_with_less_provenance_have_a_placement(level: Any) -> None:
    model = jax2onnx.to_onnx(lambda x: jnp.tanh(x @ x), [(3, 3)], provenance=level)
    found = jax2onnx.placement(model)
    assert found.summary == f"2 of 2 nodes run on {CPU}"
    (line,) = found.lines
    assert (line.line is None) == (level == "off")
    assert jax2onnx.profile(model, [np.eye(3, dtype=np.float32)], runs=1).placement == found


def test_a_model_without_names_has_a_placement() -> None:
    model = jax2onnx.to_onnx(lambda x: jnp.tanh(x @ x), [(3, 3)], provenance="off")
    for node in model.graph.node:
        node.name = ""
    assert jax2onnx.placement(model).providers == {CPU: 2}


def test_the_command_prints_the_copies_of_each_line(capfd: pytest.CaptureFixture[str]) -> None:
    files = [str(RECORDED / "devices.onnx"), str(RECORDED / "devices.json")]
    assert jax2onnx._core.main(["jax2onnx", "profile", *files, "--format", "json"]) == 0
    placement = json.loads(capfd.readouterr().out)["placement"]
    assert placement["summary"].startswith(
        f"16 of 29 nodes run on {DEVICE}; 4 lines run on the CPU"
    )
    assert placement["providers"] == [
        {"provider": DEVICE, "nodes": 16},
        {"provider": CPU, "nodes": 13},
    ]
    assert placement["copies"] == 8
    (copy,) = next(
        line["copies"]
        for line in placement["lines"]
        if line["line"]["text"].startswith("    known")
    )
    assert (copy["direction"], copy["value"], copy["type"], copy["bytes"], copy["calls"]) == (
        *("from_cpu", "min", "i32[8]", 32, 1),
    )
    assert copy["to"][0]["line"] == copy["from"]["line"] + 2


@pytest.mark.skipif(
    DEVICE not in onnxruntime.get_available_providers(), reason="needs onnxruntime-webgpu"
)
def test_a_device_copies_what_the_recorded_run_copied() -> None:
    model = RECORDED / "devices.onnx"
    feeds = [np.eye(8, dtype=np.float32), np.arange(8, dtype=np.int32)]
    found = jax2onnx.profile(model, feeds, runs=1, providers=[DEVICE, CPU]).placement
    assert found.copies == 8
    assert "4 lines run on the CPU" in found.summary
    assert jax2onnx.placement(model, [DEVICE, CPU]).copies == 8


@pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime_ep_openvino") is None,
    reason="needs onnxruntime-ep-openvino",
)
def test_the_nodes_that_openvino_leaves_to_the_cpu_have_advice() -> None:
    library = importlib.import_module("onnxruntime_ep_openvino").get_library_path()
    onnxruntime.register_execution_provider_library("openvino", library)
    options = onnxruntime.SessionOptions()
    devices = [it for it in onnxruntime.get_ep_devices() if it.ep_name == OPENVINO]
    options.add_provider_for_devices(devices[:1], {})
    model = onnx.load(RECORDED / "transformer.onnx")
    found = jax2onnx.placement(model, session_options=options)
    assert found.providers == {OPENVINO: 31, CPU: 2}
    assert {node.op for node in found.lines[0].nodes if node.provider == CPU} == {"Attention"}
    assert 'export with `target="openvino"`' in (found.lines[0].advice or "")
    assert found.copies is None
    # A loop is compiled as a whole.
    found = jax2onnx.placement(RECORDED / "loop.onnx", session_options=options)
    assert found.providers == {OPENVINO: 9}
