"""`jax2onnx export`: targets, specifications, what it says and its exit codes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import jax2onnx
from jax2onnx import __main__, _progress

MODELS = """
    import time
    import jax
    import jax.numpy as jnp
    import numpy as np

    WEIGHT = np.ones((4, 2), np.float32)

    def predict(x, scale=1.0):
        return jnp.tanh(x @ WEIGHT) * scale

    class Model:
        def __init__(self, width=3):
            self.width = width

        def __call__(self, x, *, mask):
            return x * self.width + mask

        def loss(self, x):
            return x - self.width

    model = Model()
    table = {"small": Model(1)}

    def make(width=3, *, slow=False):
        if slow:
            time.sleep(0.1)
        return Model(width)

    def broken(x):
        return helper(x)

    def helper(x):
        raise ValueError("my own mistake")

    def unsupported(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(np.sin, shape, x)

    def unsupported_twice(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        for _ in range(3):
            x = jax.pure_callback(np.sin, shape, x)
        return jax.pure_callback(np.cos, shape, x)

    def unit(x):
        return -(x * 1.0)

    def positional(*args):
        return args[0] - args[1]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with modules of a user, and nothing of it left behind."""
    (tmp_path / "our_models.py").write_text(textwrap.dedent(MODELS))
    (tmp_path / "fails_early.py").write_text("import no_such_library\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("our_models", "fails_early"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def export(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """The exit code, what was printed, and what was said beside it."""
    monkeypatch.setattr(sys, "argv", ["jax2onnx", "export", *arguments])
    code = __main__.main()
    for name in ("our_models", "fails_early"):
        sys.modules.pop(name, None)
    out, err = capfd.readouterr()
    return code, out, err


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    package = str(Path(jax2onnx.__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": package, **environment}
    command = [sys.executable, "-m", "jax2onnx", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def test_a_function_of_a_module_is_exported() -> None:
    done = program(
        "export", "our_models:predict", "--input", "x=f32[B,4]", "--output", "model.onnx",
        "--provenance", "full",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    first, *rest = done.stdout.splitlines()
    assert first.startswith("model.onnx: 2 nodes, opset 23, ")
    assert rest[:2] == ["  in   x f32[B,4]", "  out  out_0 f32[B,2]"]
    model = onnx.load("model.onnx")
    sites = {
        entry.value
        for node in model.graph.node
        for entry in node.metadata_props
        if entry.key == "pkg.jax2onnx.callsite"
    }
    assert sites == {"predict:10"}
    traceback = next(
        entry.value
        for entry in model.graph.node[0].metadata_props
        if entry.key == "pkg.jax2onnx.jax_traceback"
    )
    assert "our_models.py:10 (predict)" in traceback


def test_an_export_that_fails_says_so_in_one_message_and_exits_with_1() -> None:
    done = program("export", "our_models:unsupported", "-i", "f32[4]", "-o", "model.onnx")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: no plugin for `pure_callback`\n  --> our_models.py:38:")
    assert "Traceback" not in done.stderr
    assert not Path("model.onnx").exists()


def test_a_dry_run_says_what_would_be_written(folder: Path, monkeypatch: Any, capfd: Any) -> None:
    before = sorted(folder.iterdir())
    spec = ("our_models:predict", "-i", "f32[B,4]", "--dry-run", "--source-map")
    code, out, err = export(monkeypatch, capfd, *spec)
    assert (code, err) == (0, "")
    first, *ends = out.splitlines()
    expected = "the model would have 2 nodes, opset 23, 32 bytes in 1 weight"
    assert first == expected
    assert ends[:2] == ["  in   x f32[B,4]", "  out  out_0 f32[B,2]"]
    code, out, _ = export(monkeypatch, capfd, *spec, "-o", "a.onnx", "--format", "json")
    summary = json.loads(out)
    assert (code, summary["path"], summary["dry_run"]) == (0, "a.onnx", True)
    assert (summary["nodes"], summary["weight_bytes"], summary["opset"]) == (2, 32, 23)
    calls = ("--record-primitive-calls", "calls.txt")
    assert export(monkeypatch, capfd, *spec, *calls)[0] == 0
    assert {path.name for path in folder.iterdir()} - {"__pycache__"} == {p.name for p in before}


def test_a_dry_run_reports_every_operation_that_cannot_be_exported(
    folder: Path, monkeypatch: Any, capfd: Any
) -> None:
    spec = ("our_models:unsupported_twice", "-i", "f32[4]", "--dry-run")
    code, out, err = export(monkeypatch, capfd, *spec)
    assert (code, err) == (1, "")
    first, second = (
        f"error: no plugin for `pure_callback`{times}\n  --> our_models.py:{line}:"
        for line, times in ((43, ", 3 times"), (44, ""))
    )
    assert out.startswith(first)
    assert second in out
    assert out.count("hint: ") == 1
    assert out.endswith("2 operations cannot be exported\n")
    code, out, _ = export(monkeypatch, capfd, *spec, "--format", "json")
    assert code == 1
    operations = json.loads(out)["error"]["operations"]
    found = [(each["line"], each["count"], each["function"]) for each in operations]
    assert found == [(43, 3, "unsupported_twice"), (44, 1, "unsupported_twice")]
    assert all(each["file"] == "our_models.py" and each["hint"] for each in operations)
    assert not list(folder.glob("*.onnx*"))


def test_an_output_is_needed_unless_nothing_is_written(monkeypatch: Any, capfd: Any) -> None:
    code, _, err = export(monkeypatch, capfd, "our_models:predict", "-i", "f32[B,4]")
    assert code == 2
    assert "--output <PATH>" in err


def test_an_exception_of_the_users_code_shows_their_traceback() -> None:
    done = program("export", "our_models:broken", "-i", "f32[4]", "-o", "model.onnx")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):\n  File ")
    assert 'our_models.py", line 31, in broken' in done.stderr
    assert "ValueError: my own mistake" in done.stderr
    assert "_command" not in done.stderr
    assert "_api.py" not in done.stderr


def test_an_exception_without_a_line_of_the_user_shows_no_lines_of_jax2onnx() -> None:
    done = program("export", "builtins:max", "-i", "f32[4]", "-o", "model.onnx")
    assert done.returncode == 1
    assert done.stderr.startswith("jax.errors.TracerBoolConversionError: ")
    assert "Traceback" not in done.stderr
    assert "error: `builtins:max` raised TracerBoolConversionError" in done.stderr


@pytest.mark.parametrize(
    ("target", "specs", "inputs"),
    [
        ("our_models.py:predict", ["f32[2,4]"], ["x"]),
        ("./our_models.py:predict", ["f32[2,4]"], ["x"]),
        ("our_models:model", ["f32[2]", "mask=f32[2]"], ["x", "mask"]),
        ("our_models:make()", ["mask=f32[B]", "x=f32[B]"], ["x", "mask"]),
        ("our_models:make(5)", ["x=bf16[2]", "mask=bf16[]"], ["x", "mask"]),
        ("our_models:make(width=5).loss", ["i32[3]"], ["x"]),
        ("our_models:table['small'].loss", ["u8[3]"], ["x"]),
        ("our_models:positional", ["left=f32[3]", "right=f32[3]"], ["left", "right"]),
    ],
)
def test_a_target_is_a_function_an_object_or_a_factory(
    target: str, specs: list[str], inputs: list[str], monkeypatch: Any, capfd: Any
) -> None:
    flags = [part for spec in specs for part in ("-i", spec)]
    code, out, err = export(monkeypatch, capfd, target, *flags, "-o", "m.onnx", "--format", "json")
    assert (code, err) == (0, "")
    assert list(json.loads(out)["inputs"]) == inputs


def test_no_optimize_leaves_the_graph_as_plugins_made_it(monkeypatch: Any, capfd: Any) -> None:
    line = ["our_models:unit", "-i", "f32[3]", "-o", "m.onnx", "--format", "json"]
    counts = []
    for switch in ([], ["--no-optimize"]):
        code, out, _ = export(monkeypatch, capfd, *line, *switch)
        assert code == 0
        counts.append(json.loads(out)["ops"])
    assert counts == [{"Neg": 1}, {"Mul": 1, "Neg": 1}]


def test_programs_get_a_summary_as_json(monkeypatch: Any, capfd: Any) -> None:
    code, out, err = export(
        monkeypatch, capfd, "our_models:predict", "-i", "x=f32[B,4]", "-o", "m.onnx",
        "--input-param", "scale=2.0", "--opset", "21", "--model-name", "net",
        "--output-names", "y", "--record-primitive-calls", "calls.txt", "--format", "json",
    )  # fmt: skip
    assert (code, err) == (0, "")
    summary = json.loads(out)
    seconds = summary.pop("seconds")
    assert list(seconds) == ["importing", "tracing", "converting"]
    assert summary == {
        "version": 1,
        "path": "m.onnx",
        "external_data": [],
        "bytes": Path("m.onnx").stat().st_size,
        "opset": 21,
        "inputs": {"x": "f32[B,4]", "scale": "f32[]"},
        "outputs": {"y": "f32[B,2]"},
        "nodes": 3,
        "ops": {"MatMul": 1, "Mul": 1, "Tanh": 1},
        "warnings": [],
    }
    assert onnx.load("m.onnx").graph.name == "net"
    assert "tanh" in Path("calls.txt").read_text()


def test_wide_types_need_the_switch(monkeypatch: Any, capfd: Any) -> None:
    line = ["our_models:positional", "-i", "f64[3]", "-i", "f64[3]", "-o", "m.onnx"]
    code, _, err = export(monkeypatch, capfd, *line)
    assert (code, err) == (
        2, "error: `input 0` is float64, but JAX keeps 64-bit types only with --double\n"
    )  # fmt: skip
    assert export(monkeypatch, capfd, *line, "--double")[0] == 0
    assert jax2onnx.allclose(
        lambda x, y: x - y, "m.onnx", [np.ones(3), np.ones(3)], enable_double_precision=True
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["our_models"], "`our_models` is not a target: use MODULE:NAME"),
        (["our_model:predict"], "there is no module `our_model`: did you mean `our_models`?"),
        (["our_models.py.no:f"], "there is no module `our_models.py`"),
        (["our_modls.py:f"], "there is no file `our_modls.py`: did you mean `our_models.py`?"),
        (["our_models:predcit"], "has no `predcit`: did you mean `predict`?"),
        (["our_models:model.los"], "`model` has no `los`: did you mean `loss`?"),
        (["our_models:Model"], "`our_models:Model` is a class: to export an object"),
        (["our_models:WEIGHT"], "`our_models:WEIGHT` is of type ndarray, which cannot be called"),
        (["our_models:make(WEIGHT)"], "`WEIGHT` is not a literal"),
        (["our_models:make("], "is not valid Python ('(' was never closed)\n\n  make(\n      ^"),
        (["our_models:make + 1"], "`make + 1` is not a target"),
        (
            ["our_models:predict", "-i", "y=f32[3]"],
            "no parameter `y`; its parameters are: x, scale",
        ),
        (["our_models:predict", "-i", "x=f32[3]", "-i", "f32[3]"], "follows an input with a name"),
        (
            ["our_models:predict", "-i", "f32[3]", "-i", "x=f32[3]"],
            "`x` of `predict` is given twice",
        ),
        (
            ["our_models:predict", "-i", "x=f32[B B,4]"],
            "has the size 'B B', which is not a symbolic",
        ),
        (["our_models:predict"], "cannot be called with 0 inputs"),
        (["our_models:predict", "-i", "f32[2,4]", "--opset", "12"], "opset 12 is not supported"),
        (["our_models:predict", "-i", "x=f3[2]"], "`f3` is not a type"),
        (["our_models:predict", "--input-param", "mode=fast"], "  mode=fast\n       ^^^^"),
    ],
)
def test_a_bad_specification_is_one_message_and_exits_with_2(
    arguments: list[str], message: str, monkeypatch: Any, capfd: Any
) -> None:
    code, out, err = export(monkeypatch, capfd, *arguments, "-o", "m.onnx")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert "Traceback" not in err


def test_a_module_that_misses_another_shows_its_own_error(monkeypatch: Any, capfd: Any) -> None:
    code, _, err = export(monkeypatch, capfd, "fails_early:f", "-o", "m.onnx")
    assert code == 1
    assert 'fails_early.py", line 1' in err
    assert "ModuleNotFoundError: No module named 'no_such_library'" in err


def test_a_file_that_cannot_be_written_is_said(monkeypatch: Any, capfd: Any) -> None:
    code, _, err = export(
        monkeypatch, capfd, "our_models:predict", "-i", "f32[2,4]", "-o", "no/m.onnx"
    )
    assert code == 1
    assert err.startswith("error: cannot write 'no/m.onnx': No such file or directory (there is")


NO_LINES = "note: `explain` and `view` cannot show your lines; add `--provenance indexed`\n"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), NO_LINES),
        (("--nan", "ignore"), NO_LINES),
        (("--quiet",), ""),
        (("--dry-run",), ""),
        (("--format", "json"), ""),
        (("--source-map",), ""),
        (("--provenance", "off"), ""),
        (("--provenance", "indexed"), ""),
    ],
)
def test_an_export_that_records_no_lines_says_so_unless_it_was_asked_to(
    flags: tuple[str, ...], said: str, monkeypatch: Any, capfd: Any
) -> None:
    spec = ("our_models:predict", "-i", "f32[B,4]", "-o", "m.onnx")
    code, _, err = export(monkeypatch, capfd, *spec, *flags)
    assert (code, err) == (0, said)
    assert len(NO_LINES) <= 80


def test_an_export_that_a_project_configures_says_nothing_about_lines(
    folder: Path, monkeypatch: Any, capfd: Any
) -> None:
    spec = ("our_models:predict", "-i", "f32[B,4]", "-o", "m.onnx")
    (folder / "pyproject.toml").write_text('[tool.jax2onnx]\nprovenance = "off"\n')
    assert export(monkeypatch, capfd, *spec)[2] == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("quiet", [True, False])
def test_a_terminal_shows_the_stage(quiet: bool, monkeypatch: Any, capfd: Any) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(_progress, "_TICK", 0.01)
    flags = ["-i", "x=f32[2]", "-i", "mask=f32[2]", "-o", "m.onnx", *(["--quiet"] * quiet)]
    flags += ["--provenance", "off"]
    code, _, _ = export(monkeypatch, capfd, "our_models:make(slow=True)", *flags)
    assert code == 0
    shown = terminal.getvalue()
    assert ("importing … 0.0 s" in shown) == (not quiet)
    assert shown == "" if quiet else shown.endswith("\r\x1b[2K")


def test_the_program_lists_its_commands(capfd: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["jax2onnx", "--help"])
    assert __main__.main() == 0
    out = capfd.readouterr().out
    commands = {words[0]: words[1] for words in map(str.split, out.splitlines()) if len(words) > 1}
    assert commands["export"] == "Export"
    assert commands.keys() >= {"blame", "check", "diff", "inspect", "plugins", "strip", "where"}


def test_the_command_of_the_wheel_asks_a_model_without_jax(tmp_path: Path) -> None:
    source = tmp_path / "net.py"
    source.write_text("import jax.numpy as jnp\n\n\ndef net(x):\n    return jnp.sin(x)\n")
    program = [sys.executable, "-m", "jax2onnx"]
    export = [*program, "export", "net:net", "-i", "x=f32[3]", "-o", "net.onnx", "--quiet"]
    subprocess.run([*export, "--provenance", "indexed"], cwd=tmp_path, check=True)
    ask = (
        "import sys; from jax2onnx import __main__; "
        "sys.argv = ['jax2onnx', 'where', 'net.onnx', 'sin']; code = __main__.main(); "
        "assert not {'jax', 'numpy', 'onnx'} & sys.modules.keys(); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:5] == [
        "Sin `sin`",
        "  --> net.py:5:12, in net",
        "   |",
        " 5 |     return jnp.sin(x)",
        "   |            ^^^^^^^^^^",
    ]
