"""Phrases that several messages share, and text from files in messages."""

from collections.abc import Iterable

from . import _core


def did_you_mean(name: str, known: Iterable[str], before: str = "") -> str:
    """Return `before` and a question with the nearest names; an empty text if no name is near."""
    import difflib

    others = [other for other in known if other != name]
    found = difflib.get_close_matches(name, others, n=3)
    return f"{before}did you mean {' or '.join(map(quoted, found))}?" if found else ""


def counted(count: int, noun: str) -> str:
    """Return a number of things: `1 input`, `2 inputs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def quoted(name: object) -> str:
    """Return a name from a file in backquotes, as one line of printable characters."""
    text = str(name)
    # The names of all modules of a program are quoted before a file is replaced.
    is_clean = text.isascii() and text.isprintable()
    return f"`{text if is_clean else _core.clean(text)}`"


def lines(parts: Iterable[str]) -> str:
    """Join lines. A line end inside of a line, which comes from a file, is replaced."""
    return "\n".join(map(_core.clean, parts))
