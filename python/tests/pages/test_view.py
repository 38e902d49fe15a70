"""The pages of `jax2onnx view` in a browser: links, search, keyboard, hostile contents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import onnx
import pytest
from flax import nnx

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


MODELS = {
    "gpt2": gpt2,
    "cnn": lambda: export(viewed.ConvNet(nnx.Rngs(0)), array(2, 32, 32, 3)),
    "loops": nested_loops,
    "functions": lambda: export(viewed.functions, array(4, 16)),
    "torch": lambda: onnx.load(FOREIGN / "torch.onnx"),
    "hostile": hostile,
}


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

    def details(self) -> str:
        return self.page.evaluate("document.querySelector('.pane.details').innerText")

    def hash(self) -> str:
        return self.page.evaluate("decodeURIComponent(location.hash)")


def clean(text: str) -> str:
    """Return a text as a page shows it."""
    return re.sub(r"[\u202e\u2066]", "\ufffd", text)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None
    with Browser(CHROMIUM) as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages that were written, by the names of their models."""
    folder = tmp_path_factory.mktemp("pages")
    written = {}
    for name, make in MODELS.items():
        model = folder / f"{name}.onnx"
        onnx.save(make(), model)
        shown = jax2onnx.view(model, open=False, source_roots=[ROOT, FOREIGN])
        written[name] = folder / f"{name}.html"
        shown.save(written[name])
    return written


def open_page(browser: Browser, path: Path) -> Opened:
    page = browser.page()
    page.goto(path.as_uri())
    return Opened(page, path.as_uri(), page.evaluate("jax2onnxView.data"))


@pytest.fixture
def opened(
    request: pytest.FixtureRequest, browser: Browser, pages: dict[str, Path]
) -> Iterator[Opened]:
    opened = open_page(browser, pages[request.param])
    yield opened
    opened.page.settle()
    opened.page.close()
    assert opened.page.errors == []
    assert {url.partition("#")[0] for url in opened.page.requests} == {opened.url}


each_model = pytest.mark.parametrize("opened", MODELS, indirect=True)


@needs_chromium
@each_model
def test_a_click_on_a_line_highlights_its_nodes(opened: Opened) -> None:
    lines = opened.lines()
    assert lines
    for (path, line), (own, fused) in sorted(lines.items()):
        quoted = json.dumps(path, ensure_ascii=False)
        opened.page.click(f'[data-file={quoted}][data-line="{line}"]')
        assert opened.linked("node") == own, (path, line)
        assert opened.linked("fused") == fused, (path, line)
        assert opened.linked("line") == {str(line)}


