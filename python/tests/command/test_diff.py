"""`jax2onnx diff` on two versions of a program: literals, renamed files, lines that are gone."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import jax2onnx
from jax2onnx import __main__

BEFORE = """
    import jax.numpy as jnp
    import numpy as np

    WEIGHT = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)

    def scale(x):
        return x * 0.5

    def model(x):
        h = jnp.tanh(x @ WEIGHT)
        h = jnp.sin(h)
        return scale(h)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory from which modules can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def write(name: str, source: str, output: str, **options: Any) -> None:
    """Export a version of the program."""
    Path(f"{name}.py").write_text(textwrap.dedent(source))
    # Python takes compiled code for fresh if a change within a second keeps the length of the file.
    Path(importlib.util.cache_from_source(f"{name}.py")).unlink(missing_ok=True)
    importlib.invalidate_caches()
    sys.modules.pop(name, None)
    module = importlib.import_module(name)
    del sys.modules[name]
    jax2onnx.to_onnx(
        module.model,
        ["f32[B,4]"],
        return_mode="file",
        output_path=output,
        provenance="indexed",
        **options,
    )


def diff(monkeypatch: Any, capfd: Any, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["jax2onnx", "diff", "a.onnx", "b.onnx", *arguments])
    code = __main__.main()
    out, err = capfd.readouterr()
    return code, out, err


def test_a_changed_literal_is_a_change_of_its_line(monkeypatch: Any, capfd: Any) -> None:
    write("net_a", BEFORE, "a.onnx")
    write("net_a", BEFORE.replace("x * 0.5", "x * 0.7"), "b.onnx")
    code, out, _ = diff(monkeypatch, capfd)
    assert code == 1
    assert out == (
        "\nnet_a.py, in scale\n"
        "  line 8  return x * 0.7\n"
        "      ~ Mul `mul`: 0.5 → 0.7\n"
        "\n1 line changed, 0 new, 0 gone, 0 moved; 4 → 4 nodes\n"
    )


def test_a_literal_in_a_weight_is_shown_with_the_lines_that_read_it(
    monkeypatch: Any, capfd: Any
) -> None:
    source = BEFORE.replace("x @ WEIGHT)", "x @ WEIGHT * 0.5)")
    write("net_b", source, "a.onnx")
    write("net_b", source.replace("WEIGHT * 0.5", "WEIGHT * 0.25"), "b.onnx")
    code, out, _ = diff(monkeypatch, capfd)
    assert code == 1
    assert "~ WEIGHT/folded  f32[4,4], different contents, read at net_b.py:11" in out


def test_a_renamed_file_is_followed(monkeypatch: Any, capfd: Any) -> None:
    write("net_c", BEFORE, "a.onnx")
    write("net_d", BEFORE, "b.onnx")
    assert diff(monkeypatch, capfd) == (0, "~ file net_c.py → net_d.py\nno difference\n", "")
    write("net_d", BEFORE.replace("jnp.tanh", "jnp.cos"), "b.onnx")
    code, out, _ = diff(monkeypatch, capfd, "--format", "json")
    answer = json.loads(out)
    assert code == 1
    assert answer["files_renamed"] == [{"before": "net_c.py", "after": "net_d.py"}]
    [line] = answer["lines"]
    assert (line["file_before"], line["file"]) == ("net_c.py", "net_d.py")
    assert (line["before"], line["after"], line["lost"][0]["op"]) == (11, 11, "Tanh")


def test_a_line_that_is_gone_has_its_text(monkeypatch: Any, capfd: Any) -> None:
    after = BEFORE.replace("        h = jnp.sin(h)\n", "")
    # The map of the first model contains the source as it was.
    write("net_e", BEFORE, "a.onnx", source_map=True, sources="embed")
    write("net_e", after, "b.onnx")
    code, out, err = diff(monkeypatch, capfd)
    assert (code, err) == (1, "")
    assert "- line 12  h = jnp.sin(h)\n      - Sin\n" in out
    # The file of the first model is still there.
    write("net_f", BEFORE, "a.onnx")
    os.remove("a.onnx.map")
    os.utime("net_f.py", (0, 0))
    write("net_g", after, "b.onnx")
    code, out, err = diff(monkeypatch, capfd)
    assert (code, err) == (1, "")
    assert "- line 12  h = jnp.sin(h)\n      - Sin\n" in out


def test_a_line_of_a_source_that_changed_has_no_text(monkeypatch: Any, capfd: Any) -> None:
    write("net_h", BEFORE, "a.onnx")
    write("net_h", BEFORE.replace("        h = jnp.sin(h)\n", ""), "b.onnx")
    os.utime("net_h.py")
    _, out, err = diff(monkeypatch, capfd)
    assert "- line 12\n      - Sin\n" in out
    assert err == (
        "note: the source files have changed since the first export, so some removed lines are not "
        "shown; to keep them, export with `--source-map --sources embed`\n"
    )
