"""Run the end-to-end tests with the oldest and the newest supported JAX.

    python tools/test_jax_versions.py

Each version gets its own environment in .venvs. The newest JAX needs a newer Python than 3.11:
python3.12 or later on the PATH, or the interpreter that JAX2ONNX_NEWER_PYTHON names. If there is
none, the tool says that it skips this version.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: JAX, and what was current with it.
OLDEST = ["jax==0.6.0", "jaxlib==0.6.0", "numpy==2.2.6"]
TOOLS = [
    "absl-py",
    "maturin==1.16.0",
    "ml_dtypes",
    "onnx==1.23.2",
    "onnxruntime==1.31.1",
    "pytest==9.2.0",
]
TESTS = [f"python/tests/test_{name}.py" for name in ("versions", "reader", "config", "allclose")]


def main() -> None:
    run("oldest", sys.executable, OLDEST)
    run("newest", sys.executable, ["jax", "jaxlib"])
    newer = newer_python()
    if newer:
        run("newer-python", newer, ["jax", "jaxlib"])
    else:
        print("no Python newer than 3.11 found: skipping the JAX that needs one")


def newer_python() -> str | None:
    named = os.environ.get("JAX2ONNX_NEWER_PYTHON")
    candidates = [named] if named else ["python3.14", "python3.13", "python3.12"]
    for candidate in candidates:
        found = shutil.which(candidate)
        if found and subprocess.run([found, "--version"], capture_output=True).returncode == 0:
            return found
    return None


def run(name: str, python: str, packages: list[str]) -> None:
    folder = ROOT / ".venvs" / name
    own = folder / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", folder], check=True)
    install = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *packages, *TOOLS], check=True)
    env = {**os.environ, "VIRTUAL_ENV": str(folder)}
    subprocess.run(
        [folder / "bin" / "maturin", "develop", "--release", "--quiet"],
        check=True,
        cwd=ROOT,
        env=env,
    )
    show = "import jax, sys; print(f'JAX {jax.__version__} on Python {sys.version.split()[0]}')"
    subprocess.run([own, "-c", show], check=True)
    subprocess.run([own, "-m", "pytest", "-q", *TESTS], check=True, cwd=ROOT, env=env)


if __name__ == "__main__":
    main()