@needs_chromium
@each_model
def test_a_click_on_a_node_highlights_its_lines(opened: Opened) -> None:
    data = opened.data
    lines = opened.lines()
    for number in range(0, len(data["nodes"]), max(1, len(data["nodes"]) // 12)):
        name, op, *_ = data["nodes"][number]
        # The search, or a link, opens the boxes around a node.
        opened.page.evaluate(f"jax2onnxView.select({{kind: 'node', node: {number}, item: null}})")
        opened.page.settle()
        opened.page.evaluate("jax2onnxView.select(null)")
        opened.page.settle()
        opened.page.click(f'[data-index="{number}"]')
        assert name in opened.linked("node")
        expected = {str(line) for (_, line), found in lines.items() if name in found[0] | found[1]}
        assert opened.linked("line") == expected, name
        assert clean(name) in opened.details()
        assert clean(op) in opened.details()


@needs_chromium
@pytest.mark.parametrize("opened", ["cnn"], indirect=True)
def test_the_expression_of_a_node_is_underlined(opened: Opened) -> None:
    number = next(i for i, node in enumerate(opened.data["nodes"]) if node[1] == "Softmax")
    opened.page.click(f'[data-index="{number}"]')
    underlined = opened.page.evaluate(
        "[...document.querySelectorAll('.pane.source .expression')]"
        ".map(e => e.textContent).join('')"
    )
    assert underlined == "jax.nn.softmax(logits, axis=-1)"


@needs_chromium
@pytest.mark.parametrize("opened", ["cnn"], indirect=True)
def test_a_line_that_became_nothing_says_why(opened: Opened) -> None:
    words = opened.page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.nothing')]"
        ".map(e => [e.parentElement.querySelector('code').textContent.trim(), e.textContent]))"
    )
    assert words["batch = x.shape[0]"] == "shape only"
    assert words["unused = jnp.exp(x)  # noqa: F841 - the page says that it is dead"] == "dead"


@needs_chromium
@pytest.mark.parametrize("opened", ["gpt2"], indirect=True)
def test_the_search_finds_nodes_lines_weights_operators_and_shapes(opened: Opened) -> None:
    for query, kind, marker in [
        ("blocks.7/mlp/up/dot_general", "Nodes", "#node="),
        ("attention", "Operators", "#op=Attention"),
        ("jnp.split", "Lines", "#line="),
        ("blocks.3.mlp.up.kernel", "Weights", "#weight="),
        ("i32[1,16]", "Shapes", "#shape="),
    ]:
        opened.page.press("/")
        opened.page.type(query)
        found = opened.page.evaluate(
            "[...document.querySelectorAll('#results > li')]"
            ".map(e => e.className + ' ' + e.innerText)"
        )
        assert any(kind in row for row in found), (query, found)
        first = next(
            index for index, row in enumerate(found) if row.startswith("kind") and kind in row
        )
        before = sum(row.startswith("hit") for row in found[:first])
        opened.page.press(*["ArrowDown"] * before, "Enter")
        assert opened.hash().startswith(marker), query
        assert opened.linked("node"), query


@needs_chromium
@pytest.mark.parametrize("opened", ["loops"], indirect=True)
def test_the_keyboard_follows_edges_and_opens_boxes(opened: Opened) -> None:
    data, page = opened.data, opened.page
    producer = {value: node for node, row in enumerate(data["nodes"]) for value in row[4]}
    last = producer[data["graphs"][0]["outputs"][0]]
    page.evaluate(f"jax2onnxView.select({{kind: 'node', node: {last}, item: null}})")
    page.press("ArrowUp")
    selected = page.evaluate("document.querySelector('.is-selected').dataset.index")
    assert int(selected) in {producer.get(value) for value in data["nodes"][last][3]}
    page.press("ArrowDown")
    assert opened.hash().startswith(f"#node={data['nodes'][last][0]}")
    loop = next(node for node, row in enumerate(data["nodes"]) if row[1] == "Scan")
    page.evaluate(f"jax2onnxView.select({{kind: 'node', node: {loop}, item: null}})")
    page.settle()
    is_open = f"document.querySelector('[data-index=\"{loop}\"]').getAttribute('aria-expanded')"
    before = page.evaluate(is_open)
    page.press("o")
    assert page.evaluate(is_open) != before
    page.press("o")
    assert page.evaluate(is_open) == before
    page.press("?")
    assert page.evaluate("document.querySelector('dialog.help').open")
    page.press("Escape")
    page.press("Escape")
    assert not opened.linked("node")


@needs_chromium
@pytest.mark.parametrize("opened", ["gpt2"], indirect=True)
def test_an_address_shows_the_same_view_again(opened: Opened, browser: Browser) -> None:
    (path, line), (own, _) = next(entry for entry in sorted(opened.lines().items()) if entry[1][0])
    opened.page.click(f'[data-file="{path}"][data-line="{line}"]')
    first = opened.page.evaluate("location.hash")
    other = next(i for i, node in enumerate(opened.data["nodes"]) if node[1] == "Attention")
    opened.page.evaluate(f"jax2onnxView.select({{kind: 'node', node: {other}, item: null}})")
    opened.page.settle()
    name = opened.data["nodes"][other][0]
    assert opened.linked("node") == {name}
    opened.page.evaluate("history.back()")
    opened.page.wait(f"location.hash === {json.dumps(first)}")
    opened.page.settle()
    assert opened.linked("line") == {str(line)}
    assert opened.linked("node") == own
    opened.page.evaluate("history.forward()")
    opened.page.wait(f"location.hash !== {json.dumps(first)}")
    opened.page.settle()
    assert opened.linked("node") == {name}
    # A link that somebody else opens.
    page = browser.page()
    page.goto(opened.url + first)
    again = Opened(page, opened.url, opened.data)
    assert again.linked("node") == own
    page.close()


@needs_chromium
@pytest.mark.parametrize("opened", ["cnn"], indirect=True)
def test_light_and_dark_have_enough_contrast(opened: Opened) -> None:
    backgrounds = set()
    for scheme in ("light", "dark"):
        opened.page.set_scheme(scheme)
        opened.page.click('[data-line="19"]' if scheme == "light" else '[data-line="20"]')
        backgrounds.add(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert opened.page.evaluate(LOW_CONTRAST) == [], scheme
    assert len(backgrounds) == 2


#: Lists texts with a contrast below 4.5 to what is behind them.
LOW_CONTRAST = """(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = color => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = ([r, g, b, a], below) =>
    [r, g, b].map((channel, at) => channel * a / 255 + below[at] * (1 - a / 255));
  const light = rgb => {
    const linear = c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = rgb.map(c => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    const isDrawn = element.closest("svg, script, noscript, dialog");
    if (!text || isDrawn || !element.checkVisibility()) continue;
    const layers = [];
    for (let at = element; at; at = at.parentElement)
      layers.push(rgba(getComputedStyle(at).backgroundColor));
    const back = layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
    const front = over(rgba(getComputedStyle(element).color), back);
    const [low, high] = [light(front), light(back)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) found.add(`${element.className}: ${ratio.toFixed(2)}`);
  }
  return [...found];
})()"""


@needs_chromium
@pytest.mark.parametrize("opened", ["hostile"], indirect=True)
def test_a_hostile_model_runs_nothing_in_its_page(opened: Opened) -> None:
    page = opened.page
    for number in range(len(opened.data["nodes"])):
        page.evaluate(f"jax2onnxView.select({{kind: 'node', node: {number}, item: null}})")
        page.settle()
    page.press("/")
    page.type("owned")
    assert page.evaluate("document.querySelectorAll('.hit').length") > 0
    page.press("Enter")
    assert page.evaluate("window.owned") is None
    # Everything that the page made is one of these.
    tags = page.evaluate(
        "[...new Set([...document.body.querySelectorAll('*')].map(e => e.tagName))]"
    )
    assert not {"IMG", "A", "IFRAME", "OBJECT", "EMBED", "LINK", "BASE", "FORM"} & set(tags)
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    # The policy would stop a script that came to be there anyhow.
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'),"
        " {textContent: 'window.owned = 1'}))"
    )
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"owned=1\">')"
    )
    page.settle()
    assert page.evaluate("window.owned") is None
    assert any("Content Security Policy" in error for error in page.errors), page.errors
    page.errors.clear()
    page.requests[:] = [url for url in page.requests if url.endswith(".html")]


