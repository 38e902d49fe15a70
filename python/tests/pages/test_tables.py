"""The tables of the documentation that readers filter, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
import tables

from testkit import ROOT
from testkit.browser import Browser, find_chromium

CHROMIUM = find_chromium()
#: The HTML of a folded table, a list of names, and a table after a heading.
PAGE = """<!doctype html><html data-ready="true"><meta charset="utf-8"><body>
<div class="filterable" data-what="layers">
<details id="norms"><summary>Norms</summary><table><thead><tr><th>Layer</th></tr></thead><tbody>
<tr><td>LayerNorm</td></tr><tr><td>RMSNorm</td></tr></tbody></table></details>
<details id="names"><summary>Names</summary>
<p class="names"><code>norm</code>, <code>sort</code></p></details>
<h2 id="rest">Rest</h2><table><tbody><tr><td>Pool, Max</td></tr></tbody></table></div>
<style>[hidden] { display: none; }</style><script src="SCRIPT"></script></body></html>"""
SHOWN = (
    "[...document.querySelectorAll('td, code')]"
    ".filter(it => it.checkVisibility()).map(it => it.textContent)"
)
STATE = "[norms.open, names.open, rest.hidden, document.querySelector('.filter span').textContent]"


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_filter_shows_the_rows_and_names_that_contain_all_words(tmp_path: Path) -> None:
    script = (ROOT / "docs" / "assets" / "tables.js").as_uri()
    file = tmp_path / "page.html"
    file.write_text(PAGE.replace("SCRIPT", script))
    with Browser(CHROMIUM or "") as browser:
        page = browser.page(900, 700)
        page.goto(file.as_uri())

        def typed(text: str) -> tuple[object, object]:
            page.evaluate(
                f"field = document.querySelector('.filter input'); field.value = {text!r};"
                "field.dispatchEvent(new Event('input'))"
            )
            return page.evaluate(SHOWN), page.evaluate(STATE)

        assert typed("") == (["Pool, Max"], [False, False, False, ""])
        assert typed("NORM") == (
            ["LayerNorm", "RMSNorm", "norm"],
            [True, True, True, "3 of 5"],
        )
        assert typed("norm layer") == (["LayerNorm"], [True, False, True, "1 of 5"])
        assert typed("max pool") == (["Pool, Max"], [False, False, False, "1 of 5"])
        assert typed("nothing") == ([], [False, False, True, "0 of 5"])
        assert typed("") == (["Pool, Max"], [False, False, False, ""])
        assert page.errors == []


def test_a_table_has_a_rule_for_each_column() -> None:
    text = tables.table(("Layer", "Nodes"), [("a", 1)], right="Nodes")
    assert text == "| Layer | Nodes |\n| --- | ---: |\n| a | 1 |\n"
    assert "<summary>Norms</summary>\n\n| Layer" in tables.folded("Norms", text)
