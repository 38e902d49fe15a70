"""Answers as HTML for notebooks: a sentence, the line with its excerpt, facts, and a table.

A notebook that is not trusted removes the style, so the markup alone is readable too. The colors
are those of the theme in JupyterLab and Visual Studio Code. Elsewhere, they fit light and dark
pages.
"""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from . import _core

_STYLE: Final = """
.jax2onnx { --ink: var(--jp-content-font-color1, var(--vscode-foreground, inherit));
  --rule: var(--jp-border-color2, var(--vscode-panel-border, #8885));
  --bad: var(--jp-error-color1, var(--vscode-errorForeground, #d7373f));
  --good: var(--jp-success-color1, var(--vscode-testing-iconPassed, #2b9348));
  --bar: var(--jp-brand-color1, var(--vscode-charts-blue, #3b82c4));
  --mono: var(--jp-code-font-family, var(--vscode-editor-font-family, ui-monospace, monospace));
  color: var(--ink); font-size: 13px; line-height: 1.5; max-width: 72em; padding: 4px 0; }
.jax2onnx p { margin: 0 0 6px; font-weight: 600; overflow-wrap: anywhere; }
.jax2onnx code { background: none; border: 0; padding: 0; color: inherit; font: inherit;
  font-family: var(--mono); font-size: 12px; }
.jax2onnx .good { color: var(--good); } .jax2onnx .bad { color: var(--bad); }
.jax2onnx pre { margin: 0 0 8px; padding: 6px 10px; border-left: 3px solid var(--rule);
  background: #8881; color: inherit; font: 12px/1.5 var(--mono); overflow-x: auto; }
.jax2onnx.wrong pre { border-left-color: var(--bad); }
.jax2onnx pre b { display: block; margin-bottom: 2px; }
.jax2onnx pre i { opacity: .6; font-style: normal; }
.jax2onnx ul { margin: 0 0 8px; padding-left: 18px; list-style: disc; }
.jax2onnx li { margin: 0; overflow-wrap: anywhere; }
.jax2onnx summary { cursor: pointer; opacity: .8; margin-bottom: 4px; }
.jax2onnx div { overflow-x: auto; }
.jax2onnx.jax2onnx div table { border-collapse: collapse; margin: 0; font-size: 12px;
  color: inherit; }
.jax2onnx.jax2onnx table tr:is(tr) { background: none; }
.jax2onnx.jax2onnx table tr :is(th, td) { padding: 3px 20px 3px 0; text-align: left;
  vertical-align: top; border: 0; border-bottom: 1px solid var(--rule); background: none;
  white-space: nowrap; max-width: none; }
.jax2onnx.jax2onnx table tr th { font-weight: 600; opacity: .7; }
.jax2onnx.jax2onnx table tr td { font-family: var(--mono); }
.jax2onnx.jax2onnx table tr td:last-child { white-space: normal; padding-right: 0; }
.jax2onnx.jax2onnx table tr .number { text-align: right; font-variant-numeric: tabular-nums; }
.jax2onnx s { display: inline-block; width: 64px; height: 8px; margin-left: 10px;
  background: #8883; border-radius: 2px; overflow: hidden; text-decoration: none; }
.jax2onnx s s { display: block; margin: 0; background: var(--bar); }
""".replace("\n", " ").strip()

_MARKS: Final = {
    True: '<span class="good">✓</span> ',
    False: '<span class="bad">✗</span> ',
    None: "",
}


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        header: The names of the columns.
        rows: The texts of each row.
        numbers: The positions of columns with numbers.
        meters: The position of a column that also shows a bar, and the share of each row.
        is_open: Whether to show the table at once.
        name: The text that opens the table.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    meters: tuple[int, Sequence[float]] | None = None
    is_open: bool = True
    name: str = ""

    def to_html(self) -> str:
        """Return the table as HTML."""
        header = "".join(
            f"<th{self._kind(column)}>{_text(name)}</th>" for column, name in enumerate(self.header)
        )
        rows = "".join(
            "<tr>" + "".join(self._cell(row, i, text) for i, text in enumerate(texts)) + "</tr>"
            for row, texts in enumerate(self.rows)
        )
        table = f"<div><table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table></div>"
        if not self.name:
            return table
        state = " open" if self.is_open else ""
        return f"<details{state}><summary>{_text(self.name)}</summary>{table}</details>"

    def _cell(self, row: int, column: int, text: str) -> str:
        meter = ""
        if self.meters is not None and self.meters[0] == column:
            share = 100 * min(max(self.meters[1][row], 0), 1)
            meter = f'<s><s style="width: {share:.0f}%"></s></s>'
        return f"<td{self._kind(column)}>{_text(text)}{meter}</td>"

    def _kind(self, column: int) -> str:
        return ' class="number"' if column in self.numbers else ""


def answer(
    sentence: str,
    *,
    is_right: bool | None = None,
    excerpt: str = "",
    facts: Iterable[str] = (),
    table: Table | None = None,
) -> str:
    """Return an answer as HTML.

    Args:
        sentence: The answer in one sentence.
        is_right: Whether the answer is good news; None if it is neither good nor bad.
        excerpt: The line of Python, as in error messages.
        facts: More sentences.
        table: The details.
    """
    parts = [f"<p>{_MARKS[is_right]}{_sentence(sentence)}</p>"]
    if excerpt:
        parts.append(_excerpt(excerpt))
    items = "".join(f"<li>{_sentence(fact)}</li>" for fact in facts)
    if items:
        parts.append(f"<ul>{items}</ul>")
    if table is not None and table.rows:
        parts.append(table.to_html())
    kind = "jax2onnx wrong" if is_right is False else "jax2onnx"
    return f'<div class="{kind}"><style>{_STYLE}</style>{"".join(parts)}</div>'


def _excerpt(excerpt: str) -> str:
    """Return the line of Python with its place above it."""
    first, *rest = excerpt.splitlines()
    shown = []
    for line in rest:
        gutter, bar, text = line.partition("|")
        if bar and text.strip():
            is_carets = not gutter.strip()
            kind = ' class="bad"' if is_carets else ""
            shown.append(f"<i>{_text(gutter + bar)}</i><span{kind}>{_text(text)}</span>")
    place = first.partition("-->")[2].strip() or first.strip()
    return f"<pre><b>{_text(place)}</b>" + "\n".join(shown) + "</pre>"


def _sentence(text: str) -> str:
    """Return a sentence as HTML, in which the text between backticks is code."""
    parts = _text(text).split("`")
    if len(parts) % 2 == 0:
        return "`".join(parts)
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def _text(text: str) -> str:
    """Return text as HTML, without characters that change how others are shown."""
    return html.escape(_core.clean(text))
