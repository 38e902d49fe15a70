"""Pages that show operations, bytes and memory for the sizes that the reader chooses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

import jax2onnx
from testkit.browser import Browser

from .conftest import Opened, Pages, close, needs_chromium, open_page

PROJECT = np.linspace(-1, 1, 64 * 192, dtype=np.float32).reshape(64, 192)
RECUR = np.linspace(-0.1, 0.1, 64 * 64, dtype=np.float32).reshape(64, 64)
SOURCES = [Path(__file__).parents[3]]


def attend(x: Any) -> Any:
    q, k, v = jnp.split(x @ PROJECT, 3, axis=-1)
    scores = q @ k.swapaxes(-1, -2) / 8
    return jax.nn.softmax(scores) @ v


def step(state: Any, x: Any) -> tuple[Any, None]:
    return jnp.tanh(state @ RECUR + x), None


def reader(x: Any) -> Any:
    x = attend(x)
    return jax.lax.scan(step, jnp.zeros_like(x[:, 0]), x.swapaxes(0, 1))[0]


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return jax2onnx.to_onnx(reader, [("B", "T", 64)], provenance="indexed")


def costs(page: Any) -> dict[str, Any]:
    """The costs in the page: of the model, of each line, and at the peak."""
    found: dict[str, Any] = page.evaluate("""(() => {
        const {model} = jax2onnxView, {cost} = model;
        const lines = [...model.lines.values()];
        const of = (has, value) => Object.fromEntries(
            lines.filter(has).map(line => [line.line, value(line)])
        );
        return {
            operations: cost.total(cost.operations),
            moved: cost.total(cost.moved),
            peak: cost.most(),
            lines: of(it => it.operations || it.moved, it => [it.operations, it.moved]),
            held: of(it => it.held, it => it.held),
        };
    })()""")
    return found


def check(page: Any, model: onnx.ModelProto, **sizes: int) -> None:
    """Compare the page with `jax2onnx.cost`."""
    shown, counted = costs(page), jax2onnx.cost(model, sizes)

    def computed(row: Any) -> int:
        return int(row.flops + row.transcendentals + row.operations)

    def moved(row: Any) -> int:
        return int(row.bytes_read + row.bytes_written)

    assert shown["operations"] == computed(counted.total)
    assert shown["moved"] == moved(counted.total)
    assert shown["lines"] == {str(row.line): [computed(row), moved(row)] for row in counted.lines}
    assert shown["peak"] == counted.peak.bytes
    assert sum(shown["held"].values()) <= shown["peak"]
    assert shown["held"].keys() <= {str(line.line) for line in counted.peak.lines}


@pytest.fixture
def opened(browser: Browser, pages: Pages, model: onnx.ModelProto) -> Any:
    path = pages.folder / "cost.html"
    sizes = {"B": 8, "T": 128}
    jax2onnx.view(model, open=False, cost=sizes, source_roots=SOURCES).save(path)
    opened = open_page(browser, path, width=1400)
    yield opened
    close(opened)


@needs_chromium
def test_the_costs_of_a_page_are_those_of_cost_for_all_sizes(
    opened: Opened, model: onnx.ModelProto
) -> None:
    page = opened.page
    check(page, model, B=8, T=128)
    for size, name in [(3, "B"), (700, "T")]:
        page.evaluate(f"""(() => {{
            const input = document.querySelector('[data-size="{name}"]');
            input.value = {size};
            input.dispatchEvent(new Event('change'));
        }})()""")
    check(page, model, B=3, T=700)
    page.evaluate("""(() => {
        const slider = document.querySelector('[data-slider="T"]');
        slider.value = 16;
        slider.dispatchEvent(new Event('input'));
    })()""")
    assert page.evaluate("document.querySelector('[data-size=\"T\"]').value") == "4"
    check(page, model, B=3, T=4)


@needs_chromium
def test_the_gutter_and_the_colors_follow_a_slider(opened: Opened) -> None:
    page = opened.page
    line = attend.__code__.co_firstlineno + 1

    def cell(metric: str) -> Any:
        found = f".line[data-line='{line}'] .metric.{metric}"
        return page.evaluate(f'document.querySelector("{found}").textContent')

    assert cell("operations") == "25.2 M"
    assert page.evaluate("document.querySelector('.menu').value") == "operations"
    sums = "document.querySelector('.costs .sums').textContent"
    before = page.evaluate(sums)
    assert "operations" in before
    assert "peak" in before
    page.evaluate("""(() => {
        const slider = document.querySelector('[data-slider="B"]');
        slider.value = 0;
        slider.dispatchEvent(new Event('input'));
    })()""")
    assert cell("operations") == "3.15 M"
    assert page.evaluate(sums) != before
    legend = "document.querySelector('.legend').textContent"
    assert "of the operations" in page.evaluate(legend)
    page.evaluate("""(() => {
        const menu = document.querySelector('.menu');
        menu.value = 'memory';
        menu.dispatchEvent(new Event('change'));
    })()""")
    assert "of the peak" in page.evaluate(legend)


@needs_chromium
def test_a_click_on_the_curve_leads_to_the_line_and_the_node(opened: Opened) -> None:
    page = opened.page
    steps = page.evaluate("jax2onnxView.model.cost.curve.map(moment => moment.node)")
    assert len(steps) > 4
    for step in (0, len(steps) // 2, len(steps) - 1):
        page.evaluate(f"""(() => {{
            const plot = document.querySelector('.costs .plot');
            const {{left, width, top}} = plot.getBoundingClientRect();
            const clientX = left + width * ({step} + 0.5) / {len(steps)};
            const place = {{clientX, clientY: top + 5, bubbles: true}};
            plot.dispatchEvent(new MouseEvent('click', place));
        }})()""")
        row = opened.data["nodes"][steps[step]]
        assert row[0] in opened.details()
        assert opened.linked("line")
    # The keyboard does the same.
    page.evaluate("""(() => {
        const plot = document.querySelector('.costs .plot');
        for (const key of ['Home', 'ArrowRight', 'Enter'])
            plot.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    })()""")
    assert opened.data["nodes"][steps[1]][0] in opened.details()


def test_the_command_adds_costs_and_refuses_unknown_sizes(
    tmp_path: Path, model: onnx.ModelProto
) -> None:
    onnx.save(model, tmp_path / "model.onnx")

    def view(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "jax2onnx", "view", "model.onnx", "--format", "json"]
        return subprocess.run(
            [*command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    assert json.loads(view().stdout)["cost"] is None
    data = json.loads(view("--cost", "--size", "B=8").stdout)["cost"]
    assert data["symbols"] == [{"name": "B", "size": 8}, {"name": "T", "size": None}]
    assert len(data["nodes"]) == len(json.loads(view().stdout)["nodes"])
    assert "the model has no size `C`" in view("--cost", "--size", "C=8").stderr
    with pytest.raises(jax2onnx.ConfigError, match="no size `C`"):
        jax2onnx.view(model, open=False, cost={"C": 8})
