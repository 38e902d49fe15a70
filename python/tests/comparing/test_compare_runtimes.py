"""`compare(runtime=...)`: the first wrong number in another runtime."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax
from onnx import TensorProto, helper
from runtimes.installed import FOLDER

from jax2onnx import ConfigError, compare, to_onnx
from jax2onnx._comparing.executors import chosen
from jax2onnx._runtimes import Process, RefusalError, Started, prepare, started
from testkit.comparing import with_operator
from testkit.lines import line_of

WEIGHT = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
X = np.linspace(0, 3, 24, dtype=np.float32).reshape(6, 4)
PYTHON = Path(sys.executable)


def recurrent(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        mixed = state @ WEIGHT + row
        return jnp.tanh(mixed), mixed.sum()

    return lax.scan(step, jnp.zeros(4), x)


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return to_onnx(recurrent, [(6, 4)], provenance="indexed")


def installed(name: str) -> str:
    """Return a runtime that `tools/matrix.py` installed, or skip the test."""
    found = sorted(FOLDER.glob(f"{name}-*"))
    if not found:
        pytest.skip(f"tools/matrix.py has not installed {name}")
    return f"{name}@{found[-1]}"


def test_a_model_for_a_target_is_compared_with_an_export_for_the_same_target() -> None:
    def net(x: Any) -> Any:
        total = lax.scan(lambda c, row: (c + row, c), jnp.zeros(4), x)[0]
        return jnp.sort(total), jnp.argsort(-x, 1)

    exported = to_onnx(net, [(6, 4)], target=["openvino", "rten"], provenance="indexed")
    assert [(each.key, each.value) for each in exported.metadata_props][-1:] == [
        ("pkg.jax2onnx.target", "openvino,rten")
    ]
    report = compare(net, exported, [X])
    assert all(each.is_match for each in report.outputs)
    assert not report.notes


# A program that serves a runtime with faults. Outputs of parts have a bar in their names.
FAULTY = """
import json, sys
import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

REFUSAL = "there is no such function in this runtime"
for line in sys.stdin:
    folder = line.strip()
    if not folder:
        print(json.dumps({"version": "7"}), flush=True)
        continue
    model = onnx.load(f"{folder}/model.onnx")
    makers = {name: node.op_type for node in model.graph.node for name in node.output}
    is_part = any("|" in value.name for value in model.graph.output)
    for node in model.graph.node:
        if node.op_type == "Atan" and is_part:
            node.op_type = "Tanh"
        if node.op_type == "Sqrt" and makers.get(node.input[0]) == "Abs":
            node.op_type = "Neg"
        if node.op_type == "Acosh":
            print(json.dumps({"error": "analysing 'scan': caused by: " + REFUSAL}), flush=True)
            break
        inner = [each.op_type for a in node.attribute for each in a.g.node]
        if "Acosh" in inner:
            print(json.dumps({"error": "analysing 'scan': caused by: " + REFUSAL}), flush=True)
            break
        if node.op_type == "Cosh" and is_part:
            print(json.dumps({"error": "no Cosh alone"}), flush=True)
            break
        if node.op_type == "Sin":
            node.op_type = "Cos"
        if node.op_type == "Tan":
            print(json.dumps({"error": f"there is no kernel for node '{node.name}'"}), flush=True)
            break
        if node.op_type == "Sinh":
            sys.exit(3)
        if node.op_type == "Scan" and "{scan}":
            del node.attribute[:]
            node.op_type = "Identity"
            node.input[:] = node.input[:1]
            node.output[:] = node.output[:1]
    else:
        inputs = {}
        for i, one in enumerate(json.load(open(f"{folder}/inputs.json"))):
            array = np.fromfile(f"{folder}/input_{i}.bin", one["dtype"]).reshape(one["shape"])
            inputs[one["name"]] = array
        described = []
        for i, array in enumerate(ReferenceEvaluator(model).run(None, inputs)):
            array.tofile(f"{folder}/output_{i}.bin")
            described.append({"dtype": array.dtype.name, "shape": array.shape})
        print(json.dumps({"outputs": described}), flush=True)
