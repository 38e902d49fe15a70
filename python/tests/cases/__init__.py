"""End-to-end cases, one table a family, one `Case` a use."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from .case import Case, Limit

__all__ = ["Case", "Limit", "all_cases", "all_limits"]


def all_cases() -> list[Case]:
    """Every case of every family, in a fixed order."""
    cases: list[Case] = _entries("CASES")
    names = [case.name for case in cases]
    repeated = {name for name in names if names.count(name) > 1}
    assert not repeated, f"two cases have one name: {sorted(repeated)}"
    return cases


def all_limits() -> list[Limit]:
    """Every use that is refused, of every family."""
    return _entries("LIMITS")


def _entries(table: str) -> list[Any]:
    families = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in families]
    return [entry for module in modules for entry in getattr(module, table, [])]
