"""No command and no function replaces a file that it reads, and one module writes files."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import jax2onnx
from jax2onnx import ConfigError, __main__, to_onnx
from testkit.comparing import with_operator

SOURCE = """
import jax.numpy as jnp
import numpy as np

WEIGHTS = np.full((16, 32), 0.5, np.float32)

def f(x):
    return jnp.sin(x) @ WEIGHTS
"""
X = np.full((1, 16), 0.5, np.float32)
PROFILE = json.dumps(
    [{"cat": "Node", "name": "sin_kernel_time", "dur": 5, "ts": 1, "args": {"op_name": "Sin"}}]
)
REPORT = json.dumps({"version": 1, "rows": [], "first": None, "outputs": [], "agrees": True})


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with everything that a command reads."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "train.py").write_text(SOURCE)
    before = os.getcwd()
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    try:
        import train  # type: ignore[import-not-found]

        options: Any = {"provenance": "full", "return_mode": "file", "weights": "external"}
        to_onnx(train.f, [(1, 16)], output_path="a.onnx", source_map=True, **options)
    finally:
        os.chdir(before)
        sys.path.remove(str(folder))
    model = onnx.load(folder / "a.onnx")
    onnx.save(with_operator(model, "Sin", "Cos"), folder / "b.onnx")
    np.save(folder / "x.npy", X)
    np.savez(folder / "x.npz", x=X)
    (folder / "profile.json").write_text(PROFILE)
    (folder / "report.json").write_text(REPORT)
    (folder / "pyproject.toml").write_text("[tool.jax2onnx]\n")
    yield folder
    sys.modules.pop("train", None)


@pytest.fixture
def folder(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the folder, which is the current one."""
    shutil.copytree(prepared, tmp_path / "in")
    monkeypatch.chdir(tmp_path / "in")
    sys.modules["train"].__file__ = str(tmp_path / "in" / "train.py")
    return tmp_path / "in"


def spellings(path: Path) -> Iterator[str]:
    """Yield paths that lead to a file."""
    yield path.name
    yield f"./sub/../{path.name}"
    yield str(path)
    Path("soft").symlink_to(path.name)
    yield "soft"
    Path("sub/softer").symlink_to("../soft")
    yield "sub/softer"
    Path("hard").hardlink_to(path)
    yield "hard"


