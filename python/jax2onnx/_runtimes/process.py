"""A process that runs models in one runtime, and is started again if a model ends it."""

import contextlib
import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

#: How long a runtime may take to load and run one model.
SECONDS: Final = 120


class RefusalError(Exception):
    """The runtime refused a model, ended its process, or took too long. Contains its words.

    Attributes:
        log: What the runtime printed, and what a program shows that does not catch its error.
    """

    def __init__(self, said: str, log: str = "") -> None:
        """Refuse with the words of the runtime."""
        super().__init__(said)
        self.log = log


class StartError(RefusalError):
    """The process of a runtime cannot be started."""


@dataclass(frozen=True)
class Started:
    """The command that starts a process that serves a runtime.

    Attributes:
        name: The name as the user writes it.
        title: The name in messages.
        command: The command. `serve.py` describes what the process reads and writes.
        environment: Variables that differ from those of this process; None removes one.
        install: What to do if the runtime is missing.
    """

    name: str
    title: str
    command: tuple[str, ...]
    environment: Mapping[str, str | None] = field(default_factory=dict)
    install: str = ""


class Process:
    """Runs one model after the other.

    Attributes:
        fallback: The operators of the last model that stayed on the CPU; `None` if the runtime does
            not run models on a GPU.
    """

    def __init__(self, started: Started, seconds: float = SECONDS) -> None:
        """Prepare the process. The first model starts it."""
        self.started = started
        self.fallback: list[str] | None = None
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None
        self._read = 0
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115

    def __enter__(self) -> "Process":
        """Return the process."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._stop()
        self._errors.close()

    def version(self) -> str:
        """Return the version of the runtime, or an empty text.

        Raises:
            RefusalError: The runtime cannot be started.
        """
        answer = self._ask("")
        if "error" in answer:
            raise RefusalError(answer["error"])
        return str(answer.get("version", ""))

    def run(self, folder: Path, inputs: Mapping[str, Array]) -> list[Array]:
        """Return the results of the model in a folder, in order.

        Args:
            folder: A folder that `prepare` wrote. A folder always contains the same model.
            inputs: The inputs, by name, in the order of the model.

        Raises:
            RefusalError: With the words of the runtime.
        """
        described = []
        for i, (name, array) in enumerate(inputs.items()):
            np.ascontiguousarray(array).tofile(folder / f"input_{i}.bin")
            described.append({"name": name, "dtype": array.dtype.name, "shape": array.shape})
        (folder / "inputs.json").write_text(json.dumps(described), "utf-8")
        answer = self._ask(str(folder))
        if "error" in answer:
            raise RefusalError(answer["error"], self._printed() + answer.get("log", ""))
        self.fallback = answer.get("fallback")
        return [
            np.fromfile(folder / f"output_{i}.bin", _dtype(one["dtype"])).reshape(one["shape"])
            for i, one in enumerate(answer["outputs"])
        ]

    def _ask(self, line: str) -> dict[str, Any]:
        process = self._process or self._start()
        self._printed()
        assert process.stdin is not None
        # A process that has ended may have answered before.
        with contextlib.suppress(OSError):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
        try:
            text = self._lines.get(timeout=self._seconds)
        except queue.Empty:
            self._stop()
            raise RefusalError(f"no answer in {self._seconds:.0f} seconds") from None
        if text:
            try:
                answer: dict[str, Any] = json.loads(text)
            except ValueError:
                answer = {"error": f"the answer is not JSON: {text.strip()[:200]}"}
            return answer
        code = process.wait()
        self._process = None
        said = self._printed()[-2000:].strip()
        why = f"the process ended with code {code}" + (f": {said}" if said else "")
        raise RefusalError(why, said)

    def _printed(self) -> str:
        """Return what the runtime printed since the last call."""
        self._errors.seek(self._read)
        printed = self._errors.read()
        self._read = self._errors.tell()
        return printed

    def _start(self) -> "subprocess.Popen[str]":
        self._errors.seek(0)
        self._errors.truncate()
        self._read = 0
        # Several threads on few cores wait for each other more than they compute.
        wanted = {**os.environ, "OMP_NUM_THREADS": "1", **self.started.environment}
        try:
            process = subprocess.Popen(
                self.started.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={name: value for name, value in wanted.items() if value is not None},
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise StartError(f"{self.started.command[0]}: {error.strerror}") from error
        self._process, self._lines = process, queue.SimpleQueue()
        threading.Thread(target=_listen, args=(process, self._lines), daemon=True).start()
        return process

    def _stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None


def _listen(process: "subprocess.Popen[str]", lines: "queue.SimpleQueue[str]") -> None:
    """Pass on the answers of a process, and an empty text at its end."""
    assert process.stdout is not None
    for line in process.stdout:
        # Some runtimes print when they are imported.
        if line.startswith("{"):
            lines.put(line)
    lines.put("")


def prepare(model: bytes, outputs: Sequence[str], folder: Path) -> None:
    """Write a model into a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    if not path.exists() or path.read_bytes() != model:
        # A process keeps a model whose file does not change.
        path.write_bytes(model)
    (folder / "outputs.json").write_text(json.dumps(list(outputs)), "utf-8")


def _dtype(name: str) -> np.dtype[Any]:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))
