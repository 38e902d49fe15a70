"""Whether each value of a model holds the variable of the jaxpr that it is paired with.

`jaxpr.py` runs a jaxpr equation by equation, `graph.py` runs a model node by node, and `check.py`
compares what both computed, in loops, branches and functions too.
"""

from __future__ import annotations

from .check import Checked, check

__all__ = ["Checked", "check"]
