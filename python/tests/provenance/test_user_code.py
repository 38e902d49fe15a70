"""Whose code is whose, and how files are named: by argument, block, environment and project."""

from __future__ import annotations

import doctest
import importlib
import json
import os
import re
import site
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import pytest

import jax2onnx
from jax2onnx import __main__
from testkit.accuracy import metadata, nodes_of

LAYERS = """\
import jax.numpy as jnp

def layer(x):
    return jnp.tanh(x)
"""

MODEL = """\
from sample_layers import layer

def net(x):
    return layer(x)
"""

SECTION = "[tool.jax2onnx]\n"


@pytest.fixture
def importing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Path], ModuleType]]:
    """Imports a module from a place, and forgets it afterwards."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def load(name: str, place: Path) -> ModuleType:
        site.addsitedir(str(place))
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield load
    for name in set(sys.modules) - before:
        if name.startswith("sample_"):
            del sys.modules[name]


@pytest.fixture
def net(tmp_path: Path, importing: Callable[[str, Path], ModuleType]) -> Any:
    """A function of the user that calls one of an installed package."""
    package = tmp_path / "site-packages" / "sample_layers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(LAYERS)
    importing("sample_layers", package.parent)
    namespace: dict[str, Any] = {}
    exec(compile(MODEL, str(tmp_path / "net.py"), "exec"), namespace)
    return namespace["net"]


def callsites(fn: Any, **options: Any) -> set[str]:
    model = jax2onnx.to_onnx(fn, [(2,)], provenance="minimal", **options)
    return {metadata(node)["callsite"] for node in nodes_of(model)}


def files(fn: Any, **options: Any) -> set[str]:
    """The files of the user that the table of a model names."""
    return files_of(jax2onnx.to_onnx(fn, [(2,)], provenance="indexed", **options))


def files_of(model: onnx.ModelProto) -> set[str]:
    (entry,) = model.metadata_props
    table = json.loads(entry.value)
    return {path for path, tier in zip(table["files"], table["tiers"], strict=True) if tier == "u"}


def write_project(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder a project, and work below it."""
    (folder / "pyproject.toml").write_text(text)
    (folder / "src").mkdir(exist_ok=True)
    monkeypatch.chdir(folder / "src")


def test_files_in_subpackages_of_jax2onnx_are_internal() -> None:
    @jax2onnx.onnx_function
    def body(x: Any) -> Any:
        return x * 2

    model = jax2onnx.to_onnx(lambda x: body(x), [(2,)], provenance="indexed")
    (entry,) = model.metadata_props
    table = json.loads(entry.value)
    tiers = dict(zip(table["files"], table["tiers"], strict=True))
    own = {path: tier for path, tier in tiers.items() if path.startswith("jax2onnx/")}
    assert own == {
        "jax2onnx/_tracing/markers.py": "i",
        "jax2onnx/_tracing/onnx_function.py": "i",
    }


