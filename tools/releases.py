"""The releases of ONNX Runtime that every model runs in by default, and how a tool gets them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: The first release of each version, the oldest first. The oldest is the first that loads the
#: default opset. To promise a new version, add a line and run `tools/generate_kernels.py`.
RELEASES = (
    "1.23.2",
    "1.24.1",
    "1.25.0",
    "1.26.0",
    "1.27.0",
    "1.28.0",
    "1.29.0",
    "1.30.0",
    "1.31.0",
)


#: The runtimes, each in a folder named after its version.
FOLDER = ROOT / ".venvs" / "runtimes"


def installed(version: str = "") -> Path:
    """Install a release below .venvs, or the newest one, and return its folder."""
    folder = FOLDER / f"onnxruntime-{version or 'newest'}"
    if not version:
        shutil.rmtree(folder, ignore_errors=True)
    install(folder, [f"onnxruntime=={version}" if version else "onnxruntime"])
    return folder


def install(folder: Path, packages: list[str]) -> None:
    """Install Python packages in a folder, without their dependencies, unless it exists."""
    if not folder.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        partial = folder.with_name(f"{folder.name}.partial")
        subprocess.run([*pip, "--no-deps", "--upgrade", "--target", partial, *packages], check=True)
        partial.rename(folder)


def environment(folder: Path) -> dict[str, str]:
    """The environment in which Python imports the release of a folder in place of its own."""
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
