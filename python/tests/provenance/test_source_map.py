"""Source maps: what they say, and that they say it of what becomes of a model too."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

import jax2onnx
from jax2onnx import SourceMap, SourceMapError, _core, provenance_reader
from testkit import ROOT
from testkit.accuracy import metadata

from .test_resolve import all_nodes, line, squash

LEVELS = ("off", "minimal", "full", "indexed")


def net(x: jax.Array, n: jax.Array) -> jax.Array:
    """Has a body, a function, a node of two lines, and a node with two results."""
    first = x + 1.0
    second = x + 1.0
    low, high = jnp.split(first, 2)
    y = jax.lax.fori_loop(0, n, lambda i, c: jnp.sin(c) + low, high)
    return squash(y) * second[:2]


INPUTS = [(4,), jax.ShapeDtypeStruct((), np.int32)]


def export(folder: Path, level: str = "off", **options: Any) -> tuple[onnx.ModelProto, Path]:
    """The model, and the path of its map."""
    path = folder / f"{level}.map"
    model = jax2onnx.to_onnx(net, INPUTS, provenance=level, source_map=path, **options)
    return model, path


@pytest.mark.parametrize("level", LEVELS)
def test_the_map_says_of_every_node_and_result_what_the_metadata_says(
    level: str, tmp_path: Path
) -> None:
    model, path = export(tmp_path, level)
    found = SourceMap.load(path)
    named = jax2onnx.to_onnx(net, INPUTS, provenance="minimal")
    nodes = list(all_nodes(named))
    assert {"Loop", "squash", "Tanh"} <= {node.op_type for node in nodes}
    assert [node.name for node in all_nodes(model)] == [node.name for node in nodes]
    for node in nodes:
        if node.op_type == "Constant":
            continue
        for name in (node.name, *node.output):
            resolution = found.resolve(name)
            assert resolution.sure == "exact"
            assert line(resolution) == metadata(node)["callsite"]
            plugin = resolution.origins[0].site.plugin
            assert plugin is not None
            assert metadata(node)["plugin"].endswith(f"Plugin.lower:{plugin.line}")
    fused = {f"{each.function}:{each.line}" for each in found.resolve("add").callsites}
    start = net.__code__.co_firstlineno
    assert fused == {f"net:{start + 2}", f"net:{start + 3}"}
    assert found.resolve("nowhere").sure == "unknown"


def test_the_map_is_the_same_at_every_level_and_in_every_run(tmp_path: Path) -> None:
    texts = {export(tmp_path, level)[1].read_bytes() for level in (*LEVELS, "off")}
    assert len(texts) == 1
    document = json.loads(texts.pop())
    entries = [entry for graph in document["graphs"] for entry in graph["nodes"]]
    names = [entry[0] for entry in entries]
    outputs = [output for name, _, _, _, *outputs in entries for output in outputs or [name]]
    assert len(set(names)) == len(names)
    assert len(set(outputs)) == len(outputs)
    kinds = [sorted(graph.keys() - {"nodes"}) for graph in document["graphs"]]
    assert [] in kinds
    assert ["function"] in kinds
    assert ["attribute", "node"] in kinds


def test_nothing_but_the_id_is_in_the_model(tmp_path: Path) -> None:
    model, path = export(tmp_path)
    (entry,) = model.metadata_props
    assert entry.key == "pkg.jax2onnx.debug_id"
    assert entry.value == SourceMap.load(path).debug_id
    del model.metadata_props[:]
    assert model == jax2onnx.to_onnx(net, INPUTS)


def test_a_map_has_columns_scopes_and_transformations(tmp_path: Path) -> None:
    def fn(x: jax.Array) -> jax.Array:
        with jax.named_scope("outer"):
            return jax.vmap(lambda row: jnp.cos(row) + 1.0)(x)

    jax2onnx.to_onnx(fn, [(2, 3)], source_map=tmp_path / "m")
    site = SourceMap.load(tmp_path / "m").resolve("outer/cos").origins[0].site
    assert site.scope == "outer"
    assert site.transforms == "vmap"
    frame = site.callsite
    assert frame is not None
    text = Path(__file__).read_text().splitlines()[frame.line - 1]
    assert text.encode()[frame.column : frame.end_column] == b"jnp.cos(row)"


def test_the_map_of_another_model_is_refused(tmp_path: Path) -> None:
    other = jax2onnx.to_onnx(lambda x: x - 2.0, [(4,)], source_map=tmp_path / "other")
    model, path = export(tmp_path)
    assert SourceMap.load(path).resolve_model(model)
    with pytest.raises(SourceMapError, match="this is the source map of another model"):
        SourceMap.load(path).resolve_model(other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source_map": True}, "`source_map=True` writes a file beside the model"),
        ({"source_map": 3}, "`source_map` is 3, which is not a path"),
        ({"sources": "embed"}, "`sources='embed'` needs a source map"),
        ({"sources": "some"}, "`some` is not a way to keep sources: use hash, embed"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: Any, message: str) -> None:
    with pytest.raises(jax2onnx.ConfigError, match=re.escape(message)):
        jax2onnx.to_onnx(net, INPUTS, **options)


def test_a_source_map_is_written_beside_the_model_and_a_failure_keeps_the_old_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.onnx"
    options: Any = {"return_mode": "file", "output_path": path}
    jax2onnx.to_onnx(net, INPUTS, source_map=True, **options)
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "m.onnx.map"]
    assert SourceMap.load(f"{path}.map").resolve_model(path)
    before = path.read_bytes()
    for wrong in (tmp_path / "no" / "m.map", tmp_path):
        with pytest.raises(jax2onnx.WriteError):
            jax2onnx.to_onnx(jnp.sin, [(2,)], source_map=wrong, **options)
    with pytest.raises(jax2onnx.ConfigError, match="the model goes to the same file"):
        jax2onnx.to_onnx(jnp.sin, [(2,)], source_map=path, **options)
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "m.onnx.map"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', "no model", "{\xff"])
def test_a_file_that_is_not_a_map_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SourceMapError):
        SourceMap.load(path)
    with pytest.raises(SourceMapError, match="cannot read"):
        SourceMap.load(tmp_path / "nothing")
    with pytest.raises(SourceMapError, match="int is not a model"):
        SourceMap.load(3)  # type: ignore[arg-type]


def module(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "layer.py"
    path.write_text(text)
    namespace: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), namespace)
    return namespace


def test_a_changed_source_file_is_reported(tmp_path: Path) -> None:
    text = "import jax.numpy as jnp\n\ndef layer(x):\n    return jnp.sin(x)  # é\n"
    layer = module(tmp_path, text)["layer"]
    jax2onnx.to_onnx(layer, [(2,)], source_map=tmp_path / "m", sources="embed")
    found = SourceMap.load(tmp_path / "m")
    assert found.sources() == {"layer.py": text}
    states = found.check_sources(tmp_path)
    assert states.pop("layer.py") == "same"
    assert set(states.values()) == {"same"}, "JAX is as it was"
    (tmp_path / "layer.py").write_text(text + "\n")
    assert found.check_sources(tmp_path)["layer.py"] == "changed"
    (tmp_path / "layer.py").unlink()
    assert found.check_sources(tmp_path)["layer.py"] == "missing"


def test_hashes_are_there_without_the_text(tmp_path: Path) -> None:
    _, path = export(tmp_path)
    sources = provenance_reader.read_map(path).sources
    sha256, text = sources["python/tests/provenance/test_source_map.py"]
    assert sha256 == hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    assert text is None
    assert SourceMap.load(path).sources() == {}


def test_two_files_of_one_name_have_no_hash(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    inner = module(tmp_path / "a", "def inner(x):\n    return x + 1.0\n")["inner"]
    outer = module(tmp_path / "b", "def outer(inner, x):\n    return inner(x) * 2.0\n")["outer"]
    path = tmp_path / "m"
    options: Any = {"provenance_paths": "basename", "source_map": path}
    jax2onnx.to_onnx(lambda x: outer(inner, x), [(2,)], **options)
    assert provenance_reader.read_map(path).sources["layer.py"] == (None, None)


def test_no_absolute_path_is_in_the_map_unless_asked_for(tmp_path: Path) -> None:
    _, path = export(tmp_path)
    for folder in (str(ROOT), sys.prefix, str(Path.home()), "site-packages"):
        assert folder == "/" or folder not in path.read_text()
    _, path = export(tmp_path, provenance_paths="absolute")
    assert __file__ in path.read_text()


def test_a_model_that_is_indexed_is_a_map(tmp_path: Path) -> None:
    model = jax2onnx.to_onnx(net, INPUTS, provenance="indexed")
    onnx.save(model, tmp_path / "m.onnx")
    for source in (model, tmp_path / "m.onnx"):
        found = SourceMap.load(source)
        for node in all_nodes(model):
            if "callsite" in metadata(node):
                assert line(found.resolve(node.name)) == metadata(node)["callsite"]
    with pytest.raises(SourceMapError, match="contains no provenance"):
        SourceMap.load(jax2onnx.to_onnx(net, INPUTS))


# Stripping and attaching.


def command(*arguments: object) -> int:
    return _core.main(["jax2onnx", *map(str, arguments)])


@pytest.mark.parametrize("weights", ["inline", "external"])
@pytest.mark.parametrize("level", ["minimal", "full", "indexed"])
def test_attach_undoes_strip(level: str, weights: Any, tmp_path: Path) -> None:
    heavy = np.ones((64, 64), np.float32)

    def fn(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 3, lambda _, c: squash(c) @ heavy, x)

    model, clean = tmp_path / "m.onnx", tmp_path / "out" / "clean.onnx"
    clean.parent.mkdir()
    for written, path in ((level, model), ("off", tmp_path / "off.onnx")):
        options: Any = {"provenance": written, "weights": weights}
        jax2onnx.to_onnx(fn, [(2, 64)], return_mode="file", output_path=path, **options)
    assert command("strip", model, "-o", clean, "--map", clean.parent / "m.map") == 0
    assert b"callsite" not in clean.read_bytes()
    onnx.checker.check_model(clean)
    back = clean.parent / "back.onnx"
    assert command("attach", clean, clean.parent / "m.map", "-o", back) == 0
    assert back.read_bytes() == model.read_bytes()
    answer = SourceMap.load(clean.parent / "m.map").resolve("dot_general")
    assert line(answer).startswith("test_attach_undoes_strip.<locals>.fn.<locals>.<lambda>:")
    assert command("strip", model, "-o", clean) == 0
    if weights == "inline":
        assert clean.read_bytes() == (tmp_path / "off.onnx").read_bytes()
    assert b"pkg.jax2onnx" not in clean.read_bytes()


@pytest.mark.parametrize("level", ["full", "indexed"])
def test_what_is_left_can_be_minimal(level: str, tmp_path: Path) -> None:
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    path.write_bytes(jax2onnx.to_onnx(net, INPUTS, provenance=level).SerializeToString())
    assert command("strip", path, "-o", out, "--level", "minimal") == 0
    assert onnx.load(out) == jax2onnx.to_onnx(net, INPUTS, provenance="minimal")


def test_attaching_the_map_of_an_export_writes_the_level_indexed(tmp_path: Path) -> None:
    off, path = export(tmp_path)
    indexed, _ = export(tmp_path, "indexed")
    onnx.save(off, tmp_path / "off.onnx")
    out = tmp_path / "out.onnx"
    assert command("attach", tmp_path / "off.onnx", path, "-o", out) == 0
    attached = onnx.load(out)
    assert attached.graph == indexed.graph
    assert list(attached.functions) == list(indexed.functions)
    assert provenance_reader.read_model(out).keys() == provenance_reader.read_model(indexed).keys()


def test_a_wrong_pair_is_not_attached(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = jax2onnx.to_onnx(lambda x: x - 2.0, [(4,)], source_map=tmp_path / "other")
    onnx.save(model, tmp_path / "m.onnx")
    _, path = export(tmp_path)
    out = tmp_path / "out.onnx"
    assert command("attach", tmp_path / "m.onnx", path, "-o", out) == 2
    assert "this is the source map of another model" in capfd.readouterr().err
    assert not out.exists()


# The reader that stands alone.


def test_the_reader_needs_nothing_of_this_package(tmp_path: Path) -> None:
    model, _ = export(tmp_path, "indexed")
    onnx.save(model, tmp_path / "m.onnx")
    (tmp_path / "reader.py").write_bytes(Path(provenance_reader.__file__).read_bytes())
    script = textwrap.dedent("""\
        import sys
        import reader
        found = reader.read_model("m.onnx")
        by_map = reader.read_map("indexed.map")
        assert found == {
            node.name: by_map.origins[node.name]
            for node in by_map.nodes
        }
        assert not {"jax", "jax2onnx"} & sys.modules.keys()
        print(found["add"].callsite)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    expected = net.__code__.co_firstlineno + 2
    assert done.stdout.strip() == f"python/tests/provenance/test_source_map.py:{expected} (net)"


@pytest.mark.parametrize("document", [[], {}, {"version": 2}, {"version": 1, "frames": [3]}])
def test_the_reader_refuses_other_documents(document: Any) -> None:
    with pytest.raises(provenance_reader.FormatError):
        provenance_reader.Table(document)
    with pytest.raises(provenance_reader.FormatError):
        provenance_reader.MapFile(document)
