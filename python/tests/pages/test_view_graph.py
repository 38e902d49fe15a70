"""The graph of a page: where it opens, what it fits, what its colors say, and what can be saved."""

from __future__ import annotations

import base64
import json
import struct
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.external_data_helper import set_external_data

import jax2onnx
from testkit.browser import Browser

from .conftest import MODELS, Clock, Opened, Pages, close, needs_chromium, open_page

#: The CPU time that the page of 7,500 nodes may need to open or to answer a click, in seconds.
MAX_SECONDS = 1.0

#: Returns whether an element is inside of the pane of the graph.
IS_IN_SIGHT = """((element, margin = 0) => {
  const pane = document.querySelector('.middle .viewport');
  const [a, b] = [element, pane].map(e => e.getBoundingClientRect());
  return a.left >= b.left - margin && a.right <= b.right + margin
    && a.top >= b.top - margin && a.bottom <= b.bottom + margin;
})"""

#: Lists texts of edges that cover each other or a closed box.
OVERPRINTED = """(() => {
  const inner = (e, by) => {
    const {left, right, top, bottom} = e.getBoundingClientRect();
    return {left: left + by, right: right - by, top: top + by, bottom: bottom - by, e};
  };
  const all = selector => [...document.querySelectorAll(selector)].map(e => inner(e, 1));
  const texts = all('.middle .edge text');
  const boxes = all('.middle .item:not(.is-open) > .frame');
  const over = (a, b) => a !== b && a.left < b.right && b.left < a.right
    && a.top < b.bottom && b.top < a.bottom;
  return texts.filter(a => [...texts, ...boxes].some(b => over(a, b))).map(a => a.e.textContent);
})()"""

#: Lists the points that two edges of one box share at their ends.
SHARED_ENDS = """(() => {
  const ends = [...document.querySelectorAll('.middle .edge path[marker-end]')]
    .map(e => /[-\\d.]+ [-\\d.]+$/.exec(e.getAttribute('d'))[0]);
  return ends.filter((end, at) => ends.indexOf(end) !== at);
})()"""

#: Lists texts that are wider than the box in which they are drawn.
CUT_TEXTS = """(() => {
  const width = e => e.getBoundingClientRect().width;
  return [...document.querySelectorAll('.middle .item:not(.is-open) > text')]
    .filter(e => width(e) > width(e.parentElement.querySelector('.frame')) + 1)
    .map(e => e.textContent);
})()"""


def press(opened: Opened, label: str) -> None:
    """Press a button by the beginning of its label."""
    opened.page.click(f'[aria-label^="{label}"]')
    opened.page.settle()


def count(opened: Opened, selector: str) -> int:
    return opened.page.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length")


@needs_chromium
@pytest.mark.parametrize("opened", [name for name in MODELS if name != "large"], indirect=True)
def test_a_page_opens_at_the_inputs_and_its_boxes_can_be_opened_and_fit(opened: Opened) -> None:
    page = opened.page
    # Loops, branches, calls and constants are closed, and the first input can be read.
    assert count(opened, ".middle .node.is-open, .middle .is-constant.is-open") == 0
    assert page.evaluate(
        f"{IS_IN_SIGHT}(document.querySelector('.middle .item.input, .middle .item'))"
    )
    assert page.evaluate("document.querySelector('.middle .world').getCTM().a") >= 0.74
    press(opened, "Expand all")
    assert count(opened, ".middle .item[aria-expanded=false]") == 0
    drawn = page.evaluate(
        "[...document.querySelectorAll('.middle [data-index]')].map(e => +e.dataset.index)"
    )
    assert set(drawn) == set(range(len(opened.data["nodes"])))
    # The whole graph is in sight.
    assert page.evaluate(
        f"[...document.querySelectorAll('.middle .item')].every(e => {IS_IN_SIGHT}(e, 1))"
    )
    assert page.evaluate(SHARED_ENDS) == []
    page.evaluate("jax2onnxView.graph.zoomBy(1 / document.querySelector('.world').getCTM().a)")
    page.settle()
    assert page.evaluate(OVERPRINTED) == []
    assert page.evaluate(CUT_TEXTS) == []
    press(opened, "Collapse all")
    assert count(opened, ".middle .is-open") == 0