def contents() -> dict[str, str]:
    """Return the hash of each file."""
    files = (path for path in Path().rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def is_refused(write: Callable[[str], object], name: str) -> None:
    """Check that something refuses to write to a file, however its path is spelled."""
    path = next(Path().resolve().glob(name))
    Path("sub").mkdir()
    for spelled in spellings(path):
        before = contents()
        with pytest.raises(ConfigError, match="use another path"):
            write(spelled)
        assert contents() == before, f"{spelled} was written"


def command(*arguments: str) -> None:
    """Run a command, and raise what it reports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["jax2onnx", *arguments])
        code = __main__.main()
    assert code == 2, arguments
    raise ConfigError("use another path")


VIEW = [
    *("view", "a.onnx", "--profile", "profile.json", "--compare", "report.json"),
    *("--against", "b.onnx", "-o"),
]


@pytest.mark.parametrize(
    "name",
    [
        *("a.onnx", "a.onnx.map", "*.data", "b.onnx", "profile.json", "report.json"),
        "train.py",
    ],
)
def test_a_page_does_not_replace_what_it_is_made_from(
    folder: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    is_refused(lambda path: command(*VIEW, path), name)
    assert capfd.readouterr().err.count("use another path") == 6
    page = jax2onnx.view(
        "a.onnx",
        open=False,
        profile="profile.json",
        compare="report.json",
        against="b.onnx",
    )
    for spelled in ("sub/softer", "hard"):
        with pytest.raises(ConfigError, match="cannot write the page to"):
            page.save(spelled)


@pytest.mark.parametrize("name", ["train.py", "pyproject.toml"])
def test_an_export_does_not_replace_the_program(folder: Path, name: str) -> None:
    import train

    def written(**options: Any) -> Callable[[str], object]:
        (output,) = options

        def write(path: str) -> object:
            more: dict[str, Any] = {"output_path": "new.onnx", output: path}
            return to_onnx(train.f, [(1, 16)], return_mode="file", **more)

        return write

    is_refused(written(output_path=1), name)
    for output in ("source_map", "record_primitive_calls_file", "explain_passes"):
        with pytest.raises(ConfigError, match="use another path"):
            written(**{output: 1})("hard")
    assert not Path("new.onnx").exists()


def test_two_outputs_of_an_export_are_two_files(folder: Path) -> None:
    import train

    outputs = ("source_map", "record_primitive_calls_file", "explain_passes")
    for one in outputs:
        for other in ("output_path", *outputs):
            if one != other:
                options: Any = {"output_path": "m.onnx", one: "new", other: "./new"}
                with pytest.raises(ConfigError, match="goes to the same file"):
                    to_onnx(train.f, [(1, 16)], return_mode="file", **options)
    assert not Path("m.onnx").exists()
    assert not Path("new").exists()


@pytest.mark.parametrize("name", ["a.onnx", "b.onnx", "x.npy", "x.npz"])
def test_the_command_compare_does_not_replace_an_input(
    folder: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    array = "x.npz" if name == "x.npz" else "x.npy"
    arguments = ["compare", "a.onnx", "b.onnx", "-q", "-i", array, "--keep-float32"]
    is_refused(lambda path: command(*arguments, path), name)
    assert capfd.readouterr().err.count("use another path") == 6


def test_a_report_does_not_replace_what_was_compared(folder: Path) -> None:
    report = jax2onnx.compare("a.onnx", "b.onnx", [X], source_map="a.onnx.map")
    assert report.first is not None
    for name in ("a.onnx", "b.onnx", "a.onnx.map", *map(str, Path().glob("*.data")), "train.py"):
        before = contents()
        with pytest.raises(ConfigError, match="cannot write the names of nodes to"):
            report.keep_float32(name)
        assert contents() == before
    report.keep_float32("keep.txt")
    report.keep_float32("keep.txt")
    assert Path("keep.txt").read_text() == "".join(f"{each}\n" for each in report.keep_float32())


def test_a_picture_does_not_replace_the_model(folder: Path) -> None:
    times = jax2onnx.profile("a.onnx", [X], runs=1)
    for name in ("a.onnx", "a.onnx.map", "train.py", *map(str, Path().glob("*.data"))):
        before = contents()
        for save in (times.save_flamegraph, times.save_speedscope):
            with pytest.raises(ConfigError, match="use another path"):
                save(name)
        assert contents() == before
    times.save_flamegraph("times.svg")
    assert "<svg" in Path("times.svg").read_text()


@pytest.mark.parametrize("name", ["a.onnx.map", "*.data"])
def test_a_model_is_written_in_place_but_not_over_its_other_files(
    folder: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    is_refused(lambda path: command("attach", "a.onnx", "a.onnx.map", "-o", path), name)
    if name == "*.data":
        for path in ("hard", "sub/softer"):
            before = contents()
            with pytest.raises(ConfigError):
                command("strip", "a.onnx", "-o", path)
            with pytest.raises(ConfigError):
                command("strip", "a.onnx", "-o", "new.onnx", "--map", path)
            assert contents() == before
    with pytest.raises(AssertionError):
        command("strip", "a.onnx", "-o", "a.onnx")
    assert "entries removed" in capfd.readouterr().out


def test_a_reproducer_needs_a_folder_of_its_own(folder: Path) -> None:
    report = jax2onnx.compare("a.onnx", "b.onnx", [X])
    case = Path("case")
    for occupied in ("run.py", "model.onnx", "notes.txt"):
        case.mkdir()
        (case / occupied).write_text("mine")
        with pytest.raises(ConfigError, match="the folder contains other files"):
            report.save_reproducer(case)
        assert (case / occupied).read_text() == "mine"
        shutil.rmtree(case)
    with pytest.raises(ConfigError, match="the folder contains other files"):
        report.save_reproducer(".")
    report.save_reproducer(case)
    first = {path: path.read_bytes() for path in case.iterdir()}
    report.save_reproducer(case)
    assert {path: path.read_bytes() for path in case.iterdir()} == first
    (case / "run.py").write_text("mine")
    with pytest.raises(ConfigError, match="the folder contains other files"):
        report.save_reproducer(case)
    assert (case / "run.py").read_text() == "mine"
    with pytest.raises(jax2onnx.WriteError):
        report.save_reproducer("a.onnx")
    with pytest.raises(jax2onnx.WriteError):
        report.save_reproducer("a.onnx/case")


def test_a_write_that_fails_leaves_no_file_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = jax2onnx.compare("a.onnx", "b.onnx", [X])

    def fail(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr("jax2onnx._core.write_files", fail)
    with pytest.raises(OSError, match="no"):
        report.save_reproducer("case")
    assert not Path("case").exists()


PACKAGE = Path(jax2onnx.__file__).parent
#: Functions that write files, or create them.
WRITERS = {
    *("write_text", "write_bytes", "save", "savez", "savez_compressed", "savetxt", "tofile"),
    *("mkstemp", "mkdtemp", "TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile"),
    *("makedirs", "mkdir", "rename", "renames", "copyfile", "copytree", "move", "memmap"),
    *("symlink", "link", "symlink_to", "hardlink_to", "truncate", "touch", "unlink", "rmdir"),
    *("rmtree", "fdopen", "save_model", "convert_model_to_external_data"),
}
#: Calls that only look like it: of arrays in memory, of the gate, and of lists.
HARMLESS = {
    ("_comparing/reproducer.py", "save"),
    ("_comparing/reproducer.py", "savez"),
    ("_comparing/models.py", "save"),
    ("_comparing/models.py", "memmap"),
    ("_comparing/runtime.py", "save"),
    ("_comparing/report.py", "save"),
    # The files by which the process of another runtime gets its inputs, in a temporary folder.
    ("_runtimes/process.py", "TemporaryFile"),
    ("_runtimes/process.py", "mkdir"),
    ("_runtimes/process.py", "tofile"),
    ("_runtimes/process.py", "truncate"),
    ("_runtimes/process.py", "write_bytes"),
    ("_runtimes/process.py", "write_text"),
    ("_runtimes/serve.py", "fdopen"),
    ("_runtimes/serve.py", "tofile"),
    ("_runtimes/serve.py", "unlink"),
}


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                if ast.unparse(node.func.value) != "_files":
                    yield node.func.attr, node
            elif isinstance(node.func, ast.Name):
                yield node.func.id, node


def opens_for_writing(call: ast.Call) -> bool:
    texts = [
        each.value
        for each in [*call.args, *(keyword.value for keyword in call.keywords)]
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    return any(set(text) <= set("rwxabt+") and set(text) & set("wxa+") for text in texts)


def test_one_module_of_the_package_writes_files() -> None:
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        for name, call in calls(path)
        if name in WRITERS or (name == "open" and opens_for_writing(call))
    }
    assert ("_files.py", "open") in found
    assert {(path, name) for path, name in found if path != "_files.py"} == HARMLESS


def test_one_module_of_the_commands_prints() -> None:
    printing = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for name, call in calls(path)
        if name in ("print", "print_exception", "print_exc", "showwarning")
        or (name == "write" and "sys.std" in ast.unparse(call.func))
    }
    # The progress is a line of our own, `explain_passes=True` is no command, and another process
    # answers through its standard output.
    assert printing == {"_progress.py", "_export.py", "_runtimes/serve.py"}
