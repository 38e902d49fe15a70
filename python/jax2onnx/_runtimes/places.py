"""Find the runtime that a user names."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from .._errors import ConfigError
from .._words import did_you_mean, quoted
from .process import Process, RefusalError, Started, StartError

_HERE: Final = Path(__file__).resolve().parent
#: The program that runs tract and rten; see `tools/runtimes/native`.
PROGRAM: Final = "jax2onnx-runtimes"


class _Known(NamedTuple):
    #: The name in messages.
    title: str
    #: What starts it: `"python"`, `"node"` or `"program"`.
    kind: str
    #: The module of Python.
    module: str = ""
    #: The packages to install.
    packages: str = ""


_KNOWN: Final = {
    "onnxruntime": _Known("ONNX Runtime", "python", "onnxruntime", "onnxruntime"),
    "onnxruntime-cuda": _Known(
        "ONNX Runtime with CUDA", "python", "onnxruntime", "onnxruntime-gpu"
    ),
    "onnxruntime-web": _Known("onnxruntime-web", "node"),
    "onnxruntime-node": _Known("onnxruntime-node", "node"),
    "openvino": _Known("OpenVINO", "python", "openvino", "openvino"),
    "onnx.reference": _Known("onnx.reference", "python", "onnx", "onnx"),
    "tract": _Known("tract", "program"),
    "rten": _Known("rten", "program"),
    "iree": _Known("IREE", "python", "iree", "iree-base-compiler iree-base-runtime"),
    "mnn": _Known("MNN", "python", "MNN", "MNN"),
}
_ALIASES: Final = {"onnx-reference": "onnx.reference", "reference": "onnx.reference"}
NAMES: Final = tuple(_KNOWN)


def split(text: str) -> tuple[str, str | None]:
    """Return the name of a runtime and its place: `openvino@.venv` is `openvino` at `.venv`.

    Raises:
        ConfigError: There is no runtime of this name.
    """
    name, at, place = text.partition("@")
    name = _ALIASES.get(name, name)
    if name in _KNOWN or (at and place and _is_name(name)):
        return name, place or None
    plain, equals, version = name.partition("==")
    if equals and _KNOWN.get(plain, ("", ""))[1] == "python":
        raise ConfigError(
            f"cannot choose a version of {plain} by its number: install it with `pip install "
            f"--target FOLDER {plain}=={version}`, and name it as `{plain}@FOLDER`"
        )
    if os.sep in text or os.path.exists(text):
        raise ConfigError(
            f"{quoted(text)} is a path: name the runtime, too, as in `onnxruntime@{text}`"
        )
    hint = did_you_mean(name, NAMES, ": ") or f": jax2onnx knows {', '.join(NAMES)}"
    raise ConfigError(f"there is no runtime {quoted(name)}{hint}")


def _is_name(name: str) -> bool:
    return bool(name) and all(each.isalnum() or each in "._-" for each in name)


def started(text: str, providers: Sequence[str] = ()) -> Started:
    """Return how to start a runtime: `NAME`, or `NAME@PLACE`.

    The place of a runtime for Python is an interpreter, a virtual environment, or a folder that
    `pip install --target` filled; for node, a folder with `node_modules`; otherwise, a program. A
    name that jax2onnx does not know needs a program.

    Raises:
        ConfigError: There is no such runtime or place.
    """
    name, place = split(text)
    known = _KNOWN.get(name, _Known(name, "program"))
    if place is not None and not os.path.exists(place):
        raise ConfigError(f"there is no {quoted(place)}, where {known.title} should be")
    if known.kind == "python":
        return _of_python(name, known, place, providers)
    if known.kind == "node":
        return _of_node(name, known, place)
    return _of_program(name, known, place)


def _of_python(name: str, known: _Known, place: str | None, providers: Sequence[str]) -> Started:
    serve = (str(_HERE / "serve.py"), name, *providers)
    install = f"pip install {known.packages}"
    if place is None:
        if importlib.util.find_spec(known.module) is None:
            raise ConfigError(
                f"{known.title} is not installed: {install}, or name its place, as in "
                f"`{name}@FOLDER`"
            )
        return Started(name, known.title, (sys.executable, *serve), {}, install)
    python = _interpreter(place)
    if python is not None:
        # The packages of this interpreter do not fit another one.
        return Started(
            name, known.title, (python, *serve), {"PYTHONPATH": None}, f"{python} -m {install}"
        )
    if not os.path.isdir(place):
        raise ConfigError(
            f"{quoted(place)} is neither a Python interpreter nor a folder with {known.title}"
        )
    others = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([os.path.abspath(place), *([others] if others else [])])
    install = f"pip install --target {place} {known.packages}"
    return Started(name, known.title, (sys.executable, *serve), {"PYTHONPATH": path}, install)


def _interpreter(place: str) -> str | None:
    """Return the interpreter at a place: the place itself, or that of a virtual environment."""
    if os.path.isfile(place):
        return os.path.abspath(place) if os.access(place, os.X_OK) else None
    inside = (os.path.join(place, *each) for each in (("bin", "python"), ("Scripts", "python.exe")))
    return next((os.path.abspath(each) for each in inside if os.path.isfile(each)), None)


def _of_node(name: str, known: _Known, place: str | None) -> Started:
    node = shutil.which("node")
    if node is None:
        raise ConfigError(f"{known.title} needs node, which is not on the PATH")
    folder = os.path.abspath(place or os.curdir)
    install = f"npm install --prefix {place or os.curdir} {name}"
    return Started(name, known.title, (node, str(_HERE / "serve.mjs"), name, folder), {}, install)


def _of_program(name: str, known: _Known, place: str | None) -> Started:
    program = shutil.which(PROGRAM) if place is None else os.path.abspath(place)
    if program is None:
        raise ConfigError(
            f"{known.title} needs the program {quoted(PROGRAM)}, which is not on the PATH: build "
            "it with `cargo install --path tools/runtimes/native` in the repository of jax2onnx, "
            f"or name its place, as in `{name}@PROGRAM`"
        )
    return Started(name, known.title, (program, name))


def checked(process: Process) -> str:
    """Start a runtime, and return its name with its version.

    Raises:
        ConfigError: The runtime cannot be started.
    """
    started = process.started
    try:
        version = process.version()
    except RefusalError as error:
        is_program = started.name not in _KNOWN or _KNOWN[started.name].kind == "program"
        if is_program and not isinstance(error, StartError):
            # A program need not know its version.
            return started.title
        said = str(error).strip().splitlines()
        raise ConfigError(
            f"{started.title} cannot be started: {said[0] if said else 'it ended'}"
            + (f"; to install it: {started.install}" if started.install else "")
        ) from error
    # OpenVINO appends the build.
    return f"{started.title} {version.partition('-')[0]}".strip()
