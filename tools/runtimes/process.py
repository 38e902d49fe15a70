"""A process that runs models of files in a runtime that the tools installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

from jax2onnx import _runtimes
from jax2onnx._runtimes import RefusalError, prepare

from .installed import Runtime

__all__ = ["SECONDS", "Process", "RefusalError"]

SECONDS = 120


class Process:
    """Runs one model after the other."""

    def __init__(self, runtime: Runtime, seconds: int = SECONDS) -> None:
        self.runtime = runtime
        self._process = _runtimes.Process(runtime.started(), seconds)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.__exit__()

    @property
    def fallback(self) -> list[str] | None:
        """The operators of the last model that stayed on the CPU, if the runtime has a GPU."""
        return self._process.fallback

    def run(self, model: Path, inputs: Sequence[np.ndarray], folder: Path) -> list[np.ndarray]:
        """Returns the results of a model, in order.

        Raises:
            RefusalError: With the words of the runtime.
        """
        data = model.read_bytes()
        graph = onnx.load_from_string(data).graph
        prepare(data, [value.name for value in graph.output], folder)
        names = [value.name for value in graph.input]
        return self._process.run(folder, dict(zip(names, inputs, strict=True)))
