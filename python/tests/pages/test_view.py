"""The pages of `jax2onnx view` in a browser: links, search, keyboard, hostile contents."""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest

import jax2onnx
from testkit.browser import Browser

from .conftest import Opened, Pages, needs_chromium

#: The models whose lines and nodes are clicked one by one.
MODELS = ("gpt2", "cnn", "loops", "functions", "torch", "hostile")


def clean(text: str) -> str:
    """Return a text as a page shows it."""
    return re.sub(r"[\u202e\u2066]", "\ufffd", text)


each_model = pytest.mark.parametrize("opened", MODELS, indirect=True)


@needs_chromium
@each_model
def test_a_click_on_a_line_highlights_its_nodes(opened: Opened) -> None:
    lines = opened.lines()
    assert lines
    for (path, line), (own, fused) in sorted(lines.items()):
        quoted = json.dumps(path, ensure_ascii=False)
        opened.page.click(f'[data-file={quoted}][data-line="{line}"]')
        # A closed box is linked if it contains a node of the line.
        assert own <= opened.linked("node") <= own | opened.closed(), (path, line)
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    below = page.evaluate("document.querySelector('.is-selected').dataset.index")
    assert int(selected) in {producer.get(value) for value in data["nodes"][int(below)][3]}
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
def test_a_notebook_shows_the_page_in_a_frame(
    browser: Browser, pages: Pages, tmp_path: Path
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


def test_a_page_without_source_is_smaller(pages: Pages) -> None:
    shown = jax2onnx.view(pages["cnn"].with_suffix(".onnx"), open=False, source=False)
    assert len(shown.html) < len(pages["cnn"].read_text())


@pytest.mark.slow
def test_the_page_of_gpt2_is_small(pages: Pages) -> None:
    shown = jax2onnx.view(pages["gpt2"].with_suffix(".onnx"), open=False, source=False)
    assert len(shown.html) < 3_000_000


def test_a_report_that_is_not_one_is_an_error(pages: Pages, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    for text, why in [("[", "not JSON"), ("{}", "no `rows`"), ('{"version": 7}', "version 7")]:
        report.write_text(text)
        with pytest.raises(jax2onnx.ConfigError, match=why):
            jax2onnx.view(pages["cnn"].with_suffix(".onnx"), open=False, compare=report)
