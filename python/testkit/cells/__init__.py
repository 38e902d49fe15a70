"""Recurrent cells as people write them by hand, and near misses.

Each is a function of a sequence (time, batch, features), or of more arguments where `inputs` says
so.
"""

from __future__ import annotations

from . import gru, lstm, others
from .base import (
    B1,
    CELLS,
    DEPTH,
    LENGTHS,
    SIZE,
    STEPS,
    U1,
    W1,
    Cell,
    gru_step,
    sequence,
    zeros,
)

__all__ = [
    "B1",
    "CELLS",
    "DEPTH",
    "LENGTHS",
    "SIZE",
    "STEPS",
    "U1",
    "W1",
    "Cell",
    "gru",
    "gru_step",
    "lstm",
    "others",
    "sequence",
    "zeros",
]
