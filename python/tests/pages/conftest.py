"""The pages that the tests of `jax2onnx view` open, each written when a test first asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import pytest
from flax import nnx
from onnx import TensorProto, helper, numpy_helper

import jax2onnx
from testkit import ROOT
from testkit.browser import Browser, Page, find_chromium
from testkit.models import viewed
from testkit.models.gpt2 import GPT2

FOREIGN = ROOT / "crates" / "cli" / "tests" / "fixtures" / "foreign"
CHROMIUM = find_chromium()

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"
)

#: Runs, loads, closes or covers something, if a page takes it for markup.
HOSTILE = (
    "</script><script>window.owned = 1</script><img src=x onerror='window.owned=1'>"
    '"><svg onload=window.owned=1><a href="javascript:window.owned=1">${window.owned=1}'
    "\u202e\u2066{{constructor.constructor('window.owned=1')()}}"
)


def export(function: Any, *shapes: jax.ShapeDtypeStruct) -> onnx.ModelProto:
    return jax2onnx.to_onnx(function, list(shapes), provenance="indexed")


def array(*shape: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def gpt2() -> onnx.ModelProto:
    """GPT-2 small: its layers and names, with narrow weights."""
    model = GPT2(layers=12, width=48, heads=12, vocabulary=64, context=32)
    return export(model, array(1, 16, dtype="int32"))


def hostile() -> onnx.ModelProto:
    """The nested loops, with markup in every name and text."""
    model = nested_loops()
    names: dict[str, str] = {}

    def rename(name: str) -> str:
        return names.setdefault(name, name + HOSTILE) if name else name

    def change(graph: onnx.GraphProto) -> None:
        graph.name += HOSTILE
        graph.doc_string = HOSTILE
        for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            value.name = rename(value.name)
        for node in graph.node:
            node.name += HOSTILE
            node.input[:] = map(rename, node.input)
            node.output[:] = map(rename, node.output)
            node.attribute.add(name="note" + HOSTILE, s=HOSTILE.encode(), type=3)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    change(attribute.g)

    change(model.graph)
    model.producer_name += HOSTILE
    model.graph.node[0].op_type += HOSTILE
    for entry in model.metadata_props:
        if entry.key == "pkg.jax2onnx.provenance":
            table = json.loads(entry.value)
            for key in ("files", "functions", "scope_names", "emitter_names"):
                table[key] = [text + HOSTILE for text in table[key]]
            entry.value = json.dumps(table)
    return model


def nested_loops() -> onnx.ModelProto:
    return export(viewed.nested_loops, array(4, 8), array(dtype="int32"))


def constants() -> onnx.ModelProto:
    """Two branches that compute from constants alone, and one that is random."""
    weight = numpy_helper.from_array(np.arange(3, dtype=np.float32), "weight")
    size = numpy_helper.from_array(np.array([3], dtype=np.int64), "size")
    nodes = [
        helper.make_node("Sin", ["weight"], ["a0"], name="a0"),
        helper.make_node("Mul", ["a0", "weight"], ["a1"], name="a1"),
        helper.make_node("Add", ["x", "a1"], ["y0"], name="y0"),
        helper.make_node("ConstantOfShape", ["size"], ["b0"], name="b0"),
        helper.make_node("Cos", ["b0"], ["b1"], name="b1"),
        helper.make_node("Exp", ["b1"], ["b2"], name="b2"),
        helper.make_node("Mul", ["y0", "b2"], ["y1"], name="y1"),
        helper.make_node("RandomNormal", [], ["r0"], name="r0", shape=[3]),
        helper.make_node("Tanh", ["r0"], ["r1"], name="r1"),
        helper.make_node("Add", ["y1", "r1"], ["y"], name="y"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "constants", ends[:1], ends[1:], [weight, size])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def large() -> onnx.ModelProto:
    """7,500 nodes in blocks, with names that say so."""
    weight = numpy_helper.from_array(np.eye(8, dtype=np.float32), "weight")
    nodes = []
    stream = "x"
    for block in range(1250):
        residual = current = stream
        for name, op in BLOCK:
            output = f"blocks.{block}/{name}"
            operands = {"MatMul": [current, "weight"], "Add": [current, residual]}
            nodes.append(helper.make_node(op, operands.get(op, [current]), [output], name=output))
            current = output
        stream = current
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", 8]) for name in ("x", stream)
    ]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def repeated() -> onnx.ModelProto:
    """2,100 nodes of one line."""

    def repeat(x: jax.Array) -> jax.Array:
        for _ in range(2100):
            x = jax.numpy.sin(x)
        return x

    return export(repeat, array(3))


#: The nodes of one block of the large model.
BLOCK = (
    ("up/product", "MatMul"),
    ("up/bound", "Tanh"),
    ("down/product", "MatMul"),
    ("down/bound", "Sigmoid"),
    ("down/part", "Sin"),
    ("sum", "Add"),
)

MODELS = {
    "gpt2": gpt2,
    "cnn": lambda: export(viewed.ConvNet(nnx.Rngs(0)), array(2, 32, 32, 3)),
    "loops": nested_loops,
    "functions": lambda: export(viewed.functions, array(4, 16)),
    "torch": lambda: onnx.load(FOREIGN / "torch.onnx"),
    "hostile": hostile,
    "decoder": lambda: export(viewed.decoder, array(4, dtype="int32"), array(32, 16)),
    "constants": constants,
    "large": large,
}

#: Models for one test.
OTHERS = {"repeated": repeated}


class Opened:
    """A page with the model that it shows."""

    def __init__(self, page: Page, url: str, data: dict[str, Any]) -> None:
        self.page = page
        self.url = url
        self.data = data

    def lines(self) -> dict[tuple[str, int], tuple[set[str], set[str]]]:
        """Return for each line its nodes, and those that were fused with other lines."""
        data = self.data
        lines: dict[tuple[str, int], tuple[set[str], set[str]]] = {}
        for name, _, _, _, _, origin, *_ in data["nodes"]:
            sites = data["origins"][origin] if origin >= 0 else []
            callsites = [data["sites"][site][1] for site in sites]
            for at, location in enumerate(location for location in callsites if location >= 0):
                file, _, line, *_ = data["locations"][location]
                path = data["files"][file]["path"]
                lines.setdefault((path, line), (set(), set()))[min(at, 1)].add(name)
        return {place: (own, fused - own) for place, (own, fused) in lines.items()}

    def linked(self, what: str) -> set[str]:
        """Return what is highlighted, by its `data-node` or `data-line`."""
        key = {"node": "node", "fused": "node", "line": "line"}[what]
        extra = {"node": ":not(.is-fused)", "fused": ".is-fused", "line": ""}[what]
        found = self.page.evaluate(
            f"[...document.querySelectorAll('[data-{key}].is-linked{extra}')]"
            f".map(element => element.dataset.{key})"
        )
        return set(found)

    def closed(self) -> set[str]:
        """Return the nodes that are drawn as closed boxes."""
        found = self.page.evaluate(
            "[...document.querySelectorAll('[data-node][aria-expanded=false]')]"
            ".map(element => element.dataset.node)"
        )
        return set(found)

    def details(self) -> str:
        return self.page.evaluate("document.querySelector('.pane.details').innerText")

    def hash(self) -> str:
        return self.page.evaluate("decodeURIComponent(location.hash)")


class Clock:
    """Measures the CPU time of a page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.send("Performance.enable", timeDomain="threadTicks")
        self.last = self.now()

    def now(self) -> float:
        metrics = self.page.send("Performance.getMetrics")["metrics"]
        return next(row["value"] for row in metrics if row["name"] == "TaskDuration")

    def check(self, what: str, seconds: float) -> None:
        now = self.now()
        assert now - self.last < seconds, f"{what}: {now - self.last:.2f} s"
        self.last = now