@needs_chromium
def test_lines_that_run_on_another_provider_have_a_badge(browser: Browser, tmp_path: Path) -> None:
    """The recorded run of `tools/profiles.py` on two devices."""
    folder = ROOT / "crates" / "inspect" / "tests" / "profiles"
    shown = jax2onnx.view(
        folder / "devices.onnx",
        open=False,
        profile=folder / "devices.json",
        source_roots=[ROOT],
    )
    shown.save(tmp_path / "devices.html")
    opened = open_page(browser, tmp_path / "devices.html")
    badges = opened.page.evaluate(
        "[...document.querySelectorAll('.line > .placed')]"
        ".map(badge => [badge.parentElement.dataset.line, badge.textContent])"
    )
    source = (ROOT / "tools" / "profiles.py").read_text().splitlines()
    found = {source[int(line) - 1].split("=")[0].strip(): badge for line, badge in badges}
    assert found == {
        "ranked": "CPU · 2 copies",
        "order": "CPU · 2 copies",
        "known": "CPU · 1 copy",
        "last, sums": "CPU · 3 copies",
    }
    assert "4 lines run on the CPU and cost 8 copies" in opened.details()
    opened.page.click(f'[data-line="{badges[0][0]}"]')
    assert "CPUExecutionProvider" in opened.details()
    assert "copies add, f32[8,8], to the CPU, 3 times in each run" in opened.details()
    node = next(at for at, node in enumerate(opened.data["nodes"]) if node[1] == "MatMul")
    opened.page.evaluate(f"jax2onnxView.select({{kind: 'node', node: {node}, item: null}})")
    opened.page.settle()
    assert "WebGpuExecutionProvider" in opened.details()
    assert opened.page.errors == []
    opened.page.close()


@needs_chromium
def test_a_notebook_shows_the_page_in_a_frame(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    shown = jax2onnx.view(pages["cnn"].with_suffix(".onnx"), open=False)
    notebook = tmp_path / "notebook.html"
    ready = "<script>document.documentElement.dataset.ready = true</script>"
    notebook.write_text(f"<!doctype html><body>{shown._repr_html_()}{ready}")
    page = browser.page()
    page.goto(notebook.as_uri())
    assert 'sandbox="allow-scripts"' in shown._repr_html_()
    # The frame is of another origin, so its script runs in a context of its own.
    is_shown = "document.documentElement.dataset.ready === 'true' && !!globalThis.jax2onnxView"
    count = len(onnx.load(pages["cnn"].with_suffix(".onnx")).graph.node)
    assert page.in_frame(f"{is_shown} && document.querySelectorAll('[data-node]').length") == count
    page.settle()
    assert page.errors == []
    page.close()


def test_a_page_without_source_is_smaller(pages: dict[str, Path]) -> None:
    shown = jax2onnx.view(pages["cnn"].with_suffix(".onnx"), open=False, source=False)
    assert len(shown.html) < len(pages["cnn"].read_text())


def test_the_page_of_gpt2_is_small(pages: dict[str, Path]) -> None:
    shown = jax2onnx.view(pages["gpt2"].with_suffix(".onnx"), open=False, source=False)
    assert len(shown.html) < 3_000_000


def test_a_report_that_is_not_one_is_an_error(pages: dict[str, Path], tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    for text, why in [("[", "not JSON"), ("{}", "no list `rows`"), ('{"version": 7}', "version 7")]:
        report.write_text(text)
        with pytest.raises(jax2onnx.ConfigError, match=why):
            jax2onnx.view(pages["cnn"].with_suffix(".onnx"), open=False, compare=report)
