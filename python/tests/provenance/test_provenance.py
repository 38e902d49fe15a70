"""What the metadata says, level by level."""

from __future__ import annotations

import json
import os
import re
import site
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import onnx
import pytest
from flax import linen

import jax2onnx
from jax2onnx import _api, provenance_reader
from testkit import ROOT, bench
from testkit.accuracy import metadata

PREFIX = "pkg.jax2onnx."

#: The sample of the documentation, as a user types it.
SAMPLE = """\
import jax
import jax.numpy as jnp
from jax2onnx import to_onnx

def fn(x):
    return jnp.sin(x) * 2.0

to_onnx(
    fn,
    [jax.ShapeDtypeStruct((2,), jnp.float32)],
    return_mode="file",
    output_path="sandbox_stacktrace_sample.onnx",
)
"""


def run_sample(folder: Path, **variables: str) -> onnx.ModelProto:
    package = str(Path(jax2onnx.__file__).parent.parent)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("JAX2ONNX")}
    done = subprocess.run(
        [sys.executable, "-"],
        input=SAMPLE,
        cwd=folder,
        env=clean | {"PYTHONPATH": package} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    return onnx.load(folder / "sandbox_stacktrace_sample.onnx")


def test_without_the_variables_nothing_is_written(tmp_path: Path) -> None:
    model = run_sample(tmp_path)
    assert [node.op_type for node in model.graph.node] == ["Sin", "Mul"]
    assert PREFIX.encode() not in model.SerializeToString()
    x = jnp.asarray([0.5, -2.0])
    (found,) = bench.run(model, [x])
    bench.assert_same(found, jax.device_get(jnp.sin(x) * 2.0), rtol=1e-6)


def test_the_sample_says_its_line_and_the_line_of_the_plugin(tmp_path: Path) -> None:
    model = run_sample(tmp_path, JAX2ONNX_ENABLE_STACKTRACE_METADATA="1")
    for node, plugin in zip(model.graph.node, ["SinPlugin", "MulPlugin"], strict=True):
        found = metadata(node)
        assert list(found) == ["callsite", "plugin"]
        assert found["callsite"] == "fn:6"
        assert re.fullmatch(rf"{plugin}\.lower:\d+", found["plugin"])


def test_full_adds_both_stacks(tmp_path: Path) -> None:
    model = run_sample(
        tmp_path,
        JAX2ONNX_ENABLE_STACKTRACE_METADATA="1",
        JAX2ONNX_STACKTRACE_DETAIL="full",
    )
    for node, primitive in zip(model.graph.node, ["sin", "mul"], strict=True):
        found = metadata(node)
        assert list(found) == ["callsite", "plugin", "stacktrace", "jax_traceback"]
        program, api, lowering = found["stacktrace"].split("\n")
        assert program == "<stdin>:8 in <module>"
        assert re.fullmatch(r"jax2onnx/_api\.py:\d+ in to_onnx", api)
        assert line_of("python", api) in source_lines(_api.to_onnx)

        plugin = f"{primitive.capitalize()}Plugin.lower"
        assert re.fullmatch(rf"crates/lowering/src/plugins\.rs:\d+ in {plugin}", lowering)
        assert f'"{primitive}"' in line_of(".", lowering)
        number = re.search(r":(\d+) in ", lowering)
        assert number
        assert found["plugin"] == f"{plugin}:{number[1]}"

        *inner, last = found["jax_traceback"].split("\n")
        assert last == "<stdin>:6 (fn)"
        assert inner
        for line in inner:
            assert re.fullmatch(r"jax/[\w/]+\.py:\d+ \([^()]+\)", line), line


def line_of(root: str, frame: str) -> str:
    """The text of the line that `path:line in function` is about."""
    path, line = frame.partition(" in ")[0].rsplit(":", 1)
    return (ROOT / root / path).read_text().splitlines()[int(line) - 1]


def source_lines(function: Any) -> list[str]:
    import inspect

    return inspect.getsource(function).splitlines()


def net(x: jax.Array, y: jax.Array) -> jax.Array:
    """Shares a node between two lines, and has a jitted function of JAX."""
    first = x + y
    second = x + y
    return jnp.where(first > 0, second, jnp.var(x))


def export(level: str, **options: Any) -> onnx.ModelProto:
    return jax2onnx.to_onnx(net, [(3,), (3,)], provenance=level, **options)


def test_a_node_fused_from_two_lines_names_both() -> None:
    first = net.__code__.co_firstlineno + 2
    for level in ("minimal", "full", "indexed"):
        (add,) = (node for node in export(level).graph.node if node.op_type == "Add")
        assert metadata(add)["callsite"] == f"net:{first}"
        assert metadata(add)["fused_from"] == f"net:{first + 1}"
        others = [n for n in export(level).graph.node if "fused_from" in metadata(n)]
        assert [node.op_type for node in others] == ["Add"]


def test_the_index_has_the_same_call_sites_and_stacks() -> None:
    model, full = export("indexed"), export("full")
    (entry,) = model.metadata_props
    assert entry.key == f"{PREFIX}provenance"
    assert not full.metadata_props
    table = provenance_reader.Table(json.loads(entry.value))
    for node, spelled in zip(model.graph.node, full.graph.node, strict=True):
        found = metadata(node)
        assert found.keys() <= {"callsite", "plugin", "fused_from", "origin"}
        origin = table[int(found["origin"])]
        assert "\n".join(map(str, origin.site.frames)) == metadata(spelled)["jax_traceback"]
        shown, *others = (f"{line.function}:{line.line}" for line in origin.callsites)
        assert shown == found["callsite"]
        assert set(others) == set(found.get("fused_from", "").splitlines())


def test_an_index_is_smaller_than_full() -> None:
    assert export("indexed").ByteSize() < export("full").ByteSize() / 2


@pytest.mark.parametrize("level", ["minimal", "full", "indexed"])
def test_no_absolute_path_is_written_unless_asked_for(level: str) -> None:
    data = export(level).SerializeToString()
    folders = {
        str(Path.home()),
        str(Path.cwd()),
        str(ROOT),
        sys.prefix,
        sys.base_prefix,
        sysconfig.get_path("purelib"),
        sysconfig.get_path("stdlib"),
        *site.getsitepackages(),
        "site-packages",
    }
    for folder in folders - {"/"}:
        assert folder.encode() not in data, folder
    for text in re.findall(rb"[\w./<>-]+\.(?:py|rs)\b", data):
        assert not text.startswith(b"/"), text


def files(model: onnx.ModelProto) -> set[str]:
    """Every file that a node of a full model names."""
    stacks = [metadata(n)[key] for n in model.graph.node for key in ("stacktrace", "jax_traceback")]
    lines = [line for stack in stacks for line in stack.splitlines()]
    return {line.rsplit(":", 1)[0] for line in lines}


def test_the_policy_decides_how_a_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    relative = files(export("full"))
    assert {"python/tests/provenance/test_provenance.py", "jax2onnx/_api.py"} <= relative
    assert "jax/_src/core.py" in relative

    absolute = files(export("full", provenance_paths="absolute"))
    assert {__file__, _api.__file__} <= absolute
    assert all(Path(file).is_absolute() for file in absolute if file.endswith(".py"))

    basename = files(export("full", provenance_paths="basename"))
    assert {"test_provenance.py", "_api.py", "core.py"} <= basename
    assert not any("/" in file for file in basename if file.endswith(".py"))

    with jax2onnx.provenance("full", paths="basename"):
        assert files(jax2onnx.to_onnx(net, [(3,), (3,)])) == basename
    monkeypatch.setenv("JAX2ONNX_STACKTRACE_PATHS", "absolute")
    assert files(export("full")) == absolute


def test_the_policy_holds_for_the_index_too() -> None:
    def named(policy: str) -> set[str]:
        (entry,) = export("indexed", provenance_paths=policy).metadata_props
        return set(json.loads(entry.value)["files"])

    assert "python/tests/provenance/test_provenance.py" in named("relative")
    assert __file__ in named("absolute")
    assert "test_provenance.py" in named("basename")


def names(model: onnx.ModelProto) -> list[str]:
    found = [node.name for node in model.graph.node]
    assert all(found)
    assert len(set(found)) == len(found)
    return found


def test_a_name_has_the_path_of_the_named_scopes() -> None:
    @jax.jit
    def inner(x: jax.Array) -> jax.Array:
        with jax.named_scope("inner"):
            return jnp.sin(x)

    def fn(x: jax.Array) -> jax.Array:
        with jax.named_scope("outer"):
            y = inner(x)
            return inner(y) * 2.0

    model = jax2onnx.to_onnx(fn, [(2,)])
    assert names(model) == ["outer/inner/sin", "outer/inner/sin_1", "outer/mul"]
    assert jax2onnx.to_onnx(fn, [(2,)]) == model


def test_a_name_has_the_path_of_the_linen_module() -> None:
    class Block(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            return linen.relu(linen.Dense(3, name="proj", use_bias=False)(x))

    class Net(linen.Module):
        def setup(self) -> None:
            self.blocks = [Block() for _ in range(2)]

        def __call__(self, x: jax.Array) -> jax.Array:
            for block in self.blocks:
                x = block(x)
            return x

    model = Net()
    variables = model.init(jax.random.key(0), jnp.ones((2, 3)))
    found = names(jax2onnx.to_onnx(lambda x: model.apply(variables, x), [(2, 3)]))
    assert found == [
        "Net/blocks_0/proj/dot_general",
        "Net/blocks_0/max",
        "Net/blocks_1/proj/dot_general",
        "Net/blocks_1/max",
    ]


def test_names_are_the_same_at_every_level() -> None:
    found = names(export("off"))
    for level in ("minimal", "full", "indexed"):
        assert names(export(level)) == found
