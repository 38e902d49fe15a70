"""Lines of functions that tests contain."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def line_of(fn: Callable[..., Any], text: str) -> int:
    """Return the number of the only line of a function that contains a text."""
    lines, first = inspect.getsourcelines(fn)
    (found,) = (number for number, line in enumerate(lines, first) if text in line)
    return found