def test_an_installed_package_is_the_users_where_it_is_named(
    net: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, mine = {"net:4"}, {"layer:4"}
    assert callsites(net) == library
    assert callsites(net, user_code=["sample_layers"]) == mine
    with jax2onnx.provenance(user_code=["sample_layers"]):
        assert callsites(net) == mine
    monkeypatch.setenv("JAX2ONNX_USER_CODE", os.pathsep.join(["another_one", "sample_layers"]))
    assert callsites(net) == mine
    monkeypatch.delenv("JAX2ONNX_USER_CODE")
    write_project(tmp_path, SECTION + 'user-code = ["sample_layers"]\n', monkeypatch)
    assert callsites(net) == mine
    write_project(tmp_path, SECTION + 'user-code = ["site-packages/sample_layers"]\n', monkeypatch)
    assert callsites(net) == mine
    write_project(tmp_path, "[tool.other]\n", monkeypatch)
    assert callsites(net) == library


def test_a_package_of_the_user_is_a_library_where_it_is_named(
    tmp_path: Path, importing: Callable[[str, Path], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sample_layers.py").write_text(LAYERS)
    (tmp_path / "sample_net.py").write_text(MODEL)
    net = importing("sample_net", tmp_path).net
    assert callsites(net) == {"layer:4"}
    monkeypatch.setenv("JAX2ONNX_LIBRARY_CODE", "sample_layers")
    assert callsites(net) == {"net:4"}
    monkeypatch.delenv("JAX2ONNX_LIBRARY_CODE")
    write_project(tmp_path, SECTION + 'library-code = ["sample_layers.py"]\n', monkeypatch)
    assert callsites(net) == {"net:4"}


def test_a_part_of_a_package_can_be_named(
    tmp_path: Path, importing: Callable[[str, Path], ModuleType]
) -> None:
    package = tmp_path / "site-packages" / "sample_parts"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "layers.py").write_text(LAYERS)
    (package / "nets.py").write_text(MODEL.replace("sample_layers", "sample_parts.layers"))
    layer = importing("sample_parts.nets", package.parent).net
    namespace: dict[str, Any] = {"layer": layer}
    exec(compile("def net(x):\n    return layer(x)\n", str(tmp_path / "net.py"), "exec"), namespace)
    assert callsites(namespace["net"]) == {"net:2"}
    assert callsites(namespace["net"], user_code=["sample_parts.nets"]) == {"net:4"}
    assert callsites(namespace["net"], user_code=["sample_parts"]) == {"layer:4"}


def test_a_model_that_is_installed_itself_has_its_own_lines(
    net: Any, tmp_path: Path, importing: Callable[[str, Path], ModuleType]
) -> None:
    """They come before those of what it is built on, which is installed as well."""
    place = tmp_path / "site-packages"
    (place / "sample_net").mkdir()
    (place / "sample_net" / "__init__.py").write_text(MODEL)
    installed = importing("sample_net", place).net
    assert callsites(installed) == {"net:4"}
    with jax2onnx.provenance(library_code=["sample_net"]):
        assert callsites(installed) == {"layer:4"}


def test_a_package_that_is_installed_as_editable_is_the_users(
    tmp_path: Path, importing: Callable[[str, Path], ModuleType]
) -> None:
    source, place = tmp_path / "work" / "src", tmp_path / "site-packages"
    source.mkdir(parents=True)
    place.mkdir()
    (source / "sample_layers.py").write_text(LAYERS)
    (place / "__editable__.sample_layers-1.0.pth").write_text(f"{source}\n")
    layers = importing("sample_layers", place)
    assert Path(str(layers.__file__)).parent == source
    assert callsites(lambda x: layers.layer(x)) == {"layer:4"}


def test_the_lines_of_a_doctest_are_the_users() -> None:
    text = """
        >>> import jax.numpy as jnp
        >>> from jax2onnx import to_onnx
        >>> def fn(x):
        ...     y = jnp.sin(x)
        ...     return jnp.exp(y)
        >>> model = to_onnx(fn, [(2,)], provenance="minimal")
        >>> [node.metadata_props[0].value for node in model.graph.node]
        ['fn:2', 'fn:3']
    """
    test = doctest.DocTestParser().get_doctest(text, {}, "page", "page.py", 0)
    runner = doctest.DocTestRunner(verbose=False)
    assert runner.run(test) == (0, 5)


@pytest.mark.parametrize("policy", ["relative", "absolute"])
def test_a_folder_is_written_as_something_else(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace: dict[str, Any] = {}
    text = "import jax.numpy as jnp\ndef fn(x):\n    return jnp.sin(x)\n"
    exec(compile(text, str(tmp_path / "deep" / "net.py"), "exec"), namespace)
    fn, prefix = namespace["fn"], f"{tmp_path}=proj"
    monkeypatch.setenv("JAX2ONNX_STACKTRACE_PATHS", policy)
    mapped = {"proj/deep/net.py"}
    assert files(fn) != mapped
    assert files(fn, provenance_prefixes=[prefix]) == mapped
    assert files(fn, provenance_prefixes={str(tmp_path): "proj"}) == mapped
    assert files(fn, provenance_prefixes=[prefix, f"{tmp_path / 'deep'}="]) == {"net.py"}
    with jax2onnx.provenance(prefixes=[prefix]):
        assert files(fn) == mapped
    monkeypatch.setenv("JAX2ONNX_STACKTRACE_PREFIXES", prefix)
    assert files(fn) == mapped
    monkeypatch.delenv("JAX2ONNX_STACKTRACE_PREFIXES")
    write_project(tmp_path, SECTION + 'path-prefixes = [".=proj"]\n', monkeypatch)
    assert files(fn) == mapped


def test_the_command_line_has_both(
    net: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "work" / "sample_net.py").write_text(MODEL)
    monkeypatch.setattr(sys, "argv", ["jax2onnx"])
    arguments = ["export", "sample_net.py:net", "-i", "f32[2]", "-o", "m.onnx", "-q"]
    arguments += ["--provenance", "indexed", "--user-code", "sample_layers"]
    arguments += ["--provenance-prefix", f"{tmp_path}/work=proj"]
    sys.argv += arguments
    assert __main__.main() == 0
    model = onnx.load("m.onnx")
    assert {metadata(node)["callsite"] for node in model.graph.node} == {"layer:4"}
    assert files_of(model) == {"proj/sample_net.py", "sample_layers/__init__.py"}


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            "user_code = []",
            "`user_code` is not a key of `tool.jax2onnx` in `.*pyproject.toml`: "
            "did you mean `user-code`",
        ),
        ('user-code = "net"', "`user-code` of `tool.jax2onnx` in `.*` is not a list of strings"),
        ('path-prefixes = ["proj"]', "`.*proj` of `path-prefixes` is not `folder=name`"),
        ("user-code = [", "`.*pyproject.toml` is not TOML"),
    ],
)
def test_a_section_that_cannot_be_understood_is_refused(
    section: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path, f"{SECTION}{section}\n", monkeypatch)
    with pytest.raises(jax2onnx.ConfigError, match=message):
        jax2onnx.to_onnx(lambda x: x, [(2,)])


