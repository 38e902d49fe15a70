"""A process that runs models in one runtime, and is started again if a model ends it."""

from __future__ import annotations

import json
import selectors
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from .installed import Runtime

SECONDS: Final = 120


class RefusalError(Exception):
    """The runtime refused a model, ended its process, or took too long."""

    def __init__(self, said: str, log: str = "") -> None:
        super().__init__(said)
        #: What the runtime printed, and what a program shows that does not catch its error.
        self.log = log


class Process:
    """Runs one model after the other."""

    def __init__(self, runtime: Runtime, seconds: int = SECONDS) -> None:
        self.runtime = runtime
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self._read = 0

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._errors.close()

    def run(self, model: Path, inputs: Sequence[np.ndarray], folder: Path) -> list[np.ndarray]:
        """Returns the results of a model, in order.

        Raises:
            RefusalError: With the words of the runtime.
        """
        write(model, inputs, folder)
        answer = self._ask(folder)
        if "error" in answer:
            raise RefusalError(answer["error"], self._printed() + answer.get("log", ""))
        return [
            np.fromfile(folder / f"output_{i}.bin", one["dtype"]).reshape(one["shape"])
            for i, one in enumerate(answer["outputs"])
        ]

    def _ask(self, folder: Path) -> dict[str, Any]:
        process = self._process or self._start()
        self._printed()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{folder}\n")
        process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(self._seconds):
                self._stop()
                raise RefusalError(f"no answer in {self._seconds} seconds")
        for line in process.stdout:
            # Some runtimes print when they are imported.
            if line.startswith("{"):
                return json.loads(line)
        code = process.wait()
        self._process = None
        said = self._printed()[-2000:].strip()
        raise RefusalError(f"the process ended with code {code}: {said}", said)

    def _printed(self) -> str:
        """Returns what the runtime printed since the last call."""
        self._errors.seek(self._read)
        printed = self._errors.read()
        self._read = self._errors.tell()
        return printed

    def _start(self) -> subprocess.Popen[str]:
        self._errors.seek(0)
        self._errors.truncate()
        self._read = 0
        self._process = subprocess.Popen(
            self.runtime.command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=self.runtime.environment(),
            text=True,
        )
        return self._process

    def _stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None


def write(model: Path, inputs: Sequence[np.ndarray], folder: Path) -> None:
    """Writes a model and its inputs as `workers/frame.py` reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    data = model.read_bytes()
    (folder / "model.onnx").write_bytes(data)
    graph = onnx.load_from_string(data).graph
    described = []
    for i, (value, array) in enumerate(zip(graph.input, inputs, strict=True)):
        np.ascontiguousarray(array).tofile(folder / f"input_{i}.bin")
        described.append({"name": value.name, "dtype": array.dtype.name, "shape": array.shape})
    (folder / "inputs.json").write_text(json.dumps(described))
    (folder / "outputs.json").write_text(json.dumps([value.name for value in graph.output]))
