"""Choose which tests run: all of them, or a sample that changes with the commit.

`make test` runs one of every `SAMPLE` parameters of each test, and passes the commit as the seed.
Later commits therefore run other parameters. `make test-all` runs everything.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

SEED = os.environ.get("JAX2ONNX_TEST_SEED", "")
#: One of so many is chosen; `pytest --sample N` sets it.
sample = int(os.environ.get("JAX2ONNX_TEST_SAMPLE", "1"))


def rank(name: str) -> int:
    """A number that depends on the name and the seed alone, in every process."""
    return int.from_bytes(hashlib.sha256(f"{SEED} {name}".encode()).digest()[:8])


def is_chosen(name: str) -> bool:
    """Return whether the sample contains something that may be left out altogether."""
    return rank(name) % sample == 0


def some_of(names: Iterable[str]) -> set[str]:
    """One of every `sample` names, and at least one."""
    ranked = sorted(names, key=rank)
    return set(ranked[: -(-len(ranked) // sample)])