@needs_chromium
def test_a_graph_of_7500_nodes_opens_and_answers_within_a_second(
    browser: Browser, pages: Pages
) -> None:
    path = pages["large"]
    page = browser.page()
    clock = Clock(page)
    page.goto(path.as_uri())
    clock.check("open", MAX_SECONDS)
    opened = Opened(page, path.as_uri(), page.evaluate("jax2onnxView.data"))
    clock.last = clock.now()
    for number in (3750, 20):
        page.evaluate(f"jax2onnxView.select({{kind: 'node', node: {number}, item: null}})")
        page.settle()
        clock.check("select", MAX_SECONDS)
        selected = f"document.querySelector('[data-index=\"{number}\"].is-selected')"
        assert page.evaluate(f"{IS_IN_SIGHT}({selected})")
    page.press("Escape")
    clock.check("escape", MAX_SECONDS)
    # All boxes at once: from afar, a box is a shape without a text.
    press(opened, "Expand all")
    clock.check("expand", 2 * MAX_SECONDS)
    assert page.evaluate(f"{IS_IN_SIGHT}(document.querySelector('.afar'), 4)")
    assert count(opened, ".middle .world text") == 0
    assert count(opened, ".afar .far") >= 4
    far = page.evaluate(
        "[...document.querySelectorAll('.afar .far:not(.is-open, .edge-line)')]"
        ".reduce((sum, e) => sum + e.getAttribute('d').split('M').length - 1, 0)"
    )
    assert far == 7500 + 2
    # A click still finds its node.
    place = page.evaluate(
        "(() => {const g = jax2onnxView.graph; const p = g.picture.placed.get(g.tree.itemOf(4000));"
        "const box = document.querySelector('.viewport').getBoundingClientRect();"
        "return [box.left + g.x + (p.x + p.width / 2) * g.zoom,"
        " box.top + g.y + (p.y + p.height / 2) * g.zoom]})()"
    )
    mouse = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
    page.send("Input.dispatchMouseEvent", type="mousePressed", **mouse)
    page.send("Input.dispatchMouseEvent", type="mouseReleased", **mouse)
    page.settle()
    assert opened.hash().startswith("#node=blocks.666/down/")
    close(opened)


@needs_chromium
@pytest.mark.parametrize("opened", ["constants"], indirect=True)
def test_branches_of_constants_are_closed_boxes(opened: Opened) -> None:
    boxes = "[...document.querySelectorAll('.is-constant')]"
    assert opened.page.evaluate(f"{boxes}.map(e => e.textContent)") == [
        "constant2 nodes",
        "constant3 nodes",
    ]
    assert count(opened, '[data-node="a1"], [data-node="b1"]') == 0
    # A random value is not constant.
    assert count(opened, '[data-node="r0"], [data-node="r1"], [data-node="y1"]') == 3
    opened.page.evaluate(f"{boxes}[1].dispatchEvent(new MouseEvent('dblclick', {{bubbles: true}}))")
    opened.page.settle()
    assert count(opened, '[data-node="b0"], [data-node="b1"], [data-node="b2"]') == 3
    assert count(opened, '[data-node="a0"]') == 0


@needs_chromium
@pytest.mark.parametrize("opened", ["decoder"], indirect=True)
def test_escape_closes_what_a_line_opened_and_keeps_what_the_user_opened(opened: Opened) -> None:
    page = opened.page
    before = page.evaluate("[...jax2onnxView.graph.open].sort()")
    position = page.evaluate("jax2onnxView.graph.position()")
    line = next(
        line
        for (_, line), (own, _) in sorted(opened.lines().items())
        if any("tanh" in name for name in own)
    )
    page.click(f'[data-line="{line}"]')
    # The loop of the line is open.
    assert count(opened, ".node.is-open") == 1
    assert page.evaluate("[...jax2onnxView.graph.open].sort()") != before
    page.press("Escape")
    assert page.evaluate("[...jax2onnxView.graph.open].sort()") == before
    assert page.evaluate("jax2onnxView.graph.position()") == position
    # The user opens the loop, and the line its branch.
    page.evaluate(
        "jax2onnxView.graph.toggle(jax2onnxView.graph.tree.itemOf("
        "jax2onnxView.data.nodes.findIndex(node => node[1] === 'Loop')))"
    )
    page.settle()
    opened_by_user = page.evaluate("[...jax2onnxView.graph.open].sort()")
    branch = next(i for i, node in enumerate(opened.data["nodes"]) if node[1] == "Sin")
    page.evaluate(f"jax2onnxView.select({{kind: 'node', node: {branch}, item: null}})")
    page.settle()
    # The outline is as large as the node.
    sizes = page.evaluate(
        "['frame', 'outline', 'band'].map(name => {"
        "const {width, height} = document.querySelector(`.is-selected > .${name}`).getBBox();"
        "return [width, height]})"
    )
    assert sizes[0] == sizes[1]
    assert sizes[2] == pytest.approx(sizes[0], abs=0.1) or sizes[2][1] == 28
    page.press("Escape")
    assert page.evaluate("[...jax2onnxView.graph.open].sort()") == opened_by_user