class Pages:
    """Pages by the names of their models."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def model(self, name: str) -> Path:
        path = self.folder / f"{name}.onnx"
        if not path.exists():
            onnx.save((MODELS | OTHERS)[name](), path)
        return path

    def write(self, name: str, tag: str = "", **options: Any) -> Path:
        """Write the page of a model with further options of `view`."""
        page = self.folder / f"{name}{tag}.html"
        if not page.exists():
            model = self.model(name)
            shown = jax2onnx.view(model, open=False, source_roots=[ROOT, FOREIGN], **options)
            shown.save(page)
        return page

    def __getitem__(self, name: str) -> Path:
        return self.write(name)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None
    with Browser(CHROMIUM) as browser:
        yield browser


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return Pages(tmp_path_factory.mktemp("pages"))


def open_page(browser: Browser, path: Path, width: int = 1440, height: int = 900) -> Opened:
    page = browser.page(width, height)
    page.goto(path.as_uri())
    return Opened(page, path.as_uri(), page.evaluate("jax2onnxView.data"))


def close(opened: Opened) -> None:
    """Close a page, which must have had no errors and loaded nothing."""
    opened.page.settle()
    opened.page.close()
    assert opened.page.errors == []
    assert {url.partition("#")[0] for url in opened.page.requests} == {opened.url}


@pytest.fixture
def opened(request: pytest.FixtureRequest, browser: Browser, pages: Pages) -> Iterator[Opened]:
    opened = open_page(browser, pages[request.param])
    yield opened
    close(opened)
