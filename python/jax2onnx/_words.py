"""Phrases that several messages share."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], before: str = "") -> str:
    """Return `before` and a question with the nearest names; an empty text if no name is near."""
    found = difflib.get_close_matches(name, list(known), n=3)
    return f"{before}did you mean {' or '.join(f'`{near}`' for near in found)}?" if found else ""