def report(opened: Opened, wrong: str) -> dict[str, Any]:
    """Return a report of `compare` in which one node is wrong, and all others round."""
    rows = []
    for (path, line), (own, _) in opened.lines().items():
        is_wrong = wrong in own
        rows.append(
            {
                "line": {"file": path, "line": line, "function": "", "text": ""},
                "nodes": sorted(own),
                "elements": 100,
                "elements_wrong": 12 if is_wrong else 0,
                "max_absolute_error": 4e-2 if is_wrong else 5e-7,
            }
        )
    first = {"node": wrong, "nodes": [wrong]}
    return {"version": 1, "reference": "JAX", "agrees": False, "first": first, "rows": rows}


def wrong_line(opened: Opened, wrong: str) -> int:
    return next(line for (_, line), (own, _) in opened.lines().items() if wrong in own)


@needs_chromium
def test_a_page_with_a_report_opens_at_the_wrong_line(browser: Browser, pages: Pages) -> None:
    plain = open_page(browser, pages["cnn"])
    wrong = next(row[0] for row in plain.data["nodes"] if row[1] == "Softmax")
    path = pages.folder / "report.json"
    path.write_text(json.dumps(report(plain, wrong)))
    close(plain)
    opened = open_page(browser, pages.write("cnn", "-compare", compare=path))
    page = opened.page
    line = wrong_line(opened, wrong)
    node = f"document.querySelector('[data-node=\"{wrong}\"]')"
    assert opened.linked("line") == {str(line)}
    assert page.evaluate(f"{IS_IN_SIGHT}({node})")
    row = f"document.querySelector('[data-line=\"{line}\"]').getBoundingClientRect()"
    assert 0 < page.evaluate(f"{row}.top") < page.evaluate("innerHeight")
    # The sentence leads to the line from everywhere.
    page.press("Escape")
    assert opened.linked("line") == set()
    assert "computes the first wrong number" in opened.details()
    for link in (".pane.details dd .link", ".top .answer"):
        page.press("Escape")
        page.click(link)
        assert opened.linked("line") == {str(line)}
        assert wrong in page.evaluate("document.querySelector('.top .answer').textContent")
    # Rounding does not look like an error: its line has no heat, and its nodes another color.
    heat = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.line')].filter(e =>"
        " e.querySelector('.metric.error').textContent).map(e => [e.dataset.line,"
        " [e.style.getPropertyValue('--heat'), e.classList.contains('is-wrong')]]))"
    )
    assert heat.pop(str(line)) == ["1.000", True]
    assert len(heat) > 2
    assert set(map(tuple, heat.values())) == {("0.000", False)}
    assert "error-first" in page.evaluate(f"{node}.getAttribute('class')")
    other = next(row[0] for row in opened.data["nodes"] if row[1] == "Gemm")
    other = f"document.querySelector('[data-node=\"{other}\"]')"
    assert "error-rounding" in page.evaluate(f"{other}.getAttribute('class')")
    headings = page.evaluate(
        "[...document.querySelectorAll('.headings > span')].filter(e => e.checkVisibility())"
        ".map(e => e.textContent).filter(Boolean)"
    )
    assert headings == ["Nodes", "Weights", "Error", "Line"]
    close(opened)


