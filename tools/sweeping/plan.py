"""Which sets of arguments a function is tried with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .guess import guesses
from .listed import LISTED
from .sets import ArgumentSet
from .tables import TABLE, TOLERANCES


def is_tried(name: str, function: Callable[..., Any]) -> bool:
    """True if there is any set of arguments for the function."""
    return name in TABLE or next(guesses(function), None) is not None


def sets_of(name: str, function: Callable[..., Any]) -> list[ArgumentSet]:
    """Returns the sets of the tables, or the guessed ones if the tables have none."""
    if name in LISTED:
        return []
    sets = list(TABLE[name]) if name in TABLE else list(guesses(function))
    if name in TOLERANCES:
        sets = [one.near(*TOLERANCES[name]) for one in sets]
    return sets
