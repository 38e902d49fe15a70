"""End-to-end cases, one table a family, one `Case` a use."""

from __future__ import annotations

import importlib
import pkgutil

from .case import Case, Limit

__all__ = ["Case", "Limit", "all_cases", "families"]


def families() -> dict[str, list[Case]]:
    """The cases of each family, in a fixed order."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    return {name: module.CASES for name, module in modules.items() if hasattr(module, "CASES")}


def all_cases() -> list[Case]:
    """Every case of every family, in a fixed order."""
    cases = [case for family in families().values() for case in family]
    names = [case.name for case in cases]
    repeated = {name for name in names if names.count(name) > 1}
    assert not repeated, f"two cases have one name: {sorted(repeated)}"
    return cases
