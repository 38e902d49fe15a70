"""Installs runtimes below .venvs, each in a folder of its own, and starts them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".venvs" / "runtimes"
WORKERS: Final = Path(__file__).resolve().parent / "workers"
NATIVE: Final = Path(__file__).resolve().parent / "native"


@dataclass(frozen=True)
class Runtime:
    """A runtime of one version, and how to start a process that serves it."""

    name: str
    version: str
    install: Callable[[], None]
    command: Callable[[], list[str]]
    packages: Path | None = None

    def environment(self) -> dict[str, str]:
        """Returns the environment of its process."""
        path = [str(self.packages)] if self.packages else []
        return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}


def _of_python(name: str, version: str, worker: str, packages: list[str]) -> Runtime:
    folder = FOLDER / f"{name}-{version}"

    def install() -> None:
        if packages and not folder.exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            wanted = [f"{package}=={version}" for package in packages]
            partial = folder.with_suffix(".partial")
            subprocess.run([*pip, "--no-deps", "--target", partial, *wanted], check=True)
            partial.rename(folder)

    def command() -> list[str]:
        return [sys.executable, str(WORKERS / worker)]

    return Runtime(name, version, install, command, folder if packages else None)


def _of_node(name: str, version: str, kind: str) -> Runtime:
    folder = FOLDER / f"{name}-{version}"

    def install() -> None:
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            partial.mkdir(parents=True, exist_ok=True)
            # The script that runs after an installation downloads libraries for GPUs.
            quiet = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
            npm = ["npm", "install", *quiet, "--prefix", str(partial), f"{name}@{version}"]
            subprocess.run(npm, check=True)
            partial.rename(folder)

    def command() -> list[str]:
        return ["node", str(WORKERS / "web.mjs"), kind, str(folder / "node_modules")]

    return Runtime(name, version, install, command)


def _of_rust(name: str, version: str) -> Runtime:
    target = FOLDER / "native"

    def install() -> None:
        build = ["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", str(target)]
        subprocess.run(build, cwd=NATIVE, check=True)

    def command() -> list[str]:
        return [str(target / "release" / "runtimes"), name]

    return Runtime(name, version, install, command)


def runtimes() -> list[Runtime]:
    """Returns every runtime that the matrix is about, except those that need a GPU."""
    versions = ["1.23.2", "1.26.0", "1.30.0", "1.31.1"]
    onnxruntimes = [
        _of_python("onnxruntime", v, "onnxruntime_.py", ["onnxruntime"]) for v in versions
    ]
    iree = ["iree-base-compiler", "iree-base-runtime"]
    found = [
        *onnxruntimes,
        _of_node("onnxruntime-node", "1.30.0", "node"),
        _of_node("onnxruntime-web", "1.30.0", "web"),
        _of_python("openvino", "2026.4.1", "openvino_.py", ["openvino"]),
        _of_rust("tract", "0.23.9"),
        _of_rust("rten", "0.27.0"),
        _of_python("iree", "3.13.0", "iree_.py", iree),
        _of_python("mnn", "3.6.1", "mnn_.py", ["MNN"]),
        _of_python("reference", "", "reference.py", []),
    ]
    return [
        each for each in found if not each.name.endswith(("node", "web")) or shutil.which("node")
    ]