"""


def spelled(folder: Path, source: str) -> str:
    """Write a program that serves a runtime, and return the runtime's name and place."""
    (folder / "serve.py").write_text(source)
    program = folder / "program"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{folder / "serve.py"}" "$@"\n')
    program.chmod(0o755)
    return f"faulty@{program}"


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a runtime of our own with faults, which runs."""
    source = FAULTY.replace("{scan}", "")
    with chosen(spelled(tmp_path_factory.mktemp("faulty"), source)) as runtime:
        yield runtime


def test_a_model_agrees_in_the_reference_evaluator_and_a_wrong_operator_is_found(
    model: onnx.ModelProto,
) -> None:
    report = compare(recurrent, model, [X], runtime="onnx.reference")
    assert report
    assert report.runtime == f"onnx.reference {onnx.__version__}"
    changed = with_operator(model, "Tanh", "Sin")
    with chosen("onnx.reference") as runtime:
        report = compare(recurrent, changed, [X], runtime=runtime)
    first = report.first
    assert first is not None
    assert (first.line, first.iterations, first.sure) == (line_of(recurrent, "tanh"), (0,), True)
    assert f"`tanh` (Sin) computes a wrong number in {report.runtime} in iteration 0" in str(report)
    assert report.to_json()["runtime"] == report.runtime


def test_a_fault_of_the_runtime_is_found_at_its_line(faulty: Any) -> None:
    def net(x: Any) -> Any:
        warm = jnp.exp(-x)
        wave = jnp.sin(warm)
        return wave * warm

    exported = to_onnx(net, [(6, 4)], provenance="indexed")
    assert compare(net, exported, [X])
    report = compare(net, exported, [X], runtime=faulty)
    assert report.runtime == "faulty 7"
    assert report.first is not None
    assert (report.first.line, report.first.sure) == (line_of(net, "jnp.sin("), True)
    # The model is its own reference.
    again = compare(exported, exported, [X], runtime=faulty)
    assert again.first is not None
    assert again.first.line == report.first.line
    assert again.reference == "ONNX Runtime"


def test_a_fault_in_a_body_is_found_in_its_iteration(faulty: Any) -> None:
    def net(x: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            state = lax.cond(row[0] > 1, jnp.sin, jnp.cos, state)
            return state, state * row

        return lax.scan(step, jnp.ones(4), x)

    exported = to_onnx(net, [(6, 4)], provenance="indexed")
    report = compare(net, exported, [X], runtime=faulty)
    assert report.first is not None
    assert report.first.line == line_of(net, "lax.cond")
    assert report.first.iterations == (2,)


def test_a_refused_model_shows_the_line_and_the_words(faulty: Any) -> None:
    def net(x: Any) -> Any:
        warm = jnp.exp(-x)
        return jnp.tan(warm) + 1

    exported = to_onnx(net, [(6, 4)], provenance="indexed")
    report = compare(net, exported, [X], runtime=faulty)
    first = report.first
    assert first is not None
    assert (first.kind, first.line, first.sure) == ("failure", line_of(net, "jnp.tan"), True)
    assert "faulty 7 says: there is no kernel for node 'tan'" in str(report)
    assert not report
    assert report.notes == ()


def test_a_node_that_is_refused_in_a_body_is_found(faulty: Any) -> None:
    def net(x: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            state = state + 1.5
            wide = jnp.arccosh(state)
            return state, wide + row

        return lax.scan(step, jnp.ones(4), x)

    exported = to_onnx(net, [(6, 4)], provenance="indexed", unroll=0)
    first = compare(net, exported, [X], runtime=faulty).first
    assert first is not None
    assert (first.kind, first.op) == ("failure", "Acosh")
    assert (first.line, first.sure) == (line_of(net, "arccosh"), True)


def test_small_errors_do_not_count_if_the_outputs_match(tmp_path: Path) -> None:
    source = FAULTY.replace("{scan}", "").replace(
        "array.tofile", "array = array * np.float32(1 + 1e-4); array.tofile"
    )

    def net(x: Any) -> Any:
        warm = jnp.exp(-x)
        return jnp.cos(warm)

    exported = to_onnx(net, [(6, 4)], provenance="indexed")
    report = compare(net, exported, [X], runtime=spelled(tmp_path, source))
    assert report
    assert report.notes == ("faulty 7 rounds 3 values more than expected, but the outputs match",)


def test_a_runtime_that_ends_its_process_is_started_again(faulty: Any) -> None:
    def net(x: Any) -> Any:
        wide = jnp.sinh(x)
        return jnp.sin(wide) * 2

    exported = to_onnx(net, [(6, 4)], provenance="indexed")
    report = compare(net, exported, [X], runtime=faulty)
    assert report.first is not None
    # The runtime computes the sine wrongly, and the note says that it does not run the model.
    assert report.first.line == line_of(net, "jnp.sin(")
    assert any("the process ended with code 3" in note for note in report.notes)


def test_a_loop_that_is_wrong_as_a_whole_is_found(tmp_path: Path) -> None:
    """Every node of the body is right alone, but the runtime runs the loop zero times."""
    runtime = spelled(tmp_path, FAULTY.replace("{scan}", "yes"))

    def net(x: Any) -> Any:
        warm = jnp.exp(-x)
        last, _ = lax.scan(lambda state, row: (jnp.cos(state) + row, None), warm[0], warm)
        return last * 2

    exported = to_onnx(net, [(6, 4)], provenance="indexed")
    report = compare(net, exported, [X], runtime=runtime)
    assert report.first is not None
    assert (report.first.line, report.first.op) == (line_of(net, "lax.scan"), "Scan")
    assert report.first.iterations == ()


def test_a_number_that_is_wrong_only_in_a_part_does_not_count(faulty: Any) -> None:
    def net(x: Any) -> Any:
        angle = jnp.arctan(x)
        return jnp.sin(angle) * 2

    exported = to_onnx(net, [(6, 4)], provenance="indexed")
    first = compare(net, exported, [X], runtime=faulty).first
    assert first is not None
    assert (first.line, first.sure) == (line_of(net, "jnp.sin("), True)


def test_a_wrong_number_that_no_wrong_output_reads_is_not_the_first(faulty: Any) -> None:
    def net(x: Any) -> Any:
        parity = jnp.sin(x) > 2
        size = jnp.sin(x + 1)
        return parity, size

    exported = to_onnx(net, [(6, 4)], provenance="indexed")
    report = compare(net, exported, [X], runtime=faulty)
    assert [output.is_match for output in report.outputs] == [True, False]
    assert report.first is not None
    assert (report.first.line, report.first.sure) == (line_of(net, "size = "), True)


def test_nothing_is_sure_behind_a_node_that_the_runtime_does_not_run_alone(faulty: Any) -> None:
    def net(x: Any) -> Any:
        wide = jnp.cosh(x)
        return jnp.sin(wide) * 2

    exported = to_onnx(net, [(6, 4)], provenance="indexed")
    report = compare(net, exported, [X], runtime=faulty)
    first = report.first
    assert first is not None
    assert (first.line, first.sure) == (line_of(net, "jnp.sin("), False)
    assert "note: faulty 7 does not run 1 nodes alone" in str(report)


def test_nodes_that_are_wrong_only_together_are_found(faulty: Any) -> None:
    def net(x: Any) -> Any:
        size = jnp.abs(x - 1.5)
        root = jnp.sqrt(size)
        return root + 3

    exported = to_onnx(net, [(6, 4)], provenance="indexed")
    report = compare(net, exported, [X], runtime=faulty)
    first = report.first
    assert first is not None
    assert (first.kind, first.nodes) == ("optimizer", ("abs", "sqrt"))
    assert "is computed wrongly after faulty 7 optimized it" in str(report)
    assert first.optimizer is None
    assert not first.sure


def test_a_reproducer_of_another_runtime_runs_there(tmp_path: Path, faulty: Any) -> None:
    exported = to_onnx(jnp.sin, [(6, 4)], provenance="indexed")
    report = compare(jnp.sin, exported, [X], runtime=faulty)
    script = Path(report.save_reproducer(tmp_path / "case"))
    assert '"runtime": "faulty"' in (script.parent / "case.json").read_text()


@pytest.mark.parametrize(
    ("runtime", "message"),
    [
        ("openvnio", "did you mean `openvino`?"),
        ("nothing like it", "jax2onnx knows onnxruntime, onnxruntime-cuda"),
        ("onnxruntime==1.23.2", "pip install --target FOLDER onnxruntime==1.23.2"),
        ("/usr/bin/python3", "name the runtime, too, as in `onnxruntime@/usr/bin/python3`"),
        ("openvino@/no/such/folder", "there is no `/no/such/folder`, where OpenVINO should be"),
        (7, "`runtime` is 7, which is not the name of a runtime"),
    ],
)
def test_runtimes_that_do_not_exist_are_refused(
    model: onnx.ModelProto, runtime: Any, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        compare(recurrent, model, [X], runtime=runtime)
    assert message in str(caught.value)


def test_a_runtime_that_is_not_installed_says_how_to_install_it(
    model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    for runtime, message in [
        (f"mnn@{tmp_path / 'folder'}", f"pip install --target {tmp_path / 'folder'} MNN"),
        ("tract", "needs the program `jax2onnx-runtimes`"),
        ("onnxruntime-web", "needs node"),
        (f"tract@{tmp_path / 'folder'}", "tract cannot be started"),
    ]:
        with pytest.raises(ConfigError) as caught:
            compare(recurrent, model, [X], runtime=runtime)
        assert message in str(caught.value)
    with pytest.raises(ConfigError, match="leave them out with `runtime`"):
        compare(recurrent, model, [X], runtime="onnx.reference", providers=["Other"])


def test_another_interpreter_runs_onnxruntime(model: onnx.ModelProto) -> None:
    report = compare(recurrent, model, [X], runtime=f"onnxruntime@{PYTHON}")
    assert report
    assert report.runtime.startswith("ONNX Runtime 1.")


@pytest.mark.parametrize(
    "name", ["onnx.reference", "onnxruntime", pytest.param("openvino", marks=pytest.mark.slow)]
)
def test_numbers_of_bfloat16_pass_into_a_runtime_and_back(name: str) -> None:
    def net(x: Any) -> Any:
        return jnp.exp(x * jnp.bfloat16(1.5)), x[:, :2]

    x = jnp.asarray(X, jnp.bfloat16)
    exported = to_onnx(net, [x], provenance="indexed")
    places = {"onnxruntime": f"onnxruntime@{PYTHON}", "onnx.reference": name}
    assert compare(net, exported, [x], runtime=places.get(name) or installed(name))


def test_a_process_that_does_not_answer_is_ended(tmp_path: Path) -> None:
    silent = Started("silent", "silent", (sys.executable, "-c", "import time; time.sleep(60)"))
    prepare(b"", [], tmp_path)
    with (
        Process(silent, seconds=0.2) as process,
        pytest.raises(RefusalError, match="no answer in 0 seconds"),
    ):
        process.run(tmp_path, {})
    for said, message in (("hello", "the process ended with code 0"), ("{x}", "not JSON: {x}")):
        noisy = Started("noisy", "noisy", (sys.executable, "-c", f"print('{said}')"))
        with Process(noisy) as process, pytest.raises(RefusalError, match=message):
            process.run(tmp_path, {})


def test_constants_that_nodes_compute_stay_constants_in_parts() -> None:
    """Some runtimes want the shape of a reshape as a constant."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Constant", [], ["shape"], "shape", value_ints=[3, 2]),
            helper.make_node("Reshape", ["x", "shape"], ["y"], "reshape"),
        ],
        "constants",
        [info("x", TensorProto.FLOAT, [2, 3])],
        [info("y", TensorProto.FLOAT, [3, 2])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    seen: list[list[str]] = []
    with chosen("onnx.reference") as runtime:
        send = runtime.send

        def spied(model: onnx.ModelProto) -> Any:
            seen.append([value.name for value in model.graph.input])
            return send(model)

        runtime.send = spied
        x = np.zeros((2, 3), np.float32)
        assert compare(made, made, [x], runtime=runtime)
    assert seen
    assert not any("shape" in names for names in seen)


# A package with the names of IREE that computes `abs`, and that reuses the memory of its results.
FAKE_IREE = """
from types import SimpleNamespace

import numpy as np


class Result:
    def __init__(self, array):
        self.memory = bytearray(array.tobytes())
        self.dtype = array.dtype

    def to_host(self):
        return np.frombuffer(self.memory, self.dtype)

    def __del__(self):
        self.memory[:] = bytes([7]) * len(self.memory)


class Module:
    name = "module"
    function_names = ("main",)
    copy_buffer = staticmethod(lambda instance, binary: Module())

    def __getitem__(self, name):
        return lambda x: Result(np.abs(x).astype(np.int8))


class SystemContext:
    modules = {"module": Module()}
    add_vm_module = __init__ = lambda self, *given, **named: None


VmModule = Module
Config = lambda name: SimpleNamespace(vm_instance=None)
compile_file = lambda text, **options: b""
main = parse_arguments = lambda given: given
"""


def test_bytes_that_iree_returns_are_copied_before_iree_reuses_their_memory(
    tmp_path: Path,
) -> None:
    package = tmp_path / "iree"
    for module in ("compiler/tools/import_onnx/__main__", "compiler/__init__", "runtime/__init__"):
        file = package / f"{module}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(FAKE_IREE)
    model = to_onnx(lambda x: jnp.abs(x).astype(jnp.uint8), [jnp.zeros(3, jnp.int32)])
    prepare(model.SerializeToString(), ["out_0"], tmp_path)
    with Process(started(f"iree@{tmp_path}")) as process:
        (result,) = process.run(tmp_path, {"x": np.array([-3, 200, 5], np.int32)})
    assert [result.dtype.name, *result] == ["uint8", 3, 200, 5]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["openvino", "onnxruntime-web", "onnxruntime-node", "onnxruntime", "mnn", "iree"]
)
def test_installed_runtimes_find_a_wrong_operator(name: str, model: onnx.ModelProto) -> None:
    def net(x: Any) -> Any:
        mixed = x @ WEIGHT
        warm = jnp.exp(mixed * 0.1)
        return warm.sum(axis=0)

    exported = to_onnx(net, [(6, 4)], provenance="indexed")
    with chosen(installed(name)) as runtime:
        assert compare(net, exported, [X], runtime=runtime)
        changed = with_operator(exported, "Exp", "Abs")
        first = compare(net, changed, [X], runtime=runtime).first
    assert first is not None
    assert (first.line, first.sure) == (line_of(net, "jnp.exp"), True)


@pytest.mark.slow
def test_openvino_computes_unsigned_numbers_as_signed_ones() -> None:
    def net(x: Any) -> Any:
        doubled = x * 2
        shifted = doubled >> 4
        return shifted + jnp.uint32(1)

    exported = to_onnx(net, [jnp.zeros(4, jnp.uint32)], provenance="indexed")
    x = np.array([1, 5, 2**31 - 1, 2**30 + 3], np.uint32)
    report = compare(net, exported, [x], runtime=installed("openvino"))
    assert report.first is not None
    assert report.first.line == line_of(net, "doubled >> 4")
