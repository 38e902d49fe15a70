"""A part of the grid that changes with the commit, so that all of it is seen over time."""

from __future__ import annotations

import os
import subprocess
import zlib
from pathlib import Path

from .functions import candidates
from .types import TYPES

#: Overrides the commit that the sample depends on.
VARIABLE = "JAX2ONNX_SAMPLE"


def cells(count: int) -> list[tuple[str, str]]:
    """Returns that many pairs of a function and a type, the same ones for the same commit."""
    seed = os.environ.get(VARIABLE) or _commit()
    every = [(name, kind) for name in candidates() for kind in TYPES]
    return sorted(sorted(every, key=lambda pair: _hash(seed, *pair))[:count])


def _hash(*parts: str) -> int:
    return zlib.crc32("\n".join(parts).encode())


def _commit() -> str:
    """Returns the commit of the working tree, or nothing outside of a repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
