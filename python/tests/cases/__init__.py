"""End-to-end cases, one table a family, one `Case` a use."""

from __future__ import annotations

import importlib
import pkgutil

from .case import Case, Limit

__all__ = ["Case", "Limit", "all_cases"]


def all_cases() -> list[Case]:
    """Every case of every family, in a fixed order."""
    families = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in families]
    cases = [case for module in modules for case in getattr(module, "CASES", [])]
    names = [case.name for case in cases]
    repeated = {name for name in names if names.count(name) > 1}
    assert not repeated, f"two cases have one name: {sorted(repeated)}"
    return cases
