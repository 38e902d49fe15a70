"""Every node has the line that asked for it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import onnx
import pytest
from flax import nnx

import jax2onnx
from testkit import accuracy
from testkit.accuracy import Source, check, export, frames_of, metadata
from testkit.accuracy.every import MODULES, SAMPLES

NET = """\
import jax
import jax.numpy as jnp

def hidden(x):
    return jnp.where(x > 0, jnp.sin(x), 0.0)  # <- gt sin select_n *

def net(x):
    y = hidden(x)
    return jax.nn.softmax(y) * 2.0  # <- exp mul *
"""

SCRIPT = """\
import sys
from jax2onnx import to_onnx
import jax.numpy as jnp

class Net:
    def __call__(self, x):
        y = jnp.var(x)  # <- reduce_sum *
        return jnp.sin(x) - y  # <- sin sub *

def main():
    to_onnx(
        Net(), [(4,)], return_mode="file", output_path=sys.argv[1], provenance="full",
        provenance_paths="absolute",
    )

if __name__ == "__main__":
    main()
"""


def test_there_are_samples_of_every_kind() -> None:
    assert {build.__module__ for build in SAMPLES} == {m.__name__ for m in MODULES}
    print(f"{len(SAMPLES)} tagged cases")
    assert len(SAMPLES) >= 120


@pytest.mark.parametrize("build", SAMPLES, ids=lambda build: build.__name__)
def test_every_node_has_the_line_that_asked_for_it(build: accuracy.Sample) -> None:
    accuracy.check_sample(build)


def run_source(text: str, file: str) -> dict[str, Any]:
    """What a module with this text defines, run under this name of a file."""
    namespace: dict[str, Any] = {"__name__": "sample"}
    exec(compile(text, file, "exec"), namespace)
    return namespace


@pytest.mark.parametrize(
    "file",
    [
        "<string>",
        "<stdin>",
        "<my model>",
        "<ipython-input-3-0123456789ab>",
        "/tmp/ipykernel_17/1234567890.py",
        "generated/net.py",
    ],
)
def test_code_that_is_run_from_a_text_is_the_users(file: str) -> None:
    check(export(run_source(NET, file)["net"], [(4,)]), [Source(file, NET)])


@pytest.mark.parametrize(
    "folder",
    [
        "jax_models",
        "my_flax/nets",
        "jax",
        "jaxlib/net",
        "equinox",
        "lib/jax2onnx",
        "site-packages-2",
    ],
)
def test_a_file_is_the_users_in_a_folder_of_any_name(folder: str, tmp_path: Path) -> None:
    path = tmp_path / folder / "net.py"
    path.parent.mkdir(parents=True)
    path.write_text(NET)
    namespace = run_source(NET, str(path))
    check(export(namespace["net"], [(4,)]), [Source(str(path), NET)])


@pytest.fixture
def importing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports a module from a place, and forgets it afterwards."""
    before = set(sys.modules)

    def load(name: str, place: Path) -> ModuleType:
        monkeypatch.syspath_prepend(str(place))
        return importlib.import_module(name)

    yield load
    for name in set(sys.modules) - before:
        if name.startswith("sample_"):
            del sys.modules[name]


def test_a_module_in_a_zip_file_is_the_users(tmp_path: Path, importing: Any) -> None:
    archive = tmp_path / "nets.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("sample_zip/__init__.py", "")
        file.writestr("sample_zip/net.py", NET)
    module = importing("sample_zip.net", archive)
    source = Source(str(archive / "sample_zip" / "net.py"), NET)
    check(export(module.net, [(4,)]), [source])


LAYERS = """\
import jax.numpy as jnp

def layer(x):
    return jnp.tanh(x) + 1.0  # <- tanh:2 add:2
"""

CALLER = """\
from sample_layers import layer

def net(x):
    y = layer(x){first}
    return layer(y){second}
"""


def test_a_package_that_is_not_installed_is_the_users_until_it_is_declared_a_library(
    tmp_path: Path, importing: Any
) -> None:
    package = tmp_path / "vendored" / "sample_layers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(LAYERS)
    importing("sample_layers", package.parent)
    caller = str(tmp_path / "net.py")

    layers = Source(str(package / "__init__.py"), LAYERS)
    net = run_source(CALLER.format(first="", second=""), caller)["net"]
    check(export(net, [(2,)]), [layers])

    tag = "  # <- tanh:1 add:1"
    tagged = CALLER.format(first=tag, second=tag)
    net = run_source(tagged, caller)["net"]
    with jax2onnx.provenance(library_code=[package.parent]):
        check(export(net, [(2,)]), [Source(caller, tagged)])


def test_an_installed_package_is_a_library_until_it_is_declared_the_users(
    tmp_path: Path, importing: Any
) -> None:
    package = tmp_path / "site-packages" / "sample_layers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(LAYERS)
    importing("sample_layers", package.parent)
    caller = str(tmp_path / "net.py")
    tag = "  # <- tanh:1 add:1"
    tagged = CALLER.format(first=tag, second=tag)
    net = run_source(tagged, caller)["net"]
    check(export(net, [(2,)]), [Source(caller, tagged)])
    with jax2onnx.provenance(user_code=[package]):
        check(export(net, [(2,)]), [Source(str(package / "__init__.py"), LAYERS)])