def profiled(model: Path, folder: Path, feeds: dict[str, np.ndarray]) -> Path:
    """Run a model with ONNX Runtime, and return its profile."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / model.stem)
    session = onnxruntime.InferenceSession(model, options)
    for _ in range(3):
        session.run(None, feeds)
    return Path(session.end_profiling())


def profiled_page(pages: Pages) -> Path:
    feeds = {"x": np.ones((2, 32, 32, 3), np.float32)}
    profile = profiled(pages.model("cnn"), pages.folder, feeds)
    return pages.write("cnn", "-profile", profile=profile)


@needs_chromium
def test_a_page_with_a_profile_opens_at_the_slowest_line(browser: Browser, pages: Pages) -> None:
    opened = open_page(browser, profiled_page(pages))
    page, data = opened.page, opened.data
    slowest = max(data["profile"]["lines"], key=lambda row: row["share"])
    assert opened.linked("line") == {str(slowest["line"])}
    names = opened.linked("node")
    shares = {data["nodes"][row["node"]][0]: row["share"] for row in data["profile"]["nodes"]}
    first = max(names, key=lambda name: shares.get(name, 0))
    assert page.evaluate(f"{IS_IN_SIGHT}(document.querySelector('[data-node=\"{first}\"]'))")
    assert "slowest" in page.evaluate("document.querySelector('.top .answer').textContent")
    close(opened)


@needs_chromium
def test_nodes_are_colored_by_what_is_chosen_with_a_legend(browser: Browser, pages: Pages) -> None:
    opened = open_page(browser, pages["cnn"])
    page = opened.page
    assert page.evaluate("[...document.querySelector('.menu').options].map(e => e.value)") == [
        "op",
        "bytes",
    ]
    close(opened)
    opened = open_page(browser, profiled_page(pages))
    page = opened.page
    for scheme, prefix in (("op", "op-"), ("time", "heat-"), ("bytes", "heat-")):
        page.evaluate(
            f"(() => {{const menu = document.querySelector('.menu'); menu.value = '{scheme}';"
            "menu.dispatchEvent(new Event('change'))})()"
        )
        page.settle()
        swatches = page.evaluate(
            "[...document.querySelectorAll('.legend .swatch')].map(e =>"
            " [e.classList[1], getComputedStyle(e).backgroundColor, e.parentElement.textContent])"
        )
        assert all(name.startswith(prefix) and text for name, _, text in swatches), scheme
        assert len({color for _, color, _ in swatches}) == len(swatches), scheme
        colors = {name: color for name, color, _ in swatches}
        # Each node has a color of the legend.
        nodes = page.evaluate(
            "[...document.querySelectorAll('.middle .node')].map(e =>"
            " [[...e.classList].at(-1), [...e.classList].join(' '),"
            " getComputedStyle(e.querySelector('.band')).fill])"
        )
        assert nodes
        for _, names, fill in nodes:
            own = [name for name in names.split() if name in colors]
            assert [colors[name] for name in own] == [fill], (scheme, names)
    close(opened)


@needs_chromium
def test_a_weight_shows_its_contents(browser: Browser, tmp_path: Path) -> None:
    numbers = np.linspace(-1, 3, 64, dtype=np.float32).reshape(8, 8)
    numbers[0, :3] = np.nan
    numbers[1, 1] = np.inf
    large = np.zeros((1200, 1200), np.float32)
    large[0, 0], large[-1, -1] = -5, 7
    weights = [
        numpy_helper.from_array(numbers, "odd"),
        numpy_helper.from_array(np.arange(40_000, dtype=np.int64), "skipped"),
        numpy_helper.from_array(large, "sampled"),
        numpy_helper.from_array(np.full(30_000, 2, np.float32), "outside"),
    ]
    nodes = [
        helper.make_node("Identity", [w.name], [f"{w.name}_out"], name=w.name) for w in weights
    ]
    outputs = [helper.make_empty_tensor_value_info(f"{w.name}_out") for w in weights]
    model = helper.make_model(helper.make_graph(nodes, "g", [], outputs, weights))
    set_external_data(model.graph.initializer[3], "weights.bin")
    onnx.save(model, tmp_path / "model.onnx")
    jax2onnx.view(tmp_path / "model.onnx", open=False).save(tmp_path / "model.html")
    opened = open_page(browser, tmp_path / "model.html")
    shown = {}
    for weight in weights:
        opened.page.evaluate(
            "(() => {const {weights, values} = jax2onnxView.data;"
            f"const [value] = weights.find(([value]) => values[value][0] === '{weight.name}');"
            "jax2onnxView.select({kind: 'weight', value})})()"
        )
        opened.page.settle()
        shown[weight.name] = opened.details()
    assert "Minimum\n-0.8095" in shown["odd"]
    assert "Maximum\n3" in shown["odd"]
    assert "NaN\n3" in shown["odd"]
    assert "Infinite\n1" in shown["odd"]
    assert "Minimum\n0\nMaximum\n39,999\nNaN\n0" in shown["skipped"]
    assert "Minimum\n-5\nMaximum\n7" in shown["sampled"]
    assert "From a sample of 262,144 elements of 1,440,000." in shown["sampled"]
    assert "Minimum\n2\nMaximum\n2" in shown["outside"]
    assert count(opened, ".histogram") == 0
    rows = {opened.data["values"][row[0]][0]: row for row in opened.data["weights"]}
    assert rows["skipped"][4][5] == [100] * 16
    assert len(json.dumps(rows["sampled"][4])) < 120
    close(opened)


@needs_chromium
@pytest.mark.parametrize("opened", ["decoder", "hostile"], indirect=True)
def test_the_graph_is_saved_as_svg_and_png(opened: Opened) -> None:
    page = opened.page
    press(opened, "Expand all")
    page.evaluate(
        "(() => {window.saved = []; const create = URL.createObjectURL;"
        "URL.createObjectURL = blob => {saved.push(blob); return create(blob)}})()"
    )
    press(opened, "Save the graph as SVG")
    page.wait("saved.length === 1")
    text = page.evaluate("saved[0].text()")
    root = xml.etree.ElementTree.fromstring(text)
    names = {element.tag.partition("}")[2] for element in root.iter()}
    assert names <= {"svg", "defs", "marker", "path", "rect", "g", "text"}
    operators = [element.text for element in root.iter() if element.tag.endswith("}text")]
    for _, op, *_ in opened.data["nodes"][1:]:
        assert op in operators or any(text[:-1] in op for text in operators if text.endswith("…"))
    assert "var(" not in text
    press(opened, "Save the graph as PNG")
    page.wait("saved.length === 2")
    encoded = page.evaluate(
        "saved[1].arrayBuffer().then(b => btoa(Array.from(new Uint8Array(b),"
        " byte => String.fromCharCode(byte)).join('')))"
    )
    png = base64.b64decode(encoded)
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    expected = [float(root.attrib[name]) for name in ("width", "height")]
    assert width / height == pytest.approx(expected[0] / expected[1], rel=0.02)
    page.read_events()
    page.requests[:] = [url for url in page.requests if not url.startswith("blob:")]


@needs_chromium
def test_two_models_are_side_by_side_with_their_differences(browser: Browser, pages: Pages) -> None:
    before = onnx.load(pages.model("cnn"))
    graph = before.graph
    softmax = next(node for node in graph.node if node.op_type == "Softmax")
    gemm = next(node for node in graph.node if node.op_type == "Gemm")
    # The earlier model has an operator more, one less, and another attribute.
    extra = helper.make_node("Abs", [gemm.input[0]], ["extra"], name="extra")
    extra.metadata_props.extend(gemm.metadata_props)
    gemm.input[0] = "extra"
    gemm.output[0] = softmax.output[0]
    graph.node.remove(softmax)
    graph.node.insert(list(graph.node).index(gemm), extra)
    conv = next(node for node in graph.node if node.op_type == "Conv")
    conv.attribute.append(helper.make_attribute("group", 1))
    path = pages.folder / "before.onnx"
    onnx.save(before, path)
    opened = open_page(browser, pages.write("cnn", "-against", against=path))
    page = opened.page
    assert "changed since before.onnx" in page.evaluate(
        "document.querySelector('.top .answer').textContent"
    )
    page.press("Escape")
    page.click("[role=tab]:last-child")
    assert page.evaluate("!document.querySelector('.files').checkVisibility()")

    def colored(pane: str, name: str) -> list[str]:
        return page.evaluate(
            f"[...document.querySelectorAll('{pane} .{name}')].map(e => e.dataset.node)"
        )

    assert colored(".earlier", "change-gone") == ["extra"]
    assert colored(".canvas:not(.earlier)", "change-new") == [softmax.name]
    assert colored(".earlier", "change-different") == [conv.name]
    assert colored(".canvas:not(.earlier)", "change-different") == [conv.name]
    # A click on one side highlights the node on the other side.
    page.click(f'.earlier [data-node="{gemm.name}"]')
    assert opened.hash().startswith(f"#node={gemm.name}")
    assert count(opened, f'.earlier [data-node="{gemm.name}"].is-linked') == 1
    page.click('.earlier [data-node="extra"]')
    assert "Abs" in opened.details()
    assert opened.linked("line") == set()
    page.click("[role=tab]:first-child")
    assert page.evaluate("document.querySelector('.files').checkVisibility()")
    close(opened)


@needs_chromium
def test_a_node_that_reads_another_weight_is_marked_and_the_page_opens_at_it(
    browser: Browser, pages: Pages
) -> None:
    before = onnx.load(pages.model("cnn"))
    (reader, weight) = next(
        (node, tensor)
        for node in before.graph.node
        for tensor in before.graph.initializer
        if node.op_type == "Gemm" and tensor.name == node.input[2]
    )
    changed = numpy_helper.to_array(weight) + 1
    weight.CopyFrom(numpy_helper.from_array(changed, weight.name))
    path = pages.folder / "weights-before.onnx"
    onnx.save(before, path)
    opened = open_page(browser, pages.write("cnn", "-weights", against=path))
    page = opened.page
    answer = page.evaluate("document.querySelector('.top .answer').textContent")
    assert answer == "1 weight changed since weights-before.onnx"
    different = "[...document.querySelectorAll('.middle .change-different[data-node]')]"
    assert page.evaluate(f"{different}.map(e => e.dataset.node)") == [reader.name]
    assert page.evaluate(f"{IS_IN_SIGHT}({different}[0])")
    assert opened.data["against"]["weights"] == [{"name": weight.name, "change": "contents"}]
    close(opened)


@needs_chromium
def test_a_model_without_provenance_says_so_once(browser: Browser, pages: Pages) -> None:
    opened = open_page(browser, pages["constants"])
    page = opened.page
    notice = "document.querySelector('.left-out')"
    assert "pass its source map with --map" in page.evaluate(f"{notice}.innerText")
    assert "`" not in page.evaluate(f"{notice}.innerText")
    assert page.evaluate(f"{notice}.querySelector('code').textContent") == 'provenance="indexed"'
    assert "--map" not in page.evaluate("document.querySelector('.pane.source').innerText")
    assert "no node is linked to source" in opened.details()
    assert "unknown" in opened.details()
    close(opened)


@needs_chromium
def test_a_line_with_thousands_of_nodes_counts_them_and_opens_at_the_one_that_changed(
    browser: Browser, pages: Pages
) -> None:
    before = onnx.load(pages.model("repeated"))
    for number in (500, 1900):
        before.graph.node[number].op_type = "Cos"
    path = pages.folder / "repeated-before.onnx"
    onnx.save(before, path)
    opened = open_page(browser, pages.write("repeated", "-against", against=path))
    page = opened.page
    ops = page.evaluate("document.querySelector('.line.is-linked .ops').textContent")
    assert ops == "Sin \N{MULTIPLICATION SIGN}2,100"
    changed = f"document.querySelector('[data-node=\"{before.graph.node[500].name}\"]')"
    assert page.evaluate(f"{IS_IN_SIGHT}({changed})")
    close(opened)


@needs_chromium
def test_the_source_can_be_read_in_a_small_window(browser: Browser, pages: Pages) -> None:
    opened = open_page(browser, pages["cnn"], 1000, 700)
    page = opened.page
    line = "return nnx.max_pool(x, (2, 2), strides=(2, 2))"
    code = (
        f"[...document.querySelectorAll('.line code')].find(e => e.textContent.trim() === {line!r})"
    )
    # The code of a line has most of the room.
    places = page.evaluate(
        f"(() => {{const e = {code};"
        "const pane = document.querySelector('.files').getBoundingClientRect();"
        "return [pane.left, e.getBoundingClientRect().left, pane.right]})()"
    )
    left, start, right = places
    assert start - left < 130
    assert right - start > 280
    assert count(opened, ".headings > .metric") == 2
    headings = page.evaluate(
        "[...document.querySelectorAll('.headings > .metric')].filter(e => e.checkVisibility())"
        ".map(e => e.textContent)"
    )
    assert headings == ["Nodes"]
    # Borders can be moved with the mouse and the keyboard.
    handle = page.evaluate(
        "(() => {const b = document.querySelector('.splitter').getBoundingClientRect();"
        "return [b.x + 2, b.y + 200]})()"
    )
    mouse = {"button": "left", "clickCount": 1}
    x, y = handle
    page.send("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, **mouse)
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=x + 100, y=y, buttons=1, **mouse)
    page.send("Input.dispatchMouseEvent", type="mouseReleased", x=x + 100, y=y, **mouse)
    page.settle()
    width = page.evaluate("document.querySelector('.pane.source').offsetWidth")
    assert width == pytest.approx(right - left + 100, abs=4)
    # The map can be hidden.
    graph = "document.querySelector('.viewport').clientWidth"
    before = page.evaluate(graph)
    page.press("m")
    assert count(opened, ".minimap[hidden]") == 1
    assert page.evaluate(graph) > before
    # No bar is wider than its pane.
    wide = page.evaluate(
        "[...document.querySelectorAll('.bar, .top, .headings')].filter(e =>"
        " e.scrollWidth > e.clientWidth + 1).map(e => e.className)"
    )
    assert wide == []
    close(opened)
