"""Tables of generated pages, which readers filter and unfold on the site.

`docs/assets/tables.js` adds a search field to a filterable part. On GitHub, tables are complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: str = "") -> str:
    """Returns a table. `right` names the columns of numbers, separated by commas."""
    numbers = set(right.split(","))
    rules = ["---:" if name in numbers else "---" for name in columns]
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in (columns, rules, *rows))


def folded(title: str, text: str) -> str:
    """Returns a part of a page that is closed until the reader opens it."""
    return f"<details markdown>\n<summary>{title}</summary>\n\n{text}\n</details>\n"


def filterable(what: str, text: str) -> str:
    """Returns a part of a page whose rows the reader can filter. `what` says what they are."""
    return f'<div class="filterable" data-what="{what}" markdown>\n\n{text}\n</div>\n'


def plain(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
