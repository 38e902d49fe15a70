"""Run the end-to-end tests with the oldest and the newest supported JAX.

    python tools/test_jax_versions.py            run them with both
    python tools/test_jax_versions.py newest     run them with one

Each JAX has its own environment in .venvs, with the versions of flax, equinox and haiku that go
with it. Both use the module that `make build` compiled, because one binary serves every Python.
The oldest JAX runs on this Python, the newest one on the newest Python on the PATH, or on the
interpreter that JAX2ONNX_NEWER_PYTHON names.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: JAX, and the libraries that were current with it.
OLDEST = ["jax==0.6.0", "jaxlib==0.6.0", "numpy==2.2.6", "flax==0.10.7"]
NEWEST = ["jax", "jaxlib", "flax"]
PACKAGES = [
    "absl-py",
    "dm-haiku",
    "dm-pix",
    "einops",
    "equinox",
    "ml_dtypes",
    "onnx==1.23.2",
    "onnx-ir==1.1.0",
    "onnxruntime==1.31.1",
    "optax",
    "pytest==9.2.0",
    "pytest-xdist==3.8.0",
]


def of(folder: str, names: str) -> list[str]:
    """The files of tests in a folder."""
    return [f"python/tests/{folder}/test_{name}.py" for name in names.split()]


#: Tests that compare models with JAX in ONNX Runtime, and tests of what reads JAX's own classes.
TESTS = [
    *of("comparing", "allclose"),
    *of("errors", "silent_mistakes"),
    *of("export", "arguments config functions pytrees reader versions weights"),
    *of("numbers", "cases edges empty exact_values linalg networks opsets positive programs"),
    *of("numbers", "sort_random symbolic symbolic_index symbolic_window"),
    *of("passes", "idioms_attention idioms_convolution idioms_layers idioms_products"),
    *of("passes", "idioms_rotary idioms_small idioms_sums loops nan"),
]

#: Tests of what a newer Python does differently: it reports calls with `sys.monitoring`.
NEWEST_TESTS = [
    *of("errors", "training_mode"),
    *of("process", "process"),
    *of("provenance", "module_calls scope_paths scopes"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", nargs="?", choices=["oldest", "newest"], help="run only this")
    version = parser.parse_args().version
    if version != "newest":
        run("oldest", sys.executable, OLDEST, TESTS)
    if version != "oldest":
        run("newest", newest_python(), NEWEST, [*TESTS, *NEWEST_TESTS])


def newest_python() -> str:
    named = os.environ.get("JAX2ONNX_NEWER_PYTHON")
    candidates = [named] if named else ["python3.14", "python3.13", "python3.12"]
    for candidate in candidates:
        found = shutil.which(candidate)
        if found and subprocess.run([found, "--version"], capture_output=True).returncode == 0:
            return found
    print("no Python newer than this one found: using the newest JAX for this one")
    return sys.executable


def run(name: str, python: str, packages: list[str], tests: list[str]) -> None:
    folder = ROOT / ".venvs" / name
    own = folder / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", folder], check=True)
    install = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *packages, *PACKAGES], check=True)
    env = {**os.environ, "VIRTUAL_ENV": str(folder), "PYTHONPATH": str(ROOT / "python")}
    show = "import jax, sys; print(f'JAX {jax.__version__} on Python {sys.version.split()[0]}')"
    subprocess.run([own, "-c", show], check=True)
    options = ["-q", "-n", "2", "--dist", "worksteal"]
    subprocess.run([own, "-m", "pytest", *options, *tests], check=True, cwd=ROOT, env=env)


if __name__ == "__main__":
    main()
