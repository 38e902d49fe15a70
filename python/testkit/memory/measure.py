"""Starts a process that runs a model and counts what it allocates."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def can_measure() -> bool:
    """True if this system can count allocations: the C library must be that of GNU."""
    library = os.confstr("CS_GNU_LIBC_VERSION") if sys.platform == "linux" else None
    has_gnu = library is not None and "glibc" in library
    return has_gnu and shutil.which("cc") is not None


def build_counter(folder: Path) -> Path:
    library = folder / "allocations.so"
    source = str(HERE / "allocations.c")
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), source]
    subprocess.run(command, check=True)
    return library


def most_allocated(counter: Path, model: Path, inputs: Path) -> int:
    """Return the largest number of bytes that a run allocates at the same time."""
    command = [sys.executable, str(HERE / "worker.py"), str(model), str(inputs)]
    environment = os.environ | {"LD_PRELOAD": str(counter)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return int(ran.stdout)
