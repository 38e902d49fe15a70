"""Take the pictures of docs/view.md: pages of `jax2onnx view` in Chromium.

python tools/view_pictures.py
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

# Before Python 3.12, modules have names only on request.
os.environ.setdefault("JAX2ONNX_MODULE_SCOPES", "on")

import jax
from flax import nnx

import jax2onnx
from testkit.browser import Browser, Page, find_chromium
from testkit.models import viewed

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "docs" / "assets"


def take(page: Page, url: str, name: str, script: str = "") -> None:
    page.goto(url)
    if script:
        page.evaluate(script)
        page.settle()
    page.screenshot(ASSETS / name)


def main() -> None:
    executable = find_chromium()
    if executable is None:
        sys.exit("Chromium is missing: apt-get install chromium")
    shapes = {
        "gpt2": (viewed.GPT2(12, 48, 12, 64, 32), [jax.ShapeDtypeStruct((1, 16), "int32")]),
        "cnn": (viewed.ConvNet(nnx.Rngs(0)), [jax.ShapeDtypeStruct((2, 32, 32, 3), "float32")]),
    }
    urls = {}
    with tempfile.TemporaryDirectory() as folder, Browser(executable) as browser:
        for name, (model, inputs) in shapes.items():
            exported = jax2onnx.to_onnx(model, inputs, model_name=name, provenance="indexed")
            page = Path(folder) / f"{name}.html"
            jax2onnx.view(exported, open=False, source_roots=[ROOT]).save(page)
            urls[name] = page.as_uri()
        line = (
            "[...jax2onnxView.model.lines.values()].find(line => line.own.some("
            "node => jax2onnxView.model.op(node) === 'Softmax'))"
        )
        select = f"jax2onnxView.select({{kind: 'line', file: {line}.file, line: {line}.line}})"
        take(browser.page(1280, 760), urls["gpt2"], "view-line.png", select)
        node = "jax2onnxView.data.nodes.findIndex(node => node[1] === 'Conv')"
        select = f"jax2onnxView.select({{kind: 'node', node: {node}, item: null}})"
        take(browser.page(1280, 760, "dark"), urls["cnn"], "view-node-dark.png", select)


if __name__ == "__main__":
    main()
