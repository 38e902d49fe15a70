"""The text of a file, not its date, decides whether a model shows its lines."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

import jax2onnx
from jax2onnx import _core, provenance_reader

SOURCE = """\
import jax.numpy as jnp

def model(x):
    return jnp.tanh(x) * 2.0
"""
LINE = "4 |     return jnp.tanh(x) * 2.0"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: Any) -> Iterator[Path]:
    """A folder with a source file and a model of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("copied_net.py").write_bytes(SOURCE.encode())
    importlib.invalidate_caches()
    export()
    yield tmp_path
    del sys.modules["copied_net"]


def export(**options: Any) -> onnx.ModelProto:
    model = jax2onnx.to_onnx(
        importlib.import_module("copied_net").model, [(3,)], provenance="indexed", **options
    )
    Path("model.onnx").write_bytes(model.SerializeToString())
    # Every source file is dated after the model.
    os.utime("model.onnx", (1e9, 1e9))
    return model


def where(capfd: Any, model: str = "model.onnx") -> str:
    assert _core.main(["jax2onnx", "where", model, "tanh"]) == 0
    return str(capfd.readouterr().out)


def table(model: onnx.ModelProto) -> dict[str, Any]:
    (text,) = (each.value for each in model.metadata_props if each.key.endswith(".provenance"))
    return json.loads(text)  # type: ignore[no-any-return]


@pytest.mark.usefixtures("project")
def test_a_file_that_was_only_copied_is_shown(capfd: Any) -> None:
    assert LINE in (shown := where(capfd))
    assert "dated" not in shown
    assert "changed" not in shown
    os.utime("copied_net.py", (0, 0))
    assert where(capfd) == shown


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("ends", [(b"\n", b"\r\n"), (b"\r\n", b"\n")])
def test_a_file_with_the_line_ends_of_another_system_is_shown(
    capfd: Any, ends: tuple[bytes, bytes]
) -> None:
    before, after = (SOURCE.encode().replace(b"\n", end) for end in ends)
    Path("copied_net.py").write_bytes(before)
    export()
    Path("copied_net.py").write_bytes(after)
    assert LINE in (shown := where(capfd))
    assert "changed" not in shown
    Path("copied_net.py").write_bytes(after.replace(ends[1], b"\r"))
    assert "changed since the export" in where(capfd)


@pytest.mark.usefixtures("project")
def test_a_file_with_another_text_is_not_shown(capfd: Any) -> None:
    Path("copied_net.py").write_text(SOURCE + "# a comment\n")
    os.utime("copied_net.py", (0, 0))
    shown = where(capfd)
    assert "--> copied_net.py:4:12, in model (changed since the export)" in shown
    assert "jnp.tanh" not in shown
    assert _core.main(["jax2onnx", "check", "model.onnx"]) == 0
    assert "warning[stale-source]: `copied_net.py` has changed" in capfd.readouterr().out


@pytest.mark.usefixtures("project")
def test_a_model_without_hashes_is_still_read(capfd: Any) -> None:
    model = onnx.load("model.onnx")
    for entry in model.metadata_props:
        if entry.key.endswith(".provenance"):
            document = json.loads(entry.value)
            del document["hashes"]
            entry.value = json.dumps(document)
    onnx.save(model, "model.onnx")
    assert provenance_reader.table_of(model).hashes == {}  # type: ignore[union-attr]
    os.utime("model.onnx", (1e9, 1e9))
    shown = where(capfd)
    assert LINE in shown
    assert "(dated after the model: it may have changed)" in shown


@pytest.mark.usefixtures("project")
def test_the_table_has_the_hash_of_each_file_but_those_of_jax() -> None:
    model = export()
    document = table(model)
    hashed = {document["files"][file]: sha256 for file, sha256 in document["hashes"]}
    assert hashed["copied_net.py"] == hashlib.sha256(SOURCE.encode()).hexdigest()
    tiers = dict(zip(document["files"], document["tiers"], strict=True))
    assert {file for file, tier in tiers.items() if tier != "i"} == {*hashed}
    assert provenance_reader.table_of(model).hashes == hashed  # type: ignore[union-attr]
    assert table(export()) == document


@pytest.mark.usefixtures("project")
def test_a_source_map_and_its_model_have_the_same_hashes(capfd: Any) -> None:
    model = export(source_map="export.map")
    written = json.loads(Path("export.map").read_text())
    assert "hashes" not in written["provenance"]
    # The id does not depend on the text of the sources.
    Path("copied_net.py").write_text(SOURCE + "# a comment\n")
    export(source_map="comment.map")
    assert json.loads(Path("comment.map").read_text())["debug_id"] == written["debug_id"]
    Path("copied_net.py").write_text(SOURCE)
    export(source_map="export.map")
    for command in (
        "strip model.onnx -o bare.onnx --keep-debug-id",
        "attach bare.onnx export.map -o attached.onnx",
        "strip model.onnx -o apart.onnx --map apart.map",
        "attach apart.onnx apart.map -o whole.onnx",
    ):
        assert _core.main(["jax2onnx", *command.split()]) == 0, command
    capfd.readouterr()
    assert table(onnx.load("whole.onnx")) == table(model)
    # The map also describes the inputs and the outputs, so its table is longer.
    assert table(onnx.load("attached.onnx"))["hashes"] == table(model)["hashes"]
    sources = json.loads(Path("apart.map").read_text())["sources"]
    own = dict(zip(table(model)["files"], sources, strict=True))["copied_net.py"]
    assert own == [hashlib.sha256(SOURCE.encode()).hexdigest()]
    shutil.move("apart.map", "apart.onnx.map")
    assert LINE in where(capfd, "apart.onnx")


def test_a_file_that_cannot_be_read_has_no_hash(project: Path) -> None:
    model = importlib.import_module("copied_net").model
    (project / "copied_net.py").unlink()
    exported = jax2onnx.to_onnx(model, [(3,)], provenance="indexed")
    document = table(exported)
    assert "copied_net.py" in document["files"]
    assert all(document["files"][file] != "copied_net.py" for file, _ in document.get("hashes", ()))


def test_a_file_below_the_current_folder_is_found_again_without_a_project(
    tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "copied_mlp.py").write_text(SOURCE)
    importlib.invalidate_caches()
    module = importlib.import_module("nets.copied_mlp")
    try:
        exported = jax2onnx.to_onnx(module.model, [(3,)], provenance="indexed")
    finally:
        for name in ("nets.copied_mlp", "nets"):
            del sys.modules[name]
    # The table has the path of no folder above the current one.
    assert str(tmp_path) not in str(exported)
    (tmp_path / "out").mkdir()
    onnx.save(exported, "out/model.onnx")
    assert LINE in where(capfd, "out/model.onnx")
    assert "--> nets/copied_mlp.py:4" in where(capfd, "out/model.onnx")
    assert _core.main(["jax2onnx", "blame", "out/model.onnx", "nets/copied_mlp.py"]) == 0
    monkeypatch.chdir(tmp_path / "nets")
    assert LINE in where(capfd, "../out/model.onnx")
    # The folder of the model counts, too: it has the file with the recorded hash.
    (tmp_path / "elsewhere").mkdir()
    onnx.save(exported, tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert LINE in where(capfd, "../model.onnx")
