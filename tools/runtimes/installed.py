"""Installs runtimes below .venvs, each in a folder of its own, and starts them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import releases
from releases import FOLDER

from jax2onnx._runtimes import PROGRAM, Started, started

NATIVE: Final = Path(__file__).resolve().parent / "native"


@dataclass(frozen=True)
class Runtime:
    """A runtime of one version.

    Attributes:
        install: Installs it, unless it is installed.
        place: Where it is, as in `jax2onnx.compare(..., runtime="openvino@PLACE")`.
    """

    name: str
    version: str
    install: Callable[[], None]
    place: Path | None = None

    @property
    def spelling(self) -> str:
        """The runtime as an argument of `jax2onnx.compare`."""
        return self.name if self.place is None else f"{self.name}@{self.place}"

    def started(self) -> Started:
        """Returns how to start a process that serves it."""
        return started(self.spelling)


def _of_python(name: str, version: str, packages: list[str]) -> Runtime:
    folder = FOLDER / f"{name}-{version}"

    def install() -> None:
        releases.install(folder, [f"{package}=={version}" for package in packages])

    return Runtime(name, version, install, folder)


def _of_node(name: str, version: str) -> Runtime:
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

    return Runtime(name, version, install, folder)


def _of_rust(name: str, version: str) -> Runtime:
    target = FOLDER / "native"

    def install() -> None:
        build = ["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", str(target)]
        subprocess.run(build, cwd=NATIVE, check=True)

    return Runtime(name, version, install, target / "release" / PROGRAM)


def runtimes() -> list[Runtime]:
    """Returns every runtime that the matrix is about. Those for GPUs need one."""
    versions = ["1.23.2", "1.26.0", "1.30.0", "1.31.1"]
    onnxruntimes = [_of_python("onnxruntime", v, ["onnxruntime"]) for v in versions]
    iree = ["iree-base-compiler", "iree-base-runtime"]
    found = [
        *onnxruntimes,
        _of_node("onnxruntime-node", "1.30.0"),
        _of_node("onnxruntime-web", "1.30.0"),
        _of_python("openvino", "2026.4.1", ["openvino"]),
        _of_rust("tract", "0.23.9"),
        _of_rust("rten", "0.27.0"),
        _of_python("iree", "3.13.0", iree),
        _of_python("mnn", "3.6.1", ["MNN"]),
        _of_python("onnxruntime-cuda", "1.31.1", ["onnxruntime-gpu"]),
        Runtime("reference", "", lambda: None),
    ]
    needs = {"node": "node", "web": "node", "cuda": "nvidia-smi"}
    programs = [(each, needs.get(each.name.rpartition("-")[2])) for each in found]
    return [each for each, program in programs if program is None or shutil.which(program)]
