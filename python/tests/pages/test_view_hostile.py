"""Pages of models that are too large, too deep or not graphs: each one answers at once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

import jax2onnx
from testkit.browser import Browser, Page

from .conftest import Clock, needs_chromium

#: The CPU time that a page may need to open or to answer a click, in seconds.
MAX_SECONDS = 2.0


def node(op: str, inputs: list[str], outputs: list[str], name: str = "") -> NodeProto:
    return NodeProto(op_type=op, input=inputs, output=outputs, name=name)


def value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [3])


def model(nodes: list[NodeProto], inputs: list[str], outputs: list[str], **more: Any) -> ModelProto:
    graph = GraphProto(name="graph", node=nodes)
    graph.input.extend(map(value, inputs))
    graph.output.extend(map(value, outputs))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    return ModelProto(ir_version=10, graph=graph, opset_import=opsets, **more)


def cycles() -> ModelProto:
    count = 5000
    following = [(f"v{(at + 1) % count}", f"v{at * 7919 % count}") for at in range(count)]
    nodes = [node("Add", [*reads], [f"v{at}"], f"n{at}") for at, reads in enumerate(following)]
    return model(nodes, ["x"], ["v0"])


def many_inputs() -> ModelProto:
    names = [f"i{at}" for at in range(20_000)]
    return model([node("Sum", names, ["y"], "sum")], names, ["y"])


def long_names() -> ModelProto:
    long = "n" * 300_000
    nodes = [node("Op" + long, [f"v{at}{long}"], [f"v{at + 1}{long}"], long) for at in range(3)]
    return model(nodes, ["v0" + long], ["v3" + long])


def many_nodes() -> ModelProto:
    """More nodes than a page contains."""
    return model([node("Sin", ["x"], ["y"])] * 101_000, ["x"], ["y"])


def recursive() -> ModelProto:
    calls = [node("f", ["x"], [f"y{at}"], f"call{at}") for at in range(5)]
    for call in calls:
        call.domain = "f"
    function = onnx.FunctionProto(name="f", domain="f", input=["x"], output=["y0"], node=calls)
    return model(calls[:1], ["x"], ["y0"], functions=[function])


def fan() -> ModelProto:
    """A value with many readers, and a node with many operands."""
    readers = [node("Cos", ["y"], [f"o{at}"], f"c{at}") for at in range(5000)]
    sums = [node("Sum", [f"o{at}" for at in range(5000)], [f"s{at}"], f"s{at}") for at in range(9)]
    return model([node("Sin", ["x"], ["y"], "p"), *readers, *sums], ["x"], ["s0"])


def paths() -> ModelProto:
    """Names with thousands of parts."""
    names = ["/".join(f"{at % 3}.{part}" for part in range(3000)) for at in range(6)]
    return model([node("Sin", ["x"], ["y"], name) for name in names], ["x"], ["y"])


HOSTILE = {
    "empty": lambda: model([], [], []),
    "cycles": cycles,
    "many_inputs": many_inputs,
    "long_names": long_names,
    "recursive": recursive,
    "fan": fan,
    "paths": paths,
}


def opened(browser: Browser, made: ModelProto, folder: Path) -> tuple[Page, Clock]:
    onnx.save(made, folder / "model.onnx")
    jax2onnx.view(folder / "model.onnx", open=False).save(folder / "model.html")
    page = browser.page()
    clock = Clock(page)
    page.goto((folder / "model.html").as_uri())
    return page, clock


#: What a person may do with any page.
ACTIONS = {
    "select the first node": "jax2onnxView.select({kind: 'node', node: 0, item: null})",
    "select the last node": (
        "jax2onnxView.select({kind: 'node', node: jax2onnxView.data.nodes.length - 1, item: null})"
    ),
    "select an operator": "document.querySelector('.chip')?.click()",
    "open a box": (
        "document.querySelector('.item:not(.is-open) .toggle')"
        "?.dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    ),
    "show more of a list": "document.querySelector('.more')?.click()",
    "select nothing": "jax2onnxView.select(null)",
}


@needs_chromium
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_model_does_not_freeze_its_page(
    browser: Browser, name: str, tmp_path: Path
) -> None:
    page, clock = opened(browser, HOSTILE[name](), tmp_path)
    clock.check("open", MAX_SECONDS)
    for what, action in ACTIONS.items():
        page.evaluate(f"(() => {{ {action} }})()")
        page.settle()
        clock.check(what, MAX_SECONDS)
    page.press("/")
    page.type("1")
    clock.check("search", MAX_SECONDS)
    page.settle()
    assert page.errors == []
    page.close()


@needs_chromium
def test_an_empty_graph_says_that_it_is_empty(browser: Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, model([], [], []), tmp_path)
    assert "has no nodes" in page.evaluate("document.querySelector('.canvas').innerText")
    assert page.errors == []
    page.close()


@needs_chromium
def test_the_search_finds_an_input_that_is_not_drawn(browser: Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, many_inputs(), tmp_path)
    assert page.evaluate("document.querySelectorAll('.item').length") < 200
    page.press("/")
    page.type("i19999")
    page.press("Enter")
    assert page.evaluate("decodeURIComponent(location.hash)").startswith("#input=i19999")
    assert page.evaluate("document.querySelector('.is-selected').dataset.value") == "i19999"
    page.close()


@needs_chromium
def test_the_page_says_which_edges_it_does_not_draw(browser: Browser, tmp_path: Path) -> None:
    page, _ = opened(browser, cycles(), tmp_path)
    shown = page.evaluate("document.querySelector('.left-out').innerText")
    assert re.search(r"1,200 of [\d,]+ edges in sight are drawn\.", shown)
    page.close()


@pytest.mark.slow
@needs_chromium
def test_the_page_says_how_many_nodes_it_leaves_out(browser: Browser, tmp_path: Path) -> None:
    page, clock = opened(browser, many_nodes(), tmp_path)
    clock.check("open", MAX_SECONDS)
    shown = page.evaluate("document.querySelector('.left-out').innerText")
    assert "The page contains 100,000 of 101,000 nodes." in shown
    assert "101,000 nodes" in page.evaluate("document.querySelector('header.top').innerText")
    page.close()


def test_the_command_says_what_a_page_leaves_out_and_json_is_complete(tmp_path: Path) -> None:
    onnx.save(long_names(), tmp_path / "model.onnx")

    def view(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "jax2onnx", "view", "model.onnx", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)

    assert "long texts are cut" in view().stderr
    assert (tmp_path / "model.html").stat().st_size < 300_000
    data = json.loads(view("--format", "json").stdout)
    assert len(data["nodes"][0][0]) == 300_000
    assert data["left_out"] == []
