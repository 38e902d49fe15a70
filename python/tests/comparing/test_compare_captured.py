"""`compare(captured=...)`: the first wrong number among those that a device recorded."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from jax import lax
from runtimes.installed import FOLDER

from jax2onnx import ConfigError, InputSpecError, compare, to_onnx
from testkit.comparing import with_operator
from testkit.lines import line_of

EXAMPLES = Path(__file__).parents[3] / "examples" / "recording"
X = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)


def net(x: Any) -> Any:
    wave = jnp.sin(x)
    wide = jnp.exp(wave * 3.0)
    ratio = wide / (1 + x * x)
    flat = jnp.tanh(ratio)
    return flat.sum(axis=0)


def _recorder() -> Any:
    spec = importlib.util.spec_from_file_location("record", EXAMPLES / "record.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return to_onnx(net, [(8, 4)], provenance="indexed")


@pytest.fixture(scope="module")
def recorded(
    model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., dict[str, np.ndarray]]:
    """Return a function that records all values of a model."""
    recorder, folder = _recorder(), tmp_path_factory.mktemp("models")

    def record(changed: onnx.ModelProto = model) -> dict[str, np.ndarray]:
        onnx.save(changed, folder / "model.onnx")
        recorder.prepare(folder / "model.onnx", folder / "tapped.onnx")
        session = onnxruntime.InferenceSession(folder / "tapped.onnx")
        names = [value.name for value in session.get_outputs()]
        return dict(zip(names, session.run(names, {model.graph.input[0].name: X}), strict=True))

    return record


def test_a_right_recording_agrees(model: onnx.ModelProto, recorded: Any) -> None:
    report = compare(net, model, [X], captured=recorded())
    assert report
    assert report.coverage.compared == len(model.graph.node)
    assert report.runtime == "the recording"


def test_a_wrong_number_is_found_where_the_device_computes_it(
    model: onnx.ModelProto, recorded: Any
) -> None:
    """Later nodes read wrong numbers, and compute what they should from them."""
    arrays = recorded(with_operator(model, "Exp", "Sinh"))
    report = compare(net, model, [X], captured=arrays)
    first = report.first
    assert first is not None
    assert (first.line, first.op, first.sure) == (line_of(net, "jnp.exp"), "Exp", True)
    assert first.index is not None
    assert first.got == arrays["exp"][first.index]
    assert "`exp` (Exp) computes a wrong number in the recording" in str(report)
    assert compare(model, model, [X], captured=arrays).first.line == first.line


def test_values_that_are_not_recorded_widen_the_answer(
    model: onnx.ModelProto, recorded: Any
) -> None:
    arrays = recorded(with_operator(model, "Exp", "Sinh"))
    del arrays["exp"]
    first = compare(net, model, [X], captured=arrays).first
    assert first is not None
    assert {line.line for line in first.lines} >= {line_of(net, "exp"), line_of(net, "ratio = ")}
    assert not first.sure


def test_a_device_that_computes_in_half_precision_is_right(
    model: onnx.ModelProto, recorded: Any
) -> None:
    half = {name: array.astype(np.float16) for name, array in recorded().items()}
    assert compare(net, model, [X], captured=half)
    half["exp"] = half["exp"] * np.float16(1.05)
    first = compare(net, model, [X], captured=half).first
    assert first is not None
    assert (first.line, first.sure) == (line_of(net, "jnp.exp"), False)


def test_shapes_may_be_left_out_but_not_be_wrong(model: onnx.ModelProto, recorded: Any) -> None:
    arrays = {name: array.ravel() for name, array in recorded().items()}
    assert compare(net, model, [X], captured=arrays)
    arrays["tanh"] = arrays["tanh"][:5]
    report = compare(net, model, [X], captured=arrays)
    assert report.first is not None
    assert (report.first.kind, report.first.line) == ("shape", line_of(net, "jnp.tanh"))
    assert "the shape is [5] where [8, 4] is expected" in str(report)


def test_a_loop_is_checked_as_a_whole() -> None:
    def loop(x: Any) -> Any:
        last, rows = lax.scan(lambda state, row: (jnp.cos(state) + row, state), x[0] * 2.0, x)
        return last, rows * 0.5

    exported = to_onnx(loop, [(8, 4)], provenance="indexed")
    outputs = [value.name for value in exported.graph.output]
    session = onnxruntime.InferenceSession(exported.SerializeToString())
    arrays = dict(
        zip(outputs, session.run(outputs, {session.get_inputs()[0].name: X}), strict=True)
    )
    assert compare(loop, exported, [X], captured=arrays)
    arrays[outputs[0]] = arrays[outputs[0]] + np.float32(0.1)
    first = compare(loop, exported, [X], captured=arrays).first
    assert first is not None
    assert not first.sure
    assert line_of(loop, "lax.scan") in [line.line for line in first.lines]


def test_a_wrong_model_is_told_from_a_wrong_device(model: onnx.ModelProto, recorded: Any) -> None:
    """Only the outputs are recorded, and the device computes the wrong model correctly."""
    wrong = with_operator(model, "Exp", "Sinh")
    arrays = {name: array for name, array in recorded(wrong).items() if name == "out_0"}
    first = compare(net, wrong, [X], captured=arrays).first
    assert first is not None
    assert line_of(net, "jnp.exp") in [line.line for line in first.lines]


def test_folders_archives_and_escaped_names_are_read(
    model: onnx.ModelProto, recorded: Any, tmp_path: Path
) -> None:
    changed = with_operator(model, "Exp", "Sinh")
    exp = next(node for node in changed.graph.node if node.name == "exp")
    reader = next(node for node in changed.graph.node if "exp" in node.input)
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    for each in (plain, changed):
        for node in each.graph.node:
            node.name = node.name.replace("exp", "layer/ü: %|exp")
            for names in (node.input, node.output):
                names[:] = [name.replace("exp", "layer/ü: %|exp") for name in names]
    assert exp.output[0] in reader.input
    arrays = {"in_0": X, **recorded(changed)}
    (tmp_path / "flat").mkdir()
    for name, array in arrays.items():
        np.save(tmp_path / "flat" / f"{quote(name, safe='')}.npy", array)
    deep = tmp_path / "deep"
    for name, array in arrays.items():
        path = deep / f"{quote(name)}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, array)
    np.savez(tmp_path / "all.npz", **arrays)
    for source in (tmp_path / "flat", deep, tmp_path / "all.npz"):
        first = compare(plain, plain, [X], captured=source).first
        assert first is not None
        assert (first.line, first.node) == (line_of(net, "jnp.exp"), "layer/ü: %|exp")


def test_inputs_may_be_part_of_the_recording(model: onnx.ModelProto, recorded: Any) -> None:
    name = model.graph.input[0].name
    assert compare(net, model, captured={name: X, **recorded()})
    with pytest.raises(InputSpecError, match=f"the input `{name}` is missing"):
        compare(net, model, captured=recorded())


def test_recordings_that_cannot_be_used_are_refused(model: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(InputSpecError, match="there is no recording at"):
        compare(net, model, [X], captured=tmp_path / "missing")
    with pytest.raises(InputSpecError, match=r"contains no \.npy files"):
        compare(net, model, [X], captured=tmp_path)
    (tmp_path / "exp.npy").write_text("text")
    with pytest.raises(InputSpecError, match="is not a file of NumPy arrays"):
        compare(net, model, [X], captured=tmp_path)
    np.save(tmp_path / "exp.npy", X)
    with pytest.raises(InputSpecError, match="contains one array without a name"):
        compare(net, model, [X], captured=tmp_path / "exp.npy")
    np.save(tmp_path / "%65xp.npy", X)
    with pytest.raises(InputSpecError, match="contains `exp` twice"):
        compare(net, model, [X], captured=tmp_path)
    with pytest.raises(ConfigError, match="did you mean `tanh`"):
        compare(net, model, [X], captured={"tnah": X})
    with pytest.raises(ConfigError, match="exclude each other"):
        compare(net, model, [X], captured={"exp": X}, runtime="onnx.reference")


def test_the_recorder_of_python_writes_what_compare_reads(
    model: onnx.ModelProto, tmp_path: Path
) -> None:
    onnx.save(with_operator(model, "Exp", "Sinh"), tmp_path / "model.onnx")
    np.savez(tmp_path / "inputs.npz", **{model.graph.input[0].name: X})
    for arguments in (
        ["prepare", "model.onnx", "tapped.onnx"],
        ["run", "tapped.onnx", "inputs.npz", "folder"],
    ):
        subprocess.run(
            [sys.executable, EXAMPLES / "record.py", *arguments], cwd=tmp_path, check=True
        )
    first = compare(net, model, [X], captured=tmp_path / "folder").first
    assert first is not None
    assert first.line == line_of(net, "jnp.exp")


def test_the_recorder_of_javascript_writes_what_compare_reads(
    model: onnx.ModelProto, tmp_path: Path
) -> None:
    node = shutil.which("node")
    packages = sorted(FOLDER.glob("onnxruntime-web-*/node_modules"))
    if node is None or not packages:
        pytest.skip("tools/matrix.py has not installed onnxruntime-web")
    (tmp_path / "node_modules").symlink_to(packages[-1], target_is_directory=True)
    recorder = _recorder()
    onnx.save(with_operator(model, "Exp", "Sinh"), tmp_path / "model.onnx")
    recorder.prepare(tmp_path / "model.onnx", tmp_path / "tapped.onnx")
    np.save(tmp_path / "x.npy", X)
    command = [node, EXAMPLES / "record.mjs", "tapped.onnx", "folder"]
    subprocess.run(
        [*command, f"{model.graph.input[0].name}=x.npy"], cwd=tmp_path, check=True, timeout=60
    )
    first = compare(net, model, [X], captured=tmp_path / "folder").first
    assert first is not None
    assert first.line == line_of(net, "jnp.exp")


PROGRAM = """
#include "record.hpp"
int main(int, char** argv) {
    const float rows[] = {1.5f, -2.0f, 3.25f, 0.0f, 1e30f, 7.0f};
    const std::int64_t counts[] = {1, -2};
    const bool flags[] = {true, false, true};
    const std::uint8_t byte[] = {200};
    const recording::Half halves[] = {recording::Half{0x3c00}};
    recording::write(argv[1], "layer/dense|out", rows, {2, 3});
    recording::write(argv[1], "counts", counts, {2});
    recording::write(argv[1], "flags", flags, {3});
    recording::write(argv[1], "halves", halves, {1});
    recording::write(argv[1], "scalar", byte, {});
}
"""


@pytest.mark.slow
def test_the_recorder_of_c_plus_plus_writes_what_compare_reads(tmp_path: Path) -> None:
    from jax2onnx._comparing.recordings import recorded

    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no compiler for C++")
    (tmp_path / "program.cpp").write_text(PROGRAM)
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{EXAMPLES}"]
    build = [compiler, *flags, tmp_path / "program.cpp", "-o", tmp_path / "program"]
    subprocess.run(build, check=True)
    subprocess.run([tmp_path / "program", tmp_path / "folder"], check=True)
    found = recorded(tmp_path / "folder")
    assert {name: array.tolist() for name, array in found.items()} == {
        "counts": [1, -2],
        "flags": [True, False, True],
        "halves": [1.0],
        "layer/dense|out": [[1.5, -2.0, 3.25], [0.0, np.float32(1e30), 7.0]],
        "scalar": 200,
    }
    types = {name: array.dtype.name for name, array in found.items()}
    assert types["layer/dense|out"] == "float32"
    assert (types["counts"], types["halves"], types["scalar"]) == ("int64", "float16", "uint8")
