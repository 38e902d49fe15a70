"""End-to-end cases, one table a family, one `Case` a use."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jax

from .case import Case, Limit

__all__ = [
    "HAS_JAX_OF_TABLE",
    "Case",
    "Limit",
    "all_cases",
    "all_limits",
    "families",
    "is_lacking",
]

REQUIREMENTS = Path(__file__).parents[3] / "requirements-dev.txt"
#: Whether this is the JAX of the table of primitives. Others have other names for some, and write
#: some functions with other primitives.
HAS_JAX_OF_TABLE = f"jax=={jax.__version__}" in REQUIREMENTS.read_text().splitlines()


def is_lacking(error: Exception) -> bool:
    """Return whether an error says that another JAX than that of the table lacks something."""
    lacking = re.search("^module 'jax|unexpected keyword argument", str(error))
    return lacking is not None and not HAS_JAX_OF_TABLE


def families() -> dict[str, list[Case]]:
    """The cases of each family, in a fixed order."""
    return _tables("CASES")


def all_cases() -> list[Case]:
    """Every case of every family, in a fixed order."""
    cases = [case for family in families().values() for case in family]
    names = Counter(case.name for case in cases)
    repeated = {name for name, count in names.items() if count > 1}
    assert not repeated, f"two cases have one name: {sorted(repeated)}"
    return cases


def all_limits() -> list[Limit]:
    """Every use that is refused, of every family."""
    return [limit for family in _tables("LIMITS").values() for limit in family]


def _tables(table: str) -> dict[str, list[Any]]:
    """The table of that name, of each family that has one."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    return {
        name: getattr(module, table) for name, module in modules.items() if hasattr(module, table)
    }
