"""What commands answer about models that people export."""

from __future__ import annotations

import importlib
import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import jax
import pytest

import jax2onnx
from jax2onnx import __main__


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory from which modules can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def ask(monkeypatch: Any, capfd: Any, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["jax2onnx", *arguments])
    code = __main__.main()
    out, err = capfd.readouterr()
    return code, out, err


def imported(name: str, source: str) -> Any:
    """Write a module and import it, with the source as it is now."""
    path = Path(f"{name}.py")
    version = path.stat().st_mtime if path.exists() else 1e9
    path.write_text(textwrap.dedent(source))
    os.utime(path, (version + 10, version + 10))
    importlib.invalidate_caches()
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def export(fn: Any, *inputs: str) -> None:
    jax2onnx.to_onnx(fn, inputs, return_mode="file", output_path="model.onnx", provenance="indexed")


def test_candidates_on_one_line_show_the_line(monkeypatch: Any, capfd: Any) -> None:
    module = imported(
        "two_gelus",
        """
        import jax

        def model(x, y):
            return jax.nn.gelu(x) + jax.nn.gelu(y), jax.nn.silu(x)
        """,
    )
    export(module.model, "f32[B]", "f32[B]")
    code, out, err = ask(monkeypatch, capfd, "where", "model.onnx", "Gelu")
    assert (code, err) == (0, "")
    assert out.startswith("`Gelu` matches 2 names:")
    assert "\n  --> two_gelus.py:5:" in out
    assert "\n 5 |     return jax.nn.gelu(x) + jax.nn.gelu(y), jax.nn.silu(x)\n" in out
    assert "`Gelu` matches 2 names:\n  #0  gelu  Gelu, two_gelus.py:5\n" in out
    code, out, _ = ask(monkeypatch, capfd, "where", "model.onnx", "Gelu", "--format", "json")
    lines = [each["callsite"]["line"] for each in json.loads(out)["candidates"]]
    assert (code, lines) == (0, [5, 5])


def test_candidates_on_several_lines_are_listed(monkeypatch: Any, capfd: Any) -> None:
    module = imported(
        "three_gelus",
        """
        import jax

        def model(x, y):
            x = jax.nn.gelu(x)
            return x + jax.nn.gelu(y)
        """,
    )
    export(module.model, "f32[B]", "f32[B]")
    code, out, err = ask(monkeypatch, capfd, "where", "model.onnx", "Gelu")
    assert (code, out) == (1, "")
    assert err.startswith("`Gelu` matches 2 names:\n")


def test_the_line_of_a_plugin_that_was_edited_is_the_new_one() -> None:
    source = """
        from jax.extend.core import Primitive
        import jax2onnx

        primitive = Primitive("edited_{version}")
        primitive.def_abstract_eval(lambda x: x)

        {comment}
        def call(x):
            return primitive.bind(x)

        @jax2onnx.plugin("edited_{version}")
        class Plugin:
            def lower(self, ctx, eqn):
                raise ValueError("{version}")
    """
    shown = []
    for version, comment in (("one", ""), ("two", "# The function moved.\n")):
        text = textwrap.dedent(source).replace("{version}", version).replace("{comment}", comment)
        module = imported("edited_plugin", text)
        with pytest.raises(jax2onnx.PluginError) as raised:
            jax2onnx.to_onnx(module.call, [jax.ShapeDtypeStruct((2,), "float32")])
        shown.append(str(raised.value))
    assert "edited_plugin.py:10:" in shown[0]
    assert "edited_plugin.py:11:" in shown[1]
    for text in shown:
        assert "|     return primitive.bind(x)\n" in text


def test_explain_and_view_say_which_files_are_missing_or_changed(
    monkeypatch: Any, capfd: Any, folder: Path
) -> None:
    text = """
        import jax.numpy as jnp

        def model(x):
            return jnp.sin(x)
        """
    export(imported("waves", text).model, "f32[B]")
    message = ("explain", "model.onnx", "-m", "running Sin node. Name:'sin'")
    source = folder / "waves.py"
    source.write_text(source.read_text().replace("return", "# moved\n    return"))
    _, _, err = ask(monkeypatch, capfd, "view", "model.onnx")
    assert err == "note: `waves.py` has changed since the export: the page leaves out the text\n"
    assert ask(monkeypatch, capfd, *message)[2] == ""
    source.unlink()
    missing = "note: `waves.py` was not found here: pass its folder with --source-root\n"
    assert ask(monkeypatch, capfd, "view", "model.onnx")[2] == missing
    assert ask(monkeypatch, capfd, *message)[2] == missing


def test_a_line_instead_of_a_name_leads_to_blame(monkeypatch: Any, capfd: Any) -> None:
    module = imported(
        "one_line", "import jax.numpy as jnp\n\n\ndef model(x):\n    return jnp.tanh(x)\n"
    )
    export(module.model, "f32[B]")
    code, out, err = ask(monkeypatch, capfd, "where", "model.onnx", "one_line.py:5")
    assert (code, out) == (1, "")
    assert "\nhint: `jax2onnx blame MODEL one_line.py` lists the nodes of each line\n" in err


def test_a_message_instead_of_a_file_leads_to_its_flag(monkeypatch: Any, capfd: Any) -> None:
    module = imported(
        "message", "import jax.numpy as jnp\n\n\ndef model(x):\n    return jnp.tanh(x)\n"
    )
    export(module.model, "f32[B]")
    message = "running Tanh node. Name:'tanh'"
    code, out, err = ask(monkeypatch, capfd, "explain", "model.onnx", message)
    assert (code, out) == (2, "")
    assert "for the text of a message, use `--message TEXT`" in " ".join(err.split())
    code, out, _ = ask(monkeypatch, capfd, "explain", "model.onnx", "--message", message)
    assert code == 0
    assert "return jnp.tanh(x)" in out
