"""Cells of a notebook are source: a real kernel runs a notebook, and Chromium shows it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jax2onnx.provenance_reader import read_model
from testkit.browser import Browser

from .conftest import needs_chromium

pytest.importorskip("ipykernel")
notebooks = pytest.importorskip("testkit.notebooks")

FORWARD = """
def scale(x):
    return x / jnp.sum(x)

def forward(x):
    return jnp.tanh(scale(x)) * 3
"""

#: The cells by name, in the order in which they run.
CELLS = {
    "imports": """\
import sys
import jax, jax.numpy as jnp, numpy as np, onnx
import jax2onnx
patched = sys.modules["linecache"].getlines, sys.excepthook
x = np.linspace(0.1, 1, 6, dtype=np.float32).reshape(2, 3)
zeros = np.zeros((2, 3), np.float32)

def export(function, name, **options):
    model = jax2onnx.to_onnx(function, [(2, 3)], provenance="indexed", **options)
    onnx.save(model, name)
    return model
""",
    "defined": FORWARD,
    "find_nan": 'model = export(forward, "first.onnx")\njax2onnx.find_nan(model, [zeros])',
    "again": FORWARD,
    "exported_again": 'old = forward\nexport(forward, "again.onnx")\nprint()',
    "changed": FORWARD.replace("def forward", "# A new line.\ndef forward").replace("3\n", "4\n"),
    "both": 'export(old, "old.onnx")\nwrong = export(forward, "changed.onnx")\nprint()',
    "earlier": "jax2onnx.find_nan(model, [zeros])",
    "timed": """
%%time

def timed(x):
    return jnp.log(x) + forward(x)
export(timed, "timed.onnx")
print()""",
    "captured": """\
%%capture
def captured(x):
    return jnp.sqrt(x) / x
found = jax2onnx.find_nan(export(captured, "captured.onnx"), [zeros])
""",
    "magics": """\
%precision 3
!true
def magic(x):
    return jnp.cos(x) / x
jax2onnx.find_nan(export(magic, "magic.onnx"), [zeros])""",
    "joined": """\
!echo one \\
    two
def joined(x):
    return jnp.cos(x) / x
jax2onnx.find_nan(export(joined, "joined.onnx"), [zeros])""",
    "mapped": """\
def mapped(x):
    return jnp.sin(x)
jax2onnx.to_onnx(
    mapped, [(2, 3)], return_mode="file", output_path="mapped.onnx", source_map=True,
    sources="embed", provenance="off",
)""",
    "allclose": "jax2onnx.allclose(old, wrong, [x])",
    "compare": "jax2onnx.compare(old, wrong, [x])",
    "agrees": "jax2onnx.compare(old, model, [x])",
    "profile": "jax2onnx.profile(model, [x], runs=2)",
    "view": "jax2onnx.view(model)",
    "unsupported": """\
def bad(x):
    return jnp.linalg.eig(x @ x.T)[0] if x.shape[0] > 2 else jnp.linalg.eig(jnp.eye(3) * x.sum())
jax2onnx.to_onnx(bad, [(2, 3)])""",
    "tracing": """\
%%time
def untraceable(x):
    if x.sum() > 0:
        return x
jax2onnx.to_onnx(untraceable, [(2, 3)])""",
    "warns": """jax2onnx.to_onnx(lambda y: {"y": y + 1}, [(2, 3)])\nprint()""",
    "hostile": """\
def hostile(x):
    with jax.named_scope("<img src=x onerror=window.owned=1>"):
        return jnp.log(x)  # <script>window.owned = 1</script>