def test_a_string_instead_of_a_list_is_refused() -> None:
    for options in ({"user_code": "net"}, {"provenance_prefixes": "/a=b"}):
        with pytest.raises(jax2onnx.ConfigError, match="must be a list of"):
            jax2onnx.to_onnx(lambda x: x, [(2,)], **options)


PROGRAM = """\
import sys
import jax
import jax.numpy as jnp
from flax import nnx
from jax.extend.core import Primitive
import jax2onnx
from my_lib.layers import layer

ramp = Primitive("ramp")
ramp.def_abstract_eval(lambda x: x)

@jax2onnx.plugin(ramp)
class Ramp:
    def lower(self, ctx, eqn):
        return ctx.op.Clip(*ctx.inputs, 0.0, 1.0)

class Net(nnx.Module):
    def __init__(self):
        self.linear = nnx.Linear(3, 3, rngs=nnx.Rngs(0))

    def __call__(self, x):
        return jax.nn.softmax(layer(ramp.bind(self.linear(x))))

cell = compile("cell = lambda x: jax.lax.cond(x[0, 0] > 0, Net(), jnp.sin, x)", CELL, "exec")
exec(cell)
for level in ("minimal", "full", "indexed"):
    jax2onnx.to_onnx(
        cell, [(2, 3)], provenance=level, return_mode="file", output_path=level + ".onnx",
        source_map=True,
    )
"""


@pytest.mark.slow
def test_nothing_that_is_written_has_a_folder_or_a_name_of_the_machine(tmp_path: Path) -> None:
    """Of a program deep in the folders of a user whose name is in all of them."""
    user = "wilhelmina"
    home = tmp_path / "home" / user
    work = home / f"projects of {user}" / "client" / "net"
    library = home / "checkouts" / user / "my_lib"
    for folder in (work, library):
        folder.mkdir(parents=True)
    (library / "__init__.py").touch()
    (library / "layers.py").write_text(LAYERS)
    cell = f"/tmp/ipykernel_{user}/123.py"
    (work / "export.py").write_text(PROGRAM.replace("CELL", repr(cell)))
    package = str(Path(jax2onnx.__file__).parent.parent)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("JAX2ONNX")}
    environment = clean | {
        "HOME": str(home),
        "USER": user,
        "PYTHONPATH": os.pathsep.join([package, str(library.parent)]),
    }
    done = subprocess.run(
        [sys.executable, str(work / "export.py")],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    folders = {str(tmp_path), package, sys.prefix, sys.base_prefix, str(Path.home())} - {"/"}
    words = [user, "site-packages", *folders, *(str(folder) for folder in site.getsitepackages())]
    written = sorted(work.glob("*.onnx*"))
    assert len(written) == 6
    for file in written:
        data = file.read_bytes()
        assert file.suffix == ".map" or b"layer:4" in data
        for word in words:
            assert word.encode() not in data, (file.name, word)
        for found in re.findall(rb"[\w./<>-]+\.(?:py|rs)\b", data):
            assert not found.startswith(b"/"), (file.name, found)
