"""Pages that show what each line loses in a shorter type."""

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
from flax import nnx

import jax2onnx
from testkit.browser import Browser

from .conftest import Pages, close, needs_chromium, open_page

RANDOM = np.random.default_rng(0)
UP = RANDOM.standard_normal((16, 32)).astype(np.float32)
X = RANDOM.standard_normal((8, 16)).astype(np.float32)


def network(x: Any) -> Any:
    hidden = jax.nn.silu(x @ UP)
    energy = (hidden * 100) ** 2
    share = energy / energy.sum(-1, keepdims=True)

    def step(total: Any, row: Any) -> tuple[Any, Any]:
        total = total * 0.5 + row
        return total, jnp.tanh(total)

    return jax.lax.scan(step, jnp.zeros(32), share)[1]


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return jax2onnx.to_onnx(network, [(8, 16)], provenance="indexed")


@pytest.fixture(scope="module")
def result(model: onnx.ModelProto) -> jax2onnx.Sensitivity:
    return jax2onnx.sensitivity(model, [X], to="float16", source_roots=[Path(__file__).parent])


@needs_chromium
def test_a_page_with_sensitivities_opens_at_the_line_that_loses_most(
    browser: Browser, pages: Pages, model: onnx.ModelProto, result: jax2onnx.Sensitivity
) -> None:
    shown = jax2onnx.view(
        model, open=False, sensitivity=result, source_roots=[Path(__file__).parents[3]]
    )
    path = pages.folder / "precision.html"
    shown.save(path)
    first = result.first
    assert first is not None
    assert first.error == np.inf
    opened = open_page(browser, path, width=1700)
    page = opened.page
    assert opened.linked("line") == {str(first.line)}
    answer = page.evaluate("document.querySelector('.top .answer').textContent")
    assert f"in float16, test_view_precision.py:{first.line} makes" in answer
    assert first.why in opened.details()
    cells = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.line')].map(e => [e.dataset.line,"
        " e.querySelector('.metric.loss').textContent]).filter(([, text]) => text))"
    )
    assert cells.keys() == {str(line.line) for line in result.lines}
    assert cells[str(first.line)] == "∞"
    assert any(text.endswith(" %") for text in cells.values())
    colors = {
        row[0]: page.evaluate(
            f"document.querySelector('[data-node=\"{row[0]}\"]')?.getAttribute('class') ?? ''"
        )
        for row in opened.data["nodes"]
        if row[1] != "Scan"
    }
    assert "heat-0" in colors[first.nodes[0]]
    # A node that only moves elements is not rounded.
    rounded = {name for line in result.lines for name in line.nodes}
    assert rounded <= set(colors)
    assert all("heat-none" in colors[name] for name in set(colors) - rounded if colors[name])
    legend = page.evaluate("document.querySelector('.legend').textContent")
    assert legend == "≥ 100 % of an output≥ 10 %≥ 1 %≥ 0.1 %< 0.1 %not rounded"
    close(opened)


def test_the_data_of_a_page_contains_the_losses_of_lines_in_loops(
    tmp_path: Path, model: onnx.ModelProto, result: jax2onnx.Sensitivity
) -> None:
    onnx.save(model, tmp_path / "model.onnx")
    (tmp_path / "report.json").write_text(json.dumps(result.to_json()))

    def view(form: str) -> Any:
        command = [sys.executable, "-m", "jax2onnx", "view", "model.onnx", "--format", form]
        command += ["--sensitivity", "report.json"]
        return json.loads(subprocess.run(command, cwd=tmp_path, check=True, stdout=-1).stdout)

    data = view("json")["sensitivity"]
    assert data["to"] == "float16"
    assert {row["line"] for row in data["lines"]} == {line.line for line in result.lines}
    assert data["lines"][0]["error"] is None
    nodes = {row["node"] for row in data["nodes"]}
    assert len(nodes) == sum(len(line.nodes) for line in result.lines)
    assert view("model-explorer")["name"] == "jax2onnx: loss"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[", "`jax2onnx sensitivity`: it is not JSON"),
        ('{"rows": []}', "`jax2onnx sensitivity`: it has no `lines`"),
        ('{"lines": []}', "`jax2onnx sensitivity`: it has no `to`"),
        ('{"version": 3}', "version 3"),
    ],
)
def test_a_report_without_sensitivities_is_an_error(
    tmp_path: Path, model: onnx.ModelProto, text: str, why: str
) -> None:
    report = tmp_path / "report.json"
    report.write_text(text)
    with pytest.raises(jax2onnx.ConfigError, match=why):
        jax2onnx.view(model, open=False, sensitivity=report)


def test_a_line_that_several_layers_share_shows_its_largest_loss(tmp_path: Path) -> None:
    rngs = nnx.Rngs(0)
    layers = nnx.Sequential(nnx.Linear(16, 16, rngs=rngs), nnx.Linear(16, 16, rngs=rngs))
    onnx.save(jax2onnx.to_onnx(layers, [(8, 16)], provenance="indexed"), tmp_path / "model.onnx")
    report = jax2onnx.sensitivity(tmp_path / "model.onnx", [X], to="bfloat16").to_json()
    (tmp_path / "report.json").write_text(json.dumps(report))
    command = [sys.executable, "-m", "jax2onnx", "view", "model.onnx", "--format", "json"]
    command += ["--sensitivity", "report.json"]
    shown = subprocess.run(command, cwd=tmp_path, check=True, stdout=-1).stdout
    rows = json.loads(shown)["sensitivity"]["lines"]
    losses: dict[int, float] = {}
    for line in report["lines"]:
        losses[line["line"]] = max(line["error"], losses.get(line["line"], 0.0))
    assert len(report["lines"]) > len(losses)
    assert {row["line"]: row["error"] for row in rows} == losses
    assert len(rows) == len(losses)
