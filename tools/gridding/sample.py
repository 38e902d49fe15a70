"""A part of the grid that changes with the commit, so that all of it is seen over time."""

from __future__ import annotations

import os
import subprocess
import zlib
from pathlib import Path

from .functions import candidates
from .types import TYPES

#: Functions with long loops, which take JAX seconds; `make grid` alone runs them.
SLOW = frozenset(
    (
        *("beta", "betainc", "betaln", "comb", "dawsn", "erfcx", "exp1", "expi", "expn", "fresnel"),
        *("gammainc", "gammaincc", "hyp1f1", "igamma", "igamma_grad_a", "igammac", "owens_t"),
        *("poch", "polygamma", "sici", "spence", "wofz", "zeta"),
    )
)
#: Overrides the commit that the sample depends on.
VARIABLE = "JAX2ONNX_TEST_SEED"


def cells(count: int) -> list[tuple[str, str]]:
    """Returns that many pairs of a function and a type, the same ones for the same commit."""
    seed = os.environ.get(VARIABLE) or _commit()
    names = [name for name in candidates() if _function(name) not in SLOW]
    every = [(name, kind) for name in names for kind in TYPES]
    return sorted(sorted(every, key=lambda pair: _hash(seed, *pair))[:count])


def _function(name: str) -> str:
    """Returns the last part of a name, without arguments."""
    return name.partition("(")[0].rpartition(".")[2]


def _hash(*parts: str) -> int:
    return zlib.crc32("\n".join(parts).encode())


def _commit() -> str:
    """Returns the commit of the working tree, or nothing outside of a repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
