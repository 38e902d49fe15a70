"""Take the pictures of the documentation: pages of `jax2onnx view` in Chromium.

python tools/view_pictures.py            those of all pages
python tools/view_pictures.py gallery    those of docs/gallery.md
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before Python 3.12, modules have names only on request.
os.environ.setdefault("JAX2ONNX_MODULE_SCOPES", "on")

import jax
import onnx
from flax import nnx

import jax2onnx
from testkit import notebooks
from testkit.browser import Browser, Page, find_chromium
from testkit.models import gpt2, viewed

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "docs" / "assets"
GALLERY = ROOT / "docs" / "gallery.md"
PRECISION = ROOT / "docs" / "low-precision.md"
COST = ROOT / "docs" / "cost.md"
NOTEBOOKS = ROOT / "docs" / "notebooks.md"
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"^!\[[^]]*\]\(assets/(gallery/([\w-]+)\.png)\)", re.MULTILINE)
#: Selects the line with the most nodes.
BUSIEST = """(() => {
    const lines = [...jax2onnxView.model.lines.values()];
    const {file, line} = lines.reduce((a, b) => b.own.length > a.own.length ? b : a);
    jax2onnxView.select({kind: 'line', file, line});
})()"""


def take(page: Page, url: str, name: str, script: str = "") -> None:
    page.goto(url)
    if script:
        page.evaluate(script)
        page.settle()
    page.screenshot(ASSETS / name)
    print(f"wrote docs/assets/{name}", flush=True)


def main(words: list[str]) -> None:
    executable = find_chromium()
    if executable is None:
        sys.exit("Chromium is missing: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, Browser(executable) as browser:
        if "gallery" not in words:
            take_notebook(browser, Path(folder))
            take_view(browser, Path(folder))
            take_precision(browser, Path(folder))
            take_cost(browser, Path(folder))
        for name, page in gallery(Path(folder)):
            take(browser.page(1280, 520), page.as_uri(), name, BUSIEST)


def take_notebook(browser: Browser, folder: Path) -> None:
    """Take the picture of docs/notebooks.md, whose programs are the cells."""
    cells = [code.strip() for code in PYTHON.findall(NOTEBOOKS.read_text())]
    page = folder / "notebook.html"
    notebooks.Ran(cells, folder).write_page(page)
    ready = "<script>document.documentElement.dataset.ready = true</script></body>"
    page.write_text(page.read_text().replace("</body>", ready))
    take(browser.page(920, 752), page.as_uri(), "notebook.png", "scrollTo(0, 106)")


def take_view(browser: Browser, folder: Path) -> None:
    """Take the pictures of docs/view.md."""
    shapes = {
        "gpt2": (gpt2.GPT2(12, 48, 12, 64, 32), [jax.ShapeDtypeStruct((1, 16), "int32")]),
        "cnn": (viewed.ConvNet(nnx.Rngs(0)), [jax.ShapeDtypeStruct((2, 32, 32, 3), "float32")]),
    }
    urls = {}
    for name, (model, inputs) in shapes.items():
        exported = jax2onnx.to_onnx(model, inputs, model_name=name, provenance="indexed")
        page = folder / f"{name}.html"
        jax2onnx.view(exported, open=False, source_roots=[ROOT]).save(page)
        urls[name] = page.as_uri()
    line = (
        "[...jax2onnxView.model.lines.values()].find(line => line.own.some("
        "node => jax2onnxView.model.op(node) === 'Attention'))"
    )
    select = f"jax2onnxView.select({{kind: 'line', file: {line}.file, line: {line}.line}})"
    take(browser.page(1280, 760), urls["gpt2"], "view-line.png", select)
    node = "jax2onnxView.data.nodes.findIndex(node => node[1] === 'Conv')"
    select = f"jax2onnxView.select({{kind: 'node', node: {node}, item: null}})"
    take(browser.page(1280, 760, "dark"), urls["cnn"], "view-node-dark.png", select)


def take_precision(browser: Browser, folder: Path) -> None:
    """Take the picture of docs/low-precision.md: its first program."""
    os.chdir(folder)
    code = PYTHON.findall(PRECISION.read_text())[0]
    file = folder / "network.py"
    file.write_text(code)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, str(file), "exec"), namespace)
    page = folder / "precision.html"
    shown = jax2onnx.view(
        namespace["model"], open=False, sensitivity=namespace["result"], source_roots=[folder]
    )
    shown.save(page)
    take(browser.page(1280, 620), page.as_uri(), "view-precision.png")


def take_cost(browser: Browser, folder: Path) -> None:
    """Take the picture of docs/cost.md: its first program."""
    os.chdir(folder)
    code = PYTHON.findall(COST.read_text())[0]
    file = folder / "reader.py"
    file.write_text(code)
    exec(compile(code, str(file), "exec"), {"__name__": "__main__"})
    page = folder / "cost.html"
    sizes = {"B": 8, "T": 128}
    jax2onnx.view(folder / "reader.onnx", open=False, cost=sizes, source_roots=[folder]).save(page)
    menu = "Object.assign(document.querySelector('.menu'), {value: 'memory'})"
    select = "document.querySelector('[data-metric=memory]').click()"
    script = f"{menu}.dispatchEvent(new Event('change')); {select}"
    take(browser.page(1280, 720), page.as_uri(), "view-cost.png", script)


def gallery(folder: Path) -> Iterator[tuple[str, Path]]:
    """Run the programs of docs/gallery.md, and return the name of each picture and its page."""
    os.chdir(folder)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for section in re.split(r"^## ", GALLERY.read_text(), flags=re.MULTILINE):
        picture = PICTURE.search(section)
        file = folder / f"{picture[2] if picture else 'imports'}.py"
        code = "\n".join(PYTHON.findall(section))
        file.write_text(code)
        with jax2onnx.provenance("indexed"):
            exec(compile(code, str(file), "exec"), namespace)
        if picture:
            model, page = file.with_suffix(".onnx"), file.with_suffix(".html")
            onnx.save(namespace["model"], model)
            jax2onnx.view(model, open=False, source_roots=[folder]).save(page)
            yield picture[1], page


if __name__ == "__main__":
    main(sys.argv[1:])