def run_python(*arguments: str, stdin: str | None = None, cwd: Path) -> None:
    """Run a program of its own."""
    package = str(Path(jax2onnx.__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([package, str(cwd)])}
    done = subprocess.run(
        [sys.executable, *arguments],
        input=stdin,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_program_from_standard_input(tmp_path: Path) -> None:
    run_python("-", str(tmp_path / "net.onnx"), stdin=SCRIPT, cwd=tmp_path)
    check(onnx.load(tmp_path / "net.onnx"), [Source("<stdin>", SCRIPT)])


@pytest.mark.slow
def test_a_program_from_the_command_line(tmp_path: Path) -> None:
    run_python("-c", SCRIPT, str(tmp_path / "net.onnx"), cwd=tmp_path)
    check(onnx.load(tmp_path / "net.onnx"), [Source("<string>", SCRIPT)])


def test_a_module_that_is_run(tmp_path: Path) -> None:
    package = tmp_path / "tool"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "script.py").write_text(SCRIPT)
    run_python("-m", "tool.script", str(tmp_path / "net.onnx"), cwd=tmp_path)
    check(onnx.load(tmp_path / "net.onnx"), [Source(str(package / "script.py"), SCRIPT)])


def test_a_script_that_is_run(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    run_python(str(tmp_path / "script.py"), str(tmp_path / "net.onnx"), cwd=tmp_path)
    check(onnx.load(tmp_path / "net.onnx"), [Source(str(tmp_path / "script.py"), SCRIPT)])


def test_what_is_written_on_the_line_of_the_export_has_that_line() -> None:
    text = textwrap.dedent("""\
        import jax.numpy as jnp
        from jax2onnx import to_onnx

        options = {"provenance": "full", "provenance_paths": "absolute"}
        model = to_onnx(lambda x: jnp.sin(x), [(2,)], **options)  # <- sin:1
    """)
    check(run_source(text, "<cell>")["model"], [Source("<cell>", text)])


@pytest.mark.parametrize(
    ("fn", "inputs", "callsite"),
    [
        (jnp.sin, [(2,)], "sin"),
        (jnp.var, [(3,)], "var"),
        (jax.nn.gelu, [(3,)], "gelu"),
        (jax.vmap(jnp.linalg.norm), [(2, 3)], "norm"),
        (jax.grad(jax.nn.silu), [()], "silu"),
    ],
)
def test_a_function_of_jax_has_the_line_of_its_definition(
    fn: Any, inputs: list[Any], callsite: str
) -> None:
    nodes = export(fn, inputs).graph.node
    assert nodes
    for node in nodes:
        assert metadata(node)["callsite"].rpartition(":")[0] == callsite
        assert not any(file == accuracy.__file__ for file, *_ in frames_of(node))


def test_a_layer_of_a_library_has_the_librarys_own_lines() -> None:
    model = export(nnx.Linear(3, 4, rngs=nnx.Rngs(0)), [(2, 3)])
    assert {metadata(node)["callsite"].rpartition(":")[0] for node in model.graph.node} <= {
        "Linear.__call__",
        "Linear.__init__.<locals>.dot_general",
    }


def outer_lines(model: onnx.ModelProto, function: str) -> Mapping[str, set[int]]:
    """For each call site, the lines of `function` that it was reached from."""
    found: dict[str, set[int]] = {}
    for node in model.graph.node:
        lines = {line for _, line, name in frames_of(node) if name == function}
        found.setdefault(metadata(node)["callsite"], set()).update(lines)
    return found


@pytest.mark.parametrize(
    "transform", [jax.jit, jax.checkpoint, lambda fn: jax.jit(jax.jit(fn)), lambda fn: fn]
)
def test_a_helper_that_is_called_on_two_lines_has_two_call_paths(transform: Any) -> None:
    text = textwrap.dedent("""\
        import jax.numpy as jnp

        @transform
        def helper(x):
            return jnp.sin(x)

        def net(x):
            y = helper(x)
            return helper(y)
    """)
    namespace: dict[str, Any] = {"transform": transform}
    exec(compile(text, "<two lines>", "exec"), namespace)
    model = export(namespace["net"], [(2,)])
    assert [metadata(node)["callsite"] for node in model.graph.node] == ["helper:5"] * 2
    assert outer_lines(model, "net") == {"helper:5": {8, 9}}
    first, second = (
        [line for _, line, name in frames_of(node) if name == "net"] for node in model.graph.node
    )
    assert (first, second) == ([8], [9])


def test_a_second_export_has_the_paths_of_its_own_calls() -> None:
    """JAX keeps the body of a jitted helper from the first export; its caller is the second's."""
    helper = jax.jit(jnp.cbrt)
    for name in ("first", "second"):
        text = f"def {name}(x):\n    return helper(x)\n"
        namespace: dict[str, Any] = {"helper": helper}
        exec(compile(text, "<again>", "exec"), namespace)
        model = export(namespace[name], [(2,)])
        assert {metadata(node)["callsite"] for node in model.graph.node} == {f"{name}:2"}