jax2onnx.find_nan(export(hostile, "hostile.onnx"), [zeros])""",
    "unpatched": "print(patched == (sys.modules['linecache'].getlines, sys.excepthook))",
}
NUMBERS = {name: number for number, name in enumerate(CELLS, start=1)}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> notebooks.Ran:
    return notebooks.Ran(list(CELLS.values()), tmp_path_factory.mktemp("notebook"), is_saved=False)


def folder(ran: notebooks.Ran) -> Path:
    return ran.path.parent


def lines(ran: notebooks.Ran, model: str) -> set[tuple[str, int]]:
    """Return the call sites of a model."""
    frames = [origin.callsite for origin in read_model(folder(ran) / model).values()]
    return {(frame.file, frame.line) for frame in frames if frame is not None}


def jax2onnx_in(where: Path, *arguments: object) -> str:
    command = [sys.executable, "-m", "jax2onnx", *map(str, arguments)]
    ran = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


@pytest.mark.slow
def test_a_line_of_a_cell_has_the_name_and_the_text_of_the_cell(ran: notebooks.Ran) -> None:
    shown = ran.text(NUMBERS["find_nan"])
    assert "--> In [2]:3:12, in scale\n" in shown
    assert " 3 |     return x / jnp.sum(x)\n   |            ^^^^^^^^^^^^^^" in shown
    assert ran.text(NUMBERS["unpatched"]) == "True\n"


def test_a_cell_that_ran_again_has_its_last_number(ran: notebooks.Ran) -> None:
    assert lines(ran, "first.onnx") == {("In [2]", 3), ("In [2]", 6)}
    assert lines(ran, "again.onnx") == {("In [4]", 3), ("In [4]", 6)}


def test_a_changed_cell_leaves_the_lines_of_the_functions_that_it_defined_before(
    ran: notebooks.Ran,
) -> None:
    assert lines(ran, "old.onnx") == {("In [4]", 3), ("In [4]", 6)}
    assert lines(ran, "changed.onnx") == {("In [6]", 3), ("In [6]", 7)}
    # A model that was exported before keeps its text.
    assert ran.text(NUMBERS["earlier"]) == ran.text(NUMBERS["find_nan"])


def test_lines_of_a_cell_with_magics_are_those_that_the_user_sees(ran: notebooks.Ran) -> None:
    timed, captured = NUMBERS["timed"], NUMBERS["captured"]
    assert lines(ran, "timed.onnx") == {(f"In [{timed}]", 5), ("In [6]", 3), ("In [6]", 7)}
    assert lines(ran, "captured.onnx") == {(f"In [{captured}]", 3)}
    shown = ran.text(NUMBERS["magics"])
    assert f"--> In [{NUMBERS['magics']}]:4:12, in magic" in shown
    assert " 4 |     return jnp.cos(x) / x" in shown
    # IPython runs another text with fewer lines, so this text is shown.
    shown = ran.text(NUMBERS["joined"])
    assert f"--> In [{NUMBERS['joined']}] as run:3:12, in joined" in shown
    assert " 3 |     return jnp.cos(x) / x" in shown


def test_errors_name_the_cell_and_show_its_text(ran: notebooks.Ran) -> None:
    shown = ran.text(NUMBERS["unsupported"])
    assert f"--> In [{NUMBERS['unsupported']}]:2:" in shown
    assert "jnp.linalg.eig(jnp.eye(3) * x.sum())\n" in shown
    shown = ran.text(NUMBERS["tracing"])
    place = f"  --> In [{NUMBERS['tracing']}]:3, in untraceable\n   |\n 3 |     if x.sum() > 0:"
    assert place in shown
    shown = ran.text(NUMBERS["warns"])
    assert f"In [{NUMBERS['warns']}]:1: Jax2OnnxWarning: " in shown


def test_a_command_finds_the_cell_in_the_saved_notebook_by_its_text(
    ran: notebooks.Ran, tmp_path: Path
) -> None:
    model = folder(ran) / "first.onnx"
    missing = jax2onnx_in(tmp_path, "blame", model, "In [2]")
    assert "`In [2]` is a cell of a notebook that was not found" in " ".join(missing.split())
    assert "(the notebook was not found)" in jax2onnx_in(tmp_path, "where", model, "Div")
    ran.save()
    shown = jax2onnx_in(folder(ran), "blame", model, "In [2]:3")
    assert "3 |     return x / jnp.sum(x)" in shown
    shown = jax2onnx_in(tmp_path, "where", model, "Div", "--source-root", folder(ran))
    assert " 3 |     return x / jnp.sum(x)" in shown
    # The notebook in the folder of the model has the recorded text.
    assert " 3 |     return x / jnp.sum(x)" in jax2onnx_in(tmp_path, "where", model, "Div")
    model = Path(shutil.copy(model, tmp_path))
    text = ran.path.read_text().replace("jnp.sum(x)", "jnp.max(x)")
    (tmp_path / "changed.ipynb").write_text(text)
    shown = jax2onnx_in(tmp_path, "where", model, "Div")
    assert "(changed since the export)" in shown
    assert "jnp.max" not in shown


def test_a_source_map_contains_the_text_of_a_cell(ran: notebooks.Ran, tmp_path: Path) -> None:
    shown = jax2onnx_in(tmp_path, "where", folder(ran) / "mapped.onnx", "Sin")
    assert f"--> In [{NUMBERS['mapped']}]:2:12, in mapped" in shown
    assert " 2 |     return jnp.sin(x)" in shown


def test_answers_are_html(ran: notebooks.Ran) -> None:
    def shown(name: str) -> str:
        html = re.sub(r"<style>.*?</style>", "", ran.html(NUMBERS[name]))
        return " ".join(re.sub(r"<[^>]*>", " ", html).split())

    assert shown("allclose").startswith("✗ 1 of 1 output differs")
    assert "differs in 6 of 6 elements" in shown("allclose")
    # The model is of the changed cell, whose last line is one lower.
    assert f"computed by Mul mul at In [{NUMBERS['changed']}]:7, in forward" in ran.text(
        NUMBERS["allclose"]
    ).replace("`", "")
    assert "✗ mul (Mul) computes a wrong number In [4]:6:12, in forward 6 |" in shown("compare")
    assert "3.2e-01 10 dB" in shown("compare")
    assert shown("agrees").startswith("✓ the model agrees with JAX")
    assert re.match(r"In \[2\]:\d, in \w+ takes \d+ % of the time In \[2\]:", shown("profile"))
    assert shown("find_nan").startswith("✗ div (Div) creates a NaN In [2]:3:12, in scale 3 |")


@needs_chromium
def test_a_browser_shows_the_notebook(ran: notebooks.Ran, browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    ran.write_page(path)
    text = path.read_text()
    ready = "<script>document.documentElement.dataset.ready = true</script>"
    path.write_text(text.replace("</body>", f"{ready}</body>"))
    page = browser.page()
    page.goto(path.as_uri())
    source = "[...document.querySelectorAll('.file .path, .line[data-line=\"3\"] code')]"
    is_shown = "document.documentElement.dataset.ready === 'true' && !!globalThis.jax2onnxView"
    shown = page.in_frame(f"{is_shown} && {source}.map(one => one.textContent)")
    assert shown == ["In [2]", "    return x / jnp.sum(x)"]
    assert page.evaluate("window.owned") is None
    answers = "document.querySelectorAll('div.jax2onnx')"
    assert page.evaluate(f"{answers}.length") == 9
    colors = f"[...{answers}].map(one => getComputedStyle(one.querySelector('p')).color)"
    light = page.evaluate(colors)
    # No answer is wider than its cell, in columns of text.
    assert page.evaluate(f"[...{answers}].every(one => one.scrollWidth <= one.clientWidth)")
    left = "one => getComputedStyle(one).textAlign"
    aligned = f"[...document.querySelectorAll('div.jax2onnx td:not(.number)')].map({left})"
    assert set(page.evaluate(aligned)) == {"left"}
    page.close()
    ran.write_page(path, "dark")
    path.write_text(path.read_text().replace("</body>", f"{ready}</body>"))
    page = browser.page(scheme="dark")
    page.goto(path.as_uri())
    assert not set(page.evaluate(colors)) & set(light)
    page.close()
